//! Sessions of a worker that was killed: buffers, state and files.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use etw_host::engine::{BufferedSession, HostedSession};
use etw_host::facts::SessionFacts;
use etw_host::file_recovery::{
    Failures, KilledFiles, Placed, count_events, file_slots, is_finalised, resume_file,
    resume_series, series_contents,
};
use etw_host::files::{Closing, Files};
use etw_host::kill_point::kill_point;
use etw_host::report::LEDGER_PROVIDER;
use etw_host::setup;
use etw_host::storage::{Destination, Storage};
use etw_ring::{Memory, Region};
use etw_session::recover::recover;
use etw_session::state::{Killed, STATE_SIZE, Saved};
use etw_session::{HandOverPosition, HostFacts, Place, Session, SessionConfig};

use super::HostThread;
use super::recovery::{KeptRings, RECONNECT_PATIENCE, facts, missing};
use crate::ended_stream::EndedStream;
use crate::global_session::{
    BufferMemory, GlobalSession, InterruptedEnd, Rundowns, SeriesRundowns,
};
use crate::keeper_protocol::Entry;
use crate::kept_state::{Ending, KeptFile, KeptRecording, KeptSession, KeptStream};
use crate::log::log;
use crate::session_memory::allocate_buffers;
use crate::system_source::SystemSource;
use etw_system::{StartError, Stored};

/// A session found in memory, before its files are opened.
struct RestoredBuffers {
    session: BufferedSession,
    /// Buffers that had a position in a file.
    placed: Placed,
    /// The place of the next buffer.
    next: Place,
    /// The new memories of its buffers and its state.
    buffer_count: u32,
    memory: OwnedFd,
    state: OwnedFd,
}

/// The files of a session, opened again.
struct RestoredFiles {
    /// `None`: the session has no file.
    files: Option<Files>,
    failures: Failures,
    /// The contents of the file's header, and its number in places.
    facts: SessionFacts,
    number: u32,
}

/// Whether the worker before completed the session's file. A file that is appended to was complete before.
fn is_completed(config: &SessionConfig) -> bool {
    let file = config.file.as_ref().filter(|_| config.buffer_policy().has_own_file);
    file.is_some_and(|path| is_finalised(path))
}

/// Completes a file that the session had before, unless the worker before did.
fn complete(
    file: &KeptFile,
    placed: Placed,
    closing: Closing,
    failures: &mut Failures,
) -> io::Result<()> {
    if is_finalised(&file.path) {
        return Ok(());
    }
    let facts = SessionFacts::read(&file.facts)?;
    resume_file(&file.path, &facts, file.number, placed, failures)?.finish(closing)
}

/// The numbers of a session at `batch`, the last final one.
fn saved_state(memory: Option<OwnedFd>, batch: u64) -> io::Result<Saved> {
    let memory = memory.ok_or_else(missing)?;
    let state = Memory::map(memory, 0, STATE_SIZE, true)?.into_regions(STATE_SIZE);
    let state = state.first().ok_or_else(missing)?;
    Saved::read(state.as_ref(), batch).ok_or_else(missing)
}

/// Restores buffers and ledger as of `batch`, the last final one.
fn restore_buffers(
    slot: usize,
    record: &KeptSession,
    facts: &SessionFacts,
    descriptors: Vec<OwnedFd>,
    batch: u64,
) -> io::Result<RestoredBuffers> {
    let config = &record.start.config;
    let mut descriptors = descriptors.into_iter();
    let saved = saved_state(descriptors.next(), batch)?;
    let size = config.buffer_size as usize;
    let mut left: Vec<Vec<Region>> = Vec::new();
    for (count, memory) in record.buffers.iter().zip(descriptors) {
        left.push(Memory::map(memory, 0, size * *count as usize, true)?.into_regions(size));
    }
    let buffer_count: u32 = record.buffers.iter().sum();
    let found = recover(left.iter().flatten().map(|region| region.as_ref()), batch);
    if found.damaged > 0 {
        log!("session {}: {} buffers are damaged and are skipped", config.name, found.damaged);
    }
    // A file that is appended to has grown: its places come from the session's state.
    let clock = setup::event_clock(facts);
    let host = HostFacts { clock, ..setup::host_facts(facts, slot as u16 + 1) };
    let (buffers, memory) = allocate_buffers(config.buffer_size, buffer_count.max(2))?;
    let next = saved.next_place();
    let killed = Killed { saved, found, batch };
    let (mut session, placed) = Session::resume(config, host, buffers, killed, &LEDGER_PROVIDER)
        .map_err(io::Error::other)?;
    let (states, state) = allocate_buffers(STATE_SIZE as u32, 1)?;
    states.into_iter().for_each(|state| session.keep_state(state, batch));
    for (provider, info) in &record.enabled {
        session.enable(*provider, info.clone());
    }
    Ok(RestoredBuffers { session, placed, next, buffer_count, memory, state })
}

/// Opens the session's files again, completes those before, and writes placed buffers. `record.start` then names the file that
/// the session continues.
fn restore_files(
    record: &mut KeptSession,
    mut facts: SessionFacts,
    buffers: &mut RestoredBuffers,
) -> io::Result<RestoredFiles> {
    let config = &mut record.start.config;
    let session = &buffers.session;
    let mut number = record.file_number;
    let mut before = std::mem::take(&mut record.before);
    let is_series = config.buffer_policy().is_series();
    // The worker before kept another file and was killed before the session continued in it.
    while number > session.next_place().file
        && !is_series
        && let Some(file) = before.pop()
    {
        let created: Option<PathBuf> = config.file.replace(file.path);
        let _ = created.map(std::fs::remove_file);
        facts = SessionFacts::read(&file.facts)?;
        number = file.number;
        record.events_before = record.events_before.saturating_sub(file.events);
    }
    let last_time = session.facts().last_time;
    let end_time = facts.clock().filetime(last_time).map_or(0, |time| time.0);
    let events_lost = u32::try_from(session.ledger().lost_total()).unwrap_or(u32::MAX);
    let closing = Closing { end_time, events_lost, ..Closing::default() };
    let mut failures = Failures::default();
    let mut placed = std::mem::take(&mut buffers.placed);
    for file in before {
        let (its, others) = placed.into_iter().partition(|(place, _)| place.file == file.number);
        placed = others;
        if let Err(error) = complete(&file, its, closing, &mut failures) {
            failures.incomplete.push((file.path, error));
        }
    }
    let files = match &config.file {
        None => None,
        Some(path) if is_series => {
            let killed = KilledFiles { path, facts: &facts, next: buffers.next, last_time };
            let closing = Closing { end_time: 0, ..closing };
            Some(resume_series(&killed, placed, closing, &mut failures)?)
        }
        Some(path) => Some(resume_file(path, &facts, number, placed, &mut failures)?),
    };
    Ok(RestoredFiles { files, failures, facts, number })
}

impl HostThread {
    /// Keeps the stream of a session whose file the worker before completed.
    fn keep_stream_of(&mut self, record: &KeptSession, memories: Vec<OwnedFd>) -> io::Result<()> {
        if record.consumers == 0 {
            return Ok(());
        }
        let saved = saved_state(memories.into_iter().next(), self.engine.batch())?;
        let HandOverPosition { next_sequence, events_before } = saved.end_position();
        let kept = KeptStream {
            session: record.start.config.name.clone(),
            facts: record.facts.clone(),
            next_sequence,
            events: events_before,
            consumers: record.consumers,
        };
        self.keep_stream(EndedStream::restore(kept, Instant::now() + RECONNECT_PATIENCE)?);
        Ok(())
    }

    /// Restores a session from the keeper's entry and the rings of its system events. `is_ending`: the host was asked to end.
    pub(super) fn restore_session(
        &mut self,
        slot: usize,
        entry: Entry,
        rings: KeptRings,
        is_ending: bool,
    ) -> io::Result<()> {
        let mut record: KeptSession = facts(&entry)?;
        if record.ending == Ending::Session && is_completed(&record.start.config) {
            self.keep_stream_of(&record, entry.descriptors)?;
            self.keeper.remove(&format!("session/{slot}"));
            self.forget_rings(slot);
            return Ok(());
        }
        let header = SessionFacts::read(&record.facts)?;
        let batch = self.engine.batch();
        let mut buffers = restore_buffers(slot, &record, &header, entry.descriptors, batch)?;
        let RestoredFiles { files, failures, facts, number } =
            restore_files(&mut record, header, &mut buffers)?;
        let path = files.as_ref().map(|files| files.path());
        let destination = files.map(|files| Destination::Files(Box::new(files)));
        let storage = destination.map(Storage::start).transpose()?;
        let RestoredBuffers { mut session, buffer_count, memory, state, .. } = buffers;
        for (path, error) in failures.incomplete {
            log!("session {}: {}: {error}", record.start.config.name, path.display());
        }
        let mut error = None;
        for (bytes, why) in failures.unstored {
            session.not_stored_again(count_events(&bytes));
            session.mark_not_stored_again(&bytes);
            error = Some(why.to_string());
        }
        if let Some(path) = path
            && session.policy().overwrites_file()
        {
            let slots = file_slots(&path, session.buffer_size())?;
            session.restore_slots(slots, record.events_before);
        }
        if let Some(pattern) = &record.start.config.file
            && session.policy().is_series()
        {
            let last = session.next_place().file;
            let size = session.buffer_size();
            session.restore_series(series_contents(pattern, &record.series, last, size));
        }
        if let Some(system) = &record.start.config.system {
            record.system_classes.set_all(system);
        }
        let ending = record.ending;
        let global = GlobalSession {
            config: record.start.config,
            owner: record.owner,
            is_leased: record.start.leased,
            lease: None,
            orphan_until: None,
            interrupted_end: ((is_ending || ending == Ending::Session) && record.consumers > 0)
                .then(|| {
                    let until = Instant::now() + RECONNECT_PATIENCE;
                    InterruptedEnd { consumers: record.consumers, until, asker: None }
                }),
            ending,
            consumers: Vec::new(),
            is_real_time: record.is_real_time,
            memories: vec![BufferMemory { buffers: buffer_count, memory }],
            state,
            file_number: number,
            before: Default::default(),
            flushes: Default::default(),
            since: record.since.into_iter().collect(),
            refusals: record.refusals,
            names: record.names,
            events_before: record.events_before,
            kept_series_file: None,
            logged_failure: None,
            ring_set: record.ring_set,
            recordings_before: record.recordings_before,
            // This worker's recording begins with one.
            rundowns: Rundowns::behind(session.facts().buffers_lost),
            series: SeriesRundowns::in_file(session.next_place().file, session.facts().bytes),
            system_classes: record.system_classes,
        };
        let stored =
            Stored { until: session.facts().last_time, on: session.last_times().collect() };
        let mut hosted = HostedSession::new(facts, storage, buffer_count, global);
        hosted.error = error;
        self.engine.insert_session(slot, hosted, session);
        self.resume_recordings(slot, rings, &stored);
        self.forget_unnamed_rings(slot);
        if ending == Ending::Session {
            self.engine.close_admission(slot);
        }
        kill_point("session taken up");
        // One message replaces the old memories by the new ones.
        self.keep_session(slot);
        kill_point("session kept again");
        Ok(())
    }

    /// Continues the recordings of a session's system events: the last one, and those before it whose last events are not final.
    fn resume_recordings(&mut self, slot: usize, mut rings: KeptRings, stored: &Stored) {
        let Some(global) = self.global(slot) else { return };
        let Some(system) = global.config.system.clone() else { return };
        let is_ending = global.ending == Ending::Session;
        // The rings of a session that ends are kept until all of their records are in its buffers.
        if is_ending && rings.is_empty() {
            return;
        }
        let (name, buffer_size) = (global.name().to_owned(), global.config.buffer_size);
        let last = KeptRecording { system, ring_set: global.ring_set.clone() };
        let mut recordings = global.recordings_before.clone();
        recordings.push(last);
        let last = global.ring_set.number;
        for KeptRecording { system, ring_set } in recordings {
            let number = ring_set.number;
            let left = rings.remove(&number).unwrap_or_default().into_values().collect();
            let resumed =
                SystemSource::resume(&system, buffer_size, left, stored.clone(), &ring_set);
            let source = resumed.or_else(|error| {
                log!("session {name}: events of the system since the kill are missing: {error}");
                match number == last {
                    true => SystemSource::open_again(&system, buffer_size),
                    false => Err(StartError::Rings(error)),
                }
            });
            match source {
                Ok(source) => drop(self.attach_source(slot, ring_set, source)),
                Err(error) => {
                    log!("session {name}: events of the system end here: {error}");
                    let what = format!(
                        "the recording of the system ended when the host's worker was killed: the next one cannot go on: {error}"
                    );
                    if let Some((hosted, _)) = self.engine.session_mut(slot) {
                        hosted.notes.push(what);
                    }
                }
            }
        }
        if is_ending {
            self.engine.finish_source(slot);
        }
    }
}
