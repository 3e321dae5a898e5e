//! Extended data items: optional data behind an event's header.

use std::fmt;

use crate::Field;

/// The type of an extended data item.
#[doc(alias = "EVENT_HEADER_EXT_TYPE")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtType(pub u16);

macro_rules! ext_types {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl ExtType {
            $($(#[$doc])* pub const $name: ExtType = ExtType($value);)*

            /// The name without Microsoft's `EVENT_HEADER_EXT_TYPE_`.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

ext_types! {
    /// GUID
    RELATED_ACTIVITYID = 1;
    /// SID bytes
    SID = 2;
    /// `u32` terminal session id
    TS_ID = 3;
    /// `u32` instance id, `u32` parent instance id, GUID of the parent's class
    INSTANCE_INFO = 4;
    /// `u64` match id, `u32` frames
    STACK_TRACE32 = 5;
    /// `u64` match id, `u64` frames
    STACK_TRACE64 = 6;
    /// `u64`
    PEBS_INDEX = 7;
    /// `u64` counters
    PMC_COUNTERS = 8;
    /// `u64`
    PSM_KEY = 9;
    /// `u64` unique event key
    EVENT_KEY = 10;
    /// TraceLogging event metadata
    EVENT_SCHEMA_TL = 11;
    /// provider traits: name and group
    PROV_TRAITS = 12;
    /// `u64`
    PROCESS_START_KEY = 13;
    /// GUID
    CONTROL_GUID = 14;
    /// `i64`
    QPC_DELTA = 15;
    /// container id
    CONTAINER_ID = 16;
    /// `u64` match id, `u32` stack key, padding
    STACK_KEY32 = 17;
    /// `u64` match id, `u64` stack key
    STACK_KEY64 = 18;
    /// [`LogItem`](crate::LogItem): facts of an event log's record. Not a type of Windows; high, so that none of its
    /// future types is the same
    EVENT_LOG = 0x4f45;
}

impl fmt::Debug for ExtType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "ExtType({})", self.0),
        }
    }
}

/// One extended data item.
#[doc(alias = "EVENT_HEADER_EXTENDED_DATA_ITEM")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedItem<'a> {
    /// The type of the data.
    pub ext_type: ExtType,
    /// The bytes behind the item's header.
    pub data: &'a [u8],
}

impl ExtendedItem<'_> {
    /// Bytes of an item's header.
    pub const HEADER_SIZE: usize = 8;

    /// Bytes that an item with this much data takes in a record: header, data and padding to eight.
    #[inline]
    pub const fn stored_size(data_size: usize) -> usize {
        (ExtendedItem::HEADER_SIZE + data_size).next_multiple_of(8)
    }
}

/// Size of the item, padding included.
const STORED_SIZE: Field<u16> = Field::at(0);
const EXT_TYPE: Field<u16> = Field::at(2);
/// Bit 0: another item follows.
const LINKAGE: Field<u16> = Field::at(4);
const LINKED: u16 = 1;
const DATA_SIZE: Field<u16> = Field::at(6);

/// An item whose data does not fit the sixteen bits of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ItemTooLarge {
    /// Type of the item.
    pub ext_type: ExtType,
    /// Bytes of its data.
    pub data_size: usize,
}

impl fmt::Display for ItemTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "extended item {:?} has {} bytes of data; at most {} fit",
            self.ext_type,
            self.data_size,
            0xfff8 - ExtendedItem::HEADER_SIZE
        )
    }
}

impl std::error::Error for ItemTooLarge {}

/// Extended items in their stored form, for writers.
///
/// Each item starts at a multiple of eight:
///
/// ```text
/// 0  u16 size = align8(8 + data size)   2  u16 type   4  u16 linkage, bit 0: another item follows   6  u16 data size
/// 8  data, zeros up to a multiple of eight
/// ```
///
/// ```
/// use etw_types::{ExtType, ExtendedItemsBuf};
///
/// let mut items = ExtendedItemsBuf::new();
/// items.push(ExtType::TS_ID, &1u32.to_le_bytes())?;
/// items.push(ExtType::EVENT_KEY, &2u64.to_le_bytes())?;
/// assert_eq!(items.as_items().find(ExtType::TS_ID), Some(&[1, 0, 0, 0][..]));
/// assert_eq!(items.as_bytes()[4], 1, "another item follows the first");
/// # Ok::<(), etw_types::ItemTooLarge>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtendedItemsBuf {
    bytes: Vec<u8>,
    /// Offset of the last item.
    last: usize,
}

impl ExtendedItemsBuf {
    /// No items.
    pub const fn new() -> ExtendedItemsBuf {
        ExtendedItemsBuf { bytes: Vec::new(), last: 0 }
    }

    /// These items, in this order.
    ///
    /// # Errors
    /// [`ItemTooLarge`]
    pub fn from_items(items: &[(ExtType, &[u8])]) -> Result<ExtendedItemsBuf, ItemTooLarge> {
        let mut all = ExtendedItemsBuf::new();
        for (ext_type, data) in items {
            all.push(*ext_type, data)?;
        }
        Ok(all)
    }

    /// The stored form.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Removes all items and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.last = 0;
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends an item.
    ///
    /// # Errors
    /// [`ItemTooLarge`]; the items are unchanged.
    pub fn push(&mut self, ext_type: ExtType, data: &[u8]) -> Result<(), ItemTooLarge> {
        self.push_parts(ext_type, &[data])
    }

    /// Appends an item whose data is the concatenation of `parts`.
    ///
    /// # Errors
    /// [`ItemTooLarge`]; the items are unchanged.
    pub fn push_parts(&mut self, ext_type: ExtType, parts: &[&[u8]]) -> Result<(), ItemTooLarge> {
        let data_size = parts.iter().map(|part| part.len()).sum();
        let stored_size = ExtendedItem::stored_size(data_size);
        let Ok(stored_size_field) = u16::try_from(stored_size) else {
            return Err(ItemTooLarge { ext_type, data_size });
        };
        self.link_last();
        self.last = self.bytes.len();
        let mut header = [0; ExtendedItem::HEADER_SIZE];
        STORED_SIZE.put(&mut header, stored_size_field);
        EXT_TYPE.put(&mut header, ext_type.0);
        DATA_SIZE.put(&mut header, data_size as u16);
        self.bytes.extend(header);
        for part in parts {
            self.bytes.extend(*part);
        }
        self.bytes.resize(self.last + stored_size, 0);
        Ok(())
    }

    /// Appends all items of `more`.
    pub fn append(&mut self, more: &ExtendedItemsBuf) {
        if more.is_empty() {
            return;
        }
        self.link_last();
        self.last = self.bytes.len() + more.last;
        self.bytes.extend(&more.bytes);
    }

    /// The items as a record stores them.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The items as a reader finds them.
    pub fn as_items(&self) -> ExtendedItems<'_> {
        ExtendedItems::of_walked_chain(&self.bytes)
    }

    fn link_last(&mut self) {
        if let Some(last) = self.bytes.get_mut(self.last..).filter(|last| !last.is_empty()) {
            LINKAGE.put(last, LINKED);
        }
    }
}

/// The extended data items of a record, in the order in which they are stored.
///
/// EVENT records store them behind the header ([`ExtendedItemsBuf`] has the layout). PERFINFO records store performance
/// counters bare and INSTANCE records their ids; this type presents both as the item that Windows gives consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ExtendedItems<'a> {
    stored: Stored<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Stored<'a> {
    #[default]
    None,
    Chain(&'a [u8]),
    Counters {
        pebs: bool,
        bytes: &'a [u8],
    },
    Instance(&'a [u8]),
}

impl<'a> ExtendedItems<'a> {
    /// No items.
    pub const NONE: ExtendedItems<'static> = ExtendedItems { stored: Stored::None };

    /// Walks the chain at the front of `bytes`; gives the items and the length they take.
    ///
    /// # Errors
    /// The offset of the item that does not fit in `bytes` or contradicts itself.
    #[inline(always)]
    pub fn parse_chain(bytes: &'a [u8]) -> Result<(ExtendedItems<'a>, usize), usize> {
        let mut rest = bytes;
        loop {
            let offset = bytes.len() - rest.len();
            let sizes = rest.first_chunk().and_then(|header| ItemSizes::of(*header, rest.len()));
            let ItemSizes { stored, is_linked, .. } = sizes.ok_or(offset)?;
            rest = &rest[stored..];
            if !is_linked {
                let (chain, _) = bytes.split_at(bytes.len() - rest.len());
                return Ok((ExtendedItems { stored: Stored::Chain(chain) }, chain.len()));
            }
        }
    }

    /// The items of a chain that [`parse_chain`](ExtendedItems::parse_chain) has walked to its end; none if `chain` is empty.
    #[inline]
    pub fn of_walked_chain(chain: &'a [u8]) -> ExtendedItems<'a> {
        match chain.is_empty() {
            true => ExtendedItems::NONE,
            false => ExtendedItems { stored: Stored::Chain(chain) },
        }
    }

    /// The counters of a PERFINFO record: an optional PEBS index, then one `u64` a counter.
    pub fn counters(pebs: bool, bytes: &'a [u8]) -> ExtendedItems<'a> {
        if bytes.is_empty() {
            return ExtendedItems::NONE;
        }
        ExtendedItems { stored: Stored::Counters { pebs, bytes } }
    }

    /// The 24 bytes behind an INSTANCE record's common header.
    pub fn instance(bytes: &'a [u8]) -> ExtendedItems<'a> {
        ExtendedItems { stored: Stored::Instance(bytes) }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.stored == Stored::None
    }

    /// The first item of a type.
    #[inline]
    pub fn find(&self, ext_type: ExtType) -> Option<&'a [u8]> {
        self.into_iter().find(|item| item.ext_type == ext_type).map(|item| item.data)
    }
}

/// Sizes of an item, which fits in its room.
struct ItemSizes {
    stored: usize,
    data: usize,
    /// Another item follows.
    is_linked: bool,
}

impl ItemSizes {
    /// Those of the item with this header in `room` bytes. Most records have items: the header is one load.
    #[inline(always)]
    fn of(header: [u8; ExtendedItem::HEADER_SIZE], room: usize) -> Option<ItemSizes> {
        let word = u64::from_le_bytes(header);
        let part = |field: Field<u16>| word >> (8 * field.offset()) & 0xffff;
        let (stored, data) = (part(STORED_SIZE) as usize, part(DATA_SIZE) as usize);
        let is_linked = part(LINKAGE) & u64::from(LINKED) != 0;
        let fits = stored % 8 == 0 && stored >= ExtendedItem::HEADER_SIZE + data && stored <= room;
        fits.then_some(ItemSizes { stored, data, is_linked })
    }
}

/// The first item, its stored size, and whether another follows.
#[inline]
fn chain_item(bytes: &[u8]) -> Option<(ExtendedItem<'_>, usize, bool)> {
    let (header, rest) = bytes.split_first_chunk()?;
    let ItemSizes { stored, data, is_linked } = ItemSizes::of(*header, bytes.len())?;
    let item = ExtendedItem { ext_type: ExtType(EXT_TYPE.get(header)?), data: &rest[..data] };
    Some((item, stored, is_linked))
}

impl<'a> IntoIterator for ExtendedItems<'a> {
    type Item = ExtendedItem<'a>;
    type IntoIter = ExtendedIter<'a>;

    #[inline]
    fn into_iter(self) -> ExtendedIter<'a> {
        ExtendedIter { rest: self.stored }
    }
}

/// Iterates over [`ExtendedItems`].
#[derive(Clone, Debug)]
pub struct ExtendedIter<'a> {
    rest: Stored<'a>,
}

impl<'a> Iterator for ExtendedIter<'a> {
    type Item = ExtendedItem<'a>;

    #[inline]
    fn next(&mut self) -> Option<ExtendedItem<'a>> {
        match self.rest {
            Stored::None => None,
            Stored::Chain(bytes) => {
                let Some((item, total, more)) = chain_item(bytes) else {
                    self.rest = Stored::None;
                    return None;
                };
                self.rest = if more { Stored::Chain(&bytes[total..]) } else { Stored::None };
                Some(item)
            }
            Stored::Counters { pebs: true, bytes } => {
                let (data, rest) = bytes.split_at_checked(8)?;
                self.rest = if rest.is_empty() {
                    Stored::None
                } else {
                    Stored::Counters { pebs: false, bytes: rest }
                };
                Some(ExtendedItem { ext_type: ExtType::PEBS_INDEX, data })
            }
            Stored::Counters { pebs: false, bytes } => {
                self.rest = Stored::None;
                Some(ExtendedItem { ext_type: ExtType::PMC_COUNTERS, data: bytes })
            }
            Stored::Instance(data) => {
                self.rest = Stored::None;
                Some(ExtendedItem { ext_type: ExtType::INSTANCE_INFO, data })
            }
        }
    }
}

impl<'a> ExtendedItems<'a> {
    /// Items in their stored form whose linkage is not set: each item up to the end of `bytes` counts.
    ///
    /// A malformed item ends the iteration.
    pub fn unlinked(bytes: &'a [u8]) -> impl Iterator<Item = ExtendedItem<'a>> + use<'a> {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let (item, stored_size, _) = chain_item(rest)?;
            rest = &rest[stored_size..];
            Some(item)
        })
    }

    /// Sets the linkage of stored items that lie one behind the other: of all but the last.
    ///
    /// A malformed item ends the walk.
    pub fn link(bytes: &mut [u8]) {
        let mut at = 0;
        while let Some((_, stored_size, _)) = bytes.get(at..).and_then(chain_item) {
            let is_last = at + stored_size >= bytes.len();
            LINKAGE.put(&mut bytes[at..], if is_last { 0 } else { LINKED });
            at += stored_size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: u16, more: bool, data: &[u8]) -> Vec<u8> {
        let mut items = ExtendedItemsBuf::new();
        items.push(ExtType(kind), data).unwrap();
        let mut bytes = items.as_bytes().to_vec();
        bytes[8 + data.len()..].fill(0xcc);
        LINKAGE.put(&mut bytes, u16::from(more));
        bytes
    }

    #[test]
    fn chain_gives_every_item_and_its_length() {
        let mut bytes = item(12, true, b"\x05\x00ab\0");
        bytes.extend(item(11, false, b"metadata!"));
        let length = bytes.len();
        bytes.extend(b"payload");
        let (items, taken) = ExtendedItems::parse_chain(&bytes).unwrap();
        assert_eq!(taken, length);
        let seen: Vec<_> = items.into_iter().map(|item| (item.ext_type, item.data)).collect();
        assert_eq!(
            seen,
            [
                (ExtType::PROV_TRAITS, &b"\x05\x00ab\0"[..]),
                (ExtType::EVENT_SCHEMA_TL, &b"metadata!"[..])
            ]
        );
        assert_eq!(items.find(ExtType::SID), None);
    }

    #[test]
    fn malicious_chains_are_refused_where_they_break() {
        let good = item(1, true, &[7; 16]);
        // The linkage says that another item follows, but none does.
        assert_eq!(ExtendedItems::parse_chain(&good), Err(24));
        let mut zero_length = good.clone();
        zero_length.extend([0; 8]);
        assert_eq!(ExtendedItems::parse_chain(&zero_length), Err(24));
        let mut data_past_item = item(1, false, &[7; 16]);
        data_past_item[6] = 17;
        assert_eq!(ExtendedItems::parse_chain(&data_past_item), Err(0));
        let mut unaligned = item(1, false, &[7; 16]);
        unaligned[0] = 23;
        unaligned[6] = 15;
        assert_eq!(ExtendedItems::parse_chain(&unaligned), Err(0));
    }

    #[test]
    fn appended_items_are_linked_as_pushed_ones_are() {
        let parts =
            [(ExtType::SID, &[1, 5][..]), (ExtType::TS_ID, &[2; 4]), (ExtType::EVENT_KEY, &[3; 8])];
        let mut pushed = ExtendedItemsBuf::new();
        let mut more = ExtendedItemsBuf::new();
        for (number, (ext_type, data)) in parts.into_iter().enumerate() {
            pushed.push(ext_type, data).unwrap();
            if number > 0 {
                more.push(ext_type, data).unwrap();
            }
        }
        let mut appended = ExtendedItemsBuf::new();
        appended.append(&ExtendedItemsBuf::new());
        appended.push(parts[0].0, parts[0].1).unwrap();
        appended.append(&more);
        assert_eq!(appended, pushed);
        let mut unlinked: Vec<u8> =
            parts.iter().flat_map(|(ext_type, data)| item(ext_type.0, false, data)).collect();
        assert_eq!(ExtendedItems::unlinked(&unlinked).count(), 3);
        ExtendedItems::link(&mut unlinked);
        let linked = ExtendedItems::parse_chain(&unlinked).unwrap().0;
        assert_eq!(
            linked.into_iter().collect::<Vec<_>>(),
            pushed.as_items().into_iter().collect::<Vec<_>>()
        );
    }

    #[test]
    fn an_item_that_is_too_large_changes_nothing() {
        let mut items = ExtendedItemsBuf::new();
        items.push(ExtType::SID, &[1]).unwrap();
        let before = items.clone();
        let error = items.push(ExtType::EVENT_SCHEMA_TL, &[0; 0xfff1]).unwrap_err();
        assert_eq!((error.ext_type, error.data_size), (ExtType::EVENT_SCHEMA_TL, 0xfff1));
        assert_eq!(items, before);
        items.push(ExtType::EVENT_SCHEMA_TL, &[0; 0xfff0]).unwrap();
    }
}
