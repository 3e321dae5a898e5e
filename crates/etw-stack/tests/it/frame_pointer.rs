//! Frame pointer registers that hold other values.

#![cfg(target_arch = "x86_64")]

use std::ffi::c_void;

use etw_stack::{MAX_FRAMES, capture, prepare};

use crate::reference::both;

// (frame pointer, f, argument): calls f(argument) with that frame pointer.
std::arch::global_asm!(
    ".globl etw_stack_test_planted",
    ".type etw_stack_test_planted,@function",
    "etw_stack_test_planted:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rdi",
    "mov rdi, rdx",
    "call rsi",
    "pop rbp",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size etw_stack_test_planted, .-etw_stack_test_planted",
    // The same with unwind information that trusts the frame pointer.
    ".globl etw_stack_test_trusted",
    ".type etw_stack_test_trusted,@function",
    "etw_stack_test_trusted:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    ".cfi_def_cfa_register rbp",
    "mov rbp, rdi",
    "mov rdi, rdx",
    "call rsi",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size etw_stack_test_trusted, .-etw_stack_test_trusted",
    // The same without unwind information.
    ".globl etw_stack_test_unknown",
    ".type etw_stack_test_unknown,@function",
    "etw_stack_test_unknown:",
    "push rbp",
    "mov rbp, rdi",
    "mov rdi, rdx",
    "call rsi",
    "pop rbp",
    "ret",
    ".size etw_stack_test_unknown, .-etw_stack_test_unknown",
);

type Planted = unsafe extern "C" fn(u64, extern "C" fn(*mut c_void), *mut c_void);

unsafe extern "C" {
    fn etw_stack_test_planted(fp: u64, f: extern "C" fn(*mut c_void), argument: *mut c_void);
    fn etw_stack_test_trusted(fp: u64, f: extern "C" fn(*mut c_void), argument: *mut c_void);
    fn etw_stack_test_unknown(fp: u64, f: extern "C" fn(*mut c_void), argument: *mut c_void);
}

fn plant<F: FnMut()>(planted: Planted, fp: u64, mut f: F) {
    extern "C" fn at_the_bottom<F: FnMut()>(f: *mut c_void) {
        // SAFETY: the closure given below, used by nobody else meanwhile.
        unsafe { (*f.cast::<F>())() };
    }
    // SAFETY: follows the C ABI.
    unsafe { planted(fp, at_the_bottom::<F>, (&raw mut f).cast()) };
}

/// Frame pointers of all kinds of nonsense. The records live as long as the process.
fn nonsense() -> Vec<u64> {
    let code = nonsense as *const () as u64;
    let on_heap = |words: Vec<u64>| words.leak().as_mut_ptr() as u64;
    // SAFETY: new pages, of which one can be read and the next not.
    let page = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let pages = libc::mmap(std::ptr::null_mut(), 8192, protection, flags, -1, 0);
        assert_ne!(pages, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(pages.add(4096), 4096, libc::PROT_NONE), 0);
        pages as u64
    };
    let here = 0_u64;
    let sp = (&raw const here) as u64;

    // A record that is its own caller, two that are each other's, and a very long chain that leads upwards.
    let own = on_heap(vec![0, code, 0, 0]);
    let pair = on_heap(vec![0, code, 0, code]);
    let chain = on_heap(vec![0; 4 << 12]);
    // SAFETY: the leaked words.
    unsafe {
        *(own as *mut u64) = own;
        *(pair as *mut u64) = pair + 16;
        *((pair + 16) as *mut u64) = pair;
        for n in 0..(1 << 12) {
            let record = chain + 32 * n;
            *(record as *mut u64) = record + 32;
            *((record + 8) as *mut u64) = code + 8;
        }
        *((page + 4080) as *mut u64) = page + 4096;
        *((page + 4088) as *mut u64) = code;
    }
    let mut all = vec![
        0,
        1,
        7,
        8,
        16,
        u64::MAX,
        u64::MAX - 7,
        u64::MAX - 15,
        1 << 47,
        1 << 63,
        code,
        sp,
        sp + 1,
        sp - (1 << 16),
        sp + 8,
        sp + (1 << 12),
        own,
        pair,
        pair + 16,
        chain,
        page,
        page + 4080,
        page + 4088,
        page + 4096,
        page + 8184,
    ];
    all.extend((0..64).map(|n| sp + 8 * n));
    let mut random = 88_172_645_463_325_252_u64;
    all.extend((0..200).map(|n| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Some of them near the stack.
        if n % 2 == 0 { random & !7 } else { sp.wrapping_add(random % (1 << 20)) & !7 }
    }));
    all
}

#[test]
fn code_with_unwind_information_does_not_mind() {
    prepare();
    for fp in nonsense() {
        plant(etw_stack_test_planted, fp, || both().assert_same());
    }
}

fn chains_end(planted: Planted) {
    prepare();
    let mut ended = 0;
    for fp in nonsense() {
        plant(planted, fp, || {
            let mut frames = [0; MAX_FRAMES];
            // Once to find the rules, once by the rules that are known.
            let count = capture(&mut frames, 0);
            let again = capture(&mut [0; MAX_FRAMES], 0);
            assert_eq!(count, again);
            // The first frames are the caller and the planted function; the rest may differ.
            let code = planted as usize as u64;
            assert!(frames[..count].iter().any(|a| (code..code + 64).contains(a)), "{fp:x}");
            ended += usize::from(count < MAX_FRAMES);
            // However many are to be skipped.
            capture(&mut frames, 60_000);
        });
    }
    assert!(ended > 100, "{ended}");
}

#[test]
fn malicious_chains_end() {
    chains_end(etw_stack_test_unknown);
}

#[test]
fn malicious_chains_end_where_the_tables_trust_them() {
    chains_end(etw_stack_test_trusted);
}

/// The chain is followed through code without unwind information, where it is sound.
#[test]
fn code_without_unwind_information_is_left_by_its_chain() {
    prepare();
    let mut outer = [0; MAX_FRAMES];
    let outer_count = capture(&mut outer, 0);
    let record = [0_u64, outer[0]];
    let fp = record.as_ptr() as u64;
    plant(etw_stack_test_unknown, fp, || {
        let mut frames = [0; MAX_FRAMES];
        let count = capture(&mut frames, 0);
        assert!(frames[..count].contains(&outer[0]), "{:x?}", &frames[..count]);
    });
    assert!(outer_count > 2);
}

/// Runs in another process, in which `prepare` was not called.
#[test]
fn before_anything_is_prepared() {
    const INNER: &str = "ETW_STACK_UNPREPARED";
    if std::env::var_os(INNER).is_none() {
        let test = "frame_pointer::before_anything_is_prepared";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(INNER, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    // Two sound records in this frame, and one whose address is no code: nothing like a call lies before it.
    let call = {
        let mut here = [0; 1];
        capture(&mut here, 0);
        here[0]
    };
    let mut records = [[0_u64; 2]; 3];
    let at = records.as_ptr() as u64;
    records[0] = [at + 16, call];
    records[1] = [at + 32, call];
    let data = Box::new([0_u64; 8]);
    let no_code = (&raw const data[4]) as u64;
    records[2] = [0, no_code];
    let records = std::hint::black_box(&records);
    for fp in nonsense().into_iter().chain([records.as_ptr() as u64]) {
        let mut frames = [0; MAX_FRAMES];
        let mut count = 0;
        // The code between is built with frame pointers, or the chain starts here.
        plant(etw_stack_test_unknown, fp, || count = capture(&mut frames, 0));
        assert!(count > 0);
        if fp == at && count > 2 {
            let planted = frames[..count].iter().filter(|a| **a == call).count();
            assert_eq!(planted, 2, "{:x?}", &frames[..count]);
            assert!(!frames[..count].contains(&no_code));
        }
    }
}
