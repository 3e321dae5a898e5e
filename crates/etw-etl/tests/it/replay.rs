//! Replays `fuzz/corpus/` on a stable compiler, with mutants of it, and makes its seeds.
//!
//! `ETW_BLESS=1 cargo test -p etw-etl --test it replay` writes the seeds anew; inputs that fuzzers found stay.

use crate::support::{builder, event_bytes, numbered, push_numbered, put_u32};
use etw_etl::lzxpress;
use etw_etl::write::{BufferBuilder, sample};
use etw_types::LogFileMode;

#[path = "../../../../fuzz/src/etl.rs"]
mod bodies;
#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;

fn replay(target: &str, seeds: &Seeds, body: fn(&[u8])) {
    let total: usize = seeds.iter().map(|seed| seed.1.len()).sum();
    assert!(total < 20_000, "{target}: {total} bytes of seeds");
    replaying::replay(target, seeds, 400, body);
}

#[test]
fn files_and_their_mutants_are_read() {
    replay("file", &file_seeds(), bodies::file);
}

#[test]
fn buffers_and_their_mutants_are_read() {
    replay("buffer", &buffer_seeds(), bodies::buffer);
}

#[test]
fn compressed_streams_and_their_mutants_are_read() {
    replay("lzxpress", &lzxpress_seeds(), bodies::lzxpress);
}

type Seeds = Vec<(&'static str, Vec<u8>)>;

fn file_seeds() -> Seeds {
    let small = |compressed| {
        let mut file = sample::builder();
        file.compressed = compressed;
        let mut buffers = file.finish_buffers();
        // The header buffer of a compressed file may have a size of its own.
        let filled = 0x48 + 0x20 + 0x118 + 40;
        buffers[0].truncate(filled + 8);
        let size = buffers[0].len() as u32;
        put_u32(&mut buffers[0], 0, size);
        buffers.truncate(3);
        buffers.concat()
    };
    let mut circular = builder(0x400);
    circular.header.logfile.log_file_mode = LogFileMode::CIRCULAR;
    push_numbered(&mut circular, 2, 15);
    let mut buffers = circular.finish_buffers();
    buffers.remove(1);
    buffers[1..].rotate_left(1);
    let mut narrow = builder(0x400);
    narrow.header.logfile.pointer_size = 4;
    narrow.finalised = false;
    push_numbered(&mut narrow, 1, 4);
    let uniform = numbered(0x400, 2, 10);
    let mut cut = uniform[..0x900].to_vec();
    put_u32(&mut cut, 0x400, 0x123);
    vec![
        ("compressed", small(true)),
        ("uniform", uniform),
        ("circular", buffers.concat()),
        ("unfinalised-32", narrow.finish()),
        ("cut", cut),
        ("text", b"not a trace".to_vec()),
    ]
}

fn buffer_seeds() -> Seeds {
    let mut all = BufferBuilder::new(0x1000, 1);
    for header in sample::HEADERS {
        sample::with_record(header, |record| all.push(record)).unwrap();
    }
    let mut damaged = BufferBuilder::new(0x400, 1);
    damaged.push_bytes(&event_bytes(1, 5));
    let mut chain = event_bytes(2, 6);
    chain[4] = 1;
    damaged.push_bytes(&chain);
    damaged.push_bytes(&event_bytes(3, 7));
    damaged.push_bytes(&[0; 16]);
    let with = |choice: u8, bytes: Vec<u8>| [vec![choice], bytes].concat();
    vec![
        ("all", with(0, all.clone().finish())),
        ("all-compressed", with(1, all.clone().finish_compressed())),
        ("old-instance", with(2, all.finish_compressed())),
        ("damaged", with(0, damaged.clone().finish())),
        ("damaged-compressed", with(3, damaged.finish_compressed())),
    ]
}

fn lzxpress_seeds() -> Seeds {
    let stream = |data: &[u8], length: u16| {
        let mut bytes = length.to_le_bytes().to_vec();
        lzxpress::compress(data, &mut bytes, lzxpress::Level::Small);
        bytes
    };
    let text = b"the quick brown fox, the quick brown dog, the slow brown fox ".repeat(4);
    let steps: Vec<u8> = (0..600u32).map(|at| ((at * at) >> 5) as u8).collect();
    vec![
        ("empty", stream(&[], 0)),
        ("text", stream(&text, text.len() as u16)),
        ("run", stream(&[7; 40_000], 40_000)),
        ("steps", stream(&steps, 600)),
        ("too-short", stream(&text, 2000)),
        ("bad-offset", vec![9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("last-flags", [stream(&text, text.len() as u16), vec![0xff; 4]].concat()),
    ]
}
