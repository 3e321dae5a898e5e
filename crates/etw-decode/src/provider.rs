//! [`Manifest`]: the providers of a manifest, in text or compiled.

use crate::map::Map;
use crate::schema::Schema;
use etw_types::{Guid, Keyword, Level};
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
    }
}
