//! What programs say, and what is kept of them.

use std::cmp::Reverse;

use etw_types::Status;
use etw_wire::control::{RefusalStatus, StartRequest};

use super::enablements::no_slot;
use super::*;
use etw_host::kill_point::kill_point;

impl HostThread {
    pub(crate) fn handle(&mut self, message: Message) -> ControlFlow<()> {
        match message {
            Message::Program { connection, channel, peer } => {
                self.welcome(connection, channel, peer);
            }
            Message::FromProgram { connection, bytes, descriptors } => {
                let kind = bytes.first().copied().unwrap_or(0);
                if !self.program_says(connection, &bytes, descriptors) {
                    self.complain(connection, kind);
                    self.expel(connection);
                }
            }
            Message::Gone { connection } => self.gone(connection),
            Message::Ask { request, from } => return self.ask(request, from),
            Message::Finished { slot, answer } => {
                let asker = self.finishing.remove(&slot).and_then(|finishing| finishing.asker);
                let Finished { mut status, result } = *answer;
                self.keep.remove(&format!("session/{slot}"));
                if let Some(asker) = asker {
                    if let Err(error) = result {
                        status.error = Some(error.to_string());
                    }
                    asker.answer(&Response::Session(Box::new(status)));
                }
            }
            Message::End => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    pub(crate) fn welcome(&mut self, connection: Connection, channel: Arc<Channel>, peer: Peer) {
        let made = Memory::shared(Control::SIZE)
            .and_then(|memory| Control::create(memory, self.clocks.0, self.clocks.1));
        let control = match made {
            Ok(control) => control,
            // Without memory there is no program; it sees its connection end.
            Err(error) => {
                self.tell_of_user(peer, &format!("cannot be recorded: {error}"));
                return end(&channel);
            }
        };
        let program = Program::new(channel, peer, control);
        let welcome = FromHost::Welcome { version: VERSION, pool_size: self.options.pool_size };
        // Programs read the host's memory and no more: what one of them wrote there would be every other's affair.
        let memories = [program.control.memory(), self.mailbox.bell.memory()];
        let [control, bell] = memories.map(|memory| memory.read_only_fd());
        let (control, bell) = match control.and_then(|control| Ok((control, bell?))) {
            Ok(both) => both,
            Err(error) => {
                self.tell_of_user(peer, &format!("cannot be recorded: {error}"));
                return end(&program.channel);
            }
        };
        self.programs.insert(connection, program);
        // Before it is told: a worker that is killed here leaves no program behind that believes it has a host.
        self.keep_program(connection);
        let Some(program) = self.programs.get(&connection) else { return };
        if program.channel.send(&welcome.to_bytes(), &[control.as_fd(), bell.as_fd()]).is_err() {
            end(&program.channel);
        }
    }

    /// What the next worker needs of a program.
    pub(crate) fn keep_program(&self, connection: Connection) {
        let Some(program) = self.programs.get(&connection) else { return };
        let facts = KeptProgram {
            pid: program.peer.pid,
            uid: program.peer.uid,
            gid: program.peer.gid,
            slots: program.kept_slots(self.batch),
            token: self.tokens.get(&connection).copied().unwrap_or(0),
        };
        let Some(control) = program.control.memory().fd() else { return };
        let descriptors = [program.channel.as_fd(), control];
        self.keep.put(&format!("program/{connection}"), &facts, &descriptors);
    }

    pub(crate) fn forget_program(&self, connection: Connection, program: &Program) {
        for number in &program.numbers {
            self.keep.remove(&format!("registration/{connection}/{number}"));
        }
        for segment in 0..program.segments {
            self.keep.remove(&format!("pool/{connection}/{segment}"));
        }
        self.keep.remove(&format!("program/{connection}"));
    }

    /// What the next worker needs of a session.
    pub(crate) fn keep_session(&self, slot: usize) {
        let (Some(global), Some(session)) = (self.sessions.get(&slot), self.router.session(slot))
        else {
            return;
        };
        let facts = KeptSession {
            start: StartRequest { config: global.config.clone(), leased: global.is_leased },
            owner: global.owner,
            is_leased: global.lease.is_some(),
            is_real_time: global.is_real_time,
            ending: global.ending,
            facts: global.facts.to_bytes(),
            enabled: session.enablements().map(|(id, info)| (*id, info.clone())).collect(),
            since: global.since.iter().map(|(id, since)| (*id, *since)).collect(),
            buffers: global.memories.iter().map(|(count, _)| *count).collect(),
            file_number: global.file_number,
            before: global.before.iter().map(|(file, _)| file.clone()).collect(),
            refusals: global.refusals.clone(),
        };
        let mut descriptors = vec![global.numbers.as_fd()];
        descriptors.extend(global.memories.iter().map(|(_, memory)| memory.as_fd()));
        self.keep.put(&format!("session/{slot}"), &facts, &descriptors);
    }

    /// `false`: what came was no message, or broke a rule.
    pub(crate) fn program_says(
        &mut self,
        connection: Connection,
        bytes: &[u8],
        descriptors: Vec<std::os::fd::OwnedFd>,
    ) -> bool {
        let Some(message) = FromProgram::read(bytes) else { return false };
        let Some(program) = self.programs.get_mut(&connection) else { return true };
        match message {
            FromProgram::Hello { .. } => false,
            FromProgram::Register { number, id, traits } => {
                if !program.register(number, id, traits) {
                    return false;
                }
                if let (Some(lane), Some(registered)) =
                    (program.lane, program.providers.get(&number))
                {
                    self.lanes[lane].registrations.set(number, registered.provider.clone());
                }
                let kept = KeptRegistration { id, traits: traits.to_vec(), is_gone: false };
                self.keep.put(&format!("registration/{connection}/{number}"), &kept, &[]);
                self.introduce(connection, number);
                true
            }
            FromProgram::Unregister { number } => {
                // Its number stays known to the lane, and to the next worker's: records may be on their way.
                if let Some(Registered { provider, .. }) = program.unregister(number) {
                    let (id, traits) = (provider.id, provider.traits);
                    let kept = KeptRegistration { id, traits, is_gone: true };
                    self.keep.put(&format!("registration/{connection}/{number}"), &kept, &[]);
                }
                true
            }
            FromProgram::Pool => self.take_pool(connection, descriptors),
            FromProgram::Segment => self.take_segment(connection, descriptors),
            FromProgram::Done { token, status } => {
                program.done = token.max(program.done);
                if status != 0 {
                    self.refuse(connection, token, status);
                }
                for pending in &mut self.pending {
                    let sent = pending.waiting.get(&connection).copied().flatten();
                    if sent.is_some_and(|sent| sent <= token) {
                        pending.waiting.remove(&connection);
                    }
                }
                true
            }
            FromProgram::Modules { modules } => self.take_modules(connection, modules),
        }
    }

    /// What a program has loaded: for the traces of its sessions that want call stacks. `false`: that is not what came.
    fn take_modules(&mut self, connection: Connection, bytes: &[u8]) -> bool {
        let Some(program) = self.programs.get(&connection) else { return true };
        let mut modules = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((module, behind)) = LoadedModule::read(rest) else { return false };
            modules.push(module);
            rest = behind;
        }
        for slot in program.slots.iter().flatten() {
            if self.router.session(slot.session).is_some_and(Session::wants_stacks)
                && let Some(global) = self.sessions.get_mut(&slot.session)
            {
                global.modules.add(program.peer.pid, modules.iter().cloned());
            }
        }
        true
    }

    /// Hears the programs of a session that have not answered: whether they have taken what it wants, and, where it wants call stacks, what
    /// they have loaded, which they say before. One that has written events and ended in a moment may not have been heard yet.
    pub(crate) fn hear(&mut self, session: usize) {
        let end = Instant::now() + HEARING;
        let mut others = Vec::new();
        while Instant::now() < end {
            let is_unheard = |program: &Program| {
                let slot = program.slot_of(session).filter(|_| !program.has_ended);
                slot.is_some_and(|slot| program.is_unheard(slot))
            };
            if !self.programs.values().any(is_unheard) {
                break;
            }
            let (of_programs, more): (Vec<_>, Vec<_>) =
                self.mailbox.take().into_iter().partition(Message::is_of_program);
            others.extend(more);
            for message in of_programs {
                // A program's message ends nothing.
                let _ = self.handle(message);
            }
            // A program that does not answer costs nobody's events.
            if self.has_work() {
                self.round(Duration::ZERO);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        others.into_iter().for_each(|message| self.mailbox.post(message));
    }

    /// A new registration: what sessions want of it, and the answer that the program waits for.
    pub(crate) fn introduce(&mut self, connection: Connection, number: u32) {
        let wanting = self.wanting(connection, number);
        let Some(program) = self.programs.get(&connection) else { return };
        if wanting.is_empty() {
            program.say(&FromHost::Registered { number });
            return;
        }
        if program.lane.is_none() {
            let Some(program) = self.programs.get_mut(&connection) else { return };
            program.waiting.push(number);
            ask_for_pool(program);
            return;
        }
        for slot in wanting {
            self.tell_of(connection, number, slot);
        }
        if let Some(program) = self.programs.get(&connection) {
            program.say(&FromHost::Registered { number });
        }
    }

    /// Tells a program what a session wants of one of its registrations; the number of the change. `None`: there is no slot for
    /// the session.
    pub(crate) fn tell_of(
        &mut self,
        connection: Connection,
        number: u32,
        session: usize,
    ) -> Option<u32> {
        let admission = self.admission(session, connection);
        let program = self.programs.get_mut(&connection)?;
        let reader = program.lane.map(|lane| &self.readers[lane]);
        let is_new = program.slot_of(session).is_none();
        let Some(slot) = program.take_slot(session, reader, admission) else {
            let refusal = RefusalStatus {
                pid: program.peer.pid,
                provider: program.providers.get(&number)?.provider.id,
                status: Status::ERROR_NO_SYSTEM_RESOURCES.0,
                message: no_slot(program.peer.pid),
            };
            self.tell_refusal(connection, session, refusal);
            return None;
        };
        if is_new {
            if let Some(lane) = program.lane {
                self.lanes[lane].set_slots(&program.slots);
            }
            // Before the program hears of it: no record of the slot is met by a worker that does not know whose it is.
            self.keep_program(connection);
        }
        let program = self.programs.get_mut(&connection)?;
        program.control.set_admission(slot, admission);
        let registered = program.providers.get(&number)?;
        let info = wanted_of(&self.router, session, registered)?;
        let global = self.sessions.get(&session);
        let source = global.map_or(Guid::ZERO, |session| session.guid);
        let since = global.map_or(0, |session| session.since_of(registered));
        let token = self.tokens.entry(connection).or_default();
        *token += 1;
        program.tell(*token, number, slot, Some((info, since)), source);
        Some(*token)
    }

    pub(crate) fn take_pool(
        &mut self,
        connection: Connection,
        descriptors: Vec<std::os::fd::OwnedFd>,
    ) -> bool {
        let Some(program) = self.programs.get_mut(&connection) else { return true };
        if program.lane.is_some() {
            // It was on its way when it was asked for again.
            let offered = identity(descriptors.first()).map(|(number, _)| number);
            return program.may_repeat && offered == program.last_segment;
        }
        if !program.pool_is_asked && !program.may_repeat {
            return false;
        }
        let kept = kept_descriptor(&descriptors);
        let number = identity(descriptors.first()).map(|(number, _)| number);
        let made = segment(descriptors).and_then(|source| {
            Reader::new(program.control.clone(), source).map_err(|error| error.to_string())
        });
        let Ok(reader) = made else { return false };
        kill_point("pool heard");
        if let Some(kept) = kept {
            self.keep.put(&format!("pool/{connection}/0"), &(), &[kept.as_fd()]);
        }
        program.segments = 1;
        program.last_segment = number;
        program.pool_size = self.options.pool_size;
        program.lane = Some(self.lanes.len());
        self.lanes.push(Lane::new(connection, program, &reader));
        self.readers.push(reader);
        let waiting = std::mem::take(&mut program.waiting);
        let numbers: Vec<u32> = program.providers.keys().copied().collect();
        for number in numbers {
            for session in self.wanting(connection, number) {
                self.tell_of(connection, number, session);
            }
        }
        let last = self.tokens.get(&connection).copied();
        for pending in &mut self.pending {
            if let Some(sent) = pending.waiting.get_mut(&connection) {
                *sent = sent.or(last);
            }
        }
        if let Some(program) = self.programs.get(&connection) {
            waiting.into_iter().for_each(|number| program.say(&FromHost::Registered { number }));
        }
        true
    }

    /// The sessions that want something of a registration, the newest wish first: of a classic provider it is the one that counts.
    pub(crate) fn wanting(&self, connection: Connection, number: u32) -> Vec<usize> {
        let Some(program) = self.programs.get(&connection) else { return Vec::new() };
        let Some(registered) = program.providers.get(&number) else { return Vec::new() };
        let wants = |slot: usize| wanted_of(&self.router, slot, registered).is_some();
        let sessions = self.sessions.iter().filter(|(_, session)| self.may_see(session, program));
        let mut wanting: Vec<_> = sessions
            .filter(|(slot, _)| wants(**slot))
            .map(|(slot, session)| (Reverse(session.since_of(registered)), *slot))
            .collect();
        wanting.sort_unstable();
        wanting.into_iter().map(|(_, slot)| slot).collect()
    }

    /// A secure session has events of root's programs and its owner's only.
    pub(crate) fn may_see(&self, session: &GlobalSession, program: &Program) -> bool {
        !session.config.secure || program.peer.uid == 0 || program.peer.uid == session.owner
    }

    pub(crate) fn take_segment(
        &mut self,
        connection: Connection,
        descriptors: Vec<std::os::fd::OwnedFd>,
    ) -> bool {
        let Some(program) = self.programs.get_mut(&connection) else { return true };
        let Some(lane) = program.lane else { return false };
        let offered = identity(descriptors.first());
        let number = offered.map(|(number, _)| number);
        if number.is_some() && number == program.last_segment && program.may_repeat {
            // Offered again: the worker that has taken it was killed before it could say so, or this one has said it.
            if !std::mem::replace(&mut program.is_taken, true) {
                program.say(&FromHost::Taken);
            }
            return true;
        }
        // What the worker before has asked for comes to this one.
        let asked = program.growing.take();
        if asked.is_none() && !std::mem::take(&mut program.may_offer) {
            return false;
        }
        if descriptors.is_empty() {
            // It has no more memory.
            return true;
        }
        let kept = kept_descriptor(&descriptors);
        let size = asked.or(offered.map(|(_, size)| size)).unwrap_or(0);
        if size > self.options.pool_limit.saturating_sub(program.pool_size) {
            return false;
        }
        let added = segment(descriptors).and_then(|source| {
            self.readers[lane].add_segment(source).map_err(|error| error.to_string())
        });
        if added.is_err() {
            return false;
        }
        if let Some(kept) = kept {
            let name = format!("pool/{connection}/{}", program.segments);
            self.keep.put(&name, &(), &[kept.as_fd()]);
        }
        kill_point("segment kept");
        program.segments += 1;
        program.last_segment = number;
        program.is_taken = true;
        program.pool_size += size;
        program.say(&FromHost::Taken);
        true
    }

    /// Tells what a program did wrong. One that has ended meanwhile did nothing.
    pub(crate) fn complain(&mut self, connection: Connection, kind: u8) {
        let Some(program) = self.programs.get(&connection) else { return };
        let what = format!("message {kind} is wrong or breaks a limit; its connection is ended");
        self.tell_of_user(program.peer, &what);
    }

    /// Tells of a program. Of one that connects again and again the first times say enough, but nothing of other users' programs.
    fn tell_of_user(&mut self, Peer { pid, uid, .. }: Peer, what: &str) {
        let told = self.complaints.entry(uid).or_default();
        *told += 1;
        if *told <= MAX_COMPLAINTS {
            crate::tell!("etwd: process {pid} of user {uid}: {what}");
        }
        if *told == MAX_COMPLAINTS {
            crate::tell!("etwd: user {uid}: what else is wrong is not told");
        }
    }

    /// Ends a connection; what is in its pool is drained.
    pub(crate) fn expel(&mut self, connection: Connection) {
        if let Some(program) = self.programs.get(&connection) {
            end(&program.channel);
        }
        self.gone(connection);
    }

    pub(crate) fn gone(&mut self, connection: Connection) {
        for pending in &mut self.pending {
            pending.waiting.remove(&connection);
        }
        let leased: Vec<usize> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.lease == Some(connection))
            .map(|(slot, _)| *slot)
            .collect();
        for slot in leased {
            self.stop_session(slot, None);
        }
        let Some(program) = self.programs.get_mut(&connection) else { return };
        program.has_ended = true;
        match program.lane {
            Some(lane) => {
                self.lanes[lane].has_ended = true;
                self.lanes[lane].ended_at = self.clocks.0.now();
                self.readers[lane].wake();
            }
            None => {
                if let Some(program) = self.programs.remove(&connection) {
                    self.forget_program(connection, &program);
                }
                self.tokens.remove(&connection);
            }
        }
    }
}
