//! Codecs of values that always take as many bytes.

use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etw_ring::Room;
use etw_types::{FileTime, Guid};

/// A codec of values of constant size.
pub trait Plain {
    /// The user's type.
    type Value;
    /// `[u8; SIZE]`
    type Bytes: AsRef<[u8]>;
    /// Bytes of a value in the payload.
    const SIZE: usize = size_of::<Self::Bytes>();

    /// The bytes in the payload.
    fn encode(value: &Self::Value) -> Self::Bytes;

    /// Many values at once, if they lie in memory as in the payload.
    #[inline(always)]
    fn as_bytes(_: &[Self::Value]) -> Option<&[u8]> {
        None
    }
}

/// A size that no event can have.
pub(super) const REFUSED: usize = usize::MAX;

/// UTF-16LE.
#[inline(always)]
pub(super) fn put_units<'r>(units: &[u16], room: Room<'r>) -> Room<'r> {
    put_plain::<U16>(units, room)
}

#[inline(always)]
pub(super) fn put_plain<'r, P: Plain>(values: &[P::Value], room: Room<'r>) -> Room<'r> {
    match P::as_bytes(values) {
        Some(bytes) => room.put(bytes),
        None => values.iter().fold(room, |room, value| room.put(P::encode(value).as_ref())),
    }
}

macro_rules! numbers {
    ($($name:ident: $ty:ty;)*) => {$(
        /// A number, little-endian.
        #[derive(Debug)]
        pub struct $name;

        impl Plain for $name {
            type Value = $ty;
            type Bytes = [u8; size_of::<$ty>()];

            #[inline(always)]
            fn encode(value: &$ty) -> Self::Bytes {
                value.to_le_bytes()
            }

            #[cfg(target_endian = "little")]
            #[inline(always)]
            fn as_bytes(values: &[$ty]) -> Option<&[u8]> {
                // SAFETY: a number has no padding, and any bytes can be read as `u8`.
                Some(unsafe {
                    std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values))
                })
            }
        }
    )*};
}

numbers! {
    U8: u8;
    U16: u16;
    U32: u32;
    U64: u64;
    Usize: usize;
    I8: i8;
    I16: i16;
    I32: i32;
    I64: i64;
    Isize: isize;
    F32: f32;
    F64: f64;
}

/// `bool8`
#[derive(Debug)]
pub struct Bool8;

impl Plain for Bool8 {
    type Value = bool;
    type Bytes = [u8; 1];

    #[inline(always)]
    fn encode(value: &bool) -> [u8; 1] {
        [u8::from(*value)]
    }
}

/// Four bytes: `bool32` of an integer or a boolean.
#[derive(Debug)]
pub struct Bool32<V>(PhantomData<V>);

/// `i32`, as Microsoft's crate takes it, and `bool`.
pub trait AsBool32 {
    #[doc(hidden)]
    fn as_bool32(&self) -> i32;
}

impl AsBool32 for i32 {
    #[inline(always)]
    fn as_bool32(&self) -> i32 {
        *self
    }
}

impl AsBool32 for bool {
    #[inline(always)]
    fn as_bool32(&self) -> i32 {
        i32::from(*self)
    }
}

impl<V: AsBool32> AsBool32 for &V {
    #[inline(always)]
    fn as_bool32(&self) -> i32 {
        V::as_bool32(self)
    }
}

impl<V: AsBool32> Plain for Bool32<V> {
    type Value = V;
    type Bytes = [u8; 4];

    #[inline(always)]
    fn encode(value: &V) -> [u8; 4] {
        value.as_bool32().to_le_bytes()
    }
}

/// `ipv4` of `[u8; 4]` or `Ipv4Addr`.
#[derive(Debug)]
pub struct Ipv4<V>(PhantomData<V>);

impl<V: Copy + Into<Ipv4Addr>> Plain for Ipv4<V> {
    type Value = V;
    type Bytes = [u8; 4];

    #[inline(always)]
    fn encode(value: &V) -> [u8; 4] {
        (*value).into().octets()
    }
}

/// `ipv6`, which is binary: a count of 16 and the bytes of `[u8; 16]` or `Ipv6Addr`.
#[derive(Debug)]
pub struct Ipv6<V>(PhantomData<V>);

impl<V: Copy + Into<Ipv6Addr>> Plain for Ipv6<V> {
    type Value = V;
    type Bytes = [u8; 18];

    #[inline(always)]
    fn encode(value: &V) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[0] = 16;
        bytes[2..].copy_from_slice(&(*value).into().octets());
        bytes
    }
}

/// `guid`
#[derive(Debug)]
pub struct GuidCodec;

impl Plain for GuidCodec {
    type Value = Guid;
    type Bytes = [u8; 16];

    #[inline(always)]
    fn encode(value: &Guid) -> [u8; 16] {
        value.0
    }
}

/// `win_systemtime`: eight parts, as they are.
#[derive(Debug)]
pub struct Parts;

impl Plain for Parts {
    type Value = [u16; 8];
    type Bytes = [u8; 16];

    #[inline(always)]
    fn encode(value: &[u16; 8]) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (to, part) in bytes.chunks_exact_mut(2).zip(value) {
            to.copy_from_slice(&part.to_le_bytes());
        }
        bytes
    }
}

/// Ticks of 100 ns, in a second.
const TICKS: i64 = 10_000_000;

/// The last FILETIME that `FileTimeToSystemTime` takes as a date: the end of the year 30827.
const LAST: i64 = 9_223_149_887_999_999_999;

/// `systemtime`: a FILETIME, clamped to the years 1601 to 30827.
#[derive(Debug)]
pub struct StdTime;

impl Plain for StdTime {
    type Value = SystemTime;
    type Bytes = [u8; 8];

    #[inline(always)]
    fn encode(value: &SystemTime) -> [u8; 8] {
        std_time(value).to_le_bytes()
    }
}

fn std_time(value: &SystemTime) -> i64 {
    let ticks = |distance: Duration| i64::try_from(distance.as_nanos() / 100).unwrap_or(i64::MAX);
    let time = match value.duration_since(UNIX_EPOCH) {
        Ok(after) => FileTime::UNIX_EPOCH.0.saturating_add(ticks(after)),
        Err(before) => {
            // Rounded down like every other time: a part of a tick before 1970 is the tick before.
            let before = before.duration();
            let part = i64::from(before.subsec_nanos() % 100 != 0);
            FileTime::UNIX_EPOCH.0.saturating_sub(ticks(before).saturating_add(part))
        }
    };
    time.clamp(0, LAST)
}

/// `time32`: seconds since 1970.
#[derive(Debug)]
pub struct Time32;

impl Plain for Time32 {
    type Value = i32;
    type Bytes = [u8; 8];

    #[inline(always)]
    fn encode(value: &i32) -> [u8; 8] {
        (FileTime::UNIX_EPOCH.0 + i64::from(*value) * TICKS).to_le_bytes()
    }
}

/// `time64`: seconds since 1970, clamped to the years 1601 to 30827.
#[derive(Debug)]
pub struct Time64;

impl Plain for Time64 {
    type Value = i64;
    type Bytes = [u8; 8];

    #[inline(always)]
    fn encode(value: &i64) -> [u8; 8] {
        let time = FileTime::UNIX_EPOCH.0.saturating_add(value.saturating_mul(TICKS));
        time.clamp(0, LAST).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_clamped_and_rounded_down() {
        let at = |ticks: i64| std_time(&(UNIX_EPOCH + Duration::from_nanos(ticks as u64 * 100)));
        assert_eq!(at(0), FileTime::UNIX_EPOCH.0);
        assert_eq!(at(15), FileTime::UNIX_EPOCH.0 + 15);
        assert_eq!(std_time(&(UNIX_EPOCH - Duration::from_nanos(100))), FileTime::UNIX_EPOCH.0 - 1);
        // `SystemTime` of Windows has units of 100 ns, and begins in 1601.
        #[cfg(not(windows))]
        {
            let before = |time: Duration| std_time(&(UNIX_EPOCH - time));
            assert_eq!(before(Duration::from_nanos(1)), FileTime::UNIX_EPOCH.0 - 1);
            assert_eq!(before(Duration::from_secs(20_000_000_000)), 0);
            assert_eq!(std_time(&(UNIX_EPOCH + Duration::from_secs(1 << 60))), LAST);
        }
        assert_eq!(i64::from_le_bytes(Time64::encode(&i64::MIN)), 0);
        assert_eq!(i64::from_le_bytes(Time64::encode(&i64::MAX)), LAST);
        assert_eq!(i64::from_le_bytes(Time64::encode(&-11_644_473_600)), 0);
        assert_eq!(i64::from_le_bytes(Time64::encode(&-11_644_473_599)), TICKS);
        assert_eq!(Time32::encode(&i32::MIN), Time64::encode(&i32::MIN.into()));
        assert_eq!(Time32::encode(&i32::MAX), Time64::encode(&i32::MAX.into()));
    }

    #[test]
    fn the_last_time_is_the_end_of_the_year_30827() {
        // Whole days from 1601 to 30828: 400 years have 146097 days, 1601 + 73 × 400 = 30801.
        let leap = |year: i64| year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
        let rest: i64 = (30801..30828).map(|year| if leap(year) { 366 } else { 365 }).sum();
        assert_eq!(LAST, (73 * 146_097 + rest) * 86_400 * TICKS - 1);
    }
}
