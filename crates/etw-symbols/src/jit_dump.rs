//! jitdump: files in which compilers log the code that they make at run time (`jit-PID.dump`).
//!
//! Source: the format's specification in the documentation of Linux' `perf`.

use std::collections::HashMap;
use std::sync::Arc;

const MAGIC: u32 = 0x4a69_5444;
const HEADER_SIZE: usize = 40;
const RECORD_HEADER: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
/// The flag of a file whose times are the processor's cycles.
const CYCLES: u64 = 1;

/// Code while it is at an address. Times are nanoseconds of the file's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitCode {
    /// The first address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// The name.
    pub name: Arc<str>,
    /// The time when it was loaded or moved there. Other code at the address ends then.
    pub since: u64,
    /// The time when it was moved away.
    pub until: Option<u64>,
}

/// A program that logged the code that it compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitDump {
    /// Its process.
    pub process: u32,
    /// Its code, in the order in which it was made.
    pub code: Vec<JitCode>,
    /// The times are those of `CLOCK_MONOTONIC`; otherwise nothing is known of them.
    pub is_monotonic: bool,
}

struct Reader<'a> {
    bytes: &'a [u8],
    is_swapped: bool,
}

impl Reader<'_> {
    fn u32(&self, at: usize) -> Option<u32> {
        let value = u32::from_le_bytes(self.bytes.get(at..)?.first_chunk().copied()?);
        Some(if self.is_swapped { value.swap_bytes() } else { value })
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let value = u64::from_le_bytes(self.bytes.get(at..)?.first_chunk().copied()?);
        Some(if self.is_swapped { value.swap_bytes() } else { value })
    }
}

/// Reads a file up to its end, or to the first record that is not whole. `None`: it is no jitdump file.
pub fn parse(bytes: &[u8]) -> Option<JitDump> {
    let mut reader = Reader { bytes, is_swapped: false };
    reader.is_swapped = match reader.u32(0)? {
        MAGIC => false,
        other if other.swap_bytes() == MAGIC => true,
        _ => return None,
    };
    let process = reader.u32(20)?;
    let header_size = reader.u32(8)? as usize;
    if header_size < HEADER_SIZE || bytes.len() < header_size {
        return None;
    }
    let is_monotonic = reader.u64(32)? & CYCLES == 0;
    let mut dump = JitDump { process, code: Vec::new(), is_monotonic };
    // The last code at each address.
    let mut last: HashMap<u64, usize> = HashMap::new();
    let mut at = header_size;
    while let (Some(kind), Some(size)) = (reader.u32(at), reader.u32(at.saturating_add(4))) {
        let end = at.saturating_add(size as usize);
        let Some(body) = bytes.get(at + RECORD_HEADER..end) else { break };
        let Some(time) = reader.u64(at + 8) else { break };
        let body = Reader { bytes: body, is_swapped: reader.is_swapped };
        let code = match kind {
            CODE_LOAD => loaded(&body, time),
            CODE_MOVE => moved(&body, time, &mut dump.code, &last),
            _ => None,
        };
        if let Some(code) = code {
            last.insert(code.start, dump.code.len());
            dump.code.push(code);
        }
        at = end;
    }
    // Some programs write no times.
    dump.is_monotonic &= dump.code.iter().any(|code| code.since != 0);
    Some(dump)
}

/// `u32` process, `u32` thread, `u64` virtual address, `u64` address, `u64` size, `u64` index, name, code.
fn loaded(body: &Reader<'_>, since: u64) -> Option<JitCode> {
    let (start, size) = (body.u64(16)?, body.u64(24)?);
    let name = body.bytes.get(40..)?;
    let length = name.iter().position(|byte| *byte == 0)?;
    let name: Arc<str> = Arc::from(String::from_utf8_lossy(&name[..length]));
    (!name.is_empty()).then_some(JitCode { start, size, name, since, until: None })
}

/// `u32` process, `u32` thread, `u64` virtual address, `u64` old address, `u64` new address, `u64` size, `u64` index.
fn moved(
    body: &Reader<'_>,
    since: u64,
    all: &mut [JitCode],
    last: &HashMap<u64, usize>,
) -> Option<JitCode> {
    let (old, start, size) = (body.u64(16)?, body.u64(24)?, body.u64(32)?);
    let code = all.get_mut(*last.get(&old)?)?;
    code.until.get_or_insert(since);
    Some(JitCode { start, size, name: code.name.clone(), since, until: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u32s(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn u64s(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn record(kind: u32, time: u64, body: &[u8]) -> Vec<u8> {
        let size = (RECORD_HEADER + body.len()) as u32;
        [&u32s(&[kind, size])[..], &u64s(&[time]), body].concat()
    }

    fn load(time: u64, name: &[u8]) -> Vec<u8> {
        let addresses = u64s(&[0x1000, 0x1000, 0x20, 1]);
        record(0, time, &[&u32s(&[77, 78])[..], &addresses, name, &[0, 0x90, 0x90]].concat())
    }

    fn dump(flags: u64) -> Vec<u8> {
        let header = [u32s(&[MAGIC, 1, 40, 62, 0, 77]), u64s(&[1, flags])].concat();
        let moved = [u32s(&[77, 78]), u64s(&[0x2000, 0x1000, 0x2000, 0x20, 1])].concat();
        let rest = [record(9, 6, &[]), record(1, 7, &moved), load(8, b"sub")].concat();
        [header, load(5, b"add"), rest].concat()
    }

    #[test]
    fn loaded_and_moved_code_has_its_name_and_its_times() {
        let parsed = parse(&dump(0)).unwrap();
        assert_eq!((parsed.process, parsed.is_monotonic), (77, true));
        let all: Vec<_> =
            parsed.code.iter().map(|c| (c.start, &*c.name, c.since, c.until)).collect();
        let expected =
            [(0x1000, "add", 5, Some(7)), (0x2000, "add", 7, None), (0x1000, "sub", 8, None)];
        assert_eq!(all, expected);
        assert!(parsed.code.iter().all(|code| code.size == 0x20));
        assert!(!parse(&dump(CYCLES)).unwrap().is_monotonic, "cycles");
    }

    #[test]
    fn a_cut_file_gives_its_whole_records() {
        let whole = dump(0);
        assert!(parse(&whole[..30]).is_none());
        for size in 40..whole.len() {
            assert!(parse(&whole[..size]).unwrap().code.len() <= 2);
        }
        assert!(parse(b"not a jitdump file at all, but long enough for one").is_none());
    }
}
