//! Binary XML, from the bytes of a chunk to trees.
//!
//! Names and templates are found by their offset in the chunk; the first use carries them inline. Work is bounded by
//! the chunk's size: each node takes at least one byte, and each template is read once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use etw_types::{Guid, le};

use crate::Error;
use crate::facts::Facts;
use crate::library::{DEFINITION_HEADER, Definition, Library, name_at};
use crate::tree::{
    Argument, Attribute, Element, Fragment, Instance, MAX_DEPTH, Name, Node, Substitution, Template,
};
use crate::value::{Value, ValueType};

/// Tokens. Those with bit 6 set have more behind them: attributes, or another piece of the same list.
pub(crate) mod token {
    pub const END_OF_FRAGMENT: u8 = 0x00;
    pub const OPEN: u8 = 0x01;
    pub const CLOSE_START: u8 = 0x02;
    pub const CLOSE_EMPTY: u8 = 0x03;
    pub const END: u8 = 0x04;
    pub const VALUE: u8 = 0x05;
    pub const ATTRIBUTE: u8 = 0x06;
    pub const CDATA: u8 = 0x07;
    pub const CHARACTER: u8 = 0x08;
    pub const ENTITY: u8 = 0x09;
    pub const INSTRUCTION_TARGET: u8 = 0x0a;
    pub const INSTRUCTION_DATA: u8 = 0x0b;
    pub const TEMPLATE: u8 = 0x0c;
    pub const SUBSTITUTION: u8 = 0x0d;
    pub const OPTIONAL_SUBSTITUTION: u8 = 0x0e;
    pub const FRAGMENT: u8 = 0x0f;
    pub const MORE: u8 = 0x40;
}

/// The header of a fragment: token, version 1.1, no flags.
pub(crate) const FRAGMENT_HEADER: [u8; 4] = [token::FRAGMENT, 1, 1, 0];

/// Names and templates of a chunk that were read before.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    names: HashMap<u32, Name, OffsetHashes>,
    /// Their own for each chunk: threads that read different chunks count no references in the same memory.
    templates: Vec<Arc<Template>>,
    /// The number of a template, by the offset of its definition.
    numbers: HashMap<u32, usize, OffsetHashes>,
    /// The one that was found last.
    last: Option<(u32, usize)>,
    library: Arc<Library>,
    /// Offsets of the names of the definition that is being read.
    names_of_definition: Vec<usize>,
    /// Offset and expectation of the first value of this record that is no fragment although its type says so.
    pub bad_value: Option<(usize, &'static str)>,
}

type OffsetHashes = BuildHasherDefault<OffsetHasher>;

/// Hashes offsets. A chunk has a few thousand at most, also one that was made to have equal hashes.
#[derive(Debug, Default)]
struct OffsetHasher(u64);

impl Hasher for OffsetHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, offset: u32) {
        self.0 = (self.0 ^ u64::from(offset)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// The start of a template instance.
struct InstanceHead<'a> {
    template: Arc<Template>,
    descriptors: &'a [u8],
}

impl Cache {
    /// Forgets one chunk, and makes ready for a chunk of the log with this library.
    pub fn restart(&mut self, library: &Arc<Library>) {
        self.names.clear();
        self.templates.clear();
        self.numbers.clear();
        self.last = None;
        self.names_of_definition.clear();
        self.bad_value = None;
        if !Arc::ptr_eq(&self.library, library) {
            self.library = library.clone();
        }
    }

    /// The number of the template at an offset of the chunk among those of the cache, if it was read or the library knows it.
    #[inline]
    pub fn find(&mut self, chunk: &[u8], offset: u32) -> Option<usize> {
        match self.last {
            Some((last, index)) if last == offset => return Some(index),
            _ => {}
        }
        if let Some(index) = self.numbers.get(&offset) {
            self.last = Some((offset, *index));
            return Some(*index);
        }
        let template = self.library.find(chunk, offset as usize)?;
        Some(self.add(offset, Arc::new(template)))
    }

    fn add(&mut self, offset: u32, template: Arc<Template>) -> usize {
        self.templates.push(template);
        self.numbers.insert(offset, self.templates.len() - 1);
        self.templates.len() - 1
    }

    /// The facts of a template that was found.
    #[inline]
    pub fn facts(&self, index: usize) -> &Facts {
        &self.templates[index].facts
    }

    /// The facts of the template at an offset of the chunk, if it was found before.
    #[inline]
    pub fn known(&self, offset: u32) -> Option<&Facts> {
        self.numbers.get(&offset).map(|index| self.facts(*index))
    }
}

/// A position in a chunk, and the end of what may be read.
pub(crate) struct Parser<'a, 'c> {
    chunk: &'a [u8],
    at: usize,
    end: usize,
    cache: &'c mut Cache,
}

impl<'a, 'c> Parser<'a, 'c> {
    /// Reads `chunk[at..end]`.
    pub fn new(chunk: &'a [u8], at: usize, end: usize, cache: &'c mut Cache) -> Parser<'a, 'c> {
        Parser { chunk, at, end: end.min(chunk.len()), cache }
    }

    fn corrupt<T>(&self, expected: &'static str) -> Result<T, Error> {
        Err(Error::Corrupt { offset: self.at, expected })
    }

    fn bytes(&mut self, size: usize) -> Result<&'a [u8], Error> {
        match self.at.checked_add(size).filter(|end| *end <= self.end) {
            Some(end) => {
                let bytes = &self.chunk[self.at..end];
                self.at = end;
                Ok(bytes)
            }
            None => self.corrupt("more bytes before the end of the record"),
        }
    }

    fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.bytes(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, Error> {
        let bytes = self.bytes(2)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Result<u32, Error> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn peek(&self) -> Option<u8> {
        if self.at < self.end { Some(self.chunk[self.at]) } else { None }
    }

    /// A fragment: its header, then a template instance or elements, up to its end.
    pub fn fragment(&mut self, depth: usize) -> Result<Fragment<'a>, Error> {
        if depth > MAX_DEPTH {
            return self.corrupt("fewer fragments inside of each other");
        }
        // In a value, Windows 10 writes template instances without a header, too.
        let has_header = depth == 0 || self.peek() != Some(token::TEMPLATE);
        if has_header {
            self.fragment_header()?;
        }
        if self.peek() == Some(token::TEMPLATE) {
            return Ok(Fragment::Instance(Instance { has_header, ..self.instance(depth)? }));
        }
        Ok(Fragment::Nodes(self.nodes(false, depth)?))
    }

    fn fragment_header(&mut self) -> Result<(), Error> {
        let at = self.at;
        if self.u8()? != token::FRAGMENT {
            self.at = at;
            return self.corrupt("a fragment header (0F)");
        }
        self.bytes(3)?;
        Ok(())
    }

    /// ```text
    /// 0C   u8 1   u32 template id   u32 offset of the definition   [the definition, where it stands here]
    /// u32 count   count × { u16 size, u8 type, u8 0 }   values
    /// ```
    fn instance_head(&mut self) -> Result<InstanceHead<'a>, Error> {
        self.bytes(2)?;
        let _id = self.u32()?;
        let offset = self.u32()?;
        let template = self.template(offset)?;
        let count = self.u32()? as usize;
        if count > (self.end - self.at) / 4 {
            return self.corrupt("no more values than the record has bytes for");
        }
        Ok(InstanceHead { template, descriptors: self.bytes(count * 4)? })
    }

    fn instance(&mut self, depth: usize) -> Result<Instance<'a>, Error> {
        let InstanceHead { template, descriptors } = self.instance_head()?;
        let mut arguments = Vec::with_capacity(descriptors.len() / 4);
        for descriptor in descriptors.chunks_exact(4) {
            let size = usize::from(u16::from_le_bytes([descriptor[0], descriptor[1]]));
            let value_type = ValueType(descriptor[2]);
            let at = self.at;
            let bytes = self.bytes(size)?;
            arguments.push(if value_type == ValueType::FRAGMENT && size > 0 {
                let end = self.at;
                let mut inner = Parser { chunk: self.chunk, at, end, cache: &mut *self.cache };
                match inner.fragment(depth + 1) {
                    Ok(fragment) => Argument::Fragment(Box::new(fragment)),
                    // The event's other values are good.
                    Err(Error::Corrupt { offset, expected }) => {
                        self.cache.bad_value.get_or_insert((offset, expected));
                        Argument::Value(Value { value_type, bytes })
                    }
                    Err(error) => return Err(error),
                }
            } else {
                Argument::Value(Value { value_type, bytes })
            });
        }
        Ok(Instance { template, arguments, has_header: true })
    }

    /// The definition at an offset of the chunk; where that is here, it is passed over.
    ///
    /// ```text
    /// u32 next in the bucket   GUID   u32 size   fragment of that size
    /// ```
    fn template(&mut self, offset: u32) -> Result<Arc<Template>, Error> {
        let at = offset as usize;
        let is_inline = at == self.at;
        let Some(size) = le::u32(self.chunk, at.saturating_add(20)) else {
            return self.corrupt("the offset of a template inside of the chunk");
        };
        let body = at + DEFINITION_HEADER;
        let end = body.saturating_add(size as usize);
        if end > self.chunk.len() || is_inline && end > self.end {
            return self.corrupt("a template that ends inside of the chunk");
        }
        if is_inline {
            self.at = end;
        }
        if let Some(index) = self.cache.find(self.chunk, offset) {
            return Ok(self.cache.templates[index].clone());
        }
        let guid = Guid::read(self.chunk, at + 4).unwrap_or_default();
        self.cache.names_of_definition.clear();
        let mut inner = Parser { chunk: self.chunk, at: body, end, cache: &mut *self.cache };
        inner.fragment_header()?;
        let nodes = inner.nodes(true, 0)?;
        let names = &self.cache.names_of_definition;
        let definition = Definition { chunk: self.chunk, at, end, names };
        let template = Arc::new(self.cache.library.template(guid, nodes, &definition));
        template.plan();
        self.cache.add(offset, template.clone());
        Ok(template)
    }

    /// Nodes up to the end of the fragment, or of the element around them. Elements of a definition have a
    /// dependency, others have none.
    fn nodes(&mut self, in_definition: bool, depth: usize) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        while let Some(token) = self.peek() {
            let node = match token & !token::MORE {
                token::END_OF_FRAGMENT | token::END => {
                    self.at += 1;
                    break;
                }
                token::OPEN => Node::Element(self.element(in_definition, depth + 1)?),
                _ => match self.piece()? {
                    Some(piece) => piece,
                    None => return self.corrupt("an element, text or a value"),
                },
            };
            nodes.push(node);
        }
        Ok(nodes)
    }

    /// ```text
    /// 01 or 41   [u16 dependency]   u32 size   name   [41: u32 size of the attributes, attributes]
    /// 02 content 04, or 03
    /// ```
    fn element(&mut self, in_definition: bool, depth: usize) -> Result<Element, Error> {
        if depth > MAX_DEPTH {
            return self.corrupt("fewer elements inside of each other");
        }
        let has_attributes = self.u8()? & token::MORE != 0;
        let dependency = match in_definition {
            true => Some(self.u16()?).filter(|index| *index != u16::MAX),
            false => None,
        };
        let _size = self.u32()?;
        let name = self.name()?;
        let mut attributes = Vec::new();
        if has_attributes {
            let _size = self.u32()?;
            while self.peek().is_some_and(|token| token & !token::MORE == token::ATTRIBUTE) {
                self.at += 1;
                let name = self.name()?;
                let mut value = Vec::new();
                while let Some(piece) = self.piece()? {
                    value.push(piece);
                }
                attributes.push(Attribute { name, value });
            }
        }
        let (children, is_empty) = match self.u8()? {
            token::CLOSE_START => (self.nodes(in_definition, depth)?, false),
            token::CLOSE_EMPTY => (Vec::new(), true),
            _ => {
                self.at -= 1;
                return self.corrupt("the end of a start tag (02 or 03)");
            }
        };
        Ok(Element { name, dependency, attributes, children, is_empty })
    }

    /// One piece of text or a substitution; `None`: something else stands here.
    fn piece(&mut self) -> Result<Option<Node>, Error> {
        let Some(token) = self.peek() else { return Ok(None) };
        let kind = token & !token::MORE;
        if !matches!(
            kind,
            token::VALUE | token::CDATA
                ..=token::INSTRUCTION_TARGET | token::SUBSTITUTION | token::OPTIONAL_SUBSTITUTION
        ) {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(match kind {
            token::VALUE => {
                if ValueType(self.u8()?) != ValueType::STRING {
                    self.at -= 1;
                    return self.corrupt("constant text of type string (01)");
                }
                Node::Text(self.text()?)
            }
            token::CDATA => Node::CData(self.text()?),
            token::CHARACTER => Node::CharacterReference(self.u16()?),
            token::ENTITY => Node::EntityReference(self.name()?),
            token::INSTRUCTION_TARGET => {
                let target = self.name()?;
                let data = match self.peek() {
                    Some(token::INSTRUCTION_DATA) => {
                        self.at += 1;
                        self.text()?
                    }
                    _ => String::new(),
                };
                Node::Instruction(target, data)
            }
            _ => {
                let index = self.u16()?;
                let value_type = ValueType(self.u8()?);
                let is_optional = kind == token::OPTIONAL_SUBSTITUTION;
                Node::Substitution(Substitution { index, is_optional, value_type })
            }
        }))
    }

    /// `u16` units, then UTF-16.
    fn text(&mut self) -> Result<String, Error> {
        let units = usize::from(self.u16()?);
        Ok(le::utf16_lossy(self.bytes(units * 2)?))
    }

    /// A name by its offset; where that is here, its entry is passed over.
    ///
    /// ```text
    /// u32 next in the bucket   u16 hash   u16 units   UTF-16   NUL
    /// ```
    fn name(&mut self) -> Result<Name, Error> {
        self.cache.names_of_definition.push(self.at);
        let offset = self.u32()?;
        let at = offset as usize;
        let Some(units) = le::u16(self.chunk, at.saturating_add(6)) else {
            return self.corrupt("the offset of a name inside of the chunk");
        };
        if at == self.at {
            self.bytes(8 + usize::from(units) * 2 + 2)?;
        }
        if let Some(name) = self.cache.names.get(&offset) {
            return Ok(name.clone());
        }
        let Some(bytes) = name_at(self.chunk, at) else {
            return self.corrupt("a name that ends inside of the chunk");
        };
        let name: Name = le::utf16_lossy(bytes).into();
        self.cache.names.insert(offset, name.clone());
        Ok(name)
    }
}
