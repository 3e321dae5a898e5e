//! A manifest as a model: every reference resolved, every rule of the schema checked.

mod element;
mod event;
mod field;
mod metadata;
mod out_type;
mod read;
mod source;
mod strings;
mod symbols;
mod unique;
mod vocabulary;

use etw_tracelogging::tdh::{InType, OutType};
use etw_types::Guid;

use std::collections::HashMap;

use crate::Diagnostic;
pub use read::MAX_SIZE;

/// A manifest: providers and the strings that they refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// In the order of the text.
    pub providers: Vec<Provider>,
    /// In the order of the text: at least one, if anything has a message.
    pub cultures: Vec<Culture>,
    /// The messages that `messageTable` gives an id.
    pub message_table: Vec<TableMessage>,
    /// Warnings found while reading.
    pub warnings: Vec<Diagnostic>,
}

/// Line and column of an element in the text, counted from 1; 0 if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column in characters.
    pub column: u32,
}

/// The strings of one language.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Culture {
    /// Its name: `en-US`.
    pub name: String,
    /// Ids and values, in the order of the text.
    pub strings: Vec<(String, String)>,
    /// The place of each of `strings`.
    pub(crate) places: Vec<Place>,
    /// Where each id stands in `strings`.
    index: HashMap<String, usize>,
}

impl Culture {
    /// The value of a string.
    pub fn string(&self, id: &str) -> Option<&str> {
        self.index.get(id).map(|index| self.strings[*index].1.as_str())
    }

    /// Adds a string; the first of an id counts.
    pub(crate) fn add(&mut self, id: &str, value: &str, place: Place) {
        self.index.entry(id.to_owned()).or_insert(self.strings.len());
        self.strings.push((id.to_owned(), value.to_owned()));
        self.places.push(place);
    }
}

/// A message of an element: a string of the manifest, or a text of `winmeta.xml`, which is the same in each culture.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// `$(string.ID)`.
    String(String),
    /// A text, from a predefined element or written in place.
    Text(String),
}

/// A message of `messageTable`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TableMessage {
    pub id: u32,
    pub symbol: Option<String>,
    pub message: Message,
}

/// A provider.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Provider {
    pub name: String,
    pub guid: Guid,
    pub symbol: String,
    pub message: Option<Message>,
    pub control_guid: Option<Guid>,
    pub group_guid: Option<Guid>,
    /// Whether the provider's traits carry its name.
    pub includes_name: bool,
    /// Declared and imported channels, in order; then those that events name without a declaration.
    pub channels: Vec<Channel>,
    pub levels: Vec<Level>,
    pub tasks: Vec<Task>,
    /// Global and task-specific ones.
    pub opcodes: Vec<Opcode>,
    pub keywords: Vec<Keyword>,
    pub maps: Vec<Map>,
    pub pattern_maps: Vec<PatternMap>,
    pub templates: Vec<Template>,
    pub filters: Vec<Filter>,
    /// In the order of the text.
    pub events: Vec<Event>,
    /// The position of its element.
    pub place: Place,
}

/// A channel.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Channel {
    pub name: String,
    /// How events refer to it: its `chid`, else its name.
    pub id: String,
    pub symbol: Option<String>,
    pub value: u8,
    pub is_imported: bool,
    pub message: Option<Message>,
    /// Its rights, as SDDL.
    pub access: Option<String>,
    /// The position of its element.
    pub place: Place,
    /// The keyword bit that its events get: 63 for the first; `None` for one that was not declared.
    pub keyword_bit: Option<u8>,
}

/// A level; predefined ones are listed where an event uses them.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Level {
    pub name: String,
    pub symbol: Option<String>,
    pub value: u8,
    pub message: Option<Message>,
}

/// A task; predefined ones are listed where an event uses them.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Task {
    pub name: String,
    pub symbol: Option<String>,
    pub value: u16,
    pub guid: Option<Guid>,
    pub message: Option<Message>,
}

/// An opcode; predefined ones are listed where an event uses them.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Opcode {
    pub name: String,
    pub symbol: Option<String>,
    pub value: u8,
    /// The task that it belongs to; 0: all.
    pub task: u16,
    pub message: Option<Message>,
}

/// A keyword; predefined ones are listed where an event uses them.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Keyword {
    pub name: String,
    pub symbol: Option<String>,
    pub mask: etw_types::Keyword,
    pub message: Option<Message>,
}

/// A value map or bit map.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Map {
    pub name: String,
    pub symbol: Option<String>,
    pub is_bitmap: bool,
    pub items: Vec<MapItem>,
}

/// A value of a map.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct MapItem {
    pub value: u32,
    pub symbol: Option<String>,
    pub message: Option<Message>,
}

/// A map of names to patterns, which named queries use.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct PatternMap {
    pub name: String,
    /// The language of its patterns.
    pub format: String,
    pub items: Vec<PatternItem>,
}

/// A pattern and its name.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct PatternItem {
    pub name: String,
    pub value: String,
}

/// A template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// Its id in the manifest.
    pub id: String,
    /// Its name, which the XML of its events has.
    pub name: Option<String>,
    /// Top-level fields.
    pub fields: Vec<Field>,
    /// The XML of `UserData`, if that is given instead of the usual `EventData`.
    pub user_data: Option<UserData>,
}

/// A number, or the field that holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Not given.
    #[default]
    None,
    /// A number.
    Fixed(u16),
    /// The index of an earlier top-level field, or member of the same struct.
    Field(u16),
}

/// A field: a value, an array of values, or a struct.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Field {
    pub name: String,
    pub in_type: InType,
    pub out_type: OutType,
    /// Index in the provider's maps.
    pub map: Option<usize>,
    pub length: Extent,
    /// More than one value; a given count of one is [`has_count_of_one`](Self::has_count_of_one).
    pub count: Extent,
    /// Whether the manifest gives a count of one. Programs pass such a field as one value; the compiled manifest tells the two apart.
    pub has_count_of_one: bool,
    /// The members of a struct.
    pub members: Vec<Field>,
}

/// The XML of a template's `UserData`.
#[derive(Clone, Debug, PartialEq)]
pub struct UserData {
    /// Its elements; text holds `%1` … for the fields.
    pub elements: Vec<UserElement>,
}

/// An element of `UserData`.
#[derive(Clone, Debug, PartialEq)]
pub struct UserElement {
    /// Its name.
    pub name: String,
    /// Its attributes, `xmlns` among them where the manifest declares it there.
    pub attributes: Vec<(String, String)>,
    /// Its content.
    pub children: Vec<UserNode>,
}

/// Content of an element of `UserData`.
#[derive(Clone, Debug, PartialEq)]
pub enum UserNode {
    /// An element.
    Element(UserElement),
    /// Text without white space around it.
    Text(String),
}

/// A filter that a provider accepts.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Filter {
    pub name: String,
    pub symbol: Option<String>,
    pub value: u8,
    pub version: u8,
    pub message: Option<Message>,
    /// Index in the provider's templates.
    pub template: Option<usize>,
}

/// An event. References are indices in the provider's lists.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Event {
    pub id: u16,
    pub version: u8,
    pub symbol: Option<String>,
    pub name: Option<String>,
    pub channel: Option<usize>,
    pub level: Option<usize>,
    pub task: Option<usize>,
    pub opcode: Option<usize>,
    /// In the order of their masks.
    pub keywords: Vec<usize>,
    pub template: Option<usize>,
    pub message: Option<Message>,
    pub is_logged: bool,
    /// Name and value pairs: `FILE=source.cpp`.
    pub attributes: Vec<String>,
    /// The position of its element.
    pub place: Place,
}

impl Provider {
    /// The event's keyword as it is written: its keywords' masks and its channel's bit.
    pub fn keyword_of(&self, event: &Event) -> etw_types::Keyword {
        let masks = event.keywords.iter().map(|index| self.keywords[*index].mask);
        let channel = event.channel.and_then(|index| self.channels[index].keyword_bit);
        let channel = channel.map_or(etw_types::Keyword(0), |bit| etw_types::Keyword(1 << bit));
        masks.fold(channel, |sum, mask| sum | mask)
    }

    /// The channel in the event's descriptor. An event without one carries that of its schema if another GUID controls the provider.
    pub fn descriptor_channel(&self, event: &Event) -> u8 {
        match (event.channel, self.control_guid) {
            (None, Some(_)) => 12,
            _ => self.numbers_of(event).channel,
        }
    }

    /// The event's channel, level, task and opcode as numbers.
    pub fn numbers_of(&self, event: &Event) -> Numbers {
        Numbers {
            channel: event.channel.map_or(0, |index| self.channels[index].value),
            level: etw_types::Level(event.level.map_or(0, |index| self.levels[index].value)),
            task: event.task.map_or(0, |index| self.tasks[index].value),
            opcode: event.opcode.map_or(0, |index| self.opcodes[index].value),
        }
    }
}

/// Parts of an event's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Numbers {
    pub channel: u8,
    pub level: etw_types::Level,
    pub task: u16,
    pub opcode: u8,
}

impl Manifest {
    /// Reads and checks a manifest: UTF-8, or UTF-16 with a byte order mark.
    ///
    /// # Errors
    /// All errors and warnings that were found, with their positions: at least one error.
    pub fn parse(text: &[u8]) -> Result<Manifest, Vec<Diagnostic>> {
        read::parse(text)
    }
}
