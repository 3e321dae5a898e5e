//! Enablements of sessions in programs, and programs' refusals.

use std::cmp::Reverse;

use etw_session::EnableInfo;
use etw_types::{Guid, Status};
use etw_wire::message::FromHost;
use etw_wire::requests::RefusalStatus;

use super::HostThread;
use super::pending::Sent;
use crate::asker::Connection;
use crate::global_session::GlobalSession;
use crate::program::{Program, RefusedSlot, Registered, SentEnablement};
use etw_host::kill_point::kill_point;

/// A registration whose enablement a session withdraws.
struct Withdrawn {
    number: u32,
    /// The enablement that its group still has.
    left: Option<EnableInfo>,
    since: u64,
}

/// The warning about a program without a free slot.
fn no_slot(process: u32) -> String {
    format!("process {process} has eight sessions of this host already")
}

/// Whether a session may have events of a program. A secure session has those of root's and its owner's programs only.
pub(super) fn may_record(session: &GlobalSession, program: &Program) -> bool {
    !session.config.secure || program.peer.uid == 0 || program.peer.uid == session.owner
}

impl HostThread {
    /// A session's enablement of a registration: by its GUID, or by its group's.
    fn enablement_of(&self, session: usize, registered: &Registered) -> Option<&EnableInfo> {
        let (_, session) = self.session(session)?;
        session.enabled(&registered.provider.id).or_else(|| {
            (!registered.group.is_zero()).then(|| session.enabled(&registered.group)).flatten()
        })
    }

    /// Whether a session has a provider of some program by its group alone. An enablement of the provider itself takes precedence.
    pub(super) fn has_by_group(&self, session: usize, provider: &Guid) -> bool {
        let registered = self.programs.values().flat_map(|program| program.providers.values());
        let mut its = registered.filter(|registered| registered.provider.id == *provider);
        its.any(|registered| self.enablement_of(session, registered).is_some())
    }

    /// The sessions that enable a registration, the newest enablement first: it is the one that a classic provider has.
    pub(super) fn sessions_enabling(&self, connection: Connection, number: u32) -> Vec<usize> {
        let Some(program) = self.programs.get(&connection) else { return Vec::new() };
        let Some(registered) = program.providers.get(&number) else { return Vec::new() };
        let mut enabling: Vec<_> = self
            .engine
            .sessions()
            .filter(|(slot, hosted, _)| {
                may_record(&hosted.host, program) && self.enablement_of(*slot, registered).is_some()
            })
            .map(|(slot, hosted, _)| (Reverse(hosted.host.since_of(registered)), slot))
            .collect();
        enabling.sort_unstable();
        enabling.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Answers a new registration, after the enablements of all sessions. If the program needs a pool first, the answer waits.
    pub(super) fn answer_registration(&mut self, connection: Connection, number: u32) {
        let enabling = self.sessions_enabling(connection, number);
        let has_pool = self.engine.pool(connection).is_some();
        let Some(program) = self.programs.get_mut(&connection) else { return };
        if !enabling.is_empty() && !has_pool {
            program.waiting.push(number);
            program.request_pool();
            return;
        }
        for session in enabling {
            self.send_enablement(connection, number, session);
        }
        if let Some(program) = self.programs.get(&connection) {
            program.send(&FromHost::Registered { number });
        }
    }

    /// Sends a session's enablement of a registration to its program; the number of the change. `None`: the program has no slot
    /// for the session.
    pub(super) fn send_enablement(
        &mut self,
        connection: Connection,
        number: u32,
        session: usize,
    ) -> Option<u32> {
        let had_slot = self.slot_of(connection, session).is_some();
        let Some(slot) = self.engine.take_slot(connection, session) else {
            let program = self.programs.get(&connection)?;
            let refusal = RefusalStatus {
                pid: program.peer.pid,
                provider: program.providers.get(&number)?.provider.id,
                status: Status::ERROR_NO_SYSTEM_RESOURCES.0,
                message: no_slot(program.peer.pid),
            };
            self.report_refusal(connection, session, refusal);
            return None;
        };
        if !had_slot {
            // Kept before the program has it: every worker that finds a record of the slot knows its session.
            self.keep_program(connection);
        }
        let registered = self.programs.get(&connection)?.providers.get(&number)?;
        let info = self.enablement_of(session, registered)?.clone();
        let global = self.global(session)?;
        let (source, since) = (global.config.guid, global.since_of(registered));
        // Before the program writes its first event for the session.
        let id = registered.provider.id;
        let schemas = self.programs.get(&connection)?.schemas_of(&id).to_vec();
        self.engine.add_schemas(session, schemas);
        let enablement = Some(&info);
        let sent = SentEnablement { number, slot, source, enablement, since };
        Some(self.programs.get_mut(&connection)?.send_enablement(&sent))
    }

    /// Sends a session's enablement of a provider to all programs that have registered it.
    pub(super) fn send_to_all(&mut self, session: usize, provider: &Guid) -> Sent {
        let mut sent = Sent::default();
        let Some(global) = self.global(session) else { return sent };
        let matching: Vec<(Connection, Vec<u32>)> = self
            .programs
            .iter()
            .filter(|(_, program)| !program.has_ended && may_record(global, program))
            .map(|(connection, program)| (*connection, program.numbers_of(provider)))
            .filter(|(_, numbers)| !numbers.is_empty())
            .collect();
        for (connection, numbers) in matching {
            if self.engine.pool(connection).is_none() {
                if let Some(program) = self.programs.get_mut(&connection) {
                    program.request_pool();
                }
                sent.waiting.insert(connection, None);
                continue;
            }
            for number in numbers {
                match self.send_enablement(connection, number, session) {
                    Some(token) => {
                        sent.waiting.insert(connection, Some(token));
                    }
                    None => {
                        let process = self.programs.get(&connection).map_or(0, |p| p.peer.pid);
                        sent.warnings.push(no_slot(process));
                    }
                }
            }
        }
        sent.warnings.dedup();
        sent
    }

    /// Asks the programs in which a session has a provider enabled to capture their state. `message`: of a change's and a
    /// registration's number.
    pub(super) fn send_capture<'m>(
        &mut self,
        session: usize,
        provider: &Guid,
        message: impl Fn(u32, u32) -> FromHost<'m>,
    ) -> Sent {
        let mut sent = Sent::default();
        for (connection, program) in &mut self.programs {
            let slots = self.engine.pool(*connection).map(|pool| pool.slots());
            let slot = slots.and_then(|slots| slots.slot_of(session));
            let Some(slot) = slot.filter(|_| !program.has_ended) else { continue };
            for number in program.numbers_of(provider) {
                if !program.providers.get(&number).is_none_or(|of| of.is_refused(slot)) {
                    let token = program.next_token();
                    program.send(&message(token, number));
                    sent.waiting.insert(*connection, Some(token));
                }
            }
        }
        if sent.waiting.is_empty() {
            sent.warnings.push(format!(
                "no program that records for this session has registered provider {provider}, so none logs its state"
            ));
        }
        sent
    }

    /// A program has refused a change, with a status. If its session then has nothing else in the program, the slot is freed.
    pub(super) fn refused_by_program(&mut self, connection: Connection, token: u32, status: u32) {
        let Some(program) = self.programs.get_mut(&connection) else { return };
        let Some(RefusedSlot { number, slot }) = program.refuse(token) else { return };
        let used = self.engine.pool(connection).and_then(|pool| pool.slots().get(slot));
        let Some(session) = used.map(|used| used.session) else { return };
        let Some(program) = self.programs.get(&connection) else { return };
        let Some(registered) = program.providers.get(&number) else { return };
        let (process, provider) = (program.peer.pid, registered.provider.id);
        let message = match Status(status) {
            Status::ERROR_NO_SYSTEM_RESOURCES => {
                format!("process {process}: provider {provider} has eight sessions already")
            }
            status => format!("process {process}: provider {provider} was not enabled ({status})"),
        };
        let has_others = program.providers.values().any(|registered| {
            self.enablement_of(session, registered).is_some() && !registered.is_refused(slot)
        });
        let refusal = RefusalStatus { pid: process, provider, status, message };
        self.report_refusal(connection, session, refusal);
        if !has_others {
            self.give_up(session, &[connection]);
        }
    }

    /// Frees a session's slots in programs that have nothing else of it. Writers are refused first, and what they wrote before is
    /// drained: it would otherwise count as lost.
    fn give_up(&mut self, session: usize, connections: &[Connection]) {
        connections.iter().for_each(|connection| self.engine.close_slot(*connection, session));
        kill_point("slots closed");
        self.drain_all();
        for connection in connections {
            self.settle(*connection, |used| used.session == session);
        }
    }

    /// Reports that a session does not have a registration: to the controller that waits, and in the session's status.
    fn report_refusal(&mut self, connection: Connection, session: usize, refusal: RefusalStatus) {
        for pending in &mut self.pending {
            if pending.session == session && pending.waiting.contains_key(&connection) {
                pending.warnings.push(refusal.message.clone());
            }
        }
        if self.global_mut(session).is_some_and(|global| global.refusals.add(refusal)) {
            // The next worker reports it, too, even if the program has ended by then.
            self.keep_session(session);
        }
    }

    /// Withdraws a session's enablement of a provider from all programs; `None`: all its enablements. Their writers' losses are
    /// then in the session's ledger, in a final batch.
    pub(super) fn withdraw(&mut self, session: usize, provider: Option<&Guid>) {
        let source = self.global(session).map_or(Guid::ZERO, |global| global.config.guid);
        let connections: Vec<Connection> = self.programs.keys().copied().collect();
        let mut given_up = Vec::new();
        for connection in connections {
            let Some(slot) = self.slot_of(connection, session) else { continue };
            let Some(program) = self.programs.get(&connection) else { continue };
            let mut has_others = false;
            let mut changes = Vec::new();
            for (number, registered) in &program.providers {
                let is_withdrawn = provider.is_none_or(|id| registered.matches(id));
                let left = self.enablement_of(session, registered).filter(|_| provider.is_some());
                // A registration that was enabled by its own GUID may still be by its group's, or the reverse: it is sent again.
                has_others |= left.is_some() && (is_withdrawn || !registered.is_refused(slot));
                if is_withdrawn {
                    let since =
                        self.global(session).map_or(0, |global| global.since_of(registered));
                    changes.push(Withdrawn { number: *number, left: left.cloned(), since });
                }
            }
            let Some(program) = self.programs.get_mut(&connection) else { continue };
            for Withdrawn { number, left, since } in changes {
                let enablement = left.as_ref();
                let sent = SentEnablement { number, slot, source, enablement, since };
                program.send_enablement(&sent);
            }
            match provider {
                _ if has_others => {}
                Some(_) => given_up.push(connection),
                // The session's end has drained them.
                None => self.settle(connection, |used| used.session == session),
            }
        }
        if !given_up.is_empty() {
            self.give_up(session, &given_up);
        }
        kill_point("losses counted");
        self.round();
    }
}
