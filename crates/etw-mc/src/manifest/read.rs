//! The text of a manifest to the model.

use std::borrow::Cow;
use std::collections::HashSet;

use encoding_rs::UTF_8;
use roxmltree::{Document, Error, Node, ParsingOptions, TextPos};

use super::element::{attribute, children, flag, guid, required, symbol};
use super::source::{Places, Source};
use super::unique::Unique;
use super::{Manifest, Provider, event, field, metadata, strings, symbols, vocabulary};
use crate::Severity;
use crate::diagnostic::{Diagnostic, Diagnostics};

/// Bytes of the largest manifest that is read.
pub const MAX_SIZE: usize = 64 << 20;

/// Declarations of namespaces in one manifest. The XML reader copies those in scope for each element that adds one, so memory
/// grows with the square of their number.
const MAX_NAMESPACES: usize = 8192;

pub fn parse(bytes: &[u8]) -> Result<Manifest, Vec<Diagnostic>> {
    let at = |line, column, message: String| {
        vec![Diagnostic { severity: Severity::Error, line, column, message }]
    };
    if bytes.len() > MAX_SIZE {
        return Err(at(1, 1, "the manifest is larger than 64 MiB".to_owned()));
    }
    let text = match decode(bytes) {
        Ok(text) => text,
        Err(NotText { line, column, message }) => return Err(at(line, column, message)),
    };
    if let Some((offset, _)) = text.match_indices("xmlns").nth(MAX_NAMESPACES) {
        let TextPos { row: line, col: column } = end_of(&text[..offset]);
        let message = format!("the manifest declares more than {MAX_NAMESPACES} namespaces");
        return Err(at(line, column, message));
    }
    let options = ParsingOptions { allow_dtd: false, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(&text, options) {
        Ok(document) => document,
        Err(error) => {
            let position = match error {
                Error::UnexpectedEndOfStream | Error::UnclosedRootNode => end_of(&text),
                _ => error.pos(),
            };
            let message = error.to_string();
            let end = format!(" at {position}");
            let message = message.strip_suffix(&end).unwrap_or(&message).to_owned();
            return Err(at(position.row, position.col, message));
        }
    };
    let mut diagnostics = Diagnostics::default();
    let root = document.root_element();
    if !vocabulary::check(root, &mut diagnostics) {
        return Err(diagnostics.list);
    }
    let places = Places::of_text(&text);
    let cultures = strings::cultures(root, &places, &mut diagnostics);
    let (message_table, table) = strings::table(root, &cultures, &mut diagnostics);
    let mut manifest = Manifest { cultures, message_table, ..Manifest::default() };
    let lists = children(root, "instrumentation").flat_map(|one| children(one, "events"));
    let mut guids = HashSet::new();
    let mut unique = Unique::default();
    for node in lists.flat_map(|events| children(events, "provider")) {
        if manifest.providers.len() == 16 {
            diagnostics.error(node, "a manifest has at most 16 providers");
            break;
        }
        let source = Source { cultures: &manifest.cultures, table: &table, places: &places };
        let provider = provider(node, &source, &mut diagnostics);
        if !guids.insert(provider.guid) {
            diagnostics.error(node, format!("two providers have GUID {}", provider.guid));
        }
        unique.check(node, &mut diagnostics);
        manifest.providers.push(provider);
    }
    symbols::check(root, &mut diagnostics);
    match diagnostics.has_errors() {
        true => Err(diagnostics.list),
        false => Ok(Manifest { warnings: diagnostics.list, ..manifest }),
    }
}

/// Bytes that are no text, and the position of the first of them.
struct NotText {
    line: u32,
    column: u32,
    message: String,
}

/// Text from UTF-8 with or without a byte order mark, UTF-16 with one, or the encoding that the manifest declares.
fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, NotText> {
    let start = |message: &str| NotText { line: 1, column: 1, message: message.to_owned() };
    let declared_at = |column, message| NotText { line: 1, column, message };
    let (mark, text) = match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, size)) => (Some(encoding), &bytes[size..]),
        None => (None, bytes),
    };
    if mark.is_some_and(|encoding| encoding != UTF_8) {
        return mark
            .and_then(|one| one.decode_without_bom_handling_and_without_replacement(text))
            .ok_or_else(|| start("the manifest is not valid UTF-16"));
    }
    // `<` and NUL, in either order.
    if mark.is_none() && matches!(text, [b'<', 0, ..] | [0, b'<', ..]) {
        return Err(start("the manifest is UTF-16 without a byte order mark; save it with one"));
    }
    // The declaration is in ASCII.
    let first = &text[..text.len().min(256)];
    let first: String = first.iter().map(|byte| char::from(*byte)).collect();
    let declared = declared_encoding(&first);
    if let Some((name, column)) = declared {
        if is_utf16(name) {
            let message =
                format!("the manifest declares encoding `{name}`, and its bytes are not UTF-16");
            return Err(declared_at(column, message));
        }
        let encoding = encoding_rs::Encoding::for_label(name.as_bytes())
            .ok_or_else(|| declared_at(column, format!("`{name}` is no known encoding")))?;
        // A byte order mark says more than a declaration.
        if encoding != UTF_8 && mark.is_none() {
            let message = format!("the manifest declares encoding `{name}`, and has other bytes");
            return encoding
                .decode_without_bom_handling_and_without_replacement(text)
                .ok_or_else(|| declared_at(column, message));
        }
    }
    std::str::from_utf8(text).map(Cow::Borrowed).map_err(|error| {
        let before = String::from_utf8_lossy(&text[..error.valid_up_to()]);
        let TextPos { row: line, col: column } = end_of(&before);
        let message = "a byte that is not UTF-8; save the manifest as UTF-8 or UTF-16".to_owned();
        NotText { line, column, message }
    })
}

/// The `encoding` of an XML declaration, and its column.
fn declared_encoding(text: &str) -> Option<(&str, u32)> {
    let declaration = text.strip_prefix("<?xml")?;
    let declaration = &declaration[..declaration.find("?>")?];
    let value = declaration.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let name = value[1..].split(quote).next()?;
    let before = "<?xml".len() + declaration.len() - value.len() + 1;
    Some((name, before as u32 + 1))
}

fn is_utf16(name: &str) -> bool {
    let names = ["utf-16", "utf-16le", "utf-16be", "unicode", "ucs-2", "iso-10646-ucs-2"];
    names.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// The position behind the last character of a text.
fn end_of(text: &str) -> TextPos {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let newlines = text.bytes().filter(|byte| *byte == b'\n').count();
    TextPos::new(newlines as u32 + 1, line.chars().count() as u32 + 1)
}

fn provider(node: Node<'_, '_>, source: &Source<'_>, diagnostics: &mut Diagnostics) -> Provider {
    let mut provider = Provider {
        name: required(node, "name", diagnostics).to_owned(),
        guid: guid(node, "guid", diagnostics).unwrap_or_default(),
        symbol: {
            required(node, "symbol", diagnostics);
            symbol(node, diagnostics).unwrap_or_default()
        },
        message: strings::message(node, source, diagnostics),
        control_guid: attribute(node, "controlGuid")
            .and_then(|_| guid(node, "controlGuid", diagnostics)),
        place: source.places.of(node),
        ..Provider::default()
    };
    if provider.name.encode_utf16().count() > 255 {
        diagnostics.error(node, "a provider's name has at most 255 characters");
    }
    if let Some(c) = provider.name.chars().find(|c| "><&\"|\\:'?*".contains(*c)) {
        diagnostics.error(node, format!("`{c}` is not allowed in a provider's name"));
    }
    if attribute(node, "resourceFileName").is_none() {
        let message = "the provider has no `resourceFileName`: programs that install the manifest do not find its resources";
        diagnostics.warn(node, message);
    }
    for traits in children(node, "traits") {
        provider.group_guid =
            attribute(traits, "groupGuid").and_then(|_| guid(traits, "groupGuid", diagnostics));
        provider.includes_name = flag(traits, "includeName", diagnostics);
    }
    metadata::read(node, source, &mut provider, diagnostics);
    field::templates(node, &mut provider, diagnostics);
    metadata::filters(node, source, &mut provider, diagnostics);
    event::events(node, source, &mut provider, diagnostics);
    provider
}
