//! The writer that needs no more memory than its open buffers.

use crate::alloc;
use crate::support::{Sink, event, event_bytes, numbered, numbered_compressed, open, read};
use etw_etl::header::LayoutVersion;
use etw_etl::lzxpress::Level;
use etw_etl::read::{Records, TraceFile};
use etw_etl::write::{
    self, EncodeError, FileBuilder, FileHeader, TraceWriter, WriteError, WriterOptions, sample,
};
use etw_types::{BufferFlags, BufferType, FileTime, LogFileMode};
use std::io::{self, Cursor, Seek, SeekFrom, Write};

/// The layout of compressed and large files.
const LARGE: LayoutVersion = LayoutVersion { major: 2, minor: 0 };

fn header(buffer_size: u32) -> FileHeader {
    let mut header = FileBuilder::new().header;
    header.logfile.buffer_size = buffer_size;
    header
}

fn options(compressed: bool) -> WriterOptions {
    let mut options = WriterOptions::default();
    (options.compressed, options.logger_id) = (compressed, 1);
    // As the builder compresses.
    options.level = Level::Small;
    options
}

fn start(buffer_size: u32, compressed: bool) -> TraceWriter<Cursor<Vec<u8>>> {
    let out = Cursor::new(Vec::new());
    TraceWriter::new(out, header(buffer_size), options(compressed)).unwrap()
}

fn push_numbered<W: Write + Seek>(
    writer: &mut TraceWriter<W>,
    cpus: u32,
    count: u32,
) -> Result<(), WriteError> {
    let start = header(0).start_raw;
    (0..count).try_for_each(|number| {
        event(number, start, |record| writer.push((number % cpus) as u16, record))
    })
}

/// The builder in memory and the writer give the same bytes; compressed, only the header buffer is shorter.
#[test]
fn the_same_file_as_the_builder_makes() {
    let mut writer = start(0x1000, false);
    push_numbered(&mut writer, 5, 2000).unwrap();
    assert!(writer.finish().unwrap().into_inner() == numbered(0x1000, 5, 2000));

    let mut writer = start(0x1000, true);
    push_numbered(&mut writer, 5, 2000).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    let built = numbered_compressed(0x1000, 5, 2000);
    let first = u32::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    assert_eq!(first, 0x200);
    assert!(bytes[first..] == built[0x1000..]);
    assert!(read(&bytes).numbers().into_iter().eq(0..2000));
}

/// A thread that helps to compress changes no byte, and neither level loses a record.
#[test]
fn a_helper_makes_the_same_file() {
    let make = |level: Level, has_helper: bool| {
        let mut options = options(true);
        (options.level, options.has_helper) = (level, has_helper);
        let mut writer =
            TraceWriter::new(Cursor::new(Vec::new()), header(0x1000), options).unwrap();
        push_numbered(&mut writer, 5, 20_000).unwrap();
        // Readers of a file that grows see whole buffers.
        writer.flush().unwrap();
        push_numbered(&mut writer, 5, 7).unwrap();
        writer.finish().unwrap().into_inner()
    };
    let alone = [Level::Fast, Level::Small].map(|level| make(level, false));
    let helped = [Level::Fast, Level::Small].map(|level| make(level, true));
    assert!(alone == helped);
    let [fast, small] = alone;
    assert!(small.len() < fast.len() && fast.len() * 10 < small.len() * 12);
    for bytes in [fast, small] {
        let mut numbers = read(&bytes).numbers();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq((0..7).flat_map(|n| [n, n]).chain(7..20_000)));
    }
}

#[test]
fn the_header_is_complete_in_the_end() {
    for compressed in [false, true] {
        let mut writer = start(0x1000, compressed);
        push_numbered(&mut writer, 3, 100).unwrap();
        writer.header_mut().logfile.events_lost = 7;
        writer.header_mut().logfile.buffers_lost = 8;
        let bytes = writer.finish().unwrap().into_inner();
        let file = open(&bytes).unwrap();
        let logfile = file.header().unwrap();
        assert_eq!(u64::from(logfile.buffers_written), file.totals().buffers);
        assert_eq!((logfile.events_lost, logfile.buffers_lost), (7, 8));
        assert_eq!(logfile.end_time, FileTime(logfile.start_time.0 + 1000));
        assert_eq!(logfile.number_of_processors, 3);
        assert_eq!(logfile.layout(), if compressed { LARGE } else { LayoutVersion::CURRENT });
        let mode = logfile.log_file_mode.contains(LogFileMode::COMPRESSED);
        assert_eq!(mode, compressed);
        let last = file.totals().buffers - 1;
        let outcome = read(&bytes);
        assert!(outcome.rows.iter().any(|row| row.buffer == last));
    }
    // An end that is set stays; large buffers and many CPUs ask for layout 2.0.
    let mut writer =
        TraceWriter::new(Cursor::new(Vec::new()), header(2 << 20), WriterOptions::default())
            .unwrap();
    let end = FileTime(header(0).logfile.start_time.0 + 3);
    writer.header_mut().logfile.end_time = end;
    push_numbered(&mut writer, 1, 5).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    let file = open(&bytes).unwrap();
    assert_eq!(file.header().unwrap().end_time, end);
    assert_eq!(file.header().unwrap().layout(), LARGE);
    let mut writer = start(0x400, false);
    push_numbered(&mut writer, 257, 257).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    assert_eq!(open(&bytes).unwrap().header().unwrap().layout(), LARGE);
}

#[test]
fn what_is_flushed_is_readable_before_the_end() {
    for compressed in [false, true] {
        let mut bytes = Vec::new();
        let mut header = header(0x1000);
        header.logfile.end_time = header.logfile.start_time;
        let out = Cursor::new(&mut bytes);
        let mut writer = TraceWriter::new(out, header, options(compressed)).unwrap();
        push_numbered(&mut writer, 3, 70).unwrap();
        writer.flush().unwrap();
        push_numbered(&mut writer, 3, 1).unwrap();
        // As if it was killed.
        drop(writer);
        let outcome = read(&bytes);
        assert_eq!(outcome.damage, []);
        assert!(outcome.numbers().into_iter().eq(0..70));
        assert!(!open(&bytes).unwrap().is_finalised());
    }
}

#[test]
fn header_records_until_the_first_buffer_is_written() {
    for compressed in [false, true] {
        let mut writer = start(0x400, compressed);
        let time = header(0).start_raw;
        let record = event_bytes(1, time);
        let mut taken = 0;
        while writer.push_header_record(&record) {
            taken += 1;
        }
        assert!((2..9).contains(&taken), "{taken}");
        push_numbered(&mut writer, 1, 1).unwrap();
        writer.flush().unwrap();
        assert!(!writer.push_header_record(&record[..8]));
        let bytes = writer.finish().unwrap().into_inner();
        let outcome = read(&bytes);
        assert_eq!(outcome.damage, []);
        let in_first = outcome.rows.iter().filter(|row| row.buffer == 0).count();
        assert_eq!(in_first, 1 + taken);
    }
}

#[test]
fn a_record_that_fits_no_buffer_is_refused_and_the_rest_written() {
    let mut writer = start(0x400, false);
    push_numbered(&mut writer, 1, 3).unwrap();
    let error = writer.push_stored(0, None, &[0; 0x3c0]).unwrap_err();
    let WriteError::Encode(error) = error else { panic!("{error}") };
    assert_eq!(error, EncodeError::BufferFull { size: 0x3c0, room: 0x400 - 0x48 });
    assert!(read(&writer.finish().unwrap().into_inner()).numbers().into_iter().eq(0..3));

    let mut long = header(0x400);
    long.logfile.logger_name = "x".repeat(500);
    let logfile = &long.logfile;
    let starter = write::Starter { process_id: 2, thread_id: 3 };
    let error = write::logfile_buffer(logfile, 1, starter, &[], 0x400).unwrap_err();
    assert!(matches!(error, EncodeError::BufferFull { room: 952, .. }), "{error}");
    assert!(write::logfile_buffer(logfile, 1, starter, &[vec![0; 9]], 0x800).is_ok());
    assert!(write::logfile_buffer(logfile, 1, starter, &[vec![0; 900]], 0x800).is_err());
    long.logfile.logger_name = "x".repeat(0x8000);
    let error = write::logfile_buffer(&long.logfile, 1, starter, &[], 1 << 20).unwrap_err();
    assert!(matches!(error, EncodeError::TooLarge { .. }), "{error}");
}

#[test]
fn every_header_type_is_streamed() {
    let mut writer = start(0x1000, true);
    let time = header(0).start_raw + 1;
    for header in sample::HEADERS {
        sample::with_record(header, |record| {
            record.order_time = time;
            writer.push(0, record).unwrap();
        });
    }
    let outcome = read(&writer.finish().unwrap().into_inner());
    assert_eq!(outcome.damage, []);
    let headers: Vec<_> = outcome.rows[1..].iter().map(|row| row.header).collect();
    assert_eq!(headers, sample::HEADERS);
}

/// Takes so many bytes, then none.
struct Full {
    room: usize,
    at: u64,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.room {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.room -= bytes.len();
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if let SeekFrom::Start(at) = to {
            self.at = at;
        }
        Ok(self.at)
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_strikes() {
    let (mut in_push, mut in_finish) = (0, 0);
    let whole = numbered(0x400, 2, 40).len() + 0x400;
    for room in (0..whole).step_by(0x400) {
        let out = Full { room, at: 0 };
        let mut writer = TraceWriter::new(out, header(0x400), options(false)).unwrap();
        let error = match push_numbered(&mut writer, 2, 40) {
            Err(error) => {
                in_push += 1;
                error
            }
            Ok(()) => {
                in_finish += 1;
                writer.finish().map(|_| ()).unwrap_err()
            }
        };
        let WriteError::Io(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
    assert!(in_push > 3 && in_finish >= 3, "{in_push} {in_finish}");
    let out = Full { room: whole, at: 0 };
    let mut writer = TraceWriter::new(out, header(0x400), options(false)).unwrap();
    push_numbered(&mut writer, 2, 40).unwrap();
    writer.finish().unwrap();
}

/// A buffer that could not be written is reported, although a helper compressed it.
#[test]
fn a_full_disk_is_an_error_with_a_helper() {
    let mut options = options(true);
    options.has_helper = true;
    for room in (0..0x4000).step_by(0x400) {
        let mut writer = TraceWriter::new(Full { room, at: 0 }, header(0x1000), options).unwrap();
        let pushed = push_numbered(&mut writer, 2, 20_000);
        let error = pushed.and_then(|()| writer.finish().map(drop)).unwrap_err();
        assert!(
            matches!(error, WriteError::Io(error) if error.kind() == io::ErrorKind::StorageFull)
        );
    }
}

#[test]
fn memory_is_that_of_the_open_buffers() {
    for compressed in [false, true] {
        let ((), peak) = alloc::peak(|| {
            let mut writer =
                TraceWriter::new(Sink::default(), header(0x4000), options(compressed)).unwrap();
            push_numbered(&mut writer, 8, 100_000).unwrap();
            let sink = writer.finish().unwrap();
            assert!(compressed || sink.0 > 10 << 20, "{}", sink.0);
        });
        // Eight open buffers, four spare ones, a compressed one and the compressor's tables.
        assert!(peak < 16 * 0x4000 + (1 << 20), "{peak}");
    }
}

#[test]
fn the_buffers_are_marked_as_a_session_does() {
    let mut writer = start(0x400, false);
    push_numbered(&mut writer, 2, 50).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    let file = TraceFile::from_bytes("x", bytes.clone()).unwrap();
    let count = file.totals().buffers as usize;
    let mut sequences = Vec::new();
    for number in 0..count {
        let head = bytes[number * 0x400..].first_chunk().unwrap();
        let head = etw_types::BufferHeader::read(head);
        let ends = number == 0 || number + 1 == count;
        assert_eq!(
            head.flags,
            BufferFlags::PROC_INDEX | BufferFlags::FLUSH_MARKER.when(ends),
            "{number}"
        );
        assert_eq!((head.state, head.logger_id), (3, 1));
        assert_eq!(
            head.buffer_type,
            if number == 0 { BufferType::HEADER } else { BufferType::GENERIC }
        );
        sequences.push(head.sequence_number);
    }
    sequences.sort_unstable();
    assert!(sequences.into_iter().eq(0..count as i64));
    let mut records = Records::new(vec![file]);
    while records.next().is_some() {}
    assert!(records.damage().is_empty());
}
