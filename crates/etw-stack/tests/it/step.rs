//! A handler after every single instruction, prologues and epilogues among them.

#[cfg(target_arch = "x86_64")]
mod trap {
    use std::sync::atomic::Ordering;

    use etw_stack::{capture, prepare};

    use crate::library::{Chain, EXACT_CHAINS, Library};
    use crate::signals::{Comparing, WHOLE, alternate_stack, install};

    extern "C" fn nothing(_: *mut libc::c_void) {}

    /// Turns the processor's trap flag on or off where it was interrupted: SIGTRAP comes after each instruction.
    extern "C" fn turn(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's, for this handler.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        context.uc_mcontext.gregs[libc::REG_EFL as usize] ^= 0x100;
    }

    fn install_turn() {
        // SAFETY: as in `install`.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = turn as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGVTALRM, &action, std::ptr::null_mut()), 0);
        }
    }

    fn step(library: &Library) {
        for name in EXACT_CHAINS {
            step_through(name, library.chain(name));
        }
    }

    #[inline(never)]
    fn step_through(name: &str, chain: Chain) {
        let comparing = Comparing::start();
        // SAFETY: raises a signal that has a handler; the call follows the C ABI.
        unsafe {
            libc::raise(libc::SIGVTALRM);
            chain(6, nothing, std::ptr::null_mut());
            libc::raise(libc::SIGVTALRM);
        }
        let seen = WHOLE.load(Ordering::Relaxed);
        assert!(seen > 100, "{name}: {seen}");
        comparing.assert_all_whole();
    }

    #[test]
    fn every_instruction_has_its_whole_stack() {
        install(libc::SIGTRAP, 0);
        let with = Library::with_frame_pointers();
        let without = Library::without_frame_pointers();
        prepare();
        install_turn();
        step(&with);
        step(&without);
        std::thread::spawn(move || {
            alternate_stack(128 << 10);
            install(libc::SIGTRAP, libc::SA_ONSTACK);
            step(&with);
            step(&without);
        })
        .join()
        .unwrap();
    }

    /// A capture that is interrupted by captures: both are whole.
    #[inline(never)]
    fn step_through_a_capture(seen: &mut [u64], expected: &mut [u64]) -> usize {
        let comparing = Comparing::start();
        // The first time step by step.
        let mut count = 0;
        for (n, out) in [seen, expected].into_iter().enumerate() {
            // SAFETY: raises a signal that has a handler.
            let turn = || unsafe { libc::raise(if n == 0 { libc::SIGVTALRM } else { 0 }) };
            turn();
            count = capture(out, 0);
            turn();
        }
        assert!(WHOLE.load(Ordering::Relaxed) > 500, "{WHOLE:?}");
        comparing.assert_all_whole();
        count
    }

    #[test]
    fn every_instruction_of_a_capture() {
        prepare();
        // On a thread of its own.
        std::thread::spawn(|| {
            install(libc::SIGTRAP, 0);
            install_turn();
            let (mut expected, mut seen) = ([0; 30], [1; 30]);
            let count = step_through_a_capture(&mut seen, &mut expected);
            assert!(count > 3);
            assert_eq!(expected[1..count], seen[1..count]);
        })
        .join()
        .unwrap();
    }
}
