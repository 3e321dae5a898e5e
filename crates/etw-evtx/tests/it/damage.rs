//! Logs whose file or chunks lack something: the damage is reported, and the rest is read.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use etw_evtx::chunk::{Chunk, Options};
use etw_evtx::layout::{CHUNK_SIZE, ChunkHeader, FILE_HEADER_SIZE, FIRST_RECORD};
use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::{LogWriter, Retention};
use etw_evtx::{Damage, DamageKind, Log};
use etw_types::{FileTime, Guid};

/// Offset of a chunk.
fn chunk_at(index: usize) -> usize {
    FILE_HEADER_SIZE + index * CHUNK_SIZE
}

/// The bytes of a log of some chunks with the records 1 to `count`. A log that wraps has fewer.
fn log(name: &str, chunks: u64, count: u64, closes: bool) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("damage_{name}.evtx"));
    let _ = fs::remove_file(&path);
    let node = Node::element("Number", vec![], vec![Node::value(0, ValueType::UINT64)]);
    let text = Node::element("Text", vec![], vec![Node::value(1, ValueType::BINARY)]);
    let template = Arc::new(Template::new(Guid::from_name("damage"), vec![node, text]));
    let size = (FILE_HEADER_SIZE + chunks as usize * CHUNK_SIZE) as u64;
    let mut writer = LogWriter::open(&path, size, Retention::Overwrite).unwrap();
    for id in 1..=count {
        let number = id.to_le_bytes();
        let values = [(ValueType::UINT64, &number[..]), (ValueType::BINARY, &[7; 900])];
        let arguments =
            values.map(|(value_type, bytes)| Argument::Value(Value { value_type, bytes }));
        let fragment = Fragment::Instance(Instance {
            template: template.clone(),
            arguments: arguments.into(),
            has_header: true,
        });
        writer.push(FileTime(id as i64), &fragment).unwrap();
    }
    match closes {
        true => writer.close().unwrap(),
        false => std::mem::forget(writer),
    }
    fs::read(&path).unwrap()
}

/// The ids of the records that are read, in order, and the damage.
fn read(bytes: &[u8]) -> (Vec<u64>, Vec<Damage>) {
    let log = Log::from_bytes(bytes.to_vec()).unwrap();
    let mut records = log.records();
    let mut ids = Vec::new();
    while let Some(record) = records.next().unwrap() {
        ids.push(record.id());
    }
    (ids, records.damage().to_vec())
}

fn at(offset: usize, kind: DamageKind) -> Damage {
    Damage { offset: offset as u64, kind }
}

/// First and last id of a chunk.
fn ids_of(bytes: &[u8], chunk: usize) -> (u64, u64) {
    let header = ChunkHeader::read(&bytes[chunk_at(chunk)..]).unwrap();
    (header.first_id, header.last_id)
}

#[test]
fn a_chunk_whose_start_is_zero_is_damaged_and_its_records_are_found() {
    for closes in [true, false] {
        let whole = log("zero_start", 4, 250, closes);
        let (all, damage) = read(&whole);
        assert!(damage.is_empty() && all.len() == 250, "{damage:?}");
        for chunk in 0..4 {
            let start = chunk_at(chunk);
            let (first, last) = ids_of(&whole, chunk);
            for zeros in [8, 128, 512] {
                let mut bytes = whole.clone();
                bytes[start..start + zeros].fill(0);
                let (ids, damage) = read(&bytes);
                assert_eq!(ids, all, "chunk {chunk}, {zeros} bytes");
                assert!(damage.contains(&at(start, DamageKind::ChunkSignature)), "{damage:?}");
            }
            // The template of the chunk is in its first record, which is lost.
            let mut bytes = whole.clone();
            bytes[start..start + 8192].fill(0);
            let (ids, damage) = read(&bytes);
            assert_eq!(damage[0], at(start, DamageKind::ChunkSignature));
            let skipped = damage
                .iter()
                .find(|one| matches!(one.kind, DamageKind::Skipped { size } if size >= 8192 - 512));
            assert_eq!(skipped.unwrap().offset, (start + FIRST_RECORD) as u64);
            let unreadable: Vec<u64> = damage
                .iter()
                .filter_map(|one| match one.kind {
                    DamageKind::Record { id, .. } => Some(id),
                    _ => None,
                })
                .collect();
            // All but the records in the zeros are found: each is read or named.
            let found =
                unreadable.len() + ids.iter().filter(|id| (first..=last).contains(id)).count();
            let count = (last - first + 1) as usize;
            assert!(found < count && found >= count - 9, "{found} of {count}");
        }
    }
}

/// The records of a chunk without a header are given in the order of their ids, also in a log that has wrapped.
#[test]
fn a_chunk_without_a_header_keeps_its_place() {
    let whole = log("place", 3, 600, true);
    let (all, damage) = read(&whole);
    assert!(damage.is_empty() && all.len() < 200, "{damage:?} {}", all.len());
    for chunk in 0..3 {
        let mut bytes = whole.clone();
        bytes[chunk_at(chunk)..chunk_at(chunk) + 128].fill(0);
        assert_eq!(read(&bytes).0, all, "chunk {chunk}");
    }
}

#[test]
fn a_chunk_of_zeros_between_others_is_told() {
    let whole = log("zeros", 6, 350, true);
    let count = (whole.len() - FILE_HEADER_SIZE) / CHUNK_SIZE;
    assert_eq!(count, 6);
    let wiped = |chunks: &[usize]| {
        let mut bytes = whole.clone();
        for chunk in chunks {
            bytes[chunk_at(*chunk)..chunk_at(*chunk + 1)].fill(0);
        }
        read(&bytes).1
    };
    assert_eq!(wiped(&[0]), [at(chunk_at(0), DamageKind::ZeroChunks(1))]);
    assert_eq!(wiped(&[1, 2]), [at(chunk_at(1), DamageKind::ZeroChunks(2))]);
    assert_eq!(
        wiped(&[1, 3, 4]),
        [at(chunk_at(1), DamageKind::ZeroChunks(1)), at(chunk_at(3), DamageKind::ZeroChunks(2))]
    );
    // The header names a chunk behind them.
    assert_eq!(wiped(&[0, 1, 2, 3, 4, 5]), [at(chunk_at(0), DamageKind::ZeroChunks(5))]);
    // The last chunk may be unused, but the header counts the records that were in it.
    let (first, last) = ids_of(&whole, 5);
    assert_eq!(wiped(&[5]), [at(0, DamageKind::MissingRecords { first, last })]);
}

/// A writer makes zeros of the oldest chunk before it writes records there.
#[test]
fn the_chunk_that_a_writer_begins_next_may_be_zero() {
    for closes in [true, false] {
        let mut bytes = log("next", 4, 700, closes);
        let newest = (0..4).max_by_key(|chunk| ids_of(&bytes, *chunk).1).unwrap();
        let next = (newest + 1) % 4;
        bytes[chunk_at(next)..chunk_at(next + 1)].fill(0);
        let expected = match closes {
            // The header of a closed log names its newest chunk.
            true if next < 3 => vec![at(chunk_at(next), DamageKind::ZeroChunks(1))],
            _ => vec![],
        };
        assert_eq!(read(&bytes).1, expected, "{closes} {next}");
    }
}

#[test]
fn a_log_that_was_cut_between_chunks_or_in_its_header_is_damaged() {
    let whole = log("cut", 4, 250, true);
    let missing = |found| DamageKind::MissingChunks { counted: 4, found };
    for (chunks, lost) in [(1, 3), (2, 2), (3, 1)] {
        let (_, last) = ids_of(&whole, chunks - 1);
        let (ids, damage) = read(&whole[..chunk_at(chunks)]);
        assert_eq!(ids, (1..=last).collect::<Vec<_>>());
        let records = DamageKind::MissingRecords { first: last + 1, last: 250 };
        assert_eq!(damage, [at(chunk_at(chunks), missing(4 - lost)), at(0, records)]);
    }
    assert_eq!(read(&whole[..4096]).1, [at(4096, missing(0))]);
    for size in [8, 64, 127, 128, 2000, 4095] {
        let damage = read(&whole[..size]).1;
        assert_eq!(damage[0], at(size, DamageKind::TruncatedHeader(size as u64)), "{size}");
        assert_eq!(damage.len(), if size < 128 { 1 } else { 2 }, "{damage:?}");
    }
    // A cut inside of a chunk names that chunk, and those behind it.
    let (_, damage) = read(&whole[..chunk_at(1) + 3000]);
    assert!(damage.contains(&at(chunk_at(1), DamageKind::TruncatedChunk(3000))), "{damage:?}");
    assert!(damage.contains(&at(chunk_at(1) + 3000, missing(2))), "{damage:?}");
    // Chunks that were never used are no loss: Windows makes them ahead.
    let mut longer = whole.clone();
    longer.resize(chunk_at(9), 0);
    assert_eq!(read(&longer), read(&whole));
    assert_eq!(read(&longer[..chunk_at(6) + 77]), read(&whole));
}

/// A log that was cleared has a next id and no records.
#[test]
fn a_log_without_records_is_sound() {
    let mut bytes = log("empty", 1, 0, true);
    assert_eq!(read(&bytes), (vec![], vec![]));
    bytes[24] = 99;
    let checksum = crc32fast::hash(&bytes[..120]).to_le_bytes();
    bytes[124..128].copy_from_slice(&checksum);
    assert_eq!(read(&bytes), (vec![], vec![]));
}

#[test]
fn checksums_count_in_a_log_that_was_not_closed_but_for_the_newest_chunk() {
    let whole = log("dirty", 4, 250, false);
    let (all, damage) = read(&whole);
    assert!(damage.is_empty() && all.len() == 250, "{damage:?}");
    let log = Log::from_bytes(whole.clone()).unwrap();
    assert!(log.is_dirty());
    for chunk in 0..4 {
        let start = chunk_at(chunk);
        // A value of the second record.
        let mut bytes = whole.clone();
        bytes[start + 3000] ^= 0x10;
        let expected = match chunk {
            3 => vec![],
            _ => vec![at(start, DamageKind::ChunkChecksum { of_records: true })],
        };
        assert_eq!(read(&bytes), (all.clone(), expected), "chunk {chunk}");
        // A byte of the header that nothing else needs.
        let mut bytes = whole.clone();
        bytes[start + 8] ^= 0x40;
        let expected = match chunk {
            3 => vec![],
            _ => vec![at(start, DamageKind::ChunkChecksum { of_records: false })],
        };
        assert_eq!(read(&bytes), (all.clone(), expected), "chunk {chunk}");
    }
}

/// A chunk alone does not know whether it is the newest one.
#[test]
fn a_complete_chunk_of_a_dirty_log_is_compared_with_its_checksums() {
    let mut bytes = log("chunk", 1, 20, false).split_off(FILE_HEADER_SIZE);
    bytes[3000] ^= 0x10;
    for is_complete in [false, true] {
        let options = Options { is_dirty: true, is_complete, ..Options::default() };
        let mut chunk = Chunk::new(bytes.clone(), 4096, options);
        while chunk.next().is_some() {}
        assert_eq!(!chunk.take_damage().is_empty(), is_complete);
    }
}

/// A writer that ends between the records of a new chunk and their header leaves a header without records.
#[test]
fn a_new_chunk_without_its_last_header_is_read_and_continued() {
    let mut bytes = log("begun", 4, 230, false);
    let start = chunk_at(3);
    let (first_id, last_id) = ids_of(&bytes, 3);
    assert_eq!(last_id, 230);
    let mut head = vec![0; FIRST_RECORD];
    ChunkHeader {
        first_number: first_id,
        last_number: first_id - 1,
        first_id,
        last_id: first_id - 1,
        last_record: 0,
        free: FIRST_RECORD as u32,
        records_checksum: 0,
        flags: 1,
        header_checksum: 0,
    }
    .put_head(&mut head, 0);
    bytes[start..start + FIRST_RECORD].copy_from_slice(&head);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("damage_continued.evtx");
    for has_records in [true, false] {
        if !has_records {
            bytes[start + FIRST_RECORD..].fill(0);
        }
        let last = if has_records { 230 } else { first_id - 1 };
        assert_eq!(read(&bytes), ((1..=last).collect(), vec![]));
        fs::write(&path, &bytes).unwrap();
        let writer = LogWriter::open(&path, bytes.len() as u64, Retention::Overwrite).unwrap();
        assert_eq!((writer.next_id(), writer.overwritten()), (last + 1, 0));
        writer.close().unwrap();
        assert_eq!(read(&fs::read(&path).unwrap()), ((1..=last).collect(), vec![]));
    }
}

/// A writer goes on behind the records of a chunk whose header is lost.
#[test]
fn a_writer_gives_no_id_twice_where_a_header_is_lost() {
    let mut bytes = log("lost_header", 4, 250, false);
    bytes[chunk_at(3)..chunk_at(3) + 512].fill(0);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("damage_lost.evtx");
    fs::write(&path, &bytes).unwrap();
    let writer = LogWriter::open(&path, bytes.len() as u64, Retention::Keep).unwrap();
    assert_eq!(writer.next_id(), 251);
    writer.close().unwrap();
    assert_eq!(read(&fs::read(&path).unwrap()), ((1..=250).collect(), vec![]));
}
