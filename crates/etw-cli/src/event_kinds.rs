//! [`EventKinds`]: the kinds of events in a trace, told apart by their headers.
//!
//! Commands that only need to know which events there are number the kinds while they read, and decode one record of
//! each kind at the end, when all schemas of the trace are known.

use etw_decode::{Decoded, Decoder, Store, is_string_event};
use etw_types::{EventRecord, ExtType, ExtendedItemsBuf, Guid, HeaderType, Hook};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Kinds, and blobs that tell kinds apart, past which no more are kept: only a hostile trace has so many.
const LIMIT: usize = 1 << 16;
/// Bits of a blob's number.
const BLOB_BITS: u32 = 20;

/// Kinds of events, numbered in the order of their first records.
#[derive(Default)]
pub struct EventKinds {
    kinds: Vec<Kind>,
    /// Kinds by their keys.
    by_key: Index,
    recent: Recent,
    /// A blob's number is 1 more than its index.
    blobs: Vec<Box<[u8]>>,
    by_content: Index,
    /// Names the records that describe others; it has learnt nothing.
    decoder: Decoder,
}

/// Kinds that were found last, by a cheap hash.
struct Recent(Box<[(Key, u32)]>);

impl Default for Recent {
    fn default() -> Recent {
        // A key without flags: no record has it.
        let none = Key { guid: Guid::ZERO, numbers: 0, blobs: 0 };
        Recent(vec![(none, 0); 256].into())
    }
}

/// The parts of a record that tell its kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    guid: Guid,
    /// Id, version, opcode, header, hook and flags.
    numbers: u64,
    /// Numbers of the metadata, the traits and the own name.
    blobs: u64,
}

/// Finds items of a list by their hashes. It has an item's index, and not the item, as a `HashMap` would.
#[derive(Default)]
struct Index {
    table: HashTable<u32>,
    hasher: RandomState,
}

impl Index {
    /// The index of the item with this hash for which `is_it` holds.
    fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        self.table.find(hash, |index| is_it(*index as usize)).map(|index| *index as usize)
    }

    /// Adds an item that is not there. `hash_of` gives the hash of any item again.
    fn add(&mut self, hash: u64, index: usize, hash_of: impl Fn(&RandomState, usize) -> u64) {
        let Index { table, hasher } = self;
        table.insert_unique(hash, index as u32, |index| hash_of(hasher, *index as usize));
    }
}

/// Flags of a key.
const IS_KIND: u64 = 1 << 56;
const HAS_GUID: u64 = 2 << 56;
const HAS_HOOK: u64 = 4 << 56;
const IS_STRING: u64 = 8 << 56;

struct Kind {
    key: Key,
    header: HeaderType,
    provider: Option<Guid>,
    hook: Option<Hook>,
    /// The record's own name, if records of one number describe different events.
    name: Option<Box<str>>,
    payload_size: u32,
}

/// A kind, with a record that stands for all of it.
pub struct ResolvedKind<'k> {
    pub number: usize,
    pub record: &'k EventRecord<'k>,
    pub decoded: &'k Decoded<'k>,
    /// The name of a record that describes another event.
    pub own_name: Option<&'k str>,
}

impl EventKinds {
    /// The number of the record's kind; `None` if no more kinds are kept.
    #[inline(always)]
    pub fn number(&mut self, record: &EventRecord<'_>) -> Option<usize> {
        let mut key = Key::of_header(record);
        if record.hook.is_none() && may_have_blobs(record) {
            self.add_blobs(&mut key, record)?;
        }
        let (recent, number) = self.recent.0[key.slot()];
        if recent == key {
            return Some(number as usize);
        }
        self.find(key, record)
    }

    #[inline(never)]
    fn find(&mut self, key: Key, record: &EventRecord<'_>) -> Option<usize> {
        let hash = self.by_key.hasher.hash_one(key);
        let number = match self.by_key.find(hash, |index| self.kinds[index].key == key) {
            Some(number) => number as u32,
            None if self.kinds.len() >= LIMIT => return None,
            None => {
                let number = self.kinds.len();
                let name = Store::is_schema_record(record)
                    .then(|| self.decoder.decode(record).event_name().map(Box::from));
                self.kinds.push(Kind::of(record, key, name.flatten()));
                self.by_key
                    .add(hash, number, |hasher, index| hasher.hash_one(self.kinds[index].key));
                number as u32
            }
        };
        self.recent.0[key.slot()] = (key, number);
        Some(number as usize)
    }

    /// Adds what the header of a record does not have.
    #[inline]
    fn add_blobs(&mut self, key: &mut Key, record: &EventRecord<'_>) -> Option<()> {
        if Store::is_schema_record(record) {
            let decoded = self.decoder.decode(record);
            let name = decoded.event_name().unwrap_or_default().to_owned();
            key.blobs |= self.blob(name.as_bytes())? << (2 * BLOB_BITS);
        }
        if !record.extended.is_empty() {
            let metadata = record.extended.find(ExtType::EVENT_SCHEMA_TL).unwrap_or_default();
            let traits = record.extended.find(ExtType::PROV_TRAITS).unwrap_or_default();
            key.blobs |= self.blob(metadata)? | self.blob(traits)? << BLOB_BITS;
        }
        if record.header.is_event() && record.descriptor.id == 0 && is_string_kind(record) {
            key.numbers |= IS_STRING;
        }
        Some(())
    }

    /// The number of a blob; 0 for an empty one.
    fn blob(&mut self, blob: &[u8]) -> Option<u64> {
        if blob.is_empty() {
            return Some(0);
        }
        let hash = self.by_content.hasher.hash_one(blob);
        if let Some(index) = self.by_content.find(hash, |index| *self.blobs[index] == *blob) {
            return Some(index as u64 + 1);
        }
        let index = self.blobs.len();
        if index >= 3 * LIMIT {
            return None;
        }
        self.blobs.push(blob.into());
        self.by_content.add(hash, index, |hasher, index| hasher.hash_one(&*self.blobs[index]));
        Some(index as u64 + 1)
    }

    /// Decodes a record of each kind, as a dump of its first record would. `decoder` has the schemas of the whole trace.
    pub fn resolve(self, mut decoder: Decoder, mut each: impl FnMut(ResolvedKind<'_>)) {
        decoder.set_learning(false);
        // The rest is not needed any more, and makes room for what the caller keeps. So do the kinds, from the last on.
        let EventKinds { mut kinds, by_key, recent, blobs, by_content, decoder: own } = self;
        drop((by_key, recent, by_content, own));
        while let Some(kind) = kinds.pop() {
            let number = kinds.len();
            if number.is_power_of_two() {
                kinds.shrink_to_fit();
            }
            kind.with_record(&blobs, |record| {
                let decoded = decoder.decode(record);
                let own_name = kind.name.as_deref();
                each(ResolvedKind { number, record, decoded: &decoded, own_name });
            });
        }
    }
}

/// Whether the record may describe others, be one string, or have metadata or traits. An event that does one of the first two
/// has no id, or that of an EventSource's manifest.
#[inline(always)]
fn may_have_blobs(record: &EventRecord<'_>) -> bool {
    !record.extended.is_empty()
        || matches!(record.descriptor.id, 0 | 0xfffe)
        || !record.header.is_event()
}

/// Whether it is one string without metadata.
fn is_string_kind(record: &EventRecord<'_>) -> bool {
    record.extended.find(ExtType::EVENT_SCHEMA_TL).is_none() && is_string_event(record)
}

impl Key {
    #[inline(always)]
    fn of_header(record: &EventRecord<'_>) -> Key {
        let descriptor = &record.descriptor;
        let mut numbers = u64::from(descriptor.id)
            | u64::from(descriptor.version) << 16
            | u64::from(descriptor.opcode.0) << 24
            | (record.header as u64) << 32
            | IS_KIND;
        if let Some(hook) = record.hook {
            // It decides the class.
            let numbers = numbers | u64::from(hook.0) << 40 | HAS_HOOK;
            return Key { guid: Guid::ZERO, numbers, blobs: 0 };
        }
        let guid = match record.provider {
            Some(guid) => {
                numbers |= HAS_GUID;
                guid
            }
            None => Guid::ZERO,
        };
        Key { guid, numbers, blobs: 0 }
    }

    #[inline(always)]
    fn slot(&self) -> usize {
        let guid = u128::from_ne_bytes(self.guid.0) as u64;
        let mixed = (guid ^ self.numbers ^ self.blobs << 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 56) as usize
    }
}

impl Kind {
    fn of(record: &EventRecord<'_>, key: Key, name: Option<Box<str>>) -> Kind {
        Kind {
            key,
            header: record.header,
            provider: record.provider,
            hook: record.hook,
            name,
            payload_size: record.payload.len().try_into().unwrap_or(u32::MAX),
        }
    }

    /// Calls `with` with a record of this kind.
    fn with_record(&self, blobs: &[Box<[u8]>], with: impl FnOnce(&EventRecord<'_>)) {
        // Metadata and provider traits name an event that has no number.
        let blob = |shift: u32| {
            let number = (self.key.blobs >> shift) as usize & ((1 << BLOB_BITS) - 1);
            number.checked_sub(1).map_or(&[][..], |index| &*blobs[index])
        };
        let mut items: Vec<(ExtType, &[u8])> =
            vec![(ExtType::PROV_TRAITS, blob(BLOB_BITS)), (ExtType::EVENT_SCHEMA_TL, blob(0))];
        items.retain(|(_, data)| !data.is_empty());
        let items = ExtendedItemsBuf::from_items(&items).unwrap_or_default();
        // Only its length matters; a string event's text is one that every reader accepts.
        let payload = match self.key.numbers & IS_STRING {
            0 => vec![0xff; self.payload_size as usize],
            _ => b"x\0\0\0".to_vec(),
        };
        let mut record = EventRecord::new(self.header, &payload);
        record.provider = self.provider;
        record.hook = self.hook;
        record.descriptor.id = self.key.numbers as u16;
        record.descriptor.version = (self.key.numbers >> 16) as u8;
        record.descriptor.opcode.0 = (self.key.numbers >> 24) as u8;
        record.extended = items.as_items();
        with(&record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_differ_by_numbers_and_hooks_and_metadata() {
        let items = |data: &[u8]| {
            ExtendedItemsBuf::from_items(&[(ExtType::EVENT_SCHEMA_TL, data)]).unwrap()
        };
        let (one, two) = (items(b"\x08\0\0one\0"), items(b"\x08\0\0two\0"));
        let mut event = EventRecord::new(HeaderType::Event64, &[]);
        event.provider = Some(Guid::from_u128(7));
        event.descriptor.id = 3;
        let mut newer = event;
        newer.descriptor.version = 1;
        let mut other = event;
        other.provider = Some(Guid::from_u128(8));
        let (mut first, mut second) = (event, event);
        first.extended = one.as_items();
        second.extended = two.as_items();
        let mut kernel = EventRecord::new(HeaderType::System64, &[]);
        kernel.hook = Some(Hook(0));
        let mut kinds = EventKinds::default();
        for round in 0..2 {
            for (number, record) in [event, newer, other, first, second, kernel].iter().enumerate()
            {
                assert_eq!(kinds.number(record), Some(number), "round {round}");
            }
        }
    }

    #[test]
    fn kinds_past_the_limit_have_no_number() {
        let mut kinds = EventKinds::default();
        let mut event = EventRecord::new(HeaderType::Event64, &[]);
        for id in 0..=u16::MAX {
            event.descriptor.id = id;
            assert_eq!(kinds.number(&event), Some(usize::from(id)));
        }
        event.descriptor.version = 1;
        assert_eq!(kinds.number(&event), None);
        event.descriptor.version = 0;
        assert_eq!(kinds.number(&event), Some(usize::from(u16::MAX)));
    }
}
