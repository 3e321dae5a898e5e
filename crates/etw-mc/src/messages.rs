//! Message ids and message tables.
//!
//! ```text
//! u32 blocks   blocks × { u32 first id, u32 last id, u32 offset }   entries
//! entry: u16 size, u16 flags (1: UTF-16), text, CR LF NUL, zeros to a multiple of four
//! ```

use std::collections::{BTreeMap, HashMap};

use etw_types::message_id::{
    BIT_MAP, CHANNEL, EVENT, FILTER, KEYWORD, LEVEL, OPCODE, TASK, VALUE_MAP,
};

use crate::manifest::{Culture, Event, Manifest, Message, Place, Provider};
use crate::{Diagnostic, Severity};

/// "No message", where an id is expected.
pub const NONE: u32 = 0xffff_ffff;

/// The message ids of a manifest.
///
/// A string has one id, that of its first use. Predefined elements have the same id in all providers.
#[derive(Clone, Debug, Default)]
pub struct MessageIds {
    strings: HashMap<String, u32>,
    /// All messages, by id.
    messages: BTreeMap<u32, Message>,
    /// The ids of each provider's parts, in the order of its lists.
    pub(crate) providers: Vec<ProviderIds>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderIds {
    pub provider: u32,
    pub channels: Vec<u32>,
    pub levels: Vec<u32>,
    pub tasks: Vec<u32>,
    pub opcodes: Vec<u32>,
    pub keywords: Vec<u32>,
    pub maps: Vec<Vec<u32>>,
    pub filters: Vec<u32>,
    pub events: Vec<u32>,
}

impl MessageIds {
    /// Numbers the messages of a manifest.
    pub fn new(manifest: &Manifest) -> MessageIds {
        let mut ids = MessageIds::default();
        for one in &manifest.message_table {
            ids.messages.insert(one.id, one.message.clone());
            if let Message::String(name) = &one.message {
                ids.strings.entry(name.clone()).or_insert(one.id);
            }
        }
        for (index, provider) in manifest.providers.iter().enumerate() {
            let of_provider = ids.number(provider, (index as u32) << 24);
            ids.providers.push(of_provider);
        }
        ids
    }

    fn number(&mut self, provider: &Provider, high: u32) -> ProviderIds {
        let mut channels = Counter(CHANNEL | high);
        let (mut values, mut bits) = (Counter(VALUE_MAP | high), Counter(BIT_MAP | high));
        let mut own = ProviderIds {
            provider: self.next(&provider.message, &mut channels),
            ..ProviderIds::default()
        };
        for channel in &provider.channels {
            own.channels.push(self.next(&channel.message, &mut channels));
        }
        // Predefined elements are numbered without the provider.
        let of = |name: &str| if name.starts_with("win:") { 0 } else { high };
        for one in &provider.levels {
            let id = LEVEL | of(&one.name) | u32::from(one.value);
            own.levels.push(self.add(&one.message, id));
        }
        for one in &provider.tasks {
            let id = TASK | of(&one.name) | u32::from(one.value);
            own.tasks.push(self.add(&one.message, id));
        }
        for one in &provider.opcodes {
            let task = u32::from(one.task & 0xff) << 16;
            let id = OPCODE | of(&one.name) | task | u32::from(one.value);
            own.opcodes.push(self.add(&one.message, id));
        }
        for one in &provider.keywords {
            let id = KEYWORD | of(&one.name) | (one.mask.0.trailing_zeros() + 1);
            own.keywords.push(self.add(&one.message, id));
        }
        for map in &provider.maps {
            let counter = if map.is_bitmap { &mut bits } else { &mut values };
            let items = map.items.iter().map(|item| self.next(&item.message, counter));
            own.maps.push(items.collect());
        }
        for one in &provider.filters {
            let id = FILTER | high | u32::from(one.version) << 8 | u32::from(one.value);
            own.filters.push(self.add(&one.message, id));
        }
        for event in &provider.events {
            own.events.push(self.add(&event.message, event_id(provider, event, high)));
        }
        own
    }

    /// The id of a message that is numbered on from the one before it.
    fn next(&mut self, message: &Option<Message>, counter: &mut Counter) -> u32 {
        let id = self.add(message, counter.0 + 1);
        counter.0 += u32::from(id == counter.0 + 1);
        id
    }

    /// The id of a message: this one, or that of the string's first use.
    fn add(&mut self, message: &Option<Message>, id: u32) -> u32 {
        let Some(message) = message else { return NONE };
        let id = match message {
            Message::String(name) => *self.strings.entry(name.clone()).or_insert(id),
            Message::Text(_) => id,
        };
        self.messages.entry(id).or_insert_with(|| message.clone());
        id
    }

    /// The strings in use with their ids, by id.
    pub fn strings(&self) -> impl Iterator<Item = (&str, u32)> {
        self.messages.iter().filter_map(|(id, message)| match message {
            Message::String(name) => Some((name.as_str(), *id)),
            Message::Text(_) => None,
        })
    }
}

struct Counter(u32);

/// Events of the system's own logs are named by their id alone, as classic event sources are.
fn event_id(provider: &Provider, event: &Event, high: u32) -> u32 {
    let number = u32::from(event.version) << 16 | u32::from(event.id);
    let channel = event.channel.map(|index| &provider.channels[index]);
    match channel.filter(|channel| channel.is_imported && (8..=10).contains(&channel.value)) {
        Some(_) => high | number,
        None => EVENT | high | number,
    }
}

/// The message table of one culture: the resource of type 11 that a resource script names.
pub fn table(ids: &MessageIds, culture: Option<&Culture>) -> Vec<u8> {
    let texts = ids.messages.iter().map(|(id, message)| match message {
        Message::Text(text) => (*id, text.as_str()),
        Message::String(name) => {
            (*id, culture.and_then(|one| one.string(name)).unwrap_or_default())
        }
    });
    blocks(texts, "\r\n")
}

/// UTF-16 units of the longest text in a message table: its entry, with the end of its line, has at most 65,535 bytes.
pub(crate) const MAX_TEXT: usize = 32_761;

/// A warning of each string that has more UTF-16 units than `most`: `-m` of mc. Its documentation names no unit; this one is a guess.
pub fn longer_than(manifest: &Manifest, most: usize) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for culture in &manifest.cultures {
        for ((id, text), place) in culture.strings.iter().zip(&culture.places) {
            found.extend(too_long(&format!("string `{id}`"), text, most, *place));
        }
    }
    found
}

/// The warning of a text that has more units than `most`.
pub(crate) fn too_long(what: &str, text: &str, most: usize, place: Place) -> Option<Diagnostic> {
    let length = text.encode_utf16().count();
    let Place { line, column } = place;
    let message = format!("{what} has {length} characters, more than {most}");
    (length > most).then_some(Diagnostic { severity: Severity::Warning, line, column, message })
}

/// A message table of texts in the order of their ids, each with `end` and NUL behind it.
pub(crate) fn blocks<'t>(texts: impl Iterator<Item = (u32, &'t str)>, end: &str) -> Vec<u8> {
    // Ids that follow each other share a block.
    let mut blocks: Vec<(u32, u32, usize)> = Vec::new();
    let mut entries = Vec::new();
    for (id, text) in texts {
        match blocks.last_mut() {
            Some((_, last, _)) if last.checked_add(1) == Some(id) => *last = id,
            _ => blocks.push((id, id, entries.len())),
        }
        let start = entries.len();
        entries.extend_from_slice(&[0, 0, 1, 0]);
        let units = text.encode_utf16().chain(end.encode_utf16()).chain([0]);
        entries.extend(units.flat_map(u16::to_le_bytes));
        entries.resize(entries.len().next_multiple_of(4), 0);
        let size = (entries.len() - start) as u16;
        entries[start..start + 2].copy_from_slice(&size.to_le_bytes());
    }
    let first = 4 + 12 * blocks.len();
    let mut table = (blocks.len() as u32).to_le_bytes().to_vec();
    for (low, high, offset) in blocks {
        for value in [low, high, (first + offset) as u32] {
            table.extend_from_slice(&value.to_le_bytes());
        }
    }
    table.extend_from_slice(&entries);
    table
}
