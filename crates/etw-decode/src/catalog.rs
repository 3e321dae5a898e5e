//! Schemas that do not come from the trace: what the user names.

use crate::manifest::{self, ManifestError};
use crate::mof;
use crate::schema::Schema;
use crate::wevt::{self, Messages, WevtError};
use crate::wpp::{self, WppMessage};
use etw_types::Guid;
use std::collections::HashMap;

/// Versions of a class's event.
type Versions = Vec<(Option<u8>, Schema)>;

/// Schemas by what they describe. What was added first is kept where two describe the same.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    events: HashMap<(Guid, u16, u8), Schema, foldhash::fast::RandomState>,
    providers: HashMap<Guid, String, foldhash::fast::RandomState>,
    messages: HashMap<(Guid, u16), Schema, foldhash::fast::RandomState>,
    /// By class and type: versions and their schemas; `None` stands for versions without a class of their own.
    classes: HashMap<(Guid, u8), Versions, foldhash::fast::RandomState>,
    packs: Vec<std::sync::Arc<crate::pack::Pack>>,
}

/// What a manifest says of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DescribedEvent {
    pub id: u16,
    pub version: u8,
    pub name: String,
    pub level: Option<String>,
    pub keywords: Vec<String>,
    /// Names of its own fields.
    pub fields: Vec<String>,
}

impl Catalog {
    /// Adds the events of an instrumentation manifest, or of the compiled ones in a PE file; gives warnings about what was left
    /// out.
    ///
    /// # Errors
    /// It is neither.
    pub fn add_manifest(&mut self, text: &[u8]) -> Result<Vec<String>, ManifestError> {
        if text.starts_with(b"MZ") {
            self.add_pe(text, &Messages::default())?;
            return Ok(Vec::new());
        }
        let manifest = manifest::parse(text)?;
        for provider in manifest.providers {
            self.add_provider(provider);
        }
        Ok(manifest.warnings)
    }

    /// Adds the events of the compiled manifests in a PE file; `messages`: of other files, for texts that are not in it.
    ///
    /// # Errors
    /// It has none, or damaged ones.
    pub fn add_pe(&mut self, file: &[u8], messages: &Messages) -> Result<(), WevtError> {
        for provider in wevt::parse_pe(file, messages)? {
            self.add_provider(provider);
        }
        Ok(())
    }

    /// Adds the events of a provider.
    pub fn add_provider(&mut self, provider: manifest::ManifestProvider) {
        for guid in [Some(provider.guid), provider.control_guid].into_iter().flatten() {
            self.providers.entry(guid).or_insert_with(|| provider.name.clone());
        }
        for ((id, version), schema) in provider.events {
            if let Some(control) = provider.control_guid {
                self.events.entry((control, id, version)).or_insert_with(|| schema.clone());
            }
            self.events.entry((provider.guid, id, version)).or_insert(schema);
        }
    }

    /// Adds the messages of TMF files; gives warnings about what was left out.
    pub fn add_tmf(&mut self, text: &[u8]) -> Vec<String> {
        let (messages, warnings) = wpp::parse_tmf(&wpp::text_of(text));
        self.add_messages(messages);
        warnings
    }

    /// Adds the WPP messages of a PDB file; gives warnings about what was left out.
    ///
    /// # Errors
    /// What the reader of PDBs says of the file.
    #[cfg(feature = "pdb")]
    pub fn add_pdb(&mut self, file: &[u8]) -> Result<Vec<String>, String> {
        let (messages, warnings) = wpp::pdb::parse(std::io::Cursor::new(file))?;
        self.add_messages(messages);
        Ok(warnings)
    }

    /// Adds WPP messages.
    pub fn add_messages(&mut self, messages: impl IntoIterator<Item = WppMessage>) {
        for message in messages {
            self.messages.entry((message.guid, message.number)).or_insert(message.schema);
        }
    }

    pub(crate) fn message(&self, guid: Guid, number: u16) -> Option<&Schema> {
        let own = self.messages.get(&(guid, number));
        own.or_else(|| self.in_packs(|pack| pack.message(guid, number)))
    }

    /// Adds the classes of a MOF file; gives warnings about what was left out.
    pub fn add_mof(&mut self, text: &[u8]) -> Vec<String> {
        let (events, warnings) = mof::parse(text);
        for event in events {
            let versions = self.classes.entry((event.class, event.kind)).or_default();
            if !versions.iter().any(|(version, _)| *version == event.version) {
                versions.push((event.version, event.schema));
            }
        }
        warnings
    }

    /// Of the record's version, else without one.
    pub(crate) fn class(&self, class: Guid, kind: u8, version: u8) -> Option<&Schema> {
        let own = || {
            let versions = self.classes.get(&(class, kind))?;
            let of = |wanted| versions.iter().find(|(version, _)| *version == wanted);
            of(Some(version)).or_else(|| of(None)).map(|(_, schema)| schema)
        };
        own().or_else(|| self.in_packs(|pack| pack.class(class, kind, version)))
    }

    /// WPP messages that it describes.
    pub fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// Asks a pack for what is not described otherwise.
    pub fn add_pack(&mut self, pack: std::sync::Arc<crate::pack::Pack>) {
        self.packs.push(pack);
    }

    /// What a trace told.
    pub(crate) fn add_described(&mut self, key: crate::event_info::EventKey, schema: Schema) {
        use crate::event_info::EventKey;
        match key {
            EventKey::Event(provider, id, version) => {
                if let Some(name) = &schema.names.provider {
                    self.providers.entry(provider).or_insert_with(|| name.clone());
                }
                self.events.entry((provider, id, version)).or_insert(schema);
            }
            EventKey::Classic(class, kind, version) => {
                self.classes.entry((class, kind)).or_default().push((Some(version), schema));
            }
        }
    }

    fn in_packs<'c, T>(
        &'c self,
        find: impl FnMut(&'c crate::pack::Pack) -> Option<T>,
    ) -> Option<T> {
        self.packs.iter().map(|pack| &**pack).find_map(find)
    }

    /// Events and messages that it describes.
    pub fn len(&self) -> usize {
        self.events.len() + self.messages.len() + self.classes.len()
    }

    /// Whether it describes nothing.
    pub fn is_empty(&self) -> bool {
        self.providers.is_empty() && self.messages.is_empty() && self.classes.is_empty()
    }

    /// The name of a provider that it knows.
    pub fn provider_name(&self, provider: &Guid) -> Option<&str> {
        let own = self.providers.get(provider).map(String::as_str);
        own.or_else(|| self.in_packs(|pack| pack.provider_name(provider)))
    }

    /// The providers that it knows.
    pub fn providers(&self) -> impl Iterator<Item = (&Guid, &str)> {
        self.providers.iter().map(|(guid, name)| (guid, name.as_str()))
    }

    /// The providers of a name, compared without case; those of packs too.
    pub fn providers_named(&self, name: &str) -> Vec<Guid> {
        let own = self.providers.iter().filter(|(_, known)| known.eq_ignore_ascii_case(name));
        let mut found: Vec<Guid> = own.map(|(guid, _)| *guid).collect();
        for pack in &self.packs {
            for guid in pack.sources().flat_map(|(_, _, _, guids)| guids) {
                let known = pack.provider_name(guid);
                if known.is_some_and(|known| known.eq_ignore_ascii_case(name)) {
                    found.push(*guid);
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// The events that a provider's manifests describe, by id and version; those of packs too.
    pub fn events_of(&self, provider: &Guid) -> Vec<DescribedEvent> {
        let own = self.events.iter().filter(|((guid, ..), _)| guid == provider);
        let mut found: Vec<DescribedEvent> = own
            .map(|((_, id, version), schema)| DescribedEvent {
                id: *id,
                version: *version,
                name: schema.names.event.clone().unwrap_or_default(),
                level: schema.names.level.clone(),
                keywords: schema.names.keywords.clone(),
                fields: schema.fields[..schema.top_level].iter().map(|f| f.name.clone()).collect(),
            })
            .collect();
        for pack in &self.packs {
            found.extend(pack.events_of(provider));
        }
        found.sort_by_key(|event| (event.id, event.version));
        found.dedup_by_key(|event| (event.id, event.version));
        found
    }

    /// The schema of a manifest's event; those of packs too.
    #[inline]
    pub fn event(&self, provider: Guid, id: u16, version: u8) -> Option<&Schema> {
        let own = self.events.get(&(provider, id, version));
        own.or_else(|| self.in_packs(|pack| pack.event(provider, id, version)))
    }
}
