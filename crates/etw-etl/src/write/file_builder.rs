//! Builds small files in memory.

use super::buffer_builder::BufferBuilder;
use super::header_buffer::{FileHeader, Starter, logfile_builder};
use super::open_buffers::OpenBuffers;
use super::record::{EncodeError, encode};
use crate::header::LogfileHeader;
use etw_types::{BufferFlags, ClockType, EventRecord, FileTime, LogFileMode};

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
    open: OpenBuffers,
    closed: Vec<Vec<u8>>,
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
                    log_file_mode: LogFileMode::SEQUENTIAL,
                    buffers_written: 1,
                    start_buffers: 1,
                    pointer_size: 8,
                    events_lost: 0,
                    cpu_speed_mhz: 2_600,
                    timer_sources: [0; 2],
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
                starter: Starter { process_id: 4, thread_id: 8 },
            },
            compressed: false,
            finalised: true,
            header_records: Vec::new(),
            open: OpenBuffers::default(),
            closed: Vec::new(),
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
        self.buffer(cpu).push_timed(&bytes, time);
        self.last_raw = self.last_raw.max(time);
        Ok(())
    }

    /// The open buffer of a CPU.
    pub fn buffer(&mut self, cpu: u16) -> &mut BufferBuilder {
        self.open.get(cpu, self.header.logfile.buffer_size)
    }

    /// Writes the open buffer of a CPU to the file.
    pub fn flush(&mut self, cpu: u16) {
        if let Some(buffer) = self.open.take(cpu) {
            self.push_buffer(buffer);
        }
    }

    /// Appends a buffer made elsewhere.
    pub fn push_buffer(&mut self, buffer: BufferBuilder) {
        let compressed = self.compressed;
        let bytes = if compressed { buffer.finish_compressed() } else { buffer.finish() };
        self.closed.push(bytes);
    }

    /// Appends bytes in place of a buffer.
    pub fn push_raw(&mut self, bytes: Vec<u8>) {
        self.closed.push(bytes);
    }

    /// Flushes all CPUs and gives the file.
    pub fn finish(self) -> Vec<u8> {
        self.finish_buffers().concat()
    }

    /// As [`finish`](FileBuilder::finish), buffer by buffer, the header's first.
    pub fn finish_buffers(mut self) -> Vec<Vec<u8>> {
        let cpus = self.open.cpus();
        for (number, &cpu) in cpus.iter().enumerate() {
            // The last of a flush: everything older is in the file.
            if number + 1 == cpus.len() {
                self.buffer(cpu).header.flags |= BufferFlags::FLUSH_MARKER;
            }
            self.flush(cpu);
        }
        let mut buffers = vec![self.header_buffer()];
        buffers.append(&mut self.closed);
        buffers
    }

    fn header_buffer(&mut self) -> Vec<u8> {
        self.header.set_layout(self.open.cpu_count(), self.compressed);
        if self.finalised {
            self.header.complete(self.closed.len() as u32 + 1, self.last_raw);
        }
        let FileHeader { logfile, start_raw, starter } = &self.header;
        // A test may ask for names of 30,000 characters: the buffer then has no header.
        let mut buffer = logfile_builder(logfile, *start_raw, *starter, logfile.buffer_size)
            .unwrap_or_else(|_| BufferBuilder::new(logfile.buffer_size, 0));
        for bytes in &self.header_records {
            buffer.push_bytes(bytes);
        }
        buffer.finish()
    }
}
