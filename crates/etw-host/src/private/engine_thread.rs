//! The engine thread of a private session: it runs the engine and answers the program's commands.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use etw_ring::layout::{BLOCK_SIZE, MAX_SEGMENTS};
use etw_ring::{Source, Writer};
use etw_types::Guid;

use super::commands::{Command, Reply, Shared, TimedEnablement, lock};
use super::memory::process_memory;
use super::options::{LoadedModules, SessionStatistics, Stopped};
use crate::clock::Pair;
use crate::engine::schedule::SHORTEST_PAUSE;
use crate::engine::{BufferedSession, Engine, GrowthRequest, HostedSession, LARGEST_SEGMENT};

/// The engine's number of the only session, and its key of the only pool.
pub(super) const SESSION: usize = 0;
pub(super) const POOL: u64 = 0;
/// The longest pause: an idle pool is looked at this often, so that chunks of threads that ended are found.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// One wait for the storage of a flush.
const STORAGE_WAIT: Duration = Duration::from_millis(100);

pub(super) struct EngineThread {
    pub shared: Arc<Shared>,
    pub writer: &'static Writer,
    pub engine: Engine<()>,
    /// The clocks when the session started, for its `.part` file.
    pub first: Pair,
    /// Lists the modules of this process, and the number of its last answer.
    pub loaded: LoadedModules,
    pub modules_seen: u64,
}

impl EngineThread {
    pub fn run(mut self) {
        loop {
            let started = Instant::now();
            let drained = self.engine.round(Duration::ZERO);
            if let Some(reply) = self.commands() {
                self.stop(&reply);
                return;
            }
            self.grow();
            self.maintain();
            let pause = self.engine.next_pause(&drained, started, false);
            if pause >= SHORTEST_PAUSE {
                let has_commands = &self.shared.has_commands;
                self.shared.control.sleep(pause, || has_commands.load(Ordering::SeqCst));
            }
        }
    }

    fn session(&mut self) -> (&mut HostedSession<()>, &mut BufferedSession) {
        match self.engine.session_mut(SESSION) {
            Some(session) => session,
            None => unreachable!("the engine has the session until the thread stops it"),
        }
    }

    /// Executes the commands that wait; the reply of a stop, which the caller executes.
    fn commands(&mut self) -> Option<Reply<Stopped>> {
        if !self.shared.has_commands.swap(false, Ordering::SeqCst) {
            return None;
        }
        loop {
            let command = lock(&self.shared.commands).pop_front()?;
            // The thread that asked may have ended: nobody then receives the reply.
            match command {
                Command::Enable(provider, enablement, reply) => {
                    self.enable(provider, enablement);
                    let _ = reply.send(());
                }
                Command::Disable(provider, reply) => {
                    // Events that were written before are still wanted.
                    self.engine.drain_all();
                    self.session().1.disable(&provider);
                    self.engine.publish_admission(SESSION);
                    let _ = reply.send(());
                }
                Command::Schemas(schemas, reply) => {
                    self.engine.add_schemas(SESSION, schemas);
                    let _ = reply.send(());
                }
                Command::Flush(reply) => {
                    let _ = reply.send(self.flush());
                }
                Command::Query(reply) => {
                    self.engine.drain_all();
                    self.engine.count_removed_files(SESSION);
                    let _ = reply.send(self.statistics());
                }
                Command::Snapshot(path, reply) => {
                    let _ = reply.send(self.snapshot(&path));
                }
                Command::Stop(reply) => return Some(reply),
            }
        }
    }

    fn enable(&mut self, provider: Guid, enablement: TimedEnablement) {
        if self.session().1.enablements().next().is_some() {
            // Events that were written before the change are judged by the enablement of their time, which may be that of a group.
            self.engine.drain_all();
        }
        self.session().1.enable(provider, enablement.info.clone());
        // A registration that has it from now on is drained by it.
        lock(&self.shared.registrations).enabled.insert(provider, enablement);
        self.engine.publish_admission(SESSION);
        self.add_modules();
    }

    fn flush(&mut self) -> io::Result<()> {
        let given = self.engine.flush(SESSION);
        while !self.engine.session(SESSION).is_none_or(|(hosted, s)| hosted.is_stored(given, s)) {
            self.engine.take_stored(SESSION, STORAGE_WAIT);
        }
        self.engine.update_header(SESSION);
        match self.session().0.error.take() {
            Some(error) => Err(io::Error::other(error)),
            None => Ok(()),
        }
    }

    fn snapshot(&mut self, path: &Path) -> io::Result<u64> {
        if self.session().0.has_storage() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.engine.drain_all();
        self.add_modules();
        self.engine.snapshot(SESSION, path)
    }

    fn statistics(&mut self) -> SessionStatistics {
        let ledger = self.engine.ledger(SESSION);
        let pool_size = self.pool_size();
        let (hosted, session) = self.session();
        let (facts, error) = (*session.facts(), hosted.error.clone());
        SessionStatistics { ledger, facts, pool_size, error }
    }

    fn pool_size(&self) -> usize {
        self.engine.pool(POOL).map_or(0, |pool| pool.growth.size as usize)
    }

    /// Adds the modules of this process to the trace, if call stacks are wanted and the modules have changed.
    fn add_modules(&mut self) {
        if self.session().1.wants_stacks() {
            if let Some(modules) = (self.loaded)(&mut self.modules_seen) {
                self.session().0.add_modules(std::process::id(), modules);
            }
        }
    }

    /// Grows the pool if its writers found little space.
    fn grow(&mut self) {
        for GrowthRequest { size, .. } in self.engine.take_growth() {
            if let Err(error) = self.add_segment(size) {
                self.session().0.error = Some(format!("the pool cannot grow: {error}"));
                if let Some(pool) = self.engine.pool_mut(POOL) {
                    pool.growth.limit = pool.growth.size;
                }
            }
        }
    }

    /// Adds segments until the pool has this size.
    pub(super) fn grow_to(&mut self, size: u64) -> io::Result<()> {
        let block = BLOCK_SIZE as u64;
        for _ in 1..MAX_SEGMENTS {
            let missing = size.saturating_sub(self.pool_size() as u64) / block * block;
            if missing == 0 {
                break;
            }
            self.add_segment(missing.min(LARGEST_SEGMENT))?;
        }
        Ok(())
    }

    fn add_segment(&mut self, size: u64) -> io::Result<()> {
        let number = self.writer.segment_count();
        if number >= MAX_SEGMENTS {
            return Ok(());
        }
        let len = size as usize;
        let memory = match &mut lock(&self.shared.registrations).part {
            Some(part) => part.add_segment(number, len)?,
            None => process_memory(len)?,
        };
        let index = self.writer.grow(memory)?;
        let segment = self.writer.segment(index).ok_or(io::ErrorKind::NotFound)?;
        self.engine.add_segment(POOL, Source::Mapped(segment.clone()), size)
    }

    /// Brings the file's header, the modules and the clock in the `.part` file up to date.
    fn maintain(&mut self) {
        if !self.engine.maintain() {
            return;
        }
        self.add_modules();
        if let Some(part) = &lock(&self.shared.registrations).part {
            // Without it a recovery uses the pair before.
            let _ = part.set_clock(self.first, self.engine.last_pair());
        }
    }

    fn stop(mut self, reply: &Reply<Stopped>) {
        self.engine.close_admission(SESSION);
        self.engine.drain_all();
        self.writer.close();
        self.engine.drain_all();
        self.add_modules();
        self.engine.settle(POOL, |_| true);
        self.engine.count_removed_files(SESSION);
        let pool_size = self.pool_size();
        let ended = self.engine.end_session(SESSION).map(crate::engine::EndingSession::finish);
        let part = lock(&self.shared.registrations).part.take();
        let EngineThread { writer, engine, .. } = self;
        drop(engine);
        let Some(ended) = ended else { return };
        let statistics = SessionStatistics {
            ledger: ended.session.ledger().clone(),
            facts: *ended.session.facts(),
            pool_size,
            error: ended.hosted.error,
        };
        drop(ended.session);
        if let Some(part) = part {
            // Everything that could be stored is stored; the rest is in the ledger.
            part.remove();
        }
        // Memory that the system cannot take back stays allocated.
        let _ = writer.retire();
        let _ = reply.send(Stopped { statistics, result: ended.result });
    }
}
