//! Whether a slow host is at work.

use std::time::{Duration, Instant};

use etw_wire::runtime_directory::Word;

/// How long a host may take that is seen to deal with others meanwhile, or where all wait for a processor: hundreds of programs may have
/// begun at once.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);

/// More threads than so many for each processor that want to run: the host is one of them.
const CROWD: usize = 4;

/// Do many more threads want to run than there are processors?
fn is_crowded() -> bool {
    // Three averages, then RUNNABLE/ALL.
    let Ok(load) = std::fs::read_to_string("/proc/loadavg") else { return false };
    let runnable = load.split(' ').nth(3).and_then(|threads| threads.split('/').next());
    let runnable = runnable.and_then(|threads| threads.parse::<usize>().ok()).unwrap_or(0);
    runnable > CROWD * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether a host is at work.
pub(super) struct Busy<'w> {
    word: Option<&'w Word>,
    beats: u32,
    since: Instant,
}

impl<'w> Busy<'w> {
    pub(super) fn new(word: Option<&'w Word>) -> Busy<'w> {
        Busy { word, beats: word.map_or(0, Word::beats), since: Instant::now() }
    }

    /// Has it dealt with something since the last time that this was asked, or may it wait for a processor?
    pub(super) fn is_busy(&mut self) -> bool {
        let beats = self.word.map_or(0, Word::beats);
        let has_worked = std::mem::replace(&mut self.beats, beats) != beats;
        (has_worked || is_crowded()) && self.since.elapsed() < BUSY_PATIENCE
    }
}
