//! Reference stacks to compare with.

use etw_stack::{MAX_FRAMES, capture};

/// The caller's stack from `capture` and from `backtrace`.
pub struct Both {
    pub ours: Vec<u64>,
    /// The frames from the same function on. The first address differs, since it belongs to another call.
    pub theirs: Vec<u64>,
}

/// `backtrace`, whose unwinder is the C compiler's, as a second implementation.
#[inline(always)]
pub fn both() -> Both {
    let mut ours = [0; MAX_FRAMES];
    let count = capture(&mut ours, 0);
    let mut theirs = Vec::new();
    let mut functions = Vec::new();
    backtrace::trace(|frame| {
        theirs.push(frame.ip() as u64);
        functions.push(frame.symbol_address() as u64);
        true
    });
    let ours = ours[..count].to_vec();
    // The function that called both is the first whose beginning is near enough below our first address and that is
    // followed by the same caller; what is before it is `backtrace` itself.
    let start = (0..theirs.len()).find(|&n| {
        functions[n] <= ours[0]
            && ours[0] < functions[n] + 0x2000
            && theirs.get(n + 1) == ours.get(1)
    });
    let start = start.unwrap_or_else(|| panic!("ours {ours:x?}, theirs {theirs:x?}"));
    let mut theirs = theirs.split_off(start);
    while theirs.last() == Some(&0) {
        theirs.pop();
    }
    Both { ours, theirs }
}

impl Both {
    /// All addresses are equal, as far as there may be that many.
    #[track_caller]
    pub fn assert_same(&self) {
        let len = self.theirs.len().min(MAX_FRAMES);
        assert_eq!(
            self.ours[1..],
            self.theirs[1..len],
            "ours {:x?}, theirs {:x?}",
            self.ours,
            self.theirs
        );
    }
}
