//! The filters of an enablement, from `EVENT_FILTER_DESCRIPTOR`s.

use etw_api::Status;
use etw_session::{
    EnableInfo, EnableProperties, Filters, IdFilter, LevelKeywordFilter, NameFilter,
};
use etw_types::{Keyword, Level, LevelKeyword, le};

use crate::abi::{RawFilterDescriptor, bytes, pointer};
use crate::tdh::payload_filter;

/// `MAX_EVENT_FILTERS_COUNT`
const MOST_FILTERS: u32 = 13;
/// `MAX_EVENT_FILTER_EVENT_ID_COUNT`
const MOST_IDS: u16 = 64;
/// `MAX_EVENT_FILTER_PID_COUNT`
const MOST_PROCESSES: usize = 8;

const NONE: u32 = 0;
const SCHEMATIZED: u32 = 0x8000_0000;
const SYSTEM_FLAGS: u32 = 0x8000_0001;
const TRACE_HANDLE: u32 = 0x8000_0002;
const PID: u32 = 0x8000_0004;
const EXECUTABLE_NAME: u32 = 0x8000_0008;
const PACKAGE_ID: u32 = 0x8000_0010;
const PACKAGE_APP_ID: u32 = 0x8000_0020;
const PAYLOAD: u32 = 0x8000_0100;
const EVENT_ID: u32 = 0x8000_0200;
const EVENT_NAME: u32 = 0x8000_0400;
const STACKWALK: u32 = 0x8000_1000;
const STACKWALK_NAME: u32 = 0x8000_2000;
const STACKWALK_LEVEL_KW: u32 = 0x8000_4000;
const CONTAINER: u32 = 0x8000_8000;

/// The size limit of a filter in bytes, by its kind; `None` for an unknown kind.
fn limit(kind: u32) -> Option<usize> {
    Some(match kind {
        NONE => 0,
        SCHEMATIZED | EXECUTABLE_NAME | PACKAGE_ID | PACKAGE_APP_ID | SYSTEM_FLAGS => 1024,
        TRACE_HANDLE => 8,
        PID => 4 * MOST_PROCESSES,
        PAYLOAD | EVENT_NAME | STACKWALK_NAME => 4096,
        // In C, the structure ends with an array of one element, so programs may add that element and its alignment to the size.
        EVENT_ID | STACKWALK => 4 + 2 * (MOST_IDS as usize + 1),
        STACKWALK_LEVEL_KW => 24,
        CONTAINER => 1024,
        _ => return None,
    })
}

/// Reads filter descriptors into an enablement.
///
/// # Errors
/// 87: a filter is of unknown kind, given twice, too large, truncated, or does not apply to the enablement. 50: only Windows has the filter.
///
/// # Safety
/// ARRAY `descriptors`, `count`, and BYTES for each.
pub unsafe fn read(
    descriptors: *const RawFilterDescriptor,
    count: u32,
    info: &mut EnableInfo,
) -> Result<(), Status> {
    if count > MOST_FILTERS || (count > 0 && descriptors.is_null()) {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    let is_group = info.properties.contains(EnableProperties::PROVIDER_GROUP);
    let has_stacks = info.properties.contains(EnableProperties::STACK_TRACE);
    let mut filters = Filters::default();
    let mut seen = Vec::new();
    let mut is_supported = true;
    for number in 0..count as usize {
        // SAFETY: ARRAY.
        let descriptor = unsafe { descriptors.add(number).read_unaligned() };
        let RawFilterDescriptor { address, size, kind } = descriptor;
        let size = size as usize;
        let fits = limit(kind).is_some_and(|limit| size <= limit);
        if !fits || seen.contains(&kind) || (size > 0 && address == 0) {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        if kind == NONE {
            continue;
        }
        seen.push(kind);
        // SAFETY: BYTES.
        let bytes = unsafe { bytes(pointer(address), size) }.unwrap_or_default().to_vec();
        let filter = || -> Option<()> {
            match kind {
                PID => filters.process_ids = processes(&bytes)?,
                EXECUTABLE_NAME => filters.executables = executables(&bytes)?,
                EVENT_ID if !is_group => filters.event_ids = Some(ids(&bytes)?),
                EVENT_NAME if !is_group => filters.event_names = Some(names(&bytes)?),
                EVENT_ID | EVENT_NAME => return None,
                PAYLOAD if is_group => return None,
                PAYLOAD => filters.payload = payload_filter::of_descriptor(&bytes)?,
                SCHEMATIZED => filters.schematized = bytes,
                STACKWALK | STACKWALK_NAME | STACKWALK_LEVEL_KW if !has_stacks => return None,
                STACKWALK => filters.stacks.event_ids = Some(ids(&bytes)?),
                STACKWALK_NAME => filters.stacks.event_names = Some(names(&bytes)?),
                STACKWALK_LEVEL_KW => filters.stacks.level_keyword = Some(level_keyword(&bytes)?),
                _ => is_supported = false,
            }
            Some(())
        };
        filter().ok_or(Status::ERROR_INVALID_PARAMETER)?;
    }
    if !is_supported {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    filters.check().map_err(|_| Status::ERROR_INVALID_PARAMETER)?;
    if filters != Filters::default() {
        info.filters = Some(Box::new(filters));
    }
    Ok(())
}

fn processes(bytes: &[u8]) -> Option<Vec<u32>> {
    let (ids, rest) = bytes.as_chunks::<4>();
    (!ids.is_empty() && rest.is_empty())
        .then(|| ids.iter().map(|id| u32::from_ne_bytes(*id)).collect())
}

/// File names in UTF-16, separated by `;`. A NUL may follow the last one.
fn executables(bytes: &[u8]) -> Option<Vec<String>> {
    let (units, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = units.iter().map(|unit| u16::from_ne_bytes(*unit)).collect();
    let text = String::from_utf16(units.split(|unit| *unit == 0).next()?).ok()?;
    let names: Vec<String> =
        text.split(';').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    (!names.is_empty() && rest.is_empty()).then_some(names)
}

/// `EVENT_FILTER_EVENT_ID`
fn ids(bytes: &[u8]) -> Option<IdFilter> {
    let count = le::u16(bytes, 2).filter(|count| (1..=MOST_IDS).contains(count))?;
    let ids: Option<Vec<u16>> =
        (0..usize::from(count)).map(|number| le::u16(bytes, 4 + 2 * number)).collect();
    Some(IdFilter { include: bytes[0] != 0, ids: ids? })
}

/// `EVENT_FILTER_EVENT_NAME`
fn names(bytes: &[u8]) -> Option<NameFilter> {
    let count = usize::from(le::u16(bytes, 18).filter(|count| *count > 0)?);
    // Each name ends with a NUL.
    let ends = bytes[20..].iter().filter(|byte| **byte == 0).count();
    let names = bytes[20..].split(|byte| *byte == 0).take(count);
    let names: Result<Vec<String>, _> =
        names.map(|name| std::str::from_utf8(name).map(str::to_owned)).collect();
    let names = names.ok().filter(|_| ends >= count)?;
    let LevelKeywordFilter { of, include } = level_keyword(&bytes[..20])?;
    Some(NameFilter { of, include, names })
}

/// `EVENT_FILTER_LEVEL_KW`, which is also the start of `EVENT_FILTER_EVENT_NAME`.
fn level_keyword(bytes: &[u8]) -> Option<LevelKeywordFilter> {
    let of = LevelKeyword {
        level: Level(*bytes.get(16)?),
        any: Keyword(le::u64(bytes, 0)?),
        all: Keyword(le::u64(bytes, 8)?),
        ignore_keyword_0: false,
    };
    Some(LevelKeywordFilter { of, include: *bytes.get(17)? != 0 })
}

/// The bits of `EnableProperty` that the daemon supports.
///
/// # Errors
/// 87: a bit is unknown. 50: Linux has no counterpart of a bit.
pub fn properties(bits: u32) -> Result<EnableProperties, Status> {
    /// Includes events without a keyword, which is the default here.
    const ENABLE_KEYWORD_0: u32 = 0x040;
    /// Packages, event keys, silos and containers.
    const ELSEWHERE: u32 = 0x008 | 0x100 | 0x400 | 0x800;
    const KNOWN: u32 = EnableProperties::SID.0
        | EnableProperties::TS_ID.0
        | EnableProperties::STACK_TRACE.0
        | EnableProperties::IGNORE_KEYWORD_0.0
        | EnableProperties::PROVIDER_GROUP.0
        | EnableProperties::PROCESS_START_KEY.0
        | EnableProperties::EXCLUDE_INPRIVATE.0;
    if bits & !(KNOWN | ELSEWHERE | ENABLE_KEYWORD_0) != 0 {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    if bits & ELSEWHERE != 0 {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    Ok(EnableProperties(bits & KNOWN))
}
