//! The buffers that a file did not take. In sessions of the system's events, each CPU has a mark in place of the first of them, as soon as
//! the file takes buffers again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use etw_etl::read::{BufferRecords, Item};
use etw_etl::record::RecordContext;
use etw_session::{LOSS_MARK_SIZE, LossMark, Place};
use etw_types::BufferHeader;

use crate::output_file::Piece;

const MARK_BUFFER_SIZE: usize = BufferHeader::SIZE + LOSS_MARK_SIZE;

/// Buffers that were lost because they could not be written.
#[derive(Debug, Default)]
pub(crate) struct LostBuffers {
    /// Their places, if nothing else has been written there.
    holes: BTreeSet<Place>,
    /// The buffer to be written in place of the first one in a gap, by CPU.
    marks: BTreeMap<u16, MarkBuffer>,
}

/// A buffer with a mark alone, in the place of one that was lost.
#[derive(Clone, Debug)]
pub(crate) struct MarkBuffer {
    pub place: Place,
    /// The lost buffer's header, then the mark. The rest of its place is filler.
    pub bytes: [u8; MARK_BUFFER_SIZE],
}

impl MarkBuffer {
    fn of(place: Place, piece: &Piece<'_>) -> Option<(u16, MarkBuffer)> {
        let mut bytes = [0; MARK_BUFFER_SIZE];
        let (head, mark) = bytes.split_at_mut(BufferHeader::SIZE);
        head.copy_from_slice(piece.header.get(..BufferHeader::SIZE)?);
        let header = BufferHeader::read(piece.header.first_chunk()?);
        let records = piece.bytes.get(BufferHeader::SIZE..header.offset as usize)?;
        let context = RecordContext::default();
        let time = BufferRecords::new(records, &context).find_map(|item| match item {
            Item::Record { record, .. } => record.raw_timestamp(),
            Item::Damage(_) => None,
        });
        let time = time.unwrap_or(header.time_stamp);
        mark.copy_from_slice(&LossMark::Buffers.record(time));
        BufferHeader::put_filled(head, MARK_BUFFER_SIZE as u32);
        Some((header.cpu(), MarkBuffer { place, bytes }))
    }

    /// Its header and records.
    pub fn parts(&self) -> (BufferHeader, &[u8]) {
        let (head, mark) = self.bytes.split_at(BufferHeader::SIZE);
        let mut header = [0; BufferHeader::SIZE];
        header.copy_from_slice(head);
        (BufferHeader::read(&header), mark)
    }
}

impl LostBuffers {
    /// A buffer was not written.
    pub fn add(&mut self, place: Place, piece: &Piece<'_>) {
        self.holes.insert(place);
        if let Some((cpu, mark)) = piece.leaves_mark.then(|| MarkBuffer::of(place, piece)).flatten()
        {
            self.marks.entry(cpu).or_insert(mark);
        }
    }

    /// Buffers were written to these slots of a file.
    pub fn fill(&mut self, file: u32, slots: Range<u64>) {
        let is_filled = |place: &Place| place.file == file && slots.contains(&place.slot);
        self.holes.retain(|hole| !is_filled(hole));
        self.marks.retain(|_, mark| !is_filled(&mark.place));
    }

    /// The marks that are not in the file yet, in the order of their slots.
    pub fn take_marks(&mut self, file: u32) -> Vec<MarkBuffer> {
        let all = std::mem::take(&mut self.marks);
        let (of_file, others) = all.into_iter().partition(|(_, mark)| mark.place.file == file);
        self.marks = others;
        let of_file: BTreeMap<u16, MarkBuffer> = of_file;
        let mut marks: Vec<MarkBuffer> = of_file.into_values().collect();
        marks.sort_by_key(|mark| mark.place);
        marks
    }

    /// Marks that the file did not take either: they are tried again with the next buffer.
    pub fn put_back(&mut self, marks: impl IntoIterator<Item = MarkBuffer>) {
        self.marks.extend(marks.into_iter().map(|mark| (mark.parts().0.cpu(), mark)));
    }

    /// Slots of a file in which there is nothing; and forgets them.
    #[cfg(unix)]
    pub fn take_holes(&mut self, file: u32) -> BTreeSet<u64> {
        let all = std::mem::take(&mut self.holes);
        let (of_file, others) = all.into_iter().partition(|hole| hole.file == file);
        self.holes = others;
        let of_file: BTreeSet<Place> = of_file;
        of_file.into_iter().map(|hole| hole.slot).collect()
    }

    /// A file was begun: those before it are complete.
    pub fn forget_before(&mut self, file: u32) {
        self.holes.retain(|hole| hole.file >= file);
        self.marks.retain(|_, mark| mark.place.file >= file);
    }
}
