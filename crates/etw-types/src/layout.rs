//! Fields of byte layouts: an offset and a width, declared once and used to read, to write and to patch.

use std::marker::PhantomData;

use crate::Guid;

/// A little-endian field of a layout: its offset from the start of the structure, and by its type its width.
///
/// ```
/// use etw_types::{BufferHeader, Field};
///
/// let mut bytes = [0; BufferHeader::SIZE];
/// BufferHeader::SEQUENCE_NUMBER.put(&mut bytes, 7);
/// assert_eq!(BufferHeader::SEQUENCE_NUMBER.get(&bytes), Some(7));
/// assert_eq!(BufferHeader::SEQUENCE_NUMBER.offset(), 0x18);
///
/// const MINE: Field<u16> = Field::at(2);
/// assert_eq!(MINE.get(&[1, 2, 3]), None);
/// ```
#[derive(Debug)]
pub struct Field<T> {
    offset: usize,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Field<T> {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T> Field<T> {
    /// The field at `offset`.
    pub const fn at(offset: usize) -> Field<T> {
        Field { offset, value: PhantomData }
    }

    /// Bytes from the start of the structure.
    pub const fn offset(self) -> usize {
        self.offset
    }
}

/// Types that a [`Field`] can have.
pub trait FieldValue: sealed::Sealed + Sized {
    #[doc(hidden)]
    fn get(bytes: &[u8], offset: usize) -> Option<Self>;
    #[doc(hidden)]
    fn put(self, bytes: &mut [u8], offset: usize);
}

mod sealed {
    pub trait Sealed {}
}

impl<T: FieldValue> Field<T> {
    /// The value of the field in the structure at the front of `bytes`; `None` if `bytes` end before it does.
    #[inline]
    pub fn get(self, bytes: &[u8]) -> Option<T> {
        T::get(bytes, self.offset)
    }

    /// Writes the field of the structure at the front of `bytes`.
    ///
    /// # Panics
    /// If `bytes` end before the field does.
    #[inline]
    pub fn put(self, bytes: &mut [u8], value: T) {
        value.put(bytes, self.offset);
    }
}

macro_rules! field_values {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}

        impl FieldValue for $ty {
            #[inline]
            fn get(bytes: &[u8], offset: usize) -> Option<$ty> {
                let end = offset.checked_add(size_of::<$ty>())?;
                Some(<$ty>::from_le_bytes(bytes.get(offset..end)?.try_into().ok()?))
            }

            #[inline]
            fn put(self, bytes: &mut [u8], offset: usize) {
                bytes[offset..offset + size_of::<$ty>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

field_values! { u8 u16 u32 u64 i32 i64 }

impl sealed::Sealed for Guid {}

impl FieldValue for Guid {
    #[inline]
    fn get(bytes: &[u8], offset: usize) -> Option<Guid> {
        Guid::read(bytes, offset)
    }

    #[inline]
    fn put(self, bytes: &mut [u8], offset: usize) {
        bytes[offset..offset + 16].copy_from_slice(&self.0);
    }
}
