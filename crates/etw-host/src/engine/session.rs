//! A session in an engine: what surrounds its buffers, which are the router's.

use std::io;
use std::time::{Duration, Instant};

use etw_session::{Session, Slice};
use etw_types::LoadedModule;

use crate::clock::ClockMap;
use crate::facts::{SessionFacts, SessionTime};
use crate::files::{CUT, Closing, Files};
use crate::kill_point::kill_point;
use crate::ledger_report::{LedgerReport, Writer};
use crate::modules::Modules;
use crate::report::note_report;
use crate::storage::{BufferMemory, Full, Storage};

/// Buffers, enablements and ledger of a session.
pub type BufferedSession = Session<BufferMemory>;

/// A session found slow is not waited for again for so long.
const SLOW: Duration = Duration::from_millis(250);
/// One wait for a look at a file.
const LOOK_WAIT: Duration = Duration::from_millis(1);
/// A real-time session whose reader has been away for so long loses its events alone. A reader that loses its host returns
/// sooner.
const READER_PATIENCE: Duration = Duration::from_secs(2);

/// Receives a session's buffers beside its files: live consumers, for example. The host's own part of each session is its
/// sink.
pub trait Sink {
    /// Whether anybody takes buffers now.
    fn is_open(&self) -> bool {
        false
    }

    /// Takes a full buffer, whose batch is final. It must not block: a slow reader loses the buffer. Returns how many readers lost
    /// the buffer.
    fn deliver(&mut self, _full: &Full) -> u64 {
        0
    }

    /// Whether a reader now takes slices that did not before. It lacks the beginnings of open buffers, which are closed.
    fn begin_slices(&mut self) -> bool {
        false
    }

    /// New final records of a buffer that is still open. [`deliver`](Self::deliver) brings them again with their buffer.
    fn deliver_slice(&mut self, _slice: &Slice<'_>) {}

    /// Every event before this time of the session's clock has been delivered, in slices or buffers.
    fn deliver_slices_watermark(&mut self, _time: i64) {}

    /// Every event before this time of the session's clock has been delivered in full buffers.
    fn deliver_watermark(&mut self, _time: i64) {}

    /// Whether somebody waits until buffers are stored.
    fn awaits_storage(&self) -> bool {
        false
    }
}

/// A session without live readers.
impl Sink for () {}

/// A session in an engine. `S` is the host's own part.
#[derive(Debug)]
pub struct HostedSession<S> {
    /// The host's own part.
    pub host: S,
    /// The contents of its files' headers.
    pub facts: SessionFacts,
    /// The last error of its files.
    pub error: Option<String>,
    /// Another process has cut a file, which the session goes on to write.
    pub cut: Option<String>,
    /// Sentences that say what ended recordings of the system's events left out.
    pub notes: Vec<String>,
    /// Its files are too small, in a sentence for the end of the trace.
    pub size_note: Option<String>,
    /// Why the last buffer could not be stored; `None`: it was stored.
    failing: Option<String>,
    pub(super) time: SessionTime,
    pub(super) storage: Option<Storage>,
    /// Modules of the programs, for call stacks, and schemas of their events.
    pub(super) modules: Modules,
    /// At the session's end: the part of its report that is not in its stream yet.
    report: Option<LedgerReport>,
    /// The end of the session has begun.
    is_reporting: bool,
    /// Number of its buffers.
    buffer_count: u32,
    /// Buffers given to the storage, and those that came back, in the same order.
    given: u64,
    returned: u64,
    /// Files that the storage is completing because others took their place; the results of those that are complete.
    open_switches: usize,
    switched: Vec<io::Result<()>>,
    /// Writers are refused because no buffer is free.
    pub(super) is_full: bool,
    /// Writers are not admitted any more.
    pub(super) is_closed: bool,
    /// The drain waits for one of its buffers.
    pub(super) waiting: Option<BufferWait>,
    /// When the session was last found too slow to be waited for.
    pub(super) slow_at: Option<Instant>,
    /// When the session last had a reader, or started.
    read_at: Instant,
}

/// A wait of the drain for a buffer of one session.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferWait {
    pub since: Instant,
    /// Rounds that have waited. On a busy machine, time passes although nobody has waited.
    pub rounds: u32,
}

impl BufferWait {
    pub fn new() -> BufferWait {
        BufferWait { since: Instant::now(), rounds: 0 }
    }
}

impl<S: Sink> HostedSession<S> {
    /// A session with these files and so many buffers.
    pub fn new(
        facts: SessionFacts,
        storage: Option<Storage>,
        buffer_count: u32,
        host: S,
    ) -> HostedSession<S> {
        HostedSession {
            host,
            time: SessionTime::of(&facts),
            facts,
            error: None,
            notes: Vec::new(),
            cut: None,
            size_note: None,
            failing: None,
            storage,
            modules: Modules::default(),
            report: None,
            is_reporting: false,
            buffer_count,
            given: 0,
            returned: 0,
            open_switches: 0,
            switched: Vec::new(),
            is_full: false,
            is_closed: false,
            waiting: None,
            slow_at: None,
            read_at: Instant::now(),
        }
    }

    /// Whether writers are refused because no buffer is free.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// How long the session, which has no files, still waits for a reader; `None`: it has one.
    pub(super) fn reader_patience(&self) -> Option<Duration> {
        if self.returns_buffers() {
            return None;
        }
        Some(READER_PATIENCE.saturating_sub(self.read_at.elapsed()))
    }

    /// Whether the session has files, or a consumer in this process.
    pub fn has_storage(&self) -> bool {
        self.storage.is_some()
    }

    /// Why the session cannot store its buffers at present.
    pub fn failing(&self) -> Option<&str> {
        self.failing.as_deref()
    }

    /// Number of its buffers.
    pub fn buffer_count(&self) -> u32 {
        self.buffer_count
    }

    /// The session has been given more buffers.
    pub fn add_buffer_count(&mut self, more: u32) {
        self.buffer_count += more;
    }

    /// Buffers given to the storage so far.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Whether the first `given` buffers that were given to the storage are stored.
    pub fn is_stored(&self, given: u64, session: &BufferedSession) -> bool {
        !session.is_storing() || self.returned >= given
    }

    /// Whether the storage completes files whose place others have taken.
    pub fn is_switching(&self) -> bool {
        self.open_switches > 0
    }

    /// Whether buffers are on their way to a disk.
    pub(super) fn is_storing(&self, session: &BufferedSession) -> bool {
        self.storage.is_some() && (self.is_switching() || session.is_storing())
    }

    /// Whether buffers that the session hands out come back.
    pub(super) fn returns_buffers(&self) -> bool {
        self.storage.is_some() || self.host.is_open()
    }

    pub(super) fn is_slow(&self) -> bool {
        self.slow_at.is_some_and(|at| at.elapsed() < SLOW)
    }

    /// Adds modules of a process, for the call stacks in the trace. Modules that the trace contains already are skipped.
    pub fn add_modules(&mut self, process: u32, modules: impl IntoIterator<Item = LoadedModule>) {
        self.modules.add(process, modules);
    }

    /// Writes the modules and schemas that are not in the trace yet, as early as the order of time allows: behind all that
    /// was drained, which is up to the watermark, and not before the trace begins.
    pub(super) fn write_modules(
        &mut self,
        session: &mut BufferedSession,
        map: &ClockMap,
        watermark: u64,
    ) {
        if self.modules.is_waiting() {
            let time = self.time.time(map, watermark).max(self.facts.start_raw);
            // A source that takes over knows of less time at first than the one before, and may have earlier records of some CPUs.
            if time >= session.facts().last_time {
                self.modules.write(session, time);
            }
        }
    }

    /// All modules and schemas are written again: another file, or a new reader, starts here.
    pub fn repeat_modules(&mut self) {
        self.modules.repeat();
    }

    /// Bytes of all modules and schemas.
    pub fn modules_size(&self) -> u64 {
        self.modules.size()
    }

    /// The header of a file that ends now; `lost`: events lost in all. A running file has no end time.
    pub fn closing(&self, session: &BufferedSession, lost: u64, is_end: bool) -> Closing {
        let last = session.facts().last_time.max(self.facts.start_raw);
        let end = self.facts.clock().filetime(last).map_or(0, |time| time.0);
        Closing {
            end_time: if is_end { end } else { 0 },
            events_lost: u32::try_from(lost).unwrap_or(u32::MAX),
            buffers_lost: u32::try_from(session.facts().buffers_lost).unwrap_or(u32::MAX),
        }
    }

    /// Hands full buffers to the sink and the storage. `lost`: the events lost so far, for the header of a file that one of
    /// these buffers completes.
    pub(super) fn store(
        &mut self,
        session: &mut BufferedSession,
        lost: impl FnOnce(&BufferedSession) -> u64,
    ) {
        let is_open = self.host.is_open();
        if is_open {
            self.read_at = Instant::now();
        }
        if self.storage.is_none() && !is_open {
            // A session in memory keeps its buffers; a real-time session keeps them for its next reader.
            return;
        }
        let Some(mut next) = session.take_full() else { return };
        let closing = self.closing(session, lost(session), true);
        loop {
            if is_open {
                session.count_unread(self.host.deliver(&next));
                kill_point("buffer delivered");
            }
            match &self.storage {
                Some(storage) => {
                    self.given += 1;
                    let is_pressed = session.free_buffers() * 2 < self.buffer_count as usize;
                    storage.store(next, closing, is_pressed);
                }
                None => session.delivered(next),
            }
            match session.take_full() {
                Some(full) => next = full,
                None => return,
            }
        }
    }

    /// Takes back buffers that were stored. With `wait`, waits so long for the first one.
    pub(super) fn take_stored(&mut self, session: &mut BufferedSession, wait: Option<Duration>) {
        let Some(storage) = &self.storage else { return };
        // Asked first: the buffers of a file that is complete have come back.
        let switched = storage.take_switched();
        let done = match wait {
            Some(wait) => storage.wait_done(wait),
            None => storage.take_done(),
        };
        for (full, result) in done.buffers {
            self.returned += 1;
            match result {
                Ok(()) => {
                    self.failing = None;
                    session.stored(full);
                }
                Err(error) => {
                    self.failing = Some(failure_of(&error));
                    self.error = Some(error.to_string());
                    session.not_stored(full);
                }
            }
        }
        for cut in &done.cuts {
            session.cut_file(cut);
            if !cut.is_removed {
                self.cut = Some(format!("{} {CUT}", self.facts.header.log_file_name));
            }
        }
        self.open_switches -= switched.len().min(self.open_switches);
        self.switched.extend(switched);
    }

    /// Waits until the storage has looked at the file once more, at most until `end`: another process may have cut it.
    pub(super) fn look(&mut self, session: &mut BufferedSession, closing: Closing, end: Instant) {
        let Some(storage) = &self.storage else { return };
        let before = storage.header_count();
        storage.update_header(closing);
        while self.storage.as_ref().is_some_and(|storage| storage.header_count() == before) {
            if Instant::now() >= end {
                return;
            }
            self.take_stored(session, Some(LOOK_WAIT));
        }
        self.take_stored(session, None);
    }

    /// Results of the files that were completed because of [`switch_files`](Self::switch_files), in order.
    pub fn take_switched(&mut self) -> Vec<io::Result<()>> {
        std::mem::take(&mut self.switched)
    }

    /// Continues in other files. The storage completes the files before when their buffers are stored.
    pub fn switch_files(&mut self, closing: Closing, files: Files) {
        self.modules.repeat();
        if let Some(storage) = &self.storage {
            self.open_switches += 1;
            storage.switch(closing, files);
        }
    }

    /// Delivers what live readers are owed of open buffers, and the watermarks. An event in an open buffer holds back the
    /// watermark of full buffers.
    pub(super) fn deliver_slices(&mut self, session: &mut BufferedSession, now: i64) {
        if self.host.is_open() {
            self.host.deliver_watermark(session.first_waiting().unwrap_or(now).min(now));
            session.take_slices(|slice| self.host.deliver_slice(slice));
            self.host.deliver_slices_watermark(now);
        }
    }

    /// Writes the session's report into its stream. `false`: the rest needs a buffer that the storage still has.
    pub(super) fn report(&mut self, session: &mut BufferedSession, now: i64) -> bool {
        if session.policy().is_in_memory() {
            // It ends with its memory: a report would only overwrite events.
            return true;
        }
        if !self.is_reporting {
            self.is_reporting = true;
            session.begin_report();
            // In other modes the buffers with the modules may be overwritten, or in another file.
            if !session.keeps_first_buffers() {
                self.modules.repeat();
            }
        }
        let can_wait = session.is_storing() && self.storage.is_some();
        self.modules.write(session, now);
        if self.modules.is_waiting() && can_wait {
            return false;
        }
        let (process_id, thread_id) = (std::process::id(), self.facts.thread_id);
        let writer = Writer { time: now, process_id, thread_id };
        let report = self.report.get_or_insert_with(|| {
            let files_before = session.next_place().file.saturating_sub(1);
            let of = |ledger| LedgerReport::of(ledger, files_before);
            let size = of(session.ledger()).size(writer);
            let note = session.size_for_end(size + NOTE_SIZE).map(too_small);
            let note = self.size_note.take().or(note);
            let report = || note.as_deref().and_then(note_report);
            let size = of(session.ledger()).behind(report()).size(writer);
            let all = of(&session.ledger_at_end(size)).behind(report());
            self.notes.extend(note.filter(|note| !self.notes.contains(note)));
            all
        });
        report.write(session, writer, can_wait)
    }
}

/// The bytes of a note in its file, and more.
const NOTE_SIZE: usize = 512;

/// The note on a circular file that is too small for the end of its session.
fn too_small(needed: u64) -> String {
    format!(
        "the file is too small for the rundown at its end, and so names of processes, threads, images or events are missing: \
         a maximum size of {} KiB has room for the rundown, a larger one for events, too (--max-size)",
        needed.div_ceil(1024)
    )
}

/// A failure of storing, in few words.
fn failure_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "disk full".to_owned(),
        io::ErrorKind::QuotaExceeded => "disk quota exceeded".to_owned(),
        io::ErrorKind::FileTooLarge => "file too large".to_owned(),
        _ => error.to_string(),
    }
}
