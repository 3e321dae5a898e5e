//! [`Heads`]: the parts of a record's output that all records of one kind share, rendered once.

use etw_decode::{Decoded, Inserts, Names, Reason, Source};
use etw_types::{EventDescriptor, EventRecord, ExtType, Guid, HeaderType, Hook};
use std::num::NonZeroU64;

/// Kinds that are kept, a power of two; another kind with the same slot replaces one.
const SLOTS: usize = 1024;

/// The state that a thread that formats keeps from record to record.
#[derive(Default)]
pub struct Heads {
    /// Rendered parts.
    pub kinds: Kinds,
    /// Memory for a value that is written twice.
    pub scratch: Vec<u8>,
    /// Memory for messages.
    pub inserts: Inserts,
}

/// Rendered parts, by what they are made of.
pub struct Kinds {
    slots: Vec<Option<Box<Head>>>,
}

/// The rendered parts of one kind of records.
pub struct Head {
    key: Key,
    /// The number of the decoder's answer, if it has one.
    answer: Option<NonZeroU64>,
    traits: Option<Box<[u8]>>,
    /// Whether the traits name the provider.
    is_named_by_traits: bool,
    source: Option<Source>,
    tag: u32,
    provider_name: Option<Box<str>>,
    event_name: Option<Box<str>>,
    /// The names of the schema, if the parts have them.
    names: Option<Names>,
    /// Why the kind has no schema.
    reason: Option<Reason>,
    text: Vec<u8>,
    /// The ends of all parts but the last.
    ends: Ends,
}

/// Where the rendered parts end, but for the last one.
pub type Ends = [usize; 3];

/// The parts of a record that are compared as they are.
struct Key {
    header: HeaderType,
    hook: Option<Hook>,
    provider: Option<Guid>,
    descriptor: EventDescriptor,
    is_logged: bool,
}

impl Head {
    /// The first part.
    pub fn start(&self) -> &[u8] {
        &self.text[..self.ends[0]]
    }

    /// The second part.
    pub fn second(&self) -> &[u8] {
        &self.text[self.ends[0]..self.ends[1]]
    }

    /// The third part.
    pub fn third(&self) -> &[u8] {
        &self.text[self.ends[1]..self.ends[2]]
    }

    /// The last part.
    pub fn end(&self) -> &[u8] {
        &self.text[self.ends[2]..]
    }

    fn is_of(
        &mut self,
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        (is_logged, names): (bool, Option<&Names>),
    ) -> bool {
        let traits = decoded.provider_traits().map(|traits| traits.as_bytes());
        if !(self.key.is_of(record, is_logged)
            && self.names.is_some() == names.is_some()
            && self.traits.as_deref() == traits)
        {
            return false;
        }
        let answer = decoded.answer();
        if answer.is_some() && self.answer == answer {
            return true;
        }
        let is_same = self.has_names_of(decoded, names);
        // The decoder gives an answer another number when it has learnt a schema since.
        if is_same && answer.is_some() {
            self.answer = answer;
        }
        is_same
    }

    /// Whether the decoder's answer is the same, part by part.
    #[inline(never)]
    fn has_names_of(&self, decoded: &Decoded<'_>, names: Option<&Names>) -> bool {
        self.names.as_ref() == names
            && self.source == decoded.source()
            && self.tag == tag_of(decoded)
            && self.reason.as_ref() == decoded.reason()
            && self.event_name.as_deref() == decoded.event_name()
            && (self.is_named_by_traits
                || self.provider_name.as_deref() == decoded.provider_name().as_deref())
    }
}

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds { slots: std::iter::repeat_with(|| None).take(SLOTS).collect() }
    }
}

impl Kinds {
    /// The parts of the record's kind. `render` appends them to its argument and returns the ends of all but the last. It may use the names
    /// of provider and event, source and tag of the schema or the reason why there is none, the provider's traits, and of the record what is the same for all of a
    /// kind: header, hook, provider and descriptor; and `is_logged` and the names, which tell kinds apart, too.
    /// All answers are those of one decoder.
    pub fn of(
        &mut self,
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        (is_logged, names): (bool, Option<&Names>),
        render: impl FnOnce(&mut Vec<u8>) -> Ends,
    ) -> &Head {
        let slot = hash(record, decoded.event_name().unwrap_or_default()) as usize;
        let slot = slot & (self.slots.len() - 1);
        let slot = &mut self.slots[slot];
        if slot.as_mut().is_none_or(|head| !head.is_of(record, decoded, (is_logged, names))) {
            let mut text = Vec::new();
            let ends = render(&mut text);
            let traits = decoded.provider_traits();
            *slot = Some(Box::new(Head {
                key: Key::of(record, is_logged),
                answer: decoded.answer(),
                source: decoded.source(),
                tag: tag_of(decoded),
                traits: traits.map(|traits| traits.as_bytes().into()),
                is_named_by_traits: traits.is_some_and(|traits| !traits.name().is_empty()),
                provider_name: decoded.provider_name().map(Into::into),
                event_name: decoded.event_name().map(Into::into),
                names: names.cloned(),
                reason: decoded.reason().cloned(),
                text,
                ends,
            }));
        }
        match slot {
            Some(head) => head,
            None => unreachable!("the slot was filled"),
        }
    }
}

impl Key {
    fn of(record: &EventRecord<'_>, is_logged: bool) -> Key {
        Key {
            header: record.header,
            hook: record.hook,
            provider: record.provider,
            descriptor: record.descriptor,
            is_logged,
        }
    }

    /// Whether this is the key of the record. It is not made for that: copying the parts of each record costs more than comparing them.
    #[inline]
    fn is_of(&self, record: &EventRecord<'_>, is_logged: bool) -> bool {
        let Key { header, hook, provider, descriptor, is_logged: was_logged } = self;
        *header == record.header
            && *hook == record.hook
            && *provider == record.provider
            && *descriptor == record.descriptor
            && *was_logged == is_logged
    }
}

fn tag_of(decoded: &Decoded<'_>) -> u32 {
    decoded.schema().map_or(0, |schema| schema.tag)
}

/// Ten bits that tell most kinds apart.
#[inline]
fn hash(record: &EventRecord<'_>, event_name: &str) -> u64 {
    let guid = record.provider.as_ref().and_then(|guid| guid.0.first_chunk());
    let guid = guid.map_or(0, |first| u64::from_ne_bytes(*first));
    let descriptor = &record.descriptor;
    let numbers = u64::from(descriptor.id)
        | u64::from(descriptor.version) << 16
        | u64::from(descriptor.opcode.0) << 24
        | u64::from(descriptor.level.0) << 32
        | (event_name.len() as u64) << 40
        | (record.header as u64) << 56;
    // Events that describe themselves differ in their names alone.
    let ends = event_name.as_bytes().first_chunk().zip(event_name.as_bytes().last_chunk());
    let ends = ends.map_or(0, |(first, last)| {
        u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
    });
    let mixed = (guid ^ numbers).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ends;
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54
}

/// Whether a record has extended items other than those that describe it and its provider.
#[inline]
pub fn has_items(record: &EventRecord<'_>) -> bool {
    let mut items = record.extended.into_iter();
    items.any(|item| !matches!(item.ext_type, ExtType::EVENT_SCHEMA_TL | ExtType::PROV_TRAITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_decode::Decoder;
    use etw_types::{ExtendedItems, ExtendedItemsBuf};

    #[test]
    fn kinds_with_the_same_slot_do_not_share_their_parts() {
        let mut kinds = Kinds { slots: vec![None] };
        let mut decoder = Decoder::new();
        let mut event = EventRecord::new(HeaderType::Event64, &[]);
        for id in [1, 1, 2, 1] {
            event.descriptor.id = id;
            let decoded = decoder.decode(&event);
            let head = kinds.of(&event, &decoded, (false, None), |out| {
                out.extend_from_slice(&id.to_le_bytes());
                [0, 0, 1]
            });
            assert_eq!((head.third(), head.end()), (&[id as u8][..], &[0][..]));
        }
    }

    #[test]
    fn kinds_of_one_answer_differ_by_their_headers() {
        let mut kinds = Kinds { slots: vec![None] };
        let mut decoder = Decoder::new();
        let mut event = EventRecord::new(HeaderType::Event64, &[]);
        event.provider = Some(Guid::from_u128(7));
        event.descriptor.id = 1;
        for level in [1, 2, 2, 1] {
            event.descriptor.level.0 = level;
            let decoded = decoder.decode(&event);
            assert!(decoded.answer().is_some());
            let head = kinds.of(&event, &decoded, (false, None), |out| {
                out.push(level);
                [0; 3]
            });
            assert_eq!(head.end(), [level]);
        }
    }

    #[test]
    fn kinds_with_another_reason_do_not_share_their_parts() {
        let mut kinds = Kinds { slots: vec![None] };
        let mut decoder = Decoder::new();
        let broken = [(ExtType::EVENT_SCHEMA_TL, &[1, 2, 3][..])];
        let broken = ExtendedItemsBuf::from_items(&broken).unwrap();
        let mut reasons = Vec::new();
        for items in [ExtendedItems::NONE, broken.as_items(), ExtendedItems::NONE] {
            let mut event = EventRecord::new(HeaderType::Event64, &[]);
            event.extended = items;
            let decoded = decoder.decode(&event);
            let reason = decoded.reason_text().unwrap();
            let head = kinds.of(&event, &decoded, (false, None), |out| {
                out.extend_from_slice(reason.as_bytes());
                [0; 3]
            });
            assert_eq!(head.end(), reason.as_bytes());
            reasons.push(reason.into_owned());
        }
        assert_ne!(reasons[0], reasons[1]);
    }
}
