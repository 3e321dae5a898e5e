//! Structures of `evntcons.h` and `evntrace.h` in memory.

use std::ffi::c_void;

use etw_types::LogFileMode;

use crate::abi::{RawDescriptor, RawGuid};

/// `EVENT_HEADER`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawHeader {
    pub size: u16,
    /// The number of the header that the event was stored with; Microsoft calls it reserved.
    pub header_type: u16,
    pub flags: u16,
    pub property: u16,
    pub thread_id: u32,
    pub process_id: u32,
    pub time: i64,
    pub provider: RawGuid,
    pub descriptor: RawDescriptor,
    pub kernel_time: u32,
    pub user_time: u32,
    pub activity: RawGuid,
}

/// `ETW_BUFFER_CONTEXT`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawBufferContext {
    pub cpu: u16,
    pub logger_id: u16,
}

/// `EVENT_HEADER_EXTENDED_DATA_ITEM`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawItem {
    pub reserved: u16,
    pub kind: u16,
    /// Bit 0: another follows.
    pub linkage: u16,
    pub size: u16,
    pub address: u64,
}

/// `EVENT_RECORD`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawRecord {
    pub header: RawHeader,
    pub buffer: RawBufferContext,
    pub item_count: u16,
    pub data_size: u16,
    pub items: *const RawItem,
    pub data: *const u8,
    pub context: *mut c_void,
}

/// `EVENT_TRACE_HEADER`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawTraceHeader {
    pub size: u16,
    pub header_type: u8,
    pub marker: u8,
    pub kind: u8,
    pub level: u8,
    pub version: u16,
    pub thread_id: u32,
    pub process_id: u32,
    pub time: i64,
    pub guid: RawGuid,
    pub kernel_time: u32,
    pub user_time: u32,
}

/// `EVENT_TRACE`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawTrace {
    pub header: RawTraceHeader,
    pub instance: u32,
    pub parent_instance: u32,
    pub parent: RawGuid,
    pub data: *const u8,
    pub data_size: u32,
    pub buffer: RawBufferContext,
}

/// `TRACE_LOGFILE_HEADER`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawLogfileHeader {
    pub buffer_size: u32,
    pub version: [u8; 4],
    pub provider_version: u32,
    pub number_of_processors: u32,
    pub end_time: i64,
    pub timer_resolution: u32,
    pub maximum_file_size: u32,
    pub log_file_mode: LogFileMode,
    pub buffers_written: u32,
    pub start_buffers: u32,
    pub pointer_size: u32,
    pub events_lost: u32,
    pub cpu_speed_mhz: u32,
    pub logger_name: *const u16,
    pub log_file_name: *const u16,
    pub time_zone: [u8; 0xac],
    pub boot_time: i64,
    pub perf_freq: u64,
    pub start_time: i64,
    pub reserved_flags: u32,
    pub buffers_lost: u32,
}

/// `EVENT_TRACE_LOGFILEW` and `..A`: which of the two depends on who filled it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawLogfile {
    pub log_file_name: *const c_void,
    pub logger_name: *const c_void,
    pub current_time: i64,
    pub buffers_read: u32,
    pub mode: ProcessTraceMode,
    pub current_event: RawTrace,
    pub header: RawLogfileHeader,
    pub buffer_callback: Option<BufferCallback>,
    pub buffer_size: u32,
    pub filled: u32,
    pub events_lost: u32,
    /// `EventCallback` or `EventRecordCallback`, as the mode says.
    pub event_callback: Option<EventCallback>,
    pub is_kernel_trace: u32,
    pub context: *mut c_void,
}

/// Takes an `EVENT_RECORD` or an `EVENT_TRACE`. C++ exceptions pass through it.
pub type EventCallback = unsafe extern "C-unwind" fn(event: *mut c_void);
/// `PEVENT_TRACE_BUFFER_CALLBACK`
pub type BufferCallback = unsafe extern "C-unwind" fn(logfile: *mut RawLogfile) -> u32;

etw_types::flags! {
    /// `EVENT_TRACE_LOGFILE.ProcessTraceMode`
    ProcessTraceMode(u32) {
        /// Read a session, not a file.
        REAL_TIME = 0x0000_0100, "PROCESS_TRACE_MODE_REAL_TIME";
        /// Times are ticks of the session's clock.
        RAW_TIMESTAMP = 0x0000_1000, "PROCESS_TRACE_MODE_RAW_TIMESTAMP";
        /// The callback takes an `EVENT_RECORD`.
        EVENT_RECORD = 0x1000_0000, "PROCESS_TRACE_MODE_EVENT_RECORD";
        /// Deliver the host's own events, too (not part of Windows).
        HOST_EVENTS = 0x4000_0000, "PROCESS_TRACE_MODE_ETW_HOST_EVENTS";
    }
}

impl RawGuid {
    pub const ZERO: RawGuid = RawGuid { data1: 0, data2: 0, data3: 0, data4: [0; 8] };
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<RawHeader>() == 0x50 && size_of::<RawItem>() == 16);
    assert!(size_of::<RawRecord>() == 0x70 && size_of::<RawTrace>() == 0x58);
    assert!(size_of::<RawLogfileHeader>() == 0x118 && size_of::<RawLogfile>() == 0x1c0);
};
