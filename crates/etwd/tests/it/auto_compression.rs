//! Sessions that compress the buffers that wait for a disk.

use std::path::Path;
use std::time::Duration;

use etw_session::{Compression, SessionConfig};
use etw_types::LogFileMode;
use etw_wire::requests::{Request, Response};

use crate::interrupted_requests::Mined;
use crate::rig::*;

const BUFFERS: u32 = 64;

fn free_buffers(mined: &Mined) -> u32 {
    match mined.daemon.ask(&Request::Query { session: "auto".to_owned() }) {
        Response::Session(status) => status.free_buffers,
        other => panic!("{other:?}"),
    }
}

/// Plain and compressed buffers of a file, its header not among them.
fn kinds(file: &Path) -> (u64, u64) {
    let trace = etw_etl::read::TraceFile::open(file).unwrap();
    let totals = trace.totals();
    (totals.buffers - 1 - totals.compressed_buffers, totals.compressed_buffers)
}

/// A session keeps to the faster way for a second behind the last buffer that waited.
fn become_calm() {
    std::thread::sleep(Duration::from_millis(1500));
}

/// Buffers are plain while the disk takes them. Those that wait for it when fewer than half of them are free are compressed, until
/// none has waited for a second. The file has both kinds, and every event.
#[test]
fn buffers_that_wait_for_the_disk_are_compressed() {
    let mined = Mined::new("plain buffers");
    let rig = &mined.daemon.rig;
    let config = SessionConfig {
        buffer_size: 4096,
        buffer_count: BUFFERS,
        compression: Compression::Auto,
        ..SessionConfig::default()
    };
    let file = mined.daemon.start("auto", config);
    let flush = || mined.daemon.ask(&Request::Flush { session: "auto".to_owned() });
    let write_one_by_one = || {
        for _ in 0..5 {
            rig.program("count", &[10, 0]).end();
            flush();
        }
    };
    write_one_by_one();
    let (plain, compressed) = kinds(&file);
    assert!(plain >= 5 && compressed == 0, "{plain} {compressed}");

    // The disk stands still, with all buffers of the session on their way to it.
    let held = mined.hold();
    let program = rig.program("count", &[4000, 0]);
    rig.wait_until(|_| free_buffers(&mined) == 0);
    drop(held);
    program.end();
    flush();
    let behind = kinds(&file);
    assert!(behind.1 > 0, "{behind:?}");

    become_calm();
    write_one_by_one();
    let after = kinds(&file);
    assert_eq!(after.1, behind.1, "no buffer waited");
    assert!(after.0 >= behind.0 + 5, "{behind:?} {after:?}");

    let status = mined.daemon.stop("auto");
    assert_eq!((status.stored, status.lost), (4100, 0), "{status:?}");
    assert_eq!(status.compressed, Compression::Auto);
    let found = events(&file);
    assert_eq!(contiguous(&found).values().sum::<u64>(), 4100);
    let trace = etw_etl::read::TraceFile::open(&file).unwrap();
    let header = trace.header().unwrap();
    assert!(trace.is_finalised());
    assert!(header.log_file_mode.contains(LogFileMode::COMPRESSED));
    assert_eq!(header.version, [10, 0, 2, 0]);
    assert_eq!(u64::from(header.buffers_written), trace.totals().buffers);
    mined.end();
}

/// Plain buffers behind compressed ones begin anywhere in a block of the file. A worker that is killed before their header is written
/// leaves no part of them: the next one stores each event once.
#[test]
fn plain_buffers_behind_compressed_ones_outlive_a_kill() {
    let mined = Mined::new("plain buffers");
    let rig = &mined.daemon.rig;
    let config = SessionConfig {
        // Large enough to go past the page cache alone.
        buffer_size: 128 << 10,
        buffer_count: 8,
        compression: Compression::Auto,
        ..SessionConfig::default()
    };
    let file = mined.daemon.start("auto", config);
    let flush = || mined.daemon.ask(&Request::Flush { session: "auto".to_owned() });
    let held = mined.hold();
    let program = rig.program("count", &[20_000, 0]);
    rig.wait_until(|_| free_buffers(&mined) == 0);
    drop(held);
    program.end();
    flush();
    let before = kinds(&file);
    assert!(before.1 > 0, "{before:?}");

    become_calm();
    for _ in 0..3 {
        mined.arm();
        rig.program("count", &[10, 0]).end();
        flush();
        assert!(!mined.armed.exists(), "it was not reached");
    }
    // A worker compresses the buffers that it finds.
    assert_eq!(kinds(&file), (before.0, before.1 + 3));
    let status = mined.daemon.stop("auto");
    assert_eq!((status.stored, status.lost), (20_030, 0), "{status:?}");
    let found = events(&file);
    assert_eq!(contiguous(&found).values().sum::<u64>(), 20_030);
    mined.end();
}
