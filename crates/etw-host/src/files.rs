//! The files of a session: the header first, buffers in their slots, the header completed at the end.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use etw_etl::lzxpress::Level;
use etw_etl::write::CompressedBuffer;
use etw_session::{Compression, Cut, Place};
use etw_types::BufferHeader;

use crate::buffer_log::{self, BufferLog};
#[cfg(unix)]
use crate::event_count::count_events;
use crate::facts::{SessionFacts, file_name};
use crate::holes::give_back;
#[cfg(unix)]
use crate::holes::take_out;
use crate::lost_buffers::LostBuffers;
use crate::output_file::{OutFile, Piece, write_at};

/// Numbers of a file's header that change while the session runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// FILETIME of the end; 0 while the session runs.
    pub end_time: i64,
    /// Events lost; a larger count is stated as the largest number.
    pub events_lost: u32,
    /// Buffers lost.
    pub buffers_lost: u32,
}

/// How buffers are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// The session has few free ones.
    pub in_a_hurry: bool,
    /// Compressed, if the session's files may have such buffers.
    pub compresses: bool,
}

/// How marks are written if no buffer follows.
const PLAIN: How = How { in_a_hurry: false, compresses: false };

/// Writes the buffers of one session.
#[derive(Debug)]
pub struct Files {
    pattern: PathBuf,
    facts: SessionFacts,
    preallocate: u64,
    /// The number of the first file in places.
    first: u32,
    current: Option<Current>,
    lost: LostBuffers,
    /// The event log that the session's file is.
    log: Option<Box<dyn BufferLog>>,
    compression: Compression,
    /// A buffer for the event log, before it is written.
    scratch: Vec<u8>,
    /// A compressed buffer, before it is written.
    compressed: CompressedBuffer,
    /// Why the first file of a series could not be completed whose completion failed.
    earlier_error: Option<io::Error>,
}

#[derive(Debug)]
struct Current {
    file: OutFile,
    number: u32,
    /// Slots in use: the highest written one, plus one.
    slots: u64,
    /// Bytes in use.
    end: u64,
    /// Bytes that were written and not cut off by another process; and slots that were cut off.
    length: u64,
    cut: u64,
    /// The cut that has not been reported yet.
    unreported: Option<Cut>,
    /// Where the buffers of a compressed file end that were written since it was opened, and where the first of them begins.
    ends: Vec<CompressedEnd>,
    first_start: u64,
    /// The file has had a name, and has none any more.
    was_linked: bool,
    is_removed: bool,
}

/// The end of a buffer in a compressed file.
#[derive(Clone, Copy, Debug)]
struct CompressedEnd {
    slot: u64,
    end: u64,
}

impl Current {
    /// Checks whether another process has cut or removed the file: the buffers behind are lost.
    fn look(&mut self, slot_size: u64) -> io::Result<()> {
        let metadata = self.file.file().metadata()?;
        let links = link_count(&metadata);
        self.was_linked |= links > 0;
        if self.was_linked && links == 0 && !self.is_removed {
            self.is_removed = true;
            self.report(Cut {
                file: self.number,
                first_slot: 0,
                kept: 0,
                buffers: 0,
                last_sequence: 0,
                is_removed: true,
            });
        }
        let length = metadata.len();
        if length >= self.length {
            return Ok(());
        }
        let cut = match self.first_start {
            0 => self.cut_slots(length, slot_size),
            _ => self.cut_compressed(length, slot_size)?,
        };
        self.cut += cut.buffers;
        self.report(cut);
        Ok(())
    }

    fn cut_slots(&mut self, length: u64, slot_size: u64) -> Cut {
        let buffers = (self.length - length).div_ceil(slot_size);
        self.length = length;
        let first_slot = length / slot_size;
        let kept = match length % slot_size {
            0 => 0,
            _ => self.events_at(first_slot, slot_size, length).unwrap_or(0),
        };
        Cut { file: self.number, first_slot, kept, buffers, last_sequence: 0, is_removed: false }
    }

    /// Continues a compressed file behind its last whole buffer, so that it has no gap.
    fn cut_compressed(&mut self, length: u64, slot_size: u64) -> io::Result<Cut> {
        let whole = self.ends.iter().take_while(|one| one.end <= length).count();
        let next = self.ends.last().map_or(1, |last| last.slot + 1);
        let first_slot = self.ends.get(whole).map_or(next, |one| one.slot);
        let buffers = (self.ends.len() - whole) as u64;
        self.ends.truncate(whole);
        // The sizes of buffers that were in the file before are not known: a gap remains if one of these was cut.
        if length >= self.first_start || self.first_start == slot_size {
            self.end = self.ends.last().map_or(self.first_start, |last| last.end);
            self.slots -= buffers;
            self.file.file().set_len(self.end)?;
            self.length = self.end;
        } else {
            self.length = length;
        }
        let file = self.number;
        Ok(Cut { file, first_slot, kept: 0, buffers, last_sequence: 0, is_removed: false })
    }

    /// Compresses a buffer and writes it behind the last one.
    fn append_compressed(
        &mut self,
        slot: u64,
        header: &BufferHeader,
        records: &[u8],
        compressed: &mut CompressedBuffer,
    ) -> io::Result<()> {
        compressed.compress(header, records, Level::default());
        let (file, at) = (self.file.file(), self.end);
        let bytes = compressed.bytes();
        let (header, records) = bytes.split_at(BufferHeader::SIZE);
        write_at(file, records, at + header.len() as u64)?;
        // A process is killed between two pages: the first page, with the size, is written last.
        let in_page = (PAGE - at % PAGE).min(header.len() as u64);
        let (head, tail) = header.split_at(in_page as usize);
        write_at(file, tail, at + in_page)?;
        write_at(file, head, at)?;
        self.end += bytes.len() as u64;
        self.ends.push(CompressedEnd { slot, end: self.end });
        Ok(())
    }

    /// Writes buffers as they are behind the last one.
    fn append_plain(&mut self, slot: u64, pieces: &[Piece<'_>], how: How) -> io::Result<()> {
        self.file.write_pieces(self.end, pieces, how.in_a_hurry)?;
        for (piece, slot) in pieces.iter().zip(slot..) {
            self.end += piece.bytes.len() as u64;
            self.ends.push(CompressedEnd { slot, end: self.end });
        }
        Ok(())
    }

    fn report(&mut self, cut: Cut) {
        let Some(before) = self.unreported else {
            self.unreported = Some(cut);
            return;
        };
        let buffers = before.buffers + cut.buffers;
        let is_removed = before.is_removed || cut.is_removed;
        let first = if before.first_slot <= cut.first_slot { before } else { cut };
        self.unreported = Some(Cut { buffers, is_removed, ..first });
    }

    /// Events that readers find in the cut slot at the end of the file.
    #[cfg(unix)]
    fn events_at(&self, slot: u64, size: u64, length: u64) -> io::Result<u64> {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let left = usize::try_from(length - slot * size).unwrap_or(0);
        self.file.file().read_exact_at(&mut bytes[..left], slot * size)?;
        Ok(if slot == 0 { 0 } else { count_events(&bytes) })
    }

    #[cfg(not(unix))]
    fn events_at(&self, _: u64, _: u64, _: u64) -> io::Result<u64> {
        Ok(0)
    }
}

/// Number of the file's names.
#[cfg(unix)]
fn link_count(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

/// Other systems keep a file's name while it is open.
#[cfg(not(unix))]
fn link_count(_: &std::fs::Metadata) -> u64 {
    1
}

/// A compressed file that another process was writing.
#[cfg(unix)]
pub struct Reopened {
    /// The file.
    pub files: Files,
    /// The sequence number of its last whole buffer.
    pub sequence: i64,
}

impl Files {
    fn new(pattern: &Path, facts: SessionFacts, preallocate: u64) -> Files {
        let compression = facts.compression();
        let pattern = pattern.to_owned();
        Files {
            pattern,
            facts,
            preallocate,
            first: 1,
            current: None,
            lost: LostBuffers::default(),
            log: None,
            compression,
            scratch: Vec::new(),
            compressed: CompressedBuffer::default(),
            earlier_error: None,
        }
    }

    /// Numbers the first file by `number` instead of 1 in places: the session had other files before.
    #[must_use]
    pub fn numbered(mut self, number: u32) -> Files {
        if let Some(current) = &mut self.current {
            current.number = number.saturating_add(current.number - self.first);
        }
        self.first = number;
        self
    }

    fn name(&self, number: u32) -> PathBuf {
        file_name(&self.pattern, number.saturating_sub(self.first).saturating_add(1))
    }

    /// Creates the first file with its header. `preallocate`: bytes reserved for each file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create(pattern: &Path, facts: SessionFacts, preallocate: u64) -> io::Result<Files> {
        let mut files = Files::new(pattern, facts, preallocate);
        files.begin(1)?;
        Ok(files)
    }

    /// Creates a file with its header. If that fails, the file before stays the current one.
    fn begin(&mut self, number: u32) -> io::Result<()> {
        let path = self.name(number);
        let is_new = !path.exists();
        let before = self.current.take();
        self.open(number, true).inspect_err(|_| {
            self.current = before;
            // A file without a header is no trace. What counts is why it has none, not whether it can be removed.
            if is_new {
                let _ = std::fs::remove_file(&path);
            }
        })
    }

    /// Opens an existing file, to append to it or to complete it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn reopen(pattern: &Path, facts: SessionFacts, number: u32) -> io::Result<Files> {
        let mut files = Files::new(pattern, facts, 0);
        files.open(number, false)?;
        Ok(files)
    }

    /// Opens a file that another process was writing, or was about to create.
    ///
    /// # Errors
    /// Those of the system.
    #[cfg(unix)]
    pub fn resume(pattern: &Path, facts: SessionFacts, number: u32) -> io::Result<Files> {
        let size = u64::from(facts.header.buffer_size);
        let has_header = std::fs::metadata(file_name(pattern, number))
            .is_ok_and(|metadata| metadata.len() >= size);
        let mut files = Files::new(pattern, facts, 0);
        files.open(number, !has_header)?;
        if let Some(current) = &mut files.current {
            // Space that was reserved and never written is not part of the file.
            current.slots = used_slots(current.file.file(), size, current.slots)?;
            current.end = current.slots * size;
        }
        Ok(files)
    }

    /// Opens a compressed file that another process was writing, and cuts off what follows its last whole
    /// buffer.
    ///
    /// # Errors
    /// Those of the system.
    #[cfg(unix)]
    pub fn reopen_compressed(pattern: &Path, facts: SessionFacts) -> io::Result<Reopened> {
        let size = facts.header.buffer_size;
        let walked = crate::leftover::Walked::of(&file_name(pattern, 1), size)?;
        let mut files = Files::new(pattern, facts, 0);
        files.open(1, walked.slots == 0)?;
        if let Some(current) = &mut files.current {
            if walked.slots > 0 {
                current.file.file().set_len(walked.end)?;
                (current.slots, current.end) = (walked.slots, walked.end);
                current.length = walked.end;
            }
        }
        Ok(Reopened { files, sequence: walked.sequence })
    }

    /// The path of the current file.
    pub fn path(&self) -> PathBuf {
        self.name(self.current.as_ref().map_or(self.first, |current| current.number))
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// Slots of the current file, the header's among them.
    pub fn slots(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.slots)
    }

    fn open(&mut self, number: u32, fresh: bool) -> io::Result<()> {
        let path = self.name(number);
        self.log = buffer_log::open(&path, &self.facts)?;
        if self.log.is_some() {
            return Ok(());
        }
        let file = OutFile::open(&path, fresh)?;
        if fresh && self.preallocate > 0 {
            preallocate(file.file(), self.preallocate)?;
        }
        let size = u64::from(self.facts.header.buffer_size);
        let slots = if fresh { 1 } else { file.file().metadata()?.len().div_ceil(size).max(1) };
        let length = file.file().metadata()?.len();
        self.current = Some(Current {
            file,
            number,
            slots,
            end: slots * size,
            length,
            cut: 0,
            unreported: None,
            ends: Vec::new(),
            first_start: 0,
            was_linked: false,
            is_removed: false,
        });
        if fresh { self.write_header(Closing::default()) } else { Ok(()) }
    }

    /// Writes a buffer into its slot, with `header` instead of its first bytes. If `number` is not the current file's, the
    /// current one is completed and that file is created.
    ///
    /// # Errors
    /// Those of the system; the buffer is then not stored.
    pub fn store(
        &mut self,
        number: u32,
        slot: u64,
        header: &[u8],
        bytes: &[u8],
        closing: Closing,
    ) -> io::Result<()> {
        let compresses = self.compression.is_possible();
        let how = How { in_a_hurry: false, compresses };
        // If it is lost, the session knows it, and leaves a mark itself.
        let piece = Piece { header, bytes, leaves_mark: false };
        self.store_all(number, slot, &[piece], closing, how)
    }

    /// Writes buffers into successive slots.
    ///
    /// # Errors
    /// Those of the system; it is then unknown which of several buffers are stored.
    pub(crate) fn store_all(
        &mut self,
        number: u32,
        slot: u64,
        pieces: &[Piece<'_>],
        closing: Closing,
        how: How,
    ) -> io::Result<()> {
        let stored = self.store_pieces((number, slot), pieces, closing, how);
        // If there are several, the caller writes each again by itself.
        if let (Err(_), [piece], None) = (&stored, pieces, &self.log) {
            self.lost.add(Place { file: number, slot }, piece);
        }
        stored
    }

    fn store_pieces(
        &mut self,
        (number, slot): (u32, u64),
        pieces: &[Piece<'_>],
        closing: Closing,
        how: How,
    ) -> io::Result<()> {
        if let Some(log) = &mut self.log {
            for piece in pieces {
                self.scratch.clear();
                self.scratch.extend_from_slice(piece.header);
                self.scratch.extend_from_slice(&piece.bytes[piece.header.len()..]);
                log.store(&self.scratch)?;
            }
            return Ok(());
        }
        if self.current.as_ref().is_none_or(|current| current.number != number) {
            match self.complete(closing) {
                Ok(()) => {}
                // Somebody removed or renamed it, as may be done with each file of a series.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    self.earlier_error.get_or_insert(error);
                }
            }
            // If the disk is full, the header of the file before has the losses until there is another file.
            self.begin(number).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", self.name(number).display()))
            })?;
            self.lost.forget_before(number);
        }
        let size = u64::from(self.facts.header.buffer_size);
        let Some(current) = &mut self.current else {
            return Err(io::ErrorKind::NotFound.into());
        };
        current.look(size)?;
        if current.is_removed {
            // Nobody could read it.
            return Err(removed(&self.path()));
        }
        match self.compression.is_possible() {
            true => self.append(slot, pieces, how),
            false => self.put(slot, pieces, how),
        }
    }

    /// Writes buffers into their slots.
    fn put(&mut self, slot: u64, pieces: &[Piece<'_>], how: How) -> io::Result<()> {
        let size = u64::from(self.facts.header.buffer_size);
        let Some(current) = &mut self.current else { return Ok(()) };
        current.file.write_pieces(slot * size, pieces, how.in_a_hurry)?;
        let end = slot + pieces.len() as u64;
        current.slots = current.slots.max(end);
        current.end = current.slots * size;
        current.length = current.length.max(end * size);
        self.lost.fill(current.number, slot..end);
        self.mark_lost();
        Ok(())
    }

    /// Writes the marks of lost buffers into the slots of these.
    fn mark_lost(&mut self) {
        let size = u64::from(self.facts.header.buffer_size);
        let Some(current) = &mut self.current else { return };
        for mark in self.lost.take_marks(current.number) {
            let (slot, at) = (mark.place.slot, mark.place.slot * size);
            // A write that failed may have written a part, which filler then takes the place of.
            give_back(current.file.file(), at, size);
            let file = current.file.file();
            // Slots are whole, also the last one: the rest of it takes no space.
            let is_whole =
                |file: &File| file.metadata().is_ok_and(|facts| facts.len() >= at + size);
            let is_written = write_at(file, &mark.bytes, at).is_ok()
                && (is_whole(file) || file.set_len(at + size).is_ok());
            if !is_written {
                // The disk is full again. The error of the next buffer says so.
                self.lost.put_back([mark]);
                continue;
            }
            self.lost.fill(current.number, slot..slot + 1);
            current.slots = current.slots.max(slot + 1);
            current.end = current.slots * size;
            current.length = current.length.max(at + size);
        }
    }

    /// Writes buffers, of which some may be compressed, behind the last one, and the marks of lost ones before them. Successive slots are
    /// successive in the file, too.
    fn append(&mut self, slot: u64, pieces: &[Piece<'_>], how: How) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.first_start == 0 {
            current.first_start = current.end;
        }
        let (count, before) = (current.ends.len(), current.end);
        let marks = self.lost.take_marks(current.number);
        let compressed = &mut self.compressed;
        let mut write = || {
            for mark in &marks {
                let (header, records) = mark.parts();
                current.append_compressed(mark.place.slot, &header, records, compressed)?;
            }
            if !how.compresses {
                return current.append_plain(slot, pieces, how);
            }
            for (piece, slot) in pieces.iter().zip(slot..) {
                let mut header = [0; BufferHeader::SIZE];
                header.copy_from_slice(&piece.header[..BufferHeader::SIZE]);
                let header = BufferHeader::read(&header);
                let records = piece.bytes.get(BufferHeader::SIZE..header.offset as usize);
                let records = records.unwrap_or_default();
                current.append_compressed(slot, &header, records, compressed)?;
            }
            Ok(())
        };
        if let Err(error) = write() {
            // The next buffer begins where these did. If this fails, it overwrites them.
            let _ = current.file.file().set_len(before);
            current.ends.truncate(count);
            current.end = before;
            self.lost.put_back(marks);
            return Err(error);
        }
        current.slots += (current.ends.len() - count) as u64;
        current.length = current.length.max(current.end);
        Ok(())
    }

    /// The end of the current file that another process has cut off since the last call; all of it, if the file was removed.
    pub fn take_cut(&mut self) -> Option<Cut> {
        self.current.as_mut()?.unreported.take()
    }

    /// Rewrites the header with the current numbers: if the program is killed, the header states the file's length so far.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write_header(&mut self, closing: Closing) -> io::Result<()> {
        let size = u64::from(self.facts.header.buffer_size);
        let Some(current) = &mut self.current else { return Ok(()) };
        current.look(size)?;
        let (number, slots) = (current.number, current.slots);
        // The caller's numbers have what was reported.
        let cut = current.unreported.map_or(0, |cut| cut.buffers);
        let mut header = self.facts.header.clone();
        header.buffers_written = u32::try_from(slots).unwrap_or(u32::MAX);
        header.end_time.0 = closing.end_time;
        header.events_lost = closing.events_lost;
        let cut = u32::try_from(cut).unwrap_or(u32::MAX);
        header.buffers_lost = closing.buffers_lost.saturating_add(cut);
        header.log_file_name = self.name(number).to_string_lossy().into_owned();
        let header = self.facts.header_buffer(&header)?;
        let Some(current) = &mut self.current else { return Ok(()) };
        write_at(current.file.file(), &header, 0)?;
        current.length = current.length.max(header.len() as u64);
        Ok(())
    }

    /// Closes the holes that buffers left which a full disk did not take.
    #[cfg(unix)]
    fn close_holes(&mut self) -> io::Result<()> {
        let size = u64::from(self.facts.header.buffer_size);
        let Some(current) = &mut self.current else { return Ok(()) };
        let mut holes = self.lost.take_holes(current.number);
        // Behind the last buffer nothing was written. In a circular file an older buffer may be in the slot, and slots are not
        // in order.
        holes.retain(|slot| *slot < current.slots);
        if holes.is_empty() || self.facts.log_policy().overwrites_file() {
            return Ok(());
        }
        let closed = take_out(current.file.file(), size, &holes, &mut current.slots);
        current.end = current.slots * size;
        current.length = current.length.min(current.end);
        closed
    }

    #[cfg(not(unix))]
    fn close_holes(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Completes the current file: its header, and its length if more was reserved.
    ///
    /// # Errors
    /// Those of the system, also of an earlier file of a series. `NotFound`: the file's name leads to another file now, or to none.
    /// `InvalidData`: another process has cut the file; the header counts the lost buffers.
    pub fn finish(&mut self, closing: Closing) -> io::Result<()> {
        let completed = self.complete(closing);
        self.earlier_error.take().map_or(completed, Err)
    }

    fn complete(&mut self, closing: Closing) -> io::Result<()> {
        if let Some(log) = &mut self.log {
            return log.finish();
        }
        match self.compression.is_possible() {
            // The header has the losses, if the disk is still full.
            true => _ = self.append(0, &[], PLAIN),
            false => self.mark_lost(),
        }
        let closed = self.close_holes();
        self.write_header(closing)?;
        if let Some(current) = &self.current {
            let size = current.end;
            let file = current.file.file();
            if file.metadata()?.len() != size {
                file.set_len(size)?;
            }
            #[cfg(unix)]
            {
                use std::os::unix::fs::MetadataExt;
                let (ours, named) = (file.metadata()?, std::fs::metadata(self.path()));
                if !named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino()))
                {
                    let is_removed = ours.nlink() == 0;
                    return Err(if is_removed {
                        removed(&self.path())
                    } else {
                        moved(&self.path())
                    });
                }
            }
            if current.cut > 0 {
                let what = format!(
                    "{} {CUT}: {} buffers of it are lost",
                    self.path().display(),
                    current.cut
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        closed
    }
}

/// The end of the error of a file whose name leads to another file, or to none.
pub const REMOVED: &str = "was removed or replaced";

/// The end of the error of a file that is complete, and not at its path any more.
pub const MOVED: &str =
    "was moved or its file system unmounted: the events are in the file that was there";

#[cfg(unix)]
fn moved(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} {MOVED}", path.display()))
}

/// A part of the error of a file that another process has cut.
pub const CUT: &str = "was made shorter while it was written";

fn removed(path: &Path) -> io::Error {
    let what = format!("{} {REMOVED}", path.display());
    io::Error::new(io::ErrorKind::NotFound, what)
}

/// Number of slots up to the last one with a buffer; the header is one.
#[cfg(unix)]
fn used_slots(file: &File, size: u64, mut slots: u64) -> io::Result<u64> {
    let mut head = [0; BufferHeader::SIZE];
    while slots > 1 {
        // A file that was cut may end inside a buffer.
        let read = std::os::unix::fs::FileExt::read_at(file, &mut head, (slots - 1) * size)?;
        if head[..read].iter().any(|byte| *byte != 0) {
            break;
        }
        slots -= 1;
    }
    Ok(slots)
}

/// The smallest page size: every larger page ends at a multiple of it.
const PAGE: u64 = 4096;

fn preallocate(file: &File, size: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: plain numbers, an open descriptor.
        let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size as libc::off_t) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    file.set_len(size)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const SIZE: usize = 4096;

    /// A buffer of a CPU with one event, whose time is the number.
    fn buffer(cpu: u16, number: i64) -> Vec<u8> {
        let mut builder = etw_etl::write::BufferBuilder::new(SIZE as u32, cpu);
        let mut event = etw_types::EventRecord::new(etw_types::HeaderType::Event64, b"payload");
        event.order_time = number;
        builder.push(&event).unwrap();
        builder.header.sequence_number = number;
        builder.finish()
    }

    /// Stores buffers of two CPUs in turn, of which the file takes some not. Returns the CPUs, times and types of what is in the file.
    fn stored(
        mode: u32,
        compression: Compression,
        refused: std::ops::Range<i64>,
        leaves_mark: bool,
    ) -> Vec<(u16, i64, u8)> {
        let name = format!("etw-lost-{}-{mode:x}-{compression:?}.etl", std::process::id());
        let path = std::env::temp_dir().join(name);
        let session = etw_session::SessionConfig::default();
        let mut facts = SessionFacts::new("lost", Some(&path), session.clock, None);
        facts.header.buffer_size = SIZE as u32;
        facts.header.log_file_mode = etw_types::LogFileMode(mode);
        facts.compression = compression;
        facts.start_raw = 0;
        let mut files = Files::create(&path, facts, 0).unwrap();
        for number in 1..10i64 {
            let is_refused = refused.contains(&number);
            let mut options = File::options();
            let file = options.read(true).write(!is_refused).open(&path).unwrap();
            files.current.as_mut().unwrap().file.reopen_as(file);
            let bytes = buffer(number as u16 % 2, number);
            let how = How { compresses: compression.is_possible(), ..PLAIN };
            let header = &bytes[..BufferHeader::SIZE];
            let pieces = [Piece { header, bytes: &bytes, leaves_mark }];
            let result = files.store_all(1, number as u64, &pieces, Closing::default(), how);
            assert_eq!(result.is_err(), is_refused, "{number}: {result:?}");
        }
        files.finish(Closing::default()).unwrap();
        let mut records =
            etw_etl::read::Records::new(vec![etw_etl::read::TraceFile::open(&path).unwrap()]);
        let mut found = Vec::new();
        while let Some(record) = records.next() {
            if record.hook.is_none() {
                let kind = record.descriptor.opcode.0;
                found.push((record.cpu, record.raw_timestamp().unwrap(), kind));
            }
        }
        assert!(records.damage().is_empty(), "{:?}", records.damage().kept());
        std::fs::remove_file(&path).unwrap();
        found
    }

    /// Each CPU's gap has one mark, at the time of the first event that is missing, whatever the form of the file.
    #[test]
    fn a_gap_has_a_mark_on_each_cpu() {
        let sequential = etw_types::LogFileMode::SEQUENTIAL.0;
        let forms = [
            (sequential, Compression::Off),
            (sequential | etw_types::LogFileMode::COMPRESSED.0, Compression::On),
        ];
        for (mode, compression) in forms {
            let event = |number: i64| (number as u16 % 2, number, 0);
            let mark = |number: i64| (number as u16 % 2, number, 33);
            for leaves_mark in [true, false] {
                // A session of programs has their records alone.
                let marks = [mark(4), mark(5)].into_iter().filter(|_| leaves_mark);
                let expected = [1, 2, 3].map(event).into_iter().chain(marks);
                let expected: Vec<_> = expected.chain([8, 9].map(event)).collect();
                let found = stored(mode, compression, 4..8, leaves_mark);
                assert_eq!(found, expected, "{compression:?}");
            }
            // The file is written again in the end alone.
            assert_eq!(stored(mode, compression, 9..9, true).len(), 9);
        }
    }
}
