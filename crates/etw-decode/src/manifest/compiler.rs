//! From elements to schemas.

use super::xml::{Tree, number};
use super::{Manifest, ManifestProvider, WARNING_LIMIT};
use crate::field::{Count, Field, Kind, Length};
use crate::map::{Map, MapKind};
use crate::message::Message;
use crate::schema::{Names, Schema};
use etw_tracelogging::tdh::{InType, OutType};
use etw_tracelogging::{Show, Wire};
use etw_types::Guid;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct Compiler<'t> {
    tree: &'t Tree,
    /// By reference, as `string.ID` or `mc.ID`.
    strings: HashMap<String, String>,
    pub manifest: Manifest,
    limit: usize,
}

/// What events of a provider refer to.
#[derive(Default)]
struct Provider<'t> {
    levels: HashMap<&'t str, String>,
    /// Name, and the task's element for its own opcodes.
    tasks: HashMap<&'t str, (String, usize)>,
    opcodes: HashMap<&'t str, String>,
    keywords: HashMap<&'t str, (u64, String)>,
    channels: HashMap<&'t str, String>,
    maps: HashMap<&'t str, Arc<Map>>,
    templates: HashMap<&'t str, (Vec<Field>, usize)>,
}

impl<'t> Compiler<'t> {
    pub fn new(tree: &'t Tree, limit: usize) -> Compiler<'t> {
        Compiler { tree, strings: HashMap::new(), manifest: Manifest::default(), limit }
    }

    pub fn warn(&mut self, what: impl Into<String>) {
        if self.manifest.warnings.len() < WARNING_LIMIT {
            self.manifest.warnings.push(what.into());
        }
    }

    /// English where there is a choice: what tools are written against.
    pub fn strings(&mut self) {
        let tree = self.tree;
        let english = |element: usize| {
            tree.get(element, "culture")
                .is_some_and(|culture| culture.to_ascii_lowercase().starts_with("en"))
        };
        let mut resources: Vec<usize> = tree.all("resources").collect();
        resources.sort_by_key(|element| !english(*element));
        for resource in resources {
            for string in tree.grandchildren(resource, "stringTable", "string") {
                if let (Some(id), Some(value)) = (tree.get(string, "id"), tree.get(string, "value"))
                {
                    self.strings.entry(format!("string.{id}")).or_insert_with(|| value.to_owned());
                }
            }
        }
        for message in tree.all("messageTable").flat_map(|table| tree.children(table, "message")) {
            let text = tree.get(message, "message").and_then(|text| self.text(text));
            for id in ["symbol", "mid"].into_iter().filter_map(|key| tree.get(message, key)) {
                if let Some(text) = &text {
                    self.strings.entry(format!("mc.{id}")).or_insert_with(|| text.clone());
                }
            }
        }
    }

    /// A text or what `$(…)` stands for; `None` for a reference to nothing.
    fn text(&self, text: &str) -> Option<String> {
        match text.strip_prefix("$(").and_then(|text| text.strip_suffix(')')) {
            Some(reference) => self.strings.get(reference.trim()).cloned(),
            None => Some(text.to_owned()),
        }
        .filter(|text| !text.is_empty())
    }

    /// Message, else name: what Windows shows.
    fn shown(&self, element: usize) -> Option<(&'t str, String)> {
        let name = self.tree.get(element, "name")?;
        let message = self.tree.get(element, "message").and_then(|text| self.text(text));
        let shown = message.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        Some((name, shown.unwrap_or_else(|| name.to_owned())))
    }

    pub fn provider(&mut self, element: usize) {
        let tree = self.tree;
        let Some(name) = tree.get(element, "name").or_else(|| tree.get(element, "symbol")) else {
            return;
        };
        let Some(guid) = tree.get(element, "guid").and_then(|guid| guid.parse::<Guid>().ok())
        else {
            return self.warn(format!("provider {name:?} without a GUID"));
        };
        let mut known = Provider::default();
        for level in tree.grandchildren(element, "levels", "level") {
            known.levels.extend(self.shown(level));
        }
        for task in tree.grandchildren(element, "tasks", "task") {
            known.tasks.extend(self.shown(task).map(|(name, shown)| (name, (shown, task))));
        }
        for opcode in tree.grandchildren(element, "opcodes", "opcode") {
            known.opcodes.extend(self.shown(opcode));
        }
        for keyword in tree.grandchildren(element, "keywords", "keyword") {
            let mask = tree.get(keyword, "mask").and_then(number).unwrap_or(0);
            known.keywords.extend(self.shown(keyword).map(|(name, shown)| (name, (mask, shown))));
        }
        for kind in ["channel", "importChannel"] {
            for channel in tree.grandchildren(element, "channels", kind) {
                let Some(name) = tree.get(channel, "name") else { continue };
                known.channels.insert(name, name.to_owned());
                known.channels.extend(tree.get(channel, "chid").map(|id| (id, name.to_owned())));
            }
        }
        for (kind, list) in [(MapKind::Value, "valueMap"), (MapKind::Bits, "bitMap")] {
            for map in tree.grandchildren(element, "maps", list) {
                let Some(name) = tree.get(map, "name") else { continue };
                known.maps.insert(name, Arc::new(self.map(map, name, kind)));
            }
        }
        for template in tree.grandchildren(element, "templates", "template") {
            let Some(tid) = tree.get(template, "tid") else { continue };
            if let Some(fields) = self.template(template, tid, name, &known.maps) {
                known.templates.entry(tid).or_insert(fields);
            }
        }
        let mut provider = ManifestProvider {
            guid,
            control_guid: tree.get(element, "controlGuid").and_then(|guid| guid.parse().ok()),
            name: name.to_owned(),
            events: HashMap::new(),
            keywords: known.keywords.values().cloned().collect(),
        };
        provider.keywords.sort();
        for event in tree.grandchildren(element, "events", "event") {
            self.event(event, &known, &mut provider);
        }
        self.manifest.providers.push(provider);
    }

    fn map(&mut self, element: usize, name: &str, kind: MapKind) -> Map {
        let mut entries = Vec::new();
        for entry in self.tree.children(element, "map") {
            let value = self.tree.get(entry, "value").and_then(number);
            let Some(value) = value.and_then(|value| u32::try_from(value).ok()) else {
                self.warn(format!("map {name:?} has an entry without a value"));
                continue;
            };
            let text = self.tree.get(entry, "message").and_then(|text| self.text(text));
            let text = text.or_else(|| self.tree.get(entry, "symbol").map(str::to_owned));
            match text {
                Some(text) => entries.push((value, text.trim_end().to_owned())),
                None => self.warn(format!("map {name:?} has no text for {value}")),
            }
        }
        Map { name: name.to_owned(), kind, entries }
    }

    /// Fields in the order of a TRACE_EVENT_INFO; how many are top-level. `None` where a type is not known: what follows it
    /// would be read wrong.
    fn template(
        &mut self,
        element: usize,
        tid: &str,
        provider: &str,
        maps: &HashMap<&str, Arc<Map>>,
    ) -> Option<(Vec<Field>, usize)> {
        let tree = self.tree;
        let items: Vec<usize> = tree.elements[element]
            .children
            .iter()
            .copied()
            .filter(|item| {
                ["data", "struct", "binary"].contains(&tree.elements[*item].name.as_str())
            })
            .collect();
        let mut fields = Vec::new();
        let top_level = items.len();
        let mut structs = Vec::new();
        let refuse = |compiler: &mut Self, what: String| {
            compiler.warn(format!("{provider}: template {tid:?} is left out: {what}"));
            None
        };
        for &item in &items {
            if tree.elements[item].name == "struct" {
                structs.push((fields.len(), item));
                let name = tree.get(item, "name").unwrap_or_default();
                let mut field = Field::new(name, Wire::Nothing, Show::Plain);
                field.kind = Kind::Struct { first: 0, count: 0 };
                match self.count(item, &fields, 0..fields.len()) {
                    Ok(count) => field.count = count,
                    Err(what) => return refuse(self, what),
                }
                fields.push(field);
                continue;
            }
            match self.field(item, &fields, 0..fields.len(), maps) {
                Ok(field) => fields.push(field),
                Err(what) => return refuse(self, what),
            }
        }
        for (owner, element) in structs {
            let first = fields.len();
            let members: Vec<usize> = tree.children(element, "data").collect();
            for item in members {
                // A member refers to its siblings, or to what comes before the struct.
                match self.field(item, &fields, first..fields.len(), maps) {
                    Ok(field) => fields.push(field),
                    Err(what) => return refuse(self, what),
                }
            }
            fields[owner].kind = Kind::Struct { first, count: fields.len() - first };
        }
        Some((fields, top_level))
    }

    /// The field that `length` or `count` names, or its number.
    fn reference(
        &self,
        item: usize,
        attribute: &str,
        fields: &[Field],
        near: std::ops::Range<usize>,
    ) -> Result<Option<Result<u16, usize>>, String> {
        let Some(text) = self.tree.get(item, attribute).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        if let Some(number) = number(text) {
            let number = u16::try_from(number).map_err(|_| format!("{attribute} {number}"))?;
            return Ok(Some(Ok(number)));
        }
        let named =
            |range: std::ops::Range<usize>| range.rev().find(|index| fields[*index].name == text);
        match named(near).or_else(|| named(0..fields.len())) {
            Some(index) => Ok(Some(Err(index))),
            None => Err(format!("{attribute} {text:?} names no field before")),
        }
    }

    fn count(
        &self,
        item: usize,
        fields: &[Field],
        near: std::ops::Range<usize>,
    ) -> Result<Count, String> {
        Ok(match self.reference(item, "count", fields, near)? {
            None => Count::One,
            Some(Ok(number)) => Count::Fixed(number),
            Some(Err(index)) => Count::Field(index),
        })
    }

    fn field(
        &mut self,
        item: usize,
        fields: &[Field],
        near: std::ops::Range<usize>,
        maps: &HashMap<&str, Arc<Map>>,
    ) -> Result<Field, String> {
        let tree = self.tree;
        let name = tree.get(item, "name").unwrap_or_default().to_owned();
        let in_type = tree.get(item, "inType").unwrap_or("win:UnicodeString");
        let in_type = InType::of_manifest(in_type)
            .ok_or_else(|| format!("{name:?} has the type {in_type:?}"))?;
        let out_type = match tree.get(item, "outType") {
            None => OutType::NULL,
            Some(text) => OutType::of_manifest(text).unwrap_or_else(|| {
                self.warn(format!("field {name:?} has the unknown outType {text:?}"));
                OutType::NULL
            }),
        };
        let Some(wire) = in_type.wire() else { return Err(format!("{name:?} has no encoding")) };
        let mut field = Field::new(name, wire, in_type.show(out_type));
        // A compiled manifest has the default where the text says nothing.
        let is_default = out_type == OutType::NULL;
        field.types = (in_type, if is_default { in_type.default_out() } else { out_type });
        field.no_print = out_type == OutType::NOPRINT;
        field.count = self.count(item, fields, near.clone())?;
        if matches!(wire, Wire::Utf16 | Wire::Ansi | Wire::Binary) {
            field.length = match self.reference(item, "length", fields, near)? {
                None => Length::Own,
                Some(Ok(number)) => Length::Fixed(number),
                Some(Err(index)) => Length::Field(index),
            };
        }
        if let Some(map) = tree.get(item, "map").filter(|map| !map.is_empty()) {
            match maps.get(map) {
                Some(map) => field.map = Some(map.clone()),
                None => self
                    .warn(format!("field {:?} names the map {map:?}, which is none", field.name)),
            }
        }
        Ok(field)
    }

    fn event(&mut self, element: usize, known: &Provider<'t>, provider: &mut ManifestProvider) {
        let tree = self.tree;
        let get = |name: &str| tree.get(element, name).filter(|text| !text.is_empty());
        let id = get("value").and_then(number).and_then(|value| u16::try_from(value).ok());
        let Some(id) = id else {
            return self.warn(format!("{}: an event without a value", provider.name));
        };
        let version = get("version").and_then(number).unwrap_or(0) as u8;
        if provider.events.contains_key(&(id, version)) {
            return self.warn(format!("{}: event {id} version {version} again", provider.name));
        }
        let (fields, top_level) = match get("template") {
            None => (Vec::new(), 0),
            Some(tid) => match known.templates.get(tid) {
                // Looked at before it is copied.
                Some(template) if template.0.len() * size_of::<Field>() > self.limit => {
                    return self
                        .warn(format!("{}: event {id} is left out: too large", provider.name));
                }
                Some(_) if self.manifest.size > self.limit => {
                    return self.warn(format!(
                        "{}: event {id} is left out: too large in all",
                        provider.name
                    ));
                }
                Some(template) => template.clone(),
                None => {
                    let what = format!("{}: event {id} needs template {tid:?}", provider.name);
                    return self.warn(what);
                }
            },
        };
        let task = get("task").and_then(|task| known.tasks.get(task));
        let own_opcode = |name: &str| {
            let mut own = tree.grandchildren(task?.1, "opcodes", "opcode");
            let opcode = own.find(|opcode| tree.get(*opcode, "name") == Some(name))?;
            self.shown(opcode).map(|(_, shown)| shown)
        };
        let opcode = get("opcode").map(|name| {
            let own = own_opcode(name).or_else(|| known.opcodes.get(name).cloned());
            own.unwrap_or_else(|| name.to_owned())
        });
        let keywords = get("keywords").unwrap_or_default().split_ascii_whitespace();
        let keywords = keywords.map(|name| match known.keywords.get(name) {
            Some((_, shown)) => shown.clone(),
            None => name.to_owned(),
        });
        let or_itself = |map: &HashMap<&str, String>, name: &str| {
            map.get(name).cloned().unwrap_or_else(|| name.to_owned())
        };
        let mut names = Names {
            provider: Some(provider.name.clone()),
            event: get("name").map(str::to_owned),
            level: get("level").map(|name| or_itself(&known.levels, name)),
            channel: get("channel").map(|name| or_itself(&known.channels, name)),
            task: get("task")
                .map(|name| task.map_or_else(|| name.to_owned(), |task| task.0.clone())),
            opcode,
            keywords: keywords.take(64).collect(),
        };
        if names.task.as_deref() == Some("win:None") {
            names.task = None;
        }
        names.resolve_event();
        if names.event.is_none() {
            names.event = get("symbol").map(str::to_owned);
        }
        let mut schema = Schema::new(names, fields, top_level);
        if let Some(message) = get("message") {
            match self.text(message) {
                Some(text) => schema.message = Some(Message::parse(&text)),
                None => self.warn(format!("{}: event {id} has no text {message}", provider.name)),
            }
        }
        self.manifest.size += schema.size();
        if self.manifest.size > self.limit {
            return self
                .warn(format!("{}: event {id} is left out: too large in all", provider.name));
        }
        provider.events.insert((id, version), schema);
    }
}
