//! Responses that wait until programs have answered a change.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use etw_wire::requests::Response;

use super::HostThread;
use crate::asker::{Asker, Connection};

/// Warnings of one response, which is one message.
const MAX_WARNINGS: usize = 100;

/// Programs that have to answer, with the number of the change; `None`: the change is sent once the program has a pool.
pub(super) type Waiting = HashMap<Connection, Option<u32>>;

/// The programs that a change was sent to, and their warnings.
#[derive(Default)]
pub(super) struct Sent {
    pub waiting: Waiting,
    pub warnings: Vec<String>,
}

/// A response that waits for programs.
pub(super) struct PendingResponse {
    /// The session whose enablements were changed.
    pub session: usize,
    pub waiting: Waiting,
    pub deadline: Instant,
    pub asker: Asker,
    pub response: Response,
    pub warnings: Vec<String>,
}

impl PendingResponse {
    /// The program no longer has to answer changes up to `token`.
    pub fn answered(&mut self, connection: Connection, token: u32) {
        let sent = self.waiting.get(&connection).copied().flatten();
        if sent.is_some_and(|sent| sent <= token) {
            self.waiting.remove(&connection);
        }
    }

    /// Sends the response with the answers so far.
    fn send(mut self, host: &HostThread) {
        let mut known = HashSet::new();
        self.warnings.retain(|warning| known.insert(warning.clone()));
        if self.warnings.len() > MAX_WARNINGS {
            let more = self.warnings.split_off(MAX_WARNINGS).len();
            self.warnings.push(format!("and {more} more warnings"));
        }
        match &mut self.response {
            Response::Done { warnings } => warnings.append(&mut self.warnings),
            Response::Session(status) => {
                let global = host.global(self.session);
                if let Some(global) = global.filter(|global| global.config.guid == status.guid) {
                    status.refused = global.refusals.count;
                    status.refusals.clone_from(&global.refusals.rows);
                }
                if !self.warnings.is_empty() {
                    status.error = Some(self.warnings.join("; "));
                }
            }
            _ => {}
        }
        self.asker.answer(&self.response);
    }

    /// Adds a warning for each program that has not answered.
    fn warn_of_late(&mut self, host: &HostThread) {
        if !matches!(self.response, Response::Done { .. }) {
            return;
        }
        let programs = self.waiting.keys().filter_map(|connection| host.programs.get(connection));
        let processes: HashSet<u32> = programs.map(|program| program.peer.pid).collect();
        self.warnings.extend(processes.into_iter().map(|process| {
            format!("process {process} has not answered yet; it will make the change when it does")
        }));
    }
}

impl HostThread {
    /// Sends the responses whose programs have all answered, or whose time is over.
    pub(super) fn answer_pending(&mut self) {
        let now = Instant::now();
        let mut left = Vec::new();
        for mut pending in std::mem::take(&mut self.pending) {
            if pending.waiting.is_empty() {
                pending.send(self);
            } else if now >= pending.deadline {
                pending.warn_of_late(self);
                pending.send(self);
            } else {
                left.push(pending);
            }
        }
        self.pending = left;
    }
}
