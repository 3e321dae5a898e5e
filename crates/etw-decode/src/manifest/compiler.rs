//! From elements to schemas.

use super::named_values;
use super::xml::{Tree, number};
use crate::field::{Count, Field, Kind, Length};
use crate::layout::{lost_struct, sized_part, unsized_field, whole_part};
use crate::map::{Map, MapKind};
use crate::message::Message;
use crate::provider::{
    ChannelConfig, KeywordName, Manifest, ManifestChannel, ManifestProvider, ProviderTexts,
};
use crate::schema::{Names, Schema};
use crate::wevt::UNDETERMINED;
use etw_tracelogging::tdh::{InType, OutType};
use etw_tracelogging::{Show, Wire};
use etw_types::{EventDescriptor, Guid, Keyword, Level, Opcode, message_id, winmeta};
use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct Compiler<'t> {
    tree: &'t Tree<'t>,
    /// By reference, as `string.ID` or `mc.ID`.
    strings: HashMap<String, LocalText>,
    /// The language of the first texts.
    language: Option<Arc<str>>,
    pub manifest: Manifest,
    limit: usize,
}

/// A text of one of the manifest's languages.
struct LocalText {
    value: String,
    language: Option<Arc<str>>,
}

/// A level, task or opcode: its value and what is shown of it.
struct Numbered<N> {
    value: N,
    shown: String,
    element: usize,
}

/// A channel as events refer to it.
#[derive(Clone)]
struct Channel {
    value: u8,
    /// The keyword bit by which a session enables it.
    bit: u64,
    name: String,
}

/// Everything that events of a provider refer to by name.
#[derive(Default)]
struct Provider<'t> {
    levels: HashMap<&'t str, Numbered<u8>>,
    /// The task's element holds its own opcodes.
    tasks: HashMap<&'t str, Numbered<u16>>,
    opcodes: HashMap<&'t str, Numbered<u8>>,
    keywords: HashMap<&'t str, KeywordName>,
    /// By name and by id.
    channels: HashMap<&'t str, Channel>,
    maps: HashMap<&'t str, Arc<Map>>,
    templates: HashMap<&'t str, Template>,
}

/// Fields in the order of a TRACE_EVENT_INFO.
struct Template {
    fields: Vec<Field>,
    top_level: usize,
    /// Why fields are missing at its end.
    incomplete: Option<String>,
    /// One of the fields may be a struct that lost its members.
    needs_exact_fit: bool,
}

impl<'t> Compiler<'t> {
    pub fn new(tree: &'t Tree<'t>, limit: usize) -> Compiler<'t> {
        Compiler {
            tree,
            strings: HashMap::new(),
            language: None,
            manifest: Manifest::default(),
            limit,
        }
    }

    pub fn warn(&mut self, what: impl Into<String>) {
        self.manifest.warn(what.into());
    }

    /// Reads the texts; English ones come first, because tools expect them.
    pub fn strings(&mut self) {
        let tree = self.tree;
        let english = |element: usize| {
            tree.get(element, "culture")
                .is_some_and(|culture| culture.to_ascii_lowercase().starts_with("en"))
        };
        let mut resources: Vec<usize> = tree.all("resources").collect();
        resources.sort_by_key(|element| !english(*element));
        for resource in resources {
            let culture = tree.get(resource, "culture").filter(|culture| !culture.is_empty());
            let language: Arc<str> = culture.unwrap_or(UNDETERMINED).into();
            for string in tree.grandchildren(resource, "stringTable", "string") {
                if let (Some(id), Some(value)) = (tree.get(string, "id"), tree.get(string, "value"))
                {
                    self.language.get_or_insert_with(|| Arc::clone(&language));
                    self.strings.entry(format!("string.{id}")).or_insert_with(|| LocalText {
                        value: value.to_owned(),
                        language: Some(Arc::clone(&language)),
                    });
                }
            }
        }
        for message in tree.all("messageTable").flat_map(|table| tree.children(table, "message")) {
            let reference = tree.get(message, "message");
            let text = reference.and_then(|text| self.text(text));
            let language = reference.and_then(|text| self.language_of(text));
            for id in ["symbol", "mid"].into_iter().filter_map(|key| tree.get(message, key)) {
                if let Some(text) = &text {
                    self.strings.entry(format!("mc.{id}")).or_insert_with(|| LocalText {
                        value: text.clone(),
                        language: language.clone(),
                    });
                }
            }
        }
    }

    /// A text or what `$(…)` stands for; `None` for a reference to nothing.
    fn text(&self, text: &str) -> Option<String> {
        match reference(text) {
            Some(reference) => self.strings.get(reference).map(|text| text.value.clone()),
            None => Some(text.to_owned()),
        }
        .filter(|text| !text.is_empty())
    }

    /// The language of what `$(…)` stands for. A text in its place has none.
    fn language_of(&self, text: &str) -> Option<Arc<str>> {
        self.strings.get(reference(text)?)?.language.clone()
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
            known.levels.extend(self.numbered(level));
        }
        for task in tree.grandchildren(element, "tasks", "task") {
            known.tasks.extend(self.numbered(task));
        }
        for opcode in tree.grandchildren(element, "opcodes", "opcode") {
            known.opcodes.extend(self.numbered(opcode));
        }
        for keyword in tree.grandchildren(element, "keywords", "keyword") {
            let mask = Keyword(tree.get(keyword, "mask").and_then(number).unwrap_or(0));
            let named = self.shown(keyword).map(|(id, name)| (id, KeywordName { mask, name }));
            known.keywords.extend(named);
        }
        let channels = self.channels(element, &mut known.channels);
        for (kind, list) in [(MapKind::Value, "valueMap"), (MapKind::Bits, "bitMap")] {
            for map in tree.grandchildren(element, "maps", list) {
                let Some(name) = tree.get(map, "name") else { continue };
                known.maps.insert(name, Arc::new(self.map(map, name, kind)));
            }
        }
        for template in tree.grandchildren(element, "templates", "template") {
            let Some(tid) = tree.get(template, "tid") else { continue };
            let mut template = self.template(template, tid, name, &known.maps);
            if tree.get(element, "source") == Some("Xml") {
                self.find_lost_struct(&mut template, tid, name);
            }
            known.templates.entry(tid).or_insert(template);
        }
        let mut provider = ManifestProvider {
            guid,
            control_guid: tree.get(element, "controlGuid").and_then(|guid| guid.parse().ok()),
            name: name.to_owned(),
            events: HashMap::new(),
            keywords: known.keywords.values().cloned().collect(),
            channels,
            maps: known.maps.values().cloned().collect(),
            named_values: named_values::of_provider(tree, element, &|element| {
                self.message_of(element)
            }),
            texts: self.texts_of(element),
        };
        provider.keywords.sort();
        provider.maps.sort_by(|a, b| a.name.cmp(&b.name));
        for event in tree.grandchildren(element, "events", "event") {
            self.event(event, &known, &mut provider);
        }
        self.manifest.providers.push(provider);
    }

    fn texts_of(&self, element: usize) -> ProviderTexts {
        let file = |key| self.tree.get(element, key).unwrap_or_default().to_owned();
        ProviderTexts {
            message: self.message_of(element),
            help_link: file("helpLink"),
            resource_file: file("resourceFileName"),
            message_file: file("messageFileName"),
        }
    }

    /// An element's message; empty if it has none.
    fn message_of(&self, element: usize) -> String {
        self.tree.get(element, "message").and_then(|text| self.text(text)).unwrap_or_default()
    }

    fn numbered<N: TryFrom<u64> + Default>(
        &self,
        element: usize,
    ) -> Option<(&'t str, Numbered<N>)> {
        let (name, shown) = self.shown(element)?;
        let value = self.tree.get(element, "value").and_then(number);
        let value = value.and_then(|value| N::try_from(value).ok()).unwrap_or_default();
        Some((name, Numbered { value, shown, element }))
    }

    /// Channels in the order of the text: each takes the next keyword bit from bit 63 down, and the next value from 16 up unless
    /// it has one.
    fn channels(
        &self,
        provider: usize,
        known: &mut HashMap<&'t str, Channel>,
    ) -> Vec<ManifestChannel> {
        let tree = self.tree;
        let mut all = Vec::new();
        let mut next = 16u8;
        // Numbers of the messages of the provider and its channels: a string that is used again keeps its number.
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        numbers.extend(tree.get(provider, "message").map(|text| (text, 1)));
        let lists = tree.children(provider, "channels");
        let channels = lists.flat_map(|list| tree.elements[list].children.iter().copied());
        for (order, channel) in channels.enumerate() {
            let Some(name) = tree.get(channel, "name") else { continue };
            let value = tree.get(channel, "value").and_then(number);
            let imported = Some(channel)
                .filter(|channel| tree.elements[*channel].name == "importChannel")
                .and_then(|_| winmeta::find(&winmeta::CHANNELS, name));
            let own_value = imported.map(|row| row.value.0);
            let value = value.and_then(|value| u8::try_from(value).ok()).or(own_value);
            let value = value.unwrap_or_else(|| {
                let value = next;
                next = next.saturating_add(1);
                value
            });
            let bit = 1u64.checked_shl(63 - order.min(63) as u32).unwrap_or(0);
            let one = Channel { value, bit, name: name.to_owned() };
            known.extend(tree.get(channel, "chid").map(|id| (id, one.clone())));
            known.insert(name, one);
            let config = self.channel_config(channel);
            let own_text = imported.map(|row| row.text);
            let reference = tree.get(channel, "message").or(own_text);
            let message_id = reference.map(|text| {
                let next = numbers.len() as u32 + 1;
                message_id::CHANNEL + *numbers.entry(text).or_insert(next)
            });
            let message = match tree.get(channel, "message") {
                Some(_) => self.message_of(channel),
                None => own_text.unwrap_or_default().to_owned(),
            };
            let name = name.to_owned();
            all.push(ManifestChannel { value, name, message, message_id, config });
        }
        all.sort_by_key(|channel| channel.value);
        all
    }

    fn channel_config(&self, channel: usize) -> ChannelConfig {
        let tree = self.tree;
        let text = |name: &str| tree.get(channel, name).map(str::to_owned);
        let truth = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        };
        let setting = |list: &str, name: &str| {
            let element = tree.grandchildren(channel, list, name).next()?;
            Some(tree.elements[element].text.trim().to_owned())
        };
        let setting_number = |list, name| setting(list, name).as_deref().and_then(number);
        ChannelConfig {
            is_imported: tree.elements[channel].name == "importChannel",
            kind: text("type"),
            enabled: tree.get(channel, "enabled").and_then(truth),
            isolation: text("isolation"),
            access: text("access"),
            retention: setting("logging", "retention").as_deref().and_then(truth),
            auto_backup: setting("logging", "autoBackup").as_deref().and_then(truth),
            max_size: setting_number("logging", "maxSize"),
            level: setting_number("publishing", "level")
                .and_then(|level| u8::try_from(level).ok().map(Level)),
            keywords: setting_number("publishing", "keywords").map(Keyword),
        }
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

    /// A template's fields, up to the first one that cannot be decoded.
    fn template(
        &mut self,
        element: usize,
        tid: &str,
        provider: &str,
        maps: &HashMap<&str, Arc<Map>>,
    ) -> Template {
        let tree = self.tree;
        // The form of the event's XML says nothing of its fields.
        let is_item = |item: &usize| tree.elements[*item].name != "UserData";
        let items = tree.elements[element].children.iter().copied().filter(is_item);
        let mut fields = Vec::new();
        let mut structs = Vec::new();
        let mut incomplete = None;
        for item in items {
            let field = match &*tree.elements[item].name {
                "struct" => self.structure(item, &fields),
                "data" | "binary" => self.field(item, &fields, 0..fields.len(), maps),
                other => Err(format!("the element {other:?} is not known")),
            };
            match field {
                Ok(field) => {
                    if field.is_struct() {
                        structs.push((fields.len(), item));
                    }
                    fields.push(Ok(field));
                }
                Err(what) => {
                    incomplete = Some(what);
                    break;
                }
            }
        }
        let top_level = fields.len();
        for (owner, element) in structs {
            let first = fields.len();
            for item in tree.elements[element].children.iter().copied() {
                let member = match &*tree.elements[item].name {
                    // A member refers to its siblings, or to a field before the struct.
                    "data" | "binary" => self.field(item, &fields, first..fields.len(), maps),
                    other => Err(format!("the element {other:?} in a struct is not known")),
                };
                fields.push(member);
            }
            let count = fields.len() - first;
            if let Ok(owner) = &mut fields[owner] {
                owner.kind = Kind::Struct { first, count };
            }
        }
        let whole = whole_part(fields, top_level);
        if let Some(name) = unsized_field(&whole) {
            self.warn(format!(
                "{provider}: template {tid:?}: the binary field {name:?} has no length, so what follows it cannot be decoded"
            ));
        }
        let whole = sized_part(whole);
        let incomplete = whole.incomplete.or(incomplete);
        if let Some(what) = &incomplete {
            let kept = whole.top_level;
            self.warn(format!("{provider}: template {tid:?} is cut behind {kept} fields: {what}"));
        }
        let (fields, top_level) = (whole.fields, whole.top_level);
        Template { fields, top_level, incomplete, needs_exact_fit: false }
    }

    /// A template of a manifest that PerfView regenerated.
    fn find_lost_struct(&mut self, template: &mut Template, tid: &str, provider: &str) {
        let Some(lost) = lost_struct(&template.fields, template.top_level) else { return };
        template.needs_exact_fit = true;
        self.warn(format!(
            "{provider}: template {tid:?}: the field {:?} may be a struct, whose members this form of a manifest does not carry",
            template.fields[lost].name
        ));
    }

    fn structure(&self, item: usize, fields: &[Result<Field, String>]) -> Result<Field, String> {
        let name = self.tree.get(item, "name").unwrap_or_default();
        let mut field = Field::new(name, Wire::Nothing, Show::Plain);
        field.kind = Kind::Struct { first: 0, count: 0 };
        field.count = self.count(item, fields, 0..fields.len())?;
        Ok(field)
    }

    /// The field that `length` or `count` names, or its number.
    fn reference(
        &self,
        item: usize,
        attribute: &str,
        fields: &[Result<Field, String>],
        near: std::ops::Range<usize>,
    ) -> Result<Option<Result<u16, usize>>, String> {
        let Some(text) = self.tree.get(item, attribute).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        if let Some(number) = number(text) {
            let number = u16::try_from(number).map_err(|_| format!("{attribute} {number}"))?;
            return Ok(Some(Ok(number)));
        }
        let is_named =
            |index: &usize| fields[*index].as_ref().is_ok_and(|field| field.name == text);
        let named = |mut range: std::ops::Range<usize>| range.rfind(is_named);
        match named(near).or_else(|| named(0..fields.len())) {
            Some(index) => Ok(Some(Err(index))),
            None => Err(format!("{attribute} {text:?} names no field before")),
        }
    }

    fn count(
        &self,
        item: usize,
        fields: &[Result<Field, String>],
        near: std::ops::Range<usize>,
    ) -> Result<Count, String> {
        Ok(match self.reference(item, "count", fields, near)? {
            // `mc` compiles a count of one as none.
            None | Some(Ok(0 | 1)) => Count::One,
            Some(Ok(number)) => Count::Fixed(number),
            Some(Err(index)) => Count::Field(index),
        })
    }

    fn field(
        &mut self,
        item: usize,
        fields: &[Result<Field, String>],
        near: std::ops::Range<usize>,
        maps: &HashMap<&str, Arc<Map>>,
    ) -> Result<Field, String> {
        let tree = self.tree;
        let name = tree.get(item, "name").unwrap_or_default().to_owned();
        let default = match &*tree.elements[item].name {
            "binary" => "win:Binary",
            _ => "win:UnicodeString",
        };
        let in_type = tree.get(item, "inType").unwrap_or(default);
        let in_type =
            in_type_of(in_type).ok_or_else(|| format!("{name:?} has the type {in_type:?}"))?;
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
                // `mc` compiles a length of zero as none.
                None | Some(Ok(0)) => Length::Own,
                Some(Ok(number)) => Length::Fixed(number),
                Some(Err(index)) => Length::Field(index),
            };
        }
        if let Some(map) = tree.get(item, "map").filter(|map| !map.is_empty()) {
            match maps.get(map) {
                Some(map) => field.map = Some(map.clone()),
                None => self.warn(format!(
                    "field {:?} names the map {map:?}, which does not exist",
                    field.name
                )),
            }
        }
        Ok(field)
    }

    fn event(&mut self, element: usize, known: &Provider<'t>, provider: &mut ManifestProvider) {
        let tree = self.tree;
        let get = |name: &str| tree.get(element, name).filter(|text| !text.is_empty());
        // The ids of a classic event source have their severity and facility in the upper word.
        let id = get("value").and_then(number).and_then(|value| u32::try_from(value).ok());
        let Some(id) = id.map(|id| id as u16) else {
            return self.warn(format!("{}: an event without a value", provider.name));
        };
        let version = get("version").and_then(number).unwrap_or(0) as u8;
        if provider.events.contains_key(&(id, version)) {
            return self.warn(format!("{}: event {id} version {version} again", provider.name));
        }
        let none =
            Template { fields: Vec::new(), top_level: 0, incomplete: None, needs_exact_fit: false };
        let template = match get("template") {
            None => &none,
            Some(tid) => match known.templates.get(tid) {
                // Checked before it is copied.
                Some(template) if template.fields.len() * size_of::<Field>() > self.limit => {
                    return self
                        .warn(format!("{}: event {id} is left out: too large", provider.name));
                }
                Some(_) if self.manifest.size > self.limit => {
                    return self.warn(format!(
                        "{}: event {id} is left out: too large in all",
                        provider.name
                    ));
                }
                Some(template) => template,
                None => {
                    let what = format!("{}: event {id} needs template {tid:?}", provider.name);
                    return self.warn(what);
                }
            },
        };
        let mut descriptor =
            EventDescriptor { level: Level(0), id, version, ..EventDescriptor::default() };
        let mut names = self.names(element, known, &mut descriptor);
        names.provider = Some(provider.name.clone());
        names.resolve_event();
        if names.event.is_none() {
            names.event = get("symbol").map(str::to_owned);
        }
        let mut schema = Schema::new(names, template.fields.clone(), template.top_level);
        schema.descriptor = Some(descriptor);
        schema.incomplete = template.incomplete.clone().map(String::into_boxed_str);
        schema.needs_exact_fit = template.needs_exact_fit;
        schema.language.clone_from(&self.language);
        if let Some(message) = get("message") {
            match self.text(message) {
                Some(text) => {
                    schema.message = Some(Message::parse(&text));
                    schema.language = self.language_of(message);
                }
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

    /// Names of an event's parts, whose values go to the descriptor.
    fn names(
        &self,
        element: usize,
        known: &Provider<'t>,
        descriptor: &mut EventDescriptor,
    ) -> Names {
        let tree = self.tree;
        let get = |name: &str| tree.get(element, name).filter(|text| !text.is_empty());
        let mut names = Names { event: get("name").map(str::to_owned), ..Names::default() };
        let mut take = |value: Level, shown: &str| {
            descriptor.level = value;
            shown.to_owned()
        };
        names.level = get("level").map(|name| {
            // PerfView's regenerated manifests have the first name.
            let documented = if name == "win:Always" { "win:LogAlways" } else { name };
            match (known.levels.get(name), winmeta::find(&winmeta::LEVELS, documented)) {
                (Some(level), _) => take(Level(level.value), &level.shown),
                (None, Some(row)) => take(row.value, row.text),
                (None, None) => name.to_owned(),
            }
        });
        let task = get("task").and_then(|task| known.tasks.get(task));
        descriptor.task = task.map_or(0, |task| task.value);
        names.task = get("task")
            .filter(|name| *name != "win:None")
            .map(|name| task.map_or_else(|| name.to_owned(), |task| task.shown.clone()));
        let own_opcode = |name: &str| {
            let mut own = tree.grandchildren(task?.element, "opcodes", "opcode");
            let opcode = own.find(|opcode| tree.get(*opcode, "name") == Some(name))?;
            self.numbered::<u8>(opcode).map(|(_, opcode)| opcode)
        };
        names.opcode = get("opcode").map(|name| {
            let mut take = |value: Opcode, shown: &str| {
                descriptor.opcode = value;
                shown.to_owned()
            };
            let predefined = winmeta::find(&winmeta::OPCODES, name);
            match (own_opcode(name), known.opcodes.get(name), predefined) {
                (Some(opcode), ..) => take(Opcode(opcode.value), &opcode.shown),
                (_, Some(opcode), _) => take(Opcode(opcode.value), &opcode.shown),
                (_, _, Some(row)) => take(row.value, row.text),
                _ => name.to_owned(),
            }
        });
        let mut keyword = Keyword(0);
        for name in get("keywords").unwrap_or_default().split_ascii_whitespace().take(64) {
            names.keywords.push(match known.keywords.get(name) {
                Some(known) => {
                    keyword = keyword | known.mask;
                    known.name.clone()
                }
                None => {
                    let predefined = winmeta::find(&winmeta::KEYWORDS, name);
                    keyword = predefined.map_or(keyword, |row| keyword | row.value);
                    name.to_owned()
                }
            });
        }
        names.channel = get("channel").map(|name| match known.channels.get(name) {
            Some(channel) => {
                descriptor.channel = etw_types::Channel(channel.value);
                keyword = keyword | Keyword(channel.bit);
                channel.name.clone()
            }
            None => {
                let predefined = winmeta::find(&winmeta::CHANNELS, name);
                descriptor.channel = predefined.map(|row| row.value).unwrap_or_default();
                name.to_owned()
            }
        });
        descriptor.keyword = keyword;
        names
    }
}

/// The name in `$(name)`.
fn reference(text: &str) -> Option<&str> {
    Some(text.strip_prefix("$(")?.strip_suffix(')')?.trim())
}

/// The in-type of a name. PerfView's regenerated manifests have names of their own for some types, and numbers for others.
fn in_type_of(name: &str) -> Option<InType> {
    let known = InType::of_manifest(name);
    known.or_else(|| match name.strip_prefix("win:").unwrap_or(name) {
        "CountedUtf16String" => Some(InType::MANIFEST_COUNTEDSTRING),
        "CountedMbcsString" => Some(InType::MANIFEST_COUNTEDANSISTRING),
        number => number.parse().ok().map(InType).filter(|in_type| in_type.wire().is_some()),
    })
}
