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
        part.write_copy_of_slice(bytes);
        Room(Some(rest))
    }

    /// Bytes left, `None` of a spoilt event.
    #[inline(always)]
    pub(crate) fn left(&self) -> Option<usize> {
        self.0.as_ref().map(|room| room.len())
    }
}
