//! The values of a context, ready for every event with it.

use std::sync::atomic::{AtomicU64, Ordering};

use etw::rt::Room;

use crate::value::{MAX_PAIRS, Pair, longest_value, put_value};

/// The values of a context as in a payload.
#[derive(Debug)]
pub struct Flat {
    /// The context's own number, by which a shape remembers that its fields are those of the context.
    pub(crate) number: u64,
    pub(crate) values: Box<[u8]>,
}

impl Flat {
    /// The values in order; `None` if one cannot be encoded as it is, or if they are too many or too long for an event.
    pub(crate) fn of(pairs: &[Pair<'_>]) -> Option<Flat> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        if pairs.len() > MAX_PAIRS {
            return None;
        }
        let size = pairs.iter().map(|pair| longest_value(&pair.value)).sum();
        let mut values = vec![0; size];
        let mut room = Room::of(&mut values);
        for pair in pairs {
            room = put_value(room, &pair.value)?.1;
        }
        let left = room.left()?;
        values.truncate(size - left);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Some(Flat { number, values: values.into() })
    }
}
