use std::mem::MaybeUninit;

/// What is left of an event's payload while it is filled: handed from value to value, so that it stays in registers.
///
/// ```text
/// start ┌─────────────┬──────────────┐
///       │ put already │ Room         │
///       └─────────────┴──────────────┘
/// ```
#[derive(Debug)]
pub struct Room<'a>(Option<&'a mut [MaybeUninit<u8>]>);

/// A piece of payload: what C has as `EVENT_DATA_DESCRIPTOR`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Piece {
    /// Of the first byte.
    pub address: u64,
    /// In bytes.
    pub size: u32,
    /// What it is, in the low byte; not looked at here.
    pub kind: u32,
}

impl Piece {
    /// # Safety
    /// It is there, aligned or not.
    #[inline(always)]
    unsafe fn read(piece: *const Piece) -> (*const u8, usize) {
        // Each member by itself: a load of what was stored in parts just before would wait for them.
        // SAFETY: the caller's promise.
        let (address, size) = unsafe {
            (
                (&raw const (*piece).address).read_unaligned(),
                (&raw const (*piece).size).read_unaligned(),
            )
        };
        (std::ptr::with_exposed_provenance(address as usize), size as usize)
    }
}

/// What puts an event's payload: mostly a closure.
pub trait FillRoom {
    /// Puts it; what is left of the room.
    fn fill<'r>(self, room: Room<'r>) -> Room<'r>;
}

impl<F: for<'r> FnOnce(Room<'r>) -> Room<'r>> FillRoom for F {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        self(room)
    }
}

impl<'a> Room<'a> {
    #[inline(always)]
    pub(crate) fn new(room: &'a mut [MaybeUninit<u8>]) -> Room<'a> {
        Room(Some(room))
    }

    /// Appends. More than was reserved spoils the event, whatever is put afterwards.
    #[inline(always)]
    #[must_use = "what is left, and the event is spoilt without it"]
    pub fn put(self, bytes: &[u8]) -> Room<'a> {
        let Some((part, rest)) = self.0.and_then(|room| room.split_at_mut_checked(bytes.len()))
        else {
            return Room(None);
        };
        copy(part, bytes);
        Room(Some(rest))
    }

    /// [`put`](Self::put) of several, whose sizes are known at run time only and mostly small.
    ///
    /// # Safety
    /// So many pieces are there, aligned or not, and each leads to its bytes, none of them in this room; that of no bytes may lead
    /// anywhere.
    #[inline(always)]
    #[must_use = "what is left, and the event is spoilt without it"]
    pub unsafe fn put_pieces(self, mut pieces: *const Piece, count: usize) -> Room<'a> {
        let Some(room) = self.0 else { return Room(None) };
        let (mut to, mut left) = (room.as_mut_ptr(), room.len());
        // SAFETY: the caller's promise, and `left`.
        unsafe {
            let end = pieces.add(count);
            while pieces != end {
                let (from, size) = Piece::read(pieces);
                if size > left || size > SMALL {
                    let room = std::slice::from_raw_parts_mut(to, left);
                    return put_large(room, pieces, end);
                }
                copy_small(to.cast(), from, size);
                to = to.add(size);
                left -= size;
                pieces = pieces.add(1);
            }
            // The rest of what was borrowed.
            Room(Some(std::slice::from_raw_parts_mut(to, left)))
        }
    }

    /// Bytes left, `None` of a spoilt event.
    #[inline(always)]
    pub(crate) fn left(&self) -> Option<usize> {
        self.0.as_ref().map(|room| room.len())
    }
}

/// Both of one length. What most texts need is two moves that may overlap: a call of `memcpy` costs as much as the rest of a field.
#[inline(always)]
fn copy(to: &mut [MaybeUninit<u8>], from: &[u8]) {
    let size = from.len();
    let (to, from) = (to.as_mut_ptr().cast::<u8>(), from.as_ptr());
    // SAFETY: `size` bytes at both, which are not the same memory; the second move ends where they end.
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

/// Bytes that are copied without a call.
const SMALL: usize = 64;

/// The rest of the pieces, from a large one on, or one that has no room. Apart: the calls in here would have the small ones' addresses
/// kept in memory.
///
/// # Safety
/// As [`Room::put_pieces`] has it.
#[inline(never)]
unsafe fn put_large(
    room: &mut [MaybeUninit<u8>],
    mut pieces: *const Piece,
    end: *const Piece,
) -> Room<'_> {
    let mut room = Room::new(room);
    while pieces != end {
        // SAFETY: the caller's promise; of no bytes, any address will do.
        let bytes = unsafe {
            match Piece::read(pieces) {
                (_, 0) => &[],
                (from, size) => std::slice::from_raw_parts(from, size),
            }
        };
        room = room.put(bytes);
        // SAFETY: one of them, or their end.
        pieces = unsafe { pieces.add(1) };
    }
    room
}

/// Up to [`SMALL`] bytes.
///
/// # Safety
/// `size` bytes at both, which are not the same memory.
#[inline(always)]
unsafe fn copy_small(to: *mut u8, from: *const u8, size: usize) {
    /// The first `size_of::<T>()` bytes and the last ones.
    ///
    /// # Safety
    /// From as many to twice as many bytes at both, which are not the same memory.
    #[inline(always)]
    unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, size: usize) {
        let tail = size - size_of::<T>();
        // SAFETY: the caller's promise.
        unsafe {
            let first = from.cast::<T>().read_unaligned();
            let last = from.add(tail).cast::<T>().read_unaligned();
            to.cast::<T>().write_unaligned(first);
            to.add(tail).cast::<T>().write_unaligned(last);
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        if size <= 16 {
            if size >= 8 {
                ends::<u64>(to, from, size);
            } else if size >= 4 {
                ends::<u32>(to, from, size);
            } else if size > 0 {
                // The middle byte is the first or the last one, where there are not three.
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
            let left = unsafe { room.put_pieces(pieces.as_ptr(), 2) }.left();
            assert_eq!(left, Some(142 - size));
            // SAFETY: all of it was initialised above.
            let memory = memory.map(|byte| unsafe { byte.assume_init() });
            assert_eq!(&memory[8..8 + size], &bytes[..size]);
            assert!(memory[..8].iter().chain(&memory[8 + size..]).all(|byte| *byte == 0));
            let mut little = vec![MaybeUninit::new(0u8); size.saturating_sub(1)];
            // SAFETY: as above.
            let left = unsafe { Room::new(&mut little).put_pieces(pieces.as_ptr(), 2) }.left();
            assert_eq!(left, (size == 0).then_some(0));
        }
    }
}
