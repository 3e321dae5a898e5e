//! The first buffer of a file: session, clock, pointer size.

use super::byte_source::{ByteSource, read_full};
use super::resync::find_buffer;
use crate::FoundInstead;
use crate::header::{LayoutVersion, LogfileHeader};
use crate::record::{self, RecordContext};
use etw_types::{BufferHeader, HeaderType, Hook};
use std::io;

/// Bytes at the start of a file that are searched for a first buffer if the header cannot be read.
const SALVAGE_RANGE: u64 = 64 << 20;

/// Bytes that have the header of most files.
const USUAL_START: usize = 4096;

/// Facts from the first buffer.
pub(super) struct Start {
    pub(super) header: Option<LogfileHeader>,
    pub(super) raw_start: i64,
    pub(super) record: RecordContext,
    /// Buffer size on disk of the first buffer that can be trusted.
    pub(super) first_size: u32,
    /// Offset of the first buffer; not 0 only if the bytes before it are damaged.
    pub(super) first_offset: u64,
}

/// `Err` holds what the file contains in place of a first buffer.
pub(super) fn read_start(source: &dyn ByteSource) -> io::Result<Result<Start, FoundInstead>> {
    let mut bytes = first_bytes(source, 0)?;
    let Some(head) = bytes.first_chunk() else {
        return Ok(Err(FoundInstead::TooShort { size: bytes.len() }));
    };
    let mut buffer = BufferHeader::read(head);
    let mut logfile = read_logfile(&bytes);
    let mut first_offset = 0;
    if logfile.is_none() && (bytes.starts_with(b"ElfFile\0") || bytes.get(4..8) == Some(b"LfLe")) {
        return Ok(Err(FoundInstead::EventLog));
    }
    if let Some(name) = other_format(&bytes).filter(|_| logfile.is_none()) {
        return Ok(Err(FoundInstead::Format(name)));
    }
    if logfile.is_none() && !buffer.is_plausible() {
        let range = source.size().min(SALVAGE_RANGE);
        let Some(found) = find_buffer(source, 1, range)? else {
            return Ok(Err(describe(&bytes)));
        };
        first_offset = found;
        bytes = first_bytes(source, found)?;
        buffer = bytes.first_chunk().map_or(buffer, BufferHeader::read);
        logfile = read_logfile(&bytes);
    }
    let Some((header, raw_start, width)) = logfile else {
        return Ok(Ok(Start {
            header: None,
            raw_start: 0,
            record: RecordContext::default(),
            first_size: buffer.buffer_size,
            first_offset,
        }));
    };
    let pointer_size = match header.pointer_size {
        4 => 4,
        8 => 8,
        _ => width,
    };
    Ok(Ok(Start {
        raw_start,
        record: RecordContext {
            pointer_size,
            old_instance: header.layout() < LayoutVersion::NEW_INSTANCES,
        },
        first_size: if buffer.is_plausible() { buffer.buffer_size } else { header.buffer_size },
        first_offset,
        header: Some(header),
    }))
}

/// A buffer header and the longest record; less if the first record is a logfile header, which is rarely as long as that.
pub(super) fn first_bytes(source: &dyn ByteSource, offset: u64) -> io::Result<Vec<u8>> {
    let read = |size: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        let got = read_full(source, &mut bytes, offset)?;
        bytes.truncate(got);
        Ok(bytes)
    };
    let bytes = read(USUAL_START)?;
    match bytes.len() < USUAL_START || read_logfile(&bytes).is_some() {
        true => Ok(bytes),
        false => read(BufferHeader::SIZE + 0xffff),
    }
}

/// The logfile header in a first buffer, its time, and the pointer size of its record.
pub(super) fn read_logfile(buffer: &[u8]) -> Option<(LogfileHeader, i64, u8)> {
    let context = RecordContext::default();
    let first = record::parse(buffer.get(BufferHeader::SIZE..)?, &context).ok()?;
    let is_header = first.hook == Some(Hook(0))
        && matches!(first.header, HeaderType::System32 | HeaderType::System64);
    let width = first.pointer_size;
    let header = LogfileHeader::read(first.payload, u32::from(width)).filter(|_| is_header)?;
    Some((header, first.order_time, width))
}

/// Starts of files of other formats. Somewhere inside of a large one are bytes that look like a buffer.
const OTHER_FORMATS: [(&[u8], &str); 14] = [
    (b"\x7fELF", "a program or library (ELF)"),
    (b"\xcf\xfa\xed\xfe", "a program or library (Mach-O)"),
    (b"\x1f\x8b\x08", "compressed (gzip); decompress it first"),
    (b"PK\x03\x04", "an archive (ZIP); unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "an archive (7z); unpack it first"),
    (b"MSCF\0\0\0\0", "an archive (CAB); unpack it first"),
    (b"\xfd7zXZ\0", "compressed (xz); decompress it first"),
    (b"\x28\xb5\x2f\xfd", "compressed (Zstandard); decompress it first"),
    (b"PERFILE2", "a recording of perf"),
    (b"\x0a\x0d\x0d\x0a", "a capture of packets (pcapng)"),
    (b"SQLite format 3\0", "a database (SQLite)"),
    (b"!<arch>\n", "an archive (ar)"),
    (b"%PDF-", "a document (PDF)"),
    (b"Microsoft C/C++ MSF 7.00\r\n", "symbols of a program (PDB)"),
];

/// The other format that the start of a file is of.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    // `MZ` alone is too little: behind it is the offset of `PE`.
    let pe = bytes.get(0x3c..0x40).and_then(|at| Some(u32::from_le_bytes(at.try_into().ok()?)));
    let is_pe = bytes.starts_with(b"MZ")
        && pe.and_then(|at| bytes.get(at as usize..)).is_some_and(|at| at.starts_with(b"PE\0\0"));
    let known = OTHER_FORMATS.iter().find(|(magic, _)| bytes.starts_with(magic));
    known.map(|(_, name)| *name).or(is_pe.then_some("a program or library (PE)"))
}

/// Describes the start of a file that is no trace.
fn describe(bytes: &[u8]) -> FoundInstead {
    if bytes.iter().all(|&byte| byte == 0) {
        return FoundInstead::Zeros;
    }
    let text = std::str::from_utf8(&bytes[..bytes.len().min(16)]).unwrap_or_default();
    if !text.is_empty() && text.chars().all(|c| !c.is_control() || c.is_whitespace()) {
        return FoundInstead::Text(text.to_owned());
    }
    FoundInstead::Bytes(bytes[..bytes.len().min(8)].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::FileBuilder;

    fn start(bytes: Vec<u8>) -> Result<Start, FoundInstead> {
        read_start(&bytes).unwrap()
    }

    #[test]
    fn a_header_of_any_length_is_read() {
        for length in [1, 1800, 1900, 2000, 20_000] {
            let mut file = FileBuilder::new();
            file.header.logfile.logger_name = "n".repeat(length);
            let found = start(file.finish()).map(|start| start.header.map(|it| it.logger_name));
            let Ok(Some(name)) = found else { panic!("{length}: no header") };
            assert!(name == "n".repeat(length), "{length}");
        }
    }

    #[test]
    fn zeros_are_those_of_the_longest_record() {
        for size in [USUAL_START - 1, USUAL_START, USUAL_START + 1, 0x10000] {
            assert!(matches!(start(vec![0; size]), Err(FoundInstead::Zeros)), "{size}");
            let mut bytes = vec![0; size + 1];
            bytes[size] = 1;
            assert!(matches!(start(bytes), Err(FoundInstead::Bytes(_))), "{size}");
        }
    }
}
