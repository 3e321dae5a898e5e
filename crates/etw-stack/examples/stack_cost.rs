//! The cost of a call stack: nanoseconds for a capture at a depth of 20, in code with and without frame pointers.
//!
//! `cargo run --release -p etw-stack --example stack_cost`
//!
//! The code on the stack is assembler of both kinds, so that one program measures both however it was built.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod cost {
    use std::hint::black_box;
    use std::time::Instant;

    const DEPTH: u64 = 20;

    #[cfg(target_arch = "x86_64")]
    std::arch::global_asm!(
        // Two functions (depth, f, argument): call themselves until depth is 0, then f.
        ".globl stack_cost_with",
        ".type stack_cost_with,@function",
        "stack_cost_with:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 32",
        "test rdi, rdi",
        "jz 2f",
        "dec rdi",
        "call stack_cost_with",
        "jmp 3f",
        "2:",
        "mov rdi, rdx",
        "call rsi",
        "3:",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        ".size stack_cost_with, .-stack_cost_with",
        ".globl stack_cost_without",
        ".type stack_cost_without,@function",
        "stack_cost_without:",
        ".cfi_startproc",
        "sub rsp, 40",
        ".cfi_def_cfa_offset 48",
        "test rdi, rdi",
        "jz 2f",
        "dec rdi",
        "call stack_cost_without",
        "jmp 3f",
        "2:",
        "mov rdi, rdx",
        "call rsi",
        "3:",
        "add rsp, 40",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        ".size stack_cost_without, .-stack_cost_without",
    );

    #[cfg(target_arch = "aarch64")]
    std::arch::global_asm!(
        ".globl stack_cost_with",
        ".type stack_cost_with,@function",
        "stack_cost_with:",
        ".cfi_startproc",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "cbz x0, 2f",
        "sub x0, x0, #1",
        "bl stack_cost_with",
        "b 3f",
        "2:",
        "mov x0, x2",
        "blr x1",
        "3:",
        "ldp x29, x30, [sp], #32",
        "ret",
        ".cfi_endproc",
        ".size stack_cost_with, .-stack_cost_with",
        ".globl stack_cost_without",
        ".type stack_cost_without,@function",
        "stack_cost_without:",
        ".cfi_startproc",
        "str x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x30, -32",
        "cbz x0, 2f",
        "sub x0, x0, #1",
        "bl stack_cost_without",
        "b 3f",
        "2:",
        "mov x0, x2",
        "blr x1",
        "3:",
        "ldr x30, [sp], #32",
        "ret",
        ".cfi_endproc",
        ".size stack_cost_without, .-stack_cost_without",
    );

    type Chain = unsafe extern "C" fn(u64, extern "C" fn(*mut Cost), *mut Cost);

    unsafe extern "C" {
        fn stack_cost_with(depth: u64, f: extern "C" fn(*mut Cost), cost: *mut Cost);
        fn stack_cost_without(depth: u64, f: extern "C" fn(*mut Cost), cost: *mut Cost);
    }

    #[repr(C)]
    #[derive(Default)]
    struct Cost {
        frames: usize,
        first_ns: f64,
        capture_ns: f64,
        shallow_ns: f64,
        backtrace_ns: f64,
    }

    /// The best of some runs, in nanoseconds a call.
    fn measure(mut f: impl FnMut()) -> f64 {
        const CALLS: u32 = 2_000;
        let run = |f: &mut dyn FnMut()| {
            let start = Instant::now();
            (0..CALLS).for_each(|_| f());
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        };
        (0..50).map(|_| run(&mut f)).fold(f64::INFINITY, f64::min)
    }

    extern "C" fn at_the_bottom(cost: *mut Cost) {
        // SAFETY: `of` gives its own, which it does not use meanwhile.
        let cost = unsafe { &mut *cost };
        let mut frames = [0; DEPTH as usize];
        let start = Instant::now();
        etw_stack::capture(&mut frames, 0);
        cost.first_ns = start.elapsed().as_nanos() as f64;
        cost.frames = etw_stack::capture(&mut frames, 0);
        cost.capture_ns = measure(|| {
            black_box(etw_stack::capture(black_box(&mut frames), 0));
        });
        cost.shallow_ns = measure(|| {
            black_box(etw_stack::capture(black_box(&mut frames[..1]), 0));
        });
        cost.backtrace_ns = measure(|| {
            let mut count = 0;
            // SAFETY: no other thread walks its stack.
            unsafe {
                backtrace::trace_unsynchronized(|frame| {
                    black_box(frame.ip());
                    count += 1;
                    count < DEPTH
                });
            }
        });
    }

    fn of(name: &str, chain: Chain) {
        let mut cost = Cost::default();
        // SAFETY: follows the C ABI.
        unsafe { chain(DEPTH, at_the_bottom, &mut cost) };
        let per_frame = (cost.capture_ns - cost.shallow_ns) / (cost.frames as f64 - 1.0);
        println!(
            "{name:24} {:3} frames {:7.1} ns, {per_frame:4.1} ns a frame; the first time {:8.0} ns; `backtrace` {:8.0} ns",
            cost.frames, cost.capture_ns, cost.first_ns, cost.backtrace_ns,
        );
    }

    pub fn print() {
        let start = Instant::now();
        etw_stack::prepare();
        println!("prepare {:?}", start.elapsed());
        let start = Instant::now();
        etw_stack::prepare();
        println!("prepare, nothing new {:?}", start.elapsed());
        of("with frame pointers", stack_cost_with);
        of("without frame pointers", stack_cost_without);

        // The cost of reading memory that may be unmapped.
        let page = vec![0_u8; 8192];
        let mut out = [0_u8; 256];
        // SAFETY: takes nothing.
        let process = unsafe { libc::getpid() };
        let system_call = measure(|| {
            let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
            let remote =
                libc::iovec { iov_base: page.as_ptr().cast_mut().cast(), iov_len: out.len() };
            // SAFETY: the kernel writes `out`.
            let read = unsafe { libc::process_vm_readv(process, &local, 1, &remote, 1, 0) };
            assert_eq!(read, 256);
        });
        println!("256 bytes by process_vm_readv {system_call:.0} ns");
    }
}

fn main() {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    cost::print();
}
