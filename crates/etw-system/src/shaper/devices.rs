//! Interrupts and networks.

use std::collections::HashMap;

use super::{Shaper, ticks};
use crate::flags::Flag;
use crate::neutral::{Addresses, NeutralEvent};
use crate::record::{Head, Payload, Records};

const ISR: u16 = 0x0f43;
const DPC: u16 = 0x0f44;
const TIMER_DPC: u16 = 0x0f45;
/// Soft interrupts of timers.
const TIMER_VECTORS: [u32; 2] = [1, 8];
/// The addresses that stand for lines of interrupts, which have no routine of their own.
pub(crate) const INTERRUPT_LINES: u64 = 0xffff_fffe_0000_0000;
/// Sockets that are remembered; only damage makes more.
const LIMIT: usize = 1 << 16;
const PROTOCOL_UDP: u8 = 17;

const ESTABLISHED: u32 = 1;
const SYN_SENT: u32 = 2;
const SYN_RECEIVED: u32 = 3;
const FIN_WAIT_1: u32 = 4;
const CLOSED: u32 = 7;
const CLOSE_WAIT: u32 = 8;
const LAST_ACK: u32 = 9;
const LISTENING: u32 = 10;

/// Connections that began and did not end.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    sockets: HashMap<u64, Socket>,
    /// Processes that listen, by port.
    listeners: HashMap<u16, u32>,
}

#[cfg(test)]
impl Devices {
    pub fn remembered(&self) -> [(&'static str, usize); 2] {
        [("sockets", self.sockets.len()), ("listeners", self.listeners.len())]
    }
}

/// A connection.
#[derive(Clone, Copy, Debug, Default)]
struct Socket {
    process: u32,
    addresses: Addresses,
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
    pub(super) fn interrupted(
        &mut self,
        event: &NeutralEvent<'_>,
        line: u32,
        is_handled: bool,
        out: &mut Records,
    ) {
        let interrupts = &mut self.cpu(event.cpu).interrupts;
        // Handlers that began later have ended unseen.
        let Some(at) = interrupts.iter().rposition(|(one, _)| *one == line) else { return };
        let since = interrupts[at].1;
        interrupts.truncate(at);
        if self.has(Flag::INTERRUPT) {
            let payload = Payload::new()
                .u64(ticks(since) as u64)
                .u64(INTERRUPT_LINES + u64::from(line))
                .u8(u8::from(is_handled))
                .u16(line as u16)
                .u8(0);
            out.perf_info(self.head(event), ISR, 2, &payload);
        }
    }

    pub(super) fn soft_interrupted(
        &mut self,
        event: &NeutralEvent<'_>,
        vector: u32,
        out: &mut Records,
    ) {
        let since = match self.cpu(event.cpu).soft_interrupts.get_mut(vector as usize) {
            Some(since) => std::mem::take(since),
            None => return,
        };
        if since == 0 || !self.has(Flag::DPC) {
            return;
        }
        let hook = if TIMER_VECTORS.contains(&vector) { TIMER_DPC } else { DPC };
        let routine = self.machine.soft_interrupts.get(vector as usize).copied().unwrap_or(0);
        let payload = Payload::new().u64(ticks(since) as u64).u64(routine);
        out.perf_info(self.head(event), hook, 2, &payload);
    }

    pub(super) fn transferred(
        &mut self,
        event: &NeutralEvent<'_>,
        socket: u64,
        Transferred { protocol, is_send, size, addresses }: Transferred,
        out: &mut Records,
    ) {
        // Programs in the kernel know a socket's addresses; perf only those of connections whose begin was recorded.
        let known = self.devices.sockets.get(&socket).map(|one| one.addresses);
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
        let one = Socket { process, addresses };
        let milliseconds = (event.time / 1_000_000) as u32;
        let times = (is_send && protocol != PROTOCOL_UDP).then_some(milliseconds);
        let head = self.head(event);
        self.network_record(head, group | kind, (socket, &one), (size, times), out);
    }

    /// A process uses a connection: its end is that of the process that used it last. A server's child has it from the listener.
    fn own_socket(&mut self, socket: u64, process: u32, addresses: &Addresses) {
        if self.devices.sockets.len() >= LIMIT {
            self.devices.sockets.clear();
        }
        let one = self.devices.sockets.entry(socket).or_default();
        if one.process == 0 {
            one.addresses = *addresses;
        }
        if process != 0 {
            one.process = process;
        }
    }

    /// A process listened before the recording began.
    pub(super) fn listener_found(&mut self, process: u32, port: u16) {
        if self.devices.listeners.len() < LIMIT {
            self.devices.listeners.insert(port, process);
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
        let devices = &mut self.devices;
        if devices.sockets.len() >= LIMIT || devices.listeners.len() >= LIMIT {
            devices.sockets.clear();
            devices.listeners.clear();
        }
        let head = self.head(event);
        let devices = &mut self.devices;
        if new == LISTENING {
            devices.listeners.insert(addresses.local_port, head.process);
            return;
        }
        let one = devices.sockets.entry(socket).or_default();
        one.addresses = *addresses;
        // Only these changes happen in the process that the connection belongs to.
        match (old, new) {
            (ESTABLISHED, FIN_WAIT_1) | (CLOSE_WAIT, LAST_ACK) if head.process != 0 => {
                one.process = head.process;
            }
            (_, SYN_SENT) => one.process = head.process,
            (SYN_RECEIVED, ESTABLISHED) => {
                let listener = devices.listeners.get(&addresses.local_port);
                one.process = listener.copied().unwrap_or(0);
            }
            _ => {}
        }
        let one = *one;
        let kind = match (old, new) {
            (SYN_SENT, ESTABLISHED) => 0x0c,
            (SYN_RECEIVED, ESTABLISHED) => 0x0f,
            (LISTENING, CLOSED) => {
                devices.sockets.remove(&socket);
                return;
            }
            (SYN_SENT, CLOSED) => {
                devices.sockets.remove(&socket);
                return self.connection_failed(head, addresses, out);
            }
            (_, CLOSED) => {
                devices.sockets.remove(&socket);
                0x0d
            }
            _ => return,
        };
        self.network_record(head, 0x0600 | kind, (socket, &one), (0, None), out);
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
        let process = self.devices.sockets.get(&socket).map_or(0, |one| one.process);
        let one = Socket { process, addresses: *addresses };
        let head = self.head(event);
        self.network_record(head, 0x060e, (socket, &one), (0, None), out);
    }

    /// `hook`: that of version 4. `times`: of a TCP send, in milliseconds.
    fn network_record(
        &mut self,
        head: Head,
        hook: u16,
        (id, socket): (u64, &Socket),
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
        if matches!(hook & 0xef, 0x0c | 0x0f) {
            // Options, window and scales of a new connection.
            payload = payload.u64(0).u32(0).u32(0);
        }
        out.perf_info(head, hook, 2, &payload.u32(0).u64(id));
    }
}
