//! [`FromField`]: the types as which a field can be read.

use crate::fields::FieldValue;
use etw_types::{FileTime, Guid};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

mod sealed {
    pub trait Sealed {}
}

/// A type as which a field can be read.
///
/// Integers of every size, `bool`, `f32`, `f64`, `String`, [`Guid`], [`FileTime`], IP and socket addresses, `Vec<u8>` for
/// bytes, `Vec<T>` for arrays, and [`FieldValue`] for anything. This trait is sealed.
pub trait FromField: sealed::Sealed + Sized {
    /// The type's name in errors.
    #[doc(hidden)]
    const EXPECTED: &'static str;

    /// Converts a value, or gives it back.
    #[doc(hidden)]
    fn from_field(value: FieldValue) -> Result<Self, FieldValue>;
}

macro_rules! from_field {
    ($($ty:ty, $name:literal: |$value:ident| $convert:expr;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl FromField for $ty {
            const EXPECTED: &'static str = $name;

            fn from_field($value: FieldValue) -> Result<$ty, FieldValue> {
                let converted: Option<$ty> = $convert;
                converted.ok_or($value)
            }
        }
    )*};
}

/// An integer that fits the type; a truth value is not one.
fn integer<T: TryFrom<u64> + TryFrom<i64>>(value: &FieldValue) -> Option<T> {
    match value {
        FieldValue::Int(value) => T::try_from(*value).ok(),
        FieldValue::UInt(value) | FieldValue::Named(value, _) => T::try_from(*value).ok(),
        _ => None,
    }
}

fn parsed<T: std::str::FromStr>(value: &FieldValue) -> Option<T> {
    value.as_str()?.parse().ok()
}

from_field! {
    u8, "u8": |value| integer(&value);
    u16, "u16": |value| integer(&value);
    u32, "u32": |value| integer(&value);
    u64, "u64": |value| integer(&value);
    usize, "usize": |value| integer(&value);
    i8, "i8": |value| integer(&value);
    i16, "i16": |value| integer(&value);
    i32, "i32": |value| integer(&value);
    i64, "i64": |value| integer(&value);
    bool, "bool": |value| match value {
        FieldValue::Bool(value) => Some(value),
        _ => None,
    };
    f64, "f64": |value| match value {
        FieldValue::Float(value) => Some(value),
        FieldValue::Bool(_) => None,
        _ => value.as_f64(),
    };
    f32, "f32": |value| match value { FieldValue::Float(value) => Some(value as f32), _ => None };
    String, "String": |value| value.as_str().map(str::to_owned);
    Guid, "Guid": |value| value.as_guid();
    FileTime, "FileTime": |value| value.as_time();
    Ipv4Addr, "Ipv4Addr": |value| parsed(&value);
    Ipv6Addr, "Ipv6Addr": |value| parsed(&value);
    IpAddr, "IpAddr": |value| parsed(&value);
    SocketAddr, "SocketAddr": |value| parsed(&value);
}

impl sealed::Sealed for FieldValue {}

impl FromField for FieldValue {
    const EXPECTED: &'static str = "FieldValue";

    fn from_field(value: FieldValue) -> Result<FieldValue, FieldValue> {
        Ok(value)
    }
}

impl<T: FromField> sealed::Sealed for Vec<T> {}

impl<T: FromField> FromField for Vec<T> {
    const EXPECTED: &'static str = "an array";

    fn from_field(value: FieldValue) -> Result<Vec<T>, FieldValue> {
        let elements = match &value {
            FieldValue::List(list) => list.iter().cloned().map(T::from_field).collect(),
            FieldValue::Bytes(bytes) => {
                bytes.iter().map(|byte| T::from_field(FieldValue::UInt((*byte).into()))).collect()
            }
            _ => return Err(value),
        };
        let elements: Result<Vec<T>, FieldValue> = elements;
        elements.map_err(|_| value)
    }
}
