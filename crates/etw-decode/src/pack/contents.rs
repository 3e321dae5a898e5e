//! [`ProviderContents`]: everything that a pack says of a provider, for people and tools.

use super::{Entry, Pack, SourceKind, add_trace, compiled};
use crate::map::Map;
use crate::mof::MofEvent;
use crate::provider::{KeywordName, Manifest, ManifestChannel, NamedValue, ProviderTexts};
use crate::schema::Schema;
use crate::schemas::Schemas;
use crate::tracelogging::program::ProgramMetadata;
use crate::{manifest, mof, wpp};
use etw_types::Guid;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A provider, class or WPP component of one source.
#[derive(Clone, Debug, Default)]
pub struct ProviderContents {
    /// Its name, if the source has one.
    pub provider: Option<String>,
    /// Its GUID.
    pub guid: Guid,
    /// Another GUID by which sessions enable it.
    pub control_guid: Option<Guid>,
    /// The name of the source.
    pub source: String,
    /// The kind of the source.
    pub kind: Option<SourceKind>,
    /// Events by id, version and opcode.
    pub events: Vec<EventContents>,
    /// Maps by name; those of manifests only.
    pub maps: Vec<Arc<Map>>,
    /// Channels by value; those of manifests only.
    pub channels: Vec<ManifestChannel>,
    /// Keywords by mask; those of manifests only.
    pub keywords: Vec<KeywordName>,
    /// Levels, opcodes, tasks and keywords with their own names, by kind and value; those of manifests only.
    pub named_values: Vec<NamedValue>,
    /// The texts of the provider's element; of manifests only.
    pub texts: ProviderTexts,
}

/// An event of a source.
#[derive(Clone, Debug)]
pub struct EventContents {
    /// Id of an event, or number of a WPP message.
    pub id: Option<u16>,
    /// Version of an event or of a class.
    pub version: Option<u8>,
    /// Type of a classic event.
    pub opcode: Option<u8>,
    /// Names, fields and message.
    pub schema: Schema,
}

impl Pack {
    /// The contents of all sources, in their order; a damaged source has none.
    pub fn contents(&self) -> impl Iterator<Item = ProviderContents> {
        self.entries.iter().flat_map(|entry| match self.source(entry) {
            Some(source) => of_source(entry, &source),
            None => Vec::new(),
        })
    }
}

fn of_source(entry: &Entry, source: &[u8]) -> Vec<ProviderContents> {
    let mut all = match entry.kind {
        SourceKind::Manifest => of_manifest(manifest::parse(source).unwrap_or_default()),
        SourceKind::Compiled => of_manifest(compiled(source).unwrap_or_default()),
        SourceKind::Trace => {
            let mut schemas = Schemas::default();
            add_trace(&mut schemas, source);
            of_trace(schemas)
        }
        SourceKind::Mof => {
            let events = mof::parse(source).value.into_iter().map(|event| {
                let MofEvent { class, kind, version, schema } = event;
                (class, EventContents { id: None, version, opcode: Some(kind), schema })
            });
            grouped(events)
        }
        SourceKind::Tmf => {
            let messages = wpp::parse_tmf(&wpp::text_of(source)).value.into_iter().map(|message| {
                let id = Some(message.number);
                let schema = message.schema;
                (message.guid, EventContents { id, version: None, opcode: None, schema })
            });
            grouped(messages)
        }
        SourceKind::TraceLogging => of_program(&ProgramMetadata::find(source)),
        SourceKind::Windows => Vec::new(),
    };
    for one in &mut all {
        one.source.clone_from(&entry.name);
        one.kind = Some(entry.kind);
        one.events.sort_by_key(|event| (event.id, event.version, event.opcode));
    }
    all
}

fn of_manifest(manifest: Manifest) -> Vec<ProviderContents> {
    let of_provider = |provider: crate::provider::ManifestProvider| ProviderContents {
        provider: Some(provider.name),
        guid: provider.guid,
        control_guid: provider.control_guid,
        events: provider
            .events
            .into_iter()
            .map(|((id, version), schema)| EventContents {
                id: Some(id),
                version: Some(version),
                opcode: None,
                schema,
            })
            .collect(),
        maps: provider.maps,
        channels: provider.channels,
        keywords: provider.keywords,
        named_values: provider.named_values,
        texts: provider.texts,
        ..ProviderContents::default()
    };
    manifest.providers.into_iter().map(of_provider).collect()
}

fn of_trace(schemas: Schemas) -> Vec<ProviderContents> {
    grouped(schemas.into_events().map(|(key, schema)| {
        use crate::event_info::EventKey::{Classic, Event};
        match key {
            Event { provider, id, version } => {
                let version = Some(version);
                (provider, EventContents { id: Some(id), version, opcode: None, schema })
            }
            Classic { class, kind, version } => {
                let version = Some(version);
                (class, EventContents { id: None, version, opcode: Some(kind), schema })
            }
        }
    }))
}

/// The providers of a program. If there are several, nothing says which of them has an event: such events follow with no provider.
fn of_program(program: &ProgramMetadata<'_>) -> Vec<ProviderContents> {
    let mut all: BTreeMap<Guid, ProviderContents> = BTreeMap::new();
    for provider in &program.providers {
        let Some(guid) = provider.guid else { continue };
        let one = all.entry(guid).or_default();
        one.guid = guid;
        one.provider = Some(String::from_utf8_lossy(provider.traits.name()).into_owned());
    }
    let events = program.events.iter().filter_map(|event| event.schema());
    let events: Vec<EventContents> = events
        .map(|schema| EventContents { id: None, version: None, opcode: None, schema })
        .collect();
    if !events.is_empty() {
        let owner = program.only_provider().unwrap_or_default();
        all.entry(owner).or_default().events = events;
    }
    all.into_values().collect()
}

/// Groups events by the GUID before them.
fn grouped(events: impl Iterator<Item = (Guid, EventContents)>) -> Vec<ProviderContents> {
    let mut all: BTreeMap<Guid, ProviderContents> = BTreeMap::new();
    for (guid, event) in events {
        let one = all.entry(guid).or_default();
        one.guid = guid;
        if one.provider.is_none() {
            one.provider.clone_from(&event.schema.names.provider);
        }
        one.events.push(event);
    }
    all.into_values().collect()
}
