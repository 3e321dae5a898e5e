//! Recording profiles of Windows Performance Recorder (`.wprp`): which collectors, providers, keywords and stacks a recording has.
//!
//! Profiles, collectors and providers can be based on others of the same file: they have the parts and attributes of those, unless they
//! have them themselves; a list with `Operation="Add"` adds to that of the base, and one with `Remove` takes away from it.
//!
//! A file is hostile: its size, its number of elements and the work that they make are bounded, document types are refused, and each error
//! has a line.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;

use etw_types::{Keyword, Level, le};
use roxmltree::{Document, Node, ParsingOptions};

/// Bytes of the largest file that is read.
pub const MAX_SIZE: usize = 1 << 20;
/// Elements and texts of a file.
const MAX_NODES: u32 = 1 << 16;
/// Attributes of an element. The parser compares each of them with all others.
const MAX_ATTRIBUTES: usize = 256;
/// Declarations of namespaces in a file. In the parser, each element that has one has a list of those of all elements around it, too.
const MAX_NAMESPACES: usize = 64;
/// Bytes of an attribute.
const MAX_TEXT: usize = 1024;
/// Parts of a profile that are named as left out.
const MAX_LEFT_OUT: usize = 32;
/// Elements that are read, of all profiles with their bases, and bytes that are kept.
const WORK: usize = 1 << 24;
/// The work that a provider makes: about its bytes.
const PROVIDER: usize = 512;
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
    /// It is the one of its file that a command without a name records.
    pub is_default: bool,
    /// The system's events.
    pub system: Option<SystemCollector>,
    /// The collectors of programs' events.
    pub collectors: Vec<EventCollector>,
    /// Elements and attributes of the file that have no effect here.
    pub left_out: Vec<String>,
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

/// A collector of events of programs, which has a session of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCollector {
    /// Its name.
    pub name: String,
    /// Its buffers.
    pub buffers: Buffers,
    /// Its providers.
    pub providers: Vec<EventProvider>,
}

/// Buffers of a collector; `None`: those of the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// KB of a buffer.
    pub size_kb: Option<u32>,
    /// Their number.
    pub count: Option<BufferCount>,
}

/// How many buffers a collector has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferCount {
    /// So many.
    Number(u32),
    /// Those that fit into so many per cent of the machine's memory, 1 to 100.
    PercentOfMemory(u32),
}

impl Buffers {
    /// These, or others where these say nothing.
    #[must_use]
    pub fn or(self, other: Buffers) -> Buffers {
        Buffers { size_kb: self.size_kb.or(other.size_kb), count: self.count.or(other.count) }
    }
}

/// A provider of programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventProvider {
    /// Its `Id`.
    pub id: String,
    /// GUID, registered name, or `*` and the name of which the GUID is made.
    pub name: String,
    /// The highest level; 0: all.
    pub level: Level,
    /// Its keywords; 0: all.
    pub keywords: Keyword,
    /// Its events have call stacks.
    pub has_stacks: bool,
    /// Its events have the user's SID.
    pub has_sid: bool,
    /// Its events have the terminal session.
    pub has_ts_id: bool,
    /// The programs whose events are recorded; empty: all.
    pub executables: Vec<String>,
    /// The events that are recorded; `None`: all.
    pub events: Option<EventIds>,
    /// The events with call stacks; `None`: all.
    pub stack_events: Option<EventIds>,
}

/// Events by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventIds {
    /// These, or all but these.
    pub are_included: bool,
    /// The ids.
    pub ids: Vec<u16>,
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
    check_attributes(text)?;
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
    let mut profiles = Vec::new();
    for list in reader.children(root, "Profiles")? {
        for node in reader.children(list, "Profile")? {
            profiles.push(reader.profile(node)?);
        }
    }
    match profiles.is_empty() {
        true => wrong(1, "the file has no Profile".to_owned()),
        false => Ok(profiles),
    }
}

/// Bounds what makes more than linear work for the parser.
fn check_attributes(text: &str) -> Result<(), ProfileError> {
    let wrong = |at: usize, message: String| {
        let before = text.as_bytes()[..at].iter();
        let line = before.filter(|byte| **byte == b'\n').count() as u32 + 1;
        Err(ProfileError { line, message })
    };
    let mut at = 0;
    // Values of attributes have no `<`: such a part has at most one tag. The text behind the tag counts, too.
    for part in text.split('<') {
        let is_tag = !part.starts_with(['!', '?']);
        if is_tag && part.bytes().filter(|byte| *byte == b'=').count() > MAX_ATTRIBUTES {
            return wrong(at, format!("an element has more than {MAX_ATTRIBUTES} attributes"));
        }
        at += part.len() + 1;
    }
    match text.match_indices("xmlns").nth(MAX_NAMESPACES) {
        Some((at, _)) => wrong(at, format!("more than {MAX_NAMESPACES} namespaces are declared")),
        None => Ok(()),
    }
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

/// The value of a boolean attribute, which an element or one of its bases has. Without one, it is false.
fn boolean(node: Node<'_, '_>, name: &str, value: Option<&str>) -> Result<bool, ProfileError> {
    match value.map(str::trim).filter(|value| !value.is_empty()) {
        None => Ok(false),
        Some(value) if value == "1" || value.eq_ignore_ascii_case("true") => Ok(true),
        Some(value) if value == "0" || value.eq_ignore_ascii_case("false") => Ok(false),
        Some(value) => error(node, format!("{name}={value:?} is neither true nor false")),
    }
}

/// The effect of a list on that of the base.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Set,
    Add,
    Remove,
}

fn operation(list: Node<'_, '_>) -> Result<Operation, ProfileError> {
    match list.attribute("Operation") {
        None | Some("Set") => Ok(Operation::Set),
        Some("Add") => Ok(Operation::Add),
        Some("Remove") => Ok(Operation::Remove),
        Some(other) => error(list, format!("Operation {other:?} is not Set, Add or Remove")),
    }
}

/// The elements with an `Id`, which profiles refer to.
struct Reader<'a, 'i> {
    by_id: HashMap<&'a str, Node<'a, 'i>>,
    /// The rest of [`WORK`].
    work: Cell<usize>,
}

impl<'a, 'i> Reader<'a, 'i> {
    fn new(root: Node<'a, 'i>) -> Result<Reader<'a, 'i>, ProfileError> {
        let mut by_id = HashMap::new();
        for node in root.descendants().skip(1).filter(Node::is_element) {
            if let Some(long) = node.attributes().find(|one| one.value().len() > MAX_TEXT) {
                let what = format!("{} is longer than {MAX_TEXT} bytes", long.name());
                return error(node, what);
            }
            if let Some(id) = node.attribute("Id")
                && by_id.insert(id, node).is_some()
            {
                return error(node, format!("the Id {id:?} is there twice"));
            }
        }
        Ok(Reader { by_id, work: Cell::new(WORK) })
    }

    /// Counts the work that an element makes. Few elements can refer to each other very often.
    fn count(&self, node: Node<'a, 'i>, work: usize) -> Result<(), ProfileError> {
        match self.work.get().checked_sub(work) {
            Some(left) => {
                self.work.set(left);
                Ok(())
            }
            None => error(node, "the profiles of this file have too many parts".to_owned()),
        }
    }

    fn all_children(&self, node: Node<'a, 'i>) -> Result<Vec<Node<'a, 'i>>, ProfileError> {
        let all: Vec<Node<'a, 'i>> = node.children().filter(Node::is_element).collect();
        self.count(node, all.len() + 1)?;
        Ok(all)
    }

    fn children(&self, node: Node<'a, 'i>, name: &str) -> Result<Vec<Node<'a, 'i>>, ProfileError> {
        let mut all = self.all_children(node)?;
        all.retain(|child| child.tag_name().name() == name);
        Ok(all)
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

    /// The lists of an element: its own and, if those change its base's or are missing, those of its bases, which come first. `true`: the list
    /// takes away.
    fn lists(
        &self,
        family: &[Node<'a, 'i>],
        name: &str,
    ) -> Result<Vec<(Node<'a, 'i>, bool)>, ProfileError> {
        let mut all = Vec::new();
        for one in family {
            let mut own = Vec::new();
            let mut replaces = false;
            for list in self.children(*one, name)? {
                let operation = operation(list)?;
                replaces |= operation == Operation::Set;
                own.push((list, operation == Operation::Remove));
            }
            all.splice(0..0, own);
            if replaces {
                break;
            }
        }
        Ok(all)
    }

    /// Adds the values of a list, such as `<Keywords><Keyword Value="..."/></Keywords>`.
    fn add_values(
        &self,
        family: &[Node<'a, 'i>],
        list: &str,
        items: [&str; 2],
        all: &mut Vec<String>,
    ) -> Result<(), ProfileError> {
        let mut own: Vec<&'a str> = Vec::new();
        for (list, is_removed) in self.lists(family, list)? {
            for item in self.all_children(list)? {
                if !items.contains(&item.tag_name().name()) {
                    continue;
                }
                let value = attribute(item, "Value")?;
                self.count(item, own.len() + all.len() + value.len())?;
                own.retain(|one| !one.eq_ignore_ascii_case(value));
                if !is_removed {
                    own.push(value);
                }
            }
        }
        for value in own {
            if !all.iter().any(|one| one.eq_ignore_ascii_case(value)) {
                all.push(value.to_owned());
            }
        }
        Ok(())
    }

    /// Event ids of a list with `FilterIn`.
    fn event_ids(
        &self,
        family: &[Node<'a, 'i>],
        name: &str,
    ) -> Result<Option<EventIds>, ProfileError> {
        let mut all: Option<EventIds> = None;
        for (list, is_removed) in self.lists(family, name)? {
            let are_included = boolean(list, "FilterIn", Some(attribute(list, "FilterIn")?))?;
            let found = all.get_or_insert_with(EventIds::default);
            // Those of the element itself come last.
            found.are_included = are_included;
            for item in self.children(list, "EventId")? {
                let value = attribute(item, "Value")?;
                let Ok(id) = u16::try_from(number(item, value)?) else {
                    return error(item, format!("EventId {value} is larger than 65535"));
                };
                self.count(item, found.ids.len())?;
                found.ids.retain(|one| *one != id);
                if !is_removed {
                    found.ids.push(id);
                }
            }
        }
        match all {
            Some(none) if none.ids.is_empty() && none.are_included => {
                error(family[0], format!("the {name} have no EventId left"))
            }
            found => Ok(found.filter(|found| !found.ids.is_empty())),
        }
    }

    /// Notes elements that are not known, and attributes that are set, of an element and its bases.
    fn note(
        &self,
        family: &[Node<'a, 'i>],
        known: &[&str],
        attributes: &[&str],
        profile: &mut RecordingProfile,
    ) -> Result<(), ProfileError> {
        let mut names = Vec::new();
        for one in family {
            names.extend(self.all_children(*one)?.iter().map(|child| child.tag_name().name()));
        }
        names.retain(|name| !known.contains(name));
        for name in attributes {
            if boolean(family[0], name, inherited(family, name))? {
                names.push(name);
            }
        }
        for name in names {
            let left_out = &mut profile.left_out;
            if left_out.len() < MAX_LEFT_OUT && !left_out.iter().any(|one| one == name) {
                left_out.push(name.to_owned());
            }
        }
        Ok(())
    }

    fn profile(&self, node: Node<'a, 'i>) -> Result<RecordingProfile, ProfileError> {
        let family = self.family(node)?;
        let text = |name| inherited(&family, name);
        let mut profile = RecordingProfile {
            name: match text("Name") {
                Some(name) => name.to_owned(),
                None => attribute(node, "Name")?.to_owned(),
            },
            level: match text("DetailLevel") {
                Some(level @ ("Light" | "Verbose")) => level.to_owned(),
                Some(level) => {
                    return error(node, format!("DetailLevel {level:?} is not Light or Verbose"));
                }
                None => "Verbose".to_owned(),
            },
            description: text("Description").unwrap_or_default().to_owned(),
            is_file: match text("LoggingMode") {
                Some("File") => true,
                Some("Memory") => false,
                Some(mode) => {
                    return error(node, format!("LoggingMode {mode:?} is not File or Memory"));
                }
                None => return error(node, "Profile has no LoggingMode".to_owned()),
            },
            is_default: boolean(node, "Default", text("Default"))?,
            ..RecordingProfile::default()
        };
        self.count(node, profile.name.len() + profile.description.len())?;
        let known = ["Collectors", "ProblemCategories", "TraceMergeProperties"];
        self.note(&family, &known, &[], &mut profile)?;
        let mut collectors: Vec<(Node<'a, 'i>, &str)> = Vec::new();
        for (list, is_removed) in self.lists(&family, "Collectors")? {
            if !is_removed {
                let known = ["SystemCollectorId", "EventCollectorId"];
                self.note(&[list], &known, &[], &mut profile)?;
            }
            for reference in self.all_children(list)? {
                if !["SystemCollectorId", "EventCollectorId"].contains(&reference.tag_name().name())
                {
                    continue;
                }
                let id = attribute(reference, "Value")?;
                self.count(reference, collectors.len())?;
                match is_removed {
                    true => collectors.retain(|(_, one)| *one != id),
                    false => collectors.push((reference, id)),
                }
            }
        }
        for (reference, _) in collectors {
            match reference.tag_name().name() {
                "SystemCollectorId" => self.add_system(reference, &mut profile)?,
                _ => self.add_events(reference, &mut profile)?,
            }
        }
        Ok(profile)
    }

    /// The reference to a collector, the collector, and its bases; and the buffers of the first one that has some.
    fn collector(
        &self,
        reference: Node<'a, 'i>,
        name: &'static str,
        profile: &mut RecordingProfile,
    ) -> Result<(Vec<Node<'a, 'i>>, Buffers), ProfileError> {
        let collector = self.named(reference, attribute(reference, "Value")?, name)?;
        let mut family = vec![reference];
        family.extend(self.family(collector)?);
        let known = [
            "BufferSize",
            "Buffers",
            "StackCaching",
            "SystemProviderId",
            "SystemProvider",
            "EventProviders",
        ];
        let attributes = ["Private", "ProcessPrivate", "Secure", "Realtime"];
        self.note(&family, &known, &attributes, profile)?;
        let mut buffers = Buffers::default();
        for one in &family {
            for node in self.all_children(*one)? {
                match node.tag_name().name() {
                    "BufferSize" if buffers.size_kb.is_none() => {
                        buffers.size_kb = Some(small_number(node)?);
                    }
                    "Buffers" if buffers.count.is_none() => {
                        buffers.count = Some(buffer_count(node)?);
                    }
                    _ => {}
                }
            }
        }
        Ok((family, buffers))
    }

    /// Adds a collector of the system's events; a profile that adds to its base may refer to one twice.
    fn add_system(
        &self,
        reference: Node<'a, 'i>,
        profile: &mut RecordingProfile,
    ) -> Result<(), ProfileError> {
        let (_, buffers) = self.collector(reference, "SystemCollector", profile)?;
        let mut system = profile.system.take().unwrap_or_default();
        system.buffers = buffers.or(system.buffers);
        for child in self.all_children(reference)? {
            let Some(family) = self.provider(child, "SystemProvider", "SystemProviderId")? else {
                continue;
            };
            self.note(&family, &["Keywords", "Stacks"], &[], profile)?;
            let keywords = ["Keyword", "CustomKeyword"];
            self.add_values(&family, "Keywords", keywords, &mut system.keywords)?;
            self.add_values(&family, "Stacks", ["Stack", "CustomStack"], &mut system.stacks)?;
        }
        if system.keywords.is_empty() {
            return error(reference, "the system collector has no keywords".to_owned());
        }
        profile.system = Some(system);
        Ok(())
    }

    /// A provider that an element is or names, behind that element, and before its bases. `None`: the element is something else.
    fn provider(
        &self,
        child: Node<'a, 'i>,
        name: &'static str,
        by_id: &str,
    ) -> Result<Option<Vec<Node<'a, 'i>>>, ProfileError> {
        if child.tag_name().name() == name {
            return self.family(child).map(Some);
        }
        if child.tag_name().name() != by_id {
            return Ok(None);
        }
        let one = self.named(child, attribute(child, "Value")?, name)?;
        let mut family = vec![child];
        family.extend(self.family(one)?);
        Ok(Some(family))
    }

    /// Adds a collector of events of programs. A profile that adds to its base may refer to one twice: it then has the providers of both,
    /// unless the second list is explicitly to be set.
    fn add_events(
        &self,
        reference: Node<'a, 'i>,
        profile: &mut RecordingProfile,
    ) -> Result<(), ProfileError> {
        let (family, buffers) = self.collector(reference, "EventCollector", profile)?;
        let name = match inherited(&family[1..], "Name") {
            Some(name) => name,
            None => attribute(family[1], "Name")?,
        };
        self.count(reference, profile.collectors.len() + name.len())?;
        let at = profile.collectors.iter().position(|one| one.name.eq_ignore_ascii_case(name));
        let mut collector = match at {
            Some(at) => profile.collectors.remove(at),
            None => EventCollector { name: name.to_owned(), ..EventCollector::default() },
        };
        collector.buffers = buffers.or(collector.buffers);
        for (list, is_removed) in self.lists(&[reference], "EventProviders")? {
            if list.attribute("Operation") == Some("Set") {
                collector.providers.clear();
            }
            for child in self.all_children(list)? {
                let found = self.provider(child, "EventProvider", "EventProviderId")?;
                let Some(family) = found else { continue };
                let provider = self.event_provider(child, &family, profile)?;
                self.count(child, collector.providers.len())?;
                collector.providers.retain(|one| one.id != provider.id);
                if !is_removed {
                    collector.providers.push(provider);
                }
            }
        }
        profile.collectors.insert(at.unwrap_or(profile.collectors.len()), collector);
        Ok(())
    }

    /// A provider that `child` is or names.
    fn event_provider(
        &self,
        child: Node<'a, 'i>,
        family: &[Node<'a, 'i>],
        profile: &mut RecordingProfile,
    ) -> Result<EventProvider, ProfileError> {
        let node = family[family.len() - 1];
        let known = ["Keywords", "EventFilters", "StackFilters"];
        let attributes = ["CaptureStateOnly", "EventKey", "ExcludeInPrivate"];
        self.note(family, &known, &attributes, profile)?;
        let text = |name| inherited(family, name);
        let programs = text("ProcessExeFilter").unwrap_or_default().split(';').map(str::trim);
        let mut provider = EventProvider {
            id: child.attribute("Value").or(child.attribute("Id")).unwrap_or_default().to_owned(),
            name: match text("Name") {
                Some(name) => name.to_owned(),
                None => attribute(node, "Name")?.to_owned(),
            },
            has_stacks: boolean(child, "Stack", text("Stack"))?,
            has_sid: boolean(child, "SID", text("SID"))?,
            has_ts_id: boolean(child, "TSID", text("TSID"))?,
            executables: programs.filter(|one| !one.is_empty()).map(str::to_owned).collect(),
            events: self.event_ids(family, "EventFilters")?,
            stack_events: self.event_ids(family, "StackFilters")?,
            ..EventProvider::default()
        };
        self.count(child, PROVIDER + provider.name.len())?;
        if let Some(level) = text("Level") {
            let level = u8::try_from(number(node, level)?);
            provider.level =
                level.map(Level).or_else(|_| error(node, "a Level is at most 255".to_owned()))?;
        }
        let mut takes_away = false;
        for (list, is_removed) in self.lists(family, "Keywords")? {
            takes_away |= is_removed;
            for item in self.children(list, "Keyword")? {
                let bits = number(item, attribute(item, "Value")?)?;
                provider.keywords.0 = match is_removed {
                    true => provider.keywords.0 & !bits,
                    false => provider.keywords.0 | bits,
                };
            }
        }
        // A mask of 0 stands for all keywords.
        match takes_away && provider.keywords.0 == 0 {
            true => error(child, format!("the provider {} has no keyword left", provider.name)),
            false => Ok(provider),
        }
    }
}

/// The `Value` of an element, of 32 bits.
fn small_number(node: Node<'_, '_>) -> Result<u32, ProfileError> {
    let text = attribute(node, "Value")?;
    let number = u32::try_from(number(node, text)?);
    number.or_else(|_| error(node, format!("{text} is too large")))
}

fn buffer_count(node: Node<'_, '_>) -> Result<BufferCount, ProfileError> {
    let number = small_number(node)?;
    const PERCENTAGE: &str = "PercentageOfTotalMemory";
    match boolean(node, PERCENTAGE, node.attribute(PERCENTAGE))? {
        false => Ok(BufferCount::Number(number)),
        true if (1..=100).contains(&number) => Ok(BufferCount::PercentOfMemory(number)),
        true => error(node, format!("{number} is no percentage of memory: 1 to 100")),
    }
}

/// An attribute of an element, or of the next base that has it.
fn inherited<'a>(family: &[Node<'a, '_>], name: &str) -> Option<&'a str> {
    let values = family.iter().filter_map(|one| one.attribute(name));
    values.map(str::trim).find(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
