//! A worker goes on where the one before was killed: from what the keeper holds.
//!
//! What was final in the last batch is in the sessions' buffers; everything else is in the pools still, and is drained again.
//! Buffers that had a place in a file are written there (again); the others go on with their session.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_etl::read::{BufferRecords, Item, TraceFile, buffer};
use etw_etl::record::RecordContext;
use etw_host::clock::{ClockMap, Pair};
use etw_host::facts::{SessionFacts, SessionTime};
use etw_host::files::{Closing, Files};
use etw_host::modules::Modules;
use etw_host::report::LEDGER_PROVIDER;
use etw_host::storage::{Sink, Storage};
use etw_ring::{Control, Memory, Reader, Source};
use etw_session::recover::recover;
use etw_session::state::{STATE_SIZE, Saved};
use etw_session::{Place, Session, SessionConfig};
use etw_types::{BufferHeader, le};
use etw_wire::message::FromHost;
use etw_wire::{Channel, Peer};

use crate::global_session::{GlobalSession, host_facts, make_buffers};
use crate::host_thread::{HostThread, end, identity};
use crate::keeper_protocol::{
    Ending, Entries, Entry, KeptFile, KeptProgram, KeptRegistration, KeptSession, numbers,
};
use crate::mailbox::Connection;
use crate::program::{Lane, Program, Slot};
use etw_host::kill_point::kill_point;

fn facts<T: serde::de::DeserializeOwned>(entry: &Entry) -> io::Result<T> {
    serde_json::from_slice(&entry.facts).map_err(io::Error::other)
}

/// How long a leased session waits for its reader.
const RETURN: Duration = Duration::from_secs(3);

/// Changes that a program may have been told of since it was kept.
const TOKENS: u32 = 1 << 20;

/// Buffers that a file did not take, and why.
type Unstored = Vec<(Vec<u8>, io::Error)>;

/// Events in a buffer of a session's, its own reports aside.
fn events_in(bytes: &[u8]) -> u64 {
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let Ok((_, records)) = buffer::open(bytes, size) else { return 0 };
    let context = RecordContext::default();
    let items = BufferRecords::new(&records, &context);
    let is_event = |item: &Item<'_>| match item {
        Item::Record { record, .. } => record.provider != Some(LEDGER_PROVIDER),
        _ => false,
    };
    items.filter(is_event).count() as u64
}

/// A session's file as it has to be before it goes on; its number, which places have for it. Buffers that it did not take go to `lost`: a
/// full disk ends no session.
fn restore_file(
    (path, facts, number): (&Path, &SessionFacts, u32),
    mut placed: Vec<(Place, Vec<u8>)>,
    lost: &mut Unstored,
) -> io::Result<Files> {
    let closing = Closing::default();
    let (mut files, sequence) = match facts.is_compressed() {
        true => {
            let (files, sequence) = Files::reopen_compressed(path, facts.clone())?;
            (files.numbered(number), Some(sequence))
        }
        false => (Files::resume(path, facts.clone(), 1)?.numbered(number), None),
    };
    placed.sort_by_key(|(_, bytes)| le::i64(bytes, 0x18));
    for (place, bytes) in placed {
        // What is in a compressed file is not written again: it has no place of its own.
        if sequence.is_some_and(|last| le::i64(&bytes, 0x18).is_none_or(|number| number <= last)) {
            continue;
        }
        let stored = files.store(number, place.slot, &bytes[..BufferHeader::SIZE], &bytes, closing);
        lost.extend(stored.err().map(|error| (bytes, error)));
    }
    Ok(files)
}

/// A file that the session had before, and whose end the worker before may not have come to.
fn complete(
    file: &KeptFile,
    placed: Vec<(Place, Vec<u8>)>,
    closing: Closing,
    lost: &mut Unstored,
) -> io::Result<()> {
    if TraceFile::open(&file.path).is_ok_and(|file| file.is_finalised()) {
        return Ok(());
    }
    let facts = SessionFacts::read(&file.facts)?;
    let mut files = restore_file((&file.path, &facts, file.number), placed, lost)?;
    files.finish(closing)
}

/// Has the worker before come to the end of a session's file? One that is appended to may have had an end before.
fn has_end(config: &SessionConfig) -> bool {
    let file = config.file.as_ref().filter(|_| config.mode.policy().has_own_file);
    file.is_some_and(|path| TraceFile::open(path).is_ok_and(|file| file.is_finalised()))
}

/// As [`restore_file`], of a session that begins a new file whenever one is full.
fn restore_series(
    (path, facts): (&Path, &SessionFacts),
    placed: Vec<(Place, Vec<u8>)>,
    (next, last_time): (Place, i64),
    closing: Closing,
    lost: &mut Unstored,
) -> io::Result<Files> {
    // A file that nothing was written to is begun with its first buffer.
    let last = if next.slot == 1 { next.file.saturating_sub(1).max(1) } else { next.file };
    let mut by_file: BTreeMap<u32, Vec<(Place, Vec<u8>)>> = BTreeMap::from([(last, Vec::new())]);
    for (place, bytes) in placed {
        by_file.entry(place.file).or_default().push((place, bytes));
    }
    // The one before may have been full and not completed.
    let first = by_file.keys().next().copied().unwrap_or(last);
    let before = etw_host::facts::file_name(path, first.saturating_sub(1));
    if first > 1 && TraceFile::open(&before).is_ok_and(|file| !file.is_finalised()) {
        by_file.insert(first - 1, Vec::new());
    }
    let most = by_file.keys().next_back().copied().unwrap_or(last);
    let mut current = None;
    for (number, buffers) in by_file {
        let mut files = match Files::resume(path, facts.clone(), number) {
            Ok(files) => files,
            Err(error) if number == most => return Err(error),
            // The session goes on in later ones.
            Err(error) => {
                let what = |bytes| (bytes, io::Error::new(error.kind(), error.to_string()));
                lost.extend(buffers.into_iter().map(|(_, bytes)| what(bytes)));
                continue;
            }
        };
        let mut last_time = facts.start_raw.max(last_time);
        for (place, bytes) in buffers {
            last_time = last_time.max(le::i64(&bytes, 0x10).unwrap_or(0));
            let stored =
                files.store(place.file, place.slot, &bytes[..BufferHeader::SIZE], &bytes, closing);
            lost.extend(stored.err().map(|error| (bytes, error)));
        }
        if number < most {
            let end = facts.clock().filetime(last_time).map_or(0, |time| time.0);
            files.finish(Closing { end_time: end, ..closing }).unwrap_or_else(|error| {
                crate::tell!("etwd: {}: {error}", files.path().display());
            });
        }
        current = Some(files);
    }
    current.ok_or(io::ErrorKind::NotFound.into())
}

/// What belongs to one program or session.
#[derive(Default)]
struct Kept {
    main: Option<Entry>,
    /// Registrations by number.
    registrations: Vec<(u32, Entry)>,
    /// Segments of its pool, in their order.
    segments: BTreeMap<u64, Entry>,
}

impl Kept {
    /// Under which names a program is kept.
    fn names(&self, connection: Connection) -> Vec<String> {
        let registrations = self.registrations.iter().map(|(number, _)| u64::from(*number));
        let registrations = registrations.map(|n| format!("registration/{connection}/{n}"));
        let segments = self.segments.keys().map(|n| format!("pool/{connection}/{n}"));
        let itself = std::iter::once(format!("program/{connection}"));
        registrations.chain(segments).chain(itself).collect()
    }
}

impl HostThread {
    /// Takes up what the keeper holds; the connections of programs. What cannot be taken up is told, and left.
    pub fn restore(&mut self, entries: Entries) -> Vec<(Connection, Arc<Channel>, Peer)> {
        let (mut sessions, mut programs) = (BTreeMap::new(), BTreeMap::new());
        for (name, entry) in entries {
            let of = |kind| numbers(&name, kind);
            if let Some([slot]) = of("session").as_deref() {
                sessions.entry(*slot).or_insert_with(Kept::default).main = Some(entry);
            } else if let Some([connection]) = of("program").as_deref() {
                programs.entry(*connection).or_insert_with(Kept::default).main = Some(entry);
            } else if let Some([connection, number]) = of("pool").as_deref() {
                let kept = programs.entry(*connection).or_insert_with(Kept::default);
                kept.segments.insert(*number, entry);
            } else if let Some([connection, number]) = of("registration").as_deref() {
                let kept = programs.entry(*connection).or_insert_with(Kept::default);
                kept.registrations.push((*number as u32, entry));
            }
        }
        // Batches go on in any case: a number that comes again would make final what another worker had only begun.
        self.batch = self.last.get();
        if self.batch == 0 {
            // So that a session has its numbers from its beginning: they are kept beside those of a batch that is final.
            self.seal_and_store();
        }
        if sessions.is_empty() && programs.is_empty() {
            return Vec::new();
        }
        let [raw, ns, floor, _] = self.last.kept();
        // The line goes on from where everything before it has been converted: no time is before its predecessor's.
        let raw_clock = self.clocks.0;
        self.map = ClockMap::between(Pair { raw, ns }, Pair::now(raw_clock), raw_clock);
        self.floor = floor;
        for (slot, kept) in sessions {
            if let Err(error) = self.restore_session(slot as usize, kept) {
                crate::tell!("etwd: session {slot} does not go on: {error}");
                // Its number may be another one's soon.
                self.keep.remove(&format!("session/{slot}"));
            }
        }
        let mut connections = Vec::new();
        for (connection, kept) in programs {
            let names = kept.names(connection);
            let socket = kept.main.as_ref().and_then(|main| main.descriptors.first());
            let socket = socket.and_then(|socket| socket.try_clone().ok());
            match self.restore_program(connection, kept) {
                Ok(found) => connections.push(found),
                Err(error) => {
                    crate::tell!("etwd: a program cannot be taken up: {error}");
                    // It hears of it, whoever else has its socket; and its number may be another one's soon.
                    if let Some(socket) = socket {
                        end(&Channel::from(socket));
                    }
                    names.iter().for_each(|name| self.keep.remove(name));
                }
            }
        }
        kill_point("programs taken up");
        // What programs have of sessions that do not go on: nobody has told them yet.
        let slots = self.programs.values().flat_map(|program| program.slots.iter().flatten());
        let gone: BTreeSet<usize> = slots
            .map(|slot| slot.session)
            .filter(|session| !self.sessions.contains_key(session))
            .collect();
        for session in gone {
            self.withdraw(session, None);
        }
        let (mut ended, mut without) = (Vec::new(), Vec::new());
        for (slot, global) in &mut self.sessions {
            match global.ending {
                Ending::Session => ended.push(*slot),
                Ending::Provider(provider) => without.push((*slot, provider)),
                Ending::Nothing => {}
            }
            // Their owners have lost the connection that they were leased by. One that reads its session live comes back at once.
            match (global.is_leased, global.is_real_time) {
                (true, true) => global.orphan_until = Some(Instant::now() + RETURN),
                (true, false) => ended.push(*slot),
                (false, _) => {}
            }
        }
        for (slot, provider) in without {
            self.disable(slot, &provider);
        }
        for slot in ended {
            self.stop_session(slot, None);
        }
        connections
    }

    fn restore_session(&mut self, slot: usize, kept: Kept) -> io::Result<()> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let main = kept.main.ok_or_else(missing)?;
        let mut record: KeptSession = facts(&main)?;
        if record.ending == Ending::Session && has_end(&record.start.config) {
            self.keep.remove(&format!("session/{slot}"));
            return Ok(());
        }
        let mut config = std::mem::take(&mut record.start.config);
        let mut descriptors = main.descriptors.into_iter();
        let numbers = descriptors.next().ok_or_else(missing)?;
        let mut session_facts = SessionFacts::read(&record.facts)?;
        let size = config.buffer_size as usize;
        let mut left = Vec::new();
        for (count, memory) in record.buffers.iter().zip(descriptors) {
            left.push(Memory::map(memory, 0, size * *count as usize, true)?.into_regions(size));
        }
        let count: u32 = record.buffers.iter().sum();
        let found = recover(left.iter().flatten().map(|region| region.as_ref()), self.batch);
        if found.damaged > 0 {
            crate::tell!("etwd: {} buffers of {} are damaged", found.damaged, config.name);
        }
        let state = Memory::map(numbers, 0, STATE_SIZE, true)?.into_regions(STATE_SIZE);
        let state = state.first().ok_or_else(missing)?;
        let saved = Saved::read(state.as_ref(), self.batch).ok_or_else(missing)?;
        // A file that is appended to has grown since: its places come from the session's numbers.
        let host = host_facts(&session_facts, slot);
        let (buffers, memory) = make_buffers(config.buffer_size, count.max(2))?;
        let bad = |error: etw_session::SessionError| io::Error::other(error.to_string());
        let next_place = saved.next_place();
        let (mut session, mut placed) =
            Session::resume(&config, host, buffers, saved, found, self.batch, &LEDGER_PROVIDER)
                .map_err(bad)?;
        let (state, numbers) = make_buffers(STATE_SIZE as u32, 1)?;
        state.into_iter().for_each(|state| session.keep_state(state, self.batch));
        for (provider, info) in std::mem::take(&mut record.enabled) {
            session.enable(provider, info);
        }
        let last_time = session.facts().last_time;
        let mut number = record.file_number;
        let mut before = std::mem::take(&mut record.before);
        let is_series = config.mode.policy().is_series();
        // A change of the file that the worker before had told of and had not come to.
        while number > session.next_place().file
            && !is_series
            && let Some(file) = before.pop()
        {
            let made = config.file.replace(file.path);
            let _ = made.map(std::fs::remove_file);
            session_facts = SessionFacts::read(&file.facts)?;
            number = file.number;
        }
        let mut lost = Vec::new();
        let end = session_facts.clock().filetime(last_time).map_or(0, |time| time.0);
        let events_lost = u32::try_from(session.ledger().lost_total()).unwrap_or(u32::MAX);
        let closing = Closing { end_time: end, events_lost, ..Closing::default() };
        for file in before {
            let (its, others) =
                placed.into_iter().partition(|(place, _)| place.file == file.number);
            placed = others;
            complete(&file, its, closing, &mut lost).unwrap_or_else(|error| {
                crate::tell!("etwd: {}: {error}", file.path.display());
            });
        }
        let storage = match &config.file {
            Some(path) => {
                let files = match is_series {
                    true => {
                        let next = (next_place, last_time);
                        let closing = Closing { end_time: 0, ..closing };
                        let of = (path.as_path(), &session_facts);
                        restore_series(of, placed, next, closing, &mut lost)?
                    }
                    false => {
                        let of = (path.as_path(), &session_facts, number);
                        restore_file(of, placed, &mut lost)?
                    }
                };
                Some(Storage::start(Sink::Files(Box::new(files)))?)
            }
            None => None,
        };
        let mut error = None;
        for (bytes, why) in lost {
            session.not_stored_again(events_in(&bytes));
            error = Some(why.to_string());
        }
        let global = GlobalSession {
            name: config.name.clone(),
            guid: config.guid,
            owner: record.owner,
            lease: None,
            orphan_until: None,
            ending: record.ending,
            time: SessionTime::of(&session_facts),
            facts: session_facts,
            storage,
            consumers: Vec::new(),
            is_real_time: record.is_real_time,
            consumer_losses: 0,
            buffers: count,
            memories: vec![(count, memory)],
            numbers,
            error,
            file_number: number,
            before: Default::default(),
            completed: Vec::new(),
            flushes: Default::default(),
            given: 0,
            returned: 0,
            is_full: false,
            since: record.since.into_iter().collect(),
            waiting_since: None,
            slow_at: None,
            modules: Modules::default(),
            reports: None,
            refusals: record.refusals,
            config,
            is_leased: record.start.leased,
        };
        self.router.insert(slot, session);
        self.sessions.insert(slot, global);
        kill_point("session taken up");
        // In one message the new memories are in the place of the old ones.
        self.keep_session(slot);
        kill_point("session kept again");
        Ok(())
    }

    fn restore_program(
        &mut self,
        connection: Connection,
        kept: Kept,
    ) -> io::Result<(Connection, Arc<Channel>, Peer)> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let main = kept.main.ok_or_else(missing)?;
        let record: KeptProgram = facts(&main)?;
        let [socket, control] =
            <[OwnedFd; 2]>::try_from(main.descriptors).map_err(|_| missing())?;
        let channel = Arc::new(Channel::from(socket));
        let peer = Peer { pid: record.pid, uid: record.uid, gid: record.gid };
        let memory = Memory::map(control, 0, Control::SIZE, true)?;
        let control = Control::open_until(Arc::new(memory), self.batch)?;
        let mut program = Program::new(channel.clone(), peer, control);
        let mut gone = Vec::new();
        for (number, entry) in kept.registrations {
            let KeptRegistration { id, traits, is_gone } = facts(&entry)?;
            program.register(number, id, &traits);
            gone.extend(is_gone.then_some(number));
        }
        for (slot, kept) in program.slots.iter_mut().zip(record.slots) {
            let is_counted = |used: &Slot| used.counted_in.is_some_and(|batch| batch <= self.batch);
            *slot =
                kept.filter(|used| !is_counted(used)).map(|used| Slot { counted_in: None, ..used });
        }
        // What it was told last it has heard, or will; who asks waits for nothing here.
        // Its answers to what was not kept are no answers to this worker.
        let token = record.token.wrapping_add(TOKENS);
        program.done = token;
        (program.may_repeat, program.may_offer) = (true, true);
        let mut reader: Option<Reader> = None;
        for entry in kept.segments.into_values() {
            let [memory] = <[OwnedFd; 1]>::try_from(entry.descriptors).map_err(|_| missing())?;
            let (number, size) = identity(Some(&memory)).ok_or_else(missing)?;
            program.last_segment = Some(number);
            let source = Source::received(memory)?;
            program.segments += 1;
            let size = if reader.is_none() { self.options.pool_size } else { size };
            program.pool_size = program.pool_size.saturating_add(size);
            match &mut reader {
                None => {
                    let mut new = Reader::new(program.control.clone(), source)?;
                    // Whether it was quiet is not known: it is drained, and asked anew.
                    new.wake_after_restart();
                    reader = Some(new);
                }
                Some(reader) => reader.add_segment(source)?,
            }
        }
        self.tokens.insert(connection, token);
        if let Some(reader) = reader {
            program.lane = Some(self.lanes.len());
            self.lanes.push(Lane::new(connection, &program, &reader));
            self.readers.push(reader);
        }
        for number in gone {
            program.unregister(number);
        }
        // What it said to a worker that was killed may not have been heard.
        program.say(&FromHost::Again);
        self.programs.insert(connection, program);
        Ok((connection, channel, peer))
    }
}
