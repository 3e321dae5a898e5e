//! Pools of programs: they arrive, grow, and are detached when their program has ended.

use std::os::fd::{AsFd, OwnedFd};

use etw_host::engine::{AttachedPool, Growth, GrowthRequest, PoolProcess, Slot, SlotTable};
use etw_host::kill_point::kill_point;
use etw_host::thread_ids::ThreadIds;
use etw_ring::Reader;
use etw_wire::message::FromHost;

use super::HostThread;
use crate::asker::Connection;
use crate::host_options::HostOptions;
use crate::program::{Program, received_segment, segment_identity};

/// A pool grows by so many times its size: in few steps, since each takes the program's thread a while, in which it goes on
/// writing.
const GROWTH_FACTOR: u64 = 3;

/// A program's pool, as the engine knows it. `size`: its bytes.
pub(super) fn attached_pool(
    connection: Connection,
    program: &Program,
    reader: &Reader,
    options: &HostOptions,
    size: u64,
) -> AttachedPool {
    let id = program.peer.pid;
    let process =
        PoolProcess { id, facts: program.facts.clone(), thread_ids: ThreadIds::of_process(id) };
    let growth = Growth::new(size, options.pool_limit.into(), GROWTH_FACTOR);
    let mut pool = AttachedPool::new(connection, process, growth, reader);
    pool.registrations = program.registrations();
    pool.with_slots(SlotTable::default())
}

/// A copy of the only descriptor of a message, for the keeper.
fn copy_of_descriptor(descriptors: &[OwnedFd]) -> Option<OwnedFd> {
    match descriptors {
        [one] => one.try_clone().ok(),
        _ => None,
    }
}

impl HostThread {
    /// Attaches a program's pool; `false` if the host did not request it, or it is invalid.
    pub(super) fn receive_pool(
        &mut self,
        connection: Connection,
        descriptors: Vec<OwnedFd>,
    ) -> bool {
        let Some(program) = self.programs.get_mut(&connection) else { return true };
        let inode = segment_identity(descriptors.first()).map(|identity| identity.inode);
        if self.engine.pool(connection).is_some() {
            // The program sent it before this worker requested it again.
            return program.may_repeat && inode == program.last_segment;
        }
        if !program.is_pool_requested && !program.may_repeat {
            return false;
        }
        let copy = copy_of_descriptor(&descriptors);
        let made = received_segment(descriptors).and_then(|source| {
            Reader::new(program.control.clone(), source).map_err(|error| error.to_string())
        });
        let Ok(reader) = made else { return false };
        kill_point("pool heard");
        if let Some(copy) = copy {
            self.keeper.put(&format!("pool/{connection}/0"), &(), &[copy.as_fd()]);
        }
        program.segments = 1;
        program.last_segment = inode;
        let size = self.options.pool_size.into();
        let pool = attached_pool(connection, program, &reader, &self.options, size);
        self.engine.attach(pool, reader);
        let waiting = std::mem::take(&mut program.waiting);
        let numbers: Vec<u32> = program.providers.keys().copied().collect();
        for number in numbers {
            for session in self.sessions_enabling(connection, number) {
                self.send_enablement(connection, number, session);
            }
        }
        let Some(program) = self.programs.get(&connection) else { return true };
        let last = (program.token > 0).then_some(program.token);
        for pending in &mut self.pending {
            if let Some(sent) = pending.waiting.get_mut(&connection) {
                *sent = sent.or(last);
            }
        }
        waiting.into_iter().for_each(|number| program.send(&FromHost::Registered { number }));
        true
    }

    /// Adds a segment to a program's pool; `false` if the host did not request it, or it is invalid.
    pub(super) fn receive_segment(
        &mut self,
        connection: Connection,
        descriptors: Vec<OwnedFd>,
    ) -> bool {
        let Some(program) = self.programs.get_mut(&connection) else { return true };
        let Some(pool) = self.engine.pool_mut(connection) else { return false };
        let identity = segment_identity(descriptors.first());
        let inode = identity.as_ref().map(|identity| identity.inode);
        if inode.is_some() && inode == program.last_segment && program.may_repeat {
            // The program offers it again: the worker before was killed before it could acknowledge it, or this one has done so.
            if !std::mem::replace(&mut program.is_acknowledged, true) {
                program.send(&FromHost::Taken);
            }
            return true;
        }
        // The earlier worker requested the segment.
        let requested = pool.growth.requested.take();
        if requested.is_none() && !std::mem::take(&mut program.may_offer) {
            return false;
        }
        if descriptors.is_empty() {
            // The program has no more memory.
            return true;
        }
        let copy = copy_of_descriptor(&descriptors);
        let size = requested.or(identity.map(|identity| identity.size.into())).unwrap_or(0);
        if size > pool.growth.limit.saturating_sub(pool.growth.size) {
            return false;
        }
        let added = received_segment(descriptors).and_then(|source| {
            self.engine.add_segment(connection, source, size).map_err(|error| error.to_string())
        });
        if added.is_err() {
            return false;
        }
        if let Some(copy) = copy {
            let name = format!("pool/{connection}/{}", program.segments);
            self.keeper.put(&name, &(), &[copy.as_fd()]);
        }
        kill_point("segment kept");
        program.segments += 1;
        program.last_segment = inode;
        program.is_acknowledged = true;
        program.send(&FromHost::Taken);
        true
    }

    /// Asks programs for segments.
    pub(super) fn send_growth(&mut self) {
        for GrowthRequest { pool, size } in self.engine.take_growth() {
            let Some(program) = self.programs.get(&pool) else { continue };
            program.send(&FromHost::Grow { size: size as u32 });
            kill_point("growth asked");
        }
    }

    /// Detaches the pools of programs that have ended and whose records are drained, in a batch that includes their losses.
    pub(super) fn detach_exhausted(&mut self) {
        let exhausted = self.engine.exhausted_pools();
        if exhausted.is_empty() {
            return;
        }
        for connection in &exhausted {
            self.settle(*connection, |_| true);
        }
        self.engine.make_final();
        for connection in exhausted {
            if let Some(program) = self.programs.remove(&connection) {
                self.forget_program(connection, &program);
            }
            self.engine.detach(connection);
        }
    }

    /// Frees slots of a program. The losses of their writers enter the sessions' ledgers, by this worker or by the next one.
    pub(super) fn settle(&mut self, connection: Connection, which: impl Fn(&Slot) -> bool) {
        if self.engine.settle(connection, which) {
            self.keep_program(connection);
            kill_point("slot kept");
        }
    }
}
