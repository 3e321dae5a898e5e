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
pub(crate) struct Plan {
    pub(crate) sources: [Option<Source>; FIELDS],
    /// The template has one `System`, and each of its elements is there once: nothing else can have a field's name.
    pub(crate) is_plain: bool,
}

impl Plan {
    pub(crate) fn get(&self, field: Field) -> Option<&Source> {
        self.sources[field as usize].as_ref()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Constant(String),
    Argument(u16),
}
