//! Append-only bytes that move to an unnamed temporary file when there are too many of them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of one list: pieces in the file, then a tail in memory.
#[derive(Default)]
pub(crate) struct SpillList {
    pieces: Vec<Piece>,
    spilled: u64,
    tail: Vec<u8>,
}

struct Piece {
    /// First byte in the list.
    start: u64,
    /// First byte in the file.
    file_offset: u64,
}

impl SpillList {
    pub(crate) fn len(&self) -> u64 {
        self.spilled + self.tail.len() as u64
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    pub(crate) fn in_memory(&self) -> usize {
        self.tail.capacity()
    }

    /// Moves the tail to the file.
    pub(crate) fn spill(&mut self, file: &SpillFile) -> io::Result<()> {
        if !self.tail.is_empty() {
            let file_offset = file.append(&self.tail)?;
            self.pieces.push(Piece { start: self.spilled, file_offset });
            self.spilled += self.tail.len() as u64;
            self.tail = Vec::new();
        }
        Ok(())
    }

    /// Copies up to `buffer.len()` bytes from `at`; fewer at the end of a piece.
    pub(crate) fn read(
        &self,
        file: Option<&SpillFile>,
        at: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        if at >= self.spilled {
            let start = ((at - self.spilled) as usize).min(self.tail.len());
            let count = buffer.len().min(self.tail.len() - start);
            buffer[..count].copy_from_slice(&self.tail[start..start + count]);
            return Ok(count);
        }
        let next = self.pieces.partition_point(|piece| piece.start <= at);
        let end = self.pieces.get(next).map_or(self.spilled, |piece| piece.start);
        let (Some(piece), Some(file)) = (self.pieces.get(next.wrapping_sub(1)), file) else {
            return Ok(0);
        };
        let count = buffer.len().min((end - at) as usize);
        file.read(piece.file_offset + (at - piece.start), &mut buffer[..count])?;
        Ok(count)
    }
}

/// A temporary file without a name. (On a system that cannot remove the name of an open file, the file stays.)
///
/// # Errors
/// Those of creating it.
pub fn unnamed_file() -> io::Result<File> {
    create_file().map(|(file, _)| file)
}

/// Creates a temporary file. The path is that of a file whose name could not be removed.
fn create_file() -> io::Result<(File, Option<PathBuf>)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("etw-index-{}-{number}.tmp", std::process::id());
        let path = std::env::temp_dir().join(name);
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                // On systems that can unlink an open file, it needs no name from here on.
                let path = if std::fs::remove_file(&path).is_ok() { None } else { Some(path) };
                return Ok((file, path));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// A temporary file, removed as soon as the system allows.
pub(crate) struct SpillFile {
    file: Mutex<File>,
    path: Option<PathBuf>,
}

impl SpillFile {
    pub(crate) fn create() -> io::Result<SpillFile> {
        let (file, path) = create_file()?;
        Ok(SpillFile { file: Mutex::new(file), path })
    }

    fn append(&self, bytes: &[u8]) -> io::Result<u64> {
        let mut file = self.lock()?;
        let offset = file.seek(SeekFrom::End(0))?;
        file.write_all(bytes)?;
        Ok(offset)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut file = self.lock()?;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(buffer)
    }

    fn lock(&self) -> io::Result<std::sync::MutexGuard<'_, File>> {
        self.file.lock().map_err(|_| io::Error::other("a thread died holding the index"))
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spilled_list_reads_like_one_in_memory() {
        let file = SpillFile::create().unwrap();
        let mut list = SpillList::default();
        let mut other = SpillList::default();
        let mut expected = Vec::new();
        for round in 0..10u8 {
            let bytes: Vec<u8> = (0..=round).map(|byte| byte ^ round << 4).collect();
            list.push(&bytes);
            other.push(&[0xee; 5]);
            expected.extend(bytes);
            if round % 3 == 2 {
                list.spill(&file).unwrap();
                other.spill(&file).unwrap();
            }
        }
        assert_eq!(list.len(), expected.len() as u64);
        for at in 0..expected.len() {
            let mut buffer = [0; 4];
            let mut got: Vec<u8> = Vec::new();
            while got.len() < 4 && at + got.len() < expected.len() {
                let from = (at + got.len()) as u64;
                let count = list.read(Some(&file), from, &mut buffer).unwrap();
                assert!(count > 0);
                got.extend(&buffer[..count]);
            }
            let end = (at + 4).min(expected.len());
            assert_eq!(got[..end - at], expected[at..end]);
        }
        assert_eq!(list.read(Some(&file), list.len(), &mut [0; 4]).unwrap(), 0);
    }
}
