//! [`Manifest`]: the providers of a manifest, in text or compiled.

use crate::map::Map;
use crate::schema::Schema;
use etw_types::{Guid, Keyword, Level, message_id};
use std::collections::HashMap;
use std::sync::Arc;

/// Warnings that are kept.
const WARNING_LIMIT: usize = 100;

/// The providers of a manifest.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// In the order of the manifest.
    pub providers: Vec<ManifestProvider>,
    /// Warnings about parts that were left out, and why; at most a hundred.
    pub warnings: Vec<String>,
    /// Whether the text stops being XML before its end, so that the rest is missing.
    pub is_cut: bool,
    /// Approximate bytes of memory that the events take.
    pub(crate) size: usize,
}

impl Manifest {
    pub(crate) fn warn(&mut self, what: String) {
        if self.warnings.len() < WARNING_LIMIT {
            self.warnings.push(what);
        }
    }

    /// Adds the providers and warnings of another one. Of a provider that both have, what is missing here is added.
    pub(crate) fn append(&mut self, other: Manifest) {
        let known = self.providers.iter().enumerate();
        let places: HashMap<Guid, usize> = known.map(|(place, one)| (one.guid, place)).collect();
        for provider in other.providers {
            match places.get(&provider.guid) {
                Some(place) => self.providers[*place].fill(provider),
                None => self.providers.push(provider),
            }
        }
        other.warnings.into_iter().for_each(|what| self.warn(what));
        self.size += other.size;
    }
}

/// A channel of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestChannel {
    /// The channel byte of its events.
    pub value: u8,
    /// Its name.
    pub name: String,
    /// The text that tools show for it; empty if it has none.
    pub message: String,
    /// The number of its message; for the text of a manifest, the one that `mc` gives it in a manifest of one provider. `None`: it has
    /// no message.
    pub message_id: Option<u32>,
    /// The settings in the manifest's text; compiled manifests have none.
    pub config: ChannelConfig,
}

/// The attributes and elements of a `channel` that configure it, where the manifest has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelConfig {
    /// Another manifest defines the channel (`importChannel`).
    pub is_imported: bool,
    /// `Admin`, `Operational`, `Analytic` or `Debug`.
    pub kind: Option<String>,
    /// Whether its events are kept without further request.
    pub enabled: Option<bool>,
    /// `Application`, `System` or `Custom`.
    pub isolation: Option<String>,
    /// Access rights, as SDDL.
    pub access: Option<String>,
    /// Whether a full log refuses new records.
    pub retention: Option<bool>,
    /// Whether a full log is archived.
    pub auto_backup: Option<bool>,
    /// Bytes of the log.
    pub max_size: Option<u64>,
    /// Level up to which events are kept.
    pub level: Option<Level>,
    /// Keywords of which kept events have one.
    pub keywords: Option<Keyword>,
}

/// A keyword of a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeywordName {
    /// Its bits.
    pub mask: Keyword,
    /// Its name.
    pub name: String,
}

/// The kinds of [`NamedValue`]s, in the order in which Windows lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedValueKind {
    /// A level.
    Level,
    /// An opcode.
    Opcode,
    /// A task.
    Task,
    /// A keyword.
    Keyword,
}

/// A level, opcode, task or keyword as its manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedValue {
    /// Its kind.
    pub kind: NamedValueKind,
    /// Its value; a keyword's mask.
    pub value: u64,
    /// The task of an opcode; 0: any task.
    pub task: u16,
    /// Its name, such as `win:Error`.
    pub name: String,
    /// The text that tools show for it; empty if it has none.
    pub message: String,
    /// The class of a task's events; zero for anything else.
    pub event_guid: Guid,
}

impl NamedValue {
    /// The number that `mc` gives its message in a manifest of one provider; `None` if it has no message.
    pub fn message_id(&self) -> Option<u32> {
        let value = self.value as u32;
        let id = match self.kind {
            NamedValueKind::Level => message_id::LEVEL | value,
            NamedValueKind::Opcode => {
                message_id::OPCODE | u32::from(self.task & 0xff) << 16 | value
            }
            NamedValueKind::Task => message_id::TASK | value,
            NamedValueKind::Keyword => message_id::KEYWORD | (self.value.trailing_zeros() + 1),
        };
        (!self.message.is_empty()).then_some(id)
    }
}

/// Everything that a manifest says of a provider beside its events.
#[derive(Clone, Debug, Default)]
pub struct ProviderDescription {
    /// Its levels, opcodes, tasks and keywords, by kind and value.
    pub named_values: Vec<NamedValue>,
    /// Its channels, by value.
    pub channels: Vec<ManifestChannel>,
    /// The texts of its element.
    pub texts: ProviderTexts,
}

/// The texts of a provider's element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderTexts {
    /// The text that tools show for the provider.
    pub message: String,
    /// Where users find help.
    pub help_link: String,
    /// The file with the compiled manifest.
    pub resource_file: String,
    /// The file with the texts of messages.
    pub message_file: String,
}

/// A provider and its events.
#[derive(Clone, Debug, Default)]
pub struct ManifestProvider {
    /// Its GUID.
    pub guid: Guid,
    /// Another GUID by which sessions enable it.
    pub control_guid: Option<Guid>,
    /// Its name.
    pub name: String,
    /// By id and version.
    pub events: HashMap<(u16, u8), Schema>,
    /// Its keywords, by mask.
    pub keywords: Vec<KeywordName>,
    /// Its channels, by value.
    pub channels: Vec<ManifestChannel>,
    /// Its maps, by name.
    pub maps: Vec<Arc<Map>>,
    /// Its levels, opcodes, tasks and keywords, by kind and value.
    pub named_values: Vec<NamedValue>,
    /// The texts of its element.
    pub texts: ProviderTexts,
}

impl ManifestProvider {
    /// Adds the events that are missing, and the lists that are empty.
    fn fill(&mut self, other: ManifestProvider) {
        for (key, schema) in other.events {
            self.events.entry(key).or_insert(schema);
        }
        if self.keywords.is_empty() {
            self.keywords = other.keywords;
        }
        if self.channels.is_empty() {
            self.channels = other.channels;
        }
        if self.maps.is_empty() {
            self.maps = other.maps;
        }
        if self.named_values.is_empty() {
            self.named_values = other.named_values;
        }
        if self.texts == ProviderTexts::default() {
            self.texts = other.texts;
        }
    }
}
