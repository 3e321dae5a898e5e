//! An output file that takes whole buffers as fast as the machine allows: through the page cache or past it.
//!
//! Large writes go past the page cache, because a copy into it takes five to ten times the processor time and evicts the programs'
//! data. Small writes go through it, because each direct write waits for the disk. (Windows always writes past the cache.)
//!
//! The page cache takes bursts at the speed of memory. Once too much of it waits for the disk, the system slows writers down to
//! less than the disk's speed. So while the session has few free buffers, both ways are measured and the faster one is used.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Instant;

use crate::way::Way;

/// Alignment of direct writes: no disk has larger blocks.
const BLOCK: usize = 4096;
/// Writes of at least so many bytes go past the page cache if the session has enough free buffers.
const LARGE: usize = 128 << 10;

/// A buffer to be written: `header` replaces its first bytes.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub header: &'a [u8],
    pub bytes: &'a [u8],
}

#[derive(Debug)]
pub(crate) struct OutFile {
    file: File,
    /// The same file, past the page cache; `None` if the file system cannot.
    direct: Option<File>,
    cached_way: Way,
    direct_way: Way,
    scratch: Vec<Block>,
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Block")
    }
}

impl OutFile {
    /// Opens or creates a file. A `fresh` one is emptied.
    pub fn open(path: &Path, fresh: bool) -> io::Result<OutFile> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(fresh).open(path)?;
        Ok(OutFile {
            direct: open_direct(path, &file),
            file,
            cached_way: Way::default(),
            direct_way: Way::default(),
            scratch: Vec::new(),
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes buffers of one length one behind the other. `in_a_hurry`: the session has few free ones.
    ///
    /// # Errors
    /// Those of the system; some of the buffers may be written.
    pub fn write_pieces(
        &mut self,
        at: u64,
        pieces: &[Piece<'_>],
        in_a_hurry: bool,
    ) -> io::Result<()> {
        let fits = |piece: &Piece<'_>| {
            piece.bytes.len() >= BLOCK
                && piece.header.len() <= BLOCK
                && piece.bytes.len() % BLOCK == 0
                && piece.bytes.as_ptr().addr() % BLOCK == 0
        };
        if !pieces.iter().all(fits) || at % BLOCK as u64 != 0 {
            let mut at = at;
            for piece in pieces {
                let (header, rest) = (piece.header, &piece.bytes[piece.header.len()..]);
                write_at(&self.file, rest, at + header.len() as u64)?;
                // The header last: until then the slot does not look like a buffer.
                write_at(&self.file, header, at)?;
                at += piece.bytes.len() as u64;
            }
            return Ok(());
        }
        // The first block of each buffer, with the header in it.
        self.scratch.clear();
        for piece in pieces {
            let mut block = Block([0; BLOCK]);
            block.0.copy_from_slice(&piece.bytes[..BLOCK]);
            block.0[..piece.header.len()].copy_from_slice(piece.header);
            self.scratch.push(block);
        }
        let parts: Vec<&[u8]> = self
            .scratch
            .iter()
            .zip(pieces)
            .flat_map(|(block, piece)| [&block.0[..], &piece.bytes[BLOCK..]])
            .filter(|part| !part.is_empty())
            .collect();
        let size = parts.iter().map(|part| part.len()).sum();
        let start = Instant::now();
        let is_direct = match in_a_hurry {
            true => self.direct_way.rate() > self.cached_way.rate(),
            false => size >= LARGE,
        };
        if is_direct {
            if let Some(direct) = &self.direct {
                match write_parts(direct, &parts, at) {
                    Ok(()) => {
                        self.direct_way.took(size, start.elapsed(), &self.cached_way);
                        return Ok(());
                    }
                    // The file system refuses direct writes, or the write failed: the other way reports the error, if there is one.
                    Err(_) => self.direct = None,
                }
            }
        }
        write_parts(&self.file, &parts, at)?;
        self.cached_way.took(size, start.elapsed(), &self.direct_way);
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path, file: &File) -> Option<File> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).ok()?;
    // The name may lead to another file by now.
    let (one, other) = (direct.metadata().ok()?, file.metadata().ok()?);
    ((one.dev(), one.ino()) == (other.dev(), other.ino())).then_some(direct)
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &Path, _: &File) -> Option<File> {
    None
}

#[cfg(target_os = "linux")]
fn write_parts(file: &File, parts: &[&[u8]], at: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let vectors: Vec<libc::iovec> = parts
        .iter()
        .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() })
        .collect();
    // SAFETY: the vectors describe slices that live until the call returns; they are read only.
    let written = unsafe {
        let count = vectors.len() as libc::c_int;
        libc::pwritev(file.as_raw_fd(), vectors.as_ptr(), count, at as libc::off_t)
    };
    // A call that was interrupted before it wrote anything is repeated.
    let mut left = match usize::try_from(written) {
        Ok(written) => written,
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => 0,
            error => return Err(error),
        },
    };
    // One call usually writes everything; the rest is written part by part.
    let mut at = at;
    for part in parts {
        let done = left.min(part.len());
        if done < part.len() {
            write_at(file, &part[done..], at + done as u64)?;
        }
        left -= done;
        at += part.len() as u64;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn write_parts(file: &File, parts: &[&[u8]], at: u64) -> io::Result<()> {
    let mut at = at;
    for part in parts {
        write_at(file, part, at)?;
        at += part.len() as u64;
    }
    Ok(())
}

/// Writes all bytes at an offset.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(windows)]
    {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            done += std::os::windows::fs::FileExt::seek_write(file, &bytes[done..], at)?;
        }
        Ok(())
    }
    #[cfg(not(any(unix, windows)))]
    return Err(io::Error::from(io::ErrorKind::Unsupported))
        .inspect_err(|_| drop((file, bytes, offset)));
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[repr(C, align(4096))]
    struct Aligned([u8; 4 * BLOCK]);

    /// Direct and cached writes, and those of odd lengths, write the same bytes.
    #[test]
    fn every_way_writes_the_same() {
        let path = std::env::temp_dir().join(format!("etw-outfile-{}", std::process::id()));
        let mut memory = Box::new(Aligned([0; 4 * BLOCK]));
        for (n, byte) in memory.0.iter_mut().enumerate() {
            *byte = (n / 100) as u8;
        }
        let header = [0xaa; etw_types::BufferHeader::SIZE];
        for length in [BLOCK, 2 * BLOCK, 1000] {
            let pieces: Vec<Piece<'_>> = memory.0[..2 * length]
                .chunks(length)
                .map(|bytes| Piece { header: &header, bytes })
                .collect();
            let mut expected = vec![0; BLOCK];
            for piece in &pieces {
                expected.extend(&header);
                expected.extend(&piece.bytes[etw_types::BufferHeader::SIZE..]);
            }
            for direct in [false, true] {
                let mut file = OutFile::open(&path, true).unwrap();
                if direct && file.direct.is_none() {
                    eprintln!("skipped: no direct writes in {}", path.display());
                    continue;
                }
                let unknown = Way::default();
                file.cached_way.took(1, Duration::from_secs(if direct { 9 } else { 0 }), &unknown);
                file.direct_way.took(1, Duration::from_secs(1), &unknown);
                file.write_pieces(BLOCK as u64, &pieces, true).unwrap();
                let was_direct = file.direct_way.rate() > 1e-8 * 2.0;
                assert_eq!(was_direct, direct && length != 1000, "{length}");
                assert!(std::fs::read(&path).unwrap() == expected, "{length} {direct}");
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
