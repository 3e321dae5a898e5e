//! A template as binary XML, and its GUID.
//!
//! ```text
//! fragment   0F 01 01 00   elements   00
//! element    01 or 41   u16 dependency FFFF   u32 size   name   [41: u32 size, attributes]   02 content 04
//! attribute  06, or 46 before another   name   05 01 u16 units UTF-16
//! name       u16 hash   u16 units   UTF-16   NUL
//! value      0D   u16 field   u8 type
//! ```

use etw_tracelogging::tdh::InType;
use etw_types::Guid;
use sha2::{Digest, Sha256};

use crate::manifest::{Extent, Field, Template, UserElement, UserNode};

/// The encoding of a template's XML: the value of its kind field.
pub const EVENT_DATA: u32 = 1;
pub const USER_DATA: u32 = 2;

/// The type that a field's value has in binary XML; an array has bit 7 set.
fn xml_type(field: &Field) -> u8 {
    let value_type = match field.in_type {
        _ if !field.members.is_empty() => 0x0e,
        InType::MANIFEST_COUNTEDSTRING => 0x01,
        InType::MANIFEST_COUNTEDANSISTRING => 0x02,
        InType::MANIFEST_COUNTEDBINARY => 0x0e,
        in_type => in_type.0 as u8,
    };
    let is_array = field.count != Extent::None || field.has_count_of_one;
    value_type | if is_array { 0x80 } else { 0 }
}

/// The fragment, without padding.
pub fn fragment(template: &Template) -> Vec<u8> {
    let mut out = vec![0x0f, 1, 1, 0];
    match &template.user_data {
        Some(data) => {
            for element in &data.elements {
                push_element(&mut out, element, &template.fields);
            }
        }
        None => push_element(&mut out, &event_data(template), &template.fields),
    }
    out.push(0);
    out
}

/// The XML that a template without `UserData` stands for.
fn event_data(template: &Template) -> UserElement {
    let children = template.fields.iter().enumerate().map(|(index, field)| {
        let is_struct = !field.members.is_empty();
        UserNode::Element(UserElement {
            name: if is_struct { "ComplexData" } else { "Data" }.to_owned(),
            attributes: vec![("Name".to_owned(), field.name.clone())],
            children: vec![UserNode::Text(format!("%{}", index + 1))],
        })
    });
    UserElement {
        name: "EventData".to_owned(),
        attributes: template.name.iter().map(|name| ("Name".to_owned(), name.clone())).collect(),
        children: children.collect(),
    }
}

fn push_element(out: &mut Vec<u8>, element: &UserElement, fields: &[Field]) {
    out.push(if element.attributes.is_empty() { 0x01 } else { 0x41 });
    out.extend_from_slice(&[0xff, 0xff]);
    let size = open(out);
    push_name(out, &element.name);
    if let Some(last) = element.attributes.len().checked_sub(1) {
        let attributes_size = open(out);
        for (index, (name, value)) in element.attributes.iter().enumerate() {
            out.push(if index < last { 0x46 } else { 0x06 });
            push_name(out, name);
            push_text(out, value, fields);
        }
        close(out, attributes_size);
    }
    out.push(0x02);
    for child in &element.children {
        match child {
            UserNode::Element(child) => push_element(out, child, fields),
            UserNode::Text(text) => push_text(out, text, fields),
        }
    }
    out.push(0x04);
    close(out, size);
}

fn open(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len()
}

/// Sets the size in front of `from` to the bytes behind it.
fn close(out: &mut [u8], from: usize) {
    let size = (out.len() - from) as u32;
    out[from - 4..from].copy_from_slice(&size.to_le_bytes());
}

fn push_name(out: &mut Vec<u8>, name: &str) {
    let units: Vec<u16> = name.encode_utf16().collect();
    let hash = units
        .iter()
        .fold(0u32, |hash, unit| hash.wrapping_mul(65599).wrapping_add(u32::from(*unit)));
    out.extend_from_slice(&(hash as u16).to_le_bytes());
    out.extend_from_slice(&(units.len() as u16).to_le_bytes());
    out.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    out.extend_from_slice(&[0, 0]);
}

/// Text in which `%n` stands for the n-th field.
fn push_text(out: &mut Vec<u8>, text: &str, fields: &[Field]) {
    let mut rest = text;
    while let Some((before, index, after)) = split_insert(rest, fields.len()) {
        push_constant(out, before);
        out.push(0x0d);
        out.extend_from_slice(&(index as u16).to_le_bytes());
        out.push(xml_type(&fields[index]));
        rest = after;
    }
    push_constant(out, rest);
}

fn push_constant(out: &mut Vec<u8>, text: &str) {
    if text.is_empty() {
        return;
    }
    out.extend_from_slice(&[0x05, 0x01]);
    let units: Vec<u16> = text.encode_utf16().collect();
    out.extend_from_slice(&(units.len() as u16).to_le_bytes());
    out.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
}

/// The first `%n` with n from 1 to `count`: the text before it, the index n - 1, the text behind it.
fn split_insert(text: &str, count: usize) -> Option<(&str, usize, &str)> {
    for (at, _) in text.match_indices('%') {
        let digits = &text[at + 1..];
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        if let Ok(number) = digits[..end].parse::<usize>()
            && (1..=count).contains(&number)
        {
            return Some((&text[..at], number - 1, &digits[end..]));
        }
    }
    None
}

/// The GUID by which decoders and event logs name a template: of the same XML and types it is the same everywhere.
///
/// SHA-256 of `MS-WEVT` NUL, the XML in UTF-16LE and the type of each top-level field as u32. (Guess: the XML of
/// `UserData`; outputs of `mc` confirm only that of `EventData`.)
pub fn guid(template: &Template) -> Guid {
    let mut hash = Sha256::new();
    hash.update(b"MS-WEVT\0");
    let mut text = String::new();
    match &template.user_data {
        Some(data) => data.elements.iter().for_each(|element| push_xml(&mut text, element)),
        None => push_xml(&mut text, &event_data(template)),
    }
    for unit in text.encode_utf16() {
        hash.update(unit.to_le_bytes());
    }
    for field in &template.fields {
        hash.update(u32::from(xml_type(field)).to_le_bytes());
    }
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[7] = bytes[7] & 0x0f | 0x50;
    Guid(bytes)
}

fn push_xml(out: &mut String, element: &UserElement) {
    out.push('<');
    out.push_str(&element.name);
    for (name, value) in &element.attributes {
        for part in [" ", name, "=\"", value, "\""] {
            out.push_str(part);
        }
    }
    if element.children.is_empty() {
        out.push_str("/>");
        return;
    }
    out.push('>');
    for child in &element.children {
        match child {
            UserNode::Element(child) => push_xml(out, child),
            UserNode::Text(text) => out.push_str(text),
        }
    }
    for part in ["</", &element.name, ">"] {
        out.push_str(part);
    }
}
