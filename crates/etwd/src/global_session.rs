//! A global session: what `StartTrace` makes. Its buffers and enablements live in the router's [`Session`]; here is what
//! surrounds it: file, consumers, owner.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_host::facts::{SessionFacts, SessionTime};
use etw_host::files::Closing;
use etw_host::modules::Modules;
use etw_host::report::Report;
use etw_host::setup::{self, Prepared};
use etw_host::storage::{BufferMemory, Full, Sink, Storage};
use etw_host::{StartError, report};
use etw_ring::{Memory, RawClock};
use etw_session::state::STATE_SIZE;
use etw_session::{ConfigError, HostFacts, Ledger, Session, SessionConfig, State};
use etw_types::{BufferHeader, Guid, LogFileMode, Status};
use etw_wire::control::{
    LossStatus, MAX_LOSSES, MAX_REFUSALS, RefusalStatus, Response, SessionStatus, StartRequest,
    milliseconds, stream,
};
use serde::{Deserialize, Serialize};

use crate::consumer::Consumer;
use crate::keeper_protocol::{Ending, KeptFile};
use crate::mailbox::{Asker, Connection};
use crate::program::Registered;
use crate::rights::refused;

pub(crate) struct GlobalSession {
    pub name: String,
    pub guid: Guid,
    pub owner: u32,
    /// The connection that it ends with.
    pub lease: Option<Connection>,
    /// It was leased to a connection that ended with the worker before; until then its reader may come back.
    pub orphan_until: Option<Instant>,
    pub ending: Ending,
    pub config: SessionConfig,
    /// Asked to end with the connection that started it.
    pub is_leased: bool,
    pub facts: SessionFacts,
    pub time: SessionTime,
    pub storage: Option<Storage>,
    pub consumers: Vec<Consumer>,
    pub is_real_time: bool,
    /// Buffers that some consumer did not get.
    pub consumer_losses: u64,
    /// Buffers that the session has.
    pub buffers: u32,
    /// Their memories, with how many of them lie in each; and that of the session's numbers.
    pub memories: Vec<(u32, OwnedFd)>,
    pub numbers: OwnedFd,
    pub error: Option<String>,
    /// By which number places name its file.
    pub file_number: u32,
    /// Files that it had before and whose buffers are on their way, the oldest first; who waits until one is complete.
    pub before: VecDeque<(KeptFile, Asker)>,
    /// Of those, what has become complete: to be answered.
    pub completed: Vec<(Asker, io::Result<()>)>,
    /// Who waits until what was there has been stored.
    pub flushes: VecDeque<(u64, Asker)>,
    /// Buffers given to the storage, and those that have come back, in the same order. A flush waits for those that had been given.
    pub given: u64,
    pub returned: u64,
    /// What writers are told.
    pub is_full: bool,
    /// When each provider was last enabled, in nanoseconds of `CLOCK_MONOTONIC`: of the sessions of a classic provider the newest holds.
    pub since: HashMap<Guid, u64>,
    /// Since when the drain waits for one of its buffers to come back.
    pub waiting_since: Option<Instant>,
    /// When it was last found too slow to be waited for.
    pub slow_at: Option<Instant>,
    /// For call stacks: what the programs have loaded.
    pub modules: Modules,
    /// At its end: what of its report is not in its stream yet.
    pub reports: Option<VecDeque<Report>>,
    /// What programs have not taken of its wishes.
    pub refusals: Refusals,
}

/// Registrations that a session has nothing of: how many, and the first of them.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Refusals {
    pub count: u64,
    pub rows: Vec<RefusalStatus>,
}

impl Refusals {
    /// One more, unless it is among those that are known: of a program that was asked again.
    /// `false`: it is.
    pub fn add(&mut self, refusal: RefusalStatus) -> bool {
        if self.rows.contains(&refusal) {
            return false;
        }
        self.count += 1;
        if self.rows.len() < MAX_REFUSALS {
            self.rows.push(refusal);
        }
        true
    }
}

/// A session whose files are being completed.
pub(crate) struct Finishing {
    pub name: String,
    /// What it still writes.
    pub files: Vec<PathBuf>,
    /// Who is told of its end.
    pub asker: Option<Asker>,
}

/// A session that has ended.
pub(crate) struct Finished {
    pub status: SessionStatus,
    pub result: io::Result<()>,
}

/// An option that a session cannot have, as a response.
pub(crate) fn config_error(error: &ConfigError) -> Response {
    refused(error.status(), error.to_string())
}

/// Why a session cannot be, as a response.
fn start_error(error: &StartError) -> Response {
    refused(error.status(), error.to_string())
}

impl GlobalSession {
    /// Makes a session with its buffers and file. Nothing is left behind when it fails.
    pub fn create(
        start: StartRequest,
        slot: usize,
        asker: &Asker,
        raw: RawClock,
        batch: u64,
    ) -> Result<(GlobalSession, Session<BufferMemory>), Response> {
        let StartRequest { config, leased } = start;
        config.validate_path().map_err(|error| config_error(&error))?;
        let Prepared { facts, host } =
            setup::prepare(&config, raw, slot as u16 + 1).map_err(|error| start_error(&error))?;
        let host = HostFacts { clock: setup::event_clock(&facts), ..host };
        let prepared = Prepared { facts, host };
        let system = |error: io::Error| start_error(&StartError::Io(error));
        let (buffers, memory) =
            make_buffers(config.buffer_size, config.buffer_count).map_err(system)?;
        let (numbers, numbers_memory) = make_buffers(STATE_SIZE as u32, 1).map_err(system)?;
        let mut session = Session::new(&config, host, buffers)
            .map_err(|error| start_error(&StartError::Session(error)))?;
        numbers.into_iter().for_each(|numbers| session.keep_state(numbers, batch));
        let storage = match &config.file {
            Some(path) => {
                let files = prepared.files(path, config.preallocate);
                let files = files.map_err(|error| path_error(path, error))?;
                Some(Storage::start(Sink::Files(Box::new(files))).map_err(system)?)
            }
            None => None,
        };
        let facts = prepared.facts;
        let global = GlobalSession {
            name: config.name.clone(),
            guid: config.guid,
            owner: asker.user(),
            lease: leased.then(|| asker.connection()).flatten(),
            orphan_until: None,
            ending: Ending::Nothing,
            time: SessionTime::of(&facts),
            facts,
            storage,
            consumers: Vec::new(),
            is_real_time: config.real_time,
            consumer_losses: 0,
            buffers: config.buffer_count,
            memories: vec![(config.buffer_count, memory)],
            numbers: numbers_memory,
            error: None,
            file_number: 1,
            before: VecDeque::new(),
            completed: Vec::new(),
            flushes: VecDeque::new(),
            given: 0,
            returned: 0,
            is_full: false,
            since: HashMap::new(),
            waiting_since: None,
            slow_at: None,
            modules: Modules::default(),
            reports: None,
            refusals: Refusals::default(),
            config,
            is_leased: leased,
        };
        Ok((global, session))
    }

    /// Gives full buffers to consumers and storage.
    pub fn store(&mut self, session: &mut Session<BufferMemory>, lost: u64) {
        self.consumers.retain(|consumer| !consumer.is_gone());
        if self.storage.is_none() && self.consumers.is_empty() {
            // Of a session in memory none is taken; a real-time session keeps them for who comes.
            return;
        }
        // What the header says if a file of a series ends with one of these.
        let closing = self.closing(session, lost, true);
        while let Some(full) = session.take_full() {
            if !self.consumers.is_empty() {
                let mut bytes = full.bytes()[..full.filled()].to_vec();
                bytes[..BufferHeader::SIZE].copy_from_slice(&full.header());
                let bytes: Arc<[u8]> = bytes.into();
                for consumer in &self.consumers {
                    self.consumer_losses += u64::from(!consumer.offer(&bytes, full.events()));
                }
            }
            match &self.storage {
                Some(storage) => {
                    self.given += 1;
                    storage.store(full, closing);
                }
                None => session.stored(full),
            }
        }
    }

    /// When it asked for what it wants of a registration.
    pub fn since_of(&self, registered: &Registered) -> u64 {
        let of = |id| self.since.get(id).copied();
        of(&registered.provider.id).or_else(|| of(&registered.group)).unwrap_or(0)
    }

    /// Tells consumers how far everything is.
    pub fn tell_watermark(&self, session: &Session<BufferMemory>, now: i64) {
        if self.consumers.is_empty() {
            return;
        }
        let time = session.first_waiting().unwrap_or(now).min(now);
        for consumer in &self.consumers {
            consumer.tell(stream::WATERMARK, time.to_le_bytes().into());
        }
    }

    /// Takes back what was stored.
    pub fn take_done(&mut self, session: &mut Session<BufferMemory>, wait: Option<Duration>) {
        let Some(storage) = &self.storage else { return };
        let switched = storage.take_switched();
        let done = match wait {
            Some(wait) => storage.wait_done(wait),
            None => storage.take_done(),
        };
        for (full, result) in done {
            self.returned += 1;
            give_back(session, full, result, &mut self.error);
        }
        // Asked before: what is in a file that is complete has been given back.
        for result in switched {
            if let Some((_, asker)) = self.before.pop_front() {
                self.completed.push((asker, result));
            }
        }
    }

    /// Answers who waited for a file to be complete.
    pub fn answer_completed(&mut self) {
        for (asker, result) in self.completed.drain(..) {
            asker.answer(&match result {
                Ok(()) => Response::Done { warnings: Vec::new() },
                Err(error) => {
                    refused(Status::ERROR_WRITE_FAULT, format!("the file before: {error}"))
                }
            });
        }
    }

    /// The files that it writes: its own, and those before that are being completed.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.config.file.iter().chain(self.before.iter().map(|(before, _)| &before.path))
    }

    /// What the header of a file that ends now says; `lost`: events lost in all.
    pub fn closing(&self, session: &Session<BufferMemory>, lost: u64, is_end: bool) -> Closing {
        let facts = &self.facts;
        let last = session.facts().last_time.max(facts.start_raw);
        let end = facts.clock().filetime(last).map_or(0, |time| time.0);
        Closing {
            end_time: if is_end { end } else { 0 },
            events_lost: u32::try_from(lost).unwrap_or(u32::MAX),
            buffers_lost: u32::try_from(session.facts().buffers_lost).unwrap_or(u32::MAX),
        }
    }

    /// A new consumer; its end of the stream. `position`: the session's.
    pub fn add_consumer(&mut self, position: (i64, u64)) -> io::Result<std::os::fd::OwnedFd> {
        // Some buffers, whatever their size: a consumer that reads is given time to.
        let limit = (self.config.buffer_size as usize * 16).max(8 << 20);
        let (consumer, stream) = Consumer::start(limit)?;
        let header = self.facts.header_buffer(&self.facts.header)?;
        consumer.tell(stream::START, header.into());
        let (next, count) = position;
        consumer.tell(stream::POSITION, [next.to_le_bytes(), count.to_le_bytes()].concat().into());
        self.modules.again();
        self.consumers.push(consumer);
        Ok(stream)
    }

    /// What controllers are told; the ledger is the session's own and what programs have counted.
    pub fn status(
        &self,
        slot: usize,
        session: &Session<BufferMemory>,
        ledger: &Ledger,
        with_losses: bool,
    ) -> SessionStatus {
        let state = match session.state() {
            State::Running => "running",
            State::FileFull => "file-full",
            State::Stopped => "stopped",
        };
        let mut losses: Vec<LossStatus> = ledger
            .losses()
            .map(|(cause, provider, pid, count)| LossStatus {
                cause: cause.name().to_owned(),
                provider,
                pid,
                count,
            })
            .collect();
        losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
        for rest in losses.split_off(losses.len().min(MAX_LOSSES)) {
            let same = |loss: &&mut LossStatus| {
                loss.cause == rest.cause && loss.provider.is_none() && loss.pid.is_none()
            };
            match losses.iter_mut().find(same) {
                Some(loss) => loss.count += rest.count,
                None => losses.push(LossStatus { provider: None, pid: None, ..rest }),
            }
        }
        if !with_losses {
            losses.clear();
        }
        SessionStatus {
            name: self.name.clone(),
            guid: self.guid,
            id: slot as u32 + 1,
            state: state.to_owned(),
            file: self.config.file.clone(),
            // The file's header has what it began with.
            mode: match self.is_real_time {
                true => self.facts.header.log_file_mode | LogFileMode::REAL_TIME,
                false => self.facts.header.log_file_mode.without(LogFileMode::REAL_TIME),
            },
            max_size: session.policy().max_size.unwrap_or(0),
            buffer_size: session.buffer_size(),
            buffers: self.buffers,
            free_buffers: session.free_buffers() as u32,
            flush_timer_ms: self.config.flush_timer.map_or(0, milliseconds),
            clock: self.config.clock.number(),
            owner: self.owner,
            leased: self.lease.is_some(),
            consumers: self.consumers.len() as u32,
            buffers_written: session.facts().buffers,
            buffers_lost: session.facts().buffers_lost,
            real_time_buffers_lost: self.consumer_losses,
            attempted: ledger.attempted,
            stored: ledger.stored,
            overwritten: ledger.overwritten,
            filtered: ledger.filtered,
            lost: ledger.lost_total(),
            without_stack: session.facts().without_stack,
            losses,
            refused: self.refusals.count,
            refusals: if with_losses { self.refusals.rows.clone() } else { Vec::new() },
            enabled: session
                .enablements()
                .map(|(id, info)| (id.to_string(), info.clone()))
                .collect(),
            error: self.error.clone(),
        }
    }

    /// Puts the report of the session into its stream. `false`: for the rest room has to come back from the storage.
    pub fn report(
        &mut self,
        session: &mut Session<BufferMemory>,
        ledger: &Ledger,
        now: i64,
    ) -> bool {
        if self.reports.is_none() {
            // The buffers with them may have been overwritten, or lie in a file of a series that is not the last one.
            if !session.keeps_first_buffers() {
                self.modules.again();
            }
            self.reports = Some(report::reports(ledger).into());
        }
        let can_wait = session.is_storing() && self.storage.is_some();
        self.modules.tell(session, now);
        if self.modules.is_waiting() && can_wait {
            return false;
        }
        let (process, thread) = (std::process::id(), self.facts.ids.1);
        let Some(reports) = &mut self.reports else { return true };
        while let Some(report) = reports.front() {
            let event = report.event(now, process, thread);
            if session.push_report(&event).is_err() && can_wait {
                return false;
            }
            reports.pop_front();
        }
        true
    }
}

pub(crate) fn give_back(
    session: &mut Session<BufferMemory>,
    full: Full,
    result: io::Result<()>,
    last_error: &mut Option<String>,
) {
    match result {
        Ok(()) => session.stored(full),
        Err(error) => {
            *last_error = Some(error.to_string());
            session.not_stored(full);
        }
    }
}

fn path_error(path: &std::path::Path, error: io::Error) -> Response {
    let what = format!("{}: {error}", path.display());
    refused(StartError::Io(error).status(), what)
}

/// The host's facts about a session of this slot that appends to no file.
pub(crate) fn host_facts(facts: &SessionFacts, slot: usize) -> HostFacts {
    let clock = setup::event_clock(facts);
    HostFacts { clock, ..setup::host_facts(facts, slot as u16 + 1) }
}

/// Bytes of buffers whose pages are there when a session begins; and those that are made in the background then. A burst at the beginning
/// would otherwise wait for each page: as long as for what is stored in it.
const PRESENT: usize = 16 << 20;
const PRESENT_SOON: usize = 64 << 20;

/// Buffers in memory that a descriptor leads to, so that they can be kept while the host's process is replaced.
pub(crate) fn make_buffers(size: u32, count: u32) -> io::Result<(Vec<BufferMemory>, OwnedFd)> {
    // Regions of many mappings would each take a page of their own: one mapping for all.
    let mut memory = Memory::shared(size as usize * count as usize)?;
    let descriptor = memory.take_fd().ok_or(io::ErrorKind::Unsupported)?;
    let regions = memory.into_regions(size as usize);
    if let Some(pages) = regions.first().map(etw_ring::Region::pages)
        && pages.populate(PRESENT) == PRESENT
        && size as usize * count as usize > PRESENT
    {
        // Where there is no thread for it, pages come when they are used.
        let _ = etw_host::spawn("etw-pages", move || pages.populate(PRESENT_SOON));
    }
    let regions = regions.into_iter();
    Ok((regions.map(BufferMemory::Mapped).collect(), descriptor))
}

/// Do two names lead to one file? Links of any kind do.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let inode = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    a == b || real(a) == real(b) || inode(a).is_some_and(|one| inode(b) == Some(one))
}
