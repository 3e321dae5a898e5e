//! Messages of programs: they connect, register providers, answer changes, and end.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_ring::{Control, Memory};
use etw_types::LoadedModule;
use etw_wire::message::{FromHost, FromProgram, VERSION};
use etw_wire::requests::ProviderStatus;
use etw_wire::{Channel, Peer};

use super::HostThread;
use crate::asker::Connection;
use crate::kept_state::KeptRegistration;
use crate::log::log;
use crate::mailbox::Message;
use crate::program::{Program, Registered, disconnect};

/// Log lines about the programs of one user.
const MAX_LOG_LINES: u64 = 100;
/// Providers whose last registration is remembered. A response with all of them is one message.
const MAX_RECENT_PROVIDERS: usize = 160;
/// Characters of their names.
const MAX_RECENT_NAME: usize = 64;
/// The longest wait for programs that owe an answer when their session ends. Another thread receives their messages, and it may
/// be delayed on a busy machine.
const ANSWER_PATIENCE: Duration = Duration::from_millis(500);
/// The time between two checks of the mailbox meanwhile.
const ANSWER_PAUSE: Duration = Duration::from_millis(1);

impl HostThread {
    /// A program has connected: it receives a control page and the bell.
    pub(super) fn welcome(&mut self, connection: Connection, channel: Arc<Channel>, peer: Peer) {
        let made = Memory::shared(Control::SIZE)
            .and_then(|memory| Control::create(memory, self.engine.clock(), self.engine.barrier()));
        let control = match made {
            Ok(control) => control,
            // The program sees its connection end.
            Err(error) => {
                self.log_of_program(peer, &format!("cannot be recorded: {error}"));
                return disconnect(&channel);
            }
        };
        let program = Program::new(channel, peer, control);
        let welcome = FromHost::Welcome { version: VERSION, pool_size: self.options.pool_size };
        // Programs get read-only descriptors: all of them share the bell.
        let memories = [program.control.memory(), self.mailbox.bell.memory()];
        let [control, bell] = memories.map(|memory| memory.read_only_fd());
        let (control, bell) = match control.and_then(|control| Ok((control, bell?))) {
            Ok(both) => both,
            Err(error) => {
                self.log_of_program(peer, &format!("cannot be recorded: {error}"));
                return disconnect(&program.channel);
            }
        };
        self.programs.insert(connection, program);
        // Kept first: if this worker is killed here, the next one knows the program.
        self.keep_program(connection);
        let Some(program) = self.programs.get(&connection) else { return };
        if program.channel.send(&welcome.to_bytes(), &[control.as_fd(), bell.as_fd()]).is_err() {
            disconnect(&program.channel);
        }
    }

    /// Processes a message of a program; `false` if it is invalid or breaks a limit.
    pub(super) fn receive(
        &mut self,
        connection: Connection,
        bytes: &[u8],
        descriptors: Vec<OwnedFd>,
    ) -> bool {
        let Some(message) = FromProgram::read(bytes) else { return false };
        if matches!(message, FromProgram::Register { .. }) {
            self.consult_manifests();
        }
        let Some(program) = self.programs.get_mut(&connection) else { return true };
        match message {
            FromProgram::Hello { .. } => false,
            FromProgram::Register { number, id, traits } => {
                if !program.register(number, id, traits) {
                    return false;
                }
                if let (Some(pool), Some(registered)) =
                    (self.engine.pool_mut(connection), program.providers.get(&number))
                {
                    pool.registrations.set(number, registered.provider.clone());
                }
                if let Some(registered) = program.providers.get(&number)
                    && (self.recent_providers.len() < MAX_RECENT_PROVIDERS
                        || self.recent_providers.contains_key(&id))
                {
                    let recent = ProviderStatus {
                        id,
                        name: registered.name.chars().take(MAX_RECENT_NAME).collect(),
                        group: Some(registered.group).filter(|group| !group.is_zero()),
                        pids: vec![program.peer.pid],
                        sessions: Vec::new(),
                    };
                    self.recent_providers.insert(id, recent);
                }
                let kept = KeptRegistration { id, traits: traits.to_vec(), is_gone: false };
                self.keep_registration(connection, number, &kept);
                self.begin_reports(id);
                self.enable_by_name(connection, number);
                self.answer_registration(connection, number);
                true
            }
            FromProgram::Unregister { number } => {
                // The pool, and the next worker, still know the number: records may be on their way.
                if let Some(Registered { provider, .. }) = program.unregister(number) {
                    let (id, traits) = (provider.id, provider.traits);
                    let kept = KeptRegistration { id, traits, is_gone: true };
                    self.keep_registration(connection, number, &kept);
                }
                true
            }
            FromProgram::Pool => self.receive_pool(connection, descriptors),
            FromProgram::Segment => self.receive_segment(connection, descriptors),
            FromProgram::Done { token, status } => {
                program.answered = token.max(program.answered);
                if status != 0 {
                    self.refused_by_program(connection, token, status);
                }
                for pending in &mut self.pending {
                    pending.answered(connection, token);
                }
                true
            }
            FromProgram::Modules { modules } => self.receive_modules(connection, modules),
            FromProgram::Schemas { id, records } => {
                program.receive_schemas(id, records);
                true
            }
        }
    }

    /// Adds a program's modules to the traces of its sessions that want call stacks; `false` for invalid bytes.
    fn receive_modules(&mut self, connection: Connection, bytes: &[u8]) -> bool {
        let Some(program) = self.programs.get(&connection) else { return true };
        let mut modules = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((module, behind)) = LoadedModule::read(rest) else { return false };
            modules.push(module);
            rest = behind;
        }
        let process = program.peer.pid;
        let slots = self.engine.pool(connection).map(|pool| pool.slots().iter());
        let sessions: Vec<usize> = slots.into_iter().flatten().map(|slot| slot.session).collect();
        for session in sessions {
            if let Some((hosted, inner)) = self.engine.session_mut(session)
                && inner.wants_stacks()
            {
                hosted.add_modules(process, modules.iter().cloned());
            }
        }
        true
    }

    /// Waits for the programs of a session that owe an answer, and processes what they send: refusals, and modules, which they
    /// send first. A program that wrote events and ended at once may be among them.
    pub(super) fn await_answers(&mut self, session: usize) {
        let end = Instant::now() + ANSWER_PATIENCE;
        let mut others = Vec::new();
        while Instant::now() < end && self.is_answer_owed(session) {
            let (of_programs, more): (Vec<_>, Vec<_>) =
                self.mailbox.take().into_iter().partition(Message::is_of_program);
            others.extend(more);
            for message in of_programs {
                // A program's message never ends the host.
                let _ = self.handle(message);
            }
            // Other programs' pools are drained while one does not answer.
            if self.engine.has_work() {
                self.round();
            }
            std::thread::sleep(ANSWER_PAUSE);
        }
        others.into_iter().for_each(|message| self.mailbox.post(message));
    }

    fn is_answer_owed(&self, session: usize) -> bool {
        self.programs.iter().filter(|(_, program)| !program.has_ended).any(
            |(connection, program)| {
                self.slot_of(*connection, session).is_some_and(|slot| program.owes_answer(slot))
            },
        )
    }

    /// The slot that a session has in a program.
    pub(super) fn slot_of(&self, connection: Connection, session: usize) -> Option<usize> {
        self.engine.pool(connection)?.slots().slot_of(session)
    }

    /// Logs that a program sent an invalid message. A program that has ended meanwhile did nothing wrong.
    pub(super) fn log_invalid_message(&mut self, connection: Connection, kind: u8) {
        let Some(program) = self.programs.get(&connection) else { return };
        let what =
            format!("message {kind} is invalid or breaks a limit; the program is disconnected");
        self.log_of_program(program.peer, &what);
    }

    /// Logs a line about a program. After the first lines about a user's programs, further ones are left out, so that other users'
    /// programs are not lost among them.
    fn log_of_program(&mut self, Peer { pid, uid, .. }: Peer, what: &str) {
        let lines = self.log_lines.entry(uid).or_default();
        *lines += 1;
        if *lines <= MAX_LOG_LINES {
            log!("process {pid} of user {uid}: {what}");
        }
        if *lines == MAX_LOG_LINES {
            log!("user {uid}: further lines about this user's programs are left out");
        }
    }

    /// Disconnects a program. The records in its pool are drained.
    pub(super) fn disconnect_program(&mut self, connection: Connection) {
        if let Some(program) = self.programs.get(&connection) {
            disconnect(&program.channel);
        }
        self.disconnected(connection);
    }

    /// A connection has ended: its leased sessions stop, and its program's last records are drained.
    pub(super) fn disconnected(&mut self, connection: Connection) {
        for pending in &mut self.pending {
            pending.waiting.remove(&connection);
        }
        let sessions = self.engine.sessions();
        let leased = sessions.filter(|(_, hosted, _)| hosted.host.lease == Some(connection));
        for slot in leased.map(|(slot, ..)| slot).collect::<Vec<_>>() {
            self.stop_session(slot, None);
        }
        let Some(program) = self.programs.get_mut(&connection) else { return };
        program.has_ended = true;
        if self.engine.pool(connection).is_some() {
            self.engine.end_pool(connection);
        } else if let Some(program) = self.programs.remove(&connection) {
            self.forget_program(connection, &program);
        }
    }
}
