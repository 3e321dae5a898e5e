//! Entries for the keeper: the state of programs and sessions for the next worker.

use std::os::fd::AsFd;

use etw_host::kill_point::kill_point;
use etw_wire::requests::StartRequest;

use super::HostThread;
use crate::asker::Connection;
use crate::keeper_protocol::ring_name;
use crate::kept_state::{KeptProgram, KeptRegistration, KeptSession};
use crate::program::Program;
use crate::shared_rings::Closing;
use crate::system_source::{RingKeeper, SystemSource};

impl HostThread {
    /// Keeps a program.
    pub(super) fn keep_program(&self, connection: Connection) {
        let Some(program) = self.programs.get(&connection) else { return };
        let slots = self.engine.pool(connection);
        let facts = KeptProgram {
            pid: program.peer.pid,
            uid: program.peer.uid,
            gid: program.peer.gid,
            slots: slots.map_or(Vec::new(), |pool| pool.slots().to_keep(self.engine.batch())),
            token: program.token,
        };
        let Some(control) = program.control.memory().fd() else { return };
        let descriptors = [program.channel.as_fd(), control];
        self.keeper.put(&format!("program/{connection}"), &facts, &descriptors);
    }

    /// Keeps a registration of a program.
    pub(super) fn keep_registration(
        &self,
        connection: Connection,
        number: u32,
        registration: &KeptRegistration,
    ) {
        self.keeper.put(&format!("registration/{connection}/{number}"), registration, &[]);
    }

    /// Removes all entries of a program.
    pub(super) fn forget_program(&self, connection: Connection, program: &Program) {
        for number in &program.numbers {
            self.keeper.remove(&format!("registration/{connection}/{number}"));
        }
        for segment in 0..program.segments {
            self.keeper.remove(&format!("pool/{connection}/{segment}"));
        }
        self.keeper.remove(&format!("program/{connection}"));
    }

    /// Keeps the rings of a session's system events, as one of its ring sets.
    pub(super) fn keep_rings(&mut self, slot: usize, set: u64, source: &mut SystemSource) {
        let rings = self.ring_sets.entry((slot, set)).or_default().clone();
        source.keep_rings(RingKeeper { keeper: self.keeper.clone(), slot, set, rings });
    }

    /// Removes the rings of a session that has ended. Returns the end of those that it had.
    pub(super) fn forget_rings(&mut self, slot: usize) -> Option<Closing> {
        self.forget_ring_sets(slot, |_| true)
    }

    /// Removes some ring sets of a session.
    fn forget_ring_sets(&mut self, slot: usize, is_over: impl Fn(u64) -> bool) -> Option<Closing> {
        let sets = self.ring_sets.keys().filter(|(of, set)| *of == slot && is_over(*set));
        let mut removed = Vec::new();
        for (slot, set) in sets.copied().collect::<Vec<_>>() {
            let Some(rings) = self.ring_sets.remove(&(slot, set)) else { continue };
            for number in 0..rings.count() {
                self.keeper.remove(&ring_name(slot, set, number));
            }
            removed.push(rings);
        }
        (!removed.is_empty()).then(|| Closing::begin(&self.keeper, removed))
    }

    /// Removes the ring sets of a session that it does not name: those of changes that were not completed.
    pub(super) fn forget_unnamed_rings(&mut self, slot: usize) {
        let Some(global) = self.global(slot) else { return drop(self.forget_rings(slot)) };
        let before = global.recordings_before.iter().map(|one| one.ring_set.number);
        let named: Vec<u64> = before.chain([global.ring_set.number]).collect();
        drop(self.forget_ring_sets(slot, |set| !named.contains(&set)));
    }

    /// Removes the recordings that others have replaced, when their last events are final.
    pub(super) fn forget_given_recordings(&mut self) {
        for slot in self.engine.session_slots() {
            let has_some = self.global(slot).is_some_and(|one| !one.recordings_before.is_empty());
            if !has_some || self.engine.remove_given_sources(slot) {
                continue;
            }
            kill_point("recording before given");
            if let Some(global) = self.global_mut(slot) {
                global.recordings_before.clear();
            }
            self.keep_session(slot);
            kill_point("recording before forgotten");
            self.forget_unnamed_rings(slot);
        }
    }

    /// Keeps a session.
    pub(super) fn keep_session(&self, slot: usize) {
        let Some((hosted, session)) = self.session(slot) else { return };
        let global = &hosted.host;
        let facts = KeptSession {
            start: StartRequest { config: global.config.clone(), leased: global.is_leased },
            owner: global.owner,
            is_leased: global.lease.is_some(),
            is_real_time: global.is_real_time,
            ending: global.ending,
            facts: hosted.facts.to_bytes(),
            enabled: session.enablements().map(|(id, info)| (*id, info.clone())).collect(),
            since: global.since.iter().map(|(id, since)| (*id, *since)).collect(),
            buffers: global.memories.iter().map(|memory| memory.buffers).collect(),
            file_number: global.file_number,
            before: global.before.iter().map(|before| before.file.clone()).collect(),
            refusals: global.refusals.clone(),
            names: global.names.clone(),
            events_before: global.events_before,
            series: session.series_files().collect(),
            consumers: global.consumer_count(),
            ring_set: global.ring_set.clone(),
            recordings_before: global.recordings_before.clone(),
            system_classes: global.system_classes.clone(),
        };
        let mut descriptors = vec![global.state.as_fd()];
        descriptors.extend(global.memories.iter().map(|one| one.memory.as_fd()));
        self.keeper.put(&format!("session/{slot}"), &facts, &descriptors);
    }
}
