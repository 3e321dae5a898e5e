//! The server thread: it accepts connections, reads whole messages, and notices when connections and processes end. It decides
//! only the role of each connection.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use etw_types::Status;
use etw_wire::message::{FromHost, FromProgram, Role, VERSION};
use etw_wire::requests::Request;
use etw_wire::{Channel, Peer};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::asker::{Asker, Connection};
use crate::controllers::Controllers;
use crate::log::log;
use crate::mailbox::{Mailbox, Message};
use crate::program::disconnect;
use crate::rights::{may_control, no_control, refused};

/// Connections of one user, root aside.
const MAX_CONNECTIONS: usize = 4096;
/// If more messages than these wait for the host thread, the server reads none.
const MAX_WAITING: usize = 4096;
/// Messages that are read of a process that has ended: more than its registrations.
const MAX_LAST_MESSAGES: u32 = 4096;

/// While there are no descriptors for new connections, the server tries again so often. Others end meanwhile.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
/// With a connection's number: its process.
const PROCESS: u64 = 1 << 63;

pub(crate) struct Server {
    epoll: OwnedFd,
    listener: OwnedFd,
    stop: OwnedFd,
    mailbox: Arc<Mailbox>,
    controllers: Arc<Controllers>,
    connections: HashMap<Connection, Connected>,
    by_user: HashMap<u32, usize>,
    next: Connection,
    /// There are no descriptors for new connections. The log says so, and epoll does not report the listener.
    is_short: bool,
}

struct Connected {
    channel: Arc<Channel>,
    peer: Peer,
    role: Option<Role>,
    /// Readable when the process has ended.
    process: Option<OwnedFd>,
}

impl Server {
    /// A server on this socket. `stop` becomes readable when the server is to end.
    pub fn new(
        listener: OwnedFd,
        stop: OwnedFd,
        mailbox: Arc<Mailbox>,
        controllers: Arc<Controllers>,
    ) -> io::Result<Server> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (fd, number) in [(&listener, LISTENER), (&stop, STOP)] {
            epoll::add(&epoll, fd, EventData::new_u64(number), EventFlags::IN)?;
        }
        Ok(Server {
            epoll,
            listener,
            stop,
            mailbox,
            controllers,
            connections: HashMap::new(),
            by_user: HashMap::new(),
            next: 1,
            is_short: false,
        })
    }

    /// Adds a program's connection that the worker before had.
    pub fn restore(&mut self, number: Connection, channel: Arc<Channel>, peer: Peer) {
        let data = EventData::new_u64(number);
        // If it has ended already, epoll reports it at once.
        if epoll::add(&self.epoll, &channel, data, EventFlags::IN).is_ok() {
            *self.by_user.entry(peer.uid).or_default() += 1;
            self.next = self.next.max(number + 1);
            let role = Some(Role::Program);
            let connected = Connected { channel, peer, role, process: None };
            self.connections.insert(number, connected);
            self.watch_process(number);
        }
    }

    /// Watches a connection's process: its end is noticed even if a child has inherited the socket.
    fn watch_process(&mut self, number: Connection) {
        let Some(connected) = self.connections.get_mut(&number) else { return };
        let process = i32::try_from(connected.peer.pid).ok().and_then(Pid::from_raw);
        if let Some(process) = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
            let data = EventData::new_u64(number | PROCESS);
            // If the process cannot be watched, the end of its socket is noticed.
            if epoll::add(&self.epoll, &process, data, EventFlags::IN).is_ok() {
                connected.process = Some(process);
            }
        }
    }

    pub fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let timeout = self.is_short.then_some(&RETRY);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // An invalid descriptor of the server: it cannot continue.
                Err(_) => return,
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    LISTENER => self.accept(),
                    number if number & PROCESS != 0 => self.process_has_ended(number & !PROCESS),
                    number => drop(self.read(number)),
                }
            }
            if self.is_short {
                self.accept();
            }
            while self.mailbox.len() > MAX_WAITING {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Notes whether new connections have to wait, and why.
    fn set_short(&mut self, error: Option<&io::Error>) {
        if self.is_short == error.is_some() {
            return;
        }
        self.is_short = error.is_some();
        let flags = if self.is_short { EventFlags::empty() } else { EventFlags::IN };
        // If this fails, the listener is tried more often than necessary.
        let _ = epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), flags);
        if let Some(error) = error {
            log!("new programs and controllers wait: {error}");
        }
    }

    fn accept(&mut self) {
        loop {
            let channel = match Channel::accept(self.listener.as_fd()) {
                Ok(channel) => channel,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.set_short(None);
                }
                // No free descriptors: new connections are accepted when others end.
                Err(error) => return self.set_short(Some(&error)),
            };
            self.mailbox.beat();
            let Ok(peer) = channel.peer() else { continue };
            let count = self.by_user.entry(peer.uid).or_default();
            if peer.uid != 0 && *count >= MAX_CONNECTIONS {
                let status = Status::ERROR_NO_SYSTEM_RESOURCES.0;
                let _ = channel.send(&FromHost::Refused { status }.to_bytes(), &[]);
                continue;
            }
            let number = self.next;
            let data = EventData::new_u64(number);
            if epoll::add(&self.epoll, &channel, data, EventFlags::IN).is_err() {
                continue;
            }
            *count += 1;
            self.next += 1;
            let channel = Arc::new(channel);
            let connected = Connected { channel, peer, role: None, process: None };
            self.connections.insert(number, connected);
        }
    }

    /// Reads the last messages of a process that has ended. A child may have its socket, and is not heard.
    fn process_has_ended(&mut self, number: Connection) {
        for _ in 0..MAX_LAST_MESSAGES {
            if !self.read(number) {
                break;
            }
        }
        self.remove(number);
    }

    /// Reads a message; `false` if there was none.
    fn read(&mut self, number: Connection) -> bool {
        let Some(connected) = self.connections.get_mut(&number) else { return false };
        let received = match connected.channel.receive() {
            Ok(received) if !received.bytes.is_empty() => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            // The connection has ended, or the message is invalid.
            other => {
                if let (Err(error), Some(Role::Program)) = (other, connected.role)
                    && error.kind() == io::ErrorKind::InvalidData
                {
                    // Too long for a message. The host thread logs an empty message as invalid.
                    let (bytes, descriptors) = (Vec::new(), Vec::new());
                    self.mailbox.post(Message::FromProgram {
                        connection: number,
                        bytes,
                        descriptors,
                    });
                }
                self.remove(number);
                return false;
            }
        };
        let (channel, peer) = (connected.channel.clone(), connected.peer);
        match connected.role {
            None => self.hello(number, &received.bytes),
            Some(Role::Program) => self.mailbox.post(Message::FromProgram {
                connection: number,
                bytes: received.bytes,
                descriptors: received.descriptors,
            }),
            Some(Role::Controller) => {
                let from = Asker::Remote { connection: number, channel, peer };
                match serde_json::from_slice::<Request>(&received.bytes) {
                    Ok(request) => self.mailbox.post(Message::Ask { request, from }),
                    Err(error) => from.answer(&refused(
                        Status::ERROR_INVALID_PARAMETER,
                        format!("not a request of this version: {error}"),
                    )),
                }
            }
        }
        true
    }

    fn hello(&mut self, number: Connection, bytes: &[u8]) {
        let role = match FromProgram::read(bytes) {
            Some(FromProgram::Hello { version: VERSION, role }) => role,
            Some(FromProgram::Hello { .. }) => {
                return self.refuse(number, Status::ERROR_NOT_SUPPORTED);
            }
            _ => return self.remove(number),
        };
        let Some(connected) = self.connections.get_mut(&number) else { return };
        let (channel, peer) = (connected.channel.clone(), connected.peer);
        if role == Role::Controller as u8 {
            let allowed = may_control(&peer, &channel);
            let from = Asker::Remote { connection: number, channel, peer };
            if !allowed {
                from.answer(&no_control(&peer));
                return self.remove(number);
            }
            if !self.controllers.enter() {
                // The client has sent no request yet, and looks for another host.
                return self.remove(number);
            }
            connected.role = Some(Role::Controller);
            from.answer(&etw_wire::requests::Response::Done { warnings: Vec::new() });
            return;
        }
        if role != Role::Program as u8 {
            return self.remove(number);
        }
        connected.role = Some(Role::Program);
        self.watch_process(number);
        self.mailbox.post(Message::Program { connection: number, channel, peer });
    }

    fn refuse(&mut self, number: Connection, status: Status) {
        if let Some(connected) = self.connections.get(&number) {
            let message = FromHost::Refused { status: status.0 };
            // It is disconnected in any case.
            let _ = connected.channel.send(&message.to_bytes(), &[]);
        }
        self.remove(number);
    }

    fn remove(&mut self, number: Connection) {
        let Some(connected) = self.connections.remove(&number) else { return };
        // The host thread may hold the channel longer; epoll must not report it.
        let _ = epoll::delete(&self.epoll, &*connected.channel);
        if let Some(process) = &connected.process {
            let _ = epoll::delete(&self.epoll, process);
        }
        disconnect(&connected.channel);
        if let Some(count) = self.by_user.get_mut(&connected.peer.uid) {
            *count -= 1;
        }
        match connected.role {
            Some(Role::Controller) => {
                self.controllers.leave();
                self.mailbox.post(Message::Disconnected { connection: number });
            }
            Some(Role::Program) => self.mailbox.post(Message::Disconnected { connection: number }),
            None => {}
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for connected in self.connections.values() {
            disconnect(&connected.channel);
        }
        let _ = &self.stop;
    }
}
