//! [`Schemas`]: schemas by what they describe.

use crate::event_info::EventKey;
use crate::mof;
use crate::parsed::Parsed;
use crate::provider::{KeywordName, ManifestProvider, ProviderDescription};
use crate::schema::Schema;
use crate::tracelogging::program::ProgramMetadata;
use crate::wpp::WppMessage;
use etw_types::Guid;
use std::collections::HashMap;
use std::sync::Arc;

/// Versions of a class's event; `None` stands for versions without a schema of their own.
type Versions = Vec<(Option<u8>, Arc<Schema>)>;

/// Schemas of one event beyond the first that are kept.
const OTHERS_LIMIT: usize = 8;

/// Schemas by what they describe. The schema of an event that was added first comes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schemas {
    pub events: HashMap<(Guid, u16, u8), Arc<Schema>, foldhash::fast::RandomState>,
    /// Further schemas with other fields, for the same events: builds of a provider differ without a new version.
    others: HashMap<(Guid, u16, u8), Vec<Arc<Schema>>, foldhash::fast::RandomState>,
    pub providers: HashMap<Guid, String, foldhash::fast::RandomState>,
    keywords: HashMap<Guid, Vec<KeywordName>, foldhash::fast::RandomState>,
    descriptions: HashMap<Guid, Arc<ProviderDescription>, foldhash::fast::RandomState>,
    messages: HashMap<(Guid, u16), Arc<Schema>, foldhash::fast::RandomState>,
    /// TraceLogging events that programs can emit, by provider. They describe themselves in a trace.
    emitted: HashMap<Guid, Vec<DescribedEvent>, foldhash::fast::RandomState>,
    /// By class and type.
    classes: HashMap<(Guid, u8), Versions, foldhash::fast::RandomState>,
}

impl Schemas {
    pub fn add_provider(&mut self, provider: ManifestProvider) {
        let description = Arc::new(ProviderDescription {
            named_values: provider.named_values,
            channels: provider.channels,
            texts: provider.texts,
        });
        for guid in [Some(provider.guid), provider.control_guid].into_iter().flatten() {
            self.providers.entry(guid).or_insert_with(|| provider.name.clone());
            self.keywords.entry(guid).or_insert_with(|| provider.keywords.clone());
            self.descriptions.entry(guid).or_insert_with(|| Arc::clone(&description));
        }
        for ((id, version), schema) in provider.events {
            let schema = Arc::new(schema);
            if let Some(control) = provider.control_guid {
                self.add_event((control, id, version), Arc::clone(&schema));
            }
            self.add_event((provider.guid, id, version), schema);
        }
    }

    fn add_event(&mut self, key: (Guid, u16, u8), schema: Arc<Schema>) {
        use std::collections::hash_map::Entry;
        match self.events.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(schema)),
            Entry::Occupied(first) if first.get().fields == schema.fields => {}
            Entry::Occupied(_) => {
                let others = self.others.entry(key).or_default();
                let is_known = others.iter().any(|other| other.fields == schema.fields);
                if !is_known && others.len() < OTHERS_LIMIT {
                    others.push(schema);
                }
            }
        }
    }

    pub fn add_messages(&mut self, messages: impl IntoIterator<Item = WppMessage>) {
        for message in messages {
            let key = (message.guid, message.number);
            self.messages.entry(key).or_insert_with(|| Arc::new(message.schema));
        }
    }

    /// Adds the classes of a MOF file; returns warnings about what was left out.
    pub fn add_mof(&mut self, text: &[u8]) -> Vec<String> {
        let Parsed { value: events, warnings } = mof::parse(text);
        for event in events {
            let versions = self.classes.entry((event.class, event.kind)).or_default();
            if !versions.iter().any(|(version, _)| *version == event.version) {
                versions.push((event.version, Arc::new(event.schema)));
            }
        }
        warnings
    }

    /// Adds the names of a program's TraceLogging providers and events.
    pub fn add_program(&mut self, program: &ProgramMetadata<'_>) {
        for provider in &program.providers {
            let name = String::from_utf8_lossy(provider.traits.name());
            if let Some(guid) = provider.guid {
                self.providers.entry(guid).or_insert_with(|| name.into_owned());
            }
        }
        if let Some(guid) = program.only_provider() {
            let events = program.events.iter().filter_map(|event| event.schema());
            let events = events.map(|schema| DescribedEvent::new(0, 0, &schema));
            self.emitted.entry(guid).or_default().extend(events);
        }
    }

    /// Adds a schema that a trace described.
    pub fn add_described(&mut self, key: EventKey, schema: Schema) {
        match key {
            EventKey::Event { provider, id, version } => {
                if let Some(name) = &schema.names.provider {
                    self.providers.entry(provider).or_insert_with(|| name.clone());
                }
                self.events.entry((provider, id, version)).or_insert_with(|| Arc::new(schema));
            }
            EventKey::Classic { class, kind, version } => {
                let versions = self.classes.entry((class, kind)).or_default();
                versions.push((Some(version), Arc::new(schema)));
            }
        }
    }

    /// Names the file of all schemas whose file has no name yet.
    pub fn set_origin(&mut self, name: &str) {
        let name: Arc<str> = name.into();
        let events = self.events.values_mut().chain(self.others.values_mut().flatten());
        let classes = self.classes.values_mut().flatten().map(|(_, schema)| schema);
        for schema in events.chain(classes).chain(self.messages.values_mut()) {
            if schema.origin.is_none() {
                Arc::make_mut(schema).origin = Some(name.clone());
            }
        }
    }

    #[inline]
    pub fn event(&self, provider: Guid, id: u16, version: u8) -> Option<&Arc<Schema>> {
        self.events.get(&(provider, id, version))
    }

    /// All schemas of an event, the first one first.
    #[inline]
    pub fn event_schemas(
        &self,
        provider: Guid,
        id: u16,
        version: u8,
    ) -> impl Iterator<Item = &Arc<Schema>> {
        let key = (provider, id, version);
        let first = self.events.get(&key);
        let others = first.and_then(|_| self.others.get(&key)).into_iter().flatten();
        first.into_iter().chain(others)
    }

    pub fn message(&self, guid: Guid, number: u16) -> Option<&Arc<Schema>> {
        self.messages.get(&(guid, number))
    }

    /// The schema of the record's version, else the one without a version.
    pub fn class(&self, class: Guid, kind: u8, version: u8) -> Option<&Arc<Schema>> {
        let versions = self.classes.get(&(class, kind))?;
        let of = |wanted| versions.iter().find(|(version, _)| *version == wanted);
        of(Some(version)).or_else(|| of(None)).map(|(_, schema)| schema)
    }

    pub fn provider_name(&self, provider: &Guid) -> Option<&str> {
        self.providers.get(provider).map(String::as_str)
    }

    pub fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// How many events, messages and classes it describes.
    pub fn len(&self) -> usize {
        self.events.len() + self.messages.len() + self.classes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.providers.is_empty() && self.messages.is_empty() && self.classes.is_empty()
    }

    /// Events and classes, in no order.
    pub fn into_events(self) -> impl Iterator<Item = (EventKey, Schema)> {
        let events = self.events.into_iter();
        let classes = self.classes.into_iter().flat_map(|((class, kind), versions)| {
            versions.into_iter().map(move |(version, schema)| {
                let schema = Arc::unwrap_or_clone(schema);
                (EventKey::Classic { class, kind, version: version.unwrap_or(0) }, schema)
            })
        });
        events
            .map(|((provider, id, version), schema)| {
                (EventKey::Event { provider, id, version }, Arc::unwrap_or_clone(schema))
            })
            .chain(classes)
    }

    /// The keywords of a provider's manifest.
    pub fn keywords_of(&self, provider: &Guid) -> &[KeywordName] {
        self.keywords.get(provider).map_or(&[], Vec::as_slice)
    }

    /// Everything that a provider's manifest says beside its events.
    pub fn description_of(&self, provider: &Guid) -> Option<&ProviderDescription> {
        self.descriptions.get(provider).map(|description| &**description)
    }

    /// The events of a provider, in no order.
    pub fn events_of(&self, provider: &Guid) -> impl Iterator<Item = DescribedEvent> {
        let own = self.events.iter().filter(move |((guid, ..), _)| guid == provider);
        let own = own.map(|((_, id, version), schema)| DescribedEvent::new(*id, *version, schema));
        own.chain(self.emitted.get(provider).into_iter().flatten().cloned())
    }
}

/// An event that a manifest or a program describes; TraceLogging events have no id of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DescribedEvent {
    pub id: u16,
    pub version: u8,
    pub name: String,
    pub level: Option<String>,
    pub keywords: Vec<String>,
    /// Names of its top-level fields.
    pub fields: Vec<String>,
}

impl DescribedEvent {
    fn new(id: u16, version: u8, schema: &Schema) -> DescribedEvent {
        let fields = schema.fields[..schema.top_level].iter();
        DescribedEvent {
            id,
            version,
            name: schema.names.event.clone().unwrap_or_default(),
            level: schema.names.level.clone(),
            keywords: schema.names.keywords.clone(),
            fields: fields.map(|field| field.name.clone()).collect(),
        }
    }
}
