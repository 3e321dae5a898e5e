//! The thread that drains a session's pool, and does what the session is asked for.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use etw_ring::{
    Admission, Cause as RingCause, DrainOptions, Drained, Memory, PATIENCE, Reader, SiteTable,
    Source, Writer,
};
use etw_session::{Cause, Ledger, ProcessFacts, Router, Session, State};
use etw_types::BufferHeader;

use crate::clock::{ClockMap, Pair};
use crate::facts::{SessionFacts, SessionTime};
use crate::files::{Closing, Files};
use crate::modules::Modules;
use crate::private::{
    Command, LoadedModules, PoolSize, Reply, SessionStatistics, Shared, Stopped, lock,
};
use crate::registrations::{Given, Origin, Registrations};
use crate::report;
use crate::storage::{BufferMemory, Storage};

/// The host looks at an idle pool this often, at least: what threads have begun and left is seen then.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Below this a pause costs more than it gives.
const SHORTEST_PAUSE: Duration = Duration::from_micros(60);
/// A thread that has not written for so long gives its chunk back.
const RECLAIM: Duration = Duration::from_millis(500);
/// How often the file's header and the clock in the `.part` are brought up to date.
const UPKEEP: Duration = Duration::from_millis(500);

pub(crate) struct Worker {
    pub shared: Arc<Shared>,
    pub writer: &'static Writer,
    pub reader: Reader,
    pub sites: SiteTable,
    pub router: Router<BufferMemory>,
    pub storage: Option<Storage>,
    pub registrations: Registrations,
    /// Registrations that we have copied.
    pub known: usize,
    pub clock: ClockMap,
    pub first: Pair,
    pub facts: SessionFacts,
    pub pool: PoolSize,
    pub pressure: u32,
    pub hostile: u64,
    pub error: Option<String>,
    pub upkeep: Instant,
    pub pause: Duration,
    /// What writers have been told.
    pub admission: Admission,
    pub process: ProcessFacts,
    /// For call stacks: what was told, who says what there is, and which of its answers was the last.
    pub modules: Modules,
    pub loaded: LoadedModules,
    pub seen: u64,
    /// Raw time before which everything has been drained.
    pub floor: u64,
}

impl Worker {
    pub fn run(mut self) {
        loop {
            let started = Instant::now();
            let drained = self.round(&DrainOptions {
                reclaim_idle: Some(RECLAIM),
                alive: Some(&is_alive),
                ..DrainOptions::default()
            });
            if let Some(reply) = self.commands() {
                self.stop(reply);
                return;
            }
            self.grow();
            self.maintain();
            self.publish();
            self.set_pause(&drained, started);
            if self.pause >= SHORTEST_PAUSE && !drained.stopped {
                let has_commands = &self.shared.has_commands;
                self.shared.control.sleep(self.pause, || has_commands.load(Ordering::SeqCst));
            }
        }
    }

    /// A pause in which less than an eighth of the pool fills at the rate of this round; a burst wakes us earlier.
    fn set_pause(&mut self, drained: &Drained, started: Instant) {
        let elapsed = started.elapsed() + self.pause;
        let eighth = self.pool.initial as u64 / 8;
        let longest =
            if self.session().has_flush_timer() { LONGEST_PAUSE / 4 } else { LONGEST_PAUSE };
        self.pause = if drained.size == 0 {
            (self.pause * 2).clamp(SHORTEST_PAUSE, longest)
        } else {
            let wait = elapsed.as_nanos() * u128::from(eighth) / u128::from(drained.size);
            Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)).min(longest)
        };
    }

    fn session(&mut self) -> &mut Session<BufferMemory> {
        match self.router.session_mut(0) {
            Some(session) => session,
            None => unreachable!("a worker has its session from the beginning to the end"),
        }
    }

    /// One batch: drained, routed, sealed, made final, handed to the storage.
    fn round(&mut self, options: &DrainOptions<'_>) -> Drained {
        self.take_done(false);
        let Worker {
            reader,
            sites,
            router,
            registrations,
            clock,
            facts,
            shared,
            known,
            hostile,
            process,
            ..
        } = self;
        let process_id = facts.ids.0;
        let mut is_first = true;
        let raw_clock = shared.control.clock();
        let to_session = SessionTime::of(facts);
        let mut lookup = |id: u32| sites.get(id).map(<[u8]>::to_vec);
        let drained = reader.drain_while(options, |record| {
            if std::mem::take(&mut is_first) {
                // After the watermark was taken: every record lies before this pair.
                clock.observe(Pair::now(raw_clock));
            }
            if record.sessions & 1 == 0 {
                *hostile += 1;
                return ControlFlow::Continue(());
            }
            if record.registration as usize >= *known {
                *known = learn(shared, registrations, *known);
            }
            let time = to_session.time(clock, record.time);
            let process = Some(&*process);
            let origin = Origin { time, raw: None, process_id, thread_id: record.tid, process };
            match registrations.route(record, &origin, &mut lookup, router, (1, 1)) {
                Given::Routed => ControlFlow::Continue(()),
                Given::NoRoom => ControlFlow::Break(()),
                Given::Hostile => {
                    *hostile += 1;
                    ControlFlow::Continue(())
                }
            }
        });
        if is_first {
            // The line is kept near the clock while nothing comes: what comes next begins on it.
            self.clock.observe(Pair::now(raw_clock));
        }
        self.clock.pass(drained.watermark);
        self.floor = drained.watermark;
        let hostile = std::mem::take(&mut self.hostile) + drained.hostile;
        let batch = self.reader.next_batch();
        let now = self.session_now();
        let session = self.session();
        if hostile > 0 {
            session.ledger_mut().attempted += hostile;
            session.ledger_mut().count_lost(Cause::Hostile, None, Some(process_id), hostile);
        }
        session.tick(now);
        session.seal(batch);
        self.reader.advance();
        self.store();
        if drained.stopped {
            // Buffers are on their way: without one, draining makes no sense.
            self.take_done(true);
        }
        drained
    }

    /// Hands full buffers to the storage.
    fn store(&mut self) {
        // What the header says if a file of a series ends with one of these.
        let closing = self.closing(true);
        let Some(Some(storage)) = self.router.session_mut(0).map(|_| self.storage.as_ref()) else {
            return;
        };
        while let Some(full) = self.router.session_mut(0).and_then(Session::take_full) {
            storage.store(full, closing);
        }
    }

    /// Takes back what was stored, waiting for one if asked.
    fn take_done(&mut self, wait: bool) {
        let Some(storage) = &self.storage else { return };
        let done =
            if wait { storage.wait_done(Duration::from_millis(100)) } else { storage.take_done() };
        for (full, result) in done {
            match result {
                Ok(()) => self.session().stored(full),
                Err(error) => {
                    self.error = Some(error.to_string());
                    self.session().not_stored(full);
                }
            }
        }
    }

    /// Everything that was handed out has come back.
    fn settle(&mut self) {
        self.store();
        while self.storage.is_some() && self.session().is_storing() {
            self.take_done(true);
            self.store();
        }
    }

    fn session_now(&mut self) -> i64 {
        let pair = Pair::now(self.shared.control.clock());
        SessionTime::of(&self.facts).time(&self.clock, pair.raw)
    }

    fn commands(&mut self) -> Option<Reply<Stopped>> {
        if !self.shared.has_commands.swap(false, Ordering::SeqCst) {
            return None;
        }
        loop {
            let command = lock(&self.shared.commands).pop_front()?;
            // Who asked may have gone: an answer that nobody takes is no error.
            match command {
                Command::Enable(provider, info, reply) => {
                    if self.session().enabled(&provider).is_some() {
                        // What was written before it was changed is judged by what was wanted then.
                        self.drain_all();
                    }
                    self.session().enable(provider, info);
                    self.publish();
                    self.tell_modules();
                    let _ = reply.send(());
                }
                Command::Disable(provider, reply) => {
                    // What was written before it was disabled is wanted.
                    self.drain_all();
                    self.session().disable(&provider);
                    let _ = reply.send(());
                }
                Command::Flush(reply) => {
                    let _ = reply.send(self.flush());
                }
                Command::Query(reply) => {
                    self.drain_all();
                    let _ = reply.send(self.statistics(false));
                }
                Command::Snapshot(path, reply) => {
                    self.drain_all();
                    let _ = reply.send(self.snapshot(&path));
                }
                Command::Stop(reply) => return Some(reply),
            }
        }
    }

    /// Everything committed before now is in the session, but for writes that take too long.
    fn drain_all(&mut self) {
        let end = Instant::now() + 2 * PATIENCE;
        loop {
            let drained =
                self.round(&DrainOptions { patience: PATIENCE, ..DrainOptions::default() });
            if !drained.stopped || Instant::now() > end + Duration::from_secs(2) {
                return;
            }
        }
    }

    /// What was pushed outside of a round is final too.
    fn seal(&mut self) {
        let batch = self.reader.next_batch();
        self.session().seal(batch);
        self.reader.advance();
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain_all();
        let now = self.session_now();
        self.session().flush(now);
        self.seal();
        self.settle();
        let closing = self.closing(false);
        if let Some(storage) = &self.storage {
            storage.update_header(closing);
        }
        match self.error.take() {
            Some(error) => Err(io::Error::other(error)),
            None => Ok(()),
        }
    }

    fn snapshot(&mut self, path: &Path) -> io::Result<u64> {
        if self.storage.is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.modules.again();
        self.tell_modules();
        let now = self.session_now();
        let closing = self.closing(true);
        let copies = self.session().snapshot(now);
        let mut facts = self.facts.clone();
        facts.header.log_file_name = path.to_string_lossy().into_owned();
        let mut files = Files::create(path, facts, 0)?;
        for (number, bytes) in copies.iter().enumerate() {
            files.store(1, number as u64 + 1, &bytes[..BufferHeader::SIZE], bytes, closing)?;
        }
        files.finish(closing)?;
        Ok(copies.len() as u64)
    }

    /// Tells what is loaded in this process, where call stacks are wanted and something is new.
    fn tell_modules(&mut self) {
        if !self.session().wants_stacks() {
            return;
        }
        if let Some(modules) = (self.loaded)(&mut self.seen) {
            self.modules.add(self.facts.ids.0, modules);
        }
        // As early as the order of time allows.
        let time = SessionTime::of(&self.facts).time(&self.clock, self.floor);
        if let Some(session) = self.router.session_mut(0) {
            self.modules.tell(session, time);
        }
    }

    /// What the header of a file that ends now says.
    fn closing(&mut self, is_end: bool) -> Closing {
        let lost = self.ledger(false).lost_total();
        let facts = &self.facts;
        let last = self.router.session(0).map_or(0, |session| session.facts().last_time);
        let lost_buffers = self.router.session(0).map_or(0, |session| session.facts().buffers_lost);
        let end = facts.clock().filetime(last.max(facts.start_raw)).map_or(0, |time| time.0);
        Closing {
            end_time: if is_end { end } else { 0 },
            events_lost: u32::try_from(lost).unwrap_or(u32::MAX),
            buffers_lost: u32::try_from(lost_buffers).unwrap_or(u32::MAX),
        }
    }

    /// The session's ledger and the ring's together. `is_end`: no write is in flight any more; one that was given up is late.
    fn ledger(&mut self, is_end: bool) -> Ledger {
        let mut ledger = self.router.session(0).map(|s| s.ledger().clone()).unwrap_or_default();
        let ring = self.reader.ledger();
        let rows = match ring.lost_total(0) {
            0 => Vec::new(),
            _ => self.reader.losses_by_registration(),
        };
        if !rows.is_empty() {
            self.known = learn(&self.shared, &mut self.registrations, self.known);
        }
        let process = Some(self.facts.ids.0);
        let mut elsewhere = 0;
        for (from, to) in [
            (RingCause::NoChunk, Cause::NoChunk),
            (RingCause::SessionFull, Cause::SessionFull),
            (RingCause::TooLarge, Cause::TooLarge),
            (RingCause::TooLargeForSession, Cause::TooLargeForSession),
            (RingCause::AllOrNone, Cause::AllOrNone),
            (RingCause::Abandoned, Cause::Abandoned),
        ] {
            let count = ring.lost(from, 0);
            elsewhere += count;
            let mut left = count;
            for row in &rows {
                let count = u64::from(row.lost[from as usize][0]).min(left);
                left -= count;
                let provider = self.registrations.get(row.registration).map(|p| p.id);
                ledger.count_lost(to, provider, process, count);
            }
            ledger.count_lost(to, None, process, left);
        }
        let mut late = self.reader.late()[0];
        if is_end {
            let arrived = self.reader.drained()[0] + late + elsewhere;
            late += ring.attempted[0].saturating_sub(arrived);
        }
        ledger.count_lost(Cause::Late, None, process, late);
        ledger.attempted += elsewhere + late;
        ledger
    }

    fn statistics(&mut self, is_end: bool) -> SessionStatistics {
        let ledger = self.ledger(is_end);
        SessionStatistics {
            ledger,
            facts: *self.session().facts(),
            pool_size: self.pool.initial,
            error: self.error.clone(),
        }
    }

    /// Writers learn that the file is full, and what the session adds to events.
    fn publish(&mut self) {
        let Some(session) = self.router.session(0) else { return };
        let properties = session.enablements().map(|(_, info)| info.properties);
        let extra = properties.map(|properties| self.process.extra_size(properties)).max();
        let admission = Admission {
            full: session.state() == State::FileFull,
            extra_size: extra.unwrap_or(0) as u16,
            ..self.admission
        };
        if admission != self.admission {
            self.admission = admission;
            self.shared.control.set_admission(0, admission);
        }
    }

    /// More pool where writers found little room.
    fn grow(&mut self) {
        let pressure = self.writer.pressure();
        if std::mem::replace(&mut self.pressure, pressure) == pressure {
            return;
        }
        let largest = etw_ring::layout::MAX_SEGMENT_UNITS * etw_ring::layout::UNIT_SIZE;
        let size =
            self.pool.initial.min(self.pool.limit.saturating_sub(self.pool.initial)).min(largest);
        let size = size / etw_ring::layout::BLOCK_SIZE * etw_ring::layout::BLOCK_SIZE;
        let number = self.writer.segment_count();
        if size == 0 || number >= etw_ring::layout::MAX_SEGMENTS {
            return;
        }
        let memory = match &mut lock(&self.shared.registrations).part {
            Some(part) => part.add_segment(number, size),
            #[cfg(target_os = "linux")]
            None => Memory::private(size),
            #[cfg(not(target_os = "linux"))]
            None => Memory::heap(size),
        };
        let grown = memory.and_then(|memory| self.writer.grow(memory)).and_then(|index| {
            let segment = self.writer.segment(index).ok_or(io::ErrorKind::NotFound)?;
            self.reader.add_segment(Source::Mapped(segment.clone()))
        });
        match grown {
            Ok(()) => self.pool.initial += size,
            Err(error) => {
                // No more of it: the pool stays as it is.
                self.error = Some(format!("the pool cannot grow: {error}"));
                self.pool.limit = self.pool.initial;
            }
        }
    }

    /// The header and the `.part` tell how far we are.
    fn maintain(&mut self) {
        if self.upkeep.elapsed() < UPKEEP {
            return;
        }
        self.upkeep = Instant::now();
        self.tell_modules();
        if let Some(part) = &lock(&self.shared.registrations).part {
            // Only a recovery needs it; it then takes the pair before.
            let _ = part.set_clock(self.first, self.clock.last());
        }
        let closing = self.closing(false);
        if let Some(storage) = &self.storage {
            storage.update_header(closing);
        }
    }

    fn stop(mut self, reply: Reply<Stopped>) {
        self.shared.control.set_admission(0, Admission::default());
        self.drain_all();
        self.writer.close();
        self.drain_all();
        // The buffers with them may have been overwritten, or lie in a file of a series that is not this one.
        if !self.session().keeps_first_buffers() {
            self.modules.again();
        }
        self.tell_modules();
        while self.modules.is_waiting() && self.session().is_storing() {
            self.seal();
            self.store();
            self.take_done(true);
            self.tell_modules();
        }
        let ledger = self.ledger(true);
        // The clock's line may lie a little below the clock itself, from which the session's start was read.
        let now = self.session_now().max(self.facts.start_raw);
        let now = now.max(self.session().facts().last_time);
        let (process_id, thread_id) = self.facts.ids;
        // The report is no event of the program's: it is in the file and not in the ledger.
        let reports = report::reports(&ledger);
        for report in &reports {
            let event = report.event(now, process_id, thread_id);
            // A file that is full has no room for it; where buffers are on their way to the storage, they come back.
            while self.session().push_report(&event).is_err() && self.session().is_storing() {
                self.seal();
                self.store();
                self.take_done(true);
            }
        }
        self.session().stop(now);
        self.seal();
        self.settle();
        let closing = self.closing(true);
        let statistics = self.statistics(true);
        let mut result = match self.storage.take() {
            Some(storage) => storage.finish(closing),
            None => Ok(()),
        };
        if let (Ok(()), Some(error)) = (&result, self.error.take()) {
            result = Err(io::Error::other(error));
        }
        let part = lock(&self.shared.registrations).part.take();
        let Worker { writer, reader, sites, router, .. } = self;
        drop((reader, sites, router));
        if let Some(part) = part {
            // Everything that could be stored is. What could not is in the ledger.
            part.remove();
        }
        // What the system cannot take back stays taken.
        let _ = writer.retire();
        let _ = reply.send((statistics, result));
    }
}

/// Copies registrations that are new; how many there are.
fn learn(shared: &Shared, registrations: &mut Registrations, known: usize) -> usize {
    let registered = lock(&shared.registrations);
    for (number, provider) in registered.providers.iter().enumerate().skip(known.max(1)) {
        registrations.set(number as u32, provider.clone());
    }
    registered.providers.len()
}

fn is_alive(thread: u32) -> bool {
    #[cfg(target_os = "linux")]
    return etw_ring::process_thread_alive(std::process::id(), thread);
    #[cfg(not(target_os = "linux"))]
    return {
        let _ = thread;
        true
    };
}
