//! The keeper: it holds the descriptors and memory that outlive a worker, and replaces a worker that is killed.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use etw_ring::{Bell, LastBatch, Memory};
use etw_system::HeldRing;
use etw_wire::Channel;

use crate::global_host::raise_descriptor_limit;
use crate::haste::Haste;
use crate::host_options::HostOptions;
use crate::keeper_protocol::{ENDING, Entries, Entry, RELEASED, RING, numbers, send, split};
use crate::kept_state::KeptRing;
use crate::log::{is_daemon_now, log, log_info};
use crate::runtime_claim::RuntimeClaim;

/// The keeper gives up after this many workers in a row that crashed before they served, or soon after.
const MAX_FAILURES: u32 = 20;
const SOON: Duration = Duration::from_secs(1);
/// Workers that are killed before they serve are replaced without end. After [`MAX_FAILURES`] of them in a row, each new one
/// is delayed: the system may lack the memory for it.
const KILLED_DELAY: Duration = Duration::from_millis(100);

/// The process id of the worker, for [`end`]; 0: none.
static WORKER: AtomicU32 = AtomicU32::new(0);
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Held while a worker is started or reaped: until then its process id is its own.
static WORKER_LOCK: Mutex<()> = Mutex::new(());

/// Runs workers until one ends by itself. A worker is `program` with `arguments`; its standard input is the connection to the
/// keeper. A worker that is killed while it ends is replaced, too: its sessions have to be stored.
///
/// # Errors
/// `AlreadyExists`: another host has the directory. Workers that fail again and again.
pub fn keep(options: &HostOptions, program: &Path, arguments: &[&str]) -> io::Result<()> {
    // The keeper holds descriptors of every program, and so does a worker, which inherits the limit.
    raise_descriptor_limit();
    let mut claim = RuntimeClaim::take(&options.directory)?;
    let mut entries = Entries::new();
    let listener = claim.listen()?;
    is_daemon_now();
    entries.insert("listener".to_owned(), entry(vec![listener]));
    let memory = |size| -> io::Result<OwnedFd> {
        Memory::shared(size)?.take_fd().ok_or(io::ErrorKind::Unsupported.into())
    };
    let memories = vec![memory(Bell::SIZE)?, memory(LastBatch::SIZE)?];
    entries.insert("memory".to_owned(), entry(memories));
    let mut rings: HashMap<String, HeldRing> = HashMap::new();
    let mut closings = Closings::default();
    // While it has rings: the kernel fills them until the next worker reads.
    let mut haste: Option<Haste> = None;
    let (mut failures, mut kills) = (0, 0);
    let mut is_known_to_serve = false;
    loop {
        let mut has_served = false;
        let began = Instant::now();
        let (channel, mut worker) = start(program, arguments, haste.as_ref())?;
        if IS_ENDING.load(Ordering::SeqCst) {
            // This worker did not receive the signal.
            entries.insert(ENDING.to_owned(), entry(Vec::new()));
        }
        // If the worker ends meanwhile, `receive` returns an error below.
        let _ = send(&channel, &entries);
        loop {
            let received = match channel.receive() {
                Ok(received) => received,
                // A message that cannot be received, for lack of descriptors for example. The worker would end with the connection.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    log!("a message of the worker could not be received: {error}");
                    continue;
                }
                Err(_) => break,
            };
            let Some((name, facts)) = split(&received.bytes) else { break };
            match name {
                "ready" => {
                    has_served = true;
                    is_known_to_serve = true;
                    claim.announce()?;
                }
                RELEASED => closings.say_end(received.descriptors),
                name if facts.is_empty() => {
                    closings.add(rings.remove(name), entries.remove(name));
                    haste = haste.filter(|_| !rings.is_empty());
                }
                name => {
                    let descriptors = received.descriptors;
                    let entry = Entry { facts: facts.to_vec(), descriptors };
                    let ring = hold_ring(name, &entry)
                        .and_then(|ring| rings.insert(name.to_owned(), ring));
                    closings.add(ring, entries.insert(name.to_owned(), entry));
                    if haste.is_none() && !rings.is_empty() {
                        haste = Some(Haste::new());
                    }
                }
            }
        }
        // A worker that still runs notices the end of its keeper, and ends.
        drop(channel);
        let ended = {
            let _one = WORKER_LOCK.lock();
            let ended = worker.wait()?;
            WORKER.store(0, Ordering::SeqCst);
            ended
        };
        if ended.success() {
            log_info!("host of {} ended", options.directory.display());
            return Ok(());
        }
        if !is_known_to_serve && ended.code().is_some() {
            // It has logged the reason, and another worker would fail in the same way.
            return Err(io::Error::other("the worker does not start; its error is above"));
        }
        log!("the worker ended with {ended}; another one takes over");
        match Ending::of(ended, has_served, began.elapsed()) {
            Ending::Sound => (failures, kills) = (0, 0),
            Ending::KilledAtStart => kills += 1,
            Ending::Crashed => failures += 1,
        }
        if failures >= MAX_FAILURES {
            return Err(io::Error::other(
                "workers fail as soon as they start; their errors are above",
            ));
        }
        if kills >= MAX_FAILURES {
            std::thread::sleep(KILLED_DELAY);
        }
    }
}

/// How a worker ended, if it did not end by itself.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// It has served, and was then killed or ran for a while.
    Sound,
    /// It was killed before it served. `SIGKILL` comes from outside: another worker may live longer.
    KilledAtStart,
    /// It failed before it served, or panicked soon after. Another worker may fail in the same way.
    Crashed,
}

impl Ending {
    fn of(ended: ExitStatus, has_served: bool, ran: Duration) -> Ending {
        match ended.signal() {
            Some(_) if has_served => Ending::Sound,
            Some(libc::SIGKILL) => Ending::KilledAtStart,
            None if has_served && ran >= SOON => Ending::Sound,
            _ => Ending::Crashed,
        }
    }
}

/// Asks the worker to stop its sessions and end. Not async-signal-safe.
pub fn end() {
    IS_ENDING.store(true, Ordering::SeqCst);
    let _one = WORKER_LOCK.lock();
    let worker = WORKER.load(Ordering::SeqCst);
    if worker != 0 {
        // SAFETY: the arguments are numbers; the child has not been reaped, so its id is its own.
        unsafe { libc::kill(worker as libc::pid_t, libc::SIGTERM) };
    }
}

/// Maps the ring of an entry. Without a mapping, the kernel drops its records when the worker is killed.
fn hold_ring(name: &str, entry: &Entry) -> Option<HeldRing> {
    numbers(name, RING)?;
    let facts: KeptRing = serde_json::from_slice(&entry.facts).ok()?;
    if !facts.programs.is_empty() || facts.is_told {
        // A map of programs, and other memory, lives as long as its descriptor.
        return None;
    }
    let held = HeldRing::map(entry.descriptors.first()?.as_fd(), facts.size);
    held.inspect_err(|error| log!("{name} cannot be held for the next worker: {error}")).ok()
}

/// Threads that unmap rings and close their events, which takes the kernel long.
#[derive(Default)]
struct Closings(Vec<JoinHandle<()>>);

impl Closings {
    fn add(&mut self, ring: Option<HeldRing>, entry: Option<Entry>) {
        let Some(ring) = ring else { return };
        self.0.retain(|one| !one.is_finished());
        // Without a thread they are closed here.
        self.0.extend(spawn_closing(move || drop((ring, entry))).ok());
    }

    /// Closes descriptors of the worker when all threads so far have ended.
    fn say_end(&mut self, descriptors: Vec<OwnedFd>) {
        let closings = std::mem::take(&mut self.0);
        drop(spawn_closing(move || {
            closings.into_iter().for_each(|one| drop(one.join()));
            drop(descriptors);
        }));
    }
}

fn spawn_closing(close: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("etwd-close".to_owned()).spawn(close)
}

fn entry(descriptors: Vec<OwnedFd>) -> Entry {
    Entry { facts: b"null".to_vec(), descriptors }
}

/// Starts a worker. In haste, it begins with the keeper's priority, until it has taken the rings over.
fn start(
    program: &Path,
    arguments: &[&str],
    haste: Option<&Haste>,
) -> io::Result<(Channel, Child)> {
    let (ours, theirs) = Channel::pair()?;
    let _one = WORKER_LOCK.lock();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    let worker = match haste {
        Some(haste) => haste.bequeath(|| command.spawn())?,
        None => command.spawn()?,
    };
    WORKER.store(worker.id(), Ordering::SeqCst);
    Ok((ours, worker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_before_service_is_no_crash() {
        let killed = |signal| ExitStatus::from_raw(signal);
        let exited = |code: i32| ExitStatus::from_raw(code << 8);
        let ending = |ended, has_served| Ending::of(ended, has_served, Duration::ZERO);
        assert_eq!(ending(killed(libc::SIGKILL), false), Ending::KilledAtStart);
        assert_eq!(ending(killed(libc::SIGKILL), true), Ending::Sound);
        assert_eq!(ending(killed(libc::SIGSEGV), false), Ending::Crashed);
        assert_eq!(ending(exited(101), false), Ending::Crashed);
        assert_eq!(ending(exited(101), true), Ending::Crashed);
        assert_eq!(Ending::of(exited(101), true, SOON), Ending::Sound);
        assert_eq!(Ending::of(exited(101), false, SOON), Ending::Crashed);
    }
}
