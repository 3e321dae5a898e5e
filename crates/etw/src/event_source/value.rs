//! Types and values of an EventSource's fields.

use etw_types::{FileTime, Guid};

use crate::{EventBuilder, OutType};

macro_rules! numbers {
    ($($variant:ident($ty:ty) $in_type:literal $add:ident $what:literal,)*) => {
        /// The type of a field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum SourceType {
            /// Text; UTF-16 in the event.
            String,
            $(#[doc = $what] $variant,)*
            /// A boolean of 32 bits.
            Boolean,
            /// A GUID.
            Guid,
            /// A time, 100 ns units since 1601.
            FileTime,
            /// Bytes with their count.
            Bytes,
        }

        /// The value of a field.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum SourceValue<'a> {
            /// Text, up to its first NUL.
            String(&'a str),
            $(#[doc = $what] $variant($ty),)*
            /// A boolean.
            Boolean(bool),
            /// A GUID.
            Guid(Guid),
            /// A time.
            FileTime(FileTime),
            /// Bytes.
            Bytes(&'a [u8]),
        }

        impl SourceType {
            /// Whether a map can name its values: an integer of up to 32 bits.
            pub(super) fn can_have_map(self) -> bool {
                matches!(
                    self.in_type(),
                    "win:Int8" | "win:UInt8" | "win:Int16" | "win:UInt16" | "win:Int32" | "win:UInt32"
                )
            }

            /// The type in a manifest.
            pub(super) fn in_type(self) -> &'static str {
                match self {
                    SourceType::String => "win:UnicodeString",
                    $(SourceType::$variant => $in_type,)*
                    SourceType::Boolean => "win:Boolean",
                    SourceType::Guid => "win:GUID",
                    SourceType::FileTime => "win:FILETIME",
                    SourceType::Bytes => "win:Binary",
                }
            }
        }

        impl SourceValue<'_> {
            /// The type of the field that it belongs to.
            pub(super) fn kind(&self) -> SourceType {
                match self {
                    SourceValue::String(_) => SourceType::String,
                    $(SourceValue::$variant(_) => SourceType::$variant,)*
                    SourceValue::Boolean(_) => SourceType::Boolean,
                    SourceValue::Guid(_) => SourceType::Guid,
                    SourceValue::FileTime(_) => SourceType::FileTime,
                    SourceValue::Bytes(_) => SourceType::Bytes,
                }
            }

            /// Adds it to a plain payload.
            pub(super) fn put(&self, payload: &mut Vec<u8>) {
                match self {
                    SourceValue::String(text) => {
                        payload.extend(units(text).chain([0]).flat_map(u16::to_le_bytes));
                    }
                    $(SourceValue::$variant(value) => payload.extend(value.to_le_bytes()),)*
                    SourceValue::Boolean(value) => payload.extend(u32::from(*value).to_le_bytes()),
                    SourceValue::Guid(value) => payload.extend(value.0),
                    SourceValue::FileTime(value) => payload.extend(value.0.to_le_bytes()),
                    SourceValue::Bytes(value) => {
                        // No event holds more; the write is refused.
                        let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
                        payload.extend(size.to_le_bytes());
                        payload.extend(*value);
                    }
                }
            }

            /// Adds it to an event that describes itself.
            pub(super) fn add_to(&self, event: &mut EventBuilder, name: &str) {
                let plain = OutType::NULL;
                match self {
                    SourceValue::String(text) => {
                        event.add_cstr16(name, units(text).collect::<Vec<u16>>(), plain, 0)
                    }
                    $(SourceValue::$variant(value) => event.$add(name, *value, plain, 0),)*
                    SourceValue::Boolean(value) => {
                        event.add_bool32(name, i32::from(*value), plain, 0)
                    }
                    SourceValue::Guid(value) => event.add_guid(name, value, plain, 0),
                    SourceValue::FileTime(value) => event.add_filetime(name, *value, plain, 0),
                    SourceValue::Bytes(value) => event.add_binary(name, value, plain, 0),
                };
            }
        }

        $(impl From<$ty> for SourceValue<'_> {
            fn from(value: $ty) -> Self {
                SourceValue::$variant(value)
            }
        })*
    };
}

numbers! {
    Int8(i8) "win:Int8" add_i8 "`i8`",
    UInt8(u8) "win:UInt8" add_u8 "`u8`",
    Int16(i16) "win:Int16" add_i16 "`i16`",
    UInt16(u16) "win:UInt16" add_u16 "`u16`",
    Int32(i32) "win:Int32" add_i32 "`i32`",
    UInt32(u32) "win:UInt32" add_u32 "`u32`",
    Int64(i64) "win:Int64" add_i64 "`i64`",
    UInt64(u64) "win:UInt64" add_u64 "`u64`",
    IntPtr(isize) "win:Pointer" add_isize "The size of a pointer, as .NET's `IntPtr`",
    Float(f32) "win:Float" add_f32 "`f32`",
    Double(f64) "win:Double" add_f64 "`f64`",
}

/// A text's units up to its first NUL, behind which readers would look for the next field.
fn units(text: &str) -> impl Iterator<Item = u16> {
    text.encode_utf16().take_while(|unit| *unit != 0)
}

impl<'a> From<&'a str> for SourceValue<'a> {
    fn from(value: &'a str) -> Self {
        SourceValue::String(value)
    }
}

impl<'a> From<&'a [u8]> for SourceValue<'a> {
    fn from(value: &'a [u8]) -> Self {
        SourceValue::Bytes(value)
    }
}

impl From<bool> for SourceValue<'_> {
    fn from(value: bool) -> Self {
        SourceValue::Boolean(value)
    }
}

impl From<Guid> for SourceValue<'_> {
    fn from(value: Guid) -> Self {
        SourceValue::Guid(value)
    }
}

impl From<FileTime> for SourceValue<'_> {
    fn from(value: FileTime) -> Self {
        SourceValue::FileTime(value)
    }
}
