//! `EVENT_RECORD` as the record that decoders take.

use etw_etl::header::LogfileHeader;
use etw_etl::read::TraceFile;
use etw_etl::write::{Starter, logfile_buffer};
use etw_types::raw::{RawLogfile, RawRecord};
use etw_types::{
    ClockType, CpuTimes, EventDescriptor, EventFlags, EventProperty, EventRecord, ExtType,
    ExtendedItemsBuf, FileTime, Guid, HeaderType, LogFileMode,
};
use etw_wire::requests::SessionStatus;

/// Bytes of the largest payload that an event has.
const MAX_DATA_SIZE: usize = u16::MAX as usize;
/// Bytes of the buffer that a stream's header is put into.
const HEADER_BUFFER_SIZE: u32 = 64 << 10;

/// A copy of an `EVENT_RECORD`.
pub struct OwnedRecord {
    header: HeaderType,
    flags: EventFlags,
    property: EventProperty,
    process_id: u32,
    thread_id: u32,
    time: i64,
    provider: Guid,
    descriptor: EventDescriptor,
    cpu_times: Option<CpuTimes>,
    activity: Guid,
    cpu: u16,
    items: ExtendedItemsBuf,
    payload: Vec<u8>,
}

impl OwnedRecord {
    /// # Safety
    /// The record's items and data are readable.
    pub unsafe fn copy(raw: &RawRecord) -> OwnedRecord {
        let flags = EventFlags(raw.header.flags);
        let slice = |address: *const u8, size: usize| match address.is_null() || size == 0 {
            true => &[][..],
            // SAFETY: the caller promises it.
            false => unsafe { std::slice::from_raw_parts(address, size) },
        };
        let payload = slice(raw.data, usize::from(raw.data_size).min(MAX_DATA_SIZE)).to_vec();
        let mut items = ExtendedItemsBuf::new();
        for number in 0..if raw.items.is_null() { 0 } else { usize::from(raw.item_count) } {
            // SAFETY: the caller promises so many items.
            let item = unsafe { &*raw.items.add(number) };
            let start: *const u8 = std::ptr::with_exposed_provenance(item.address as usize);
            // An item of 64 KiB does not exist.
            let _ = items.push(ExtType(item.kind), slice(start, item.size.into()));
        }
        let head = &raw.header;
        // The header that files would have for such an event.
        let is_narrow = flags.contains(EventFlags::HEADER_32_BIT);
        let header = match (flags, is_narrow) {
            _ if flags.contains(EventFlags::TRACE_MESSAGE) => HeaderType::Message,
            (_, true) if flags.contains(EventFlags::CLASSIC_HEADER) => HeaderType::Full32,
            (_, false) if flags.contains(EventFlags::CLASSIC_HEADER) => HeaderType::Full64,
            (_, true) => HeaderType::Event32,
            (_, false) => HeaderType::Event64,
        };
        let has_wide_cpu = flags.contains(EventFlags::PROCESSOR_INDEX);
        OwnedRecord {
            header,
            flags,
            property: EventProperty(head.property),
            process_id: head.process_id,
            thread_id: head.thread_id,
            time: head.time,
            provider: head.provider.guid(),
            descriptor: head.descriptor.descriptor(),
            cpu_times: (!flags.contains(EventFlags::NO_CPUTIME))
                .then_some(CpuTimes { kernel: head.kernel_time, user: head.user_time }),
            activity: head.activity.guid(),
            cpu: if has_wide_cpu { raw.buffer.cpu } else { raw.buffer.cpu & 0xff },
            items,
            payload,
        }
    }

    pub fn as_record(&self, _: &TraceFile) -> EventRecord<'_> {
        /// The id of a process or thread that the event does not have.
        const NONE: u32 = u32::MAX;
        let mut record = EventRecord::new(self.header, &self.payload);
        record.pointer_size = if self.flags.contains(EventFlags::HEADER_32_BIT) { 4 } else { 8 };
        record.cpu = self.cpu;
        record.flags = self.flags;
        record.property = self.property;
        record.order_time = self.time;
        record.process_id = (self.process_id != NONE).then_some(self.process_id);
        record.thread_id = (self.thread_id != NONE).then_some(self.thread_id);
        record.cpu_times = self.cpu_times;
        record.provider = Some(self.provider);
        record.descriptor = self.descriptor;
        record.activity_id = self.activity;
        record.extended = self.items.as_items();
        record
    }
}

/// The header of a stream as a file without events. Its clock is system time, since the system converts times.
pub fn header(
    session: &str,
    logfile: &RawLogfile,
    status: &SessionStatus,
) -> Result<TraceFile, etw_etl::Error> {
    let raw = &logfile.header;
    let header = LogfileHeader {
        buffer_size: HEADER_BUFFER_SIZE,
        version: raw.version,
        provider_version: raw.provider_version,
        number_of_processors: raw.number_of_processors.max(1),
        end_time: FileTime(0),
        timer_resolution: raw.timer_resolution,
        maximum_file_size: 0,
        log_file_mode: status.mode | LogFileMode::REAL_TIME,
        buffers_written: 1,
        start_buffers: 1,
        pointer_size: if raw.pointer_size == 4 { 4 } else { 8 },
        events_lost: 0,
        cpu_speed_mhz: raw.cpu_speed_mhz,
        timer_sources: [0; 2],
        time_zone: raw.time_zone,
        boot_time: FileTime(raw.boot_time),
        perf_freq: raw.perf_freq,
        start_time: FileTime(raw.start_time),
        clock_type: ClockType::SYSTEM,
        buffers_lost: 0,
        logger_name: session.to_owned(),
        log_file_name: String::new(),
    };
    let starter = Starter { process_id: std::process::id(), thread_id: 0 };
    // A session's name always fits into the buffer.
    let bytes = logfile_buffer(&header, raw.start_time, starter, &[], HEADER_BUFFER_SIZE);
    TraceFile::from_bytes(session, bytes.unwrap_or_default())
}
