//! Codecs of values of any size: strings, binary, SIDs.

use etw_ring::Room;
use etw_tracelogging::sid_size;

use super::plain::{REFUSED, put_units};

/// A codec of slices.
pub trait Text {
    /// `u8` or `u16`.
    type Unit: Copy + 'static;
    /// The part of the slice that is written.
    fn cut(value: &[Self::Unit]) -> &[Self::Unit] {
        value
    }
    /// Bytes in the payload of a slice that was cut.
    fn size(value: &[Self::Unit]) -> usize;
    /// Puts as many bytes.
    fn put<'r>(value: &[Self::Unit], room: Room<'r>) -> Room<'r>;
}

/// Values with bytes: everything that is `AsRef<[u8]>`, also through dereferencing.
pub trait Bytes<'a> {
    #[doc(hidden)]
    fn __etw_bytes(self) -> &'a [u8];
}

impl<'a, T: AsRef<[u8]> + ?Sized> Bytes<'a> for &'a T {
    #[inline(always)]
    fn __etw_bytes(self) -> &'a [u8] {
        self.as_ref()
    }
}

/// Values with UTF-16 units: everything that is `AsRef<[u16]>`, also through dereferencing.
pub trait Units<'a> {
    #[doc(hidden)]
    fn __etw_units(self) -> &'a [u16];
}

impl<'a, T: AsRef<[u16]> + ?Sized> Units<'a> for &'a T {
    #[inline(always)]
    fn __etw_units(self) -> &'a [u16] {
        self.as_ref()
    }
}

/// A `u16` byte count and the bytes. Bytes that overflow the count are larger than any event, so the write is refused.
#[derive(Debug)]
pub struct Counted8;

impl Text for Counted8 {
    type Unit = u8;

    #[inline(always)]
    fn size(value: &[u8]) -> usize {
        // No slice is longer than isize::MAX.
        2 + value.len()
    }

    #[inline(always)]
    fn put<'r>(value: &[u8], room: Room<'r>) -> Room<'r> {
        room.put_counted(value)
    }
}

/// A `u16` count of bytes and UTF-16LE.
#[derive(Debug)]
pub struct Counted16;

impl Text for Counted16 {
    type Unit = u16;

    #[inline(always)]
    fn size(value: &[u16]) -> usize {
        2 + size_of_val(value)
    }

    #[inline(always)]
    fn put<'r>(value: &[u16], room: Room<'r>) -> Room<'r> {
        put_units(value, room.put(&(size_of_val(value) as u16).to_le_bytes()))
    }
}

/// Bytes up to the first NUL, and a NUL.
#[derive(Debug)]
pub struct Zero8;

impl Text for Zero8 {
    type Unit = u8;

    #[inline]
    fn cut(value: &[u8]) -> &[u8] {
        let size = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
        &value[..size]
    }

    #[inline(always)]
    fn size(value: &[u8]) -> usize {
        value.len() + 1
    }

    #[inline(always)]
    fn put<'r>(value: &[u8], room: Room<'r>) -> Room<'r> {
        room.put(value).put(&[0])
    }
}

/// UTF-16LE up to the first NUL, and a NUL.
#[derive(Debug)]
pub struct Zero16;

impl Text for Zero16 {
    type Unit = u16;

    #[inline]
    fn cut(value: &[u16]) -> &[u16] {
        let size = value.iter().position(|&unit| unit == 0).unwrap_or(value.len());
        &value[..size]
    }

    #[inline(always)]
    fn size(value: &[u16]) -> usize {
        size_of_val(value) + 2
    }

    #[inline(always)]
    fn put<'r>(value: &[u16], room: Room<'r>) -> Room<'r> {
        put_units(value, room).put(&[0, 0])
    }
}

/// A SID at the start of the bytes. If there is none, the event is refused.
#[derive(Debug)]
pub struct Sid;

impl Text for Sid {
    type Unit = u8;

    #[inline]
    fn cut(value: &[u8]) -> &[u8] {
        sid_size(value).and_then(|size| value.get(..size)).unwrap_or_default()
    }

    #[inline(always)]
    fn size(value: &[u8]) -> usize {
        if value.is_empty() { REFUSED } else { value.len() }
    }

    #[inline(always)]
    fn put<'r>(value: &[u8], room: Room<'r>) -> Room<'r> {
        room.put(value)
    }
}
