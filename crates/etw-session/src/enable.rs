//! Enablements: what one session asks of one provider.

use std::fmt;

use etw_types::{IdFilter, LevelKeyword, NameFilter, StackFilter};

use crate::event::Event;
use crate::filter_error::FilterError;
use crate::payload::{MAX_CONDITIONS, PayloadFilter};

/// The request of one session to one provider.
#[doc(alias = "ENABLE_TRACE_PARAMETERS")]
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct EnableInfo {
    /// Level and keyword masks.
    pub wanted: LevelKeyword,
    /// Data to add to each event.
    pub properties: EnableProperties,
    /// Further conditions.
    pub filters: Option<Box<Filters>>,
}

impl EnableInfo {
    /// The filter for events that get a call stack; `None` if no event does.
    pub fn stacks(&self) -> Option<StackFilter> {
        let filters = || self.filters.as_ref().map(|filters| filters.stacks.clone());
        self.properties
            .contains(EnableProperties::STACK_TRACE)
            .then(filters)?
            .or(Some(StackFilter::default()))
    }
}

/// `EnableProperty` bits: the extended items that a session requests for each event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EnableProperties(pub u32);

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl EnableProperties {
            $($(#[$doc])* pub const $name: EnableProperties = EnableProperties($value);)*
        }

        impl fmt::Debug for EnableProperties {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut left = self.0;
                let mut names = Vec::new();
                $(if left & $value != 0 {
                    left &= !$value;
                    names.push(stringify!($name));
                })*
                write!(f, "EnableProperties({}", names.join(" | "))?;
                if left != 0 {
                    write!(f, " | {left:#x}")?;
                }
                f.write_str(")")
            }
        }
    };
}

properties! {
    /// The user's SID.
    SID = 0x001;
    /// The terminal session.
    TS_ID = 0x002;
    /// The call stack.
    STACK_TRACE = 0x004;
    /// Excludes events without a keyword.
    IGNORE_KEYWORD_0 = 0x010;
    /// The GUID names a provider group.
    PROVIDER_GROUP = 0x020;
    /// A key of the process that is not used twice.
    PROCESS_START_KEY = 0x080;
    /// Events written with the in-private flag are dropped.
    EXCLUDE_INPRIVATE = 0x200;
}

impl EnableProperties {
    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: EnableProperties) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Filters of one enablement. An event has to pass each that is set.
#[doc(alias = "EVENT_FILTER_DESCRIPTOR")]
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Filters {
    /// By event id: for events that are not TraceLogging's.
    pub event_ids: Option<IdFilter>,
    /// By event name: for TraceLogging events.
    pub event_names: Option<NameFilter>,
    /// Processes, at most 8; empty: all.
    pub process_ids: Vec<u32>,
    /// File names of programs, compared without case; empty: all.
    pub executables: Vec<String>,
    /// Channels of the descriptor; empty: all. Hosts of this project alone test it: the session of an Analytic or Debug channel
    /// records the events of its channel and no others.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub channels: Vec<u8>,
    /// Conditions on fields. If some of these filters are for an event, it must pass one of them; otherwise it passes.
    pub payload: Vec<PayloadFilter>,
    /// Bytes for the provider's callback, whose meaning the provider defines (`EVENT_FILTER_TYPE_SCHEMATIZED`); at most 1024.
    pub schematized: Vec<u8>,
    /// The filter for events that get a call stack, for enablements with [`EnableProperties::STACK_TRACE`].
    pub stacks: StackFilter,
}

impl Filters {
    /// Checks ETW's limits.
    ///
    /// # Errors
    /// The first limit that is broken: `ERROR_INVALID_PARAMETER` in ETW.
    pub fn check(&self) -> Result<(), FilterError> {
        for filter in [&self.event_ids, &self.stacks.event_ids].into_iter().flatten() {
            if filter.ids.len() > 64 {
                return Err(FilterError::EventIds(filter.ids.len()));
            }
        }
        for filter in [&self.event_names, &self.stacks.event_names].into_iter().flatten() {
            let size = 20 + filter.names.iter().map(|name| name.len() + 1).sum::<usize>();
            if size > 4096 {
                return Err(FilterError::EventNames(size));
            }
        }
        if self.process_ids.len() > 8 {
            return Err(FilterError::ProcessIds(self.process_ids.len()));
        }
        let units = self.executables.iter().map(|name| name.encode_utf16().count() + 1);
        let size = 2 * units.sum::<usize>();
        if size > 1024 {
            return Err(FilterError::Executables(size));
        }
        if self.schematized.len() > 1024 {
            return Err(FilterError::Schematized(self.schematized.len()));
        }
        let sizes = self.payload.iter().map(|filter| filter.conditions.len());
        match sizes.enumerate().find(|(_, size)| !(1..=MAX_CONDITIONS).contains(size)) {
            Some((number, _)) => Err(FilterError::Payload(number)),
            None => Ok(()),
        }
    }

    /// Whether an event passes.
    pub(crate) fn pass(&self, event: &Event<'_>) -> bool {
        if !self.process_ids.is_empty() && !self.process_ids.contains(&event.process_id) {
            return false;
        }
        if !self.executables.is_empty() {
            let Some(process) = event.process else { return false };
            let same = |name: &String| name.eq_ignore_ascii_case(&process.executable);
            if !self.executables.iter().any(same) {
                return false;
            }
        }
        if event.classic.is_some() {
            // It has neither channel, id nor name, and its fields are described elsewhere.
            return self.channels.is_empty();
        }
        let descriptor = &event.descriptor;
        // The manifests that an EventSource writes explain the events of all its channels.
        let is_manifest = descriptor.id == 0xfffe && descriptor.opcode.0 == 0xfe;
        if !self.channels.is_empty()
            && !self.channels.contains(&descriptor.channel.0)
            && !is_manifest
        {
            return false;
        }
        let name = event.tracelogging_name();
        if self.event_ids.as_ref().is_some_and(|filter| !filter.passes(&event.descriptor, name))
            || self.event_names.as_ref().is_some_and(|f| !f.passes(&event.descriptor, name))
        {
            return false;
        }
        self.payload.is_empty() || crate::payload::pass(&self.payload, event, name)
    }
}
