use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use etw_ring::{Bell, LastBatch, Memory};
use etw_types::Status;
use etw_wire::Channel;
use etw_wire::control::{Request, Response, StartJson};
use etw_wire::dir::Directory;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::asker::Asker;
use crate::host_thread::HostThread;
use crate::keeper_protocol::{self, BEGUN, ENDING, Entries, KeeperLink};
use crate::mailbox::{Mailbox, Message};
use crate::rights::refused;
use crate::server::Server;

/// How a host is set up.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Its runtime directory; made if it is not there.
    pub directory: PathBuf,
    /// Ends by itself when there has been no session and no controller for so long.
    pub idle_exit: Option<Duration>,
    /// Bytes of each program's pool at the start.
    pub pool_size: u32,
    /// Bytes up to which it may grow.
    pub pool_limit: u32,
}

impl HostOptions {
    /// The usual ones.
    pub fn new(directory: impl AsRef<Path>) -> HostOptions {
        HostOptions {
            directory: directory.as_ref().to_owned(),
            idle_exit: None,
            // What is never in use takes no memory.
            pool_size: 8 << 20,
            pool_limit: 24 << 20,
        }
    }
}

/// A host of global sessions in this process: its two threads, its socket. Dropping it stops its sessions.
pub struct Host {
    mailbox: Arc<Mailbox>,
    stop: OwnedFd,
    /// A worker's is its keeper's.
    claim: Option<Claim>,
    keeper: KeeperLink,
    engine: Mutex<Option<JoinHandle<()>>>,
    server: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// A runtime directory that is this process's to host.
#[derive(Debug)]
pub(crate) struct Claim {
    directory: Directory,
    /// Held as long as this is open.
    _lock: OwnedFd,
    /// The socket is the service manager's.
    is_activated: bool,
}

impl Claim {
    /// # Errors
    /// `AlreadyExists`: another host has the directory. What the system says.
    pub fn take(path: &Path) -> io::Result<Claim> {
        let directory = Directory::open_or_make(path)?;
        let lock = directory.file("lock", OFlags::RDWR | OFlags::CREATE, 0o600)?;
        take_lock(&lock).map_err(|error| match error {
            rustix::io::Errno::AGAIN => io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{}: another host is there", path.display()),
            ),
            error => error.into(),
        })?;
        Ok(Claim { directory, _lock: lock, is_activated: false })
    }

    pub fn listen(&mut self) -> io::Result<OwnedFd> {
        if let Some(given) = activated() {
            self.is_activated = true;
            return taken(given).and_then(|listener| {
                // Where everybody looks for it.
                let found = std::fs::metadata(self.directory.socket());
                match found.is_ok_and(|data| FileTypeExt::is_socket(&data.file_type())) {
                    true => Ok(listener),
                    false => Err(wrong("is not the one of the runtime directory: there is none")),
                }
            });
        }
        // What a killed host left: nobody listens, since we have the lock.
        self.directory.remove("socket")?;
        let listener = Channel::listen(&self.directory.socket())?;
        if self.directory.path() == Path::new(etw_wire::dir::SYSTEM) {
            // Everybody's programs register; who controls is decided by the peer's rights.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
            std::fs::set_permissions(self.directory.socket(), mode)?;
        }
        Ok(listener)
    }

    /// Tells programs that wait.
    pub fn announce(&self) -> io::Result<()> {
        self.directory.word()?.change();
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Nobody finds us from here on; programs go back to waiting when their connections end.
        if !self.is_activated {
            let _ = self.directory.remove("socket");
        }
    }
}

/// A socket that a service manager listens on for us: descriptor 3 (`sd_listen_fds`), where the environment says so.
fn activated() -> Option<BorrowedFd<'static>> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID")? != std::process::id() || number("LISTEN_FDS")? == 0 {
        return None;
    }
    // SAFETY: the descriptor is ours by that protocol, and nobody closes it.
    Some(unsafe { BorrowedFd::borrow_raw(3) })
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the socket of the service manager {what}"))
}

/// A copy of it, so that a wrong environment costs nobody their file. Another kind of socket would serve nobody, without a word.
fn taken(given: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::net::{SocketType, sockopt};
    let kind = sockopt::socket_type(given).map_err(|error| wrong(&format!("is none: {error}")))?;
    let listens = sockopt::socket_acceptconn(given).unwrap_or(false);
    if kind != SocketType::SEQPACKET || !listens {
        return Err(wrong("has to listen for sequential packets (ListenSequentialPacket=)"));
    }
    let listener = rustix::io::fcntl_dupfd_cloexec(given, 3)?;
    rustix::fs::fcntl_setfl(&listener, rustix::fs::fcntl_getfl(&listener)? | OFlags::NONBLOCK)?;
    Ok(listener)
}

impl Host {
    /// Starts a host and tells waiting programs of it.
    ///
    /// # Errors
    /// `AlreadyExists`: another host has the directory. What the system says.
    pub fn start(options: HostOptions) -> io::Result<Host> {
        let mut claim = Claim::take(&options.directory)?;
        let listener = claim.listen()?;
        let memories = (Memory::shared(Bell::SIZE)?, Memory::shared(LastBatch::SIZE)?);
        let mut host =
            Host::serve(options, listener, memories, KeeperLink::default(), Entries::new())?;
        claim.announce()?;
        host.claim = Some(claim);
        Ok(host)
    }

    /// Goes on where the worker before has ended, with what the keeper holds. `channel`: to the keeper. `starts`: the sessions that
    /// begin with a host, asked for and given back by the worker that is to begin them; `has_begun` says that they are there.
    ///
    /// # Errors
    /// What the keeper gave cannot be.
    pub fn work(
        options: HostOptions,
        channel: Channel,
        starts: impl FnOnce() -> io::Result<Vec<StartJson>>,
    ) -> io::Result<(Host, Vec<StartJson>)> {
        let mut entries = keeper_protocol::receive(&channel)?;
        let mut take = |name: &str| {
            let entry = entries.remove(name).ok_or(io::ErrorKind::NotFound)?;
            Ok::<_, io::Error>(entry.descriptors)
        };
        let bad = |_| io::Error::from(io::ErrorKind::InvalidData);
        let [listener] = <[OwnedFd; 1]>::try_from(take("listener")?).map_err(bad)?;
        let [bell, last] = <[OwnedFd; 2]>::try_from(take("memory")?).map_err(bad)?;
        let memories =
            (Memory::map(bell, 0, Bell::SIZE, true)?, Memory::map(last, 0, LastBatch::SIZE, true)?);
        end_with_any_thread();
        let keeper = KeeperLink::new(rustix::io::fcntl_dupfd_cloexec(&channel, 3)?.into());
        let is_first = entries.remove(BEGUN).is_none();
        let is_ending = entries.remove(ENDING).is_some();
        let starts = if is_first && !is_ending { starts()? } else { Vec::new() };
        let mut host = Host::serve(options, listener, memories, keeper, entries)?;
        host.keeper = KeeperLink::new(rustix::io::fcntl_dupfd_cloexec(&channel, 3)?.into());
        channel.send(b"ready\nnull", &[])?;
        if is_ending {
            host.end();
        }
        // Without a keeper nobody would find or replace us: the sessions are stopped.
        let mailbox = host.mailbox.clone();
        etw_host::spawn("etwd-keeper", move || {
            while channel.receive().is_ok_and(|received| !received.bytes.is_empty()) {}
            mailbox.post(Message::End);
        })?;
        Ok((host, starts))
    }

    /// The sessions that begin with it are there: a worker that takes over begins none.
    pub(crate) fn has_begun(&self) {
        self.keeper.put(BEGUN, &(), &[]);
    }

    fn serve(
        options: HostOptions,
        listener: OwnedFd,
        (bell, last): (Memory, Memory),
        keeper: KeeperLink,
        entries: Entries,
    ) -> io::Result<Host> {
        raise_descriptor_limit();
        // Without it programs are less patient.
        let word = Directory::open(&options.directory).and_then(|directory| directory.word()).ok();
        let mailbox = Arc::new(Mailbox::new(Bell::new(Arc::new(bell))?, word));
        let controllers = Arc::new(AtomicUsize::new(0));
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let theirs = rustix::io::fcntl_dupfd_cloexec(&stop, 0)?;
        let mut server = Server::new(listener, theirs, mailbox.clone(), controllers.clone())?;
        let last = LastBatch::new(Arc::new(last))?;
        let mut engine = HostThread::new(mailbox.clone(), options, controllers, last, keeper);
        for (number, channel, peer) in engine.restore(entries) {
            server.restore(number, channel, peer);
        }
        let engine = etw_host::spawn("etwd-engine", move || engine.run())?;
        let server = etw_host::spawn("etwd-server", move || server.run())?;
        Ok(Host {
            mailbox,
            stop,
            claim: None,
            keeper: KeeperLink::default(),
            engine: Mutex::new(Some(engine)),
            server: Some(server),
        })
    }

    /// Asks the host, as a controller of its own user.
    pub fn ask(&self, request: Request) -> Response {
        let (answer, answered) = channel();
        self.mailbox.post(Message::Ask { request, from: Asker::Local { answer } });
        answered
            .recv()
            .unwrap_or_else(|_| refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, "the host has ended"))
    }

    /// Waits until the host has ended by itself: it was asked to, or was idle for too long. Its sessions are complete then, for
    /// each of several threads that wait.
    pub fn wait(&self) {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engine.take() {
            // A panic has been printed.
            let _ = engine.join();
        }
    }

    /// Asks it to end: sessions are stopped. Async-signal-safe it is not.
    pub fn end(&self) {
        self.mailbox.post(Message::End);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.claim.take());
        self.end();
        self.wait();
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// A worker of which a thread has panicked does half of its work: it ends, and the next one goes on.
fn end_with_any_thread() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        // SAFETY: a number. Nothing of this process is wanted any more.
        unsafe { libc::_exit(101) };
    }));
}

/// A host that has just ended may have left its lock to a child that is about to become another program.
fn take_lock(lock: &OwnedFd) -> rustix::io::Result<()> {
    let end = Instant::now() + Duration::from_millis(200);
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::AGAIN) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// Each program takes a few descriptors.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, fewer programs are taken.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
