//! Depth and addresses are equal to those of a second unwinder.

use std::hint::black_box;

use etw_stack::{MAX_FRAMES, capture, prepare};

use crate::library::{CHAINS, Library};
use crate::reference::{Both, both};

#[inline(never)]
fn rust_chain(depth: usize, bottom: &mut dyn FnMut()) -> usize {
    if depth == 0 {
        bottom();
        return 0;
    }
    black_box(rust_chain(depth - 1, bottom)) + 1
}

#[test]
fn rust_functions_have_the_frames_of_backtrace() {
    prepare();
    for depth in [0, 1, 7, 30, 150] {
        let mut seen = None;
        rust_chain(depth, &mut || seen = Some(both()));
        let seen = seen.unwrap();
        assert!(seen.ours.len() > depth, "{depth}");
        seen.assert_same();
        // The recursion is there, with one address for all but the outermost and the innermost call.
        let most = (0..seen.ours.len())
            .map(|n| seen.ours.iter().filter(|a| **a == seen.ours[n]).count())
            .max();
        assert!(most >= Some(depth), "{depth}: {most:?}");
    }
}

fn through(library: Library) {
    prepare();
    for name in CHAINS {
        let code = library.range(name);
        for depth in [0, 1, 2, 20] {
            let mut seen: Option<Both> = None;
            // The call goes through functions of Rust and the C library, which may be built either way.
            rust_chain(3, &mut || library.call(name, depth, || seen = Some(both())));
            let seen = seen.unwrap();
            seen.assert_same();
            let inside = seen.ours.iter().filter(|a| code.contains(a)).count();
            assert_eq!(inside, depth as usize + 1, "{name} {depth}");
        }
    }
}

#[test]
fn a_library_with_frame_pointers_has_the_frames_of_backtrace() {
    through(Library::with_frame_pointers());
}

#[test]
fn a_library_without_frame_pointers_has_the_frames_of_backtrace() {
    through(Library::without_frame_pointers());
}

#[test]
fn callbacks_of_the_c_library_have_the_frames_of_backtrace() {
    extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        both().assert_same();
        // SAFETY: elements of the array below.
        unsafe { *a.cast::<u32>() as i32 - *b.cast::<u32>() as i32 }
    }
    prepare();
    let mut numbers = [5_u32, 3, 9, 1, 7];
    // SAFETY: the array, its length and the size of its elements.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 5, 4, Some(compare)) };
    assert_eq!(numbers, [1, 3, 5, 7, 9]);
}

#[test]
fn deep_recursion_is_cut_at_the_limit() {
    prepare();
    rust_chain(3000, &mut || {
        let seen = both();
        assert_eq!(seen.ours.len(), MAX_FRAMES);
        seen.assert_same();
        // A larger room makes no difference.
        let mut room = [0; MAX_FRAMES + 100];
        assert_eq!(capture(&mut room, 0), MAX_FRAMES);
        assert_eq!(room[MAX_FRAMES], 0);
        for skip in [1, 191, 1000, 2990] {
            let mut frames = [0; MAX_FRAMES];
            let count = capture(&mut frames, skip);
            let want = &seen.theirs[skip..(skip + MAX_FRAMES).min(seen.theirs.len())];
            assert_eq!(&frames[..count], want, "{skip}");
        }
        for skip in [seen.theirs.len(), 1 << 17, usize::MAX] {
            assert_eq!(capture(&mut room, skip), 0);
        }
    });
}

#[test]
fn room_and_skip() {
    prepare();
    rust_chain(10, &mut || {
        let mut all = [0; MAX_FRAMES];
        let total = capture(&mut all, 0);
        for skip in 1..total + 2 {
            for room in 0..5 {
                let mut some = [7; 5];
                let count = capture(&mut some[..room], skip);
                let want = &all[skip.min(total)..(skip + room).min(total).max(skip.min(total))];
                assert_eq!(&some[..count], want, "{skip} {room}");
                assert!(some[count..].iter().all(|a| *a == 7));
            }
        }
    });
}
