use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use etw_ring::{Bell, Memory};
use etw_types::Status;
use etw_wire::Channel;
use etw_wire::control::{Request, Response};
use etw_wire::dir::Directory;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::engine::Engine;
use crate::message::{Asker, Mailbox, Message};
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
            pool_size: 1 << 20,
            pool_limit: 16 << 20,
        }
    }
}

/// A host of global sessions in this process: its two threads, its socket. Dropping it stops its sessions.
pub struct Host {
    mailbox: Arc<Mailbox>,
    stop: OwnedFd,
    directory: Directory,
    /// The lock is held as long as this is open.
    _lock: OwnedFd,
    engine: Mutex<Option<JoinHandle<()>>>,
    server: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Host {
    /// Starts a host and tells waiting programs of it.
    ///
    /// # Errors
    /// `AlreadyExists`: another host has the directory. What the system says.
    pub fn start(options: HostOptions) -> io::Result<Host> {
        raise_descriptor_limit();
        let directory = Directory::open_or_make(&options.directory)?;
        let lock = directory.file("lock", OFlags::RDWR | OFlags::CREATE, 0o600)?;
        take_lock(&lock).map_err(|error| match error {
            rustix::io::Errno::AGAIN => io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{}: another host is there", options.directory.display()),
            ),
            error => error.into(),
        })?;
        // What a killed host left: nobody listens, since we have the lock.
        directory.remove("socket")?;
        let listener = Channel::listen(&directory.socket())?;
        if options.directory == Path::new(etw_wire::dir::SYSTEM) {
            // Everybody's programs register; who controls is decided by the peer's rights.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
            std::fs::set_permissions(directory.socket(), mode)?;
        }
        let bell = Bell::new(Arc::new(Memory::shared(Bell::SIZE)?))?;
        let mailbox = Arc::new(Mailbox::new(bell));
        let controllers = Arc::new(AtomicUsize::new(0));
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let theirs = rustix::io::fcntl_dupfd_cloexec(&stop, 0)?;
        let server = Server::new(listener, theirs, mailbox.clone(), controllers.clone())?;
        let engine = Engine::new(mailbox.clone(), options, controllers);
        let engine = etw_host::spawn("etwd-engine", move || engine.run())?;
        let server = etw_host::spawn("etwd-server", move || server.run())?;
        let word = directory.word()?;
        word.change();
        Ok(Host {
            mailbox,
            stop,
            directory,
            _lock: lock,
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

    /// Waits until the host has ended by itself: it was asked to, or was idle for too long.
    pub fn wait(&self) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
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
        // Nobody finds us from here on; programs go back to waiting when their connections end.
        let _ = self.directory.remove("socket");
        self.end();
        self.wait();
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
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
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, fewer programs are taken.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
