//! The sources of the fields of `System` in a template.

/// The fields of `System`, in the order of Windows' own template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    ProviderName,
    ProviderGuid,
    EventSourceName,
    EventId,
    Qualifiers,
    Version,
    Level,
    Task,
    Opcode,
    Keywords,
    TimeCreated,
    RecordId,
    ActivityId,
    RelatedActivityId,
    ProcessId,
    ThreadId,
    Channel,
    Computer,
    UserId,
}

pub(crate) const FIELDS: usize = Field::UserId as usize + 1;

/// The source of each field in one template, computed once.
#[derive(Debug, Default)]
pub(crate) struct Plan(pub(crate) [Option<Source>; FIELDS]);

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Constant(String),
    Argument(u16),
}
