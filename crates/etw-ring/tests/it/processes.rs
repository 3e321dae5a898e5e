//! Other processes: kill -9, stop, fork, clone, exec.
use crate::support::*;
use etw_ring::*;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const THREADS: usize = 3;

struct Remote {
    child: Child,
    reader: Reader,
    control: Control,
    pool_fd: OwnedFd,
    progress: Memory,
}

fn progress(memory: &Memory) -> &[AtomicU64; THREADS * 8] {
    let mapped = memory.fd().unwrap();
    // The tests' own page: mapped here once more, since a `Memory` does not show its bytes.
    // SAFETY: a shared mapping of a page that is never unmapped, of atomics.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            mapped.as_raw_fd(),
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast()
    }
}

fn spawn(chunk_size: usize) -> Remote {
    let control = Control::create(
        Memory::shared(Control::SIZE).unwrap(),
        RawClock::best(),
        Barrier::best(false),
    )
    .unwrap();
    control.set_admission(0, open());
    let options = PoolOptions { chunk_size, prefault: usize::MAX };
    let pool = Memory::shared(options.memory_size()).unwrap();
    let progress = Memory::shared(4096).unwrap();
    let fds = [
        pool.fd().unwrap().as_raw_fd(),
        control.memory().fd().unwrap().as_raw_fd(),
        progress.fd().unwrap().as_raw_fd(),
    ];
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "processes::provider", "--nocapture", "--test-threads=1"])
        .env("ETW_RING_FDS", format!("{} {} {} {chunk_size}", fds[0], fds[1], fds[2]));
    // SAFETY: fcntl is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            for fd in fds {
                libc::fcntl(fd, libc::F_SETFD, 0);
            }
            Ok(())
        })
    };
    command.stdout(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    let started = crate::processes::progress(&progress);
    let start = Instant::now();
    while (0..THREADS).any(|t| started[t * 8].load(Ordering::Acquire) < 100) {
        assert!(start.elapsed() < Duration::from_secs(120), "the provider does not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    let pool_fd = pool.fd().unwrap().try_clone_to_owned().unwrap();
    let source = Source::received(pool_fd.try_clone().unwrap()).unwrap();
    let reader = Reader::new(control.clone(), source).unwrap();
    Remote { child, reader, control, pool_fd, progress }
}

/// Not a test: the provider process. Thread 2 writes through overflow chunks.
#[test]
fn provider() {
    let Ok(fds) = std::env::var("ETW_RING_FDS") else { return };
    let n: Vec<i32> = fds.split(' ').map(|n| n.parse().unwrap()).collect();
    // SAFETY: inherited descriptors that nobody else owns.
    let own = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
    let options = PoolOptions { chunk_size: n[3] as usize, prefault: usize::MAX };
    let pool = Memory::map(own(n[0]), 0, options.memory_size(), true).unwrap();
    let control = Memory::map(own(n[1]), 0, Control::SIZE, false).unwrap();
    let page = Memory::map(own(n[2]), 0, 4096, true).unwrap();
    let progress = progress(&page);
    let writer = Writer::new(pool, Arc::new(control), options, 0).unwrap();
    std::thread::scope(|s| {
        for thread in 0..THREADS {
            let writer = &writer;
            s.spawn(move || {
                for i in 0u64.. {
                    let fill = |r: &mut Payload<'_>| {
                        r.put(&(thread as u64).to_le_bytes());
                        r.put(&i.to_le_bytes());
                        r.put(&[i as u8; 24]);
                    };
                    let request = request(40);
                    loop {
                        let done = if thread == 2 {
                            writer.write_in_overflow(&request, fill)
                        } else {
                            writer.write(&request, fill)
                        };
                        if done.is_ok() {
                            break;
                        }
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    progress[thread * 8].store(i + 1, Ordering::Release);
                    if i % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
}

#[derive(Default)]
struct Check {
    next: [u64; THREADS],
    last: u64,
}

impl Check {
    fn record(&mut self, r: &Record<'_>) {
        assert!(r.time >= self.last);
        self.last = r.time;
        let thread = u64::from_le_bytes(r.payload[..8].try_into().unwrap()) as usize;
        let i = u64::from_le_bytes(r.payload[8..16].try_into().unwrap());
        assert!(r.payload[16..].iter().all(|b| *b == i as u8));
        assert_eq!(i, self.next[thread], "thread {thread}");
        self.next[thread] += 1;
    }
}

/// P3 and P2: all that was committed before a `kill -9` is recovered, no torn record is read as a whole one, and the ledger is
/// exact but for the write in flight of each thread. In half of the rounds the host is restarted too.
#[test]
fn kill_9_loses_nothing_committed() {
    for round in 0..12u64 {
        let mut remote = spawn(4 << 20);
        let progress = progress(&remote.progress);
        let mut check = Check::default();
        let until = Instant::now() + Duration::from_micros(3000 + round * 7919 % 40_000);
        while Instant::now() < until {
            remote.reader.drain(&DrainOptions::default(), |r| check.record(r));
            remote.reader.advance();
            std::thread::sleep(Duration::from_millis(1));
        }
        remote.child.kill().unwrap();
        remote.child.wait().unwrap();
        if round % 2 == 1 {
            let control = Control::open_shared(remote.control.memory().clone()).unwrap();
            let source = Source::received(remote.pool_fd.try_clone().unwrap()).unwrap();
            remote.reader = Reader::new(control, source).unwrap();
        }
        let ended = DrainOptions { ended: true, ..Default::default() };
        let done = remote.reader.drain(&ended, |r| check.record(r));
        remote.reader.advance();
        assert_eq!((done.hostile, done.late), (0, 0));
        for thread in 0..THREADS {
            let said = progress[thread * 8].load(Ordering::Relaxed);
            let got = check.next[thread];
            assert!(got == said || got == said + 1, "thread {thread}: {got} of {said}");
        }
        let ledger = remote.reader.ledger();
        let stored: u64 = check.next.iter().sum();
        let off = ledger.attempted[0] - ledger.lost_total(0) - stored;
        assert!(off <= THREADS as u64, "{off}");
        let again = remote.reader.drain(&ended, |_| panic!("a record came twice"));
        assert_eq!(again.records, 0);
    }
}

/// A stopped provider: a drain waits at most 50 ms for it, and nothing is lost or out of order when it goes on.
#[test]
fn a_stopped_provider_delays_a_drain_by_50_ms_at_most() {
    let mut remote = spawn(4 << 20);
    let pid = remote.child.id() as libc::pid_t;
    let mut last = 0;
    let mut late = 0;
    let mut times = Vec::new();
    for _ in 0..15 {
        // SAFETY: signals our own child.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        std::thread::sleep(Duration::from_millis(5));
        for _ in 0..2 {
            let start = Instant::now();
            let done = remote.reader.drain(&patient(), |r| {
                assert!(r.time >= last);
                last = r.time;
            });
            remote.reader.advance();
            times.push(start.elapsed());
            late += done.late;
        }
        // SAFETY: signals our own child.
        unsafe { libc::kill(pid, libc::SIGCONT) };
        std::thread::sleep(Duration::from_millis(3));
        late += remote
            .reader
            .drain(&patient(), |r| {
                assert!(r.time >= last);
                last = r.time;
            })
            .late;
        remote.reader.advance();
    }
    // Most of them: on a busy machine, a drain itself may have to wait for a processor.
    times.sort_unstable();
    assert!(times[times.len() / 2] < Duration::from_millis(250), "{times:?}");
    assert!(times[times.len() - 1] < Duration::from_secs(30), "{times:?}");
    remote.child.kill().unwrap();
    remote.child.wait().unwrap();
    let ended = DrainOptions { ended: true, ..Default::default() };
    late += remote.reader.drain(&ended, |_| ()).late;
    let ledger = remote.reader.ledger();
    let found = remote.reader.drained()[0] + late + ledger.lost_total(0);
    assert!(ledger.attempted[0] - found <= THREADS as u64, "{ledger:?} {found}");
}

fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for our own child.
    unsafe { libc::waitpid(pid, &mut status, libc::__WALL) };
    assert!(libc::WIFEXITED(status), "the child died of a signal: {status:#x}");
    libc::WEXITSTATUS(status)
}

/// In a child: the writer refuses, and the parent's pool is not there.
fn in_child(writer: &Writer) -> i32 {
    let refused = put_usual(None, b"child").is_none()
        && put(writer, b"child") == Err(Refused::Detached)
        && writer.write_in_overflow(&request(1), |_| ()) == Err(Refused::Detached)
        && writer.intern(&SiteCache::new(), b"child") == 0;
    if refused { 0 } else { 1 }
}

#[test]
fn a_forked_child_is_refused_and_may_attach_anew() {
    let mut rig = rig(1 << 20);
    put(&rig.writer, b"parent").unwrap();
    // SAFETY: the child only writes, attaches and exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let mut code = in_child(&rig.writer);
        let mut own = crate::support::rig(1 << 18);
        if put(&own.writer, b"own").is_err() || all(&mut own.reader) != [b"own"] {
            code |= 2;
        }
        if put(&rig.writer, b"still the parent's") != Err(Refused::Detached) {
            code |= 4;
        }
        // SAFETY: leaves without running the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    assert_eq!(wait_for(pid), 0);
    put(&rig.writer, b"parent").unwrap();
    assert_eq!(all(&mut rig.reader), [b"parent", b"parent"]);
    balance(&rig.reader);
}

#[test]
fn a_child_of_a_raw_clone_is_refused() {
    let mut rig = rig(1 << 20);
    put(&rig.writer, b"parent").unwrap();
    // SAFETY: a fork that libc does not know of; the child only writes and exits.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as libc::pid_t;
    if pid == 0 {
        let code = in_child(&rig.writer);
        // SAFETY: ends the child, without handlers of the parent.
        unsafe { libc::_exit(code) };
    }
    assert_eq!(wait_for(pid), 0);
    assert_eq!(all(&mut rig.reader), [b"parent"]);
}

/// fork between reserve and commit, as in a handler: the child's half of the write ends in memory of its own.
#[test]
fn a_fork_in_mid_write_does_not_crash_the_child() {
    let mut rig = rig(1 << 20);
    let state = ThreadState::new();
    put(&rig.writer, b"warm").unwrap();
    let mut event = rig.writer.reserve(&state, &request(6)).unwrap();
    event.stamp_now();
    // SAFETY: the child ends the write and exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        event.put(b"child!");
        let _ = event.commit();
        let code = in_child(&rig.writer);
        // SAFETY: ends the child, without handlers of the parent.
        unsafe { libc::_exit(code) };
    }
    assert_eq!(wait_for(pid), 0);
    event.put(b"parent");
    event.commit().unwrap();
    assert_eq!(all(&mut rig.reader), [&b"warm"[..], b"parent"]);
}

extern "C" fn vfork_child(writer: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the parent stands still and holds the writer.
    let writer = unsafe { &*writer.cast::<Writer>() };
    i32::from(put(writer, b"vfork").is_err())
}

/// A vfork child shares everything with its parent, which stands still: its events are the parent's.
#[test]
fn a_vfork_child_writes_events_of_its_parent() {
    let mut rig = rig(1 << 20);
    put(&rig.writer, b"one").unwrap();
    let mut stack = vec![0u64; 32768];
    // SAFETY: a stack of its own; CLONE_VFORK holds this thread until the child has exited.
    let pid = unsafe {
        libc::clone(
            vfork_child,
            stack.as_mut_ptr().add(32768 - 2).cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            std::ptr::from_ref::<Writer>(&rig.writer).cast_mut().cast(),
        )
    };
    assert!(pid > 0);
    assert_eq!(wait_for(pid), 0);
    put(&rig.writer, b"two").unwrap();
    assert_eq!(all(&mut rig.reader), [&b"one"[..], b"vfork", b"two"]);
    balance(&rig.reader);
}

#[test]
fn an_executed_program_inherits_nothing() {
    let _rig = rig(1 << 20);
    let list = Command::new("ls").args(["-l", "/proc/self/fd/"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&list.stdout).contains("etw-ring"));
}
