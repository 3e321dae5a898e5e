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

use etw_ring::Region;

use crate::kill_point::kill_point;
use crate::way::Way;

/// Alignment of direct writes: no disk has larger blocks.
const BLOCK: usize = 4096;
/// Writes of at least so many bytes go past the page cache if the session has enough free buffers.
const LARGE: usize = 128 << 10;
/// Bytes of one direct write of buffers that begin inside of a block.
const COPY: usize = 1 << 20;

/// A buffer to be written: `header` replaces its first bytes.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub header: &'a [u8],
    pub bytes: &'a [u8],
    /// A mark stands in its place if it is lost.
    pub leaves_mark: bool,
}

#[derive(Debug)]
pub(crate) struct OutFile {
    file: File,
    /// The same file, past the page cache; `None` if the file system cannot.
    direct: Option<File>,
    cached_way: Way,
    direct_way: Way,
    scratch: Vec<Block>,
    /// Aligned memory for buffers that lie at no block's start in the file; allocated when the first one comes.
    copy: Option<Region>,
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
    ///
    /// # Errors
    /// Those of the system; the path is that of a device or a pipe, to which no header can be written at the end.
    pub fn open(path: &Path, fresh: bool) -> io::Result<OutFile> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(fresh).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(OutFile {
            direct: open_direct(path, &file),
            file,
            cached_way: Way::default(),
            direct_way: Way::default(),
            scratch: Vec::new(),
            copy: None,
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The same place, written to through another descriptor.
    #[cfg(test)]
    pub fn reopen_as(&mut self, file: File) {
        (self.file, self.direct) = (file, None);
    }

    /// Writes buffers of one length one behind the other. `in_a_hurry`: the session has few free ones.
    ///
    /// # Errors
    /// Those of the system; some of the buffers may be written.
    pub fn write_pieces(
        &mut self,
        mut at: u64,
        mut pieces: &[Piece<'_>],
        in_a_hurry: bool,
    ) -> io::Result<()> {
        while !pieces.is_empty() {
            let size = pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>();
            let is_direct = match in_a_hurry {
                true => self.direct_way.rate() > self.cached_way.rate(),
                false => size >= LARGE,
            };
            // The page cache may stop taking bytes at any time, and a way to be measured may be slow: then only one buffer waits.
            let is_risky = in_a_hurry && !(is_direct && self.direct_way.is_known());
            let count = if is_risky && self.direct.is_some() { 1 } else { pieces.len() };
            let (now, later) = pieces.split_at(count);
            self.write_some(at, now, is_direct)?;
            at += now.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>();
            pieces = later;
        }
        Ok(())
    }

    /// Writes buffers, past the page cache if that is asked for and possible.
    fn write_some(&mut self, at: u64, pieces: &[Piece<'_>], is_direct: bool) -> io::Result<()> {
        let fits = |piece: &Piece<'_>| {
            piece.bytes.len() >= BLOCK
                && piece.header.len() <= BLOCK
                && piece.bytes.len() % BLOCK == 0
                && piece.bytes.as_ptr().addr() % BLOCK == 0
        };
        if !pieces.iter().all(fits) {
            return write_in_turn(&self.file, at, pieces);
        }
        let is_aligned = at % BLOCK as u64 == 0;
        // The first block of each buffer, with the header in it.
        self.scratch.clear();
        if is_aligned {
            kill_point("plain buffers");
        }
        for piece in pieces.iter().filter(|_| is_aligned) {
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
        let size = pieces.iter().map(|piece| piece.bytes.len()).sum();
        let start = Instant::now();
        if is_direct {
            if let Some(direct) = &self.direct {
                let written = match is_aligned {
                    true => write_parts(direct, &parts, at),
                    false => write_blocks(direct, &self.file, at, pieces, &mut self.copy),
                };
                match written {
                    Ok(()) => {
                        self.direct_way.took(size, start.elapsed(), &self.cached_way);
                        return Ok(());
                    }
                    // The file system refuses direct writes, or the write failed: the other way reports the error, if there is one.
                    Err(_) => self.direct = None,
                }
            }
        }
        match is_aligned {
            true => write_parts(&self.file, &parts, at)?,
            false => write_in_turn(&self.file, at, pieces)?,
        }
        self.cached_way.took(size, start.elapsed(), &self.direct_way);
        Ok(())
    }
}

/// Writes buffers through the page cache, each with its header last: until then, its place does not look like a buffer.
fn write_in_turn(file: &File, mut at: u64, pieces: &[Piece<'_>]) -> io::Result<()> {
    for piece in pieces {
        let (header, rest) = (piece.header, &piece.bytes[piece.header.len()..]);
        write_at(file, rest, at + header.len() as u64)?;
        kill_point("plain buffers");
        write_at(file, header, at)?;
        at += piece.bytes.len() as u64;
    }
    Ok(())
}

/// Writes buffers that begin inside of a block: the whole blocks past the page cache, from aligned copies, and the bytes before and
/// behind them through it, so that no block goes both ways. The bytes before them, where the first header begins, come last: until
/// then, nothing there looks like a buffer.
fn write_blocks(
    direct: &File,
    file: &File,
    at: u64,
    pieces: &[Piece<'_>],
    copy: &mut Option<Region>,
) -> io::Result<()> {
    let [first, ..] = pieces else { return Ok(()) };
    let copy = match copy {
        Some(copy) => copy.as_mut(),
        None => copy.insert(Region::heap(COPY)?).as_mut(),
    };
    let before = BLOCK - (at % BLOCK as u64) as usize;
    let (mut skipped, mut filled, mut next) = (before, 0, at + before as u64);
    for part in pieces.iter().flat_map(|piece| [piece.header, &piece.bytes[piece.header.len()..]]) {
        let mut rest = part.get(skipped..).unwrap_or_default();
        skipped = skipped.saturating_sub(part.len());
        while !rest.is_empty() {
            let count = rest.len().min(COPY - filled);
            copy[filled..filled + count].copy_from_slice(&rest[..count]);
            (filled, rest) = (filled + count, &rest[count..]);
            if filled == COPY {
                write_at(direct, copy, next)?;
                (filled, next) = (0, next + COPY as u64);
            }
        }
    }
    let (blocks, behind) = copy[..filled].split_at(filled / BLOCK * BLOCK);
    write_at(direct, blocks, next)?;
    write_at(file, behind, next + blocks.len() as u64)?;
    kill_point("plain buffers");
    let header = first.header.len().min(before);
    write_at(file, &first.bytes[header..before], at + header as u64)?;
    write_at(file, &first.header[..header], at)
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

    /// An output file whose next write that is in a hurry goes past the page cache or through it. `None`: it cannot go past.
    fn open(path: &Path, fresh: bool) -> Option<OutFile> {
        let file = OutFile::open(path, fresh).unwrap();
        if file.direct.is_none() {
            eprintln!("skipped: no direct writes in {}", path.display());
        }
        file.direct.is_some().then_some(file)
    }

    /// Writes past the page cache or through it; whether it was possible.
    fn write(file: &mut OutFile, direct: bool, at: usize, pieces: &[Piece<'_>]) -> bool {
        let unknown = Way::default();
        (file.cached_way, file.direct_way) = (Way::default(), Way::default());
        file.cached_way.took(1, Duration::from_secs(if direct { 9 } else { 0 }), &unknown);
        file.direct_way.took(1, Duration::from_secs(1), &unknown);
        file.write_pieces(at as u64, pieces, true).unwrap();
        file.direct_way.rate() > 1e-8 * 2.0
    }

    fn filled(size: usize) -> Region {
        let mut memory = Region::heap(size).unwrap();
        for (n, byte) in memory.as_mut().iter_mut().enumerate() {
            *byte = (n / 100) as u8;
        }
        memory
    }

    const HEADER: [u8; etw_types::BufferHeader::SIZE] = [0xaa; etw_types::BufferHeader::SIZE];

    fn pieces_of(memory: &[u8], length: usize) -> Vec<Piece<'_>> {
        memory
            .chunks(length)
            .map(|bytes| Piece { header: &HEADER, bytes, leaves_mark: false })
            .collect()
    }

    fn bytes_of<'p>(piece: &'p Piece<'_>) -> [&'p [u8]; 2] {
        [piece.header, &piece.bytes[piece.header.len()..]]
    }

    /// Direct and cached writes, and those of odd lengths, write the same bytes.
    #[test]
    fn every_way_writes_the_same() {
        let path = std::env::temp_dir().join(format!("etw-outfile-{}", std::process::id()));
        let memory = filled(4 * BLOCK);
        for length in [BLOCK, 2 * BLOCK, 1000] {
            let pieces = pieces_of(&memory.as_ref()[..2 * length], length);
            let mut expected = vec![0; BLOCK];
            expected.extend(pieces.iter().flat_map(bytes_of).flatten());
            for direct in [false, true] {
                let Some(mut file) = open(&path, true) else { continue };
                let was_direct = write(&mut file, direct, BLOCK, &pieces);
                assert_eq!(was_direct, direct && length != 1000, "{length}");
                assert!(std::fs::read(&path).unwrap() == expected, "{length} {direct}");
            }
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// While buffers wait, one of them finds out how fast the page cache is; the others do not go the slower way.
    #[test]
    fn one_buffer_measures_a_way() {
        let path = std::env::temp_dir().join(format!("etw-measure-{}", std::process::id()));
        let memory = filled(64 * BLOCK);
        let pieces = pieces_of(memory.as_ref(), 16 * BLOCK);
        let Some(mut file) = open(&path, true) else { return };
        let second = Duration::from_secs(1);
        file.direct_way.took(usize::MAX, second, &Way::default());
        let faster_than_any = file.direct_way.rate();
        file.write_pieces(0, &pieces[..1], true).unwrap();
        assert_eq!(file.direct_way.rate(), faster_than_any, "the page cache comes first");
        file.cached_way = Way::default();
        for _ in 0..2 {
            file.write_pieces(0, &pieces, true).unwrap();
        }
        assert!(file.cached_way.is_known());
        assert!(file.direct_way.rate() < faster_than_any, "no other buffer went past it");
        std::fs::remove_file(&path).unwrap();
    }

    /// Buffers behind compressed ones, which end anywhere in a block: in whichever order both ways take turns, the bytes are the same.
    #[test]
    fn buffers_that_begin_inside_of_a_block_may_go_any_way() {
        let path = std::env::temp_dir().join(format!("etw-inside-{}", std::process::id()));
        let memory = filled(COPY + 6 * BLOCK);
        let all = pieces_of(memory.as_ref(), 2 * BLOCK);
        for ways in 0..8 {
            let Some(mut file) = open(&path, true) else { return };
            let mut expected = Vec::new();
            for (turn, compressed) in [1, 4095, 70, 4096 - 71, 5000, 12].into_iter().enumerate() {
                let bytes = vec![0xcc; compressed];
                write_at(file.file(), &bytes, expected.len() as u64).unwrap();
                expected.extend(bytes);
                let pieces = &all[..if turn % 2 == 0 { all.len() } else { 1 + turn }];
                let direct = ways >> (turn % 3) & 1 != 0;
                assert_eq!(write(&mut file, direct, expected.len(), pieces), direct);
                expected.extend(pieces.iter().flat_map(bytes_of).flatten());
                assert!(std::fs::read(&path).unwrap() == expected, "{ways} {turn}");
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
