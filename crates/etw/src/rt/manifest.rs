//! Fields of manifest events, whose sizes and counts the manifest's other fields have.

use std::marker::PhantomData;

use etw_ring::Room;
use etw_types::SystemTime;

use super::field::{Encoded, Field, scalar};
use super::plain::{Parts, Plain, REFUSED, put_plain};

/// Text for a field of UTF-16: UTF-8 text, which is converted while it is written, or units.
pub trait Wide {
    /// UTF-16 units up to the first NUL.
    #[doc(hidden)]
    fn __etw_units(&self) -> usize;
    /// Puts as many units.
    #[doc(hidden)]
    fn __etw_put<'r>(&self, room: Room<'r>) -> Room<'r>;
}

impl Wide for str {
    #[inline]
    fn __etw_units(&self) -> usize {
        self.encode_utf16().take_while(|unit| *unit != 0).count()
    }

    #[inline]
    fn __etw_put<'r>(&self, mut room: Room<'r>) -> Room<'r> {
        // A few units at a time: each call of `put` checks the space.
        let mut bytes = [0; 64];
        let mut used = 0;
        for unit in self.encode_utf16().take_while(|unit| *unit != 0) {
            if used == bytes.len() {
                room = room.put(&bytes);
                used = 0;
            }
            bytes[used..used + 2].copy_from_slice(&unit.to_le_bytes());
            used += 2;
        }
        room.put(&bytes[..used])
    }
}

impl Wide for String {
    #[inline]
    fn __etw_units(&self) -> usize {
        self.as_str().__etw_units()
    }

    #[inline]
    fn __etw_put<'r>(&self, room: Room<'r>) -> Room<'r> {
        self.as_str().__etw_put(room)
    }
}

impl Wide for [u16] {
    #[inline]
    fn __etw_units(&self) -> usize {
        self.iter().position(|unit| *unit == 0).unwrap_or(self.len())
    }

    #[inline]
    fn __etw_put<'r>(&self, room: Room<'r>) -> Room<'r> {
        put_plain::<super::U16>(&self[..self.__etw_units()], room)
    }
}

impl<const N: usize> Wide for [u16; N] {
    #[inline]
    fn __etw_units(&self) -> usize {
        self.as_slice().__etw_units()
    }

    #[inline]
    fn __etw_put<'r>(&self, room: Room<'r>) -> Room<'r> {
        self.as_slice().__etw_put(room)
    }
}

impl<T: Wide + ?Sized> Wide for &T {
    #[inline]
    fn __etw_units(&self) -> usize {
        T::__etw_units(self)
    }

    #[inline]
    fn __etw_put<'r>(&self, room: Room<'r>) -> Room<'r> {
        T::__etw_put(self, room)
    }
}

/// Text with a NUL behind it, or with its size in bytes before it.
#[derive(Debug)]
pub struct WideText<'a, T: ?Sized> {
    text: &'a T,
    units: usize,
    is_counted: bool,
}

/// UTF-16 and a NUL.
#[inline(always)]
pub fn wide<T: Wide + ?Sized>(text: &T) -> WideText<'_, T> {
    WideText { text, units: text.__etw_units(), is_counted: false }
}

/// A `u16` size in bytes, and UTF-16.
#[inline(always)]
pub fn counted_wide<T: Wide + ?Sized>(text: &T) -> WideText<'_, T> {
    WideText { text, units: text.__etw_units(), is_counted: true }
}

impl<T: Wide + ?Sized> Field for WideText<'_, T> {
    #[inline(always)]
    fn size(&self) -> usize {
        // A text is no longer than isize::MAX bytes, and has at most as many units.
        2 + 2 * self.units
    }

    #[inline(always)]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        match self.is_counted {
            // A size that overflows is that of no event: the write is refused before.
            true => self.text.__etw_put(room.put(&((2 * self.units) as u16).to_le_bytes())),
            false => self.text.__etw_put(room).put(&[0, 0]),
        }
    }
}

/// Values of constant size, without a count.
#[derive(Debug)]
pub struct Values<'a, P: Plain>(&'a [P::Value]);

impl<P: Plain> Field for Values<'_, P> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.0.len().saturating_mul(P::SIZE)
    }

    #[inline(always)]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        put_plain::<P>(self.0, room)
    }
}

/// Values of constant size; the manifest or another field has their count.
#[inline(always)]
pub fn values<P: Plain>(values: &[P::Value]) -> Values<'_, P> {
    Values(values)
}

/// Items that a function turns into fields.
#[derive(Debug)]
pub struct Each<'a, T, G, F> {
    items: &'a [T],
    field: G,
    kind: PhantomData<F>,
}

/// Items of any size; the manifest or another field has their count.
#[inline(always)]
pub fn each<'a, T, F: Field, G: Fn(&'a T) -> F>(items: &'a [T], field: G) -> Each<'a, T, G, F> {
    Each { items, field, kind: PhantomData }
}

impl<'a, T, F: Field, G: Fn(&'a T) -> F> Field for Each<'a, T, G, F> {
    #[inline]
    fn size(&self) -> usize {
        self.items.iter().fold(0, |sum, item| sum.saturating_add((self.field)(item).size()))
    }

    #[inline]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        self.items.iter().fold(room, |room, item| (self.field)(item).put(room))
    }
}

impl<F: Field + ?Sized> Field for &F {
    #[inline(always)]
    fn size(&self) -> usize {
        F::size(self)
    }

    #[inline(always)]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        F::put(self, room)
    }
}

/// The sixteen bytes of a SYSTEMTIME.
#[inline(always)]
pub fn system_time(time: &SystemTime) -> Encoded<[u8; 16]> {
    let SystemTime { year, month, day_of_week, day, hour, minute, second, milliseconds } = *time;
    scalar::<Parts>(&[year, month, day_of_week, day, hour, minute, second, milliseconds])
}

/// A size, if sizes and counts agree; else that of an event that is refused.
#[inline(always)]
pub fn checked(agree: bool, size: usize) -> usize {
    if agree { size } else { REFUSED }
}
