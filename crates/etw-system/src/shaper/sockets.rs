//! Connections, and what sockets send and receive.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::Shaper;
use crate::flags::Flag;
use crate::neutral::{Addresses, Listening, NeutralEvent};
use crate::record::{Head, Payload, Records};

/// Sockets that are remembered; only damage makes more.
const LIMIT: usize = 1 << 16;
/// Connections with both sides closed that are remembered.
const MAX_CLOSED: usize = 1 << 10;
/// Processes that have one listening socket.
const MAX_LISTENERS: usize = 256;
const PROTOCOL_UDP: u8 = 17;

/// Types of TcpIp events.
const CONNECT: u16 = 0x0c;
const DISCONNECT: u16 = 0x0d;
const ACCEPT: u16 = 0x0f;

const ESTABLISHED: u32 = 1;
const SYN_SENT: u32 = 2;
const SYN_RECEIVED: u32 = 3;
const FIN_WAIT_1: u32 = 4;
const CLOSED: u32 = 7;
const CLOSE_WAIT: u32 = 8;
const LAST_ACK: u32 = 9;
const LISTENING: u32 = 10;

/// Connections and listeners that began and did not end.
#[derive(Clone, Debug, Default)]
pub(super) struct Sockets {
    connections: HashMap<u64, Connection>,
    /// By the process that closed them.
    closing: BTreeSet<(u32, u64)>,
    /// Sockets of connections whose sides are both closed, in the order of their ends. A program that has only ended its own sending may still
    /// receive what the other side sent before. A newer connection may have the socket.
    closed: VecDeque<u64>,
    listeners: HashMap<Listening, Vec<Listener>>,
    /// Where a process listens.
    listening: HashMap<u32, Vec<Listening>>,
}

/// A process that has a socket which listens: the one that made it, then its children.
#[derive(Clone, Copy, Debug)]
struct Listener {
    process: u32,
    /// 0: older than the recording.
    socket: u64,
}

/// A connection.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    process: u32,
    addresses: Addresses,
    /// The process that closed it; 0: none has, or it is not known.
    closed_by: u32,
    /// The process asked for it.
    is_asked: bool,
    /// The process ended before it: it has its Disconnect.
    is_told: bool,
    /// Both sides are closed.
    is_closed: bool,
}

#[cfg(test)]
impl Sockets {
    pub fn remembered(&self) -> [(&'static str, usize); 5] {
        [
            ("connections", self.connections.len()),
            ("closing connections", self.closing.len()),
            ("closed connections", self.closed.len()),
            ("places of listeners", self.listeners.len()),
            ("processes that listen", self.listening.len()),
        ]
    }
}

impl Sockets {
    fn connection(&mut self, socket: u64) -> &mut Connection {
        if self.connections.len() >= LIMIT {
            self.connections.clear();
            self.closing.clear();
            self.closed.clear();
        }
        self.connections.entry(socket).or_default()
    }

    fn remove(&mut self, socket: u64) -> Connection {
        let one = self.connections.remove(&socket).unwrap_or_default();
        self.closing.remove(&(one.closed_by, socket));
        one
    }

    fn remove_closed(&mut self, socket: u64) {
        if self.connections.get(&socket).is_some_and(|one| one.is_closed) {
            self.remove(socket);
        }
    }

    /// Both sides of a connection are closed. If a process that lives closed it first, it may still receive.
    fn close(&mut self, socket: u64) {
        match self.connections.get_mut(&socket) {
            Some(one) if one.closed_by != 0 && !one.is_told => one.is_closed = true,
            _ => {
                self.remove(socket);
                return;
            }
        }
        if self.closed.len() >= MAX_CLOSED {
            self.closed.pop_front().into_iter().for_each(|oldest| self.remove_closed(oldest));
        }
        self.closed.push_back(socket);
    }

    /// A process has a socket that listens.
    pub fn listen(&mut self, process: u32, at: Listening, socket: u64) {
        if self.listeners.len() >= LIMIT || self.listening.len() >= LIMIT {
            self.listeners.clear();
            self.listening.clear();
        }
        let all = self.listeners.entry(at).or_default();
        let is_known = all.iter().any(|one| (one.process, one.socket) == (process, socket));
        if is_known || all.len() >= MAX_LISTENERS {
            return;
        }
        all.push(Listener { process, socket });
        let places = self.listening.entry(process).or_default();
        if !places.contains(&at) {
            places.push(at);
        }
    }

    /// A new process has the listening sockets of its parent.
    pub fn inherit(&mut self, process: u32, parent: u32) {
        let Some(places) = self.listening.get(&parent) else { return };
        for at in places.clone() {
            let of_parent = self.listeners.get(&at).into_iter().flatten();
            let sockets: Vec<u64> =
                of_parent.filter(|one| one.process == parent).map(|one| one.socket).collect();
            sockets.into_iter().for_each(|socket| self.listen(process, at, socket));
        }
    }

    /// The last process that had a listening socket closed it.
    fn close_listener(&mut self, at: Listening, socket: u64) {
        let Some(all) = self.listeners.get_mut(&at) else { return };
        let is_known = all.iter().any(|one| one.socket == socket);
        let socket = if is_known { socket } else { 0 };
        let closed: Vec<u32> =
            all.iter().filter(|one| one.socket == socket).map(|one| one.process).collect();
        all.retain(|one| one.socket != socket);
        let left: Vec<u32> = all.iter().map(|one| one.process).collect();
        if left.is_empty() {
            self.listeners.remove(&at);
        }
        for process in closed.iter().filter(|process| !left.contains(process)) {
            self.forget_place(*process, at);
        }
    }

    fn forget_place(&mut self, process: u32, at: Listening) {
        let Some(places) = self.listening.get_mut(&process) else { return };
        places.retain(|one| *one != at);
        if places.is_empty() {
            self.listening.remove(&process);
        }
    }

    /// A process listens no more: its children may.
    fn end_listening(&mut self, process: u32) {
        for at in self.listening.remove(&process).unwrap_or_default() {
            if let Some(all) = self.listeners.get_mut(&at) {
                all.retain(|one| one.process != process);
                if all.is_empty() {
                    self.listeners.remove(&at);
                }
            }
        }
    }

    /// The process that listens for connections to an address: with this address, or with all.
    fn listener(&self, addresses: &Addresses) -> u32 {
        let at = Listening::of(addresses);
        let any = Listening { address: [0; 16], ..at };
        let all = [at, any].into_iter().find_map(|at| self.listeners.get(&at));
        all.and_then(|all| all.first()).map_or(0, |one| one.process)
    }
}

/// Bytes that a socket sent or received.
#[derive(Clone, Copy)]
pub(super) struct Transferred {
    pub protocol: u8,
    pub is_send: bool,
    pub size: u32,
    pub addresses: Addresses,
}

/// The states of a TCP connection before and after a change.
#[derive(Clone, Copy)]
pub(super) struct StateChange {
    pub old: u32,
    pub new: u32,
}

impl Shaper {
    pub(super) fn transferred(
        &mut self,
        event: &NeutralEvent<'_>,
        socket: u64,
        Transferred { protocol, is_send, size, addresses }: Transferred,
        out: &mut Records,
    ) {
        // Programs in the kernel know a socket's addresses; perf only those of connections whose begin was recorded.
        let known = self.sockets.connections.get(&socket).map(|one| one.addresses);
        let addresses = match known {
            Some(known) if addresses.local_port == 0 => known,
            _ => addresses,
        };
        let process = self.process_of(event.thread).unwrap_or(event.process);
        if protocol != PROTOCOL_UDP {
            self.own_socket(socket, process, &addresses);
        }
        let kind = if is_send { 0x0a } else { 0x0b };
        let group = if protocol == PROTOCOL_UDP { 0x0800 } else { 0x0600 };
        let one = Connection { process, addresses, ..Connection::default() };
        let milliseconds = (event.time / 1_000_000) as u32;
        let times = (is_send && protocol != PROTOCOL_UDP).then_some(milliseconds);
        let head = self.head(event);
        self.network_record(head, group | kind, (socket, &one), (size, times), out);
    }

    /// A process uses a connection: its end is that of the process that used it last. A server's child has it from the listener.
    fn own_socket(&mut self, socket: u64, process: u32, addresses: &Addresses) {
        let one = self.sockets.connection(socket);
        if one.process == 0 {
            one.addresses = *addresses;
        }
        if process != 0 {
            one.process = process;
        }
    }

    pub(super) fn socket_changed(
        &mut self,
        event: &NeutralEvent<'_>,
        socket: u64,
        StateChange { old, new }: StateChange,
        addresses: &Addresses,
        out: &mut Records,
    ) {
        let head = self.head(event);
        // The kernel has given the memory of a closed socket to another one.
        self.sockets.remove_closed(socket);
        match (old, new) {
            (_, LISTENING) => {
                return self.sockets.listen(head.process, Listening::of(addresses), socket);
            }
            (LISTENING, CLOSED) => {
                return self.sockets.close_listener(Listening::of(addresses), socket);
            }
            _ => {}
        }
        let listener = self.sockets.listener(addresses);
        let one = self.sockets.connection(socket);
        one.addresses = *addresses;
        // Only these changes happen in the process that the connection belongs to.
        match (old, new) {
            (ESTABLISHED, FIN_WAIT_1) | (CLOSE_WAIT, LAST_ACK) => {
                if head.process != 0 {
                    one.process = head.process;
                }
                one.closed_by = one.process;
                let key = (one.closed_by, socket);
                self.sockets.closing.insert(key);
                return;
            }
            (_, SYN_SENT) => {
                (one.process, one.is_asked) = (head.process, true);
                return;
            }
            (SYN_RECEIVED, ESTABLISHED) if !one.is_asked => one.process = listener,
            _ => {}
        }
        let one = *one;
        let kind = match (old, new) {
            (SYN_SENT, ESTABLISHED) => CONNECT,
            // Both sides asked at once, or a socket is connected to itself.
            (SYN_RECEIVED, ESTABLISHED) if one.is_asked => CONNECT,
            (SYN_RECEIVED, ESTABLISHED) => ACCEPT,
            (SYN_SENT, CLOSED) => {
                self.sockets.remove(socket);
                return self.connection_failed(head, addresses, out);
            }
            (_, CLOSED) => {
                self.sockets.close(socket);
                DISCONNECT
            }
            _ => return,
        };
        if !one.is_told {
            self.network_record(head, 0x0600 | kind, (socket, &one), (0, None), out);
        }
    }

    /// A process ends before the other sides of its connections have closed them: they are disconnected in its life.
    pub(super) fn sockets_of_process_end(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        out: &mut Records,
    ) {
        self.sockets.end_listening(process);
        let of_process = (process, 0)..=(process, u64::MAX);
        let closing: Vec<(u32, u64)> = self.sockets.closing.range(of_process).copied().collect();
        let head = self.head(event);
        for key in closing {
            self.sockets.closing.remove(&key);
            self.sockets.remove_closed(key.1);
            let Some(one) = self.sockets.connections.get_mut(&key.1) else { continue };
            one.is_told = true;
            let one = *one;
            self.network_record(head, 0x0600 | DISCONNECT, (key.1, &one), (0, None), out);
        }
    }

    /// Nobody answered, or the other side refused.
    fn connection_failed(&self, head: Head, addresses: &Addresses, out: &mut Records) {
        /// Windows' numbers of the address families, and of all reasons that it has no code for.
        const INET: u16 = 2;
        const INET6: u16 = 23;
        const OTHER_REASON: u16 = 5;
        if self.has(Flag::NETWORK) {
            let family = if addresses.is_v6 { INET6 } else { INET };
            out.perf_info(head, 0x0611, 2, &Payload::new().u16(family).u16(OTHER_REASON));
        }
    }

    pub(super) fn retransmitted(
        &mut self,
        event: &NeutralEvent<'_>,
        socket: u64,
        addresses: &Addresses,
        out: &mut Records,
    ) {
        // The process of a connection that it left to the kernel has ended.
        let known = self.sockets.connections.get(&socket).filter(|one| !one.is_told);
        let process = known.map_or(0, |one| one.process);
        let one = Connection { process, addresses: *addresses, ..Connection::default() };
        let head = self.head(event);
        self.network_record(head, 0x060e, (socket, &one), (0, None), out);
    }

    /// `hook`: that of version 4. `times`: of a TCP send, in milliseconds.
    fn network_record(
        &mut self,
        head: Head,
        hook: u16,
        (id, socket): (u64, &Connection),
        (size, times): (u32, Option<u32>),
        out: &mut Records,
    ) {
        if !self.has(Flag::NETWORK) {
            return;
        }
        let Addresses { is_v6, local, remote, local_port, remote_port } = socket.addresses;
        let (hook, length) = if is_v6 { (hook + 0x10, 16) } else { (hook, 4) };
        let mut payload = Payload::new()
            .u32(socket.process)
            .u32(size)
            .bytes(&remote[..length])
            .bytes(&local[..length])
            .bytes(&remote_port.to_be_bytes())
            .bytes(&local_port.to_be_bytes());
        if let Some(times) = times {
            payload = payload.u32(times).u32(times);
        }
        if matches!(hook & 0xef, CONNECT | ACCEPT) {
            // Options, window and scales of a new connection.
            payload = payload.u64(0).u32(0).u32(0);
        }
        out.perf_info(head, hook, 2, &payload.u32(0).u64(id));
    }
}
