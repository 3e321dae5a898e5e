//! `EnableTrace`, `EnableTraceEx` and `EnableTraceEx2`: a session enables or disables a provider.

use std::time::{Duration, Instant};

use etw_api::{Guid, Status};
use etw_session::EnableInfo;
use etw_system::system_providers::is_system_provider;
use etw_types::{Keyword, Level, LevelKeyword};
use etw_wire::requests::{Request, Response};

use super::filters;
use super::{host, private, sessions};
use crate::abi::{RawFilterDescriptor, RawGuid, guarded, guid_of};

const DISABLE: u32 = 0;
const ENABLE: u32 = 1;
const CAPTURE_STATE: u32 = 2;

/// `ENABLE_TRACE_PARAMETERS_V1`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawParametersV1 {
    version: u32,
    property: u32,
    control_flags: u32,
    source: RawGuid,
    filters: *const RawFilterDescriptor,
}

/// `ENABLE_TRACE_PARAMETERS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawParameters {
    first: RawParametersV1,
    filter_count: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<RawParametersV1>() == 0x28 && size_of::<RawParameters>() == 0x30);

/// The request of one of the calls.
struct Wanted {
    handle: u64,
    provider: Guid,
    code: u32,
    level: u8,
    any: u64,
    all: u64,
    timeout_ms: u32,
    /// Enablement properties and filters.
    info: EnableInfo,
}

/// # Safety
/// ONE `provider`; ONE `parameters`, with ARRAY for its filters and BYTES for each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnableTraceEx2(
    handle: u64,
    provider: *const RawGuid,
    code: u32,
    level: u8,
    any: u64,
    all: u64,
    timeout_ms: u32,
    parameters: *const RawParameters,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE, ARRAY, BYTES.
        let info = match unsafe { read_parameters(parameters) } {
            Ok(info) => info,
            Err(status) => return status,
        };
        // SAFETY: ONE.
        let Some(provider) = (unsafe { provider_of(provider) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        enable(Wanted { handle, provider, code, level, any, all, timeout_ms, info })
    })
}

/// # Safety
/// ONE `provider`; ONE `filter`, with BYTES.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnableTraceEx(
    provider: *const RawGuid,
    _source: *const RawGuid,
    handle: u64,
    is_enabled: u32,
    level: u8,
    any: u64,
    all: u64,
    property: u32,
    filter: *const RawFilterDescriptor,
) -> u32 {
    guarded(|| {
        // SAFETY: ARRAY of one element, or of none for NULL.
        let info = match unsafe { wanted_info(property, filter, u32::from(!filter.is_null())) } {
            Ok(info) => info,
            Err(status) => return status,
        };
        // SAFETY: ONE.
        let Some(provider) = (unsafe { provider_of(provider) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let code = is_enabled;
        if code > ENABLE {
            return Status::ERROR_INVALID_PARAMETER;
        }
        enable(Wanted { handle, provider, code, level, any, all, timeout_ms: 0, info })
    })
}

/// # Safety
/// ONE `provider`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnableTrace(
    is_enabled: u32,
    flags: u32,
    level: u32,
    provider: *const RawGuid,
    handle: u64,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let (Some(provider), Ok(level)) = (unsafe { provider_of(provider) }, u8::try_from(level))
        else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        enable(Wanted {
            handle,
            provider,
            code: if is_enabled == 0 { DISABLE } else { ENABLE },
            level,
            any: u64::from(flags),
            all: 0,
            timeout_ms: 0,
            info: EnableInfo::default(),
        })
    })
}

/// The GUID of a provider; `None` for NULL and for the GUID of zeros.
///
/// # Safety
/// ONE `at`.
unsafe fn provider_of(at: *const RawGuid) -> Option<Guid> {
    // SAFETY: ONE.
    unsafe { guid_of(at) }.filter(|id| !id.is_zero())
}

/// # Safety
/// ONE `at`, as the structure of its version; ARRAY for its filters, and BYTES for each.
unsafe fn read_parameters(at: *const RawParameters) -> Result<EnableInfo, Status> {
    if at.is_null() {
        return Ok(EnableInfo::default());
    }
    // SAFETY: ONE: both versions start with the number of the version, and version 1 is the start of version 2.
    let first = unsafe {
        match (&raw const (*at).first.version).read_unaligned() {
            1 | 2 => (&raw const (*at).first).read_unaligned(),
            _ => return Err(Status::ERROR_INVALID_PARAMETER),
        }
    };
    if first.control_flags != 0 {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    let count = match first.version {
        1 => u32::from(!first.filters.is_null()),
        // SAFETY: ONE: version 2 has the count.
        _ => unsafe { (&raw const (*at).filter_count).read_unaligned() },
    };
    // SAFETY: ARRAY, BYTES.
    unsafe { wanted_info(first.property, first.filters, count) }
}

/// # Safety
/// ARRAY `descriptors`, `count`, and BYTES for each.
unsafe fn wanted_info(
    property: u32,
    descriptors: *const RawFilterDescriptor,
    count: u32,
) -> Result<EnableInfo, Status> {
    let properties = filters::properties(property)?;
    let mut info = EnableInfo { properties, ..EnableInfo::default() };
    // SAFETY: ARRAY, BYTES.
    unsafe { filters::read(descriptors, count, &mut info)? };
    Ok(info)
}

fn enable(wanted: Wanted) -> Status {
    let done = || -> Result<(), Status> {
        let Wanted { handle, provider, code, level, any, all, timeout_ms, mut info } = wanted;
        let bad_handle = |status| match status {
            // For these functions, a handle of no session is an invalid parameter.
            Status::ERROR_WMI_INSTANCE_NOT_FOUND => Status::ERROR_INVALID_PARAMETER,
            other => other,
        };
        if handle == 0 || code > CAPTURE_STATE {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        let ignore_keyword_0 =
            info.properties.contains(etw_session::EnableProperties::IGNORE_KEYWORD_0);
        let (level, any, all) = (Level(level), Keyword(any), Keyword(all));
        info.wanted = LevelKeyword { level, any, all, ignore_keyword_0 };
        if code == CAPTURE_STATE && info.filters.is_some() {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        if let Some(private) = private::find(handle, None) {
            match code {
                DISABLE => private.disable(&provider),
                CAPTURE_STATE => private.capture_state(&provider, level, any),
                _ => private.enable(&provider, info)?,
            }
            return Ok(());
        }
        let client = host::connect().map_err(bad_handle)?;
        let session = sessions::by_handle(&client, handle).map_err(bad_handle)?.name;
        let request = match code {
            DISABLE => Request::Disable { session, provider: provider.into() },
            CAPTURE_STATE => Request::CaptureState { session, provider, level, any, all },
            _ => Request::Enable { session, provider: provider.into(), info, timeout_ms },
        };
        let began = Instant::now();
        let timeout = Duration::from_millis(u64::from(timeout_ms));
        match host::ask(&client, &request)? {
            // The warnings name programs that have not acknowledged the enablement. It is in effect all the same.
            Response::Done { warnings }
                if code == ENABLE
                    && timeout_ms > 0
                    && !is_system_provider(&provider)
                    && !warnings.is_empty()
                    && began.elapsed() >= timeout =>
            {
                Err(Status::ERROR_TIMEOUT)
            }
            _ => Ok(()),
        }
    };
    done().err().unwrap_or(Status::ERROR_SUCCESS)
}
