//! A chunk under construction.
//!
//! The first use of a name or template in a chunk carries it inline; later ones name its offset. New entries go to the
//! head of their bucket's chain.

use std::collections::HashMap;

use etw_types::{FileTime, Guid};

use crate::Error;
use crate::layout::{
    CHUNK_SIZE, ChunkHeader, FIRST_RECORD, NAME_BUCKETS, RECORD_HEADER_SIZE, RECORD_SIGNATURE,
    SUMMARY_SIZE, TEMPLATE_BUCKETS, name_hash, template_bucket,
};
use crate::parse::{FRAGMENT_HEADER, token};
use crate::summary::Collected;
use crate::tree::{Argument, Element, Fragment, Instance, Node, Template};
use crate::value::ValueType;

/// A chunk to which records are added.
#[derive(Clone, Debug)]
pub struct ChunkWriter {
    bytes: Vec<u8>,
    names: HashMap<String, u32>,
    templates: HashMap<Guid, u32>,
    first_id: u64,
    last_id: u64,
    last_record: u32,
    /// Checksum of the records.
    checksum: crc32fast::Hasher,
    summary: Collected,
    /// Names and templates that the record being written has added, removed again if it does not fit.
    added_names: Vec<String>,
    added_templates: Vec<Guid>,
}

impl Default for ChunkWriter {
    fn default() -> ChunkWriter {
        ChunkWriter {
            bytes: vec![0; FIRST_RECORD],
            names: HashMap::new(),
            templates: HashMap::new(),
            first_id: 0,
            last_id: 0,
            last_record: 0,
            checksum: crc32fast::Hasher::new(),
            summary: Collected::Empty,
            added_names: Vec::new(),
            added_templates: Vec::new(),
        }
    }
}

impl ChunkWriter {
    /// An empty chunk.
    pub fn new() -> ChunkWriter {
        ChunkWriter::default()
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.last_record == 0
    }

    /// Id of the first record; 0 without one.
    pub fn first_id(&self) -> u64 {
        self.first_id
    }

    /// Id of the last record; 0 without one.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// Bytes in use: the header, the tables and the records.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a record; `false`: it does not fit, and the chunk is as it was.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`]: it would not fit an empty chunk.
    pub fn push(
        &mut self,
        id: u64,
        time: FileTime,
        fragment: &Fragment<'_>,
    ) -> Result<bool, Error> {
        self.push_within(CHUNK_SIZE, id, time, fragment)
    }

    /// As [`push`](Self::push), for a chunk that has at most so many bytes with the record.
    pub(super) fn push_within(
        &mut self,
        most: usize,
        id: u64,
        time: FileTime,
        fragment: &Fragment<'_>,
    ) -> Result<bool, Error> {
        let start = self.bytes.len();
        let tables: [u8; FIRST_RECORD - NAME_BUCKETS] = self.tables();
        self.bytes.extend_from_slice(&RECORD_SIGNATURE.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&id.to_le_bytes());
        self.bytes.extend_from_slice(&time.0.to_le_bytes());
        debug_assert_eq!(self.bytes.len(), start + RECORD_HEADER_SIZE);
        let is_sound = self.fragment(fragment);
        // The size stands at both ends, and is a multiple of eight.
        let size = (self.bytes.len() + 4 - start).next_multiple_of(8);
        self.bytes.resize(start + size, 0);
        if !is_sound || self.bytes.len() > most {
            let is_first = self.is_empty();
            self.undo(start, &tables);
            return match is_first {
                true => Err(Error::DoesNotFit { size }),
                false => Ok(false),
            };
        }
        let size = (size as u32).to_le_bytes();
        self.bytes[start + 4..start + 8].copy_from_slice(&size);
        let end = self.bytes.len();
        self.bytes[end - 4..].copy_from_slice(&size);
        self.checksum.update(&self.bytes[start..]);
        self.summary.add(fragment);
        if self.is_empty() {
            self.first_id = id;
        }
        self.last_id = id;
        self.last_record = start as u32;
        self.added_names.clear();
        self.added_templates.clear();
        Ok(true)
    }

    fn tables(&self) -> [u8; FIRST_RECORD - NAME_BUCKETS] {
        let mut tables = [0; FIRST_RECORD - NAME_BUCKETS];
        tables.copy_from_slice(&self.bytes[NAME_BUCKETS..FIRST_RECORD]);
        tables
    }

    fn undo(&mut self, start: usize, tables: &[u8]) {
        self.bytes.truncate(start);
        self.bytes[NAME_BUCKETS..FIRST_RECORD].copy_from_slice(tables);
        for name in self.added_names.drain(..) {
            self.names.remove(&name);
        }
        for guid in self.added_templates.drain(..) {
            self.templates.remove(&guid);
        }
    }

    /// The chunk's 65536 bytes, with header and checksums, as Windows writes them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.resize(CHUNK_SIZE, 0);
        bytes[..FIRST_RECORD].copy_from_slice(&self.head_with(&[0; SUMMARY_SIZE]));
        bytes
    }

    /// The header and the tables, with checksums and a summary of the records.
    pub(super) fn head(&self) -> [u8; FIRST_RECORD] {
        self.head_with(&self.summary.to_bytes(self.bytes.len() as u32))
    }

    /// The header and the tables of the chunk as it was before its first record, which is known.
    pub(super) fn empty_head(&self) -> [u8; FIRST_RECORD] {
        let before = ChunkWriter {
            first_id: self.first_id,
            last_id: self.first_id.wrapping_sub(1),
            ..ChunkWriter::default()
        };
        before.head()
    }

    fn head_with(&self, summary: &[u8; SUMMARY_SIZE]) -> [u8; FIRST_RECORD] {
        let mut head = [0; FIRST_RECORD];
        head.copy_from_slice(&self.bytes[..FIRST_RECORD]);
        let header = ChunkHeader {
            first_number: self.first_id,
            last_number: self.last_id,
            first_id: self.first_id,
            last_id: self.last_id,
            last_record: self.last_record,
            free: self.bytes.len() as u32,
            records_checksum: 0,
            flags: 1,
            header_checksum: 0,
        };
        header.put_all(&mut head, self.checksum.clone().finalize(), summary);
        head
    }

    /// The bytes of all records.
    pub(super) fn records(&self) -> &[u8] {
        &self.bytes[FIRST_RECORD..]
    }

    fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Sets a u32 that was left open to the bytes written behind it.
    fn close_size(&mut self, at: usize) {
        let size = (self.bytes.len() - at - 4) as u32;
        self.bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
    }

    fn open_size(&mut self) -> usize {
        let at = self.bytes.len();
        self.u32(0);
        at
    }

    /// `false`: something is longer than its size field can say.
    fn fragment(&mut self, fragment: &Fragment<'_>) -> bool {
        let has_header = !matches!(fragment, Fragment::Instance(one) if !one.has_header);
        if has_header {
            self.bytes.extend_from_slice(&FRAGMENT_HEADER);
        }
        let is_sound = match fragment {
            Fragment::Instance(instance) => self.instance(instance),
            Fragment::Nodes(nodes) => self.nodes(nodes, false),
        };
        self.bytes.push(token::END_OF_FRAGMENT);
        is_sound
    }

    fn instance(&mut self, instance: &Instance<'_>) -> bool {
        let template = &*instance.template;
        self.bytes.extend_from_slice(&[token::TEMPLATE, 1]);
        self.bytes.extend_from_slice(&template.guid.0[..4]);
        if !self.template(template) {
            return false;
        }
        let count = instance.arguments.len();
        self.u32(count as u32);
        let descriptors = self.bytes.len();
        self.bytes.resize(descriptors + count * 4, 0);
        for (index, argument) in instance.arguments.iter().enumerate() {
            let at = self.bytes.len();
            let value_type = match argument {
                Argument::Value(value) => {
                    self.bytes.extend_from_slice(value.bytes);
                    value.value_type
                }
                Argument::Fragment(fragment) => {
                    if self.bytes.len() > CHUNK_SIZE || !self.fragment(fragment) {
                        return false;
                    }
                    ValueType::FRAGMENT
                }
            };
            let Ok(size) = u16::try_from(self.bytes.len() - at) else { return false };
            let descriptor = &mut self.bytes[descriptors + index * 4..][..4];
            descriptor[..2].copy_from_slice(&size.to_le_bytes());
            descriptor[2] = value_type.0;
        }
        true
    }

    /// The offset of a definition, and the definition where it is new.
    fn template(&mut self, template: &Template) -> bool {
        if let Some(known) = self.templates.get(&template.guid) {
            self.u32(*known);
            return true;
        }
        let offset = self.bytes.len() as u32 + 4;
        self.u32(offset);
        let next = self.insert(TEMPLATE_BUCKETS, template_bucket(&template.guid), offset);
        self.templates.insert(template.guid, offset);
        self.added_templates.push(template.guid);
        self.u32(next);
        self.bytes.extend_from_slice(&template.guid.0);
        let size = self.open_size();
        self.bytes.extend_from_slice(&FRAGMENT_HEADER);
        let is_sound = self.nodes(&template.nodes, true);
        self.bytes.push(token::END_OF_FRAGMENT);
        self.close_size(size);
        is_sound
    }

    /// Puts an offset at the head of a bucket's chain; what was there comes next.
    fn insert(&mut self, table: usize, bucket: usize, offset: u32) -> u32 {
        let head = &mut self.bytes[table + bucket * 4..][..4];
        let next = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        head.copy_from_slice(&offset.to_le_bytes());
        next
    }

    fn name(&mut self, name: &str) -> bool {
        if let Some(known) = self.names.get(name) {
            self.u32(*known);
            return true;
        }
        let offset = self.bytes.len() as u32 + 4;
        self.u32(offset);
        let hash = name_hash(name);
        let next = self.insert(NAME_BUCKETS, usize::from(hash) % 64, offset);
        self.names.insert(name.to_owned(), offset);
        self.added_names.push(name.to_owned());
        self.u32(next);
        self.u16(hash);
        let is_sound = self.text(name);
        self.u16(0);
        is_sound
    }

    /// u16 units, then UTF-16.
    fn text(&mut self, text: &str) -> bool {
        let Ok(units) = u16::try_from(text.encode_utf16().count()) else { return false };
        self.u16(units);
        self.bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        true
    }

    fn nodes(&mut self, nodes: &[Node], in_definition: bool) -> bool {
        // A chunk that is over its size already will be undone: no more than one node is written then.
        nodes.iter().enumerate().all(|(index, node)| {
            self.bytes.len() <= 2 * CHUNK_SIZE
                && match node {
                    Node::Element(element) => self.element(element, in_definition),
                    other => {
                        let has_more = nodes[index + 1..]
                            .first()
                            .is_some_and(|next| !matches!(next, Node::Element(_)));
                        self.piece(other, has_more)
                    }
                }
        })
    }

    fn element(&mut self, element: &Element, in_definition: bool) -> bool {
        let has_attributes = !element.attributes.is_empty();
        self.bytes.push(token::OPEN | if has_attributes { token::MORE } else { 0 });
        if in_definition {
            self.u16(element.dependency.unwrap_or(u16::MAX));
        }
        let size = self.open_size();
        let mut is_sound = self.name(&element.name);
        if has_attributes {
            let attributes_size = self.open_size();
            let last = element.attributes.len() - 1;
            for (index, attribute) in element.attributes.iter().enumerate() {
                let more = if index < last { token::MORE } else { 0 };
                self.bytes.push(token::ATTRIBUTE | more);
                is_sound &= self.name(&attribute.name);
                is_sound &= self.nodes(&attribute.value, in_definition);
            }
            self.close_size(attributes_size);
        }
        if element.is_empty {
            self.bytes.push(token::CLOSE_EMPTY);
        } else {
            self.bytes.push(token::CLOSE_START);
            is_sound &= self.nodes(&element.children, in_definition);
            self.bytes.push(token::END);
        }
        self.close_size(size);
        is_sound
    }

    fn piece(&mut self, node: &Node, has_more: bool) -> bool {
        let more = if has_more { token::MORE } else { 0 };
        match node {
            Node::Text(text) => {
                self.bytes.extend_from_slice(&[token::VALUE | more, ValueType::STRING.0]);
                self.text(text)
            }
            Node::CData(text) => {
                self.bytes.push(token::CDATA | more);
                self.text(text)
            }
            Node::CharacterReference(code) => {
                self.bytes.push(token::CHARACTER | more);
                self.u16(*code);
                true
            }
            Node::EntityReference(name) => {
                self.bytes.push(token::ENTITY | more);
                self.name(name)
            }
            Node::Instruction(target, data) => {
                self.bytes.push(token::INSTRUCTION_TARGET);
                let is_sound = self.name(target);
                self.bytes.push(token::INSTRUCTION_DATA);
                is_sound & self.text(data)
            }
            Node::Substitution(one) => {
                self.bytes.push(match one.is_optional {
                    true => token::OPTIONAL_SUBSTITUTION,
                    false => token::SUBSTITUTION,
                });
                self.u16(one.index);
                self.bytes.push(one.value_type.0);
                true
            }
            Node::Element(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{Chunk, Options};
    use crate::tree::{Argument, Attribute};
    use crate::tree::{Element, Instance, Node, Substitution, Template};
    use crate::value::{Value, ValueType};
    use etw_types::Guid;
    use std::sync::Arc;

    fn template(name: &str) -> Arc<Template> {
        let value = Node::Substitution(Substitution {
            index: 0,
            is_optional: false,
            value_type: ValueType::UINT32,
        });
        let attribute = Attribute { name: "Name".into(), value: vec![Node::Text(name.into())] };
        let data = Element {
            name: "Data".into(),
            dependency: None,
            attributes: vec![attribute],
            children: vec![value],
            is_empty: false,
        };
        Arc::new(Template::new(Guid::from_name(name), vec![Node::Element(data)]))
    }

    fn instance<'a>(template: &Arc<Template>, bytes: &'a [u8]) -> Fragment<'a> {
        Fragment::Instance(Instance {
            template: template.clone(),
            arguments: vec![Argument::Value(Value { value_type: ValueType::UINT32, bytes })],
            has_header: true,
        })
    }

    #[test]
    fn a_record_that_does_not_fit_leaves_the_chunk_as_it_was() {
        let mut chunk = ChunkWriter::new();
        let small = template("small");
        let mut pushed = 0u64;
        let before = loop {
            let before = chunk.to_bytes();
            if !chunk.push(pushed + 1, FileTime(1), &instance(&small, &[7; 4])).unwrap() {
                break before;
            }
            pushed += 1;
        };
        assert!(chunk.to_bytes() == before);
        // Neither does one with a template of its own.
        assert!(
            !chunk.push(pushed + 1, FileTime(1), &instance(&template("other"), &[7; 4])).unwrap()
        );
        assert!(chunk.to_bytes() == before);
        let mut read = Chunk::new(before, 0, Options::default());
        let mut records = 0;
        while let Some(record) = read.next() {
            records += 1;
            assert_eq!(record.id(), records);
            assert_eq!(record.to_xml().unwrap(), "<Data Name='small'>117901063</Data>");
        }
        assert_eq!(records, pushed);
        assert_eq!(read.take_damage(), []);
    }

    #[test]
    fn a_record_larger_than_a_chunk_is_refused() {
        let value = vec![1; 64500];
        let mut chunk = ChunkWriter::new();
        assert!(chunk.push(1, FileTime(1), &instance(&template("x"), &value)).is_ok());
        let value = vec![1; 65500];
        let refused = ChunkWriter::new().push(1, FileTime(1), &instance(&template("x"), &value));
        assert!(matches!(refused, Err(Error::DoesNotFit { .. })));
    }

    /// A log that was cleared has stale records with higher ids behind its own ones. They stay stale if a record is damaged, or the
    /// header, unless both are.
    #[test]
    fn damage_does_not_bring_stale_records_back() {
        let template = template("value");
        let chunk = |count: u64| {
            let mut chunk = ChunkWriter::new();
            for id in 1..=count {
                assert!(chunk.push(id, FileTime(1), &instance(&template, &[7; 4])).unwrap());
            }
            (chunk.size(), chunk.to_bytes())
        };
        let ((_, stale), (free, mut bytes)) = (chunk(30), chunk(5));
        bytes[free..].copy_from_slice(&stale[free..]);
        let read = |bytes: &[u8]| {
            let mut chunk = Chunk::new(bytes.to_vec(), 0, Options::default());
            let mut ids = Vec::new();
            while let Some(record) = chunk.next() {
                ids.push(record.id());
            }
            (ids, chunk.take_damage().len())
        };
        assert_eq!(read(&bytes), (vec![1, 2, 3, 4, 5], 0));
        let (value, checksum) = (free - 8, 52);
        assert_eq!(bytes[value], 7);
        for (at, damage) in [(value, 1), (checksum, 2)] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(read(&changed), (vec![1, 2, 3, 4, 5], damage), "byte {at}");
        }
        // Without a header that can be trusted, everything is searched.
        bytes[checksum] ^= 1;
        bytes[free - 4] ^= 8;
        assert!(read(&bytes).0.len() > 5);
    }
}
