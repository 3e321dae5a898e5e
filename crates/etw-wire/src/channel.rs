//! A socket that carries messages and descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Largest message, in bytes. It fits a socket's buffer with every system's defaults.
pub const MAX_MESSAGE: usize = 128 << 10;
/// The largest number of descriptors of a message.
const MAX_DESCRIPTORS: usize = 32;

/// A connected `SOCK_SEQPACKET` socket: whole messages, with descriptors.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A message.
#[derive(Debug, Default)]
pub struct Received {
    /// The message's bytes; empty at the end of the connection.
    pub bytes: Vec<u8>,
    /// The descriptors that came with the message.
    pub descriptors: Vec<OwnedFd>,
}

/// The process at the other end of a connection, as the kernel reports it: the process that connected or listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id in this namespace; 0 for a process outside of it.
    pub pid: u32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

impl Channel {
    /// Connects to a socket. Another user's process may listen there; [`peer`](Self::peer) tells.
    ///
    /// # Errors
    /// The system's error.
    pub fn connect(path: &Path) -> io::Result<Channel> {
        let flags = SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Channel(fd))
    }

    /// Creates a socket that other processes connect to.
    ///
    /// # Errors
    /// The system's error: `AddrInUse` if the name is in use.
    pub fn listen(path: &Path) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&fd, 1024)?;
        Ok(fd)
    }

    /// Accepts a connection. Neither this call nor the connection blocks.
    ///
    /// # Errors
    /// `WouldBlock` if no process is connecting; the system's error.
    pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Channel> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Channel(rustix::net::accept_with(listener, flags)?))
    }

    /// Creates both ends of one connection.
    ///
    /// # Errors
    /// The system's error.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let flags = SocketFlags::CLOEXEC;
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Channel(a), Channel(b)))
    }

    /// The process at the other end.
    ///
    /// # Errors
    /// The system's error.
    pub fn peer(&self) -> io::Result<Peer> {
        // Through libc's view of the structure: a process outside of our namespace has the id 0.
        let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut size = size_of::<libc::ucred>() as libc::socklen_t;
        use std::os::fd::AsRawFd;
        // SAFETY: the out pointers lead to values of the sizes that are given.
        let done = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &raw mut size,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Peer {
            pid: u32::try_from(credentials.pid).unwrap_or(0),
            uid: credentials.uid,
            gid: credentials.gid,
        })
    }

    /// The supplementary groups of the process at the other end, at the time when it connected.
    ///
    /// # Errors
    /// The system's error; Linux before 4.13 does not support this.
    pub fn peer_groups(&self) -> io::Result<Vec<u32>> {
        use std::os::fd::AsRawFd;
        let mut groups = vec![0u32; 64];
        loop {
            let mut size = (groups.len() * 4) as libc::socklen_t;
            // SAFETY: the out pointers lead to memory of the size that is given, and to that size.
            let done = unsafe {
                libc::getsockopt(
                    self.0.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_PEERGROUPS,
                    groups.as_mut_ptr().cast(),
                    &raw mut size,
                )
            };
            let count = size as usize / 4;
            if done == 0 {
                groups.truncate(count);
                return Ok(groups);
            }
            let error = io::Error::last_os_error();
            // The system returns their number.
            if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
                return Err(error);
            }
            groups.resize(count, 0);
        }
    }

    /// The socket's inode number. If a descriptor has another number, it belongs to another file by now.
    ///
    /// # Errors
    /// The system's error.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.0)?.st_ino)
    }

    /// Sends a message. Unless the socket is non-blocking, waits for free space in the socket's buffer.
    ///
    /// # Errors
    /// `WouldBlock` if the other side does not read; the system's error.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        loop {
            let parts = [IoSlice::new(bytes)];
            match rustix::net::sendmsg(&self.0, &parts, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a message. `bytes` is empty at the end of the connection.
    ///
    /// # Errors
    /// `WouldBlock` if the socket is non-blocking; `InvalidData` for a message that is too long.
    pub fn receive(&self) -> io::Result<Received> {
        let mut bytes = vec![0; MAX_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        loop {
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let received = {
                let mut parts = [IoSliceMut::new(&mut bytes)];
                let flags = RecvFlags::CMSG_CLOEXEC;
                rustix::net::recvmsg(&self.0, &mut parts, &mut ancillary, flags)
            };
            let received = match received {
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let descriptors = ancillary
                .drain()
                .filter_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                    _ => None,
                })
                .flatten()
                .collect();
            if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            bytes.truncate(received.bytes);
            bytes.shrink_to_fit();
            return Ok(Received { bytes, descriptors });
        }
    }

    /// Does what [`receive`](Self::receive) does, for at most `patience`.
    ///
    /// # Errors
    /// `TimedOut`, and those of `receive`.
    pub fn receive_within(&self, patience: std::time::Duration) -> io::Result<Received> {
        let end = std::time::Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let mut set = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut set, Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return self.receive(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Moves the descriptor to a high number, so that programs that close or reuse low numbers do not affect it.
    ///
    /// # Errors
    /// The system's error; the channel is unchanged.
    pub fn move_up(&mut self, least: i32) -> io::Result<()> {
        self.0 = rustix::io::fcntl_dupfd_cloexec(&self.0, least)?;
        Ok(())
    }

    /// Sets whether sends and receives wait.
    ///
    /// # Errors
    /// The system's error.
    pub fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        let mut flags = rustix::fs::fcntl_getfl(&self.0)?;
        flags.set(OFlags::NONBLOCK, !blocking);
        rustix::fs::fcntl_setfl(&self.0, flags)?;
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Channel {
    fn from(fd: OwnedFd) -> Channel {
        Channel(fd)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> OwnedFd {
        channel.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_bounds_and_descriptors() {
        let (a, b) = Channel::pair().unwrap();
        a.send(b"one", &[]).unwrap();
        a.send(&vec![7; MAX_MESSAGE], &[b.as_fd(), a.as_fd()]).unwrap();
        a.send(&vec![7; MAX_MESSAGE + 1], &[]).unwrap();
        assert_eq!(b.receive().unwrap().bytes, b"one");
        let second = b.receive().unwrap();
        assert_eq!((second.bytes.len(), second.descriptors.len()), (MAX_MESSAGE, 2));
        assert_eq!(b.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(
            b.receive_within(std::time::Duration::from_millis(5)).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(b.peer().unwrap().pid, std::process::id());
        drop((a, second));
        assert!(b.receive().unwrap().bytes.is_empty());
    }

    /// OV-3: the peer is the process that connected, even if its process id belongs to another process by now.
    #[test]
    fn groups_are_those_of_the_connection() {
        fn sorted(mut groups: Vec<u32>) -> Vec<u32> {
            groups.sort_unstable();
            groups
        }
        let groups = |channel: &Channel| sorted(channel.peer_groups().unwrap());
        let own = rustix::process::getgroups().unwrap();
        let own = sorted(own.into_iter().map(rustix::process::Gid::as_raw).collect());
        let (_a, b) = Channel::pair().unwrap();
        assert_eq!(groups(&b), own);
        // More than are asked for at first; of a thread, while the process has those from before.
        let many: Vec<u32> = (5000..5200).collect();
        let other = std::thread::spawn(move || {
            // SAFETY: the system call itself, which changes this thread alone; numbers that live as long.
            let done = unsafe { libc::syscall(libc::SYS_setgroups, many.len(), many.as_ptr()) };
            (done == 0).then(|| (many, Channel::pair().unwrap()))
        });
        // Only root can set groups.
        if let Some((many, (_a, b))) = other.join().unwrap() {
            assert_eq!(groups(&b), many);
        }
    }
}
