//! [`Source`]: where a schema comes from. [`Reason`]: why there is none.

use crate::event_info::EventInfoError;
use crate::tracelogging::SchemaError;
use crate::walk::PayloadError;
use std::borrow::Cow;
use std::fmt;

/// The source of a record's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The table of the EventTrace group.
    Header,
    /// The event's own metadata.
    TraceLogging,
    /// A TRACE_EVENT_INFO in the trace.
    EventInfo,
    /// A manifest that the user named.
    Manifest,
    /// A manifest that an EventSource wrote into the trace.
    EventSource,
    /// The table of the kernel's classes.
    Kernel,
    /// The table of `Universal.System`.
    Universal,
    /// A MOF class that the user named.
    Mof,
    /// The format of a WPP message.
    Wpp,
    /// The payload is one string.
    String,
    /// An event log's record, which has its own names and types.
    EventLog,
}

impl Source {
    /// The value of `decoded` in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Header => "header",
            Source::TraceLogging => "tracelogging",
            Source::EventInfo => "event_info",
            Source::Manifest => "manifest",
            Source::EventSource => "eventsource",
            Source::Kernel => "kernel",
            Source::Universal => "universal",
            Source::Mof => "mof",
            Source::Wpp => "wpp",
            Source::String => "string",
            Source::EventLog => "evtx",
        }
    }
}

/// Why a record is not decoded, and what would help. Texts of variants without data are stable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// An event of `EventWrite` without a schema, of a provider without a name.
    NoManifest,
    /// An event of `EventWrite` without a schema, of this provider of Windows or .NET.
    NoManifestOf(&'static str),
    /// An event that its provider's manifest does not have.
    NotInManifest,
    /// An event on the TraceLogging channel without its metadata.
    NoMetadata,
    /// A WPP message.
    NoMessageFormat,
    /// A WPP message that is not among this many formats.
    NotInFormats(usize),
    /// A kernel record.
    NoKernelClass,
    /// A kernel record of a group that no source names.
    UnknownGroup,
    /// A classic event.
    NoClass,
    /// A record that replaces an event that could not be written.
    ErrorRecord,
    /// An obsolete record.
    Wnode,
    /// The event's own metadata is bad.
    TraceLogging(SchemaError),
    /// The TRACE_EVENT_INFO in the trace is bad.
    EventInfo(EventInfoError),
    /// The payload does not fit the schema.
    Payload(PayloadError),
    /// Fields at the end of the schema are unknown, for this reason.
    Incomplete(Box<str>),
}

impl Reason {
    /// The text. Only variants with data allocate.
    pub fn text(&self) -> Cow<'static, str> {
        self.fixed_text().map_or_else(|| Cow::Owned(self.to_string()), Cow::Borrowed)
    }

    /// The text of a variant without data.
    const fn fixed_text(&self) -> Option<&'static str> {
        Some(match self {
            Reason::NoManifest => "no schema: the provider's manifest is needed",
            Reason::NotInManifest => {
                "no schema: the provider's manifest has no event of this id and version"
            }
            Reason::NoMetadata => "no schema: a TraceLogging event without its metadata",
            Reason::NoMessageFormat => "no schema: the TMF of this WPP message is needed",
            Reason::NoKernelClass => "no schema: kernel class not known",
            Reason::UnknownGroup => "no schema: unknown kernel event group",
            Reason::NoClass => "no schema: the MOF class of this GUID is needed",
            Reason::ErrorRecord => "error record: an event could not be written",
            Reason::Wnode => "obsolete WNODE record",
            Reason::NoManifestOf(_)
            | Reason::NotInFormats(_)
            | Reason::TraceLogging(_)
            | Reason::EventInfo(_)
            | Reason::Payload(_)
            | Reason::Incomplete(_) => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoManifestOf(provider) => write!(
                f,
                "no schema: the manifest of {provider} is needed; name it with --manifest, or gather it from a Windows with etw pack create"
            ),
            Reason::NotInFormats(count) => write!(
                f,
                "no schema: the TMF of this WPP message is needed; it is not among the {count} messages of those given"
            ),
            Reason::TraceLogging(error) => write!(f, "bad TraceLogging metadata: {error}"),
            Reason::EventInfo(error) => write!(f, "bad TRACE_EVENT_INFO: {error}"),
            Reason::Payload(error) => write!(f, "payload does not fit the schema: {error}"),
            Reason::Incomplete(what) => write!(f, "the schema is not complete: {what}"),
            fixed => f.write_str(fixed.fixed_text().unwrap_or_default()),
        }
    }
}

impl std::error::Error for Reason {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Reason::TraceLogging(error) => Some(error),
            Reason::EventInfo(error) => Some(error),
            Reason::Payload(error) => Some(error),
            _ => None,
        }
    }
}
