//! A host of global sessions in this process: alone, or as the worker of a keeper.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use etw_ring::{Bell, LastBatch, Memory};
use etw_types::Status;
use etw_wire::Channel;
use etw_wire::requests::{Request, Response, StartJson};
use etw_wire::runtime_directory::Directory;
use rustix::event::{EventfdFlags, eventfd};

use crate::asker::Asker;
use crate::controllers::Controllers;
use crate::event_log;
use crate::haste::{Haste, begin_engine};
use crate::host_options::HostOptions;
use crate::host_thread::HostThread;
use crate::keeper_protocol::{self, ENDING, Entries, KeeperLink, STARTS, is_ring};
use crate::log::{is_daemon_now, log_info};
use crate::mailbox::{Mailbox, Message};
use crate::rights::refused;
use crate::runtime_claim::RuntimeClaim;
use crate::server::Server;

/// A host of global sessions in this process, with its threads and its socket. Dropping it stops its sessions.
pub struct Host {
    mailbox: Arc<Mailbox>,
    stop: OwnedFd,
    /// `None` for a worker: its keeper has the claim.
    claim: Option<RuntimeClaim>,
    keeper: KeeperLink,
    engine: Mutex<Option<JoinHandle<()>>>,
    server: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("claim", &self.claim).finish_non_exhaustive()
    }
}

impl Host {
    /// Starts a host and notifies waiting programs.
    ///
    /// # Errors
    /// `AlreadyExists`: another host has the directory. Those of the system.
    pub fn start(options: HostOptions) -> io::Result<Host> {
        let mut claim = RuntimeClaim::take(&options.directory)?;
        let listener = claim.listen()?;
        let memories = (Memory::shared(Bell::SIZE)?, Memory::shared(LastBatch::SIZE)?);
        let mut host =
            Host::serve(options, listener, memories, KeeperLink::default(), Entries::new())?;
        claim.announce()?;
        host.claim = Some(claim);
        Ok(host)
    }

    /// Takes over from the worker before, with the keeper's entries. `channel`: to the keeper. `starts`: reads the sessions that
    /// start with the daemon. The first worker calls it, and keeps what it has read. Each worker receives the sessions back that
    /// have not started, and calls `keep_starts` when it has started one.
    ///
    /// # Errors
    /// Invalid entries; those of `starts`.
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
        is_daemon_now();
        give_large_memory_back();
        let keeper = KeeperLink::new(rustix::io::fcntl_dupfd_cloexec(&channel, 3)?.into());
        let is_ending = entries.contains_key(ENDING);
        let starts = match entries.remove(STARTS) {
            Some(kept) => serde_json::from_slice(&kept.facts)?,
            None if is_ending => Vec::new(),
            None => {
                let starts = starts()?;
                // This is the first worker, and the file of sessions is valid.
                log_info!("host of {} started", options.directory.display());
                keeper.put(STARTS, &starts, &[]);
                starts
            }
        };
        let mut host = Host::serve(options, listener, memories, keeper, entries)?;
        host.keeper = KeeperLink::new(rustix::io::fcntl_dupfd_cloexec(&channel, 3)?.into());
        let keeper = rustix::io::fcntl_dupfd_cloexec(&channel, 3)?;
        // Without a keeper, nobody would find or replace this worker: it stops its sessions.
        let mailbox = host.mailbox.clone();
        let spawned = etw_host::spawn("etwd-keeper", move || {
            while channel.receive().is_ok_and(|received| !received.bytes.is_empty()) {}
            mailbox.post(Message::End);
        });
        if let Err(error) = spawned {
            // Its end would be that of its sessions, which the next worker continues: this process ends at once.
            std::mem::forget(host);
            return Err(error);
        }
        Channel::from(keeper).send(b"ready\nnull", &[])?;
        if is_ending {
            host.end();
        }
        Ok((host, starts))
    }

    /// Keeps the sessions that start with the daemon and have not started: a worker that takes over starts these alone.
    pub(crate) fn keep_starts(&self, left: &[StartJson]) {
        self.keeper.put(STARTS, &left, &[]);
    }

    fn serve(
        options: HostOptions,
        listener: OwnedFd,
        (bell, last): (Memory, Memory),
        keeper: KeeperLink,
        entries: Entries,
    ) -> io::Result<Host> {
        raise_descriptor_limit();
        event_log::enable(&options.logs);
        // Without it, programs wait a shorter time for answers.
        let word = Directory::open(&options.directory).and_then(|directory| directory.word()).ok();
        let mailbox = Arc::new(Mailbox::new(Bell::new(Arc::new(bell))?, word));
        let controllers = Arc::new(Controllers::default());
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let theirs = rustix::io::fcntl_dupfd_cloexec(&stop, 0)?;
        let mut server = Server::new(listener, theirs, mailbox.clone(), controllers.clone())?;
        let last = LastBatch::new(Arc::new(last))?;
        // The worker before recorded the system: its rings fill until this one reads them. It began in haste.
        let haste = entries.keys().any(|name| is_ring(name)).then(Haste::new);
        let mut engine = HostThread::new(mailbox.clone(), options, controllers, last, keeper);
        for (number, channel, peer) in engine.restore(entries)? {
            server.restore(number, channel, peer);
        }
        let has_rings = haste.is_some();
        let begin = || {
            etw_host::spawn("etwd-engine", move || {
                begin_engine();
                engine.show_end();
                if has_rings {
                    engine.take_up_rings();
                }
                engine.run();
            })
        };
        let engine = match &haste {
            Some(haste) => haste.bequeath(begin),
            None => begin(),
        }?;
        drop(haste);
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

    /// Sends a request, as a controller of the host's own user, and waits for the response.
    pub fn ask(&self, request: Request) -> Response {
        let (answer, answered) = channel();
        self.mailbox.post(Message::Ask { request, from: Asker::Local { answer } });
        answered
            .recv()
            .unwrap_or_else(|_| refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, "the host has ended"))
    }

    /// Waits until the host has ended by itself, because it was asked to or was idle for too long. The files of its sessions are
    /// complete then. Several threads may wait.
    pub fn wait(&self) {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engine.take() {
            // A panic was printed by its hook.
            let _ = engine.join();
        }
    }

    /// Asks the host to stop its sessions and end. Not async-signal-safe.
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

/// Ends the process when any thread panics: a worker without one of its threads would do half of its work. The next worker takes
/// over.
fn end_with_any_thread() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        // SAFETY: the argument is a number; no code of this process runs afterwards.
        unsafe { libc::_exit(101) };
    }));
}

/// Memory of bursts goes back to the system. The allocator of the C library would otherwise keep it after the first one, between smaller pieces.
fn give_large_memory_back() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 256 << 10;
        // SAFETY: it takes numbers. If it fails, the host only keeps more memory.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}

/// Raises the limit of descriptors: each program takes a few.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If the system refuses, the host has space for fewer programs.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
