//! WEPExplorer's XML, the form in which public collections keep what Windows' event log interface says of a provider.
//!
//! Metadata are element texts. Events name levels, tasks, opcodes and keywords by what is shown of them: the message, or the name
//! where there is no message. A template is XML in a CDATA section. Maps are named, but not described.
//!
//! ```text
//! Providers, each a Provider: Name, Metadata, EventMetadata
//!   Metadata: Guid, Channels (Path, Index, Id), Levels, Tasks, Opcodes (Message, Name, Value, Task), Keywords (Value is decimal)
//!   EventMetadata: Event: Id, Version, Channel, Level, Task, Opcode, Keyword (several, separated by spaces), Message, Template
//! ```
//!
//! It becomes the tree of an instrumentation manifest, which the one compiler reads.

use super::xml::{ParsedXml, Tree, number};
use crate::parsed::Parsed;
use std::collections::HashMap;

/// The manifest that a WEPExplorer file stands for, with warnings; `None` for any other XML.
pub(super) fn to_manifest(source: &Tree<'_>) -> Option<Parsed<Tree<'static>>> {
    let root = source.children(0, "Providers").next()?;
    let mut builder = Builder { source, out: Tree::new(), warnings: Vec::new() };
    for provider in source.children(root, "Provider") {
        builder.provider(provider);
    }
    Some(Parsed { value: builder.out, warnings: builder.warnings })
}

struct Builder<'s> {
    source: &'s Tree<'s>,
    out: Tree<'static>,
    warnings: Vec<String>,
}

/// An item of the metadata, and the name that stands for it in the manifest.
struct Item {
    /// The text by which events refer to it.
    shown: String,
    value: u64,
    /// The task of an opcode.
    task: u64,
    id: String,
}

#[derive(Default)]
struct Metadata {
    channels: Vec<Item>,
    levels: Vec<Item>,
    tasks: Vec<Item>,
    opcodes: Vec<Item>,
    keywords: Vec<Item>,
}

/// The item that a text names.
fn find<'i>(items: &'i [Item], shown: &str) -> Option<&'i Item> {
    items.iter().find(|item| item.shown == shown)
}

/// The id of the item that a text names, else the text, which may be one of `winmeta.xml`.
fn id_of(items: &[Item], shown: &str) -> String {
    find(items, shown).map_or_else(|| shown.to_owned(), |item| item.id.clone())
}

impl<'s> Builder<'s> {
    /// The text of an element's child.
    fn text(&self, parent: usize, name: &str) -> &'s str {
        let source = self.source;
        let child = source.children(parent, name).next();
        child.map_or("", |child| source.elements[child].text.trim())
    }

    fn provider(&mut self, provider: usize) {
        let source = self.source;
        let metadata = source.children(provider, "Metadata").next();
        let guid = metadata.map_or("", |metadata| self.text(metadata, "Guid"));
        let name = self.text(provider, "Name");
        let out = self.out.push(0, "provider", &[("name", name), ("guid", guid)]);
        let mut known = Metadata::default();
        if let Some(metadata) = metadata {
            known.channels = self.channels(metadata, out);
            known.levels = self.items(metadata, out, ["Levels", "Level", "levels", "level"]);
            known.tasks = self.items(metadata, out, ["Tasks", "Task", "tasks", "task"]);
            known.opcodes = self.items(metadata, out, ["Opcodes", "Opcode", "opcodes", "opcode"]);
            known.keywords =
                self.items(metadata, out, ["Keywords", "Keyword", "keywords", "keyword"]);
        }
        let templates = self.out.push(out, "templates", &[]);
        let events = self.out.push(out, "events", &[]);
        let mut ids: HashMap<&str, String> = HashMap::new();
        let mut mapped = 0;
        for event in source.grandchildren(provider, "EventMetadata", "Event") {
            let text = source.children(event, "Template").next();
            let text = text.map_or("", |text| source.elements[text].text.trim());
            let template = match ids.get(text) {
                _ if text.is_empty() => String::new(),
                Some(id) => id.clone(),
                None => {
                    let id = format!("T{}", ids.len());
                    let what = format!(
                        "{name}: the template of event {} version {}",
                        self.text(event, "Id"),
                        self.text(event, "Version")
                    );
                    mapped += self.template(text, templates, &id, &what);
                    ids.insert(text, id.clone());
                    id
                }
            };
            self.event(event, events, &known, &template);
        }
        if mapped > 0 {
            self.warnings.push(format!(
                "{name}: {mapped} fields have maps, whose values this form of a manifest does not carry"
            ));
        }
    }

    /// The channels, in the order in which their keyword bits are given.
    fn channels(&mut self, metadata: usize, out: usize) -> Vec<Item> {
        let list = self.out.push(out, "channels", &[]);
        let mut items: Vec<(u64, Item)> = Vec::new();
        for channel in self.source.grandchildren(metadata, "Channels", "Channel") {
            let index = number(self.text(channel, "Index")).unwrap_or(u64::MAX);
            let id = format!("C{}", items.len());
            let shown = self.text(channel, "Path").to_owned();
            let value = number(self.text(channel, "Id")).unwrap_or(0);
            items.push((index, Item { shown, value, task: 0, id }));
        }
        items.sort_by_key(|(index, _)| *index);
        for (_, Item { shown, value, id, .. }) in &items {
            let value = value.to_string();
            self.out.push(list, "channel", &[("name", shown), ("chid", id), ("value", &value)]);
        }
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Levels, tasks, opcodes or keywords; `names`: list and item here, list and item in a manifest.
    fn items(&mut self, metadata: usize, out: usize, names: [&str; 4]) -> Vec<Item> {
        let [list, item, manifest_list, manifest_item] = names;
        let target = self.out.push(out, manifest_list, &[]);
        let mut items = Vec::new();
        for element in self.source.grandchildren(metadata, list, item) {
            let (message, name) = (self.text(element, "Message"), self.text(element, "Name"));
            let shown = if message.is_empty() { name } else { message }.to_owned();
            let value = number(self.text(element, "Value")).unwrap_or(0);
            let task = number(self.text(element, "Task")).unwrap_or(0);
            let id = match name {
                "win:None" => name.to_owned(),
                _ => format!("{item}{}", items.len()),
            };
            let value_text = value.to_string();
            self.out.push(
                target,
                manifest_item,
                &[
                    ("name", &id),
                    ("message", &shown),
                    ("value", &value_text),
                    ("mask", &value_text),
                ],
            );
            items.push(Item { shown, value, task, id });
        }
        items
    }

    /// Adds a template; returns how many of its fields have maps. `what`: its name in warnings.
    fn template(&mut self, text: &str, templates: usize, id: &str, what: &str) -> usize {
        let ParsedXml { tree, error } = Tree::parse(text);
        let out = self.out.push(templates, "template", &[("tid", id)]);
        let template = tree.children(0, "template").next();
        match (template, error) {
            (None, _) => self.warnings.push(format!("{what} is left out: it has no <template>")),
            (Some(_), Some(error)) => self.warnings.push(format!("{what} is cut: {error}")),
            (Some(_), None) => {}
        }
        let Some(template) = template else { return 0 };
        let mut mapped = 0;
        let mut pending = vec![(template, out)];
        while let Some((from, to)) = pending.pop() {
            for child in tree.elements[from].children.iter().copied() {
                let element = &tree.elements[child];
                let has_map = tree.get(child, "map").is_some_and(|map| !map.is_empty());
                mapped += usize::from(has_map);
                let attributes = element.attributes().filter(|(key, _)| *key != "map");
                let attributes: Vec<(&str, &str)> = attributes.collect();
                let copy = self.out.push(to, &element.name, &attributes);
                pending.push((child, copy));
            }
        }
        mapped
    }

    fn event(&mut self, event: usize, events: usize, known: &Metadata, template: &str) {
        let level = id_of(&known.levels, self.text(event, "Level"));
        let task_text = self.text(event, "Task");
        let task_value = find(&known.tasks, task_text).map_or(0, |task| task.value);
        let task = id_of(&known.tasks, task_text);
        let opcode_text = self.text(event, "Opcode");
        // An opcode of the event's task hides one of the same name that belongs to the provider.
        let opcode = [task_value, 0]
            .iter()
            .find_map(|task| {
                let mut opcodes = known.opcodes.iter();
                opcodes.find(|opcode| opcode.shown == opcode_text && opcode.task == *task)
            })
            .map_or_else(|| id_of(&known.opcodes, opcode_text), |opcode| opcode.id.clone());
        let keywords = keywords(&known.keywords, self.text(event, "Keyword"));
        let channel = id_of(&known.channels, self.text(event, "Channel"));
        let attributes = [
            ("value", self.text(event, "Id")),
            ("version", self.text(event, "Version")),
            ("channel", &channel),
            ("level", &level),
            ("task", &task),
            ("opcode", &opcode),
            ("keywords", &keywords),
            ("template", template),
            ("message", self.text(event, "Message")),
        ];
        self.out.push(events, "event", &attributes);
    }
}

/// The ids of keywords in a text; a shown name may contain spaces itself, so the longest one that fits comes first.
fn keywords(known: &[Item], text: &str) -> String {
    let mut by_length: Vec<&Item> = known.iter().filter(|item| !item.shown.is_empty()).collect();
    by_length.sort_by_key(|item| std::cmp::Reverse(item.shown.len()));
    let mut ids = Vec::new();
    let mut rest = text.trim_start();
    // An event has at most 64 keywords.
    while !rest.is_empty() && ids.len() < 64 {
        let fits = |item: &&&Item| {
            let behind = rest.strip_prefix(item.shown.as_str());
            behind
                .is_some_and(|behind| behind.is_empty() || behind.starts_with(char::is_whitespace))
        };
        let (id, length) = match by_length.iter().find(fits) {
            Some(item) => (item.id.as_str(), item.shown.len()),
            None => {
                let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (&rest[..length], length)
            }
        };
        ids.push(id);
        rest = rest[length..].trim_start();
    }
    ids.join(" ")
}
