//! A handler after every single instruction, prologues and epilogues among them.

#[cfg(target_arch = "x86_64")]
mod trap {
    use std::sync::atomic::Ordering;

    use etw_stack::prepare;

    use crate::library::{Chain, EXACT_CHAINS, Library};
    use crate::signals::{Comparing, WHOLE, alternate_stack, install};

    extern "C" fn nothing(_: *mut libc::c_void) {}

    /// Turns the processor's trap flag on or off where it was interrupted: SIGTRAP comes after each instruction.
    extern "C" fn turn(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's, for this handler.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        context.uc_mcontext.gregs[libc::REG_EFL as usize] ^= 0x100;
    }

    fn step(library: &Library) {
        // SAFETY: as in `install`.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = turn as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGVTALRM, &action, std::ptr::null_mut()), 0);
        }
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
}
