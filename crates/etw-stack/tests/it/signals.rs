//! Handlers of signals that come at random instructions.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use etw_stack::{MAX_FRAMES, capture, prepare};

use crate::library::{EXACT_CHAINS, Library};

/// The addresses that every stack ends with, which handlers compare without an allocation.
static BASE: [AtomicU64; MAX_FRAMES] = [const { AtomicU64::new(0) }; MAX_FRAMES];
static BASE_LEN: AtomicUsize = AtomicUsize::new(0);
pub static WHOLE: AtomicUsize = AtomicUsize::new(0);
static BROKEN: AtomicUsize = AtomicUsize::new(0);
static SAMPLE: [AtomicU64; MAX_FRAMES] = [const { AtomicU64::new(0) }; MAX_FRAMES];
static SAMPLE_LEN: AtomicUsize = AtomicUsize::new(0);
/// Code of which interrupted addresses are counted.
static WATCHED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static IN_WATCHED: AtomicUsize = AtomicUsize::new(0);
/// The addresses of the last handler.
static HANDLER_STACK: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Only the thread whose base it is compares.
    static COMPARES: Cell<bool> = const { Cell::new(false) };
}

pub extern "C" fn handler(_signal: libc::c_int) {
    if !COMPARES.get() {
        return;
    }
    let mut frames = [0; MAX_FRAMES];
    let count = capture(&mut frames, 0);
    let frames = &frames[..count];
    HANDLER_STACK.store(frames.as_ptr() as u64, Ordering::Relaxed);
    let base = BASE_LEN.load(Ordering::Relaxed);
    let whole = count == MAX_FRAMES
        || count >= base
            && (0..base).all(|n| BASE[n].load(Ordering::Relaxed) == frames[count - base + n]);
    let watched = WATCHED[0].load(Ordering::Relaxed)..WATCHED[1].load(Ordering::Relaxed);
    // The handler, the code that it returns to, the interrupted function.
    if frames.get(2).is_some_and(|a| watched.contains(a)) {
        IN_WATCHED.fetch_add(1, Ordering::Relaxed);
    }
    if whole {
        WHOLE.fetch_add(1, Ordering::Relaxed);
    } else if BROKEN.fetch_add(1, Ordering::Relaxed) == 0 {
        for (place, address) in SAMPLE.iter().zip(frames) {
            place.store(*address, Ordering::Relaxed);
        }
        SAMPLE_LEN.store(count, Ordering::Relaxed);
    }
}

/// Lets handlers compare until it goes out of scope; one test at a time.
pub struct Comparing {
    _one: MutexGuard<'static, ()>,
}

impl Comparing {
    /// Sets the base: the callers of the calling function.
    #[inline(always)]
    pub fn start() -> Comparing {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
        let mut frames = [0; MAX_FRAMES];
        let count = capture(&mut frames, 1);
        assert!(count > 2);
        for (place, address) in BASE.iter().zip(&frames[..count]) {
            place.store(*address, Ordering::Relaxed);
        }
        BASE_LEN.store(count, Ordering::Relaxed);
        for counter in [&WHOLE, &BROKEN, &IN_WATCHED] {
            counter.store(0, Ordering::Relaxed);
        }
        COMPARES.set(true);
        Comparing { _one: one }
    }

    pub fn stop(&self) {
        COMPARES.set(false);
    }

    /// Gives the place of the last handler's frame.
    pub fn assert_all_whole(&self) -> u64 {
        self.stop();
        let sample: Vec<_> = SAMPLE[..SAMPLE_LEN.load(Ordering::Relaxed)]
            .iter()
            .map(|a| {
                let a = a.load(Ordering::Relaxed);
                let module = etw_stack::modules().into_iter().find(|m| m.range.contains(&a));
                let place = module.map(|m| (m.path.clone(), a - m.bias));
                format!("{a:x} {place:x?}")
            })
            .collect();
        let (whole, broken) = (WHOLE.load(Ordering::Relaxed), BROKEN.load(Ordering::Relaxed));
        assert_eq!(broken, 0, "of {whole}, the first: {sample:#?}");
        HANDLER_STACK.load(Ordering::Relaxed)
    }
}

impl Drop for Comparing {
    fn drop(&mut self) {
        COMPARES.set(false);
    }
}

pub fn install(signal: libc::c_int, flags: libc::c_int) {
    // SAFETY: the handler is async-signal-safe, which is what is tested.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// A stack for handlers, of this size in bytes; for the rest of the thread's life.
pub fn alternate_stack(size: usize) -> u64 {
    let memory = vec![0xa5_u8; size].leak();
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: size };
    // SAFETY: memory that is never freed.
    assert_eq!(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }, 0);
    memory.as_ptr() as u64
}

/// Work of many kinds, for as long as the time lasts.
#[inline(never)]
fn work(time: Duration, libraries: &[Library]) {
    extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        // SAFETY: elements of the array below.
        unsafe { *a.cast::<u32>() as i32 - *b.cast::<u32>() as i32 }
    }
    let start = Instant::now();
    let mut n = 0_u32;
    while start.elapsed() < time {
        n += 1;
        let mut numbers: [u32; 64] = std::array::from_fn(|i| n.wrapping_mul(i as u32) % 100);
        // SAFETY: the array, its length and the size of its elements.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 64, 4, Some(compare)) };
        black_box(format!("{numbers:?} {}", f64::from(n) / 7.0));
        for library in libraries {
            for name in EXACT_CHAINS {
                // SAFETY: follows the C ABI.
                unsafe { library.chain(name)(20, nothing, std::ptr::null_mut()) };
            }
        }
    }
}

extern "C" fn nothing(_: *mut libc::c_void) {}

/// Lets signals come at random times while `work` runs: all stacks are whole.
#[inline(never)]
fn torture(signal: libc::c_int, work: &dyn Fn()) -> u64 {
    let comparing = Comparing::start();
    send_enough(signal, work);
    assert!(WHOLE.load(Ordering::Relaxed) > 500, "{WHOLE:?} signals");
    comparing.assert_all_whole()
}

/// Sends signals until more than 500 have been compared: on a busy machine fewer come in the same time.
fn send_enough(signal: libc::c_int, work: &dyn Fn()) {
    for _ in 0..60 {
        send(signal, work);
        if WHOLE.load(Ordering::Relaxed) > 500 {
            break;
        }
    }
}

/// Sends signals while `work` runs.
fn send(signal: libc::c_int, work: &dyn Fn()) {
    let stop = AtomicBool::new(false);
    let thread = AtomicI64::new(0);
    // SAFETY: the calling thread's own.
    thread.store(unsafe { libc::pthread_self() } as i64, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = 0x2545_f491_4f6c_dd1d_u64;
            while !stop.load(Ordering::Relaxed) {
                // SAFETY: the thread lives until this one has ended.
                unsafe { libc::pthread_kill(thread.load(Ordering::Relaxed) as _, signal) };
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                std::thread::sleep(Duration::from_nanos(random % 100_000));
            }
        });
        work();
        stop.store(true, Ordering::Relaxed);
    });
}

fn at_random_instructions() {
    let libraries = [Library::with_frame_pointers(), Library::without_frame_pointers()];
    prepare();
    torture(libc::SIGPROF, &|| work(Duration::from_secs(1), &libraries));
}

#[test]
fn a_handler_on_the_threads_stack_captures_it() {
    install(libc::SIGPROF, 0);
    at_random_instructions();
}

#[test]
fn a_handler_on_an_alternate_stack_captures_both() {
    install(libc::SIGURG, libc::SA_ONSTACK);
    let libraries = [Library::with_frame_pointers(), Library::without_frame_pointers()];
    prepare();
    std::thread::spawn(move || {
        let stack = alternate_stack(128 << 10);
        let handler = torture(libc::SIGURG, &|| work(Duration::from_secs(1), &libraries));
        assert!((stack..stack + (128 << 10)).contains(&handler), "{handler:x} {stack:x}");
    })
    .join()
    .unwrap();
}

#[test]
fn a_handler_captures_the_stack_while_an_exception_is_thrown() {
    install(libc::SIGPROF, 0);
    prepare();
    throw();
}

#[inline(never)]
fn throw() {
    let comparing = Comparing::start();
    send_enough(libc::SIGPROF, &|| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(1) {
            let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(3)));
            assert_eq!(*caught.unwrap_err().downcast::<i32>().unwrap(), 3);
        }
    });
    comparing.stop();
    // The unwinder overwrites its own frame with the one that it goes to: for some instructions there is no stack.
    let (whole, broken) = (WHOLE.load(Ordering::Relaxed), BROKEN.load(Ordering::Relaxed));
    assert!(whole > 500 && broken < whole / 5, "{whole} {broken}");
}

#[test]
fn a_handler_captures_the_stack_of_the_vdso() {
    install(libc::SIGPROF, 0);
    prepare();
    let vdso = etw_stack::modules().into_iter().find(|m| {
        // SAFETY: reads a vector.
        m.range.contains(&unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) })
            || m.path.to_str().is_some_and(|p| p.contains("vdso"))
    });
    let vdso = vdso.expect("a vdso").range;
    let hits = AtomicUsize::new(0);
    torture(libc::SIGPROF, &|| {
        WATCHED[0].store(vdso.start, Ordering::Relaxed);
        WATCHED[1].store(vdso.end, Ordering::Relaxed);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(1) {}
        WATCHED[1].store(0, Ordering::Relaxed);
        hits.store(IN_WATCHED.load(Ordering::Relaxed), Ordering::Relaxed);
    });
    assert!(hits.into_inner() > 20);
}

#[test]
fn a_handler_that_is_interrupted_by_a_handler() {
    /// Raises the other signal from within a handler, and compares in both.
    extern "C" fn outer(signal: libc::c_int) {
        handler(signal);
        // SAFETY: raises a signal that has a handler.
        unsafe { libc::raise(libc::SIGUSR2) };
    }
    prepare();
    install(libc::SIGUSR2, libc::SA_ONSTACK);
    // SAFETY: as in `install`.
    unsafe { libc::signal(libc::SIGUSR1, outer as *const () as usize) };
    std::thread::spawn(|| {
        alternate_stack(128 << 10);
        nested();
    })
    .join()
    .unwrap();
}

#[inline(never)]
fn nested() {
    let comparing = Comparing::start();
    for _ in 0..10 {
        // SAFETY: raises a signal that has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
    assert_eq!(WHOLE.load(Ordering::Relaxed), 20);
    comparing.assert_all_whole();
}

#[test]
fn errno_is_as_before() {
    prepare();
    // On the heap, where reading takes system calls that fail.
    std::thread::spawn(|| {
        let mut frames = [0; MAX_FRAMES];
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() = 4711 };
        assert!(capture(&mut frames, 0) > 0);
        // SAFETY: the thread's own errno.
        assert_eq!(unsafe { *libc::__errno_location() }, 4711);
    })
    .join()
    .unwrap();
}
