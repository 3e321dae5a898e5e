//! Recording profiles of Windows Performance Recorder (`.wprp`): which collectors, providers, keywords and stacks a recording has.
//!
//! A file is hostile: its size and number of elements are bounded, document types are refused, and each error has a line.

use std::collections::HashMap;
use std::fmt;

use etw_types::{Keyword, Level};
use roxmltree::{Document, Node, ParsingOptions};

/// Bytes of the largest file that is read.
pub const MAX_SIZE: usize = 1 << 20;
/// Elements, attributes and texts of a file.
const MAX_NODES: u32 = 1 << 16;
/// Providers, keywords or stacks of a profile.
const MAX_ITEMS: usize = 4096;

/// A profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingProfile {
    /// Its name.
    pub name: String,
    /// Its detail level: `Light` or `Verbose`.
    pub level: String,
    /// Its purpose.
    pub description: String,
    /// It writes files; otherwise it records into memory.
    pub is_file: bool,
    /// The system's events.
    pub system: Option<SystemCollector>,
    /// The providers of programs.
    pub providers: Vec<EventProvider>,
    /// The buffers of the providers' session.
    pub buffers: Buffers,
}

/// The collector of the system's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemCollector {
    /// Its buffers.
    pub buffers: Buffers,
    /// Classes, in WPR's words.
    pub keywords: Vec<String>,
    /// Events with call stacks, in WPR's words.
    pub stacks: Vec<String>,
}

/// Buffers of a collector; `None`: those of the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// KB of a buffer.
    pub size_kb: Option<u32>,
    /// Their number.
    pub count: Option<u32>,
}

/// A provider of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventProvider {
    /// GUID, registered name, or `*` and the name of which the GUID is made.
    pub name: String,
    /// The highest level; 0: all.
    pub level: Level,
    /// Its keywords; 0: all.
    pub keywords: Keyword,
    /// Its events have call stacks.
    pub has_stacks: bool,
}

/// Why a file is no list of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProfileError {
    /// The line, from 1.
    pub line: u32,
    /// The fault there.
    pub message: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ProfileError {}

/// Reads the profiles of a file.
///
/// # Errors
/// [`ProfileError`].
pub fn read_profiles(bytes: &[u8]) -> Result<Vec<RecordingProfile>, ProfileError> {
    let wrong = |line, message: String| Err(ProfileError { line, message });
    if bytes.len() > MAX_SIZE {
        return wrong(1, format!("the file is larger than {MAX_SIZE} bytes"));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}'),
        Err(_) => return wrong(1, "the file is not UTF-8".to_owned()),
    };
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..Default::default() };
    let document = match Document::parse_with_options(text, options) {
        Ok(document) => document,
        Err(error) => return wrong(error.pos().row, error.to_string()),
    };
    let root = document.root_element();
    if root.tag_name().name() != "WindowsPerformanceRecorder" {
        return wrong(1, "the outermost element is not WindowsPerformanceRecorder".to_owned());
    }
    let reader = Reader::new(root)?;
    let profiles = elements(root, "Profiles").flat_map(|list| elements(list, "Profile"));
    let profiles: Vec<RecordingProfile> =
        profiles.map(|node| reader.profile(node)).collect::<Result<_, _>>()?;
    match profiles.is_empty() {
        true => wrong(1, "the file has no Profile".to_owned()),
        false => Ok(profiles),
    }
}

fn elements<'a, 'i>(
    node: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> + use<'a, 'i> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

fn error<T>(node: Node<'_, '_>, message: String) -> Result<T, ProfileError> {
    let line = node.document().text_pos_at(node.range().start).row;
    Err(ProfileError { line, message })
}

fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, ProfileError> {
    match node.attribute(name).map(str::trim).filter(|value| !value.is_empty()) {
        Some(value) => Ok(value),
        None => error(node, format!("{} has no {name}", node.tag_name().name())),
    }
}

fn number(node: Node<'_, '_>, text: &str) -> Result<u64, ProfileError> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number = match digits {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.or_else(|_| error(node, format!("{text:?} is not a number")))
}

/// The elements with an `Id`, which profiles refer to.
struct Reader<'a, 'i> {
    by_id: HashMap<&'a str, Node<'a, 'i>>,
}

impl<'a, 'i> Reader<'a, 'i> {
    fn new(root: Node<'a, 'i>) -> Result<Reader<'a, 'i>, ProfileError> {
        let mut by_id = HashMap::new();
        for node in root.descendants().filter(Node::is_element) {
            if let Some(base) = node.attribute("Base").filter(|base| !base.is_empty()) {
                let name = node.tag_name().name();
                let what = format!("{name} is based on {base}; write its parts out");
                return error(node, format!("inheritance is not supported: {what}"));
            }
            if let Some(id) = node.attribute("Id")
                && by_id.insert(id, node).is_some()
            {
                return error(node, format!("the Id {id:?} is there twice"));
            }
        }
        Ok(Reader { by_id })
    }

    /// The elements of one kind: those that a node contains, and those that its `...Id` elements name.
    fn referred(
        &self,
        node: Node<'a, 'i>,
        name: &'static str,
        by_id: &'static str,
    ) -> Result<Vec<Node<'a, 'i>>, ProfileError> {
        let mut all: Vec<Node<'a, 'i>> = Vec::new();
        for child in node.children().filter(Node::is_element) {
            if all.len() >= MAX_ITEMS {
                return error(child, format!("more than {MAX_ITEMS} of {name}"));
            }
            if child.tag_name().name() == name {
                all.push(child);
            } else if child.tag_name().name() == by_id {
                let id = attribute(child, "Value")?;
                match self.by_id.get(id).filter(|one| one.tag_name().name() == name) {
                    Some(one) => all.push(*one),
                    None => return error(child, format!("there is no {name} with the Id {id:?}")),
                }
            }
        }
        Ok(all)
    }

    fn profile(&self, node: Node<'a, 'i>) -> Result<RecordingProfile, ProfileError> {
        let mut profile = RecordingProfile {
            name: attribute(node, "Name")?.to_owned(),
            level: node.attribute("DetailLevel").unwrap_or("Verbose").to_owned(),
            description: node.attribute("Description").unwrap_or_default().to_owned(),
            is_file: match attribute(node, "LoggingMode")? {
                "File" => true,
                "Memory" => false,
                mode => return error(node, format!("LoggingMode {mode:?} is not File or Memory")),
            },
            ..RecordingProfile::default()
        };
        for collectors in elements(node, "Collectors") {
            for reference in elements(collectors, "SystemCollectorId") {
                self.add_system(reference, &mut profile)?;
            }
            for reference in elements(collectors, "EventCollectorId") {
                self.add_events(reference, &mut profile)?;
            }
        }
        match profile.system.is_none() && profile.providers.is_empty() {
            true => error(node, format!("the profile {} records nothing", profile.name)),
            false => Ok(profile),
        }
    }

    /// The collector that a reference names, and its buffers.
    fn buffers(
        &self,
        reference: Node<'a, 'i>,
        name: &'static str,
    ) -> Result<Buffers, ProfileError> {
        let id = attribute(reference, "Value")?;
        let collector = self.by_id.get(id).filter(|one| one.tag_name().name() == name);
        let Some(collector) = collector else {
            return error(reference, format!("there is no {name} with the Id {id:?}"));
        };
        let value = |name: &'static str| -> Result<Option<u32>, ProfileError> {
            let Some(node) = elements(*collector, name).next() else { return Ok(None) };
            if node.attribute("PercentageOfTotalMemory") == Some("true") {
                return Ok(None);
            }
            let text = attribute(node, "Value")?;
            let number = u32::try_from(number(node, text)?);
            number.map(Some).or_else(|_| error(node, format!("{text} is too large")))
        };
        Ok(Buffers { size_kb: value("BufferSize")?, count: value("Buffers")? })
    }

    fn add_system(
        &self,
        reference: Node<'a, 'i>,
        profile: &mut RecordingProfile,
    ) -> Result<(), ProfileError> {
        let buffers = self.buffers(reference, "SystemCollector")?;
        let mut system = SystemCollector { buffers, ..SystemCollector::default() };
        for provider in self.referred(reference, "SystemProvider", "SystemProviderId")? {
            values(provider, "Keywords", "Keyword", &mut system.keywords)?;
            values(provider, "Stacks", "Stack", &mut system.stacks)?;
        }
        if system.keywords.is_empty() {
            return error(reference, "the system collector has no keywords".to_owned());
        }
        profile.system = Some(system);
        Ok(())
    }

    fn add_events(
        &self,
        reference: Node<'a, 'i>,
        profile: &mut RecordingProfile,
    ) -> Result<(), ProfileError> {
        profile.buffers = self.buffers(reference, "EventCollector")?;
        for list in elements(reference, "EventProviders") {
            for node in self.referred(list, "EventProvider", "EventProviderId")? {
                let mut provider = EventProvider {
                    name: attribute(node, "Name")?.to_owned(),
                    level: Level(0),
                    keywords: Keyword(0),
                    has_stacks: node.attribute("Stack") == Some("true"),
                };
                if let Some(level) = node.attribute("Level") {
                    let level = u8::try_from(number(node, level)?);
                    provider.level = level
                        .map(Level)
                        .or_else(|_| error(node, "a Level is at most 255".to_owned()))?;
                }
                let mut keywords = Vec::new();
                values(node, "Keywords", "Keyword", &mut keywords)?;
                for keyword in keywords {
                    provider.keywords = provider.keywords | Keyword(number(node, &keyword)?);
                }
                profile.providers.push(provider);
                if profile.providers.len() > MAX_ITEMS {
                    return error(node, format!("more than {MAX_ITEMS} providers"));
                }
            }
        }
        Ok(())
    }
}

/// Adds the values of a list, such as `<Keywords><Keyword Value="..."/></Keywords>`.
fn values(
    node: Node<'_, '_>,
    list: &'static str,
    item: &'static str,
    all: &mut Vec<String>,
) -> Result<(), ProfileError> {
    for item in elements(node, list).flat_map(|list| elements(list, item)) {
        if all.len() >= MAX_ITEMS {
            return error(item, format!("more than {MAX_ITEMS} values"));
        }
        let value = attribute(item, "Value")?;
        if !all.iter().any(|one| one == value) {
            all.push(value.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<WindowsPerformanceRecorder Version="1.0">
  <Profiles>
    <SystemCollector Id="SC" Name="NT Kernel Logger"><BufferSize Value="512"/><Buffers Value="20"/></SystemCollector>
    <EventCollector Id="EC" Name="Events"><BufferSize Value="128"/><Buffers Value="3" PercentageOfTotalMemory="true"/></EventCollector>
    <SystemProvider Id="SP">
      <Keywords><Keyword Value="ProcessThread"/><Keyword Value="CSwitch"/></Keywords>
      <Stacks><Stack Value="CSwitch"/></Stacks>
    </SystemProvider>
    <EventProvider Id="EP" Name="*Some" Level="4" Stack="true"><Keywords><Keyword Value="0x10"/><Keyword Value="2"/></Keywords></EventProvider>
    <Profile Id="P.Light.File" Name="P" DetailLevel="Light" LoggingMode="File" Description="Some">
      <Collectors>
        <SystemCollectorId Value="SC"><SystemProviderId Value="SP"/></SystemCollectorId>
        <EventCollectorId Value="EC"><EventProviders><EventProviderId Value="EP"/><EventProvider Id="Q" Name="Other"/></EventProviders></EventCollectorId>
      </Collectors>
    </Profile>
  </Profiles>
</WindowsPerformanceRecorder>"#;

    #[test]
    fn collectors_and_providers_are_found_by_their_ids() {
        let profiles = read_profiles(FILE.as_bytes()).unwrap();
        let [profile] = &profiles[..] else { panic!("{profiles:?}") };
        assert_eq!((profile.name.as_str(), profile.level.as_str()), ("P", "Light"));
        assert!(profile.is_file);
        let system = profile.system.as_ref().unwrap();
        assert_eq!(system.keywords, ["ProcessThread", "CSwitch"]);
        assert_eq!(system.stacks, ["CSwitch"]);
        assert_eq!(system.buffers, Buffers { size_kb: Some(512), count: Some(20) });
        assert_eq!(profile.buffers, Buffers { size_kb: Some(128), count: None });
        let some = EventProvider {
            name: "*Some".to_owned(),
            level: Level(4),
            keywords: Keyword(0x12),
            has_stacks: true,
        };
        let other = EventProvider {
            name: "Other".to_owned(),
            level: Level(0),
            keywords: Keyword(0),
            has_stacks: false,
        };
        assert_eq!(profile.providers, [some, other]);
    }

    #[test]
    fn an_error_has_the_line_of_its_element() {
        for (from, to, line) in [
            (r#"<SystemProviderId Value="SP"/>"#, r#"<SystemProviderId Value="X"/>"#, 13),
            (r#"LoggingMode="File""#, r#"LoggingMode="Tape""#, 11),
            (r#"Value="0x10""#, r#"Value="0xzz""#, 10),
            (r#"Level="4""#, r#"Level="256""#, 10),
            (r#"<Buffers Value="20"/>"#, r#"<Buffers/>"#, 4),
            (r#"Id="SP""#, r#"Id="SC""#, 6),
            (r#"Id="P.Light.File""#, r#"Id="P" Base="Q""#, 11),
            ("</Profiles>", "", 18),
        ] {
            assert!(FILE.contains(from), "{from}");
            let error = read_profiles(FILE.replace(from, to).as_bytes()).unwrap_err();
            assert_eq!(error.line, line, "{to}: {error}");
        }
        assert!(read_profiles(b"<!DOCTYPE x [<!ENTITY a \"b\">]><x>&a;</x>").is_err());
        assert!(read_profiles(&vec![b' '; MAX_SIZE + 1]).is_err());
        let many = FILE.replace("<Profiles>", &format!("<Profiles>{}", "<a/>".repeat(1 << 17)));
        assert!(read_profiles(many.as_bytes()).is_err());
    }
}
