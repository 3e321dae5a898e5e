//! The system's functions and structures for sessions and their enablements: `evntrace.h`, `evntcons.h` and `tdh.h`.

use std::ffi::c_void;

use etw_types::raw::{RawFilterDescriptor, RawProperties};
use etw_types::{Guid, Status};

use crate::system::api::{Function, Optional};

/// Units of a session's or file's name, its NUL included.
pub const NAME_UNITS: usize = 1024;
/// `WNODE_FLAG_TRACED_GUID`
pub const TRACED_GUID: u32 = 0x0002_0000;
/// `WNODE_FLAG_VERSIONED_PROPERTIES`
pub const VERSIONED: u32 = 0x0080_0000;

/// Control codes of `ControlTraceW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Control {
    Query = 0,
    Stop = 1,
    #[cfg(feature = "control")]
    Update = 2,
    Flush = 3,
}

/// Control codes of `EnableTraceEx2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EnableCode {
    Disable = 0,
    Enable = 1,
    CaptureState = 2,
}

/// `ENABLE_TRACE_PARAMETERS`
#[repr(C)]
#[derive(Debug)]
pub struct EnableParameters {
    pub version: u32,
    pub property: u32,
    pub control_flags: u32,
    pub source: Guid,
    pub filters: *const RawFilterDescriptor,
    pub filter_count: u32,
}

/// `PAYLOAD_FILTER_PREDICATE`
#[repr(C)]
pub struct Predicate {
    pub field: *const u16,
    pub operator: u16,
    pub value: *const u16,
}

#[link(name = "advapi32")]
unsafe extern "system" {
    pub fn StartTraceW(handle: *mut u64, name: *const u16, properties: *mut RawProperties) -> u32;
    pub fn ControlTraceW(
        handle: u64,
        name: *const u16,
        properties: *mut RawProperties,
        code: Control,
    ) -> u32;
    pub fn EnableTraceEx2(
        handle: u64,
        provider: *const Guid,
        code: EnableCode,
        level: u8,
        any: u64,
        all: u64,
        timeout: u32,
        parameters: *const EnableParameters,
    ) -> u32;
}

/// Since Windows 8.1, as the three below.
static CREATE_FILTER: Optional = Optional::in_library(c"tdh.dll", c"TdhCreatePayloadFilter");
static DELETE_FILTER: Optional = Optional::in_library(c"tdh.dll", c"TdhDeletePayloadFilter");
static AGGREGATE_FILTERS: Optional =
    Optional::in_library(c"tdh.dll", c"TdhAggregatePayloadFilters");
static CLEAN_UP_FILTERS: Optional =
    Optional::in_library(c"tdh.dll", c"TdhCleanupPayloadEventFilterDescriptor");

/// A filter of `TdhCreatePayloadFilter`, deleted when dropped.
pub struct PayloadFilterHandle(pub *mut c_void);

impl PayloadFilterHandle {
    /// # Errors
    /// The system's status: no manifest has the event or the field. `ERROR_NOT_SUPPORTED` where it lacks the function.
    ///
    /// # Safety
    /// The predicates' texts end with NUL.
    pub unsafe fn create(
        provider: &Guid,
        descriptor: &[u8; 16],
        any: bool,
        predicates: &[Predicate],
    ) -> Result<PayloadFilterHandle, Status> {
        type Create = unsafe extern "system" fn(
            *const Guid,
            *const [u8; 16],
            u8,
            u32,
            *const Predicate,
            *mut *mut c_void,
        ) -> u32;
        let function = CREATE_FILTER.get().ok_or(Status::ERROR_NOT_SUPPORTED)?;
        let mut filter = std::ptr::null_mut();
        // SAFETY: the signature of `tdh.h`; the caller promises the texts.
        let status = unsafe {
            let function = std::mem::transmute::<Function, Create>(function);
            let count = predicates.len() as u32;
            let predicates = predicates.as_ptr();
            function(provider, descriptor, any.into(), count, predicates, &mut filter)
        };
        Status(status).ok().map(|()| PayloadFilterHandle(filter))
    }
}

impl Drop for PayloadFilterHandle {
    fn drop(&mut self) {
        type Delete = unsafe extern "system" fn(*mut *mut c_void) -> u32;
        if let Some(function) = DELETE_FILTER.get() {
            // SAFETY: the signature of `tdh.h`; a filter that `create` returned.
            unsafe { std::mem::transmute::<Function, Delete>(function)(&mut self.0) };
        }
    }
}

/// The descriptor of `TdhAggregatePayloadFilters`, whose memory is the system's.
pub struct AggregatedFilter(pub RawFilterDescriptor);

impl AggregatedFilter {
    /// # Errors
    /// The system's status.
    pub fn new(filters: &[PayloadFilterHandle], match_all: &[u8]) -> Result<Self, Status> {
        type Aggregate = unsafe extern "system" fn(
            u32,
            *const *mut c_void,
            *const u8,
            *mut RawFilterDescriptor,
        ) -> u32;
        debug_assert_eq!(filters.len(), match_all.len());
        let function = AGGREGATE_FILTERS.get().ok_or(Status::ERROR_NOT_SUPPORTED)?;
        let pointers: Vec<*mut c_void> = filters.iter().map(|filter| filter.0).collect();
        let mut descriptor = RawFilterDescriptor { address: 0, size: 0, kind: 0 };
        // SAFETY: the signature of `tdh.h`; as many flags as filters.
        let status = unsafe {
            let function = std::mem::transmute::<Function, Aggregate>(function);
            let count = pointers.len() as u32;
            function(count, pointers.as_ptr(), match_all.as_ptr(), &mut descriptor)
        };
        Status(status).ok().map(|()| AggregatedFilter(descriptor))
    }
}

impl Drop for AggregatedFilter {
    fn drop(&mut self) {
        type CleanUp = unsafe extern "system" fn(*mut RawFilterDescriptor) -> u32;
        if let Some(function) = CLEAN_UP_FILTERS.get() {
            // SAFETY: the signature of `tdh.h`; a descriptor that `new` returned.
            unsafe { std::mem::transmute::<Function, CleanUp>(function)(&mut self.0) };
        }
    }
}

/// Structures have the sizes of the Windows headers on 64-bit processors; the tests compare sizes and offsets with `windows-sys`.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<EnableParameters>() == 0x30);
    assert!(size_of::<Predicate>() == 24);
};
