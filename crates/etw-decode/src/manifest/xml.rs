//! The elements of a manifest's text.

use super::ManifestError;
use quick_xml::events::{BytesRef, BytesStart, Event};
use std::borrow::Cow;

pub(super) fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding.decode_with_bom_removal(bytes).0,
        // UTF-16 without its mark begins with `<` and a zero.
        None if bytes.starts_with(b"<\0") => encoding_rs::UTF_16LE.decode(bytes).0,
        None => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => encoding_rs::WINDOWS_1252.decode(bytes).0,
        },
    }
}

/// Elements of one text; Windows' largest manifest has a fiftieth of it.
const ELEMENT_LIMIT: usize = 4 << 20;

/// The elements of a text, by index, so that deep nesting needs no stack.
pub(super) struct Tree<'t> {
    pub elements: Vec<Element<'t>>,
}

/// Its name and attributes mostly lie in the text: there are hundreds of thousands in a large manifest.
pub(super) struct Element<'t> {
    pub name: Cow<'t, str>,
    attributes: Vec<(Cow<'t, str>, Cow<'t, str>)>,
    pub children: Vec<usize>,
    /// Its own text, without that of its children.
    pub text: String,
}

impl<'t> Element<'t> {
    fn new(name: Cow<'t, str>) -> Element<'t> {
        Element { name, attributes: Vec::new(), children: Vec::new(), text: String::new() }
    }

    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// A text as far as it is XML, and the error that ended it.
pub(super) struct ParsedXml<'t> {
    pub tree: Tree<'t>,
    pub error: Option<ManifestError>,
}

/// Bytes of a text as a part of it; a copy if they do not lie in it.
fn part_of<'t>(text: &'t str, part: &[u8]) -> Cow<'t, str> {
    let start = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let found = start.checked_add(part.len()).and_then(|end| text.get(start..end));
    match found.filter(|found| found.as_bytes() == part) {
        Some(found) => Cow::Borrowed(found),
        None => Cow::Owned(String::from_utf8_lossy(part).into_owned()),
    }
}

impl<'t> Tree<'t> {
    /// A tree with its root alone.
    pub fn new() -> Tree<'t> {
        Tree { elements: vec![Element::new(Cow::Borrowed(""))] }
    }

    /// Reads a text.
    pub fn parse(text: &'t str) -> ParsedXml<'t> {
        let mut reader = quick_xml::Reader::from_str(text);
        let config = reader.config_mut();
        config.allow_unmatched_ends = true;
        config.check_end_names = false;
        let mut tree = Tree::new();
        let mut open = vec![0];
        loop {
            if tree.elements.len() > ELEMENT_LIMIT {
                let what = format!("more than {ELEMENT_LIMIT} elements");
                let error = ManifestError::Xml { offset: reader.buffer_position(), what };
                return ParsedXml { tree, error: Some(error) };
            }
            match reader.read_event() {
                Ok(Event::Start(start)) => {
                    let element = tree.add(text, &start, &open);
                    open.push(element);
                }
                Ok(Event::Empty(start)) => {
                    tree.add(text, &start, &open);
                }
                Ok(Event::End(_)) => {
                    if open.len() > 1 {
                        open.pop();
                    }
                }
                Ok(Event::Text(text)) => tree.text(&open, &String::from_utf8_lossy(&text)),
                Ok(Event::CData(text)) => tree.text(&open, &String::from_utf8_lossy(&text)),
                Ok(Event::GeneralRef(reference)) => tree.reference(&open, &reference),
                Ok(Event::Eof) => return ParsedXml { tree, error: None },
                Ok(_) => {}
                Err(error) => {
                    let offset = reader.error_position();
                    let error = ManifestError::Xml { offset, what: error.to_string() };
                    return ParsedXml { tree, error: Some(error) };
                }
            }
        }
    }

    fn add(&mut self, text: &'t str, start: &BytesStart<'_>, open: &[usize]) -> usize {
        let mut parts = start.attributes();
        let attributes = parts.with_checks(false).flatten().map(|attribute| {
            let key = part_of(text, attribute.key.local_name().into_inner());
            let value = match attribute.unescape_value() {
                Ok(Cow::Owned(value)) => Cow::Owned(value),
                // An unknown entity stays as it is.
                Ok(Cow::Borrowed(_)) | Err(_) => part_of(text, &attribute.value),
            };
            (key, value)
        });
        let name = part_of(text, start.local_name().into_inner());
        let element = Element { attributes: attributes.collect(), ..Element::new(name) };
        self.insert(open.last().copied().unwrap_or(0), element)
    }

    fn insert(&mut self, parent: usize, element: Element<'t>) -> usize {
        let number = self.elements.len();
        self.elements.push(element);
        self.elements[parent].children.push(number);
        number
    }

    /// Adds an element.
    pub fn push(&mut self, parent: usize, name: &str, attributes: &[(&str, &str)]) -> usize {
        let owned = |text: &str| Cow::Owned(text.to_owned());
        let attributes = attributes.iter().map(|(key, value)| (owned(key), owned(value)));
        let element = Element { attributes: attributes.collect(), ..Element::new(owned(name)) };
        self.insert(parent, element)
    }

    fn text(&mut self, open: &[usize], text: &str) {
        let element = &mut self.elements[open.last().copied().unwrap_or(0)];
        // The space before the first child is most of a manifest's text, and never used.
        if !(element.text.is_empty() && text.trim().is_empty()) {
            element.text.push_str(text);
        }
    }

    /// `&amp;` and the like within a text.
    fn reference(&mut self, open: &[usize], reference: &BytesRef<'_>) {
        let name = String::from_utf8_lossy(reference);
        let character = reference.resolve_char_ref().ok().flatten();
        let text = character.map(String::from);
        let text =
            text.or_else(|| quick_xml::escape::resolve_predefined_entity(&name).map(str::to_owned));
        // An unknown entity stays as it is.
        self.text(open, &text.unwrap_or_else(|| format!("&{name};")));
    }

    pub fn all(&self, name: &str) -> impl Iterator<Item = usize> {
        (0..self.elements.len()).filter(move |number| self.elements[*number].name == name)
    }

    pub fn children(&self, parent: usize, name: &str) -> impl Iterator<Item = usize> {
        let children = self.elements[parent].children.iter().copied();
        children.filter(move |child| self.elements[*child].name == name)
    }

    /// Elements named `name` in the lists named `list` of a parent.
    pub fn grandchildren(
        &self,
        parent: usize,
        list: &str,
        name: &str,
    ) -> impl Iterator<Item = usize> {
        self.children(parent, list).flat_map(move |list| self.children(list, name))
    }

    pub fn get(&self, element: usize, name: &str) -> Option<&str> {
        let attributes = &self.elements[element].attributes;
        let found = attributes.iter().find(|(key, _)| key == name);
        let found =
            found.or_else(|| attributes.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)));
        found.map(|(_, value)| value.trim())
    }
}

/// A decimal or `0x…` number.
pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
