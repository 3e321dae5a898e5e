//! The system's functions and structures for consumers: `evntcons.h` and `evntrace.h`.

use std::ffi::c_void;

use etw_types::Guid;

use super::Callbacks;

/// `INVALID_PROCESSTRACE_HANDLE`
pub const INVALID_HANDLE: u64 = u64::MAX;

/// `EVENT_RECORD`, with the `EVENT_HEADER` at its start.
#[repr(C)]
pub struct RawRecord {
    pub size: u16,
    pub header_type: u16,
    pub flags: u16,
    pub property: u16,
    pub thread_id: u32,
    pub process_id: u32,
    pub time: i64,
    pub provider: Guid,
    pub descriptor: RawDescriptor,
    pub kernel_time: u32,
    pub user_time: u32,
    pub activity: Guid,
    /// `ETW_BUFFER_CONTEXT`: the processor, in sixteen bits if the flags say so, and the session.
    pub cpu: u16,
    pub logger_id: u16,
    pub item_count: u16,
    pub data_size: u16,
    pub items: *const RawItem,
    pub data: *const u8,
    pub context: *const c_void,
}

/// `EVENT_DESCRIPTOR`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawDescriptor {
    pub id: u16,
    pub version: u8,
    pub channel: u8,
    pub level: u8,
    pub opcode: u8,
    pub task: u16,
    pub keyword: u64,
}

/// `EVENT_HEADER_EXTENDED_DATA_ITEM`
#[repr(C)]
pub struct RawItem {
    pub reserved: u16,
    pub kind: u16,
    /// Bit 0: another item follows.
    pub linkage: u16,
    pub size: u16,
    pub address: u64,
}

/// `TRACE_LOGFILE_HEADER`
#[repr(C)]
pub struct LogfileHeader {
    pub buffer_size: u32,
    pub version: [u8; 4],
    pub provider_version: u32,
    pub number_of_processors: u32,
    pub end_time: i64,
    pub timer_resolution: u32,
    pub maximum_file_size: u32,
    pub mode: u32,
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

/// `EVENT_TRACE_LOGFILEW`
#[repr(C)]
pub struct Logfile {
    pub log_file_name: *const u16,
    pub logger_name: *mut u16,
    pub current_time: i64,
    pub buffers_read: u32,
    /// `ProcessTraceMode`
    pub mode: u32,
    /// `EVENT_TRACE`
    pub current_event: [u64; 11],
    pub header: LogfileHeader,
    pub buffer_callback: Option<unsafe extern "system" fn(*const Logfile) -> u32>,
    pub buffer_size: u32,
    pub filled: u32,
    pub events_lost: u32,
    pub event_callback: Option<unsafe extern "system" fn(*const RawRecord)>,
    pub is_kernel_trace: u32,
    pub context: *const c_void,
}

impl Logfile {
    /// A real-time session, with the callbacks of a stream. Times are those that the system has converted to system time.
    pub fn real_time(name: &mut [u16], callbacks: &Callbacks) -> Logfile {
        const REAL_TIME: u32 = 0x100;
        const EVENT_RECORD: u32 = 0x1000_0000;
        // SAFETY: numbers, pointers and optional functions, for which zero is valid.
        let mut logfile: Logfile = unsafe { std::mem::zeroed() };
        logfile.logger_name = name.as_mut_ptr();
        logfile.mode = REAL_TIME | EVENT_RECORD;
        logfile.buffer_callback = Some(super::buffer_callback);
        logfile.event_callback = Some(super::event_callback);
        logfile.context = std::ptr::from_ref(callbacks).cast();
        logfile
    }
}

#[link(name = "advapi32")]
unsafe extern "system" {
    pub fn OpenTraceW(logfile: *mut Logfile) -> u64;
    pub fn ProcessTrace(
        handles: *const u64,
        count: u32,
        start: *const c_void,
        end: *const c_void,
    ) -> u32;
    pub fn CloseTrace(handle: u64) -> u32;
}

/// Structures have the sizes of the Windows headers on 64-bit processors; the tests compare sizes and offsets with `windows-sys`.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<RawRecord>() == 0x70 && size_of::<RawItem>() == 16);
    assert!(size_of::<LogfileHeader>() == 0x118 && size_of::<Logfile>() == 0x1c0);
};
