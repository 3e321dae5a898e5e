//! Children of `fork`, and libraries that are loaded and unloaded.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use etw_stack::{MAX_FRAMES, capture, prepare};

use crate::library::{CHAINS, Library, compile};
use crate::reference::both;

/// How a child ended, if by itself.
pub fn exit_status(child: libc::pid_t) -> Option<i32> {
    let mut status = 0;
    // SAFETY: waits for a child of ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
}

#[test]
fn a_child_has_its_parents_stack() {
    let library = Library::without_frame_pointers();
    prepare();
    for first_in_child in [false, true] {
        let library = &library;
        // A new thread, which knows nothing of its stack yet.
        std::thread::scope(|scope| {
            scope.spawn(move || {
                library.call("chain_registers", 10, || {
                    let mut results = [[0; MAX_FRAMES]; 2];
                    let mut child = 0;
                    // The same call in both processes.
                    for (n, result) in results.iter_mut().enumerate() {
                        if n == usize::from(first_in_child) {
                            // SAFETY: the child captures and exits.
                            child = unsafe { libc::fork() };
                        }
                        capture(result, 1);
                    }
                    if child == 0 {
                        let same = results[0] == results[1] && results[0][12] != 0;
                        // SAFETY: ends the child.
                        unsafe { libc::_exit(if same { 0 } else { 1 }) };
                    }
                    assert_eq!(exit_status(child), Some(0));
                    assert_eq!(results[0], results[1]);
                });
            });
        });
    }
}

#[test]
fn a_library_is_known_when_prepared_again() {
    prepare();
    let library = Library::without_frame_pointers();
    let code = library.range("chain_registers");
    let see = || {
        let mut seen = None;
        library.call("chain_registers", 15, || seen = Some(both_or_less()));
        seen.unwrap()
    };
    fn both_or_less() -> Vec<u64> {
        let mut frames = [0; MAX_FRAMES];
        let count = capture(&mut frames, 0);
        frames[..count].to_vec()
    }
    let inside = |frames: &[u64]| frames.iter().filter(|a| code.contains(a)).count();
    // Rules that were found without tables, if no other test prepares at this time, do not stay.
    see();
    prepare();
    assert_eq!(inside(&see()), 16);
    let mut compared = 0;
    library.call("chain_registers", 15, || {
        both().assert_same();
        compared += 1;
    });
    assert_eq!(compared, 1);
}

#[test]
fn libraries_come_and_go() {
    let paths: Vec<_> = (0..6)
        .map(|n| {
            let flag = ["-fomit-frame-pointer", "-fno-omit-frame-pointer"][n % 2];
            compile(&format!("guest{n}"), &[flag])
        })
        .collect();
    // Captures go on in another thread meanwhile, and in calls through a library that stays.
    let stays = Library::without_frame_pointers();
    let (done, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    prepare();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                stays.call("chain_registers", 10, || {
                    let mut frames = [0; MAX_FRAMES];
                    assert!(capture(&mut frames, 0) > 11);
                });
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        for path in &paths {
            // The new library is probably at the old one's address.
            let library = Library::load(path);
            prepare();
            for name in CHAINS {
                library.call(name, 8, || both().assert_same());
            }
            // Some captures while it is there, and while it goes.
            let before = count.load(Ordering::Relaxed);
            while count.load(Ordering::Relaxed) < before + 10 {
                std::thread::yield_now();
            }
            library.unload();
            let mut frames = [0; MAX_FRAMES];
            assert!(capture(&mut frames, 0) > 2);
        }
        done.store(true, Ordering::Relaxed);
    });
}
