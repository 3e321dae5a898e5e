//! [`ChannelLogs`]: the logs of all channels behind one session.
//!
//! Each record of a buffer goes to the log of its descriptor's channel, as the provider's installed manifest has it; a report of
//! a program goes to the log that it names. A log that fails does not hold up the others: its records are counted as lost.

use crate::access::{Access, Rights, User};
use crate::accounts::groups_of;
use crate::channel::{Channel, Isolation};
use crate::log_file::{Limit, LogFile, Pending, WhenFull};
use crate::record_writer::RecordWriter;
use crate::registry::{APPLICATION, Registry};
use crate::report::Report;
use etw_decode::Catalog;
use etw_etl::read::{BufferRecords, Item, buffer};
use etw_etl::record::RecordContext;
use etw_types::{Clock, EVENT_SOURCES, EventRecord, ExtType, FileTime, Guid, Keyword, Level};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The state of a log that a host keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// Name of the channel.
    pub name: String,
    /// The id that the next record gets; `None` for a log that could not be opened.
    pub next_id: Option<u64>,
    /// Records that could not be stored since the host's start, or that their program may not write.
    pub lost: u64,
    /// Why the last records could not be stored, or why users cannot read the log who may; `None`: neither.
    pub failure: Option<String>,
}

/// The channels whose logs one session keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// All but those with custom isolation.
    Common,
    /// The channel of this name, which has custom isolation.
    Own(String),
}

impl Share {
    /// Whether a session with this share keeps the log of a channel.
    pub fn has(&self, channel: &Channel) -> bool {
        is_kept(channel)
            && match self {
                Share::Common => channel.settings.isolation != Isolation::Custom,
                Share::Own(name) => channel.is_named(name),
            }
    }
}

/// A log and its channel.
#[derive(Debug)]
struct ChannelLog {
    channel: Channel,
    access: Access,
    file: Option<LogFile>,
    lost: u64,
    failure: Option<String>,
    /// Why users cannot read the log who may.
    warning: Option<String>,
}

/// An event on its way to a log.
struct Routed<'r> {
    log: usize,
    record: EventRecord<'r>,
    time: FileTime,
    report: Option<Report>,
}

/// The logs of a session.
#[derive(Debug)]
pub struct ChannelLogs {
    session: u64,
    users: Users,
    share: Share,
    writer: RecordWriter,
    logs: Vec<ChannelLog>,
    /// Logs by provider and channel byte.
    routes: HashMap<(Guid, u8), usize>,
    /// Logs by name, in lower case.
    names: HashMap<String, usize>,
    /// Logs by the name of an installed provider, in lower case.
    sources: HashMap<String, usize>,
    /// Reports for logs that are not kept.
    unknown: u64,
}

impl ChannelLogs {
    /// Logs of a session, none yet. `session`: a number that no other session that wrote the logs had. `owner`: the user whose host
    /// keeps them. `share`: the channels of the session.
    pub fn new(session: u64, owner: u32, share: Share, clock: Clock) -> ChannelLogs {
        ChannelLogs {
            session,
            users: Users { owner, known: HashMap::new() },
            share,
            writer: RecordWriter::new(clock, Arc::default()),
            logs: Vec::new(),
            routes: HashMap::new(),
            names: HashMap::new(),
            sources: HashMap::new(),
            unknown: 0,
        }
    }

    /// Keeps the enabled channels of a registry that are in the share, and closes other logs. A log whose settings are as before stays open.
    pub fn configure(&mut self, registry: &Registry, schemas: Arc<Catalog>) {
        self.writer.set_schemas(schemas);
        let mut before = std::mem::take(&mut self.logs);
        self.routes.clear();
        self.names.clear();
        self.sources.clear();
        self.users.known.clear();
        let share = self.share.clone();
        for channel in registry.channels().iter().filter(|channel| share.has(channel)) {
            let index = self.logs.len();
            let known = before.iter().position(|log| log.channel.settings == channel.settings);
            let log = match known {
                Some(known) => ChannelLog { channel: channel.clone(), ..before.swap_remove(known) },
                None => ChannelLog {
                    channel: channel.clone(),
                    access: channel.access(),
                    file: None,
                    lost: 0,
                    failure: None,
                    warning: None,
                },
            };
            self.logs.push(log);
            self.names.insert(channel.name.to_lowercase(), index);
            for publisher in &channel.publishers {
                self.routes.insert((publisher.guid, publisher.value), index);
                self.sources.entry(publisher.name.to_lowercase()).or_insert(index);
            }
        }
        for log in &mut before {
            log.finish();
        }
        let session = self.session;
        self.logs.iter_mut().filter(|log| log.file.is_none()).for_each(|log| log.open(session));
    }

    /// Stores the events of a buffer, as it is in files. A buffer that was stored before, wholly or in part, is stored only once.
    pub fn store(&mut self, bytes: &[u8]) {
        let limit = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // A session's own buffer is sound.
        let Ok((header, records)) = buffer::open(bytes, limit) else { return };
        let mut routed: Vec<Routed<'_>> = Vec::new();
        for item in BufferRecords::new(&records, &RecordContext::default()) {
            let Item::Record { mut record, .. } = item else { continue };
            record.cpu = header.processor;
            routed.extend(self.route(record));
        }
        for index in 0..self.logs.len() {
            if routed.iter().any(|one| one.log == index) {
                self.store_in(index, header.sequence_number, &routed);
            }
        }
    }

    /// Finds the log of an event.
    fn route<'r>(&mut self, record: EventRecord<'r>) -> Option<Routed<'r>> {
        let time = self.writer.time_if_kept(&record)?;
        let provider = record.provider?;
        if provider == EVENT_SOURCES && self.share == Share::Common {
            let report = self.writer.report(&record)?;
            let log = match report.log.is_empty() {
                true => self.sources.get(&report.source.to_lowercase()),
                false => self.names.get(&report.log.to_lowercase()),
            };
            // As in Windows: a log that nobody knows is the Application log.
            let log = log.or_else(|| self.names.get(&APPLICATION.to_lowercase()));
            let Some(&log) = log else {
                self.unknown += 1;
                return None;
            };
            return Some(Routed { log, record, time, report: Some(report) });
        }
        let log = *self.routes.get(&(provider, record.descriptor.channel.0))?;
        let settings = &self.logs[log].channel.settings;
        let descriptor = &record.descriptor;
        let is_wanted = (settings.level == Level(0) || descriptor.level <= settings.level)
            && (settings.keywords == Keyword(0)
                || descriptor.keyword == Keyword(0)
                || descriptor.keyword.0 & settings.keywords.0 != 0);
        is_wanted.then_some(Routed { log, record, time, report: None })
    }

    fn store_in(&mut self, index: usize, sequence: i64, routed: &[Routed<'_>]) {
        let session = self.session;
        let log = &mut self.logs[index];
        if log.file.is_none() {
            log.open(session);
        }
        let Some(file) = &mut log.file else {
            log.lost += routed.iter().filter(|one| one.log == index).count() as u64;
            return;
        };
        if file.has(sequence) {
            return;
        }
        let (writer, access, channel) = (&mut self.writer, &log.access, &log.channel.name);
        let users = &mut self.users;
        let mut may_write =
            |record: &EventRecord<'_>| access.allows(users.writer_of(record), Rights::WRITE);
        let (allowed, denied): (Vec<_>, Vec<_>) =
            routed.iter().filter(|one| one.log == index).partition(|one| may_write(&one.record));
        let before = file.next_id().unwrap_or(0);
        let mut known = 0;
        let stored = file.store(sequence, &mut |pending: &mut Pending<'_>| {
            known = pending.known();
            for one in &allowed {
                match &one.report {
                    None => writer.push(pending, &one.record, one.time, channel)?,
                    Some(report) => {
                        writer.push_report(pending, &one.record, report, (one.time, channel))?;
                    }
                }
            }
            Ok(())
        });
        let written = file.next_id().unwrap_or(0).saturating_sub(before) + known;
        log.lost += (allowed.len() as u64).saturating_sub(written) + denied.len() as u64;
        log.failure = stored.err().map(|error| error.to_string());
    }

    /// Clears the log of a channel; see [`LogFile::clear`].
    ///
    /// # Errors
    /// `NotFound`: no such log is kept. Those of the system.
    pub fn clear(&mut self, name: &str, backup: Option<&Path>) -> io::Result<()> {
        let index = self.names.get(&name.to_lowercase());
        let log = index.and_then(|index| self.logs.get_mut(*index)?.file.as_mut());
        log.ok_or(io::ErrorKind::NotFound)?.clear(backup)
    }

    /// Whether this session keeps the log of a channel.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains_key(&name.to_lowercase())
    }

    /// The states of the logs.
    pub fn states(&self) -> Vec<LogState> {
        let state = |log: &ChannelLog| LogState {
            name: log.channel.name.clone(),
            next_id: log.file.as_ref().and_then(LogFile::next_id),
            lost: log.lost,
            failure: log.failure.clone().or_else(|| log.warning.clone()),
        };
        self.logs.iter().map(state).collect()
    }

    /// Closes the logs.
    pub fn finish(&mut self) {
        self.logs.iter_mut().for_each(ChannelLog::finish);
    }
}

impl ChannelLog {
    fn open(&mut self, session: u64) {
        let settings = &self.channel.settings;
        let when_full = match (settings.retention, settings.auto_backup) {
            (false, _) => WhenFull::Overwrite,
            (true, false) => WhenFull::Refuse,
            (true, true) => WhenFull::Archive,
        };
        let limit = Limit { max_size: settings.max_size, when_full };
        self.warning = None;
        let opened = LogFile::open(&settings.file, limit, session).and_then(|mut file| {
            match file.set_access(&self.access) {
                // The log is kept, though fewer users can read it.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    self.warning = Some(error.to_string());
                    Ok(file)
                }
                other => other.map(|()| file),
            }
        });
        match opened {
            Ok(file) => (self.file, self.failure) = (Some(file), None),
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    fn finish(&mut self) {
        if let Some(mut file) = self.file.take()
            && let Err(error) = file.finish()
        {
            self.failure = Some(error.to_string());
        }
    }
}

/// Whether a channel's events are kept in an event log.
pub fn is_kept(channel: &Channel) -> bool {
    channel.settings.is_enabled && !channel.kind.is_direct()
}

/// Users who wrote events, with the groups that they had at their first event since the registry was read.
#[derive(Debug)]
struct Users {
    /// The user whose host keeps the logs.
    owner: u32,
    known: HashMap<u32, User>,
}

impl Users {
    /// The user of the program that wrote an event: the host put the SID into it.
    fn writer_of(&mut self, record: &EventRecord<'_>) -> &User {
        let sid = record.extended.find(ExtType::SID);
        let uid = sid.and_then(|sid| match sid {
            [1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, uid @ ..] => {
                Some(u32::from_le_bytes(uid.try_into().ok()?))
            }
            _ => None,
        });
        // An event without a SID is of a program of the host's owner.
        let (uid, owner) = (uid.unwrap_or(self.owner), self.owner);
        self.known.entry(uid).or_insert_with(|| User::of(uid, groups_of(uid), owner))
    }
}
