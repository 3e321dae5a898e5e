//! Templates and their fields.

use std::collections::HashSet;

use etw_tracelogging::tdh::{InType, OutType};
use roxmltree::Node;

use super::element::{attribute, children, elements, number, owned, qualified, required};
use super::{Extent, Field, Provider, Template, UserData, UserElement, UserNode, out_type};
use crate::diagnostic::Diagnostics;

/// Fields of one template, struct members included: as many as an event may have data descriptors.
const MAX_FIELDS: usize = 127;

/// Values of one template, as many as the inserts of a message.
const MAX_INSERTS: usize = 99;

/// Elements of `UserData` inside of each other: what makes and reads them recurses.
const MAX_DEPTH: usize = 64;

pub fn templates(node: Node<'_, '_>, provider: &mut Provider, diagnostics: &mut Diagnostics) {
    let mut known = HashSet::new();
    let all = children(node, "templates").flat_map(|one| children(one, "template"));
    for node in all {
        let id = required(node, "tid", diagnostics);
        if !known.insert(id) {
            diagnostics.error(node, format!("template `{id}` is defined twice"));
        }
        let fields = fields(node, provider, true, diagnostics);
        let count: usize = fields.iter().map(|field| 1 + field.members.len()).sum();
        if count > MAX_FIELDS {
            diagnostics.error(node, format!("template `{id}` has {count} fields; 127 are allowed"));
        }
        if fields.len() > MAX_INSERTS {
            let count = fields.len();
            let message =
                format!("template `{id}` has {count} values; messages can name %1 to %99");
            diagnostics.error(node, message);
        }
        let user_data = children(node, "UserData").next().map(|data| {
            check_user_data(data, fields.len(), diagnostics);
            let elements = data.children().filter(Node::is_element);
            let elements = elements.map(|element| user_element(element, 1, diagnostics));
            UserData { elements: elements.collect() }
        });
        provider.templates.push(Template {
            id: id.to_owned(),
            name: owned(node, "name"),
            fields,
            user_data,
        });
    }
}

/// Reports a `%n` for which the template has no field.
fn check_user_data(data: Node<'_, '_>, count: usize, diagnostics: &mut Diagnostics) {
    for text in data.descendants().filter(Node::is_text) {
        let insert = text.text().unwrap_or_default().trim().strip_prefix('%');
        let Some(number) = insert.and_then(|digits| digits.parse::<usize>().ok()) else { continue };
        if number == 0 || number > count {
            let element = text.parent().unwrap_or(data);
            diagnostics
                .error(element, format!("%{number} names no field; the template has {count}"));
        }
    }
}

/// `depth`: how many elements of `UserData` there are down to this one, which counts.
fn user_element(node: Node<'_, '_>, depth: usize, diagnostics: &mut Diagnostics) -> UserElement {
    let mut attributes = Vec::new();
    // A default namespace that is declared here stands in front of the other attributes.
    let outer = node.parent_element().and_then(|parent| parent.default_namespace());
    if let Some(namespace) = node.default_namespace().filter(|own| Some(*own) != outer) {
        attributes.push(("xmlns".to_owned(), namespace.to_owned()));
    }
    attributes.extend(node.attributes().map(|one| (one.name().to_owned(), one.value().to_owned())));
    let children = node.children().filter_map(|child| match child {
        child if child.is_element() && depth == MAX_DEPTH => {
            let message =
                format!("elements of `UserData` are nested deeper than {MAX_DEPTH} levels");
            diagnostics.error(child, message);
            None
        }
        child if child.is_element() => {
            Some(UserNode::Element(user_element(child, depth + 1, diagnostics)))
        }
        child if child.is_text() => {
            let text = child.text().unwrap_or_default().trim();
            (!text.is_empty()).then(|| UserNode::Text(text.to_owned()))
        }
        _ => None,
    });
    UserElement {
        name: node.tag_name().name().to_owned(),
        attributes,
        children: children.collect(),
    }
}

/// Fields of a template, or members of a struct, which hold no structs.
fn fields(
    node: Node<'_, '_>,
    provider: &Provider,
    is_top: bool,
    diagnostics: &mut Diagnostics,
) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for child in elements(node) {
        let field = match child.tag_name().name() {
            "data" | "binary" => value(child, provider, &fields, diagnostics),
            "struct" if is_top => structure(child, provider, &fields, diagnostics),
            _ => continue,
        };
        if fields.iter().any(|known| known.name == field.name) {
            diagnostics.error(child, format!("field `{}` is defined twice", field.name));
        }
        fields.push(field);
    }
    fields
}

fn structure(
    node: Node<'_, '_>,
    provider: &Provider,
    before: &[Field],
    diagnostics: &mut Diagnostics,
) -> Field {
    let members = fields(node, provider, false, diagnostics);
    if members.is_empty() {
        diagnostics.error(node, "the struct has no members");
    }
    Field {
        name: required(node, "name", diagnostics).to_owned(),
        count: extent(node, "count", before, diagnostics),
        has_count_of_one: has_count_of_one(node),
        members,
        in_type: InType::NULL,
        out_type: OutType::NULL,
        map: None,
        length: Extent::None,
    }
}

fn value(
    node: Node<'_, '_>,
    provider: &Provider,
    before: &[Field],
    diagnostics: &mut Diagnostics,
) -> Field {
    let name = required(node, "name", diagnostics).to_owned();
    let in_type = match attribute(node, "inType") {
        Some(text) => {
            InType::of_manifest(&qualified(node, text, diagnostics)).unwrap_or_else(|| {
                diagnostics.error(node, format!("`inType` is `{text}`, which is not a known type"));
                InType::UINT8
            })
        }
        None if node.tag_name().name() == "binary" => InType::BINARY,
        None => {
            diagnostics.error(node, format!("field `{name}` has no `inType`"));
            InType::UINT8
        }
    };
    let out_type = match attribute(node, "outType") {
        Some(text) => {
            OutType::of_manifest(&qualified(node, text, diagnostics)).unwrap_or_else(|| {
                diagnostics
                    .error(node, format!("`outType` is `{text}`, which is not a known type"));
                OutType::NULL
            })
        }
        None => in_type.default_out(),
    };
    if !out_type::is_allowed(in_type, out_type) {
        let allowed = out_type::of(in_type).iter().filter_map(|one| one.manifest_name());
        let message = format!(
            "field `{name}` of type {} cannot have `outType` {}: expected {}",
            attribute(node, "inType").unwrap_or_default(),
            attribute(node, "outType").unwrap_or_default(),
            allowed.collect::<Vec<_>>().join(", ")
        );
        diagnostics.error(node, message);
    }
    let map = attribute(node, "map").and_then(|map| {
        if !matches!(in_type, InType::UINT8 | InType::UINT16 | InType::UINT32 | InType::HEXINT32) {
            let message = format!(
                "field `{name}` has a map: its type must be UInt8, UInt16, UInt32 or HexInt32"
            );
            diagnostics.error(node, message);
        }
        let found = provider.maps.iter().position(|known| known.name == map);
        if found.is_none() {
            diagnostics.error(node, format!("map `{map}` is not defined"));
        }
        found
    });
    let length = extent(node, "length", before, diagnostics);
    let has_length = matches!(
        in_type,
        InType::UNICODESTRING | InType::ANSISTRING | InType::BINARY | InType::SID
    );
    if length != Extent::None && !has_length {
        diagnostics
            .error(node, format!("field `{name}` has a `length`; its type has a size of its own"));
    }
    if in_type == InType::BINARY && length == Extent::None {
        let message =
            format!("binary field `{name}` has no `length`: decoders cannot find its end");
        match out_type {
            // Windows' own manifests have these, and their decoders know the sizes.
            OutType::IPV6 | OutType::SOCKETADDRESS => diagnostics.warn(node, message),
            _ => diagnostics.error(node, message),
        }
    }
    let count = extent(node, "count", before, diagnostics);
    Field {
        name,
        in_type,
        out_type,
        map,
        length,
        count,
        has_count_of_one: has_count_of_one(node),
        members: Vec::new(),
    }
}

fn has_count_of_one(node: Node<'_, '_>) -> bool {
    attribute(node, "count").and_then(number) == Some(1)
}

/// `length` or `count`: a number, or the name of an earlier integer field of the same list.
fn extent(
    node: Node<'_, '_>,
    attribute_name: &str,
    before: &[Field],
    diagnostics: &mut Diagnostics,
) -> Extent {
    let Some(text) = attribute(node, attribute_name).filter(|text| !text.is_empty()) else {
        return Extent::None;
    };
    if let Some(value) = number(text) {
        return match u16::try_from(value) {
            // A length of zero is that of a text that ends with NUL. A count of one is no array.
            Ok(0) => Extent::None,
            Ok(1) if attribute_name == "count" => Extent::None,
            Ok(value) => Extent::Fixed(value),
            Err(_) => {
                diagnostics.error(node, format!("`{attribute_name}` is {text}; 65535 is the most"));
                Extent::None
            }
        };
    }
    let Some(index) = before.iter().position(|field| field.name == text) else {
        let message =
            format!("`{attribute_name}` is `{text}`: no field of that name stands before this one");
        diagnostics.error(node, message);
        return Extent::None;
    };
    let field = &before[index];
    let is_integer = field.in_type.wire().is_some_and(|wire| wire.is_integer());
    if !is_integer || !field.members.is_empty() || field.count != Extent::None {
        let message = format!("`{attribute_name}` is `{text}`, which is not an integer field");
        diagnostics.error(node, message);
    }
    Extent::Field(index as u16)
}
