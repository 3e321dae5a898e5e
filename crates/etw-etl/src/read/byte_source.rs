//! Bytes that can be read at any offset: a file, or memory.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Bytes that can be read at any offset, by several threads.
///
/// Mapping files is avoided on purpose: a mapped file that shrinks ends the process with SIGBUS, and a changed one
/// changes bytes that were already checked.
pub trait ByteSource: Send + Sync {
    /// Length when the source was opened; bytes appended later are ignored.
    fn size(&self) -> u64;

    /// Reads up to `buffer.len()` bytes at `offset`; 0 at the end.
    ///
    /// # Errors
    /// Those of the operating system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The first offset from `offset` on whose byte may be another than zero; the size if there is none. All bytes before it are zero, as
    /// in the holes of a sparse file. A source that does not know its holes returns `offset`.
    ///
    /// # Errors
    /// Those of the operating system.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }

    /// Whether length or modification time have changed since the source was opened.
    fn has_changed(&self) -> bool {
        false
    }
}

/// [`ByteSource::next_data`], never before `offset` and never past the end.
pub(crate) fn next_data(source: &dyn ByteSource, offset: u64) -> io::Result<u64> {
    Ok(source.next_data(offset)?.min(source.size()).max(offset))
}

/// Reads until `buffer` is full or the source ends. Returns the number of bytes.
pub(crate) fn read_full(
    source: &dyn ByteSource,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match source.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

impl ByteSource for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let count = buffer.len().min(self.len() - start);
        buffer[..count].copy_from_slice(&self[start..start + count]);
        Ok(count)
    }
}

/// A regular file.
pub(crate) struct FileSource {
    file: File,
    size: u64,
    modified: Option<SystemTime>,
}

impl FileSource {
    /// `Ok(None)` if the path is not a regular file.
    pub(crate) fn open(path: &Path) -> io::Result<Option<FileSource>> {
        // The type is checked before opening: opening a pipe for reading waits for a writer.
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(None);
        }
        Ok(Some(FileSource { size: metadata.len(), modified: modified(&metadata), file }))
    }
}

fn modified(metadata: &Metadata) -> Option<SystemTime> {
    metadata.modified().ok()
}

impl ByteSource for FileSource {
    fn size(&self) -> u64 {
        self.size
    }

    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, buffer, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.file, buffer, offset)
    }

    #[cfg(not(any(unix, windows)))]
    fn read_at(&self, _buffer: &mut [u8], _offset: u64) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    #[cfg(target_os = "linux")]
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        // This moves the cursor of the file, which no read uses.
        match seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => Ok(data),
            // Only a hole is left.
            Err(Errno::NXIO) => Ok(self.size),
            // The file system does not know its holes.
            Err(_) => Ok(offset),
        }
    }

    fn has_changed(&self) -> bool {
        match self.file.metadata() {
            Ok(now) => now.len() != self.size || modified(&now) != self.modified,
            Err(_) => true,
        }
    }
}
