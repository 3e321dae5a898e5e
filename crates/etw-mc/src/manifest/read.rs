//! The text of a manifest to the model.

use std::borrow::Cow;
use std::collections::HashSet;

use roxmltree::{Document, Node, ParsingOptions};

use super::element::{attribute, children, flag, guid, required};
use super::source::{Places, Source};
use super::{Manifest, Provider, event, field, metadata, strings};
use crate::Severity;
use crate::diagnostic::{Diagnostic, Diagnostics};

/// Bytes of the largest manifest that is read.
pub const MAX_SIZE: usize = 64 << 20;

pub fn parse(bytes: &[u8]) -> Result<Manifest, Vec<Diagnostic>> {
    let at = |line, column, message: String| {
        vec![Diagnostic { severity: Severity::Error, line, column, message }]
    };
    if bytes.len() > MAX_SIZE {
        return Err(at(1, 1, "the manifest is larger than 64 MiB".to_owned()));
    }
    let text = match decode(bytes) {
        Some(text) => text,
        None => return Err(at(1, 1, "the manifest is neither UTF-8 nor UTF-16".to_owned())),
    };
    let options = ParsingOptions { allow_dtd: false, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(&text, options) {
        Ok(document) => document,
        Err(error) => {
            let position = error.pos();
            return Err(at(position.row, position.col, error.to_string()));
        }
    };
    let mut diagnostics = Diagnostics::default();
    let root = document.root_element();
    if root.tag_name().name() != "instrumentationManifest" {
        diagnostics.error(root, "the outermost element is not `instrumentationManifest`");
    }
    let places = Places::of_text(&text);
    let cultures = strings::cultures(root, &mut diagnostics);
    let mut manifest = Manifest { cultures, ..Manifest::default() };
    let lists = children(root, "instrumentation").flat_map(|one| children(one, "events"));
    let mut guids = HashSet::new();
    for node in lists.flat_map(|events| children(events, "provider")) {
        if manifest.providers.len() == 16 {
            diagnostics.error(node, "a manifest has at most 16 providers");
            break;
        }
        let source = Source { cultures: &manifest.cultures, places: &places };
        let provider = provider(node, &source, &mut diagnostics);
        if !guids.insert(provider.guid) {
            diagnostics.error(node, format!("two providers have GUID {}", provider.guid));
        }
        manifest.providers.push(provider);
    }
    match diagnostics.has_errors() {
        true => Err(diagnostics.list),
        false => Ok(Manifest { warnings: diagnostics.list, ..manifest }),
    }
}

/// Text from UTF-8 with or without a byte order mark, or UTF-16 with one.
fn decode(bytes: &[u8]) -> Option<Cow<'_, str>> {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, size)) => {
            encoding.decode_without_bom_handling_and_without_replacement(&bytes[size..])
        }
        None => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
    }
}

fn provider(node: Node<'_, '_>, source: &Source<'_>, diagnostics: &mut Diagnostics) -> Provider {
    let cultures = source.cultures;
    let mut provider = Provider {
        name: required(node, "name", diagnostics).to_owned(),
        guid: guid(node, "guid", diagnostics).unwrap_or_default(),
        symbol: required(node, "symbol", diagnostics).to_owned(),
        message: strings::message(node, cultures, diagnostics),
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
    for traits in children(node, "traits") {
        provider.group_guid =
            attribute(traits, "groupGuid").and_then(|_| guid(traits, "groupGuid", diagnostics));
        provider.includes_name = flag(traits, "includeName", diagnostics);
    }
    metadata::read(node, cultures, &mut provider, diagnostics);
    field::templates(node, &mut provider, diagnostics);
    metadata::filters(node, cultures, &mut provider, diagnostics);
    event::events(node, source, &mut provider, diagnostics);
    provider
}
