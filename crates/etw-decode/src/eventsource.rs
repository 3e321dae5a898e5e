//! Manifests that EventSource writes into the trace, in chunks.
//!
//! ```text
//! event id FFFE, task FFFE, opcode FE
//! 00 u8 format (1)   01 u8 major version   02 u8 minor version   03 u8 5B
//! 04 u16 chunks   06 u16 number of this one, from 0   08 XML, UTF-8
//! ```
//!
//! Source: the EventSource of .NET as published by Microsoft; seen in traces of .NET 4.5 to 8.

use crate::field::{Field, Length};
use crate::manifest;
use crate::schema::{Names, Schema};
use crate::schemas::Schemas;
use etw_tracelogging::{Show, Wire};
use etw_types::{EventRecord, Guid, le};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, OnceLock};

/// Incomplete manifests that are kept at a time.
const LARGEST_PENDING: usize = 64;
/// Chunks of a manifest; .NET writes 64 KiB in each.
const LARGEST_CHUNKS: u16 = 1024;

/// A writer of manifests: provider, process and thread, whose chunks may interleave.
type Writer = (Guid, u32, u32);

#[derive(Clone, Debug)]
struct Pending {
    head: [u8; 3],
    /// In their order; `None` where one is awaited.
    chunks: Vec<Option<Arc<[u8]>>>,
}

/// The manifests of a trace's EventSources.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventSources {
    pending: HashMap<Writer, Pending>,
    /// By provider.
    known: HashMap<Guid, Known, foldhash::fast::RandomState>,
}

/// The newest manifest of a provider.
#[derive(Clone, Debug)]
struct Known {
    head: [u8; 3],
    /// The hash of its text: the same manifest comes again and again.
    hash: u64,
    catalog: Arc<Schemas>,
    text: Arc<[u8]>,
}

/// The header of a chunk and its part of the XML.
fn chunk(payload: &[u8]) -> Option<([u8; 3], u16, u16, &[u8])> {
    let head = [le::u8(payload, 0)?, le::u8(payload, 1)?, le::u8(payload, 2)?];
    let (count, number) = (le::u16(payload, 4)?, le::u16(payload, 6)?);
    let sound = head[0] == 1 && payload[3] == 0x5b && number < count && count <= LARGEST_CHUNKS;
    sound.then_some((head, count, number, &payload[8..]))
}

/// Whether a record is a part of a manifest.
#[inline]
pub(crate) fn is_manifest(record: &EventRecord<'_>) -> bool {
    let descriptor = &record.descriptor;
    descriptor.id == 0xfffe
        && descriptor.opcode.0 == 0xfe
        && record.header.is_event()
        && record.payload.get(3) == Some(&0x5b)
}

impl EventSources {
    /// Takes a chunk of a manifest; returns the bytes that are kept because of it. Chunks may come in any order.
    ///
    /// # Loss
    /// A manifest with lost chunks is never complete; the next manifest of the same writer starts over.
    pub fn learn(&mut self, record: &EventRecord<'_>, room: usize) -> Option<usize> {
        let (head, count, number, text) = chunk(record.payload)?;
        let provider = record.provider?;
        if text.len() > room {
            return None;
        }
        let writer = (provider, record.process_id.unwrap_or(0), record.thread_id.unwrap_or(0));
        if count == 1 {
            return self.complete(provider, head, text, room);
        }
        if !self.pending.contains_key(&writer) && self.pending.len() >= LARGEST_PENDING {
            self.pending.clear();
        }
        let new = || Pending { head, chunks: vec![None; usize::from(count)] };
        let pending = self.pending.entry(writer).or_insert_with(new);
        let slot = usize::from(number);
        let is_other = pending.head != head || pending.chunks.len() != usize::from(count);
        if is_other || pending.chunks[slot].is_some() {
            *pending = new();
        }
        pending.chunks[slot] = Some(text.into());
        if pending.chunks.iter().any(Option::is_none) {
            return Some(text.len());
        }
        let whole: Vec<u8> = self
            .pending
            .remove(&writer)?
            .chunks
            .into_iter()
            .flatten()
            .flat_map(|c| c.to_vec())
            .collect();
        Some(text.len() + self.complete(provider, head, &whole, room)?)
    }

    /// An older version does not replace a newer one.
    fn complete(
        &mut self,
        provider: Guid,
        head: [u8; 3],
        text: &[u8],
        room: usize,
    ) -> Option<usize> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
        let known = self.known.get(&provider);
        if known.is_some_and(|known| known.head > head || (known.head, known.hash) == (head, hash))
        {
            return Some(0);
        }
        let Ok(parsed) = manifest::parse_within(text, room) else { return Some(0) };
        let size = parsed.size + text.len();
        if size > room {
            return None;
        }
        let mut catalog = Schemas::default();
        for mut one in parsed.providers {
            // A source describes itself alone: the GUID of the record counts, not the one in the text.
            one.guid = provider;
            one.control_guid = None;
            catalog.add_provider(one);
        }
        let known = Known { head, hash, catalog: Arc::new(catalog), text: text.into() };
        self.known.insert(provider, known);
        Some(size)
    }

    /// Each provider and its manifest.
    pub fn texts(&self) -> impl Iterator<Item = (Guid, &[u8])> {
        self.known.iter().map(|(guid, known)| (*guid, &*known.text))
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    #[inline]
    pub fn catalog(&self, provider: &Guid) -> Option<&Schemas> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(provider).map(|known| &*known.catalog)
    }
}

/// The schema of the chunks themselves.
pub(crate) fn chunk_schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let plain = |name: &str, wire| Field::new(name, wire, Show::Plain);
        let fields = vec![
            plain("Format", Wire::U8),
            plain("MajorVersion", Wire::U8),
            plain("MinorVersion", Wire::U8),
            plain("Magic", Wire::U8),
            plain("TotalChunks", Wire::U16),
            plain("ChunkNumber", Wire::U16),
            Field { length: Length::Own, ..Field::new("Manifest", Wire::RestAnsi, Show::Utf8) },
        ];
        let names = Names { event: Some("ManifestData".into()), ..Names::default() };
        let count = fields.len();
        Schema::new(names, fields, count)
    })
}
