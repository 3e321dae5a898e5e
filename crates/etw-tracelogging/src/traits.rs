//! [`ProviderTraits`]: a provider's name and group, read in place.

use std::fmt;
use std::iter::FusedIterator;

use etw_types::Guid;

use crate::cursor::Cursor;
use crate::error::{MetadataError, MetadataErrorKind};

/// A provider's traits: its name and, if it has one, its group.
///
/// Registered with `EventSetInformation(EventProviderSetTraits)`; it comes with an event as extended data of type 12
/// (`EVENT_HEADER_EXT_TYPE_PROV_TRAITS`):
///
/// ```text
/// u16   size of the blob, these two bytes included
/// u8…   the provider's name, UTF-8, NUL
/// …     traits up to the end, unaligned:
///         u16   size of the trait, its three bytes of head included
///         u8    type
///         u8…   data
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProviderTraits<'a> {
    bytes: &'a [u8],
    name: &'a [u8],
    traits_offset: usize,
}

impl<'a> ProviderTraits<'a> {
    /// Reads the head of a blob; bytes behind the end its size gives it are ignored.
    ///
    /// # Errors
    ///
    /// The size is below 3 (too small for a NUL) or above `blob.len()`; the name does not end.
    pub fn parse(blob: &'a [u8]) -> Result<ProviderTraits<'a>, MetadataError> {
        let mut cursor = Cursor::open(blob, 3)?;
        let name = cursor.name()?;
        Ok(ProviderTraits { bytes: cursor.bytes, name, traits_offset: cursor.offset })
    }

    /// The provider's name without its NUL: UTF-8 if the writer kept to the rules.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// The blob from its size to its last trait.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The traits in the order written: type and data.
    ///
    /// Ends after the first error: the start of the next trait is not known.
    pub fn traits(&self) -> Traits<'a> {
        Traits { cursor: Cursor { bytes: self.bytes, offset: self.traits_offset } }
    }

    /// The provider group, from the first well-formed trait of type 1.
    pub fn group(&self) -> Option<Guid> {
        self.guid(TraitType::GROUP)
    }

    /// The GUID by which to decode the provider's events where it is not the one they carry (a guess from its name), from
    /// the first well-formed trait of type 2.
    pub fn decode_guid(&self) -> Option<Guid> {
        self.guid(TraitType::DECODE_GUID)
    }

    fn guid(&self, wanted: TraitType) -> Option<Guid> {
        let mut traits = self.traits().flatten();
        traits.find_map(|(kind, data)| match data.try_into() {
            Ok(guid) if kind == wanted => Some(Guid(guid)),
            _ => None,
        })
    }
}

/// The type of a trait: 1–127 are Microsoft's, 128–255 are free for others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[doc(alias = "ETW_PROVIDER_TRAIT_TYPE")]
pub struct TraitType(pub u8);

impl TraitType {
    /// 1: the sixteen bytes of the provider group's GUID.
    #[doc(alias = "EtwProviderTraitTypeGroup")]
    pub const GROUP: TraitType = TraitType(1);
    /// 2: the sixteen bytes of the GUID to decode by.
    #[doc(alias = "EtwProviderTraitDecodeGuid")]
    pub const DECODE_GUID: TraitType = TraitType(2);
}

impl fmt::Debug for TraitType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TraitType::GROUP => f.write_str("GROUP"),
            TraitType::DECODE_GUID => f.write_str("DECODE_GUID"),
            TraitType(other) => write!(f, "TraitType({other})"),
        }
    }
}

/// The traits of a provider, from [`ProviderTraits::traits`].
#[derive(Clone, Debug)]
pub struct Traits<'a> {
    cursor: Cursor<'a>,
}

/// The bytes a trait's size and type take.
const TRAIT_HEAD_SIZE: usize = 3;

impl<'a> Traits<'a> {
    fn read(&mut self) -> Result<(TraitType, &'a [u8]), MetadataError> {
        let start = self.cursor.offset;
        let size = self.cursor.u16()?;
        let room = self.cursor.bytes.len() - start;
        let bad = MetadataErrorKind::BadTraitSize { size, room }.at(start);
        let data_size = usize::from(size).checked_sub(TRAIT_HEAD_SIZE).ok_or(bad)?;
        let body = self.cursor.take(1 + data_size).map_err(|_| bad)?;
        Ok((TraitType(body[0]), &body[1..]))
    }
}

impl<'a> Iterator for Traits<'a> {
    type Item = Result<(TraitType, &'a [u8]), MetadataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_at_end() {
            return None;
        }
        let found = self.read();
        if found.is_err() {
            self.cursor.offset = self.cursor.bytes.len();
        }
        Some(found)
    }
}

impl FusedIterator for Traits<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(traits: &[u8]) -> Vec<u8> {
        let size = 4 + traits.len() as u16;
        [&size.to_le_bytes(), &b"P\0"[..], traits, &[0xee]].concat()
    }

    #[test]
    fn head_is_checked() {
        use MetadataErrorKind::*;
        let parse = |blob: &'static [u8]| ProviderTraits::parse(blob).err();
        assert_eq!(parse(&[3]), Some(Truncated { needed: 2, room: 1 }.at(0)));
        assert_eq!(parse(&[2, 0, 0]), Some(BadSize { size: 2, room: 3 }.at(0)));
        assert_eq!(parse(&[4, 0, 0]), Some(BadSize { size: 4, room: 3 }.at(0)));
        assert_eq!(parse(&[4, 0, b'P', b'Q', 0]), Some(UnterminatedName.at(2)));
        assert_eq!(parse(&[3, 0, 0]), None);
    }

    #[test]
    fn malicious_traits_end_the_iteration() {
        use MetadataErrorKind::*;
        for (traits, error) in [
            (&[5][..], Truncated { needed: 2, room: 1 }.at(4)),
            (&[0, 0, 1, 2], BadTraitSize { size: 0, room: 4 }.at(4)),
            (&[2, 0, 1], BadTraitSize { size: 2, room: 3 }.at(4)),
            (&[3, 0], BadTraitSize { size: 3, room: 2 }.at(4)),
            (&[5, 0, 1, 9], BadTraitSize { size: 5, room: 4 }.at(4)),
        ] {
            let blob = blob(traits);
            let found: Vec<_> = ProviderTraits::parse(&blob).unwrap().traits().collect();
            assert_eq!(found, [Err(error)]);
        }
    }

    #[test]
    fn guids_are_found_among_others() {
        let group = [&[19, 0, 1][..], &[7; 16]].concat();
        let decode = [&[19, 0, 2][..], &[8; 16]].concat();
        let short_group = [4, 0, 1, 9];
        let user = [5, 0, 200, 1, 2];
        let damage = [0, 0];
        let blob = blob(&[&user, &short_group[..], &group, &decode, &damage].concat());
        let traits = ProviderTraits::parse(&blob).unwrap();
        assert_eq!(traits.name(), b"P");
        assert_eq!(traits.group(), Some(Guid([7; 16])));
        assert_eq!(traits.decode_guid(), Some(Guid([8; 16])));
        assert_eq!(traits.traits().next(), Some(Ok((TraitType(200), &[1, 2][..]))));
        assert_eq!(traits.traits().count(), 5);
        assert!(traits.traits().last().unwrap().is_err());
    }
}
