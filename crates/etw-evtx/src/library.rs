//! [`Library`]: the templates of all chunks of a log.
//!
//! Each chunk has the definition of each template that its records use. The definitions of a template in two chunks differ in
//! offsets alone. The library finds the template of a definition by its bytes, so that most chunks need not have their definitions
//! parsed, and what is computed for a template is computed once for a log.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use etw_types::{Guid, le};

use crate::tree::{Node, Template};

/// Bytes of the definitions that a library keeps. Templates beyond it are parsed in each chunk.
const MAX_BYTES: usize = 1 << 19;
/// Forms of one template that a library keeps: names are inline in some chunks and elsewhere in others.
const MAX_IMAGES: usize = 8;
/// Bytes of a definition in front of its content: `u32 next in the bucket, GUID, u32 size`.
pub(crate) const DEFINITION_HEADER: usize = 24;

/// The templates of a log that were read so far.
#[derive(Debug, Default)]
pub(crate) struct Library {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    templates: HashMap<Guid, Vec<Entry>>,
    size: usize,
}

#[derive(Debug)]
struct Entry {
    template: Template,
    images: Vec<Image>,
}

/// A definition as it was in one chunk.
#[derive(Debug)]
struct Image {
    /// From the GUID on.
    bytes: Vec<u8>,
    names: Vec<NameUse>,
}

/// A reference to a name in a definition.
#[derive(Debug)]
struct NameUse {
    /// Offset of the reference, an `u32`, in the image.
    at: usize,
    /// The name's UTF-16; `None`: its entry is inline behind the reference.
    elsewhere: Option<Vec<u8>>,
}

/// A definition in a chunk that was parsed.
pub(crate) struct Definition<'a> {
    pub chunk: &'a [u8],
    /// Offset in the chunk.
    pub at: usize,
    /// Offset behind it.
    pub end: usize,
    /// Offsets of the references to names, in order.
    pub names: &'a [usize],
}

impl Library {
    /// The template whose definition stands at an offset of a chunk, if the library knows a definition with the same content.
    pub fn find(&self, chunk: &[u8], at: usize) -> Option<Template> {
        let guid = Guid::read(chunk, at.checked_add(4)?)?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut entries = known.templates.get(&guid)?.iter();
        let entry = entries.find(|entry| {
            entry.images.iter().any(|image| image.is_at(chunk, at + 4).unwrap_or(false))
        })?;
        Some(entry.template.clone())
    }

    /// A template of the parsed content of a definition, which shares all that it can with the equal template of another chunk.
    pub fn template(&self, guid: Guid, nodes: Vec<Node>, definition: &Definition<'_>) -> Template {
        let template = Template::new(guid, nodes);
        let Some(image) = Image::of(definition) else { return template };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let size = image.bytes.len();
        if known.size + size > MAX_BYTES {
            return template;
        }
        let entries = known.templates.entry(guid).or_default();
        let Some(entry) = entries.iter_mut().find(|entry| entry.template.nodes == template.nodes)
        else {
            entries.push(Entry { template: template.clone(), images: vec![image] });
            known.size += size;
            return template;
        };
        let equal = entry.template.clone();
        if entry.images.len() < MAX_IMAGES {
            entry.images.push(image);
            known.size += size;
        }
        equal
    }
}

impl Image {
    fn of(definition: &Definition<'_>) -> Option<Image> {
        let Definition { chunk, at, end, names } = *definition;
        let start = at + 4;
        let names = names.iter().map(|name| {
            let elsewhere = match le::u32(chunk, *name)? as usize {
                offset if offset == *name + 4 => None,
                offset => Some(name_at(chunk, offset)?.to_vec()),
            };
            Some(NameUse { at: name.checked_sub(start)?, elsewhere })
        });
        let names = names.collect::<Option<Vec<NameUse>>>()?;
        Some(Image { bytes: chunk.get(start..end)?.to_vec(), names })
    }

    /// Whether the definition whose GUID stands at an offset of a chunk has the same content. Offsets may differ.
    fn is_at(&self, chunk: &[u8], at: usize) -> Option<bool> {
        let other = chunk.get(at..at.checked_add(self.bytes.len())?)?;
        let mut done = 0;
        for name in &self.names {
            if self.bytes.get(done..name.at)? != other.get(done..name.at)? {
                return Some(false);
            }
            let inline = at + name.at + 4;
            let offset = le::u32(other, name.at)? as usize;
            done = name.at + 4;
            match &name.elsewhere {
                // The entry starts with the next one's offset.
                None if offset == inline => done += 4,
                Some(text) if offset != inline && name_at(chunk, offset)? == text => {}
                _ => return Some(false),
            }
        }
        Some(self.bytes.get(done..)? == other.get(done..)?)
    }
}

/// The UTF-16 of the name whose entry is at an offset: `u32 next, u16 hash, u16 units, UTF-16`.
pub(crate) fn name_at(chunk: &[u8], offset: usize) -> Option<&[u8]> {
    let units = usize::from(le::u16(chunk, offset.checked_add(6)?)?);
    chunk.get(offset + 8..offset + 8 + units * 2)
}
