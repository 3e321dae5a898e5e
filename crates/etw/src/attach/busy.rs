//! Whether a host that does not answer is busy.

use std::time::{Duration, Instant};

use etw_wire::runtime_directory::Word;

/// The time that a host may take while it answers others, or while many threads wait for a processor: hundreds of programs may
/// have started at once.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);

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

/// Watches whether a host is at work.
pub(super) struct Busy<'w> {
    word: Option<&'w Word>,
    beats: u32,
    since: Instant,
}

impl<'w> Busy<'w> {
    pub(super) fn new(word: Option<&'w Word>) -> Busy<'w> {
        Busy { word, beats: word.map_or(0, Word::beats), since: Instant::now() }
    }

    /// Whether the host has done any work since the last call, or may be waiting for a processor.
    pub(super) fn is_busy(&mut self) -> bool {
        let beats = self.word.map_or(0, Word::beats);
        let has_worked = std::mem::replace(&mut self.beats, beats) != beats;
        (has_worked || is_crowded()) && self.since.elapsed() < BUSY_PATIENCE
    }
}
