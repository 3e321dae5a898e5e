//! The elements and attributes that manifests have, and the check that a manifest has no others.
//!
//! The tables follow the documentation of the manifest's schema. Attributes that it lacks (`controlGuid`, `namespace`, the
//! `name`, `attributes` and `suppressProjection` of events) and `traits` are in manifests that `mc` compiled.

use etw_types::Guid;
use roxmltree::Node;

use super::element::{EVENTS, number};
use crate::diagnostic::Diagnostics;

/// An element: its name, its attributes and its content.
struct Shape {
    name: &'static str,
    attributes: &'static [&'static str],
    content: Content,
}

/// The content of an element.
enum Content {
    /// These elements.
    Elements(&'static [Shape]),
    /// These elements, and any of other namespaces.
    Open(&'static [Shape]),
    /// Anything.
    Any,
    /// `true` or `false`.
    Flag,
    /// A number up to this one.
    Number(u64),
    /// A GUID in braces.
    Guid,
    /// One of these words.
    Word(&'static [&'static str]),
}

use Content::{Any, Elements, Flag, Number, Open, Word};

const fn shape(name: &'static str, attributes: &'static [&'static str], content: Content) -> Shape {
    Shape { name, attributes, content }
}

/// An element without children.
const fn leaf(name: &'static str, attributes: &'static [&'static str]) -> Shape {
    shape(name, attributes, Elements(&[]))
}

static MANIFEST: Shape = shape(
    "instrumentationManifest",
    &[],
    Open(&[
        shape("instrumentation", &[], Open(&[shape("events", &[], Open(EVENTS_CONTENT))])),
        shape("localization", &["fallbackCulture"], Open(&[RESOURCES])),
        shape("metadata", &[], Any),
    ]),
);

const EVENTS_CONTENT: &[Shape] = &[
    shape(
        "provider",
        &[
            "name",
            "guid",
            "controlGuid",
            "symbol",
            "namespace",
            "message",
            "resourceFileName",
            "messageFileName",
            "parameterFileName",
            "helpLink",
            "source",
            "warnOnApplicationCompatibilityError",
        ],
        Open(PROVIDER_CONTENT),
    ),
    shape(
        "messageTable",
        &[],
        Elements(&[leaf("message", &["value", "mid", "message", "symbol"])]),
    ),
];

const PROVIDER_CONTENT: &[Shape] = &[
    leaf("traits", &["groupGuid", "includeName"]),
    shape(
        "channels",
        &[],
        Elements(&[CHANNEL, leaf("importChannel", &["name", "chid", "symbol"])]),
    ),
    shape("levels", &[], Elements(&[leaf("level", &["name", "value", "symbol", "message"])])),
    shape(
        "tasks",
        &[],
        Elements(&[shape(
            "task",
            &["name", "value", "symbol", "eventGUID", "message"],
            Elements(&[OPCODES]),
        )]),
    ),
    OPCODES,
    shape("keywords", &[], Elements(&[leaf("keyword", &["name", "mask", "symbol", "message"])])),
    shape(
        "maps",
        &[],
        Elements(&[
            shape("valueMap", &["name", "symbol"], Elements(&[MAP])),
            shape("bitMap", &["name", "symbol"], Elements(&[MAP])),
        ]),
    ),
    shape(
        "namedQueries",
        &[],
        Elements(&[shape(
            "patternMaps",
            &[],
            Elements(&[shape(
                "patternMap",
                &["name", "format", "symbol"],
                Elements(&[leaf("map", &["name", "value"])]),
            )]),
        )]),
    ),
    shape(
        "filters",
        &[],
        Elements(&[leaf("filter", &["name", "value", "version", "symbol", "tid", "message"])]),
    ),
    shape(
        "templates",
        &[],
        Elements(&[shape(
            "template",
            &["tid", "name"],
            Elements(&[
                DATA,
                leaf("binary", &["name", "inType", "outType", "length", "count"]),
                shape("struct", &["name", "count"], Elements(&[DATA])),
                shape("UserData", &[], Any),
            ]),
        )]),
    ),
    shape(
        "events",
        &[],
        Elements(&[leaf(
            "event",
            &[
                "value",
                "version",
                "symbol",
                "name",
                "attributes",
                "suppressProjection",
                "channel",
                "level",
                "task",
                "opcode",
                "keywords",
                "template",
                "message",
                "notLogged",
            ],
        )]),
    ),
];

const OPCODES: Shape = shape(
    "opcodes",
    &[],
    Elements(&[leaf("opcode", &["name", "value", "symbol", "mofValue", "message"])]),
);

const MAP: Shape = leaf("map", &["value", "symbol", "message"]);

const DATA: Shape = leaf("data", &["name", "inType", "outType", "map", "length", "count"]);

const CHANNEL: Shape = shape(
    "channel",
    &["name", "chid", "type", "symbol", "access", "isolation", "enabled", "value", "message"],
    Elements(&[
        shape(
            "logging",
            &[],
            Open(&[
                shape("autoBackup", &[], Flag),
                shape("retention", &[], Flag),
                shape("maxSize", &[], Number(u64::MAX)),
            ]),
        ),
        shape(
            "publishing",
            &[],
            Open(&[
                shape("level", &[], Number(u8::MAX as u64)),
                shape("keywords", &[], Number(u64::MAX)),
                shape("controlGuid", &[], Content::Guid),
                shape("bufferSize", &[], Number(u32::MAX as u64)),
                shape("minBuffers", &[], Number(u32::MAX as u64)),
                shape("maxBuffers", &[], Number(u32::MAX as u64)),
                shape("fileMax", &[], Number(u32::MAX as u64)),
                shape("latency", &[], Number(u32::MAX as u64)),
                shape("clockType", &[], Word(&["SystemTime", "QPC"])),
                shape("sidType", &[], Word(&["None", "Publishing"])),
            ]),
        ),
    ]),
);

const RESOURCES: Shape = shape(
    "resources",
    &["culture"],
    Open(&[
        shape("stringTable", &[], Elements(&[leaf("string", &["id", "value", "stringType"])])),
        shape("messageTable", &[], Any),
        shape("eventTable", &[], Any),
    ]),
);

/// Reports elements and attributes that manifests do not have, and texts of settings that are no values. Returns whether the
/// root is that of a manifest.
pub fn check(root: Node<'_, '_>, diagnostics: &mut Diagnostics) -> bool {
    let tag = root.tag_name();
    if tag.name() != MANIFEST.name {
        diagnostics.error(root, "the outermost element is not `instrumentationManifest`");
        return false;
    }
    if tag.namespace() != Some(EVENTS) {
        let message = match tag.namespace() {
            Some(other) => format!("the manifest's namespace is `{other}`: expected `{EVENTS}`"),
            None => format!("the manifest has no namespace: add xmlns=\"{EVENTS}\""),
        };
        diagnostics.error(root, message);
        return false;
    }
    element(root, &MANIFEST, diagnostics);
    true
}

fn element(node: Node<'_, '_>, shape: &Shape, diagnostics: &mut Diagnostics) {
    for attribute in node.attributes() {
        let is_known = match attribute.namespace() {
            None => shape.attributes.contains(&attribute.name()),
            // Attributes of tools, such as the place of the schema.
            Some(namespace) => namespace != EVENTS,
        };
        if !is_known {
            let message = format!("`{}` has no attribute `{}`", shape.name, attribute.name());
            let message = unknown(&message, shape.attributes);
            diagnostics.error_at(node, attribute.range().start, message);
        }
    }
    let known = match &shape.content {
        Content::Any => return,
        Elements(known) | Open(known) => *known,
        _ => return setting(node, shape, diagnostics),
    };
    let is_open = matches!(shape.content, Open(_));
    for child in node.children().filter(Node::is_element) {
        let tag = child.tag_name();
        let found = known.iter().find(|one| one.name == tag.name());
        match (tag.namespace(), found) {
            (Some(EVENTS), Some(found)) => element(child, found, diagnostics),
            (Some(EVENTS), None) => {
                let names: Vec<&str> = known.iter().map(|one| one.name).collect();
                let message = format!("`{}` does not belong in `{}`", tag.name(), shape.name);
                diagnostics.error(child, unknown(&message, &names));
            }
            (Some(_), _) if is_open => {}
            _ => {
                let message = format!(
                    "`{}` does not belong in `{}`: its namespace is not that of the manifest",
                    tag.name(),
                    shape.name
                );
                diagnostics.error(child, message);
            }
        }
    }
}

/// The message, with what there is.
fn unknown(message: &str, known: &[&str]) -> String {
    match known {
        [] => message.to_owned(),
        known => format!("{message}: expected {}", known.join(", ")),
    }
}

/// Checks the text of a channel's setting.
fn setting(node: Node<'_, '_>, shape: &Shape, diagnostics: &mut Diagnostics) {
    let text = node.text().unwrap_or_default().trim();
    // An empty element has the setting's default.
    if text.is_empty() && node.children().all(|child| !child.is_element()) {
        return;
    }
    let expected = match &shape.content {
        Flag if matches!(text, "true" | "false" | "1" | "0") => return,
        Flag => "true or false".to_owned(),
        Number(most) => match number(text) {
            Some(value) if value <= *most => return,
            _ => format!("a number from 0 to {most}"),
        },
        Content::Guid if text.starts_with('{') && text.parse::<Guid>().is_ok() => return,
        Content::Guid => "a GUID in braces".to_owned(),
        Word(words) if words.contains(&text) => return,
        Word(words) => words.join(" or "),
        Content::Any | Elements(_) | Open(_) => return,
    };
    diagnostics.error(node, format!("`{}` is `{text}`: expected {expected}", shape.name));
}
