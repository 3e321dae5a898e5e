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
use etw_wire::host_client::NO_PROCESSES;
use rustix::event::{PollFd, PollFlags, poll};

use crate::global_host::raise_descriptor_limit;
use crate::haste::{Haste, hurry};
use crate::host_options::HostOptions;
use crate::keeper_protocol::{
    ENDING, ENGINE, Entries, Entry, RELEASED, RING, numbers, send, split,
};
use crate::kept_state::{KeptRing, KeptSession};
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
/// Held while a worker is started, and while its end is awaited: until it is reaped, its process id is its own.
static WORKER_LOCK: Mutex<()> = Mutex::new(());

/// The exit status of a worker to which the system refuses threads, processes or memory: another one may get them later (`EX_TEMPFAIL`).
pub const REFUSED_WORKER: u8 = 75;

/// The reason of a worker that ended so.
const NO_THREADS: &str = "it gets no threads or no memory";

/// Whether the system refuses threads, processes or memory.
pub fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory)
}

/// Runs workers until one ends by itself. A worker is `program` with `arguments`; its standard input is the connection to the
/// keeper. A worker that is killed while it ends is replaced, too: its sessions have to be stored.
///
/// # Errors
/// `AlreadyExists`: another host has the directory. Workers that fail again and again.
pub fn keep(options: &HostOptions, program: &Path, arguments: &[&str]) -> io::Result<()> {
    // The keeper holds descriptors of every program, and so does a worker, which inherits the limit.
    raise_descriptor_limit();
    let mut claim = RuntimeClaim::take(&options.directory)?;
    claim.forget_failures();
    let mut held = Held::default();
    let listener = claim.listen()?;
    is_daemon_now();
    held.entries.insert("listener".to_owned(), entry(vec![listener]));
    let memory = |size| -> io::Result<OwnedFd> {
        Memory::shared(size)?.take_fd().ok_or(io::ErrorKind::Unsupported.into())
    };
    let memories = vec![memory(Bell::SIZE)?, memory(LastBatch::SIZE)?];
    held.entries.insert("memory".to_owned(), entry(memories));
    let ended = run_workers(&mut claim, &mut held, || start(program, arguments));
    match &ended {
        Ok(()) => log_info!("host of {} ended", options.directory.display()),
        Err(error) => claim.add_failures(
            held.sessions().map(|name| format!("session {name} has ended with its host: {error}")),
        ),
    }
    ended
}

/// Runs one worker after the other until one ends by itself.
fn run_workers(
    claim: &mut RuntimeClaim,
    held: &mut Held,
    start: impl Fn() -> io::Result<(Channel, Child)>,
) -> io::Result<()> {
    let (mut failures, mut kills) = (0, 0);
    let mut is_known_to_serve = false;
    loop {
        let began = Instant::now();
        // In haste, it begins with the keeper's priority, until it has taken the rings over.
        let started = match &held.haste {
            Some(haste) => haste.bequeath(&start),
            None => start(),
        };
        let (channel, worker) = match started {
            Err(error) if is_known_to_serve && is_refusal(&error) => {
                claim.fail(&no_worker(&error.to_string()));
                std::thread::sleep(KILLED_DELAY);
                continue;
            }
            started => started?,
        };
        if IS_ENDING.load(Ordering::SeqCst) {
            // This worker did not receive the signal.
            held.entries.insert(ENDING.to_owned(), entry(Vec::new()));
        }
        // If the worker ends meanwhile, `serve` returns at once.
        let _ = send(&channel, &held.entries);
        let has_served = held.serve(&channel, claim, worker.id())?;
        is_known_to_serve |= has_served;
        // A worker that still runs notices the end of its keeper, and ends.
        drop(channel);
        let ended = {
            let _one = WORKER_LOCK.lock();
            let ended = wait(&worker)?;
            WORKER.store(0, Ordering::SeqCst);
            ended
        };
        reap(worker);
        if ended.success() {
            return Ok(());
        }
        let ending = Ending::of(ended, has_served, began.elapsed());
        if !is_known_to_serve && ended.code().is_some() {
            return Err(match ending {
                Ending::Refused => io::Error::new(io::ErrorKind::WouldBlock, NO_THREADS),
                // It has logged the reason, and another worker would fail in the same way.
                _ => io::Error::other("the worker does not start; its error is above"),
            });
        }
        match ending {
            Ending::Refused => {
                claim.fail(&no_worker(NO_THREADS));
                std::thread::sleep(KILLED_DELAY);
                continue;
            }
            Ending::Sound => (failures, kills) = (0, 0),
            Ending::KilledAtStart => kills += 1,
            Ending::Crashed => failures += 1,
        }
        log!("the worker ended with {ended}; another one takes over");
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

/// The failure of a host whose sessions wait for a worker.
fn no_worker(why: &str) -> String {
    format!(
        "the host's worker has ended, and no other one can start: {why}; {NO_PROCESSES}. Its sessions wait, and lose events when their buffers are full"
    )
}

/// Memory and descriptors that outlive a worker.
#[derive(Default)]
struct Held {
    entries: Entries,
    rings: HashMap<String, HeldRing>,
    closings: Closings,
    /// While it has rings: the kernel fills them until the next worker reads.
    haste: Option<Haste>,
    /// The thread of the worker's engine.
    engine: Option<OwnedFd>,
}

impl Held {
    /// Receives the messages of a worker, the process with this id, until it ends. Returns whether it has served.
    fn serve(
        &mut self,
        channel: &Channel,
        claim: &mut RuntimeClaim,
        worker: u32,
    ) -> io::Result<bool> {
        let mut has_served = false;
        self.engine = None;
        loop {
            self.await_message(channel, worker);
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
                    claim.succeed();
                    claim.announce()?;
                }
                ENGINE => self.engine = received.descriptors.into_iter().next(),
                RELEASED => self.closings.say_end(received.descriptors),
                name if facts.is_empty() => {
                    self.closings.add(self.rings.remove(name), self.entries.remove(name));
                    self.haste = self.haste.take().filter(|_| !self.rings.is_empty());
                }
                name => {
                    let descriptors = received.descriptors;
                    let entry = Entry { facts: facts.to_vec(), descriptors };
                    let ring = hold_ring(name, &entry)
                        .and_then(|ring| self.rings.insert(name.to_owned(), ring));
                    self.closings.add(ring, self.entries.insert(name.to_owned(), entry));
                    if self.haste.is_none() && !self.rings.is_empty() {
                        self.haste = Some(Haste::new());
                    }
                }
            }
        }
        Ok(has_served)
    }

    /// Waits for a message, or for the end of a worker that was killed. That end waits for the last turn of each of its threads, which ordinary
    /// threads of a busy machine get late, and rings fill meanwhile. The engine was in haste, and ends at once: so do the others, in haste.
    fn await_message(&mut self, channel: &Channel, worker: u32) {
        while self.haste.is_some()
            && let Some(engine) = &self.engine
        {
            let mut both =
                [PollFd::new(channel, PollFlags::IN), PollFd::new(engine, PollFlags::IN)];
            match poll(&mut both, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(_) if !both[1].revents().is_empty() => hurry(worker),
                _ => return,
            }
            self.engine = None;
        }
    }

    /// The names of the sessions.
    fn sessions(&self) -> impl Iterator<Item = String> {
        let sessions = self.entries.iter().filter(|(name, _)| numbers(name, "session").is_some());
        sessions.map(|(key, entry)| {
            let session = serde_json::from_slice::<KeptSession>(&entry.facts);
            session.map_or(key.clone(), |kept| kept.start.config.name)
        })
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
    /// The system refused it threads or memory.
    Refused,
}

impl Ending {
    fn of(ended: ExitStatus, has_served: bool, ran: Duration) -> Ending {
        if ended.code() == Some(REFUSED_WORKER.into()) {
            return Ending::Refused;
        }
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

/// Waits until a worker has ended, and leaves it to be reaped.
fn wait(worker: &Child) -> io::Result<ExitStatus> {
    // SAFETY: zero is a valid value of this structure of numbers.
    let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: a value that outlives the call.
    while unsafe { libc::waitid(libc::P_PID, worker.id(), &raw mut ended, options) } != 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: `waitid` has written the fields of a child that ended.
    let status = unsafe { ended.si_status() };
    Ok(ExitStatus::from_raw(match ended.si_code {
        libc::CLD_EXITED => status << 8,
        _ => status,
    }))
}

/// Reaps a worker that has ended, on an ordinary thread. The kernel removes the files of its folder in `/proc` then, and spins until the threads that
/// are closing such a file have done so. In haste, this thread would not let them.
fn reap(mut worker: Child) {
    let id = worker.id();
    if spawn_closing(move || drop(worker.wait())).is_err() {
        // SAFETY: numbers, and no place for the status.
        unsafe { libc::waitpid(id as libc::pid_t, std::ptr::null_mut(), 0) };
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

/// Starts a worker.
fn start(program: &Path, arguments: &[&str]) -> io::Result<(Channel, Child)> {
    let (ours, theirs) = Channel::pair()?;
    let _one = WORKER_LOCK.lock();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    let worker = command.spawn()?;
    WORKER.store(worker.id(), Ordering::SeqCst);
    Ok((ours, worker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haste::own_thread;
    use crate::keeper_protocol::KeeperLink;

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
        for has_served in [false, true] {
            assert_eq!(ending(exited(REFUSED_WORKER.into()), has_served), Ending::Refused);
        }
        assert_eq!(Ending::of(exited(101), true, SOON), Ending::Sound);
        assert_eq!(Ending::of(exited(101), false, SOON), Ending::Crashed);
    }

    /// Regression: on a busy machine, the next worker came seconds late, because ordinary threads of the last one had no turn to end.
    #[test]
    fn a_worker_whose_engine_has_ended_ends_in_haste() {
        // SAFETY: it takes a number.
        let is_in_haste = |process: u32| unsafe {
            libc::sched_getscheduler(process as libc::pid_t) & !libc::SCHED_RESET_ON_FORK
                == libc::SCHED_RR
        };
        let path = std::env::temp_dir().join(format!("etwd-hurried-{}", std::process::id()));
        let mut claim = RuntimeClaim::take(&path).unwrap();
        let (ours, theirs) = Channel::pair().unwrap();
        let link = KeeperLink::new(theirs);
        let mut worker = Command::new("sleep").arg("600").spawn().unwrap();
        let id = worker.id();
        let (is_hurried, hurries) = std::thread::scope(|scope| {
            let (ours, claim) = (&ours, &mut claim);
            let keeper = scope.spawn(move || {
                let mut held = Held { haste: Some(Haste::new()), ..Held::default() };
                held.serve(ours, claim, id).unwrap();
            });
            let may_hurry = {
                let _haste = Haste::new();
                is_in_haste(own_thread() as u32)
            };
            // An older system shows no end.
            let engine = scope.spawn(move || (link.put_engine(), link));
            let (is_shown, link) = engine.join().unwrap();
            let hurries = is_shown && may_hurry;
            let until = Instant::now() + Duration::from_secs(20);
            while hurries && !is_in_haste(id) && Instant::now() < until {
                std::thread::yield_now();
            }
            let is_hurried = is_in_haste(id);
            drop(link);
            keeper.join().unwrap();
            (is_hurried, hurries)
        });
        worker.kill().unwrap();
        worker.wait().unwrap();
        std::fs::remove_dir_all(path).unwrap();
        assert_eq!(is_hurried, hurries);
    }

    /// A worker that ends in this way; with `serves`, it has said that it is ready.
    fn worker(serves: bool, end: &str) -> io::Result<(Channel, Child)> {
        let (ours, theirs) = Channel::pair()?;
        if serves {
            theirs.send(b"ready\nnull", &[])?;
        }
        Ok((ours, Command::new("sh").args(["-c", end]).spawn()?))
    }

    /// P3, P11: sessions wait for a worker that the system refuses, and controllers find the reason meanwhile.
    #[test]
    fn a_worker_that_the_system_refuses_comes_later() {
        let path = std::env::temp_dir().join(format!("etwd-refused-{}", std::process::id()));
        let mut claim = RuntimeClaim::take(&path).unwrap();
        let directory = etw_wire::runtime_directory::Directory::open(&path).unwrap();
        let calls = std::cell::Cell::new(0);
        let start = || {
            let failures = directory.failures();
            calls.set(calls.get() + 1);
            let refused = |why: &str| failures.len() == 1 && failures[0].contains(why);
            match calls.get() {
                1 => worker(true, "kill -9 $$"),
                2 if failures.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
                3..=30 if refused("no other one can start") => worker(false, "exit 75"),
                31 if refused(NO_THREADS) => worker(true, "kill -9 $$"),
                32 if failures.is_empty() => worker(false, "exit 0"),
                call => panic!("{call}: {failures:?}"),
            }
        };
        run_workers(&mut claim, &mut Held::default(), start).unwrap();
        assert_eq!(calls.get(), 32);
        // Nobody waits for the first worker of a host.
        for is_started in [false, true] {
            let start = || match is_started {
                true => worker(false, "exit 75"),
                false => Err(io::ErrorKind::WouldBlock.into()),
            };
            let error = run_workers(&mut claim, &mut Held::default(), start).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
        std::fs::remove_dir_all(path).unwrap();
    }
}
