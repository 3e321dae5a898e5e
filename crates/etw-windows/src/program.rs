//! Reading a program: only the parts that can describe events.

use etw_types::le;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// A program; Windows' largest library has a fifth of it.
const SIZE_LIMIT: u64 = 512 << 20;
/// The head, with the table of sections.
const HEAD: usize = 16 << 10;
/// IMAGE_SCN_CNT_INITIALIZED_DATA, IMAGE_SCN_MEM_EXECUTE
const DATA: u32 = 0x40;
const EXECUTE: u32 = 0x2000_0000;

/// The bytes of a PE file with zeros for its code and for what follows its sections: resources and metadata are neither.
///
/// # Errors
/// The reason, for people.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait, perhaps for ever.
    if !path.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    if size > SIZE_LIMIT {
        return Err(format!("larger than {} MiB", SIZE_LIMIT >> 20));
    }
    // Zeroed pages that nothing is read into take no memory.
    let mut bytes = vec![0; size as usize];
    let head = HEAD.min(bytes.len());
    file.read_exact(&mut bytes[..head]).map_err(|error| error.to_string())?;
    if !bytes.starts_with(b"MZ") {
        return Err("not a program or library".to_owned());
    }
    let sections = sections(&bytes[..head]);
    if sections.is_empty() && bytes.len() > head {
        // An unusual head: the whole file.
        file.read_exact(&mut bytes[head..]).map_err(|error| error.to_string())?;
    }
    for (start, size) in sections {
        let end = start.saturating_add(size).min(bytes.len());
        // A file that was cut, or is shorter by now, keeps its zeros.
        if start < end && file.seek(SeekFrom::Start(start as u64)).is_ok() {
            let _ = file.read_exact(&mut bytes[start..end]);
        }
    }
    Ok(bytes)
}

/// Start and size of the sections with data.
fn sections(head: &[u8]) -> Vec<(usize, usize)> {
    let read = || -> Option<Vec<(usize, usize)>> {
        let header = le::u32(head, 0x3c)? as usize;
        if head.get(header..header + 4)? != b"PE\0\0" {
            return None;
        }
        let count = usize::from(le::u16(head, header + 6)?);
        let table = header + 24 + usize::from(le::u16(head, header + 20)?);
        let mut sections = Vec::new();
        for number in 0..count {
            let at = table + number * 40;
            let (size, start) = (le::u32(head, at + 16)?, le::u32(head, at + 20)?);
            let flags = le::u32(head, at + 36)?;
            if flags & DATA != 0 && flags & EXECUTE == 0 {
                sections.push((start as usize, size as usize));
            }
        }
        Some(sections)
    };
    read().unwrap_or_default()
}
