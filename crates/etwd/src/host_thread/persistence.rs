//! Entries for the keeper: the state of programs and sessions for the next worker.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use etw_wire::requests::StartRequest;

use super::HostThread;
use crate::asker::Connection;
use crate::keeper_protocol::RING;
use crate::kept_state::{KeptProgram, KeptRegistration, KeptSession};
use crate::program::Program;
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

    /// Keeps the rings of a session's system events.
    pub(super) fn keep_rings(&mut self, slot: usize, source: &mut SystemSource) {
        let count = self.ring_counts.entry(slot).or_default().clone();
        source.keep_rings(RingKeeper { keeper: self.keeper.clone(), slot, count });
    }

    /// Removes the rings of a session that has ended.
    pub(super) fn forget_rings(&mut self, slot: usize) {
        let count = self.ring_counts.remove(&slot).unwrap_or_default();
        for number in 0..count.load(Ordering::Relaxed) {
            self.keeper.remove(&format!("{RING}/{slot}/{number}"));
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
        };
        let mut descriptors = vec![global.state.as_fd()];
        descriptors.extend(global.memories.iter().map(|one| one.memory.as_fd()));
        self.keeper.put(&format!("session/{slot}"), &facts, &descriptors);
    }
}
