//! Writes nested in signal handlers.
use crate::support::*;
use etw_ring::*;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

static WRITER: AtomicPtr<Writer> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU64 = AtomicU64::new(0);
static OK: AtomicU64 = AtomicU64::new(0);
static ONE: Mutex<()> = Mutex::new(());

extern "C" fn handler(_: libc::c_int) {
    let writer = WRITER.load(Ordering::Acquire);
    if writer.is_null() {
        return;
    }
    // SAFETY: the test that set it holds the writer until it has cleared it.
    let writer = unsafe { &*writer };
    let n = HANDLED.fetch_add(1, Ordering::Relaxed);
    let size = if n % 50 == 49 { 9000 } else { 24 };
    let request = Request { kind: 2, event_size: 200, ..request(size) };
    let done = writer.write(&request, |r| {
        for _ in 0..size / 8 {
            r.put(&n.to_le_bytes());
        }
    });
    if done.is_ok() {
        OK.fetch_add(1, Ordering::Relaxed);
    }
}

/// One test at a time uses the handler; afterwards it does nothing.
struct Installed(#[allow(dead_code)] MutexGuard<'static, ()>);

impl Drop for Installed {
    fn drop(&mut self) {
        WRITER.store(std::ptr::null_mut(), Ordering::Release);
    }
}

fn install(signals: &[libc::c_int], writer: &Writer) -> Installed {
    let guard = ONE.lock().unwrap_or_else(|e| e.into_inner());
    HANDLED.store(0, Ordering::Relaxed);
    OK.store(0, Ordering::Relaxed);
    WRITER.store(std::ptr::from_ref(writer).cast_mut(), Ordering::Release);
    // SAFETY: a handler that only calls async-signal-safe code.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        for signal in signals {
            libc::sigaction(*signal, &action, std::ptr::null_mut());
        }
    }
    Installed(guard)
}

fn whole(r: &Record<'_>) {
    assert_eq!(r.payload.len() % 8, 0);
    assert!(r.payload.chunks_exact(8).all(|b| b == &r.payload[..8]), "a torn record");
}

/// Three timers of this thread fire as fast as they can; their handlers write, and interrupt each other.
#[test]
fn a_storm_of_nested_writes_yields_whole_events_or_counted_losses() {
    let mut rig = rig(2 << 20);
    let signals = [libc::SIGUSR1, libc::SIGALRM, libc::SIGVTALRM];
    let guard = install(&signals, &rig.writer);
    let timers = signals.map(|signal| {
        // SAFETY: zeroed C structs filled in as timer_create(2) says; the timer is of this thread.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
            let every = libc::timespec { tv_sec: 0, tv_nsec: 20_000 + i64::from(signal) * 1000 };
            let spec = libc::itimerspec { it_interval: every, it_value: every };
            assert_eq!(libc::timer_settime(timer, 0, &spec, std::ptr::null_mut()), 0);
            timer
        }
    });
    let (mut outer_ok, mut outer, mut last) = (0u64, 0u64, 0);
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        for _ in 0..500 {
            outer += 1;
            let value = outer.to_le_bytes();
            let size = 8 * (1 + outer as usize % 40);
            let done = rig.writer.write(&request(size), |r| {
                for _ in 0..size / 8 {
                    r.put(&value);
                }
            });
            outer_ok += u64::from(done.is_ok());
        }
        let done = rig.reader.drain(&patient(), |r| {
            assert!(r.time >= last);
            last = r.time;
            whole(r);
        });
        assert_eq!(done.hostile, 0);
        rig.reader.advance();
    }
    for timer in timers {
        // SAFETY: the timers made above.
        unsafe { libc::timer_delete(timer) };
    }
    WRITER.store(std::ptr::null_mut(), Ordering::Release);
    rig.reader.drain(&patient(), whole);
    rig.reader.advance();
    let handled = HANDLED.load(Ordering::Relaxed);
    let ok = outer_ok + OK.load(Ordering::Relaxed);
    assert!(handled > 1000, "{handled}");
    assert_eq!(rig.reader.ledger().attempted[0], outer + handled);
    assert_eq!(rig.reader.drained()[0] + rig.reader.late()[0], ok);
    balance(&rig.reader);
    drop(guard);
}

/// The processor's trap flag: a handler that writes runs after every single instruction of a first write, a usual write
/// and a chunk change.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_handler_may_write_after_every_instruction_of_a_write() {
    let mut rig = rig(16 << 20);
    for round in 0..3 {
        let guard = install(&[libc::SIGTRAP], &rig.writer);
        if round > 0 {
            // Round 1: no room is left in the 4 KiB chunk; round 2: room is left.
            put(&rig.writer, &vec![1; if round == 1 { 3952 } else { 64 }]).unwrap();
        }
        let writer = rig.writer.clone();
        let write = move || {
            let request = request(80);
            // SAFETY: sets and clears the trap flag; SIGTRAP has a handler. The red zone is stepped over.
            unsafe {
                core::arch::asm!(
                    "sub rsp, 128",
                    "pushfq",
                    "or qword ptr [rsp], 0x100",
                    "popfq",
                    "add rsp, 128"
                );
            }
            let done = writer.write(&request, |r| {
                for _ in 0..10 {
                    r.put(&[3; 8]);
                }
            });
            // SAFETY: changes the trap flag only; the red zone is skipped.
            unsafe {
                core::arch::asm!(
                    "sub rsp, 128",
                    "pushfq",
                    "and qword ptr [rsp], ~0x100",
                    "popfq",
                    "add rsp, 128"
                );
            }
            done.unwrap();
        };
        if round == 0 {
            std::thread::spawn(write).join().unwrap()
        } else {
            write()
        }
        WRITER.store(std::ptr::null_mut(), Ordering::Release);
        let handled = HANDLED.load(Ordering::Relaxed);
        assert!(handled > 50, "{handled}");
        let (mut nested, mut outer) = (0, 0);
        let done = rig.reader.drain(&patient(), |r| {
            whole(r);
            if r.kind == 2 { nested += 1 } else { outer += 1 }
        });
        rig.reader.advance();
        assert_eq!((done.hostile, done.late), (0, 0));
        assert_eq!(nested, OK.load(Ordering::Relaxed));
        assert_eq!(outer, 1 + u64::from(round > 0));
        balance(&rig.reader);
        drop(guard);
    }
}

#[test]
fn a_threads_first_write_may_be_in_a_handler() {
    let mut rig = rig(1 << 20);
    let guard = install(&[libc::SIGUSR2], &rig.writer);
    std::thread::spawn(|| {
        // SAFETY: signals this very thread.
        unsafe { libc::raise(libc::SIGUSR2) };
    })
    .join()
    .unwrap();
    WRITER.store(std::ptr::null_mut(), Ordering::Release);
    let mut n = 0;
    rig.reader.drain(&patient(), |r| {
        n += 1;
        assert!(!r.overflow && r.kind == 2)
    });
    assert_eq!((n, OK.load(Ordering::Relaxed)), (1, 1));
    balance(&rig.reader);
    drop(guard);
}
