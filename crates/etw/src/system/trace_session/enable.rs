//! `EnableTraceEx2`: an enablement's level, keywords, properties and filters as the system takes them.

use etw_session::{EnableInfo, EnableProperties, EventKey, Filters, PayloadFilter};
use etw_types::{Guid, IdFilter, LevelKeyword, LevelKeywordFilter, NameFilter, Status};

use super::api::{
    AggregatedFilter, EnableCode, EnableParameters, EnableTraceEx2, PayloadFilterHandle, Predicate,
};
use super::{Refusal, wide};
use etw_types::raw::RawFilterDescriptor;

/// Types of `EVENT_FILTER_DESCRIPTOR`.
const PID: u32 = 0x8000_0004;
const EXECUTABLE_NAME: u32 = 0x8000_0008;
const EVENT_ID: u32 = 0x8000_0200;
const EVENT_NAME: u32 = 0x8000_0400;
const STACKWALK: u32 = 0x8000_1000;
const STACKWALK_NAME: u32 = 0x8000_2000;
const STACKWALK_LEVEL_KW: u32 = 0x8000_4000;

/// One call of `EnableTraceEx2`.
pub struct Change<'a> {
    /// The session.
    pub handle: u64,
    pub provider: Guid,
    pub code: EnableCode,
    pub info: &'a EnableInfo,
    /// Milliseconds to wait for callbacks.
    pub timeout: u32,
}

impl Change<'_> {
    /// Makes the call for a session of this name.
    ///
    /// # Errors
    /// The system's refusal, or a filter that only this project's hosts support.
    pub fn apply_to(&self, session: &str) -> Result<(), Refusal> {
        let provider = self.provider;
        match self.apply()? {
            Status::ERROR_SUCCESS => Ok(()),
            // A program's callback is slow; the enablement holds.
            Status::ERROR_TIMEOUT => Ok(()),
            status @ Status::ERROR_NO_SYSTEM_RESOURCES => {
                let message = format!("provider {provider} is enabled in eight sessions already");
                Err(Refusal { status, message })
            }
            status => {
                Err(Refusal::of_call(session, &format!("change provider {provider} in"), status))
            }
        }
    }

    /// Makes the call; the system's status.
    fn apply(&self) -> Result<Status, Refusal> {
        let LevelKeyword { level, any, all, ignore_keyword_0 } = self.info.wanted;
        let filters = match &self.info.filters {
            Some(filters) => FilterMemory::new(&self.provider, filters)?,
            None => FilterMemory::default(),
        };
        let descriptors = filters.descriptors();
        let keyword_0 = if ignore_keyword_0 { EnableProperties::IGNORE_KEYWORD_0.0 } else { 0 };
        let parameters = EnableParameters {
            version: 2,
            property: self.info.properties.0 | keyword_0,
            control_flags: 0,
            source: Guid::ZERO,
            filters: match descriptors.is_empty() {
                true => std::ptr::null(),
                false => descriptors.as_ptr(),
            },
            filter_count: descriptors.len() as u32,
        };
        // SAFETY: the descriptors and their bytes live through the call.
        let status = unsafe {
            EnableTraceEx2(
                self.handle,
                &self.provider,
                self.code,
                level.0,
                any.0,
                all.0,
                self.timeout,
                &parameters,
            )
        };
        Ok(Status(status))
    }
}

/// The filters of an enablement in the form of the system.
#[derive(Default)]
struct FilterMemory {
    /// Type and bytes.
    filters: Vec<(u32, Vec<u8>)>,
    payload: Option<AggregatedFilter>,
}

impl FilterMemory {
    fn new(provider: &Guid, filters: &Filters) -> Result<FilterMemory, Refusal> {
        let Filters {
            event_ids,
            event_names,
            process_ids,
            executables,
            channels,
            payload,
            schematized,
            stacks,
        } = filters;
        if !channels.is_empty() {
            return Err(Refusal::not_supported(
                "Windows has no filter by channel; record without it, and select with --where when you read",
            ));
        }
        let mut memory = FilterMemory::default();
        let mut add = |kind, bytes: Option<Vec<u8>>| {
            memory.filters.extend(bytes.map(|bytes| (kind, bytes)));
        };
        let processes: Vec<u8> = process_ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        add(PID, (!processes.is_empty()).then_some(processes));
        add(EXECUTABLE_NAME, (!executables.is_empty()).then(|| names_of_files(executables)));
        add(EVENT_ID, event_ids.as_ref().map(ids));
        add(EVENT_NAME, event_names.as_ref().map(names));
        let schematized = (!schematized.is_empty()).then(|| schematized.clone());
        add(RawFilterDescriptor::SCHEMATIZED, schematized);
        add(STACKWALK, stacks.event_ids.as_ref().map(ids));
        add(STACKWALK_NAME, stacks.event_names.as_ref().map(names));
        add(STACKWALK_LEVEL_KW, stacks.level_keyword.as_ref().map(level_keyword));
        if !payload.is_empty() {
            memory.payload = Some(payload_filters(provider, payload)?);
        }
        Ok(memory)
    }

    fn descriptors(&self) -> Vec<RawFilterDescriptor> {
        let own = self.filters.iter().map(|(kind, bytes)| RawFilterDescriptor {
            address: bytes.as_ptr().expose_provenance() as u64,
            size: bytes.len() as u32,
            kind: *kind,
        });
        own.chain(self.payload.as_ref().map(|filter| filter.0)).collect()
    }
}

/// Names of executable files, separated by semicolons.
fn names_of_files(names: &[String]) -> Vec<u8> {
    wide(&names.join(";")).into_iter().flat_map(u16::to_le_bytes).collect()
}

/// `EVENT_FILTER_EVENT_ID`
fn ids(filter: &IdFilter) -> Vec<u8> {
    let mut bytes = vec![filter.include.into(), 0];
    bytes.extend((filter.ids.len() as u16).to_le_bytes());
    bytes.extend(filter.ids.iter().flat_map(|id| id.to_le_bytes()));
    bytes
}

/// The first 18 bytes of `EVENT_FILTER_EVENT_NAME` and `EVENT_FILTER_LEVEL_KW`.
fn level_and_keywords(of: &LevelKeyword, include: bool) -> Vec<u8> {
    let mut bytes = of.any.0.to_le_bytes().to_vec();
    bytes.extend(of.all.0.to_le_bytes());
    bytes.extend([of.level.0, include.into()]);
    bytes
}

/// `EVENT_FILTER_EVENT_NAME`
fn names(filter: &NameFilter) -> Vec<u8> {
    let mut bytes = level_and_keywords(&filter.of, filter.include);
    bytes.extend((filter.names.len() as u16).to_le_bytes());
    for name in &filter.names {
        bytes.extend(name.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// `EVENT_FILTER_LEVEL_KW`, with the padding at its end.
fn level_keyword(filter: &LevelKeywordFilter) -> Vec<u8> {
    let mut bytes = level_and_keywords(&filter.of, filter.include);
    bytes.resize(24, 0);
    bytes
}

/// Filters on fields, as the system compiles them from the manifest of a registered provider.
fn payload_filters(
    provider: &Guid,
    filters: &[PayloadFilter],
) -> Result<AggregatedFilter, Refusal> {
    let status_of = |status: Status| {
        let message = format!(
            "Windows cannot filter fields of {provider} ({status}): it needs Windows 8.1 and a registered manifest with the event \
             and its fields"
        );
        Refusal { status, message }
    };
    let mut handles = Vec::new();
    for filter in filters {
        let EventKey::Id { id, version } = &filter.of else {
            return Err(Refusal::not_supported(
                "Windows filters fields of events by id, with a registered manifest; fields of TraceLogging events cannot be \
                 filtered there: record without the payload filter, and select with --where when you read",
            ));
        };
        let mut descriptor = [0; 16];
        descriptor[..2].copy_from_slice(&id.to_le_bytes());
        descriptor[2] = version.unwrap_or(0);
        let texts: Vec<(Vec<u16>, u16, Vec<u16>)> = filter
            .conditions
            .iter()
            .map(|condition| {
                let values: Vec<&str> = condition.values().collect();
                (wide(&condition.field()), condition.op() as u16, wide(&values.join(",")))
            })
            .collect();
        let predicates: Vec<Predicate> = texts
            .iter()
            .map(|(field, operator, value)| Predicate {
                field: field.as_ptr(),
                operator: *operator,
                value: value.as_ptr(),
            })
            .collect();
        // SAFETY: texts with a NUL at their end, which live through the call.
        let handle =
            unsafe { PayloadFilterHandle::create(provider, &descriptor, filter.any, &predicates) };
        handles.push(handle.map_err(status_of)?);
    }
    let match_all: Vec<u8> = filters.iter().map(|filter| filter.match_all.into()).collect();
    AggregatedFilter::new(&handles, &match_all).map_err(status_of)
}
