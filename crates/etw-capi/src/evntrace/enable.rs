//! `EnableTrace`, `EnableTraceEx` and `EnableTraceEx2`: what a session wants of a provider.

use std::time::{Duration, Instant};

use etw_api::{Guid, Status};
use etw_session::EnableInfo;
use etw_types::LevelKeyword;
use etw_wire::control::{Request, Response};

use super::filters::{self, RawDescriptor};
use super::{host, private, sessions};
use crate::abi::{RawGuid, guarded};

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
    filters: *const RawDescriptor,
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

/// What one of the calls asks for.
struct Wanted {
    handle: u64,
    provider: Guid,
    code: u32,
    level: u8,
    any: u64,
    all: u64,
    timeout_ms: u32,
    /// Properties and filters.
    info: EnableInfo,
}

/// # Safety
/// As the header says.
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
        // SAFETY: the caller's promise.
        let info = match unsafe { read_parameters(parameters) } {
            Ok(info) => info,
            Err(status) => return status,
        };
        // SAFETY: the caller's promise.
        let Some(provider) = (unsafe { guid(provider) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        enable(Wanted { handle, provider, code, level, any, all, timeout_ms, info })
    })
}

/// # Safety
/// As the header says.
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
    filter: *const RawDescriptor,
) -> u32 {
    guarded(|| {
        // SAFETY: the caller's promise: NULL, or one descriptor.
        let info = match unsafe { wanted_info(property, filter, u32::from(!filter.is_null())) } {
            Ok(info) => info,
            Err(status) => return status,
        };
        // SAFETY: the caller's promise.
        let Some(provider) = (unsafe { guid(provider) }) else {
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
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnableTrace(
    is_enabled: u32,
    flags: u32,
    level: u32,
    provider: *const RawGuid,
    handle: u64,
) -> u32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (Some(provider), Ok(level)) = (unsafe { guid(provider) }, u8::try_from(level)) else {
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

/// # Safety
/// NULL, or a GUID.
unsafe fn guid(at: *const RawGuid) -> Option<Guid> {
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { at.read_unaligned() }.guid()).filter(|id| !id.is_zero())
}

/// # Safety
/// NULL, or parameters of their version.
unsafe fn read_parameters(at: *const RawParameters) -> Result<EnableInfo, Status> {
    if at.is_null() {
        return Ok(EnableInfo::default());
    }
    // SAFETY: the caller's promise: both versions begin with the number of the version, and the older one is part of the newer one.
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
        // SAFETY: as above.
        _ => unsafe { (&raw const (*at).filter_count).read_unaligned() },
    };
    // SAFETY: the caller's promise.
    unsafe { wanted_info(first.property, first.filters, count) }
}

/// # Safety
/// So many descriptors.
unsafe fn wanted_info(
    property: u32,
    descriptors: *const RawDescriptor,
    count: u32,
) -> Result<EnableInfo, Status> {
    let properties = filters::properties(property)?;
    let mut info = EnableInfo { properties, ..EnableInfo::default() };
    // SAFETY: the caller's promise.
    unsafe { filters::read(descriptors, count, &mut info)? };
    Ok(info)
}

fn enable(wanted: Wanted) -> Status {
    let done = || -> Result<(), Status> {
        let Wanted { handle, provider, code, level, any, all, timeout_ms, mut info } = wanted;
        let bad_handle = |status| match status {
            // A handle that leads to no session is one of the wrong arguments here.
            Status::ERROR_WMI_INSTANCE_NOT_FOUND => Status::ERROR_INVALID_PARAMETER,
            other => other,
        };
        if handle == 0 || code > CAPTURE_STATE {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        let ignore_keyword_0 =
            info.properties.contains(etw_session::EnableProperties::IGNORE_KEYWORD_0);
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
            DISABLE => Request::Disable { session, provider },
            CAPTURE_STATE => Request::CaptureState { session, provider, level, any, all },
            _ => Request::Enable { session, provider, info, timeout_ms },
        };
        let began = Instant::now();
        let timeout = Duration::from_millis(u64::from(timeout_ms));
        match host::ask(&client, &request)? {
            // Programs that have not answered are what the warnings tell; it is set all the same.
            Response::Done { warnings }
                if code == ENABLE
                    && timeout_ms > 0
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
