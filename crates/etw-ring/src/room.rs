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
