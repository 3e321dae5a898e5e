//! The TraceLogging metadata that compilers put into programs: the providers and events that a program can emit.
//!
//! ```text
//! u32 "ETW0"   u16 size of this header (16)   u8 version (0)   u8 flags (1: 64-bit)   u64 0xBB8A052B88040E86
//! blobs, each led by a byte:
//!   0 padding   1 end
//!   2 provider without a GUID: its traits     4 provider: GUID, its traits
//!   3, 6 event: u8 channel, u8 level, u8 opcode, u64 keyword, its metadata
//!   5 event: u8 level, u8 opcode, u16 task, u64 keyword, its metadata
//! ```
//!
//! Source: the comments of `TraceLoggingProvider.h`. Nothing in the metadata connects an event with its provider; if a program has one
//! provider only, its events are that provider's.

use crate::schema::Schema;
use etw_tracelogging::{EventMetadata, ProviderTraits};
use etw_types::{Channel, EventDescriptor, Guid, Keyword, Level, Opcode, le};

const SIGNATURE: &[u8; 4] = b"ETW0";
const MAGIC: u64 = 0xBB8A_052B_8804_0E86;
/// Providers and events of one program; Windows' largest programs have a twentieth of it.
const ITEM_LIMIT: usize = 1 << 16;
/// Bytes of metadata of one program.
const SIZE_LIMIT: usize = 16 << 20;
/// Padding between blobs; a longer run of zeros is the end of a section.
const PADDING_LIMIT: usize = 1 << 16;
const WARNING_LIMIT: usize = 20;

/// A provider in a program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramProvider<'b> {
    /// Its GUID; the metadata of old compilers lacks it.
    pub guid: Option<Guid>,
    /// Its name and group.
    pub traits: ProviderTraits<'b>,
}

/// An event in a program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramEvent<'b> {
    /// Channel, level, opcode, task and keyword.
    pub descriptor: EventDescriptor,
    /// Its name and fields.
    pub metadata: EventMetadata<'b>,
}

impl ProgramEvent<'_> {
    /// Names and fields, as far as their types are known.
    pub fn schema(&self) -> Option<Schema> {
        let mut schema = super::schema(self.metadata.as_bytes()).ok()?;
        schema.descriptor = Some(self.descriptor);
        Some(schema)
    }
}

/// Everything that a program says of its TraceLogging events.
#[derive(Clone, Debug, Default)]
pub struct ProgramMetadata<'b> {
    /// In their order.
    pub providers: Vec<ProgramProvider<'b>>,
    /// In their order.
    pub events: Vec<ProgramEvent<'b>>,
    /// Warnings about damage, with offsets.
    pub warnings: Vec<String>,
    size: usize,
}

impl<'b> ProgramMetadata<'b> {
    /// Searches a program, or a part of one. Damage ends the metadata that has it, and a warning names its offset.
    pub fn find(bytes: &'b [u8]) -> ProgramMetadata<'b> {
        let mut found = ProgramMetadata::default();
        let mut from = 0;
        let next =
            |from: usize| memchr::memmem::find(bytes.get(from..)?, SIGNATURE).map(|at| from + at);
        while let Some(at) = next(from) {
            from = at + SIGNATURE.len();
            if let Some(start) = header(bytes, at) {
                from = found.blobs(bytes, start).max(from);
            }
        }
        found
    }

    /// The one provider with a GUID, if there is no other: all events are its own.
    pub fn only_provider(&self) -> Option<Guid> {
        let first = self.providers.first()?.guid?;
        self.providers.iter().all(|provider| provider.guid == Some(first)).then_some(first)
    }

    /// Reads blobs up to their end; returns where that is.
    fn blobs(&mut self, bytes: &'b [u8], start: usize) -> usize {
        let mut at = start;
        let mut padding = 0;
        loop {
            match bytes.get(at) {
                None | Some(1) => return at,
                Some(0) if padding < PADDING_LIMIT => {
                    (at, padding) = (at + 1, padding + 1);
                    continue;
                }
                Some(0) => return at,
                Some(_) => padding = 0,
            }
            match self.blob(bytes, at) {
                Some(size) => at += size,
                None => {
                    self.warn(format!("bad TraceLogging metadata at offset {at:#x}"));
                    return at;
                }
            }
            if self.providers.len() + self.events.len() >= ITEM_LIMIT || self.size > SIZE_LIMIT {
                self.warn(format!(
                    "TraceLogging metadata from offset {at:#x} on is left out: there is too much of it"
                ));
                return at;
            }
        }
    }

    fn warn(&mut self, what: String) {
        if self.warnings.len() < WARNING_LIMIT {
            self.warnings.push(what);
        }
    }

    /// Reads a blob; returns its size.
    fn blob(&mut self, bytes: &'b [u8], at: usize) -> Option<usize> {
        let rest = &bytes[at + 1..];
        let mut descriptor = EventDescriptor::default();
        let head = match bytes[at] {
            2 => return self.provider(None, rest).map(|size| 1 + size),
            4 => {
                let guid = Guid::read(rest, 0)?;
                return self.provider(Some(guid), rest.get(16..)?).map(|size| 17 + size);
            }
            3 | 6 => {
                descriptor.channel = Channel(le::u8(rest, 0)?);
                descriptor.level = Level(le::u8(rest, 1)?);
                descriptor.opcode = Opcode(le::u8(rest, 2)?);
                descriptor.keyword = Keyword(le::u64(rest, 3)?);
                11
            }
            5 => {
                descriptor.level = Level(le::u8(rest, 0)?);
                descriptor.opcode = Opcode(le::u8(rest, 1)?);
                descriptor.task = le::u16(rest, 2)?;
                descriptor.keyword = Keyword(le::u64(rest, 4)?);
                12
            }
            _ => return None,
        };
        let metadata = EventMetadata::parse(rest.get(head..)?).ok()?;
        let size = metadata.as_bytes().len();
        self.size += size;
        self.events.push(ProgramEvent { descriptor, metadata });
        Some(1 + head + size)
    }

    fn provider(&mut self, guid: Option<Guid>, bytes: &'b [u8]) -> Option<usize> {
        let traits = ProviderTraits::parse(bytes).ok()?;
        let size = traits.as_bytes().len();
        self.size += size;
        self.providers.push(ProgramProvider { guid, traits });
        Some(size)
    }
}

/// The offset of the blobs behind a header.
fn header(bytes: &[u8], at: usize) -> Option<usize> {
    let size = usize::from(le::u16(bytes, at + 4)?);
    let is_header = size >= 16 && le::u8(bytes, at + 6)? == 0 && le::u64(bytes, at + 8)? == MAGIC;
    is_header.then_some(at + size)
}

/// The blobs as a pack keeps them: those of providers with GUIDs, and events in the form that has a channel.
pub(crate) fn to_blobs(metadata: &ProgramMetadata<'_>) -> Vec<u8> {
    let mut blobs = [&SIGNATURE[..], &[16, 0, 0, 1], &MAGIC.to_le_bytes()].concat();
    for provider in &metadata.providers {
        blobs.push(if provider.guid.is_some() { 4 } else { 2 });
        blobs.extend(provider.guid.iter().flat_map(|guid| guid.0));
        blobs.extend(provider.traits.as_bytes());
    }
    for ProgramEvent { descriptor, metadata } in &metadata.events {
        blobs.extend([6, descriptor.channel.0, descriptor.level.0, descriptor.opcode.0]);
        blobs.extend(descriptor.keyword.0.to_le_bytes());
        blobs.extend(metadata.as_bytes());
    }
    blobs.push(1);
    blobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, provider_traits};

    const GUID: Guid = Guid::from_u128(0x11111111_2222_3333_4444_555555555555);

    fn metadata(name: &str) -> Vec<u8> {
        let builder = MetadataBuilder::new(name, 0);
        let builder = builder.field("Size", InType::UINT32, OutType::HEX, Count::Scalar, 0);
        builder.finish().unwrap()
    }

    /// A provider, and an event of each form, among other bytes and padding.
    fn program() -> Vec<u8> {
        let traits = provider_traits("Maker.Product", None).unwrap();
        [
            &b"code ETW0 and more code."[..],
            &[SIGNATURE, &[16, 0, 0, 1][..], &MAGIC.to_le_bytes()].concat(),
            &[0, 0, 4],
            &GUID.0,
            &traits,
            &[0, 6, 11, 4, 1],
            &0x10u64.to_le_bytes(),
            &metadata("Started"),
            &[3, 11, 2, 2],
            &0u64.to_le_bytes(),
            &metadata("Stopped"),
            &[0, 5, 5, 0, 7, 0],
            &1u64.to_le_bytes(),
            &metadata("Old"),
            &[1, 9, 9],
        ]
        .concat()
    }

    #[test]
    fn a_program_names_its_providers_and_the_events_that_it_can_emit() {
        let program = program();
        let found = ProgramMetadata::find(&program);
        assert_eq!(found.warnings, [""; 0]);
        assert_eq!(found.only_provider(), Some(GUID));
        assert_eq!(found.providers[0].traits.name(), b"Maker.Product");
        let names: Vec<_> = found.events.iter().map(|event| event.metadata.name()).collect();
        assert_eq!(names, [&b"Started"[..], b"Stopped", b"Old"]);
        let started = &found.events[0];
        let descriptor = started.descriptor;
        assert_eq!(
            (descriptor.channel.0, descriptor.level.0, descriptor.opcode.0, descriptor.keyword.0),
            (11, 4, 1, 0x10)
        );
        assert_eq!(started.schema().unwrap().fields[0].name, "Size");
        assert_eq!(found.events[2].descriptor.task, 7);
        // The metadata in a pack gives the same names.
        let blobs = to_blobs(&found);
        let again = ProgramMetadata::find(&blobs);
        assert_eq!((again.providers.len(), again.events.len()), (1, 3));
        assert_eq!(again.only_provider(), Some(GUID));
    }

    #[test]
    fn damaged_metadata_ends_at_the_damage_and_a_warning_names_its_offset() {
        let whole = program();
        for cut in 0..whole.len() {
            let found = ProgramMetadata::find(&whole[..cut]);
            assert!(found.events.len() <= 3 && found.warnings.len() <= 1);
        }
        let mut bad = whole.clone();
        let at = whole.len() - metadata("Old").len() - 3 - 13;
        assert_eq!(bad[at], 5);
        bad[at] = 0x77;
        let found = ProgramMetadata::find(&bad);
        assert_eq!(found.events.len(), 2);
        assert_eq!(found.warnings, [format!("bad TraceLogging metadata at offset {at:#x}")]);
    }
}
