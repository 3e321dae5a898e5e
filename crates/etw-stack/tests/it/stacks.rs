//! Stacks of other sizes and kinds than usual.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

use etw_stack::{MAX_FRAMES, capture, prepare};

use crate::frame_pointer_builds::is_inner;
use crate::signals::{Comparing, WHOLE, alternate_stack, handler, install};

/// Runs `f` on a thread whose stack has this size in bytes.
fn on_stack_of(size: usize, f: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) {
    // SAFETY: a thread that is joined, with attributes that are initialised.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstacksize(&mut attributes, size), 0);
        let mut thread = std::mem::zeroed();
        assert_eq!(libc::pthread_create(&mut thread, &attributes, f, argument), 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
        libc::pthread_attr_destroy(&mut attributes);
    }
}

#[test]
fn the_smallest_stack_is_captured() {
    extern "C" fn run(out: *mut c_void) -> *mut c_void {
        // SAFETY: the array below.
        let out = unsafe { &mut *out.cast::<[u64; MAX_FRAMES]>() };
        capture(out, 0);
        std::ptr::null_mut()
    }
    prepare();
    let mut frames = [0_u64; MAX_FRAMES];
    // Code without optimisation needs more.
    let size = if is_inner() { libc::PTHREAD_STACK_MIN } else { 48 << 10 };
    on_stack_of(size, run, (&raw mut frames).cast());
    // `run`, the C library's function for threads, and what that was called by.
    let count = frames.iter().take_while(|a| **a != 0).count();
    assert!((2..6).contains(&count), "{frames:x?}");
}

/// The bytes of the handler's stack that were ever written, below the handler's frame.
#[test]
fn little_stack_is_needed() {
    const SIZE: usize = 128 << 10;
    prepare();
    install(libc::SIGWINCH, libc::SA_ONSTACK);
    std::thread::spawn(|| {
        let stack = alternate_stack(SIZE);
        let handler = (raise_once() - stack) as usize;
        // SAFETY: the leaked memory; no handler runs now.
        let bytes = unsafe { std::slice::from_raw_parts(stack as *const u8, SIZE) };
        let lowest = bytes.iter().position(|b| *b != 0xa5).unwrap();
        let used = handler - lowest;
        // Code without optimisation keeps every copy.
        let most = if is_inner() { 8 << 10 } else { 24 << 10 };
        assert!(used < most, "{used}");
    })
    .join()
    .unwrap();
}

#[inline(never)]
fn raise_once() -> u64 {
    let comparing = Comparing::start();
    // SAFETY: raises a signal that has a handler.
    unsafe { libc::raise(libc::SIGWINCH) };
    assert_eq!(WHOLE.load(Ordering::Relaxed), 1);
    comparing.assert_all_whole()
}

/// A handler runs because the stack has overflown into its guard.
#[test]
fn an_overflowing_stack_is_captured() {
    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
        static ADDRESS: Cell<u64> = const { Cell::new(0) };
    }
    extern "C" fn overflown(_: libc::c_int) {
        let mut frames = [0; MAX_FRAMES];
        let count = capture(&mut frames, 0);
        COUNT.set(count);
        ADDRESS.set(frames[100]);
        // The child's verdict: the same function over and over.
        let good = count == MAX_FRAMES && frames[90..150].iter().all(|a| *a == frames[100]);
        // SAFETY: ends the process.
        unsafe { libc::_exit(if good { 0 } else { 1 }) };
    }
    #[inline(never)]
    fn for_ever(n: u64) -> u64 {
        let room = std::hint::black_box([n; 8]);
        if n == u64::MAX {
            return 0;
        }
        std::hint::black_box(for_ever(room[3] + 1)) + room[5]
    }
    prepare();
    // SAFETY: the child only runs code of its own thread, until it exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as in `install`; the rest overflows the stack, which has a guard.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = overflown as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
            alternate_stack(128 << 10);
            for_ever(1);
            libc::_exit(2);
        }
    }
    assert_eq!(crate::fork::exit_status(child), Some(0));
}

/// A call of an address where nothing is.
#[test]
fn a_call_of_an_unmapped_address_is_captured() {
    extern "C" fn compare(signal: libc::c_int) {
        handler(signal);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if WHOLE.load(Ordering::Relaxed) == 1 { 0 } else { 1 }) };
    }
    #[inline(never)]
    fn jump(address: usize) {
        let comparing = Comparing::start();
        // SAFETY: the child only runs code of its own thread, until it exits; there the jump raises a signal.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the child has one thread, and the handler ends it.
            unsafe {
                libc::signal(libc::SIGSEGV, compare as *const () as usize);
                std::mem::transmute::<usize, extern "C" fn()>(std::hint::black_box(address))();
                libc::_exit(2);
            }
        }
        assert_eq!(crate::fork::exit_status(child), Some(0), "{address:x}");
        comparing.stop();
    }
    prepare();
    for address in [8, 0x1000, (1 << 46) + 0x123] {
        jump(address);
    }
}

/// A stack that the program made itself and switched to.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_stack_that_the_program_made_is_captured() {
    use crate::reference::{Both, both};

    extern "C" fn at_the_bottom(seen: *mut c_void) {
        // SAFETY: the value below.
        unsafe { *seen.cast() = Some(both()) };
    }
    unsafe extern "C" {
        fn etw_stack_test_switch(stack: u64, f: extern "C" fn(*mut c_void), argument: *mut c_void);
    }
    prepare();
    // Below the thread's own, as the system places most: frames of callers lie above each other, or the walk ends.
    const SIZE: usize = 1 << 20;
    let mut seen: Option<Both> = None;
    let here = (&raw const seen).addr();
    // SAFETY: new memory, near a place that may be taken.
    let stack = unsafe {
        let (rights, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let near = std::ptr::without_provenance_mut((here - (8 << 30)) & !0xfff);
        libc::mmap(near, SIZE, rights, flags, -1, 0)
    };
    assert!(stack != libc::MAP_FAILED && stack.addr() < here, "{stack:?}");
    let top = (stack.addr() + SIZE - 16) as u64;
    // SAFETY: a stack of 1 MiB; follows the C ABI.
    unsafe {
        etw_stack_test_switch(top, at_the_bottom, (&raw mut seen).cast());
        libc::munmap(stack, SIZE);
    }
    let seen = seen.unwrap();
    // The other stack, and behind it the thread's own, which is found through a register that all frames between have
    // kept.
    assert!(seen.ours.len() > 5, "{:x?}", seen.ours);
    seen.assert_same();
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    // etw_stack_test_switch(stack, f, argument)
    ".globl etw_stack_test_switch",
    ".type etw_stack_test_switch,@function",
    "etw_stack_test_switch:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "mov rbx, rsp",
    ".cfi_def_cfa_register rbx",
    "mov rsp, rdi",
    "mov rdi, rdx",
    "call rsi",
    "mov rsp, rbx",
    ".cfi_def_cfa_register rsp",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size etw_stack_test_switch, .-etw_stack_test_switch",
);
