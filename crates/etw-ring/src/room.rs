//! The free rest of an event's payload, which values fill one after the other.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The free rest of an event's payload while it is filled. Each value takes it and returns the rest, so it stays in registers.
///
/// ```text
/// start ┌─────────────┬──────────────┐
///       │ put before  │ Room         │
///       └─────────────┴──────────────┘
/// ```
#[derive(Debug)]
pub struct Room<'a> {
    at: *mut MaybeUninit<u8>,
    /// [`SPOILT`] if more was put than the room had.
    left: isize,
    memory: PhantomData<&'a mut [MaybeUninit<u8>]>,
}

// SAFETY: as a `&mut [MaybeUninit<u8>]`, which it stands for.
unsafe impl Send for Room<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Room<'_> {}

/// No slice fits into so little, not even an empty one.
const SPOILT: isize = -1;

/// A piece of payload, with the layout of C's `EVENT_DATA_DESCRIPTOR`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Piece {
    /// The address of the first byte.
    pub address: u64,
    /// The size in bytes.
    pub size: u32,
    /// The type, in the low byte; ignored here.
    pub kind: u32,
}

impl Piece {
    /// The pieces of an array, for [`Room::put_pieces`].
    ///
    /// # Safety
    /// `pieces` points to `count` readable pieces, aligned or not, until the iterator is dropped.
    #[inline(always)]
    pub unsafe fn all(
        mut pieces: *const Piece,
        count: usize,
    ) -> impl Iterator<Item = (*const u8, usize)> + Clone {
        let end = pieces.wrapping_add(count);
        std::iter::from_fn(move || {
            if pieces == end {
                return None;
            }
            // One load for each member: a load of both would wait for stores of the parts.
            // SAFETY: the caller promises a readable piece.
            let (address, size) = unsafe {
                (
                    (&raw const (*pieces).address).read_unaligned(),
                    (&raw const (*pieces).size).read_unaligned(),
                )
            };
            pieces = pieces.wrapping_add(1);
            Some((std::ptr::with_exposed_provenance(address as usize), size as usize))
        })
    }
}

/// Something that fills an event's payload: mostly a closure.
pub trait FillRoom {
    /// Puts the payload; returns the rest of the room.
    fn fill<'r>(self, room: Room<'r>) -> Room<'r>;
}

impl<F: for<'r> FnOnce(Room<'r>) -> Room<'r>> FillRoom for F {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        self(room)
    }
}

impl FillRoom for &[u8] {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        room.put(self)
    }
}

impl<'a> Room<'a> {
    #[inline(always)]
    pub(crate) fn new(room: &'a mut [MaybeUninit<u8>]) -> Room<'a> {
        // No slice has more than `isize::MAX` bytes.
        Room { at: room.as_mut_ptr(), left: room.len() as isize, memory: PhantomData }
    }

    /// Takes bytes from the front; no slice has more than `size`. `None`: they do not fit, and the event is spoilt.
    #[inline(always)]
    fn take(&mut self, size: usize) -> Option<&'a mut [MaybeUninit<u8>]> {
        if size as isize > self.left {
            self.left = SPOILT;
            return None;
        }
        self.left -= size as isize;
        // SAFETY: `left` bytes at `at` are borrowed for `'a`, and these are not given out again.
        unsafe {
            let part = std::slice::from_raw_parts_mut(self.at, size);
            self.at = self.at.add(size);
            Some(part)
        }
    }

    /// Memory outside of a pool.
    #[inline(always)]
    pub fn of(memory: &'a mut [u8]) -> Room<'a> {
        let (start, size) = (memory.as_mut_ptr().cast(), memory.len());
        // SAFETY: the same bytes, borrowed for as long. They stay initialised, since a room puts initialised bytes alone.
        Room::new(unsafe { std::slice::from_raw_parts_mut(start, size) })
    }

    /// Fills memory outside of a pool; its bytes if they are filled to the last one.
    #[inline(always)]
    pub fn fill_whole(memory: &mut [MaybeUninit<u8>], fill: impl FillRoom) -> Option<&[u8]> {
        let size = memory.len();
        let start = memory.as_ptr();
        let is_whole = fill.fill(Room::new(memory)).is_full();
        // SAFETY: the rest is empty, so all of the memory was put; it stays borrowed.
        is_whole.then(|| unsafe { std::slice::from_raw_parts(start.cast(), size) })
    }

    /// Appends bytes. More than was reserved spoils the event, whatever is put afterwards.
    #[inline(always)]
    #[must_use = "the event is spoilt unless the rest is passed on"]
    pub fn put(mut self, bytes: &[u8]) -> Room<'a> {
        if let Some(part) = self.take(bytes.len()) {
            copy(part, bytes);
        }
        self
    }

    /// [`put`](Self::put) of a `u16` count and as many bytes. If there are more, the count is wrong; no event has space for them.
    #[inline(always)]
    #[must_use = "the event is spoilt unless the rest is passed on"]
    pub fn put_counted(mut self, bytes: &[u8]) -> Room<'a> {
        // The same for texts of every size, so that the compiler can know at the end that nothing is left.
        let Some(part) = self.take(2 + bytes.len()) else { return self };
        match bytes.len() {
            16..=32 => {
                let (count, text) = part.split_at_mut(2);
                copy(count, &(bytes.len() as u16).to_le_bytes());
                copy(text, bytes);
            }
            // SAFETY: `part` has 2 bytes more than `bytes`.
            _ => self.at = unsafe { put_counted_by_call(part.as_mut_ptr().cast(), bytes) },
        }
        self
    }

    /// [`put`](Self::put) of bytes that are mostly few: up to 64 of them are copied without a call. For functions that many sites
    /// share; in each site, the code would be large.
    #[inline(always)]
    #[must_use = "the event is spoilt unless the rest is passed on"]
    pub fn put_short(mut self, bytes: &[u8]) -> Room<'a> {
        let Some(part) = self.take(bytes.len()) else { return self };
        match bytes.len() {
            // SAFETY: `COPY`, two slices of this length.
            size @ ..=SMALL => unsafe {
                copy_small(part.as_mut_ptr().cast(), bytes.as_ptr(), size)
            },
            _ => copy(part, bytes),
        }
        self
    }

    /// [`put`](Self::put) of several pieces, each an address and a size, which is known only at run time and mostly small.
    ///
    /// # Safety
    /// `PIECES`: the address of each piece leads to `size` readable bytes outside of this room; the address of an empty piece may be
    /// anything.
    #[inline(always)]
    #[must_use = "the event is spoilt unless the rest is passed on"]
    pub unsafe fn put_pieces(
        mut self,
        mut pieces: impl Iterator<Item = (*const u8, usize)> + Clone,
    ) -> Room<'a> {
        loop {
            let mut others = pieces.clone();
            let Some((from, size)) = others.next() else { return self };
            if size as isize > self.left || size > SMALL {
                // SAFETY: `PIECES`.
                return unsafe { put_large(self, pieces) };
            }
            // SAFETY: `PIECES`, and the copy fits into `left`.
            unsafe {
                copy_small(self.at.cast(), from, size);
                self.at = self.at.add(size);
            }
            self.left -= size as isize;
            pieces = others;
        }
    }

    /// The free bytes; `None` if the event is spoilt.
    #[inline(always)]
    pub fn left(&self) -> Option<usize> {
        usize::try_from(self.left).ok()
    }

    /// Whether all bytes were put, and no more.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.left == 0
    }
}

/// Puts a `u16` count and as many bytes; the address behind them. A function of its own: its caller, which mostly ends with it, has nothing to
/// save for the calls in it.
///
/// # Safety
/// There are `2 + bytes.len()` writable bytes at `to`, outside of `bytes`.
#[inline(never)]
unsafe fn put_counted_by_call(to: *mut u8, bytes: &[u8]) -> *mut MaybeUninit<u8> {
    // SAFETY: by the caller.
    unsafe {
        to.cast::<[u8; 2]>().write((bytes.len() as u16).to_le_bytes());
        let to = to.add(2);
        match bytes.len() {
            size @ ..=SMALL => copy_small(to, bytes.as_ptr(), size),
            size => std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, size),
        }
        to.add(bytes.len()).cast()
    }
}

/// Copies between slices of equal length. For most texts two moves that may overlap are enough; a call of `memcpy` costs as much as
/// the rest of a field.
#[inline(always)]
fn copy(to: &mut [MaybeUninit<u8>], from: &[u8]) {
    let size = from.len();
    let (to, from) = (to.as_mut_ptr().cast::<u8>(), from.as_ptr());
    // SAFETY: `size` bytes at both, which do not overlap; the second move ends where they end.
    unsafe {
        if (16..=32).contains(&size) {
            let (first, last) = (from.cast::<u128>(), from.add(size - 16).cast::<u128>());
            let (first, last) = (first.read_unaligned(), last.read_unaligned());
            to.cast::<u128>().write_unaligned(first);
            to.add(size - 16).cast::<u128>().write_unaligned(last);
        } else {
            std::ptr::copy_nonoverlapping(from, to, size);
        }
    }
}

/// Up to this many bytes are copied without a call.
const SMALL: usize = 64;

/// Puts the remaining pieces, from one that is large or does not fit. A function of its own: the calls in it would force the caller to
/// keep addresses in memory.
///
/// # Safety
/// `PIECES` of [`Room::put_pieces`].
#[inline(never)]
unsafe fn put_large<'a>(
    mut room: Room<'a>,
    pieces: impl Iterator<Item = (*const u8, usize)>,
) -> Room<'a> {
    for piece in pieces {
        let bytes = match piece {
            (_, 0) => &[],
            // SAFETY: `PIECES`.
            (from, size) => unsafe { std::slice::from_raw_parts(from, size) },
        };
        room = room.put(bytes);
    }
    room
}

/// Copies up to [`SMALL`] bytes.
///
/// # Safety
/// `COPY`: `size` readable bytes at `from` and as many writable ones at `to`, which do not overlap.
#[inline(always)]
unsafe fn copy_small(to: *mut u8, from: *const u8, size: usize) {
    /// Copies the first and the last `size_of::<T>()` bytes.
    ///
    /// # Safety
    /// `COPY`, with `size` from `size_of::<T>()` to twice as many.
    #[inline(always)]
    unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, size: usize) {
        let tail = size - size_of::<T>();
        // SAFETY: `COPY`.
        unsafe {
            let first = from.cast::<T>().read_unaligned();
            let last = from.add(tail).cast::<T>().read_unaligned();
            to.cast::<T>().write_unaligned(first);
            to.add(tail).cast::<T>().write_unaligned(last);
        }
    }
    // SAFETY: `COPY`; each branch calls `ends` with a size in its range.
    unsafe {
        if size <= 16 {
            if size >= 8 {
                ends::<u64>(to, from, size);
            } else if size >= 4 {
                ends::<u32>(to, from, size);
            } else if size > 0 {
                // With one or two bytes, the middle byte is the first or the last.
                *to = *from;
                *to.add(size / 2) = *from.add(size / 2);
                *to.add(size - 1) = *from.add(size - 1);
            }
        } else if size <= 32 {
            ends::<u128>(to, from, size);
        } else {
            ends::<u128>(to, from, 32);
            let tail = size - 32;
            ends::<u128>(to.add(tail), from.add(tail), 32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_put_whole_and_too_many_bytes_spoil_the_event() {
        let bytes: Vec<u8> = (1..=200).collect();
        for size in 0..=130 {
            let fill: &dyn for<'r> Fn(Room<'r>) -> Room<'r> =
                &|room| room.put_short(&bytes[..size]).put_short(&[7]);
            let mut memory = vec![MaybeUninit::uninit(); size + 1];
            let expected = [&bytes[..size], &[7]].concat();
            assert_eq!(Room::fill_whole(&mut memory, fill), Some(&expected[..]));
            assert_eq!(Room::fill_whole(&mut memory[..size], fill), None);
        }
    }

    #[test]
    fn pieces_of_every_size_are_copied_whole_and_nothing_beside_them() {
        let bytes: Vec<u8> = (1..=200).collect();
        for size in 0..=130 {
            let mut memory = [MaybeUninit::new(0u8); 160];
            let pieces = [&bytes[..size / 3], &bytes[size / 3..size]].map(|piece| Piece {
                address: piece.as_ptr().expose_provenance() as u64,
                size: piece.len() as u32,
                kind: 0,
            });
            let room = Room::new(&mut memory[8..150]);
            // SAFETY: slices, and not of the room.
            let left = unsafe { room.put_pieces(Piece::all(pieces.as_ptr(), 2)) }.left();
            assert_eq!(left, Some(142 - size));
            // SAFETY: all of it was initialised above.
            let memory = memory.map(|byte| unsafe { byte.assume_init() });
            assert_eq!(&memory[8..8 + size], &bytes[..size]);
            assert!(memory[..8].iter().chain(&memory[8 + size..]).all(|byte| *byte == 0));
            let mut little = vec![MaybeUninit::new(0u8); size.saturating_sub(1)];
            // SAFETY: slices, and not of the room.
            let left =
                unsafe { Room::new(&mut little).put_pieces(Piece::all(pieces.as_ptr(), 2)) }.left();
            assert_eq!(left, (size == 0).then_some(0));
        }
    }
}
