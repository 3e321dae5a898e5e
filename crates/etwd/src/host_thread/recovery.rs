//! A worker takes over from one that was killed, with the entries that the keeper holds.
//!
//! Records of the last final batch are in the sessions' buffers. All later ones are still in the pools, and are drained again.
//! Buffers that had a position in a file are written there again; the others stay with their session.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_host::engine::SlotTable;
use etw_host::kill_point::kill_point;
use etw_ring::{Control, Memory, Reader, Source};
use etw_types::Guid;
use etw_wire::message::FromHost;
use etw_wire::runtime_directory::Directory;
use etw_wire::{Channel, Peer};

use super::HostThread;
use super::pools::attached_pool;
use crate::asker::Connection;
use crate::ended_stream::EndedStream;
use crate::keeper::is_refusal;
use crate::keeper_protocol::{ENDED, ENDING, Entries, Entry, RING, numbers};
use crate::kept_state::{Ending, KeptProgram, KeptRegistration, KeptSession};
use crate::log::log;
use crate::program::{Program, SegmentIdentity, disconnect, segment_identity};
use crate::shared_rings::SharedRings;

/// How long a session waits for its readers: as long as readers try to reconnect.
pub(super) const RECONNECT_PATIENCE: Duration = etw_wire::live_stream::REPLACEMENT_PATIENCE;
/// Changes that the worker before may have sent to a program after it was kept.
const UNKEPT_CHANGES: u32 = 1 << 20;

/// The facts of an entry.
pub(super) fn facts<T: serde::de::DeserializeOwned>(entry: &Entry) -> io::Result<T> {
    serde_json::from_slice(&entry.facts).map_err(io::Error::other)
}

/// An entry or a descriptor is missing.
pub(super) fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// The entries of one program.
#[derive(Default)]
struct KeptEntries {
    main: Option<Entry>,
    /// Registrations by number.
    registrations: Vec<(u32, Entry)>,
    /// Segments of its pool, in order.
    segments: BTreeMap<u64, Entry>,
}

impl KeptEntries {
    /// The names of the entries.
    fn names(&self, connection: Connection) -> Vec<String> {
        let registrations = self.registrations.iter().map(|(number, _)| u64::from(*number));
        let registrations = registrations.map(|n| format!("registration/{connection}/{n}"));
        let segments = self.segments.keys().map(|n| format!("pool/{connection}/{n}"));
        let itself = std::iter::once(format!("program/{connection}"));
        registrations.chain(segments).chain(itself).collect()
    }
}

/// Rings of a session's system events by ring set, in order.
pub(super) type KeptRings = BTreeMap<u64, BTreeMap<u64, Entry>>;

/// All entries, by session and by program.
#[derive(Default)]
struct Sorted {
    sessions: BTreeMap<u64, Entry>,
    /// Streams of ended sessions.
    ended: BTreeMap<u64, Entry>,
    /// The daemon was asked to end.
    is_ending: bool,
    programs: BTreeMap<Connection, KeptEntries>,
    /// Rings of system events by session.
    rings: BTreeMap<u64, KeptRings>,
}

impl Sorted {
    fn new(entries: Entries) -> Sorted {
        let mut sorted = Sorted::default();
        for (name, entry) in entries {
            let numbers = |kind| numbers(&name, kind);
            if let Some([slot]) = numbers("session").as_deref() {
                sorted.sessions.insert(*slot, entry);
            } else if let Some([number]) = numbers(ENDED).as_deref() {
                sorted.ended.insert(*number, entry);
            } else if name == ENDING {
                sorted.is_ending = true;
            } else if let Some([slot, number, set @ ..]) = numbers(RING).as_deref() {
                let set = set.first().copied().unwrap_or(0);
                let sets = sorted.rings.entry(*slot).or_default();
                sets.entry(set).or_default().insert(*number, entry);
            } else if let Some([connection]) = numbers("program").as_deref() {
                sorted.programs.entry(*connection).or_default().main = Some(entry);
            } else if let Some([connection, number]) = numbers("pool").as_deref() {
                let kept = sorted.programs.entry(*connection).or_default();
                kept.segments.insert(*number, entry);
            } else if let Some([connection, number]) = numbers("registration").as_deref() {
                let kept = sorted.programs.entry(*connection).or_default();
                kept.registrations.push((*number as u32, entry));
            }
        }
        sorted
    }
}

/// A program's connection, for the server.
pub(crate) type RestoredConnection = (Connection, Arc<Channel>, Peer);

impl HostThread {
    /// Restores sessions and programs. Returns the connections of programs. Entries that cannot be restored are logged and removed.
    ///
    /// # Errors
    /// The system refuses threads or memory. The entries of what is not restored stay for the next worker.
    pub fn restore(&mut self, entries: Entries) -> io::Result<Vec<RestoredConnection>> {
        let Sorted { sessions, ended, is_ending, programs, mut rings } = Sorted::new(entries);
        for (slot, sets) in &rings {
            for (set, all) in sets {
                let rings = Arc::new(SharedRings::with_count(all.len()));
                self.ring_sets.insert((*slot as usize, *set), rings);
            }
        }
        self.restore_streams(ended);
        if sessions.is_empty() && programs.is_empty() && rings.is_empty() {
            return Ok(Vec::new());
        }
        for (slot, entry) in sessions {
            let rings = rings.remove(&slot).unwrap_or_default();
            let name = facts(&entry).map(|kept: KeptSession| kept.start.config.name);
            if let Err(error) = self.restore_session(slot as usize, entry, rings, is_ending) {
                if is_refusal(&error) {
                    return Err(error);
                }
                let name = name.unwrap_or_else(|_| format!("number {slot}"));
                self.note_failure(&format!(
                    "session {name} has ended: its host's worker was killed, and the next one cannot restore it: {error}"
                ));
                // Another session may soon have its number.
                self.keeper.remove(&format!("session/{slot}"));
                self.forget_rings(slot as usize);
            }
        }
        for slot in rings.into_keys() {
            // Its session has ended.
            self.forget_rings(slot as usize);
        }
        let mut connections = Vec::new();
        for (connection, kept) in programs {
            let names = kept.names(connection);
            let socket = kept.main.as_ref().and_then(|main| main.descriptors.first());
            let socket = socket.and_then(|socket| socket.try_clone().ok());
            match self.restore_program(connection, kept) {
                Ok(found) => connections.push(found),
                Err(error) => {
                    log!("a program cannot be restored and is disconnected: {error}");
                    // The program notices it, even if others have its socket. Another program may soon have its number.
                    if let Some(socket) = socket {
                        disconnect(&Channel::from(socket));
                    }
                    names.iter().for_each(|name| self.keeper.remove(name));
                }
            }
        }
        kill_point("programs taken up");
        self.withdraw_lost_sessions();
        self.complete_endings();
        Ok(connections)
    }

    /// Says in the log what went wrong, and leaves it to controllers.
    fn note_failure(&self, what: &str) {
        log!("{what}");
        let directory = Directory::open(&self.options.directory);
        let noted = directory.and_then(|directory| directory.add_failure(what));
        if let Err(error) = noted {
            log!("controllers do not find that: {error}");
        }
    }

    /// Restores the streams of ended sessions, whose consumers may reconnect.
    fn restore_streams(&mut self, entries: BTreeMap<u64, Entry>) {
        let until = Instant::now() + RECONNECT_PATIENCE;
        for (number, entry) in entries {
            match facts(&entry).and_then(|kept| EndedStream::restore(kept, until)) {
                Ok(stream) => drop(self.ended_streams.insert(number, stream)),
                Err(error) => {
                    log!("the end of a session's stream cannot be restored: {error}");
                    self.keeper.remove(&format!("{ENDED}/{number}"));
                }
            }
        }
    }

    /// Withdraws the enablements of sessions that could not be restored: their programs still have them.
    fn withdraw_lost_sessions(&mut self) {
        let pools = self.programs.keys().filter_map(|connection| self.engine.pool(*connection));
        let lost: BTreeSet<usize> = pools
            .flat_map(|pool| pool.slots().iter())
            .map(|slot| slot.session)
            .filter(|session| self.session(*session).is_none())
            .collect();
        for session in lost {
            self.withdraw(session, None);
        }
    }

    /// Completes what the worker before was ending. The owners of leased sessions have lost their connection, and may
    /// reconnect.
    fn complete_endings(&mut self) {
        let mut ended = Vec::new();
        let mut without: Vec<(usize, Guid)> = Vec::new();
        for (slot, hosted) in self.engine.sessions_mut() {
            let global = &mut hosted.host;
            match global.ending {
                // Its consumers reconnect first.
                Ending::Session if global.interrupted_end.is_some() => continue,
                Ending::Session => {
                    ended.push(slot);
                    continue;
                }
                Ending::Provider(provider) => without.push((slot, provider)),
                Ending::Nothing => {}
            }
            if global.is_leased {
                global.orphan_until = Some(Instant::now() + RECONNECT_PATIENCE);
            }
        }
        for (slot, provider) in without {
            self.disable(slot, &provider);
        }
        for slot in ended {
            self.stop_session(slot, None);
        }
    }

    fn restore_program(
        &mut self,
        connection: Connection,
        kept: KeptEntries,
    ) -> io::Result<RestoredConnection> {
        let main = kept.main.ok_or_else(missing)?;
        let record: KeptProgram = facts(&main)?;
        let [socket, control] =
            <[OwnedFd; 2]>::try_from(main.descriptors).map_err(|_| missing())?;
        let channel = Arc::new(Channel::from(socket));
        let peer = Peer { pid: record.pid, uid: record.uid, gid: record.gid };
        let memory = Memory::map(control, 0, Control::SIZE, true)?;
        let batch = self.engine.batch();
        let control = Control::open_until(Arc::new(memory), batch)?;
        let mut program = Program::new(channel.clone(), peer, control);
        let mut unregistered = Vec::new();
        for (number, entry) in kept.registrations {
            let KeptRegistration { id, traits, is_gone } = facts(&entry)?;
            program.register(number, id, &traits);
            unregistered.extend(is_gone.then_some(number));
        }
        // The program receives all changes. This worker ignores answers to changes that were not kept.
        program.token = record.token.wrapping_add(UNKEPT_CHANGES);
        program.answered = program.token;
        (program.may_repeat, program.may_offer) = (true, true);
        let segments = kept.segments.into_values();
        if let Some((reader, size)) = self.restore_pool(&mut program, segments)? {
            let slots = SlotTable::restored(record.slots, batch);
            let pool = attached_pool(connection, &program, &reader, &self.options, size);
            self.engine.attach(pool.with_slots(slots), reader);
        }
        for number in unregistered {
            program.unregister(number);
        }
        // Its messages to the worker before may not have been processed.
        program.send(&FromHost::Again);
        self.programs.insert(connection, program);
        Ok((connection, channel, peer))
    }

    /// The reader of a program's pool, and the pool's size.
    fn restore_pool(
        &self,
        program: &mut Program,
        segments: impl Iterator<Item = Entry>,
    ) -> io::Result<Option<(Reader, u64)>> {
        let mut restored: Option<(Reader, u64)> = None;
        for entry in segments {
            let [memory] = <[OwnedFd; 1]>::try_from(entry.descriptors).map_err(|_| missing())?;
            let identity = segment_identity(Some(&memory)).ok_or_else(missing)?;
            let SegmentIdentity { inode, size } = identity;
            program.last_segment = Some(inode);
            program.segments += 1;
            let source = Source::received(memory)?;
            match &mut restored {
                None => {
                    let mut reader = Reader::new(program.control.clone(), source)?;
                    // The pool may have records that no program announces: it is drained, and its writers announce the next ones.
                    reader.wake_after_restart();
                    restored = Some((reader, self.options.pool_size.into()));
                }
                Some((reader, total)) => {
                    reader.add_segment(source)?;
                    *total = total.saturating_add(size.into());
                }
            }
        }
        Ok(restored)
    }
}
