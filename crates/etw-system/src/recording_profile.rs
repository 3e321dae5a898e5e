//! Recording profiles of Windows Performance Recorder (`.wprp`): which collectors, providers, keywords and stacks a recording has.
//!
//! Profiles, collectors and providers can be based on others of the same file: they have the parts and attributes of those, unless they
//! have them themselves; a list with `Operation="Add"` adds to that of the base.
//!
//! A file is hostile: its size and number of elements are bounded, document types are refused, and each error has a line.

use std::collections::HashMap;
use std::fmt;

use etw_types::{Keyword, Level, le};
use roxmltree::{Document, Node, ParsingOptions};

/// Bytes of the largest file that is read.
pub const MAX_SIZE: usize = 1 << 20;
/// Elements, attributes and texts of a file.
const MAX_NODES: u32 = 1 << 16;
/// Providers, keywords or stacks of a profile.
const MAX_ITEMS: usize = 4096;
/// Elements that are based on each other.
const MAX_BASES: usize = 16;

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

impl Buffers {
    /// These, or others where these say nothing.
    #[must_use]
    pub fn or(self, other: Buffers) -> Buffers {
        Buffers { size_kb: self.size_kb.or(other.size_kb), count: self.count.or(other.count) }
    }
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
    let wide;
    let text = match bytes {
        // UTF-16 with its mark, or without it.
        [0xff, 0xfe, units @ ..] | units @ [b'<', 0, ..] => {
            wide = le::utf16_lossy(units);
            &wide
        }
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.trim_start_matches('\u{feff}'),
            Err(_) => return wrong(1, "the file is neither UTF-8 nor UTF-16".to_owned()),
        },
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
            if let Some(id) = node.attribute("Id")
                && by_id.insert(id, node).is_some()
            {
                return error(node, format!("the Id {id:?} is there twice"));
            }
        }
        Ok(Reader { by_id })
    }

    /// An element behind those that derive from it: `node`, its base, and so on.
    fn family(&self, node: Node<'a, 'i>) -> Result<Vec<Node<'a, 'i>>, ProfileError> {
        let mut family = vec![node];
        let mut last = node;
        while let Some(id) = last.attribute("Base").filter(|id| !id.is_empty()) {
            if family.len() >= MAX_BASES {
                let what = format!("more than {MAX_BASES} elements are based on each other");
                return error(last, what);
            }
            last = self.named(last, id, node.tag_name().name())?;
            family.push(last);
        }
        Ok(family)
    }

    /// The element of a kind with an `Id`, to which `node` refers.
    fn named(
        &self,
        node: Node<'a, 'i>,
        id: &str,
        name: &str,
    ) -> Result<Node<'a, 'i>, ProfileError> {
        match self.by_id.get(id).filter(|one| one.tag_name().name() == name) {
            Some(one) => Ok(*one),
            None => error(node, format!("there is no {name} with the Id {id:?} in this file")),
        }
    }

    /// The elements of one kind: those that the nodes contain, and those that their `...Id` elements name. Each is a family: first the
    /// element that refers to it, if any, which can have parts of its own.
    fn referred(
        &self,
        nodes: &[Node<'a, 'i>],
        name: &'static str,
        by_id: &'static str,
    ) -> Result<Vec<Vec<Node<'a, 'i>>>, ProfileError> {
        let mut all = Vec::new();
        for child in nodes.iter().flat_map(Node::children).filter(Node::is_element) {
            if all.len() >= MAX_ITEMS {
                return error(child, format!("more than {MAX_ITEMS} of {name}"));
            }
            if child.tag_name().name() == name {
                all.push(self.family(child)?);
            } else if child.tag_name().name() == by_id {
                let one = self.named(child, attribute(child, "Value")?, name)?;
                let mut family = vec![child];
                family.extend(self.family(one)?);
                all.push(family);
            }
        }
        Ok(all)
    }

    fn profile(&self, node: Node<'a, 'i>) -> Result<RecordingProfile, ProfileError> {
        let family = self.family(node)?;
        let text = |name| inherited(&family, name);
        let mut profile = RecordingProfile {
            name: match text("Name") {
                Some(name) => name.to_owned(),
                None => attribute(node, "Name")?.to_owned(),
            },
            level: text("DetailLevel").unwrap_or("Verbose").to_owned(),
            description: text("Description").unwrap_or_default().to_owned(),
            is_file: match text("LoggingMode") {
                Some("File") => true,
                Some("Memory") => false,
                Some(mode) => {
                    return error(node, format!("LoggingMode {mode:?} is not File or Memory"));
                }
                None => return error(node, "Profile has no LoggingMode".to_owned()),
            },
            ..RecordingProfile::default()
        };
        for collectors in lists(&family, "Collectors") {
            for reference in elements(collectors, "SystemCollectorId") {
                self.add_system(reference, &mut profile)?;
            }
            for reference in elements(collectors, "EventCollectorId") {
                self.add_events(reference, &mut profile)?;
            }
        }
        Ok(profile)
    }

    /// The buffers of the collector that a reference names: those of the reference, of the collector, or of its bases.
    fn buffers(
        &self,
        reference: Node<'a, 'i>,
        name: &'static str,
    ) -> Result<Buffers, ProfileError> {
        let collector = self.named(reference, attribute(reference, "Value")?, name)?;
        let mut family = vec![reference];
        family.extend(self.family(collector)?);
        let value = |name: &'static str| -> Result<Option<u32>, ProfileError> {
            let mut nodes = family.iter().flat_map(|one| elements(*one, name));
            let Some(node) = nodes.next() else { return Ok(None) };
            if node.attribute("PercentageOfTotalMemory") == Some("true") {
                return Ok(None);
            }
            let text = attribute(node, "Value")?;
            let number = u32::try_from(number(node, text)?);
            number.map(Some).or_else(|_| error(node, format!("{text} is too large")))
        };
        Ok(Buffers { size_kb: value("BufferSize")?, count: value("Buffers")? })
    }

    /// Adds a collector of the system's events; a profile that adds to its base may refer to one twice.
    fn add_system(
        &self,
        reference: Node<'a, 'i>,
        profile: &mut RecordingProfile,
    ) -> Result<(), ProfileError> {
        let buffers = self.buffers(reference, "SystemCollector")?;
        let mut system = profile.system.take().unwrap_or_default();
        system.buffers = buffers.or(system.buffers);
        for provider in self.referred(&[reference], "SystemProvider", "SystemProviderId")? {
            values(&provider, "Keywords", &["Keyword", "CustomKeyword"], &mut system.keywords)?;
            values(&provider, "Stacks", &["Stack", "CustomStack"], &mut system.stacks)?;
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
        profile.buffers = self.buffers(reference, "EventCollector")?.or(profile.buffers);
        let lists: Vec<Node<'a, 'i>> = elements(reference, "EventProviders").collect();
        for family in self.referred(&lists, "EventProvider", "EventProviderId")? {
            let node = family[family.len() - 1];
            let mut provider = EventProvider {
                name: match inherited(&family, "Name") {
                    Some(name) => name.to_owned(),
                    None => attribute(node, "Name")?.to_owned(),
                },
                level: Level(0),
                keywords: Keyword(0),
                has_stacks: inherited(&family, "Stack") == Some("true"),
            };
            if let Some(level) = inherited(&family, "Level") {
                let level = u8::try_from(number(node, level)?);
                provider.level = level
                    .map(Level)
                    .or_else(|_| error(node, "a Level is at most 255".to_owned()))?;
            }
            let mut keywords = Vec::new();
            values(&family, "Keywords", &["Keyword"], &mut keywords)?;
            for keyword in keywords {
                provider.keywords = provider.keywords | Keyword(number(node, &keyword)?);
            }
            profile.providers.push(provider);
            if profile.providers.len() > MAX_ITEMS {
                return error(node, format!("more than {MAX_ITEMS} providers"));
            }
        }
        Ok(())
    }
}

/// An attribute of an element, or of the next base that has it.
fn inherited<'a>(family: &[Node<'a, '_>], name: &str) -> Option<&'a str> {
    let values = family.iter().filter_map(|one| one.attribute(name));
    values.map(str::trim).find(|value| !value.is_empty())
}

/// The lists of an element: its own and, if those add to them or are missing, those of its bases, which come first.
fn lists<'a, 'i>(family: &[Node<'a, 'i>], name: &'static str) -> Vec<Node<'a, 'i>> {
    let mut all = Vec::new();
    for one in family {
        let own: Vec<Node<'a, 'i>> = elements(*one, name).collect();
        let replaces = own.iter().any(|list| list.attribute("Operation") != Some("Add"));
        all.splice(0..0, own);
        if replaces {
            break;
        }
    }
    all
}

/// Adds the values of a list, such as `<Keywords><Keyword Value="..."/></Keywords>`.
fn values(
    family: &[Node<'_, '_>],
    list: &'static str,
    items: &[&'static str],
    all: &mut Vec<String>,
) -> Result<(), ProfileError> {
    for list in lists(family, list) {
        for item in items.iter().flat_map(|item| elements(list, item)) {
            if all.len() >= MAX_ITEMS {
                return error(item, format!("more than {MAX_ITEMS} values"));
            }
            let value = attribute(item, "Value")?;
            if !all.iter().any(|one| one == value) {
                all.push(value.to_owned());
            }
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

    /// OV-24: files of Windows Performance Recorder, which may be in UTF-16.
    #[test]
    fn a_file_may_be_in_utf_16() {
        let profiles = read_profiles(FILE.as_bytes()).unwrap();
        let text = FILE.replace("utf-8", "utf-16");
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let marked = [&[0xff, 0xfe][..], &units].concat();
        assert_eq!(read_profiles(&marked).unwrap(), profiles);
        assert_eq!(read_profiles(&units).unwrap(), profiles);
        assert!(read_profiles(b"<\xff").is_err());
        assert!(read_profiles(&[0xff, 0xfe, 0]).is_err());
    }

    /// OV-24: a profile in memory that is based on one in a file, as most files of profiles have it; and parts that add or replace.
    #[test]
    fn profiles_inherit_from_their_bases() {
        let more = r#"
    <SystemCollector Id="SC2" Base="SC" Name="Other"><Buffers Value="40"/></SystemCollector>
    <SystemProvider Id="SP2" Base="SP">
      <Keywords Operation="Add"><Keyword Value="Loader"/><CustomKeyword Value="0x20000002"/></Keywords>
      <Stacks><Stack Value="ReadyThread"/></Stacks>
    </SystemProvider>
    <EventProvider Id="EP2" Base="EP" Level="5"/>
    <Profile Id="P.Light.Memory" Name="P" DetailLevel="Light" LoggingMode="Memory" Base="P.Light.File"/>
    <Profile Id="P.Verbose.File" Base="P.Light.File" DetailLevel="Verbose">
      <Collectors Operation="Add">
        <SystemCollectorId Value="SC2"><SystemProviderId Value="SP2"/></SystemCollectorId>
        <EventCollectorId Value="EC"><BufferSize Value="256"/><EventProviders><EventProviderId Value="EP2"/></EventProviders></EventCollectorId>
      </Collectors>
    </Profile>
    <Profile Id="Q.Light.File" Base="P.Light.File" Name="Q">
      <Collectors><SystemCollectorId Value="SC2"><SystemProviderId Value="SP2"/></SystemCollectorId></Collectors>
    </Profile>
    <Profile Id="Heap.Light.File" Name="Heap" LoggingMode="File"><Collectors><HeapEventCollectorId Value="H"/></Collectors></Profile>
  </Profiles>"#;
        let profiles = read_profiles(FILE.replace("</Profiles>", more).as_bytes()).unwrap();
        let [file, memory, verbose, other, heap] = &profiles[..] else { panic!("{profiles:?}") };
        assert_eq!(*memory, RecordingProfile { is_file: false, ..file.clone() });
        let system = verbose.system.as_ref().unwrap();
        assert_eq!(system.keywords, ["ProcessThread", "CSwitch", "Loader", "0x20000002"]);
        assert_eq!(system.stacks, ["CSwitch", "ReadyThread"]);
        assert_eq!(system.buffers, Buffers { size_kb: Some(512), count: Some(40) });
        assert_eq!(verbose.buffers.size_kb, Some(256));
        assert_eq!((verbose.name.as_str(), verbose.level.as_str()), ("P", "Verbose"));
        let [.., last] = &verbose.providers[..] else { panic!("{verbose:?}") };
        let first = &file.providers[0];
        assert_eq!(*last, EventProvider { level: Level(5), ..first.clone() });
        assert_eq!(verbose.providers.len(), 3);
        let system = other.system.as_ref().unwrap();
        assert_eq!(system.stacks, ["ReadyThread"]);
        assert!(other.providers.is_empty() && other.is_file);
        assert!(heap.system.is_none() && heap.providers.is_empty());
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
            (r#"Id="P.Light.File""#, r#"Id="P" Base="P""#, 11),
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
