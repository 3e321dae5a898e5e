//! The system's functions and structures for its other questions: all sessions, all providers, and events of the kernel.

use std::ffi::c_void;

use etw_types::raw::RawProperties;
use etw_types::{Guid, Status};

use crate::system::api::{Function, Optional};

/// `CLASSIC_EVENT_ID`
#[repr(C)]
pub struct ClassicEventId {
    pub class: Guid,
    pub kind: u8,
    pub reserved: [u8; 7],
}

/// `TRACE_PROFILE_INTERVAL`
#[repr(C)]
pub struct ProfileInterval {
    /// 0: the timer.
    pub source: u32,
    /// 100 ns
    pub interval: u32,
}

#[link(name = "advapi32")]
unsafe extern "system" {
    pub fn QueryAllTracesW(
        properties: *const *mut RawProperties,
        count: u32,
        found: *mut u32,
    ) -> u32;
}

/// Classes of `TraceSetInformation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SessionInformation {
    StackTracing = 3,
    SystemFlags = 4,
    SampleInterval = 5,
}

/// Since Windows 7.
static TRACE_SET_INFORMATION: Optional = Optional::new(c"advapi32.dll", c"TraceSetInformation");
/// Since Windows Vista.
static ENUMERATE_TRACE_GUIDS: Optional = Optional::new(c"advapi32.dll", c"EnumerateTraceGuidsEx");
/// Since Windows Vista.
static ENUMERATE_PROVIDERS: Optional = Optional::in_library(c"tdh.dll", c"TdhEnumerateProviders");
/// `TraceSetInformation`. `ERROR_NOT_SUPPORTED` where the system lacks it.
pub fn set_information<T>(handle: u64, class: SessionInformation, data: &[T]) -> Status {
    type Set = unsafe extern "system" fn(u64, SessionInformation, *const c_void, u32) -> u32;
    let Some(function) = TRACE_SET_INFORMATION.get() else { return Status::ERROR_NOT_SUPPORTED };
    // SAFETY: the signature of `evntrace.h`; the system reads so many bytes.
    unsafe {
        let function = std::mem::transmute::<Function, Set>(function);
        Status(function(handle, class, data.as_ptr().cast(), size_of_val(data) as u32))
    }
}

/// The status of a buffer that is too small.
pub const ERROR_INSUFFICIENT_BUFFER: u32 = 122;
/// Bytes of the largest list that is asked for.
const MAX_LIST_SIZE: usize = 64 << 20;

/// Calls a function that fills a buffer and says how large it must be, until it fits. The list may grow meanwhile.
fn list(mut fill: impl FnMut(&mut [u64], &mut u32) -> u32) -> Result<Vec<u64>, Status> {
    let mut words = vec![0u64; 8 << 10];
    loop {
        let mut size = size_of_val(&words[..]) as u32;
        match fill(&mut words, &mut size) {
            0 => return Ok(words),
            ERROR_INSUFFICIENT_BUFFER if words.len() * 8 < MAX_LIST_SIZE => {
                let wanted = (size as usize).div_ceil(8).max(2 * words.len());
                words.resize(wanted.min(MAX_LIST_SIZE / 8), 0);
            }
            status => return Err(Status(status)),
        }
    }
}

/// `TdhEnumerateProviders`: `PROVIDER_ENUMERATION_INFO`.
///
/// # Errors
/// The system's status; `ERROR_NOT_SUPPORTED` where it lacks the function.
pub fn enumerate_providers() -> Result<Vec<u64>, Status> {
    type Enumerate = unsafe extern "system" fn(*mut u64, *mut u32) -> u32;
    let function = ENUMERATE_PROVIDERS.get().ok_or(Status::ERROR_NOT_SUPPORTED)?;
    // SAFETY: the signature of `tdh.h`.
    let function = unsafe { std::mem::transmute::<Function, Enumerate>(function) };
    // SAFETY: the buffer has `size` bytes.
    list(|words, size| unsafe { function(words.as_mut_ptr(), size) })
}

/// Classes of `EnumerateTraceGuidsEx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum GuidQuery {
    /// All registered GUIDs.
    List = 0,
    /// The registrations of one GUID.
    Info = 1,
}

/// `EnumerateTraceGuidsEx`: the words of the answer, and its size in bytes.
///
/// # Errors
/// The system's status; `ERROR_NOT_SUPPORTED` where it lacks the function.
pub fn enumerate_guids(query: GuidQuery, id: Option<&Guid>) -> Result<(Vec<u64>, usize), Status> {
    type Enumerate =
        unsafe extern "system" fn(GuidQuery, *const c_void, u32, *mut u64, u32, *mut u32) -> u32;
    let function = ENUMERATE_TRACE_GUIDS.get().ok_or(Status::ERROR_NOT_SUPPORTED)?;
    // SAFETY: the signature of `evntrace.h`.
    let function = unsafe { std::mem::transmute::<Function, Enumerate>(function) };
    let (input, input_size) =
        id.map_or((std::ptr::null(), 0), |id| (std::ptr::from_ref(id).cast(), 16));
    let mut filled = 0;
    let words = list(|words, size| {
        let room = *size;
        // SAFETY: both buffers have so many bytes.
        let status = unsafe { function(query, input, input_size, words.as_mut_ptr(), room, size) };
        filled = *size as usize;
        status
    })?;
    Ok((words, filled))
}

/// Structures have the sizes of the Windows headers on 64-bit processors; the tests compare sizes and offsets with `windows-sys`.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<ClassicEventId>() == 24 && size_of::<ProfileInterval>() == 8);
};
