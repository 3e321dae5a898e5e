//! Exit statuses and users of processes, from the kernel's process connector: perf records do not have them.
//!
//! The connector speaks only to the machine's own namespaces, and its messages come some time behind the ends, or are lost while its buffer
//! is full. So a program of ours in the kernel records the exit statuses, if it is permitted; the connector then has the users only.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use etw_types::le;

use crate::own_rights::OwnRights;
use crate::thread_ids::is_first_namespace;

/// Sizes of the headers of a message: netlink's, and the connector's.
const NETLINK_HEADER: usize = 16;
const CONNECTOR_HEADER: usize = 20;
/// Where the event begins, and its parts.
const EVENT: usize = NETLINK_HEADER + CONNECTOR_HEADER;
const TIME: usize = EVENT + 8;
const THREAD: usize = EVENT + 16;
const PROCESS: usize = EVENT + 20;
const STATUS: usize = EVENT + 24;
const USER: usize = EVENT + 24;
/// `CN_IDX_PROC`, `CN_VAL_PROC` and the multicast group.
const PROCESSES: u32 = 1;
const LISTEN: u32 = 1;
const EXIT: u32 = 0x8000_0000;
/// `PROC_EVENT_UID`: a thread has other users.
const USERS: u32 = 4;
const NLMSG_DONE: u16 = 3;
/// Room for messages between two polls, in bytes.
const RECEIVE_BUFFER: libc::c_int = 4 << 20;

const NOT_IN_CONTAINERS: &str = "exit statuses are 0: the kernel reports them only in the machine's own PID, user and network namespaces, not in a container where no BPF program can read them";

/// The connection to the process connector.
#[derive(Debug)]
pub(crate) struct ExitStatuses {
    socket: OwnedFd,
}

/// A message about a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    pub process: u32,
    pub thread: u32,
    pub fact: Fact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// It has ended, with its exit code, or 128 and the signal.
    Ended { status: u32 },
    /// It has this user now.
    User { user: u32 },
}

impl ExitStatuses {
    /// Begins to listen to changes of users, and to exit statuses, unless `program` says that a program records them.
    ///
    /// # Errors
    /// Why the kernel does not say the statuses to this process.
    pub fn open(program: bool) -> Result<ExitStatuses, String> {
        // Elsewhere it takes the request, and sends nothing (`cn_proc_mcast_ctl`).
        if !is_first_namespace() || OwnRights::read().is_in_user_namespace() {
            return Err(NOT_IN_CONTAINERS.to_owned());
        }
        let events = if program { USERS } else { EXIT | USERS };
        ExitStatuses::listen(events).map_err(|error| match error.raw_os_error() {
            // Only the machine's own network namespace has the connector.
            Some(libc::ECONNREFUSED | libc::EPROTONOSUPPORT) => NOT_IN_CONTAINERS.to_owned(),
            _ => format!("exit statuses are 0 ({error}): before Linux 6.6 they need CAP_NET_ADMIN"),
        })
    }

    fn listen(events: u32) -> io::Result<ExitStatuses> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the arguments are numbers.
        let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_CONNECTOR) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor, which nobody else has.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let all = ExitStatuses { socket };
        for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
            // A smaller buffer works, too.
            let _ = all.set_option(option, RECEIVE_BUFFER);
        }
        // SAFETY: a structure of numbers.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = PROCESSES;
        let size = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: an address of the size that is passed, which outlives the call.
        let bound = unsafe { libc::bind(all.raw(), (&raw const address).cast(), size) };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        all.send(&LISTEN.to_le_bytes())?;
        // Since Linux 6.6 a listener can ask for some events only. Earlier kernels ignore the longer message.
        all.send(&[LISTEN.to_le_bytes(), events.to_le_bytes()].concat())?;
        Ok(all)
    }

    fn raw(&self) -> libc::c_int {
        self.socket.as_raw_fd()
    }

    fn set_option(&self, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: a number of the size that is passed, which outlives the call.
        let set = unsafe {
            libc::setsockopt(self.raw(), libc::SOL_SOCKET, option, (&raw const value).cast(), size)
        };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn send(&self, body: &[u8]) -> io::Result<()> {
        let size = (EVENT + body.len()) as u32;
        let mut message = Vec::new();
        message.extend(size.to_le_bytes());
        message.extend(NLMSG_DONE.to_le_bytes());
        message.extend([0; 10]);
        message.extend(PROCESSES.to_le_bytes());
        message.extend(PROCESSES.to_le_bytes());
        message.extend([0; 8]);
        message.extend((body.len() as u32).to_le_bytes());
        message.extend(body);
        // SAFETY: the bytes outlive the call.
        let sent = unsafe { libc::send(self.raw(), message.as_ptr().cast(), message.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Gives the messages that have come since the last call, in their order.
    pub fn read(&self, mut give: impl FnMut(Message)) {
        let mut buffer = [0u8; 256];
        loop {
            // SAFETY: a buffer of the size that is passed, which outlives the call.
            let size =
                unsafe { libc::recv(self.raw(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            match size {
                0.. => {
                    if let Some(message) = parse(&buffer[..size as usize]) {
                        give(message);
                    }
                }
                // The socket's buffer was too small: those messages are lost, and later ones follow. The shaper counts the ends of
                // processes whose statuses it does not know.
                _ if io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS) => {}
                _ => return,
            }
        }
    }
}

/// The exit code of a wait status, or 128 and the signal.
pub(crate) fn status_of(wait_status: u32) -> u32 {
    let signal = wait_status & 0x7f;
    if signal == 0 { wait_status >> 8 & 0xff } else { 128 + signal }
}

/// Reads a message; `None`: it says something else, or is cut.
fn parse(message: &[u8]) -> Option<Message> {
    let fact = match le::u32(message, EVENT)? {
        EXIT => Fact::Ended { status: status_of(le::u32(message, STATUS)?) },
        USERS => Fact::User { user: le::u32(message, USER)? },
        _ => return None,
    };
    let [process, thread] = [PROCESS, THREAD].map(|at| le::u32(message, at));
    Some(Message { time: le::u64(message, TIME)?, process: process?, thread: thread?, fact })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_is_a_code_or_a_signal() {
        let message = |what: u32, wait_status: u32| {
            let mut bytes = vec![0; EVENT];
            bytes.extend(what.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(900u64.to_le_bytes());
            for number in [51, 50, wait_status, 17] {
                bytes.extend(u32::to_le_bytes(number));
            }
            bytes
        };
        let of = |fact| Some(Message { time: 900, process: 50, thread: 51, fact });
        let ended = |status| of(Fact::Ended { status });
        assert_eq!(parse(&message(EXIT, 7 << 8)), ended(7));
        assert_eq!(parse(&message(EXIT, 9)), ended(137));
        assert_eq!(parse(&message(EXIT, 0x80 | 11)), ended(139));
        assert_eq!(parse(&message(2, 7 << 8)), None);
        assert_eq!(parse(&message(4, 1000)), of(Fact::User { user: 1000 }));
        let whole = message(EXIT, 0);
        for size in 0..STATUS + 4 {
            assert_eq!(parse(&whole[..size]), None);
        }
    }
}
