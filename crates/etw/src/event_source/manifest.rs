//! The manifest of an EventSource, in the form that .NET generates.

use std::fmt::Write;

use etw_types::{Guid, Keyword};
use std::collections::{BTreeMap, BTreeSet};

use super::{EventSourceBuilder, SourceEvent, SourceMap, SourceType};

/// Levels and opcodes that manifests know by name.
const LEVELS: [&str; 6] = [
    "win:LogAlways",
    "win:Critical",
    "win:Error",
    "win:Warning",
    "win:Informational",
    "win:Verbose",
];
const OPCODES: [(u8, &str); 11] = [
    (0, "win:Info"),
    (1, "win:Start"),
    (2, "win:Stop"),
    (3, "win:DC_Start"),
    (4, "win:DC_Stop"),
    (5, "win:Extension"),
    (6, "win:Reply"),
    (7, "win:Resume"),
    (8, "win:Suspend"),
    (9, "win:Send"),
    (240, "win:Receive"),
];

/// The manifest of a provider.
pub fn xml(source: &EventSourceBuilder) -> String {
    let EventSourceBuilder { name, id, keywords, tasks, opcodes, maps, events, .. } = source;
    let mut manifest = Manifest::default();
    manifest.head(name, id);
    let tasks = all_tasks(tasks, events);
    manifest.tasks(&tasks);
    manifest.own_levels(events);
    manifest.maps(maps);
    manifest.own_opcodes(opcodes, events);
    manifest.keywords(keywords, events);
    manifest.events(source, &tasks);
    manifest.templates(events);
    manifest.end()
}

#[derive(Default)]
struct Manifest {
    xml: String,
    /// The table of strings.
    strings: String,
    /// The texts in it, by id.
    ids: BTreeMap<String, String>,
}

/// Adds a line to a text; that cannot fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        let _ = writeln!($text, $($format)*);
    }};
}

impl Manifest {
    fn head(&mut self, name: &str, id: &Guid) {
        let symbol = symbol(name);
        let name = escaped(name);
        self.xml.push_str(
            "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">\n\
             <instrumentation xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" \
             xmlns:win=\"http://manifests.microsoft.com/win/2004/08/windows/events\">\n<events>\n",
        );
        let id = id.to_string();
        let id = id.trim_matches(['{', '}']);
        line!(
            self.xml,
            "<provider name=\"{name}\" guid=\"{{{id}}}\" resourceFileName=\"{name}\" \
             messageFileName=\"{name}\" symbol=\"{symbol}\">"
        );
    }

    /// Adds a text; gives its id, which is .NET's: `task_Selling`. Of two texts with one id, the second has its number instead.
    fn string(&mut self, kind: &str, name: &str, number: &str, value: &str) -> String {
        let own = format!("{kind}_{}", escaped(name));
        let id = match self.ids.get(&own) {
            Some(known) if known != value => format!("{kind}_{number}"),
            _ => own,
        };
        if self.ids.insert(id.clone(), value.to_owned()).is_none() {
            line!(self.strings, "<string id=\"{id}\" value=\"{}\"/>", escaped(value));
        }
        id
    }

    fn tasks(&mut self, tasks: &BTreeMap<u16, String>) {
        self.xml.push_str("<tasks>\n");
        for (task, text) in tasks {
            let (name, id) = (escaped(text), self.string("task", text, &task.to_string(), text));
            line!(self.xml, "<task name=\"{name}\" message=\"$(string.{id})\" value=\"{task}\"/>");
        }
        self.xml.push_str("</tasks>\n");
    }

    fn maps(&mut self, maps: &[SourceMap]) {
        if maps.is_empty() {
            return;
        }
        self.xml.push_str("<maps>\n");
        for (number, map) in maps.iter().enumerate() {
            let kind = if map.is_bits { "bitMap" } else { "valueMap" };
            line!(self.xml, "<{kind} name=\"{}\">", escaped(&map.name));
            for (value, text) in &map.entries {
                let name = format!("{}.{text}", map.name);
                let id = self.string("map", &name, &format!("{number}_{value:x}"), text);
                line!(self.xml, "<map value=\"{value:#x}\" message=\"$(string.{id})\"/>");
            }
            line!(self.xml, "</{kind}>");
        }
        self.xml.push_str("</maps>\n");
    }

    /// Levels above Verbose need a name of their own.
    fn own_levels(&mut self, events: &[SourceEvent]) {
        let mut levels: Vec<u8> = events.iter().map(|event| event.descriptor.level.0).collect();
        levels.retain(|level| usize::from(*level) >= LEVELS.len());
        levels.sort_unstable();
        levels.dedup();
        if levels.is_empty() {
            return;
        }
        self.xml.push_str("<levels>\n");
        for level in levels {
            let number = level.to_string();
            let id = self.string("level", &number, &number, &format!("Level {level}"));
            line!(self.xml, "<level name=\"{id}\" message=\"$(string.{id})\" value=\"{level}\"/>");
        }
        self.xml.push_str("</levels>\n");
    }

    fn own_opcodes(&mut self, named: &BTreeMap<u8, String>, events: &[SourceEvent]) {
        let used = events.iter().map(|event| event.descriptor.opcode.0);
        let mut opcodes: BTreeSet<u8> = used.chain(named.keys().copied()).collect();
        opcodes.retain(|opcode| OPCODES.iter().all(|(known, _)| known != opcode));
        self.xml.push_str("<opcodes>\n");
        for opcode in opcodes {
            let number = opcode.to_string();
            let id = match named.get(&opcode) {
                Some(text) => self.string("opcode", text, &number, text),
                None => self.string("opcode", &number, &number, &format!("Opcode {opcode}")),
            };
            let name = escaped(&opcode_name(named, opcode));
            line!(
                self.xml,
                "<opcode name=\"{name}\" message=\"$(string.{id})\" value=\"{opcode}\"/>"
            );
        }
        self.xml.push_str("</opcodes>\n");
    }

    /// Named keywords, and bits that events have without a name.
    fn keywords(&mut self, keywords: &[(String, Keyword)], events: &[SourceEvent]) {
        self.xml.push_str("<keywords>\n");
        for (name, mask) in all_keywords(keywords, events) {
            let id = self.string("keyword", &name, &format!("{mask:x}"), &name);
            line!(
                self.xml,
                "<keyword name=\"{}\" message=\"$(string.{id})\" mask=\"{mask:#x}\"/>",
                escaped(&name)
            );
        }
        self.xml.push_str("</keywords>\n");
    }

    fn events(&mut self, source: &EventSourceBuilder, tasks: &BTreeMap<u16, String>) {
        let EventSourceBuilder { keywords, events, .. } = source;
        let known = all_keywords(keywords, events);
        self.xml.push_str("<events>\n");
        for event in events {
            let descriptor = &event.descriptor;
            let name = escaped(&event.name);
            let (id, version) = (descriptor.id, descriptor.version);
            let level = match LEVELS.get(usize::from(descriptor.level.0)) {
                Some(level) => (*level).to_owned(),
                None => format!("level_{}", descriptor.level.0),
            };
            let _ = write!(
                self.xml,
                "<event value=\"{id}\" version=\"{version}\" level=\"{level}\" symbol=\"{name}\""
            );
            if let Some(task) = tasks.get(&descriptor.task) {
                let _ = write!(self.xml, " task=\"{}\"", escaped(task));
            }
            let named = OPCODES.iter().find(|(known, _)| *known == descriptor.opcode.0);
            let opcode = match named {
                Some((_, opcode)) => (*opcode).to_owned(),
                None => escaped(&opcode_name(&source.opcodes, descriptor.opcode.0)),
            };
            if descriptor.opcode.0 != 0 {
                let _ = write!(self.xml, " opcode=\"{opcode}\"");
            }
            let of_event = known.iter().filter(|(_, mask)| descriptor.keyword.0 & mask != 0);
            let names: Vec<String> = of_event.map(|(name, _)| escaped(name)).collect();
            if !names.is_empty() {
                let _ = write!(self.xml, " keywords=\"{}\"", names.join(" "));
            }
            if !event.fields.is_empty() {
                let _ = write!(self.xml, " template=\"{name}Args\"");
            }
            if let Some(message) = &event.message {
                let number = format!("{id}_{version}");
                let text = self.string("event", &event.name, &number, &inserts(message, event));
                let _ = write!(self.xml, " message=\"$(string.{text})\"");
            }
            self.xml.push_str("/>\n");
        }
        self.xml.push_str("</events>\n");
    }

    fn templates(&mut self, events: &[SourceEvent]) {
        self.xml.push_str("<templates>\n");
        for event in events.iter().filter(|event| !event.fields.is_empty()) {
            line!(self.xml, "<template tid=\"{}Args\">", escaped(&event.name));
            for (index, (name, kind)) in event.fields.iter().enumerate() {
                let (name, in_type) = (escaped(name), kind.in_type());
                let map = event.maps.get(&index);
                let map = map.map_or(String::new(), |map| format!(" map=\"{}\"", escaped(map)));
                match kind {
                    // The count stands in front of the bytes, under a name of its own.
                    SourceType::Bytes => {
                        line!(self.xml, "<data name=\"{name}Size\" inType=\"win:UInt32\"/>");
                        line!(
                            self.xml,
                            "<data name=\"{name}\" inType=\"{in_type}\" length=\"{name}Size\"/>"
                        );
                    }
                    _ => line!(self.xml, "<data name=\"{name}\" inType=\"{in_type}\"{map}/>"),
                }
            }
            self.xml.push_str("</template>\n");
        }
        self.xml.push_str("</templates>\n");
    }

    fn end(mut self) -> String {
        self.xml.push_str(
            "</provider>\n</events>\n</instrumentation>\n<localization>\n<resources culture=\"en-US\">\n<stringTable>\n",
        );
        self.xml.push_str(&self.strings);
        self.xml.push_str(
            "</stringTable>\n</resources>\n</localization>\n</instrumentationManifest>\n",
        );
        self.xml
    }
}

/// The tasks of the events, with the names that they were given or that of their first event, and the others that have names.
fn all_tasks(named: &BTreeMap<u16, String>, events: &[SourceEvent]) -> BTreeMap<u16, String> {
    let mut tasks = named.clone();
    for event in events.iter().filter(|event| event.descriptor.task != 0) {
        tasks.entry(event.descriptor.task).or_insert_with(|| event.name.clone());
    }
    tasks
}

fn opcode_name(named: &BTreeMap<u8, String>, opcode: u8) -> String {
    named.get(&opcode).cloned().unwrap_or_else(|| format!("opcode_{opcode}"))
}

fn all_keywords(keywords: &[(String, Keyword)], events: &[SourceEvent]) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> =
        keywords.iter().map(|(name, keyword)| (in_a_list(name), keyword.0)).collect();
    let named = all.iter().fold(0, |bits, (_, mask)| bits | mask);
    // The upper bits are those of channels and of Windows.
    let used = events.iter().fold(0, |bits, event| bits | event.descriptor.keyword.0);
    let nameless = (0..48).map(|bit| 1u64 << bit).filter(|bit| used & bit & !named != 0);
    all.extend(nameless.map(|bit| (format!("keyword_{bit:x}"), bit)));
    all
}

/// A keyword's name as an event can name it in its list, where spaces stand between the names.
fn in_a_list(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join("_")
}

/// The name of a provider as .NET makes a symbol of it: without hyphens, and with `_` for other characters that no C name has.
fn symbol(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let symbol: String = name.chars().filter(|c| *c != '-').map(legal).collect();
    match symbol.starts_with(|c: char| c.is_ascii_digit()) || symbol.is_empty() {
        true => format!("_{symbol}"),
        false => symbol,
    }
}

/// `{0}` as the `%1` of manifests. The count of a field of bytes is an insert, too.
fn inserts(message: &str, event: &SourceEvent) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(['{', '%']) {
        out.push_str(&rest[..at]);
        let found = &rest[at..];
        let insert = found.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let index = insert.and_then(|(number, behind)| Some((number.parse().ok()?, behind)));
        match index {
            Some((index, behind)) if index < event.fields.len() => {
                let counts = event.fields[..=index].iter();
                let counts = counts.filter(|(_, kind)| *kind == SourceType::Bytes).count();
                let _ = write!(out, "%{}", index + counts + 1);
                rest = behind;
            }
            _ => {
                out.push_str(if found.starts_with('%') { "%%" } else { "{" });
                rest = &found[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other if other.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}
