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
    self_described: RecentSelfDescribed,
    /// A blob's number is 1 more than its index.
    blobs: Vec<Box<[u8]>>,
    by_content: Index,
    /// Names the records that describe others; it has learnt nothing.
    decoder: Decoder,
}

/// Kinds that were found last, by a cheap hash; empty before the first one.
#[derive(Default)]
struct Recent(Box<[(Key, u32)]>);

/// The same of kinds that have metadata, which is compared without numbering it: to hash it takes longer.
#[derive(Default)]
struct RecentSelfDescribed(Box<[(SelfDescribed, u32)]>);

/// The parts that tell a kind with metadata.
#[derive(Clone, Copy)]
struct SelfDescribed {
    /// Without blobs.
    header: Key,
    /// The key's numbers of metadata and traits.
    blobs: u64,
}

/// Kinds that are remembered, a power of two.
const RECENT: usize = 256;

impl Recent {
    #[inline(always)]
    fn find(&self, key: &Key) -> Option<u32> {
        let (recent, number) = self.0.get(key.slot())?;
        (recent == key).then_some(*number)
    }

    fn put(&mut self, key: Key, number: u32) {
        if self.0.is_empty() {
            self.0 = vec![(Key::NONE, 0); RECENT].into();
        }
        self.0[key.slot()] = (key, number);
    }
}

impl RecentSelfDescribed {
    fn put(&mut self, slot: usize, described: SelfDescribed, number: u32) {
        if self.0.is_empty() {
            let none = SelfDescribed { header: Key::NONE, blobs: 0 };
            self.0 = vec![(none, 0); RECENT].into();
        }
        self.0[slot] = (described, number);
    }
}

/// The blobs of a record.
struct Blobs<'r> {
    metadata: Option<&'r [u8]>,
    traits: Option<&'r [u8]>,
}

impl<'r> Blobs<'r> {
    #[inline(always)]
    fn of(record: &EventRecord<'r>) -> Blobs<'r> {
        let mut blobs = Blobs { metadata: None, traits: None };
        for item in record.extended {
            match item.ext_type {
                ExtType::EVENT_SCHEMA_TL => blobs.metadata = blobs.metadata.or(Some(item.data)),
                ExtType::PROV_TRAITS => blobs.traits = blobs.traits.or(Some(item.data)),
                _ => {}
            }
        }
        blobs
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
        let key = Key::of_header(record);
        if record.hook.is_none() && may_have_blobs(record) {
            return self.number_with_blobs(key, record);
        }
        match self.recent.find(&key) {
            Some(number) => Some(number as usize),
            None => self.find(key, record),
        }
    }

    /// The number of a kind that more than its header tells.
    #[inline(never)]
    fn number_with_blobs(&mut self, header: Key, record: &EventRecord<'_>) -> Option<usize> {
        let blobs = Blobs::of(record);
        let metadata = blobs.metadata.unwrap_or_default();
        // The payload of others may decide, too.
        let slot = (!metadata.is_empty() && !Store::is_schema_record(record))
            .then(|| header.slot_with(metadata));
        if let Some((recent, number)) = slot.and_then(|slot| self.self_described.0.get(slot))
            && recent.header == header
            && self.numbered(recent.blobs, 0) == metadata
            && self.numbered(recent.blobs, BLOB_BITS) == blobs.traits.unwrap_or_default()
        {
            return Some(*number as usize);
        }
        let mut key = header;
        self.add_blobs(&mut key, &blobs, record)?;
        let number = match self.recent.find(&key) {
            Some(number) => number as usize,
            None => self.find(key, record)?,
        };
        if let Some(slot) = slot {
            let described = SelfDescribed { header, blobs: key.blobs };
            self.self_described.put(slot, described, number as u32);
        }
        Some(number)
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
        self.recent.put(key, number);
        Some(number as usize)
    }

    /// Adds what the header of a record does not have.
    fn add_blobs(
        &mut self,
        key: &mut Key,
        blobs: &Blobs<'_>,
        record: &EventRecord<'_>,
    ) -> Option<()> {
        if Store::is_schema_record(record) {
            let decoded = self.decoder.decode(record);
            let name = decoded.event_name().unwrap_or_default().to_owned();
            key.blobs |= self.blob(name.as_bytes())? << (2 * BLOB_BITS);
        }
        if !record.extended.is_empty() {
            let Blobs { metadata, traits } = *blobs;
            key.blobs |= self.blob(metadata.unwrap_or_default())?;
            key.blobs |= self.blob(traits.unwrap_or_default())? << BLOB_BITS;
        }
        // One string without metadata.
        let may_be_string = record.header.is_event() && record.descriptor.id == 0;
        if may_be_string && blobs.metadata.is_none() && is_string_event(record) {
            key.numbers |= IS_STRING;
        }
        Some(())
    }

    /// The blob whose number is in these bits of a key.
    #[inline(always)]
    fn numbered(&self, blobs: u64, shift: u32) -> &[u8] {
        numbered(&self.blobs, blobs, shift)
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
        let EventKinds {
            mut kinds,
            by_key,
            recent,
            self_described,
            blobs,
            by_content,
            decoder: own,
        } = self;
        drop((by_key, recent, self_described, by_content, own));
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

/// The blob whose number is in these bits of a key; empty if there is none.
#[inline(always)]
fn numbered(blobs: &[Box<[u8]>], numbers: u64, shift: u32) -> &[u8] {
    let number = (numbers >> shift) as usize & ((1 << BLOB_BITS) - 1);
    number.checked_sub(1).map_or(&[][..], |index| &*blobs[index])
}

impl Key {
    /// A key without flags: no record has it.
    const NONE: Key = Key { guid: Guid::ZERO, numbers: 0, blobs: 0 };

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
        slot(self.mixed() ^ self.blobs << 8)
    }

    /// The slot of a kind with metadata. Its name is in front, the names and types of its last fields are at the end.
    #[inline(always)]
    fn slot_with(&self, metadata: &[u8]) -> usize {
        let front = metadata.first_chunk().map_or(0, |front| u128::from_le_bytes(*front));
        let end = metadata.last_chunk().map_or(0, |end| u64::from_le_bytes(*end));
        let front = (front as u64).rotate_left(29) ^ (front >> 64) as u64;
        slot(self.mixed() ^ front ^ end.rotate_left(17) ^ metadata.len() as u64)
    }

    #[inline(always)]
    fn mixed(&self) -> u64 {
        u128::from_ne_bytes(self.guid.0) as u64 ^ self.numbers
    }
}

/// A slot of [`RECENT`].
#[inline(always)]
fn slot(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2())) as usize
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
        let blob = |shift| numbered(blobs, self.key.blobs, shift);
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

    /// The names of these providers and events have the same length and ends, so that they are remembered in the same slot.
    #[test]
    fn kinds_with_metadata_differ_by_all_of_it_and_by_traits() {
        let described = |name: &str, traits: &[u8]| {
            let mut metadata = [b"\0\0\0", name.as_bytes(), b"\0number\0\x07"].concat();
            metadata[0] = metadata.len() as u8;
            let items = [(ExtType::EVENT_SCHEMA_TL, &metadata[..]), (ExtType::PROV_TRAITS, traits)];
            ExtendedItemsBuf::from_items(&items).unwrap()
        };
        let names = ["AnEventWithALongName_1_Behind", "AnEventWithALongName_2_Behind"];
        let items =
            names.map(|name| ["one", "two"].map(|traits| described(name, traits.as_bytes())));
        let mut kinds = EventKinds::default();
        for round in 0..3 {
            for (number, items) in items.iter().flatten().enumerate() {
                for id in [0, 1] {
                    let mut event = EventRecord::new(HeaderType::Event64, b"t\0\0\0");
                    event.provider = Some(Guid::from_u128(7));
                    event.descriptor.id = id;
                    event.extended = items.as_items();
                    let expected = Some(2 * number + usize::from(id));
                    assert_eq!(kinds.number(&event), expected, "round {round}");
                }
            }
        }
        let mut found = Vec::new();
        kinds.resolve(Decoder::new(), |kind| {
            found.push(kind.decoded.event_name().unwrap_or_default().to_owned());
        });
        found.reverse();
        assert_eq!(found, names.map(|name| vec![name; 4]).concat());
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
