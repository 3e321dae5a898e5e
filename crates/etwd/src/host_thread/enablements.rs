//! What sessions want of programs, and the end of both.

use super::*;
use crate::keeper_protocol::Ending;
use crate::program::Slot;
use crate::rights::refused;
use etw_host::kill_point::kill_point;
use etw_types::Status;
use etw_wire::control::RefusalStatus;

/// What is said of a program that has no slot for one more session.
pub(crate) fn no_slot(process: u32) -> String {
    format!("process {process} has eight sessions of this host already")
}

impl HostThread {
    /// Tells all programs with a provider what a session wants of it now; which of them are to answer, and what could not be.
    pub(crate) fn spread(
        &mut self,
        session: usize,
        provider: &Guid,
    ) -> (HashMap<Connection, Option<u32>>, Vec<String>) {
        let mut waiting = HashMap::new();
        let mut warnings = Vec::new();
        let matching: Vec<(Connection, Vec<u32>)> = self
            .programs
            .iter()
            .filter(|(_, program)| !program.has_ended)
            .filter(|(_, program)| {
                self.sessions.get(&session).is_some_and(|session| self.may_see(session, program))
            })
            .map(|(connection, program)| {
                let of = |registered: &Registered| {
                    registered.provider.id == *provider || registered.group == *provider
                };
                let numbers = program.providers.iter().filter(|(_, r)| of(r)).map(|(n, _)| *n);
                (*connection, numbers.collect())
            })
            .filter(|(_, numbers): &(_, Vec<u32>)| !numbers.is_empty())
            .collect();
        for (connection, numbers) in matching {
            let Some(program) = self.programs.get_mut(&connection) else { continue };
            if program.lane.is_none() {
                ask_for_pool(program);
                waiting.insert(connection, None);
                continue;
            }
            for number in numbers {
                match self.tell_of(connection, number, session) {
                    Some(token) => {
                        waiting.insert(connection, Some(token));
                    }
                    None => {
                        let process = self.programs.get(&connection).map_or(0, |p| p.peer.pid);
                        warnings.push(no_slot(process));
                    }
                }
            }
        }
        warnings.dedup();
        (waiting, warnings)
    }

    /// Says something to all programs that have a provider which the session has enabled; which of them are to answer.
    pub(crate) fn ask_all<'m>(
        &mut self,
        session: usize,
        provider: &Guid,
        message: impl Fn(u32, u32) -> FromHost<'m>,
    ) -> (HashMap<Connection, Option<u32>>, Vec<String>) {
        let mut waiting = HashMap::new();
        for (connection, program) in &self.programs {
            let Some(slot) = program.slot_of(session).filter(|_| !program.has_ended) else {
                continue;
            };
            for (number, registered) in &program.providers {
                let is_it = registered.provider.id == *provider || registered.group == *provider;
                if is_it && !registered.is_refused(slot) {
                    let token = self.tokens.entry(*connection).or_default();
                    *token += 1;
                    program.say(&message(*token, *number));
                    waiting.insert(*connection, Some(*token));
                }
            }
        }
        let none = waiting.is_empty().then(|| {
            "no program has this provider registered, or records it for the session".to_owned()
        });
        (waiting, Vec::from_iter(none))
    }

    /// A program has not made a change, for which it gives a status. A session that has nothing of the program then gives its slot back.
    pub(crate) fn refuse(&mut self, connection: Connection, token: u32, status: u32) {
        let Some(program) = self.programs.get_mut(&connection) else { return };
        let Some((number, slot)) = program.refuse(token) else { return };
        let Some(session) = program.slots[slot].as_ref().map(|used| used.session) else { return };
        let Some(registered) = program.providers.get(&number) else { return };
        let (process, provider) = (program.peer.pid, registered.provider.id);
        let message = match Status(status) {
            Status::ERROR_NO_SYSTEM_RESOURCES => {
                format!("process {process}: provider {provider} has eight sessions already")
            }
            status => format!("process {process}: provider {provider} was not enabled ({status})"),
        };
        let is_had = program.providers.values().any(|registered| {
            wanted_of(&self.router, session, registered).is_some() && !registered.is_refused(slot)
        });
        let refusal = RefusalStatus { pid: process, provider, status, message };
        self.tell_refusal(connection, session, refusal);
        if !is_had {
            self.settle(connection, |used| used.session == session);
        }
    }

    /// That a session has nothing of a registration: to who waits for it, and to who asks for the session's state.
    pub(crate) fn tell_refusal(
        &mut self,
        connection: Connection,
        session: usize,
        refusal: RefusalStatus,
    ) {
        for pending in &mut self.pending {
            if pending.session == session && pending.waiting.contains_key(&connection) {
                pending.warnings.push(refusal.message.clone());
            }
        }
        let global = self.sessions.get_mut(&session);
        if global.is_some_and(|global| global.refusals.add(refusal)) {
            // Who asks another worker is to be told, too; the program may have ended by then.
            self.keep_session(session);
        }
    }

    /// Tells all programs that a session wants nothing of a provider any more; `None`: of none of its providers. What their writers have
    /// lost is then in its ledger, in a batch that is final.
    pub(crate) fn withdraw(&mut self, session: usize, provider: Option<&Guid>) {
        let source = self.sessions.get(&session).map_or(Guid::ZERO, |session| session.guid);
        let connections: Vec<Connection> = self.programs.keys().copied().collect();
        for connection in connections {
            let Some(program) = self.programs.get_mut(&connection) else { continue };
            let Some(slot) = program.slot_of(session) else { continue };
            let mut is_had = false;
            let mut changes = Vec::new();
            for (number, registered) in &program.providers {
                let of = registered.provider.id;
                let goes = provider.is_none_or(|id| *id == of || *id == registered.group);
                let still = wanted_of(&self.router, session, registered);
                let still = still.filter(|_| provider.is_some()).map(|info| {
                    let global = self.sessions.get(&session);
                    (info, global.map_or(0, |global| global.since_of(registered)))
                });
                // By its group, when it was by itself, or the other way round: it is asked anew.
                is_had |= still.is_some() && (goes || !registered.is_refused(slot));
                if goes {
                    changes.push((*number, still));
                }
            }
            for (number, wanted) in changes {
                let token = self.tokens.entry(connection).or_default();
                *token += 1;
                program.tell(*token, number, slot, wanted, source);
            }
            if !is_had {
                self.settle(connection, |used| used.session == session);
            }
        }
        kill_point("losses counted");
        self.round(Duration::ZERO);
    }

    /// Ends the use of a program's slots: they may be other sessions' from the next batch on, which is to be made final soon. What their
    /// writers have lost is counted in the sessions' own ledgers, by this worker or by the next one, and not by both.
    pub(crate) fn settle(&mut self, connection: Connection, which: impl Fn(&Slot) -> bool) {
        let Some(program) = self.programs.get_mut(&connection) else { return };
        let mut settled = Vec::new();
        for (number, slot) in program.slots.iter_mut().enumerate() {
            let Some(used) = slot.as_mut().filter(|used| which(used)) else { continue };
            used.counted_in = Some(self.batch + 1);
            program.settled[number] = Some(used.clone());
            settled.push((number, used.session, used.base.clone()));
            program.control.set_admission(number, Admission::default());
        }
        if settled.is_empty() {
            return;
        }
        self.keep_program(connection);
        kill_point("slot kept");
        let Some(program) = self.programs.get_mut(&connection) else { return };
        for (number, session, base) in settled {
            program.slots[number] = None;
            let Some(lane) = program.lane else { continue };
            let losses = losses_of(&self.readers[lane], number, &base, true);
            if let Some(session) = self.router.session_mut(session) {
                count(session.ledger_mut(), &losses, &self.lanes[lane]);
            }
        }
        if let Some(lane) = program.lane {
            self.lanes[lane].set_slots(&program.slots);
        }
    }

    /// Stops a session: what was written before is stored. Its files are completed by a thread of their own, so that a slow
    /// disk holds nobody else up; the answer comes from there.
    pub(crate) fn stop_session(&mut self, slot: usize, asker: Option<Asker>) {
        self.hear(slot);
        if !self.sessions.contains_key(&slot) {
            // Ended meanwhile, with its owner.
            if let Some(asker) = asker {
                let what = "the session has ended";
                asker.answer(&refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, what));
            }
            return;
        }
        if let Some(global) = self.sessions.get_mut(&slot) {
            global.ending = Ending::Session;
        }
        // A worker that takes it up ends it: it would have a gap otherwise, of what nobody was asked for.
        self.keep_session(slot);
        kill_point("end kept");
        for program in self.programs.values() {
            if let Some(at) = program.slot_of(slot) {
                program.control.set_admission(at, Admission::default());
            }
        }
        self.drain_all();
        kill_point("last drained");
        self.withdraw(slot, None);
        kill_point("losses final");
        let raw = self.clocks.0.now();
        let (Some(global), Some(session)) =
            (self.sessions.get_mut(&slot), self.router.session_mut(slot))
        else {
            return;
        };
        // The clock's line may lie a little below the clock itself, from which the session's start was read.
        let now = global.time.time(&self.map, raw);
        let now = now.max(session.facts().last_time).max(global.facts.start_raw);
        // What a worker before had come to is not told again.
        if session.state() != State::Stopped {
            let ledger = session.ledger().clone();
            let end = Instant::now() + BUFFER_PATIENCE;
            let mut is_told = global.report(session, &ledger, now);
            while !is_told && Instant::now() < end {
                global.take_done(session, Some(Duration::from_millis(2)));
                is_told = global.report(session, &ledger, now);
            }
            if is_told {
                session.stop(now);
                kill_point("end reported");
                // With its report the session is final, or without.
                self.seal_and_store();
            }
        }
        let (Some(mut global), Some(mut session)) =
            (self.sessions.remove(&slot), self.router.remove(slot))
        else {
            return;
        };
        kill_point("end given");
        let batch = self.batch + 1;
        let mailbox = self.mailbox.clone();
        let (name, files) = (global.name.clone(), global.files().cloned().collect());
        self.finishing.insert(slot, Finishing { name, files, asker });
        let finish = move || {
            let ledger = session.ledger().clone();
            let lost = ledger.lost_total();
            if session.state() != State::Stopped {
                // Its disk is slow: a worker that takes over may tell it again.
                while !global.report(&mut session, &ledger, now) {
                    session.seal(batch);
                    global.store(&mut session, lost);
                    global.take_done(&mut session, Some(Duration::from_millis(100)));
                }
                session.stop(now);
                session.seal(batch);
            }
            global.store(&mut session, lost);
            while global.storage.is_some() && (session.is_storing() || !global.before.is_empty()) {
                global.take_done(&mut session, Some(Duration::from_millis(100)));
                global.store(&mut session, lost);
            }
            kill_point("end stored");
            let lost = session.ledger().lost_total();
            let closing = global.closing(&session, lost, true);
            let mut result = match global.storage.take() {
                Some(storage) => storage.finish(closing),
                None => Ok(()),
            };
            kill_point("end written");
            if let (Ok(()), Some(error)) = (&result, &global.error) {
                result = Err(io::Error::other(error.clone()));
            }
            global.tell_watermark(&session, now);
            let ledger = session.ledger().clone();
            let status = global.status(slot, &session, &ledger, true);
            // Those before were completed ahead of the last one.
            global.answer_completed();
            for (_, waiting) in global.flushes.drain(..) {
                waiting.answer(&Response::Done { warnings: Vec::new() });
            }
            drop(global);
            let answer = Box::new(Finished { status, result });
            mailbox.post(Message::Finished { slot, answer });
        };
        // Without a thread it is done here, and everybody waits.
        let shared = Arc::new(std::sync::Mutex::new(Some(finish)));
        let theirs = shared.clone();
        let run = move || {
            let finish = theirs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            if let Some(finish) = finish {
                finish();
            }
        };
        if etw_host::spawn("etw-finish", run).is_err() {
            let finish = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            if let Some(finish) = finish {
                finish();
            }
        }
    }

    /// Leased sessions whose owner has not come back to this worker.
    pub(crate) fn stop_orphans(&mut self) {
        let is_over =
            |global: &GlobalSession| global.orphan_until.is_some_and(|end| Instant::now() >= end);
        let over = self.sessions.iter().filter(|(_, global)| is_over(global));
        for slot in over.map(|(slot, _)| *slot).collect::<Vec<_>>() {
            self.stop_session(slot, None);
        }
    }

    /// Stops everything and waits for the files.
    pub(crate) fn stop_all(&mut self) {
        let slots: Vec<usize> = self.sessions.keys().copied().collect();
        for slot in slots {
            self.stop_session(slot, None);
        }
        while !self.finishing.is_empty() {
            for message in self.mailbox.take() {
                if let Message::Finished { .. } = message
                    && self.handle(message).is_break()
                {
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
