//! Chunks that Windows wrote, read and written again.

use crate::corpus::logs;
use etw_evtx::Log;
use etw_evtx::write::chunk::ChunkWriter;

#[test]
fn chunks_of_windows_come_out_as_they_were() {
    let Some(logs) = logs() else { return };
    let (mut chunks, mut equal, mut tables) = (0, 0, 0);
    for path in logs {
        let log = Log::open(&path).unwrap();
        for location in log.chunks() {
            let mut chunk = log.chunk(location).unwrap();
            if chunk.header().is_none() {
                continue;
            }
            let theirs = chunk.bytes().to_vec();
            let mut writer = ChunkWriter::new();
            let mut starts = Vec::new();
            while let Some(record) = chunk.next() {
                assert!(writer.push(record.id(), record.time(), record.fragment()).unwrap());
                starts.push((record.offset() - location.offset) as usize);
            }
            if !chunk.take_damage().is_empty() {
                continue;
            }
            let ours = writer.to_bytes();
            let differs = first_difference(&ours, &theirs, &starts);
            chunks += 1;
            equal += usize::from(differs.is_none());
            tables += usize::from(ours[128..512] == theirs[128..512]);
            if let Some(at) = differs {
                let name = path.file_name().unwrap().to_string_lossy();
                eprintln!("{name} chunk at {:#x}: differs at {at:#x}", location.offset);
                let around = at.saturating_sub(24)..at + 16;
                eprintln!("  {:02x?}\n  {:02x?}", &ours[around.clone()], &theirs[around]);
            }
        }
    }
    eprintln!("{equal} of {chunks} chunks have equal records, {tables} equal tables");
    assert!(equal * 100 >= chunks * 98, "{equal} of {chunks}");
}

/// The first offset at which records differ. Padding before a record's last four bytes is ignored.
fn first_difference(ours: &[u8], theirs: &[u8], starts: &[usize]) -> Option<usize> {
    for start in starts {
        let size = theirs[start + 4..start + 8].try_into().map(u32::from_le_bytes).unwrap();
        let end = start + size as usize;
        for at in *start..end {
            let is_padding =
                at + 4 < end && at + 12 > end && ours[at..end - 4].iter().all(|byte| *byte == 0);
            if ours[at] != theirs[at] && !is_padding {
                return Some(at);
            }
        }
    }
    None
}
