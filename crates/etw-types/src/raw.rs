//! Structures of `evntprov.h`, `evntrace.h` and `evntcons.h` as they are in memory: for C programs, and for calls of Windows.
//!
//! Their members have the types that C programs can fill in with anything: a number stays a number.

use std::ffi::c_void;

use crate::{Channel, EventDescriptor, Guid, Keyword, Level, LogFileMode, Opcode};

/// `EVENT_DESCRIPTOR`, 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawDescriptor {
    pub id: u16,
    pub version: u8,
    pub channel: u8,
    pub level: u8,
    pub opcode: u8,
    pub task: u16,
    pub keyword: u64,
}

impl RawDescriptor {
    pub fn descriptor(self) -> EventDescriptor {
        EventDescriptor {
            id: self.id,
            version: self.version,
            channel: Channel(self.channel),
            level: Level(self.level),
            opcode: Opcode(self.opcode),
            task: self.task,
            keyword: Keyword(self.keyword),
        }
    }
}

/// `GUID`. On little-endian machines it has the same bytes in memory and on disk.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawGuid {
    pub data1: u32,
    pub data2: u16,
    pub data3: u16,
    pub data4: [u8; 8],
}

impl RawGuid {
    pub const ZERO: RawGuid = RawGuid { data1: 0, data2: 0, data3: 0, data4: [0; 8] };

    pub fn guid(self) -> Guid {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.data1.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.data2.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.data3.to_le_bytes());
        bytes[8..].copy_from_slice(&self.data4);
        Guid(bytes)
    }

    pub fn from_guid(guid: &Guid) -> RawGuid {
        let b = &guid.0;
        RawGuid {
            data1: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            data2: u16::from_le_bytes([b[4], b[5]]),
            data3: u16::from_le_bytes([b[6], b[7]]),
            data4: [b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]],
        }
    }
}

/// `EVENT_FILTER_DESCRIPTOR`, 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawFilterDescriptor {
    pub address: u64,
    pub size: u32,
    pub kind: u32,
}

impl RawFilterDescriptor {
    /// `EVENT_FILTER_TYPE_SCHEMATIZED`: the only kind that is meant for providers.
    pub const SCHEMATIZED: u32 = 0x8000_0000;
}

/// `EVENT_HEADER`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
pub struct RawBufferContext {
    pub cpu: u16,
    pub logger_id: u16,
}

/// `EVENT_HEADER_EXTENDED_DATA_ITEM`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
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
pub type EventCallback = unsafe extern "system-unwind" fn(event: *mut c_void);
/// `PEVENT_TRACE_BUFFER_CALLBACK`
pub type BufferCallback = unsafe extern "system-unwind" fn(logfile: *mut RawLogfile) -> u32;

/// `ETW_OPEN_TRACE_OPTIONS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawOpenOptions {
    /// `ETW_PROCESS_TRACE_MODES`: 1 keeps times in ticks of the session's clock.
    pub modes: i32,
    pub event_callback: Option<EventCallback>,
    pub event_context: *mut c_void,
    /// A `PETW_BUFFER_CALLBACK`, which is not called.
    pub buffer_callback: *const c_void,
    pub buffer_context: *mut c_void,
}

crate::flags! {
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

/// `EVENT_TRACE_PROPERTIES`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawProperties {
    /// `Wnode`: bytes of all, names included.
    pub size: u32,
    pub provider_id: u32,
    /// `HistoricalContext`
    pub handle: u64,
    pub time_stamp: i64,
    pub guid: RawGuid,
    /// `ClientContext`
    pub clock: u32,
    pub flags: u32,
    /// KiB
    pub buffer_size: u32,
    pub minimum_buffers: u32,
    pub maximum_buffers: u32,
    pub maximum_file_size: u32,
    pub mode: LogFileMode,
    pub flush_timer: u32,
    pub enable_flags: u32,
    /// `AgeLimit`, `FlushThreshold`
    pub age_limit: i32,
    pub number_of_buffers: u32,
    pub free_buffers: u32,
    pub events_lost: u32,
    pub buffers_written: u32,
    pub log_buffers_lost: u32,
    pub real_time_buffers_lost: u32,
    pub logger_thread: *mut c_void,
    pub file_name_offset: u32,
    pub name_offset: u32,
}

/// The additional members of `EVENT_TRACE_PROPERTIES_V2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawMoreProperties {
    /// `V2Control`: the version in the low byte.
    pub control: u32,
    pub filter_count: u32,
    pub filters: *const RawFilterDescriptor,
    pub options: u64,
}

/// Structures have the sizes of the Windows headers on 64-bit processors; the tests compare sizes and offsets with `windows-sys`.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<RawHeader>() == 0x50 && size_of::<RawItem>() == 16);
    assert!(size_of::<RawRecord>() == 0x70 && size_of::<RawTrace>() == 0x58);
    assert!(size_of::<RawLogfileHeader>() == 0x118 && size_of::<RawLogfile>() == 0x1c0);
    assert!(size_of::<RawGuid>() == 16 && size_of::<RawFilterDescriptor>() == 16);
    assert!(size_of::<RawProperties>() == 0x78 && size_of::<RawMoreProperties>() == 0x18);
};
