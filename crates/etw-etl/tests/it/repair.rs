//! Repair completes the file of a killed session in place and changes nothing else.

use crate::support::{self, builder, numbered, push_numbered, read};
use etw_etl::header::LogfileHeader;
use etw_etl::read::TraceFile;
use etw_etl::repair::{RepairOutcome, RepairReport, repair};
use etw_etl::{DamageKind, Error};
use etw_types::{BufferHeader, EventRecord, FileTime, HeaderType};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

struct TempFile(PathBuf);

impl TempFile {
    fn new(bytes: &[u8]) -> TempFile {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "etw-etl-repair-{}-{}.etl",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        TempFile(path)
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn unfinished(compressed: bool, count: u32) -> Vec<u8> {
    let mut file = builder(0x800);
    file.finalised = false;
    file.compressed = compressed;
    push_numbered(&mut file, 3, count);
    file.finish()
}

/// Repairs it twice: the second time nothing may change. The result must be sound and complete.
fn repaired(bytes: &[u8]) -> (Vec<u8>, RepairReport) {
    let file = TempFile::new(bytes);
    let report = repair(&file.0).unwrap();
    assert_eq!(report.outcome, RepairOutcome::Finalised);
    let now = file.bytes();
    let again = repair(&file.0).unwrap();
    assert_eq!((again.outcome, again.damage.count()), (RepairOutcome::Sound, 0));
    assert_eq!((again.records, again.buffers), (report.records, report.buffers));
    assert!(file.bytes() == now);
    let trace = TraceFile::open(&file.0).unwrap();
    let header = trace.header().unwrap();
    assert_eq!(u64::from(header.buffers_written), trace.totals().buffers);
    assert_eq!(header.end_time, report.end_time);
    assert_eq!(trace.totals().buffers, report.buffers);
    (now, report)
}

#[test]
fn the_header_is_what_the_session_would_have_written() {
    for pointer_size in [4, 8] {
        let mut file = builder(0x1000);
        file.header.logfile.pointer_size = pointer_size;
        push_numbered(&mut file, 3, 500);
        let mut killed = file.clone();
        killed.finalised = false;
        let (bytes, report) = repaired(&killed.finish());
        assert!(bytes == file.finish());
        assert_eq!((report.records, report.cut_bytes, report.lost_bytes), (501, 0, 0));
        assert!(report.damage.is_empty());
    }
}

#[test]
fn a_stale_count_of_cpus_is_put_right() {
    let mut bytes = unfinished(false, 100);
    support::put_u32(
        &mut bytes,
        BufferHeader::SIZE + 0x20 + LogfileHeader::NUMBER_OF_PROCESSORS.offset(),
        1,
    );
    let (bytes, _) = repaired(&bytes);
    let trace = support::open(&bytes).unwrap();
    assert_eq!(trace.header().unwrap().number_of_processors, 3);
}

#[test]
fn reserved_space_is_cut() {
    for compressed in [false, true] {
        let bytes = unfinished(compressed, 300);
        for zeros in [1, 0x47, 0x48, 0x800, 0x12345] {
            let mut longer = bytes.clone();
            longer.resize(bytes.len() + zeros, 0);
            let (now, report) = repaired(&longer);
            assert_eq!(now.len(), bytes.len(), "{zeros}");
            assert_eq!((report.cut_bytes, report.lost_bytes), (zeros as u64, 0));
            assert!(report.damage.is_empty());
            assert!(read(&now).numbers().into_iter().eq(0..300));
        }
    }
}

/// Cut anywhere, in the header buffer or behind it: every record that could be read before can be read after.
#[test]
fn whole_records_of_a_cut_buffer_stay() {
    for compressed in [false, true] {
        let bytes = unfinished(compressed, 120);
        let offsets = support::buffer_offsets(&bytes);
        let mut lossy = 0;
        // Files are made slowly under Wine.
        for length in (0x200..bytes.len()).step_by(if cfg!(windows) { 97 } else { 29 }) {
            let cut = &bytes[..length];
            let before = read(cut);
            let (now, report) = repaired(cut);
            let after = read(&now);
            assert_eq!(after.damage, [], "{length}");
            assert_eq!(after.numbers(), before.numbers(), "{length}");
            assert_eq!(report.records as usize, before.rows.len());
            assert_eq!(report.damage.count(), before.damage.len() as u64);
            let whole = offsets.contains(&length);
            assert!(!whole || before.damage.is_empty());
            // Without a loss only filler and padding may be missing.
            assert!(report.lost_bytes == 0 || !before.damage.is_empty(), "{length}");
            assert!(report.lost_bytes > 0 || before.rows.len() == after.rows.len());
            lossy += u32::from(report.lost_bytes > 0);
        }
        assert!(lossy > 5, "{lossy}");
    }
}

#[test]
fn what_is_left_of_a_compressed_buffer_may_not_compress() {
    let mut noise = vec![0; 1000];
    support::Rng::new(1).fill(&mut noise);
    let mut file = builder(0x4000);
    (file.finalised, file.compressed) = (false, true);
    let mut record = EventRecord::new(HeaderType::Event64, &noise);
    record.order_time = file.header.start_raw + 1;
    file.push(0, &record).unwrap();
    push_numbered(&mut file, 1, 100);
    let buffers = file.finish_buffers();
    assert_eq!(buffers[1][0x34], 0x61);
    let mut stored = 0;
    for length in (0x400..0x600).step_by(8) {
        let cut = [&buffers[0][..], &buffers[1][..length]].concat();
        let before = read(&cut);
        let (now, report) = repaired(&cut);
        let after = read(&now);
        assert_eq!(after.numbers(), before.numbers());
        assert_eq!(after.rows.len(), before.rows.len());
        stored += u32::from(report.buffers == 2 && now[buffers[0].len() + 0x34] == 0x21);
        assert!(report.buffers == 1 || after.rows[1].payload == noise);
    }
    assert!(stored > 3, "{stored}");
}

#[test]
fn sound_and_damaged_files_stay_as_they_are() {
    let sound = numbered(0x800, 2, 100);
    let mut cases = vec![(sound.clone(), RepairOutcome::Sound)];
    // Bytes missing from a file that was complete: nothing is to be made of that.
    cases.push((sound[..sound.len() - 0x700].to_vec(), RepairOutcome::Damaged));
    for compressed in [false, true] {
        let bytes = unfinished(compressed, 300);
        let third = support::buffer_offsets(&bytes)[3];
        let mut middle = bytes.clone();
        middle[third..third + 0x48].fill(0x5a);
        cases.push((middle, RepairOutcome::Damaged));
        let mut record = bytes.clone();
        record[third + 0x4a] = 0x77;
        if !compressed {
            cases.push((record, RepairOutcome::Damaged));
        }
        let mut garbage = bytes.clone();
        garbage.extend([0x5a; 0x900]);
        cases.push((garbage, RepairOutcome::Damaged));
        let mut header = bytes;
        header[0x4a] = 0x77;
        cases.push((header, RepairOutcome::Damaged));
    }
    for (number, (bytes, outcome)) in cases.into_iter().enumerate() {
        let file = TempFile::new(&bytes);
        let before = std::fs::metadata(&file.0).unwrap().modified().unwrap();
        let report = repair(&file.0).unwrap();
        assert_eq!(report.outcome, outcome, "case {number}");
        assert_eq!(report.damage.is_empty(), outcome == RepairOutcome::Sound);
        assert!(file.bytes() == bytes, "case {number}");
        assert_eq!(std::fs::metadata(&file.0).unwrap().modified().unwrap(), before);
    }
}

#[test]
fn a_file_without_records_or_clock_gets_an_end() {
    let (bytes, report) = repaired(&unfinished(false, 0));
    assert_eq!(report.buffers, 1);
    let trace = support::open(&bytes).unwrap();
    assert_eq!(trace.header().unwrap().end_time, trace.clock().start);

    let mut file = builder(0x800);
    file.finalised = false;
    file.header.logfile.perf_freq = 0;
    push_numbered(&mut file, 1, 5);
    let (_, report) = repaired(&file.finish());
    // When the file was written, as its folder tells.
    assert!(report.end_time > FileTime::UNIX_EPOCH);
}

#[test]
fn a_file_that_a_session_holds_is_left() {
    let bytes = unfinished(false, 50);
    let file = TempFile::new(&bytes);
    let session = std::fs::File::open(&file.0).unwrap();
    session.lock().unwrap();
    let error = repair(&file.0).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    drop(session);
    assert!(file.bytes() == bytes);
    assert_eq!(repair(&file.0).unwrap().outcome, RepairOutcome::Finalised);
    assert!(matches!(repair("/nonexistent/x.etl").unwrap_err(), Error::Io { .. }));
}

#[test]
fn the_damage_of_a_cut_buffer_is_told() {
    let bytes = unfinished(false, 50);
    let file = TempFile::new(&bytes[..bytes.len() - 0x600]);
    let report = repair(&file.0).unwrap();
    let [damage] = report.damage.kept() else { panic!("{:?}", report.damage) };
    assert_eq!(damage.kind, DamageKind::Truncated { missing_bytes: 0x600, missing_buffers: 0 });
}
