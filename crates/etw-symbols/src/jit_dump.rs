//! jitdump: files in which compilers log the code that they make at run time (`jit-PID.dump`).
//!
//! Source: the format's specification in the documentation of Linux' `perf`.

use crate::perf_map::CompiledCode;

const MAGIC: u32 = 0x4a69_5444;
const HEADER_SIZE: usize = 40;
const RECORD_HEADER: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;

/// A program that logged the code that it compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitDump {
    /// Its process.
    pub process: u32,
    /// Its code, in the order in which it was made.
    pub code: Vec<CompiledCode>,
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
    let mut dump = JitDump { process, code: Vec::new() };
    let mut at = header_size;
    while let (Some(kind), Some(size)) = (reader.u32(at), reader.u32(at.saturating_add(4))) {
        let end = at.saturating_add(size as usize);
        let Some(body) = bytes.get(at + RECORD_HEADER..end) else { break };
        let body = Reader { bytes: body, is_swapped: reader.is_swapped };
        match kind {
            CODE_LOAD => dump.code.extend(loaded(&body)),
            CODE_MOVE => dump.moved(&body),
            _ => {}
        }
        at = end;
    }
    Some(dump)
}

/// `u32` process, `u32` thread, `u64` virtual address, `u64` address, `u64` size, `u64` index, name, code.
fn loaded(body: &Reader<'_>) -> Option<CompiledCode> {
    let (start, size) = (body.u64(16)?, body.u64(24)?);
    let name = body.bytes.get(40..)?;
    let length = name.iter().position(|byte| *byte == 0)?;
    let name = String::from_utf8_lossy(&name[..length]).into_owned();
    (!name.is_empty()).then_some(CompiledCode { start, size, name })
}

impl JitDump {
    /// `u32` process, `u32` thread, `u64` virtual address, `u64` old address, `u64` new address, `u64` size, `u64` index.
    fn moved(&mut self, body: &Reader<'_>) {
        let (Some(old), Some(new), Some(size)) = (body.u64(16), body.u64(24), body.u64(32)) else {
            return;
        };
        if let Some(code) = self.code.iter().rev().find(|code| code.start == old) {
            let name = code.name.clone();
            self.code.push(CompiledCode { start: new, size, name });
        }
    }
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

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = (RECORD_HEADER + body.len()) as u32;
        [&u32s(&[kind, size])[..], &u64s(&[5]), body].concat()
    }

    fn dump() -> Vec<u8> {
        let header = [u32s(&[MAGIC, 1, 40, 62, 0, 77]), u64s(&[1, 0])].concat();
        let load = [&u32s(&[77, 78])[..], &u64s(&[0x1000, 0x1000, 0x20, 1]), b"add\0", &[0x90; 32]];
        let moved = [u32s(&[77, 78]), u64s(&[0x2000, 0x1000, 0x2000, 0x20, 1])];
        [header, record(0, &load.concat()), record(9, &[]), record(1, &moved.concat())].concat()
    }

    #[test]
    fn loaded_and_moved_code_has_its_name() {
        let dump = parse(&dump()).unwrap();
        assert_eq!(dump.process, 77);
        let all: Vec<_> = dump.code.iter().map(|c| (c.start, c.size, &c.name[..])).collect();
        assert_eq!(all, [(0x1000, 0x20, "add"), (0x2000, 0x20, "add")]);
    }

    #[test]
    fn a_cut_file_gives_its_whole_records() {
        let whole = dump();
        assert!(parse(&whole[..30]).is_none());
        for size in 40..whole.len() {
            assert!(parse(&whole[..size]).unwrap().code.len() <= 1);
        }
        assert!(parse(b"not a jitdump file at all, but long enough for one").is_none());
    }
}
