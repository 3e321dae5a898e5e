//! [`Report`]: what a program gives to `ReportEvent`, on its way to a log.
//!
//! It travels as an event of the provider [`EVENT_SOURCES`](etw_types::EVENT_SOURCES), so that a host receives it as it receives
//! other events.

use etw_decode::Fields;

/// Types of reports (`EVENTLOG_ERROR_TYPE`, …) with the level that records of them have.
const LEVELS: &[(u16, u8)] = &[(1, 2), (2, 3), (4, 4), (8, 0), (16, 0)];
/// The keyword of records that are not of a manifest.
const CLASSIC: u64 = 0x80_0000_0000_0000;
/// Further keywords of records about audits.
const AUDIT_SUCCESS: u64 = 0x20_0000_0000_0000;
const AUDIT_FAILURE: u64 = 0x10_0000_0000_0000;

/// A report of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Name of the log.
    pub log: String,
    /// Name of the event source.
    pub source: String,
    /// Event id in the low half, qualifiers in the high one.
    pub id: u32,
    /// `EVENTLOG_ERROR_TYPE` and others.
    pub kind: u16,
    /// The category, a record's task.
    pub category: u16,
    /// The SID that the program named.
    pub user: Vec<u8>,
    /// Insertion strings.
    pub strings: Vec<String>,
    /// Raw data.
    pub data: Vec<u8>,
}

impl Report {
    /// Reads the fields of the event.
    pub(crate) fn read(fields: &Fields) -> Option<Report> {
        let number = |name: &str| fields.get(name)?.as_u64();
        let text = |name: &str| Some(fields.get(name)?.as_str()?.to_owned());
        let bytes = |name: &str| Some(fields.get(name)?.as_bytes()?.to_vec());
        let strings = fields.get("Strings")?.as_list()?.iter();
        Some(Report {
            log: text("Log")?,
            source: text("Source")?,
            id: u32::try_from(number("EventID")?).ok()?,
            kind: u16::try_from(number("Type")?).ok()?,
            category: u16::try_from(number("Category")?).ok()?,
            user: bytes("User")?,
            strings: strings.map(|string| string.as_str().unwrap_or_default().to_owned()).collect(),
            data: bytes("Data")?,
        })
    }

    /// Level of the record.
    pub fn level(&self) -> u8 {
        let known = LEVELS.iter().find(|(kind, _)| *kind == self.kind);
        // EVENTLOG_SUCCESS is information, as in the Event Viewer.
        known.map_or(4, |(_, level)| *level)
    }

    /// Keywords of the record.
    pub fn keywords(&self) -> u64 {
        CLASSIC
            | match self.kind {
                8 => AUDIT_SUCCESS,
                16 => AUDIT_FAILURE,
                _ => 0,
            }
    }
}
