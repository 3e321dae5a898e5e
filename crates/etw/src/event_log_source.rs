//! [`EventLogSource`]: reports to the Event Log, as `ReportEvent` makes them.

use std::sync::{Arc, OnceLock};

use etw_types::{EVENT_SOURCES, EVENT_SOURCES_NAME, Keyword, Level, Status};

use crate::{EventBuilder, OutType, Provider, Registration};

/// The type of a report.
#[doc(alias = "EVENTLOG_ERROR_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReportType(pub u16);

impl ReportType {
    /// `EVENTLOG_SUCCESS`
    pub const SUCCESS: ReportType = ReportType(0);
    /// `EVENTLOG_ERROR_TYPE`
    pub const ERROR: ReportType = ReportType(1);
    /// `EVENTLOG_WARNING_TYPE`
    pub const WARNING: ReportType = ReportType(2);
    /// `EVENTLOG_INFORMATION_TYPE`
    pub const INFORMATION: ReportType = ReportType(4);
    /// `EVENTLOG_AUDIT_SUCCESS`
    pub const AUDIT_SUCCESS: ReportType = ReportType(8);
    /// `EVENTLOG_AUDIT_FAILURE`
    pub const AUDIT_FAILURE: ReportType = ReportType(16);

    /// The type of a level: critical and error, warning, and information for the others.
    pub const fn of_level(level: Level) -> ReportType {
        match level.0 {
            1 | 2 => ReportType::ERROR,
            3 => ReportType::WARNING,
            _ => ReportType::INFORMATION,
        }
    }
}

/// A report of a program.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Error, warning, information, …
    pub kind: ReportType,
    /// The category, which becomes the record's task.
    pub category: u16,
    /// The event id in the low 16 bits, its qualifiers in the high ones.
    pub id: u32,
    /// A user's SID, or empty.
    pub user: &'a [u8],
    /// Insertion strings of the message.
    pub strings: &'a [&'a str],
    /// Raw data.
    pub data: &'a [u8],
}

impl Default for Report<'_> {
    fn default() -> Self {
        Report {
            kind: ReportType::INFORMATION,
            category: 0,
            id: 0,
            user: &[],
            strings: &[],
            data: &[],
        }
    }
}

/// A source of reports in the Event Log (`RegisterEventSource`).
///
/// The daemon keeps the reports in the log `Application`, or in the log that the source names; no session needs to be started.
/// Reports of all sources travel through the provider `OpenEtw.EventSources`, which any session can record, too.
///
/// ```
/// use etw::{EventLogSource, Report, ReportType};
///
/// let source = EventLogSource::register("Shop");
/// let status = source.report(&Report {
///     kind: ReportType::ERROR,
///     id: 7,
///     strings: &["till 3", "out of paper"],
///     ..Report::default()
/// });
/// // Without a daemon, nobody keeps the report.
/// assert!(status.is_success() || status == EventLogSource::NOT_KEPT);
/// ```
///
/// # Loss
/// As [`EventBuilder::write`]; a full log refuses or overwrites records, as its settings say.
#[derive(Debug)]
pub struct EventLogSource {
    name: String,
    log: String,
}

/// The provider of this process, which lives as long as the process.
static SHARED: OnceLock<Option<(Arc<Provider>, Registration)>> = OnceLock::new();

fn shared() -> Option<&'static Arc<Provider>> {
    let made = SHARED.get_or_init(|| {
        let provider = Provider::dynamic(EVENT_SOURCES_NAME, EVENT_SOURCES, None).ok()?;
        let registration = provider.register_shared(None);
        Some((provider, registration))
    });
    made.as_ref().map(|(provider, _)| provider)
}

impl EventLogSource {
    /// The status of a report that nobody keeps: no daemon runs, or it keeps no logs (`RPC_S_SERVER_UNAVAILABLE`, 1722).
    pub const NOT_KEPT: Status = Status(1722);

    /// A source whose reports go to the log of the installed provider of the same name; without one, to `Application`.
    pub fn register(name: &str) -> EventLogSource {
        EventLogSource::register_in(name, "")
    }

    /// A source whose reports go to a log: `Application`, `System`, or a channel of an installed manifest.
    pub fn register_in(name: &str, log: &str) -> EventLogSource {
        shared();
        EventLogSource { name: name.to_owned(), log: log.to_owned() }
    }

    /// The source's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether anybody keeps or records reports now.
    pub fn is_kept(&self) -> bool {
        shared().is_some_and(|provider| provider.is_enabled(Level(0), Keyword(0)))
    }

    /// Reports an event.
    ///
    /// # Errors
    /// [`NOT_KEPT`](Self::NOT_KEPT); 534 for a report beyond 64 KiB; the others of [`EventBuilder::write`].
    #[doc(alias = "ReportEvent")]
    pub fn report(&self, report: &Report<'_>) -> Status {
        let Some(provider) = shared().filter(|_| self.is_kept()) else {
            return EventLogSource::NOT_KEPT;
        };
        let Report { kind, category, id, user, strings, data } = *report;
        let level = match kind {
            ReportType::ERROR => Level(2),
            ReportType::WARNING => Level(3),
            _ => Level(4),
        };
        let utf8 = OutType::UTF8;
        EventBuilder::new()
            .reset("Report", level, Keyword(0), 0)
            .add_str8("Log", &self.log, utf8, 0)
            .add_str8("Source", &self.name, utf8, 0)
            .add_u32("EventID", id, OutType::NULL, 0)
            .add_u16("Type", kind.0, OutType::NULL, 0)
            .add_u16("Category", category, OutType::NULL, 0)
            .add_binary("User", user, OutType::NULL, 0)
            .add_str8_sequence("Strings", strings.iter().map(|string| string.as_bytes()), utf8, 0)
            .add_binary("Data", data, OutType::NULL, 0)
            .write(provider, None, None)
    }
}
