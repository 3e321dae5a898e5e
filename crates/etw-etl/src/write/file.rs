use super::buffer::BufferBuilder;
use super::record::{EncodeError, encode};
use crate::header::{BufferHeader, LogfileHeader};
use etw_types::{ClockType, EventRecord, FileTime, HeaderType, Hook};

/// The logfile header and what stands around it.
#[derive(Clone, Debug)]
pub struct FileHeader {
    /// The payload of the first record.
    pub logfile: LogfileHeader,
    /// Raw timestamp of the first record.
    pub start_raw: i64,
    /// Process and thread that started the session.
    pub ids: (u32, u32),
}

/// A whole file in memory: what readers depend on is filled in as Windows does.
///
/// Records are put into the open buffer of their CPU; full buffers go to the file in the order in which they fill.
#[derive(Clone, Debug)]
pub struct FileBuilder {
    /// The header; `finish` counts the buffers.
    pub header: FileHeader,
    /// Compress every buffer but the first.
    pub compressed: bool,
    /// Complete the header, as a session does at stop.
    pub finalised: bool,
    /// More records for the header buffer, in on-disk form.
    pub header_records: Vec<Vec<u8>>,
    open: Vec<Option<BufferBuilder>>,
    closed: Vec<Vec<u8>>,
    sequence: i64,
    last_raw: i64,
}

impl Default for FileBuilder {
    fn default() -> FileBuilder {
        FileBuilder::new()
    }
}

impl FileBuilder {
    /// 64 KiB buffers, a 10 MHz performance counter, started on 2026-01-02T03:04:05.
    pub fn new() -> FileBuilder {
        let start_time = FileTime(134_117_966_450_000_000);
        FileBuilder {
            header: FileHeader {
                logfile: LogfileHeader {
                    buffer_size: 0x10000,
                    version: [10, 0, 1, 5],
                    provider_version: 19041,
                    number_of_processors: 1,
                    end_time: FileTime(0),
                    timer_resolution: 156_250,
                    maximum_file_size: 0,
                    log_file_mode: LogfileHeader::MODE_SEQUENTIAL,
                    buffers_written: 1,
                    start_buffers: 1,
                    pointer_size: 8,
                    events_lost: 0,
                    cpu_speed_mhz: 2_600,
                    timer_sources: (0, 0),
                    time_zone: [0; LogfileHeader::TIME_ZONE_SIZE],
                    boot_time: FileTime(start_time.0 - 36_000_000_000),
                    perf_freq: 10_000_000,
                    start_time,
                    clock_type: ClockType::QPC,
                    buffers_lost: 0,
                    logger_name: "openetw".into(),
                    log_file_name: "openetw.etl".into(),
                },
                start_raw: 36_000_000_000,
                ids: (4, 8),
            },
            compressed: false,
            finalised: true,
            header_records: Vec::new(),
            open: Vec::new(),
            closed: Vec::new(),
            sequence: 0,
            last_raw: 36_000_000_000,
        }
    }

    /// Appends an event to the stream of a CPU.
    ///
    /// # Errors
    /// As [`encode`], and `TooLarge` where it does not fit an empty buffer.
    pub fn push(&mut self, cpu: u16, record: &EventRecord<'_>) -> Result<(), EncodeError> {
        let mut bytes = Vec::new();
        encode(record, &mut bytes)?;
        if !self.buffer(cpu).has_room(bytes.len()) {
            self.flush(cpu);
            if !self.buffer(cpu).has_room(bytes.len()) {
                return Err(EncodeError::TooLarge { size: bytes.len() });
            }
        }
        let time = record.order_time;
        let buffer = self.buffer(cpu);
        buffer.push_bytes(&bytes);
        buffer.header.time_stamp = buffer.header.time_stamp.max(time);
        self.last_raw = self.last_raw.max(time);
        Ok(())
    }

    /// The open buffer of a CPU.
    pub fn buffer(&mut self, cpu: u16) -> &mut BufferBuilder {
        let slot = usize::from(cpu);
        if self.open.len() <= slot {
            self.open.resize_with(slot + 1, || None);
        }
        let size = self.header.logfile.buffer_size;
        let sequence = &mut self.sequence;
        self.open[slot].get_or_insert_with(|| {
            *sequence += 1;
            let mut buffer = BufferBuilder::new(size, cpu);
            buffer.header.sequence_number = *sequence;
            buffer
        })
    }

    /// Writes the open buffer of a CPU to the file.
    pub fn flush(&mut self, cpu: u16) {
        if let Some(buffer) = self.open.get_mut(usize::from(cpu)).and_then(Option::take) {
            self.push_buffer(buffer);
        }
    }

    /// Appends a buffer made elsewhere.
    pub fn push_buffer(&mut self, buffer: BufferBuilder) {
        let compressed = self.compressed;
        let bytes = if compressed { buffer.finish_compressed() } else { buffer.finish() };
        self.closed.push(bytes);
    }

    /// Appends bytes where a buffer belongs.
    pub fn push_raw(&mut self, bytes: Vec<u8>) {
        self.closed.push(bytes);
    }

    /// Flushes all CPUs and gives the file.
    pub fn finish(self) -> Vec<u8> {
        self.finish_buffers().concat()
    }

    /// As [`finish`](FileBuilder::finish), buffer by buffer, the header's first.
    pub fn finish_buffers(mut self) -> Vec<Vec<u8>> {
        let cpus = self.open.len();
        for cpu in 0..cpus {
            if let Some(buffer) = &mut self.open[cpu] {
                buffer.header.flags |= BufferHeader::FLUSH_MARKER;
            }
            self.flush(cpu as u16);
        }
        let mut buffers = vec![self.header_buffer(cpus)];
        buffers.append(&mut self.closed);
        buffers
    }

    fn header_buffer(&mut self, cpus: usize) -> Vec<u8> {
        let logfile = &mut self.header.logfile;
        logfile.number_of_processors = logfile.number_of_processors.max(cpus as u32);
        if self.compressed {
            logfile.log_file_mode |= LogfileHeader::MODE_COMPRESSED;
            logfile.version[2..].copy_from_slice(&[2, 0]);
        }
        if self.finalised {
            logfile.buffers_written = self.closed.len() as u32 + 1;
            let elapsed = logfile.clock(self.header.start_raw).filetime(self.last_raw);
            logfile.end_time = elapsed.unwrap_or(logfile.start_time);
        }
        let payload = logfile.to_payload();
        let wide = logfile.pointer_size != 4;
        let header = if wide { HeaderType::System64 } else { HeaderType::System32 };
        let mut record = EventRecord::new(header, &payload);
        record.hook = Some(Hook(0));
        record.descriptor.version = 2;
        record.order_time = self.header.start_raw;
        (record.process_id, record.thread_id) = (Some(self.header.ids.0), Some(self.header.ids.1));
        let mut buffer = BufferBuilder::new(logfile.buffer_size, 0);
        buffer.header.buffer_type = BufferHeader::HEADER;
        buffer.header.flags |= BufferHeader::FLUSH_MARKER;
        // The payload is some 300 bytes and two names; a name of 30 000 characters would be the test's own wish.
        let mut bytes = Vec::new();
        if encode(&record, &mut bytes).is_ok() {
            buffer.push_bytes(&bytes);
        }
        for bytes in &self.header_records {
            buffer.push_bytes(bytes);
        }
        buffer.header.time_stamp = 0;
        buffer.finish()
    }
}
