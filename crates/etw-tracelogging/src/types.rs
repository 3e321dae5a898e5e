//! Types of fields: one table of in-types, one of out-types, and one of the names that macros give to pairs of them.
//!
//! A row is all that the project knows of a type: how a value is stored and shown, its numbers in TraceLogging and TDH, its
//! name in manifests and in macros. Values and their texts are `etw_decode::Value`.

mod in_type;
mod out_type;
pub mod tdh;
pub mod vocabulary;
mod wire;

pub use in_type::{InType, ValueSize, sid_size};
pub use out_type::{FieldType, OutType, Show, StatusKind, tdh_types};
pub use wire::Wire;

/// Bits of a field's two type bytes that are not the type.
///
/// ```text
/// InType byte    7      chain: the OutType byte follows
///                6..5   count: 00 scalar, 01 fixed array, 10 variable array, 11 custom
///                4..0   InType, or the protocol number where the count is custom
/// OutType byte   7      chain: the bytes of the field's tag follow
///                6..0   OutType, or the number of members where the InType is STRUCT
/// ```
pub mod flags {
    /// Another byte of this chain follows.
    #[doc(alias = "TlgInChain")]
    pub const CHAIN: u8 = 0x80;
    /// The two bits of an InType byte that say how many values there are.
    #[doc(alias = "TlgInCountMask")]
    pub const COUNT_MASK: u8 = 0x60;
    /// An array of as many values as a `u16` in the metadata says.
    #[doc(alias = "TlgInCcount")]
    pub const CCOUNT: u8 = 0x20;
    /// An array of as many values as a `u16` before them in the payload says.
    #[doc(alias = "TlgInVcount")]
    pub const VCOUNT: u8 = 0x40;
    /// Not an array: a custom-serialised field, its protocol in the low five bits.
    #[doc(alias = "TlgInCustom")]
    pub const CUSTOM: u8 = 0x60;
    /// The five bits of an InType byte that hold the type, or the protocol of a custom field.
    #[doc(alias = "TlgInTypeMask")]
    pub const TYPE_MASK: u8 = 0x1f;
    /// The seven bits of an OutType byte that hold the type, or the member count of a struct.
    #[doc(alias = "TlgOutTypeMask")]
    pub const OUT_TYPE_MASK: u8 = 0x7f;
}
