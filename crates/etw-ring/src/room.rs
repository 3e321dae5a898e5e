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

    /// [`put`](Self::put) of several, whose sizes are known at run time only and mostly small: pairs of an address and a size.
    ///
    /// # Safety
    /// So many bytes are at each address, and none of them is in this room; the address of no bytes may be any.
    #[inline(always)]
    #[must_use = "what is left, and the event is spoilt without it"]
    pub unsafe fn put_pieces(self, pieces: impl Iterator<Item = (*const u8, usize)>) -> Room<'a> {
        let Some(room) = self.0 else { return Room(None) };
        let (mut to, mut left) = (room.as_mut_ptr(), room.len());
        for (from, size) in pieces {
            if size > left {
                return Room(None);
            }
            // SAFETY: `size` bytes at `from`, by the caller, and at `to`, as `left` says.
            unsafe {
                copy_small(to.cast(), from, size);
                to = to.add(size);
            }
            left -= size;
        }
        // SAFETY: the rest of what was borrowed.
        Room(Some(unsafe { std::slice::from_raw_parts_mut(to, left) }))
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

/// As [`copy`], for every size up to 64.
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
        match size {
            4..8 => ends::<u32>(to, from, size),
            8..16 => ends::<u64>(to, from, size),
            16..=32 => ends::<u128>(to, from, size),
            33..=64 => {
                ends::<u128>(to, from, 32);
                let tail = size - 32;
                ends::<u128>(to.add(tail), from.add(tail), 32);
            }
            0 => {}
            1..4 => {
                // The middle byte is the first or the last one, where there are not three.
                *to = *from;
                *to.add(size / 2) = *from.add(size / 2);
                *to.add(size - 1) = *from.add(size - 1);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, size),
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
            let pieces = [&bytes[..size / 3], &bytes[size / 3..size]];
            let pieces = pieces.map(|piece| (piece.as_ptr(), piece.len())).into_iter();
            let room = Room::new(&mut memory[8..150]);
            // SAFETY: slices, and not of the room.
            let left = unsafe { room.put_pieces(pieces.clone()) }.left();
            assert_eq!(left, Some(142 - size));
            // SAFETY: all of it was initialised above.
            let memory = memory.map(|byte| unsafe { byte.assume_init() });
            assert_eq!(&memory[8..8 + size], &bytes[..size]);
            assert!(memory[..8].iter().chain(&memory[8 + size..]).all(|byte| *byte == 0));
            let mut little = vec![MaybeUninit::new(0u8); size.saturating_sub(1)];
            // SAFETY: as above.
            let left = unsafe { Room::new(&mut little).put_pieces(pieces) }.left();
            assert_eq!(left, (size == 0).then_some(0));
        }
    }
}
