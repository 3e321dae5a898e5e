//! The prefix of a record: the parts before an event's payload, which the record's kind names. Part of the ABI between provider and
//! host.
//!
//! Each part is there if its bit is set, in this order; the record's `metadata_size` is the size of the whole prefix:
//!
//! | bit | size | content |
//! |---|---|---|
//! | [`DESCRIPTOR`] | 16 | event descriptor, in place of the site's |
//! | [`ACTIVITY`] | 16 | activity id |
//! | [`RELATED`] | 16 | related activity id |
//! | [`TIME`] | 8 | timestamp override, i64 |
//! | [`TRAITS`] | its own u16 | provider traits, in place of the registration's |
//! | [`METADATA`] | its own u16 | TraceLogging metadata, in place of the site's |
//! | [`STACK`] | u16 count, 8 each | call stack: return addresses, innermost first |
//!
//! With [`CLASSIC`] the metadata is the [header of a classic event](crate::classic), and the only other part can be a timestamp.
//!
//! The record's `user` word holds `EventProperty` in its low half and the header's flags in its high half. [`IN_PRIVATE`] among them
//! is not stored on disk. The metadata of a site is an event descriptor and TraceLogging metadata, which may be empty.

use etw_types::{EventDescriptor, Guid, le};

use crate::room::Room;

/// The prefix has a descriptor.
pub const DESCRIPTOR: u8 = 1;
/// The prefix has an activity id.
pub const ACTIVITY: u8 = 2;
/// The prefix has a related activity id.
pub const RELATED: u8 = 4;
/// The prefix has a timestamp.
pub const TIME: u8 = 8;
/// The prefix has provider traits.
pub const TRAITS: u8 = 16;
/// The prefix has event metadata.
pub const METADATA: u8 = 32;
/// The prefix has a call stack.
pub const STACK: u8 = 64;
/// The metadata is the header of a classic event.
pub const CLASSIC: u8 = 128;
/// The largest number of addresses in a stack, as in Windows.
pub const MAX_FRAMES: usize = 192;

/// A bit of the record's `user` word: the event was written with `EVENT_WRITE_FLAG_INPRIVATE`.
pub const IN_PRIVATE: u32 = 1 << 31;

/// The parts of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix<'a> {
    /// A descriptor in place of the site's.
    pub descriptor: Option<EventDescriptor>,
    /// The activity id; `None`: no activity.
    pub activity_id: Option<Guid>,
    /// The activity that this one comes from.
    pub related_activity_id: Option<Guid>,
    /// A time in place of the time of the write.
    pub time: Option<i64>,
    /// Traits in place of the registration's; empty: none.
    pub traits: &'a [u8],
    /// Metadata in place of the site's; empty: none.
    pub metadata: &'a [u8],
    /// The addresses of a call stack, little-endian, innermost first; empty: none.
    pub stack: &'a [u8],
    /// The metadata is the header of a classic event.
    pub is_classic: bool,
}

impl<'a> Prefix<'a> {
    /// The bits of the parts.
    pub fn kind(&self) -> u8 {
        let bit = |there: bool, bit: u8| if there { bit } else { 0 };
        bit(self.descriptor.is_some(), DESCRIPTOR)
            | bit(self.activity_id.is_some(), ACTIVITY)
            | bit(self.related_activity_id.is_some(), RELATED)
            | bit(self.time.is_some(), TIME)
            | bit(!self.traits.is_empty(), TRAITS)
            | bit(!self.metadata.is_empty(), METADATA)
            | bit(!self.stack.is_empty(), STACK)
            | bit(self.is_classic, CLASSIC)
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        let ids = [
            self.descriptor.is_some(),
            self.activity_id.is_some(),
            self.related_activity_id.is_some(),
        ];
        16 * ids.into_iter().filter(|there| *there).count()
            + if self.time.is_some() { 8 } else { 0 }
            + self.traits.len()
            + self.metadata.len()
            + if self.stack.is_empty() { 0 } else { 2 + self.stack.len() }
    }

    /// Gives the bytes to `put`, in pieces.
    pub fn put(&self, mut put: impl FnMut(&[u8])) {
        if let Some(descriptor) = &self.descriptor {
            put(&descriptor.to_bytes());
        }
        for id in [&self.activity_id, &self.related_activity_id].into_iter().flatten() {
            put(&id.0);
        }
        if let Some(time) = self.time {
            put(&time.to_le_bytes());
        }
        put(self.traits);
        put(self.metadata);
        if !self.stack.is_empty() {
            put(&(self.stack.len() as u16 / 8).to_le_bytes());
            put(self.stack);
        }
    }

    /// Puts the prefix into an event's payload.
    #[inline]
    pub fn put_into<'r>(&self, mut room: Room<'r>) -> Room<'r> {
        if let Some(descriptor) = &self.descriptor {
            room = room.put(&descriptor.to_bytes());
        }
        if let Some(id) = &self.activity_id {
            room = room.put(&id.0);
        }
        if let Some(id) = &self.related_activity_id {
            room = room.put(&id.0);
        }
        if let Some(time) = self.time {
            room = room.put(&time.to_le_bytes());
        }
        if !self.traits.is_empty() {
            room = room.put(self.traits);
        }
        if !self.metadata.is_empty() {
            room = room.put(self.metadata);
        }
        if !self.stack.is_empty() {
            room = room.put(&(self.stack.len() as u16 / 8).to_le_bytes()).put(self.stack);
        }
        room
    }

    /// Reads a prefix. `None` unless the bytes are exactly the parts that `kind` names.
    pub fn parse(kind: u8, bytes: &'a [u8]) -> Option<Prefix<'a>> {
        let mut prefix = Prefix::default();
        if kind == 0 {
            return bytes.is_empty().then_some(prefix);
        }
        let mut at = 0;
        let mut take = |size: usize| {
            let part = bytes.get(at..at + size)?;
            at += size;
            Some(part)
        };
        if kind & DESCRIPTOR != 0 {
            prefix.descriptor = EventDescriptor::read(take(16)?, 0);
        }
        if kind & ACTIVITY != 0 {
            prefix.activity_id = Guid::read(take(16)?, 0);
        }
        if kind & RELATED != 0 {
            prefix.related_activity_id = Guid::read(take(16)?, 0);
        }
        if kind & TIME != 0 {
            prefix.time = le::i64(take(8)?, 0);
        }
        let mut blob = |there: bool| -> Option<&'a [u8]> {
            if !there {
                return Some(&[]);
            }
            let size = usize::from(le::u16(bytes, at)?);
            let part = bytes.get(at..at + size).filter(|part| part.len() > 2)?;
            at += size;
            Some(part)
        };
        prefix.traits = blob(kind & TRAITS != 0)?;
        prefix.metadata = blob(kind & METADATA != 0)?;
        if kind & STACK != 0 {
            let count = usize::from(le::u16(bytes, at)?);
            let end = at + 2 + 8 * count;
            prefix.stack = bytes.get(at + 2..end).filter(|_| (1..=MAX_FRAMES).contains(&count))?;
            at = end;
        }
        prefix.is_classic = kind & CLASSIC != 0;
        let is_whole = !prefix.is_classic || kind & !TIME == CLASSIC | METADATA;
        (at == bytes.len() && is_whole).then_some(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_comes_back_and_nothing_else_does() {
        for kind in 0..128u8 {
            let id = |bit, n| (kind & bit != 0).then(|| Guid::from_u128(n));
            let prefix = Prefix {
                descriptor: (kind & DESCRIPTOR != 0)
                    .then(|| EventDescriptor { id: 7, ..Default::default() }),
                activity_id: id(ACTIVITY, 1),
                related_activity_id: id(RELATED, 2),
                time: (kind & TIME != 0).then_some(-3),
                traits: if kind & TRAITS != 0 { &[4, 0, b'p', 0] } else { &[] },
                metadata: if kind & METADATA != 0 { &[5, 0, 0, b'e', 0] } else { &[] },
                stack: if kind & STACK != 0 { &[7; 16] } else { &[] },
                is_classic: false,
            };
            let mut bytes = Vec::new();
            prefix.put(|part| bytes.extend(part));
            assert_eq!((bytes.len(), prefix.kind()), (prefix.size(), kind));
            assert_eq!(Prefix::parse(kind, &bytes), Some(prefix));
            let classic = Prefix { is_classic: true, ..prefix };
            let is_one = kind & !TIME == METADATA;
            assert_eq!(Prefix::parse(kind | CLASSIC, &bytes), is_one.then_some(classic));
            assert_eq!(classic.kind(), kind | CLASSIC);
            bytes.push(0);
            assert_eq!(Prefix::parse(kind, &bytes), None);
            bytes.truncate(bytes.len().saturating_sub(2));
            assert!(kind == 0 || Prefix::parse(kind, &bytes).is_none());
        }
        let mut many = (MAX_FRAMES as u16 + 1).to_le_bytes().to_vec();
        many.resize(2 + 8 * (MAX_FRAMES + 1), 1);
        assert_eq!(Prefix::parse(STACK, &many), None);
    }
}
