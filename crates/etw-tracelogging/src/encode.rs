//! Metadata blobs, written.

use std::error::Error;
use std::fmt;

use etw_types::Guid;

use crate::meta::Count;
use crate::traits::TraitType;
use crate::types::{InType, OutType, ValueSize, flags};

/// Largest blob and largest counted value: their sizes are `u16`.
pub(crate) const MAX_SIZE: usize = u16::MAX as usize;

/// Largest tag: 28 bits.
const MAX_TAG: u32 = 0x0fff_ffff;

/// Most members of a struct: seven bits of its OutType byte.
const MAX_STRUCT_FIELD_COUNT: u8 = flags::OUT_TYPE_MASK;

/// Microsoft's crate `tracelogging_dynamic` asserts that provider names are shorter than 32 KiB.
const MAX_PROVIDER_NAME_SIZE: usize = 32_767;

/// Writes the metadata of an event; for its layout see [`EventMetadata`](crate::EventMetadata) and
/// [`Field`](crate::Field).
///
/// The encoding is the shortest: a tag takes one to four bytes, as .NET's EventSource writes it, and a field has no OutType
/// byte if that would be zero. (Other writers pad some tags: `tracelogging_dynamic` writes an event's tag in one, two or
/// four bytes, and a field's always in four. Readers see no difference.)
///
/// Names are UTF-8 by convention; their bytes are not checked. If a part cannot be written,
/// [`finish`](MetadataBuilder::finish) fails with the first error. Windows decodes at most 128 fields of an event; that is not checked.
///
/// The default is an event whose name is empty.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct MetadataBuilder {
    /// The size is filled in at the end. Empty: nothing was written yet.
    blob: Vec<u8>,
    /// How many of the fields to come belong to structs already written.
    missing_members: usize,
    error: Option<EncodeError>,
}

impl MetadataBuilder {
    /// An event's name and tag; 0 is no tag.
    pub fn new(name: impl AsRef<[u8]>, tag: u32) -> MetadataBuilder {
        MetadataBuilder::default().restart(name, tag)
    }

    /// Does what [`new`](MetadataBuilder::new) does, in the memory of a builder that was used before.
    pub fn restart(mut self, name: impl AsRef<[u8]>, tag: u32) -> MetadataBuilder {
        self.blob.clear();
        self.blob.extend([0, 0]);
        self.missing_members = 0;
        self.error = None;
        self.attempt(|builder| {
            builder.push_tag(tag)?;
            builder.push_name(name.as_ref())
        })
    }

    /// A field that is not a struct and not custom.
    ///
    /// Types that no decoder knows ([`InType::POINTER`], 26 and up) are refused; so is [`InType::STRUCT`], which
    /// [`structure`](MetadataBuilder::structure) writes; and so are arrays of [`InType::NULL`] or [`InType::BINARY`], which
    /// decoders misread or reject.
    pub fn field(
        self,
        name: impl AsRef<[u8]>,
        in_type: InType,
        out_type: OutType,
        count: Count,
        tag: u32,
    ) -> MetadataBuilder {
        self.attempt(|builder| {
            check_in_type(in_type, count)?;
            if out_type.0 > flags::OUT_TYPE_MASK {
                return Err(EncodeError::BadOutType { out_type });
            }
            builder.start_field(name.as_ref())?;
            builder.push_types(in_type.0 | count_flags(count), out_type.0, tag)?;
            builder.push_count(count);
            Ok(())
        })
    }

    /// A struct: the next `field_count` fields (1–127) are its members. A struct among them counts as one, together with
    /// its members. [`finish`](MetadataBuilder::finish) refuses an event that ends before them.
    pub fn structure(
        self,
        name: impl AsRef<[u8]>,
        field_count: u8,
        count: Count,
        tag: u32,
    ) -> MetadataBuilder {
        self.attempt(|builder| {
            if !(1..=MAX_STRUCT_FIELD_COUNT).contains(&field_count) {
                return Err(EncodeError::BadStructFieldCount { field_count });
            }
            builder.start_field(name.as_ref())?;
            builder.missing_members += usize::from(field_count);
            builder.push_types(InType::STRUCT.0 | count_flags(count), field_count, tag)?;
            builder.push_count(count);
            Ok(())
        })
    }

    /// A custom-serialised field (`TraceLoggingCustom`): a protocol (0–31, of which 0–4 are Microsoft's) and the schema
    /// that its decoders need. The payload is pushed as [`PayloadBuilder::binary`](crate::PayloadBuilder::binary).
    pub fn custom(
        self,
        name: impl AsRef<[u8]>,
        protocol: u8,
        schema: &[u8],
        tag: u32,
    ) -> MetadataBuilder {
        self.attempt(|builder| {
            if protocol > flags::TYPE_MASK {
                return Err(EncodeError::BadProtocol { protocol });
            }
            let schema_size = u16::try_from(schema.len())
                .map_err(|_| EncodeError::MetadataTooLong { size: schema.len() })?;
            builder.start_field(name.as_ref())?;
            builder.push_types(protocol | flags::CUSTOM, 0, tag)?;
            builder.blob.extend(schema_size.to_le_bytes());
            builder.blob.extend(schema);
            Ok(())
        })
    }

    /// The blob.
    ///
    /// # Errors
    ///
    /// The first part that could not be written, or a struct whose members are missing.
    pub fn finish(mut self) -> Result<Vec<u8>, EncodeError> {
        self.as_bytes()?;
        Ok(self.blob)
    }

    /// The blob as it is so far.
    ///
    /// # Errors
    ///
    /// Those of [`finish`](MetadataBuilder::finish).
    pub fn as_bytes(&mut self) -> Result<&[u8], EncodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.missing_members != 0 {
            return Err(EncodeError::MissingStructMembers { missing: self.missing_members });
        }
        if self.blob.is_empty() {
            // The smallest: size, tag, name.
            self.blob.extend([0; 4]);
        }
        let size = blob_size(self.blob.len())?.to_le_bytes();
        self.blob[..2].copy_from_slice(&size);
        Ok(&self.blob)
    }

    /// Runs a step, unless an earlier one failed. Each step checks the size, so that a refused blob stops growing.
    fn attempt(
        mut self,
        step: impl FnOnce(&mut MetadataBuilder) -> Result<(), EncodeError>,
    ) -> MetadataBuilder {
        if self.error.is_none() {
            if self.blob.is_empty() {
                self = self.restart("", 0);
            }
            let done = step(&mut self).and_then(|()| blob_size(self.blob.len()));
            self.error = done.err();
        }
        self
    }

    fn start_field(&mut self, name: &[u8]) -> Result<(), EncodeError> {
        self.missing_members = self.missing_members.saturating_sub(1);
        self.push_name(name)
    }

    fn push_name(&mut self, name: &[u8]) -> Result<(), EncodeError> {
        check_name(name)?;
        self.blob.extend(name);
        self.blob.push(0);
        Ok(())
    }

    fn push_types(&mut self, in_byte: u8, out_type: u8, tag: u32) -> Result<(), EncodeError> {
        match (out_type, tag) {
            (0, 0) => self.blob.push(in_byte),
            (_, 0) => self.blob.extend([in_byte | flags::CHAIN, out_type]),
            _ => {
                self.blob.extend([in_byte | flags::CHAIN, out_type | flags::CHAIN]);
                self.push_tag(tag)?;
            }
        }
        Ok(())
    }

    /// Seven bits a byte, the most significant first, until the rest is zeros.
    fn push_tag(&mut self, tag: u32) -> Result<(), EncodeError> {
        if tag > MAX_TAG {
            return Err(EncodeError::BadTag { tag });
        }
        for shift in [21, 14, 7, 0] {
            let bits = (tag >> shift) as u8 & !flags::CHAIN;
            if tag & ((1 << shift) - 1) == 0 {
                self.blob.push(bits);
                break;
            }
            self.blob.push(bits | flags::CHAIN);
        }
        Ok(())
    }

    fn push_count(&mut self, count: Count) {
        if let Count::Fixed(value_count) = count {
            self.blob.extend(value_count.to_le_bytes());
        }
    }
}

fn count_flags(count: Count) -> u8 {
    match count {
        Count::Scalar => 0,
        Count::Fixed(_) => flags::CCOUNT,
        Count::Variable => flags::VCOUNT,
    }
}

fn check_in_type(in_type: InType, count: Count) -> Result<(), EncodeError> {
    if matches!(in_type.value_size(), ValueSize::Undecodable | ValueSize::Struct) {
        return Err(EncodeError::BadInType { in_type });
    }
    if count != Count::Scalar && matches!(in_type, InType::NULL | InType::BINARY) {
        return Err(EncodeError::NoArrayOf { in_type });
    }
    Ok(())
}

fn check_name(name: &[u8]) -> Result<(), EncodeError> {
    blob_size(name.len())?;
    match name.iter().position(|&byte| byte == 0) {
        Some(offset) => Err(EncodeError::NulInName { offset }),
        None => Ok(()),
    }
}

fn blob_size(size: usize) -> Result<u16, EncodeError> {
    u16::try_from(size).map_err(|_| EncodeError::MetadataTooLong { size })
}

/// Writes the traits of a provider, for `EventSetInformation(EventProviderSetTraits)` and for each event. For the
/// layout see [`ProviderTraits`](crate::ProviderTraits).
///
/// # Errors
///
/// The name has a NUL or more than 32767 bytes. (All traits together should have fewer than 256 bytes; that is
/// not checked.)
pub fn provider_traits(
    name: impl AsRef<[u8]>,
    group: Option<Guid>,
) -> Result<Vec<u8>, EncodeError> {
    let name = name.as_ref();
    if name.len() > MAX_PROVIDER_NAME_SIZE {
        return Err(EncodeError::MetadataTooLong { size: name.len() });
    }
    check_name(name)?;
    let mut blob = vec![0, 0];
    blob.extend(name);
    blob.push(0);
    if let Some(group) = group {
        let trait_size = 3 + group.0.len() as u16;
        blob.extend(trait_size.to_le_bytes());
        blob.push(TraitType::GROUP.0);
        blob.extend(group.0);
    }
    let size = blob_size(blob.len())?;
    blob[..2].copy_from_slice(&size.to_le_bytes());
    Ok(blob)
}

/// A part that TraceLogging cannot express, or that no decoder accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncodeError {
    /// A name ends at its first NUL.
    NulInName {
        /// The offset in the name.
        offset: usize,
    },
    /// A tag has 28 bits.
    BadTag {
        /// As given.
        tag: u32,
    },
    /// The in-type is reserved, unknown, or that of a struct, and the field is a plain one.
    BadInType {
        /// As given.
        in_type: InType,
    },
    /// An out type has seven bits.
    BadOutType {
        /// As given.
        out_type: OutType,
    },
    /// Decoders reject arrays of this type.
    NoArrayOf {
        /// As given.
        in_type: InType,
    },
    /// A struct has 1–127 members.
    BadStructFieldCount {
        /// As given.
        field_count: u8,
    },
    /// The event ended before all members of its structs.
    MissingStructMembers {
        /// The number of missing fields.
        missing: usize,
    },
    /// A protocol is 0–31.
    BadProtocol {
        /// As given.
        protocol: u8,
    },
    /// A blob has 65535 bytes at most, a provider's name 32767.
    MetadataTooLong {
        /// The size in bytes: of the whole, or of the part that is too long by itself.
        size: usize,
    },
    /// A string or binary value has 65535 bytes at most, an array 65535 values.
    ValueTooLong {
        /// As given.
        size: usize,
    },
    /// A NUL-terminated string ends at its first NUL.
    NulInString {
        /// The offset in the string, in bytes.
        offset: usize,
    },
    /// The bytes are not one value of the type: their number is not the type's, or a SID's size does not match its
    /// second byte.
    BadValueSize {
        /// The value's type.
        in_type: InType,
        /// As given.
        size: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EncodeError::*;
        match self {
            NulInName { offset } => write!(f, "name with NUL at {offset}"),
            BadTag { tag } => write!(f, "tag {tag:#x} has more than 28 bits"),
            BadInType { in_type } => write!(f, "no plain field can be of type {in_type}"),
            BadOutType { out_type } => write!(f, "{out_type} has more than 7 bits"),
            NoArrayOf { in_type } => write!(f, "no array can be of type {in_type}"),
            BadStructFieldCount { field_count } => {
                write!(f, "struct with {field_count} members; it has 1 to 127")
            }
            MissingStructMembers { missing } => {
                write!(f, "structs count {missing} more fields than follow them")
            }
            BadProtocol { protocol } => write!(f, "protocol {protocol}; it is 0 to 31"),
            MetadataTooLong { size } => write!(f, "metadata too long: {size}"),
            ValueTooLong { size } => write!(f, "{size} is more than the 65535 of a value"),
            NulInString { offset } => write!(f, "NUL-terminated string with NUL at {offset}"),
            BadValueSize { in_type, size } => write!(f, "{size} bytes are not one {in_type}"),
        }
    }
}

impl Error for EncodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(MetadataBuilder) -> MetadataBuilder) -> Option<EncodeError> {
        change(MetadataBuilder::new("E", 0)).finish().err()
    }

    fn plain(in_type: InType, count: Count) -> Option<EncodeError> {
        refusal(|builder| builder.field("f", in_type, OutType::NULL, count, 0))
    }

    #[test]
    fn metadata_that_has_no_encoding_is_rejected() {
        use EncodeError::*;
        assert_eq!(MetadataBuilder::new("a\0", 0).finish(), Err(NulInName { offset: 1 }));
        assert_eq!(MetadataBuilder::new("a", 1 << 28).finish(), Err(BadTag { tag: 1 << 28 }));
        let out_type = OutType(128);
        let bad_out =
            |builder: MetadataBuilder| builder.field("f", InType::INT8, out_type, Count::Scalar, 0);
        assert_eq!(refusal(bad_out), Some(BadOutType { out_type }));
        let bad_tag = |builder: MetadataBuilder| builder.custom("f", 0, &[], u32::MAX);
        assert_eq!(refusal(bad_tag), Some(BadTag { tag: u32::MAX }));
        let bad_protocol = |builder: MetadataBuilder| builder.custom("f", 32, &[], 0);
        assert_eq!(refusal(bad_protocol), Some(BadProtocol { protocol: 32 }));
    }

    #[test]
    fn types_without_a_decoder_are_rejected() {
        use EncodeError::*;
        for number in 0..=255 {
            let in_type = InType(number);
            let good = number <= 23 && number != 16 || number == 25;
            let expected = (!good).then_some(BadInType { in_type });
            assert_eq!(plain(in_type, Count::Scalar), expected);
        }
        for in_type in [InType::NULL, InType::BINARY] {
            assert_eq!(plain(in_type, Count::Variable), Some(NoArrayOf { in_type }));
            assert_eq!(plain(in_type, Count::Fixed(2)), Some(NoArrayOf { in_type }));
        }
        assert_eq!(plain(InType::COUNTEDBINARY, Count::Variable), None);
    }

    #[test]
    fn structs_have_their_members() {
        use EncodeError::*;
        for field_count in [0, 128, 255] {
            let error = refusal(|builder| builder.structure("s", field_count, Count::Scalar, 0));
            assert_eq!(error, Some(BadStructFieldCount { field_count }));
        }
        let nested = |builder: MetadataBuilder| {
            let builder = builder.structure("s", 2, Count::Scalar, 0);
            builder.structure("t", 1, Count::Variable, 0).custom("c", 5, &[], 0)
        };
        assert_eq!(refusal(nested), Some(MissingStructMembers { missing: 1 }));
        assert_eq!(refusal(|builder| nested(builder).custom("d", 5, &[], 0)), None);
    }

    #[test]
    fn a_blob_of_the_largest_size_is_accepted() {
        let name = vec![b'x'; MAX_SIZE - 4];
        let blob = MetadataBuilder::new(&name, 0).finish().unwrap();
        assert_eq!((blob.len(), &blob[..2]), (65535, &[0xff, 0xff][..]));
        let longer = vec![b'x'; MAX_SIZE - 3];
        let error = EncodeError::MetadataTooLong { size: 65536 };
        assert_eq!(MetadataBuilder::new(&longer, 0).finish(), Err(error));
        let schema = vec![0; 65536];
        assert_eq!(refusal(|builder| builder.custom("c", 5, &schema, 0)), Some(error));
    }

    #[test]
    fn builders_are_used_again() {
        let first = MetadataBuilder::new("E", 7).structure("s", 1, Count::Scalar, 0);
        let again = first.restart("F", 0).custom("c", 5, &[], 0).finish();
        assert_eq!(again, MetadataBuilder::new("F", 0).custom("c", 5, &[], 0).finish());
        let unnamed = MetadataBuilder::new("", 0).custom("c", 5, &[], 0).finish();
        assert_eq!(MetadataBuilder::default().custom("c", 5, &[], 0).finish(), unnamed);
        assert_eq!(MetadataBuilder::default().finish(), Ok(vec![4, 0, 0, 0]));
        let refused = MetadataBuilder::new("a\0", 0).restart("a", 0).finish();
        assert_eq!(refused, MetadataBuilder::new("a", 0).finish());
    }

    #[test]
    fn a_builder_reports_its_first_error() {
        let builder = MetadataBuilder::new("E", 0).custom("c", 32, &[], 0).custom("\0", 5, &[], 0);
        assert_eq!(builder.finish(), Err(EncodeError::BadProtocol { protocol: 32 }));
    }

    #[test]
    fn provider_names_are_checked() {
        assert_eq!(provider_traits("a\0b", None), Err(EncodeError::NulInName { offset: 1 }));
        assert!(provider_traits("x".repeat(32767), Some(Guid::ZERO)).is_ok());
        let error = EncodeError::MetadataTooLong { size: 32768 };
        assert_eq!(provider_traits("x".repeat(32768), None), Err(error));
    }
}
