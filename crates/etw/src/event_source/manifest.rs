//! The manifest of an EventSource, in the form that .NET generates.

use std::fmt::Write;

use etw_types::{Guid, Keyword};

use super::{SourceEvent, SourceType};

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
pub fn xml(
    name: &str,
    id: &Guid,
    keywords: &[(String, Keyword)],
    events: &[SourceEvent],
) -> String {
    let mut manifest = Manifest { xml: String::new(), strings: String::new() };
    manifest.head(name, id);
    manifest.tasks(events);
    manifest.own_levels(events);
    manifest.own_opcodes(events);
    manifest.keywords(keywords, events);
    manifest.events(keywords, events);
    manifest.templates(events);
    manifest.end()
}

struct Manifest {
    xml: String,
    /// The table of strings.
    strings: String,
}

/// Adds a line to a text; that cannot fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        let _ = writeln!($text, $($format)*);
    }};
}

impl Manifest {
    fn head(&mut self, name: &str, id: &Guid) {
        let name = escaped(name);
        self.xml.push_str(
            "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">\n\
             <instrumentation xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" \
             xmlns:win=\"http://manifests.microsoft.com/win/2004/08/windows/events\">\n<events>\n",
        );
        let id = id.to_string();
        let id = id.trim_matches(['{', '}']);
        let symbol: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        line!(
            self.xml,
            "<provider name=\"{name}\" guid=\"{{{id}}}\" resourceFileName=\"{name}\" \
             messageFileName=\"{name}\" symbol=\"{symbol}\">"
        );
    }

    fn string(&mut self, id: &str, value: &str) {
        line!(self.strings, "<string id=\"{id}\" value=\"{}\"/>", escaped(value));
    }

    fn tasks(&mut self, events: &[SourceEvent]) {
        self.xml.push_str("<tasks>\n");
        for event in events {
            let (name, task) = (escaped(&event.name), event.descriptor.task);
            let id = format!("task_{task}");
            line!(self.xml, "<task name=\"{name}\" message=\"$(string.{id})\" value=\"{task}\"/>");
            self.string(&id, &event.name);
        }
        self.xml.push_str("</tasks>\n");
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
            let id = format!("level_{level}");
            line!(self.xml, "<level name=\"{id}\" message=\"$(string.{id})\" value=\"{level}\"/>");
            self.string(&id, &format!("Level {level}"));
        }
        self.xml.push_str("</levels>\n");
    }

    fn own_opcodes(&mut self, events: &[SourceEvent]) {
        let mut opcodes: Vec<u8> = events.iter().map(|event| event.descriptor.opcode.0).collect();
        opcodes.retain(|opcode| OPCODES.iter().all(|(known, _)| known != opcode));
        opcodes.sort_unstable();
        opcodes.dedup();
        self.xml.push_str("<opcodes>\n");
        for opcode in opcodes {
            let id = format!("opcode_{opcode}");
            line!(
                self.xml,
                "<opcode name=\"{id}\" message=\"$(string.{id})\" value=\"{opcode}\"/>"
            );
            self.string(&id, &format!("Opcode {opcode}"));
        }
        self.xml.push_str("</opcodes>\n");
    }

    /// Named keywords, and bits that events have without a name.
    fn keywords(&mut self, keywords: &[(String, Keyword)], events: &[SourceEvent]) {
        self.xml.push_str("<keywords>\n");
        for (name, mask) in all_keywords(keywords, events) {
            let id = format!("keyword_{mask:x}");
            line!(
                self.xml,
                "<keyword name=\"{}\" message=\"$(string.{id})\" mask=\"{mask:#x}\"/>",
                escaped(&name)
            );
            self.string(&id, &name);
        }
        self.xml.push_str("</keywords>\n");
    }

    fn events(&mut self, keywords: &[(String, Keyword)], events: &[SourceEvent]) {
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
                "<event value=\"{id}\" version=\"{version}\" level=\"{level}\" symbol=\"{name}\" task=\"{name}\""
            );
            let named = OPCODES.iter().find(|(known, _)| *known == descriptor.opcode.0);
            let opcode = match named {
                Some((_, opcode)) => (*opcode).to_owned(),
                None => format!("opcode_{}", descriptor.opcode.0),
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
                let _ = write!(self.xml, " message=\"$(string.event_{id})\"");
                self.string(&format!("event_{id}"), &inserts(message, event));
            }
            self.xml.push_str("/>\n");
        }
        self.xml.push_str("</events>\n");
    }

    fn templates(&mut self, events: &[SourceEvent]) {
        self.xml.push_str("<templates>\n");
        for event in events.iter().filter(|event| !event.fields.is_empty()) {
            line!(self.xml, "<template tid=\"{}Args\">", escaped(&event.name));
            for (name, kind) in &event.fields {
                let (name, in_type) = (escaped(name), kind.in_type());
                match kind {
                    // The count stands in front of the bytes, under a name of its own.
                    SourceType::Bytes => {
                        line!(self.xml, "<data name=\"{name}Size\" inType=\"win:UInt32\"/>");
                        line!(
                            self.xml,
                            "<data name=\"{name}\" inType=\"{in_type}\" length=\"{name}Size\"/>"
                        );
                    }
                    _ => line!(self.xml, "<data name=\"{name}\" inType=\"{in_type}\"/>"),
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

fn all_keywords(keywords: &[(String, Keyword)], events: &[SourceEvent]) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> =
        keywords.iter().map(|(name, keyword)| (name.clone(), keyword.0)).collect();
    let named = all.iter().fold(0, |bits, (_, mask)| bits | mask);
    // The upper bits are those of channels and of Windows.
    let used = events.iter().fold(0, |bits, event| bits | event.descriptor.keyword.0);
    let nameless = (0..48).map(|bit| 1u64 << bit).filter(|bit| used & bit & !named != 0);
    all.extend(nameless.map(|bit| (format!("keyword_{bit:x}"), bit)));
    all
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
