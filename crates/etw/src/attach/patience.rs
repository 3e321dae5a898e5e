//! How long a program waits for its host.

use std::time::{Duration, Instant};

use etw_wire::runtime_directory::Word;

/// One wait for a message. On an idle machine a host answers well below a millisecond.
pub(super) const TURN: Duration = Duration::from_millis(25);

/// A program stops waiting for an idle host after so many turns without a message. Turns are counted, not time: while this program
/// has no processor, the host may have none either.
const TURNS: u32 = 10;

/// The longest wait for a host that works or has no processor, as when hundreds of programs start at once. A program that stops
/// waiting loses the events that it writes before the answer.
const LONGEST: Duration = Duration::from_secs(5);

/// The machine is crowded if more than so many threads for each processor are runnable.
const CROWD: usize = 4;

/// Whether many more threads are runnable than there are processors.
fn is_crowded() -> bool {
    // Three averages, then RUNNABLE/ALL.
    let Ok(load) = std::fs::read_to_string("/proc/loadavg") else { return false };
    let runnable = load.split(' ').nth(3).and_then(|threads| threads.split('/').next());
    let runnable = runnable.and_then(|threads| threads.parse::<usize>().ok()).unwrap_or(0);
    runnable > CROWD * std::thread::available_parallelism().map_or(1, usize::from)
}

/// A program's patience with a host.
pub(super) struct Patience<'w> {
    word: Option<&'w Word>,
    beats: u32,
    turns: u32,
    since: Instant,
    /// The host has been silent since the last wait was given up: one turn is enough.
    is_spent: bool,
}

impl<'w> Patience<'w> {
    /// `is_spent`: the host has been silent since the last wait was given up.
    pub(super) fn new(word: Option<&'w Word>, is_spent: bool) -> Patience<'w> {
        let beats = word.map_or(0, Word::beats);
        Patience { word, beats, turns: 0, since: Instant::now(), is_spent }
    }

    /// Whether to wait one more [`TURN`]. `was_heard`: the host has sent something in the last one.
    pub(super) fn is_left(&mut self, was_heard: bool) -> bool {
        self.turns += 1;
        self.is_spent &= !was_heard;
        if was_heard || (self.turns >= TURNS && self.is_at_work()) {
            self.turns = 0;
        }
        !self.is_spent && self.turns < TURNS && self.since.elapsed() < LONGEST
    }

    /// Whether the host works, has worked since the last call, or may be waiting for a processor.
    fn is_at_work(&mut self) -> bool {
        let beats = self.word.map_or(0, Word::beats);
        let has_worked = std::mem::replace(&mut self.beats, beats) != beats;
        has_worked || self.word.is_some_and(Word::is_at_work) || is_crowded()
    }

    /// The time since the wait began.
    pub(super) fn waited(&self) -> Duration {
        self.since.elapsed()
    }
}
