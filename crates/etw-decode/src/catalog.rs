//! [`Catalog`]: the schemas that a user named or registered.

use crate::event_info;
use crate::manifest::{self, ManifestError};
use crate::pack::{Pack, add_carried, is_elf};
use crate::parsed::Parsed;
use crate::provider::{KeywordName, ManifestProvider, ProviderDescription};
use crate::schema::Schema;
use crate::schemas::{DescribedEvent, Schemas};
use crate::wevt::{self, Messages};
use crate::wpp::{self, WppMessage};
use etw_types::{Guid, SchemaRecord};
use std::sync::Arc;

/// Schemas of manifests, MOF, TMF and packs. The schema of an event that was added first comes first, packs last.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    own: Schemas,
    packs: Vec<Arc<Pack>>,
}

impl Catalog {
    /// Adds the events of an instrumentation manifest: XML, a PE file with a compiled one, a bare WEVT_TEMPLATE, or an ELF file that
    /// carries schemas. Returns warnings about what was left out.
    ///
    /// # Errors
    /// [`ManifestError`] if the bytes are none of these.
    pub fn add_manifest(&mut self, bytes: &[u8]) -> Result<Vec<String>, ManifestError> {
        self.add_compiled(bytes, &Messages::default())
    }

    /// Like [`add_manifest`](Catalog::add_manifest); `messages`: texts of other files, for those that a compiled manifest lacks.
    ///
    /// # Errors
    /// [`ManifestError`] if the bytes are not a manifest.
    pub fn add_compiled(
        &mut self,
        bytes: &[u8],
        messages: &Messages,
    ) -> Result<Vec<String>, ManifestError> {
        if is_elf(bytes) {
            return match add_carried(&mut self.own, bytes) {
                true => Ok(Vec::new()),
                false => Err(ManifestError::NoCarriedSchemas),
            };
        }
        let manifest = match bytes {
            pe if pe.starts_with(b"MZ") => wevt::parse_pe(pe, messages)?,
            bare if wevt::is_bare(bare) => wevt::parse(bare, messages)?,
            text => manifest::parse(text)?,
        };
        for provider in manifest.providers {
            self.add_provider(provider);
        }
        Ok(manifest.warnings)
    }

    /// Adds the events of a provider.
    pub fn add_provider(&mut self, provider: ManifestProvider) {
        self.own.add_provider(provider);
    }

    /// Adds the messages of TMF files, or of a program that carries them (ELF); returns warnings about what was left out.
    pub fn add_tmf(&mut self, text: &[u8]) -> Vec<String> {
        let text = match wpp::program::is_program(text) {
            true => match wpp::program::formats(text) {
                Some(formats) => formats,
                None => return vec!["the program has no section .etw.tmf".to_owned()],
            },
            false => wpp::text_of(text),
        };
        let Parsed { value: messages, warnings } = wpp::parse_tmf(&text);
        self.add_messages(messages);
        warnings
    }

    /// Adds the WPP messages of a PDB file; returns warnings about what was left out.
    ///
    /// # Errors
    /// The message of the PDB reader.
    #[cfg(feature = "pdb")]
    pub fn add_pdb(&mut self, file: &[u8]) -> Result<Vec<String>, String> {
        let Parsed { value: messages, warnings } = wpp::pdb::parse(std::io::Cursor::new(file))?;
        self.add_messages(messages);
        Ok(warnings)
    }

    /// Adds WPP messages.
    pub fn add_messages(&mut self, messages: impl IntoIterator<Item = WppMessage>) {
        self.own.add_messages(messages);
    }

    /// Adds the classes of a MOF file; returns warnings about what was left out.
    pub fn add_mof(&mut self, text: &[u8]) -> Vec<String> {
        self.own.add_mof(text)
    }

    /// Names the file of the schemas that were added since the last call: [`Schema::origin`].
    pub fn set_origin(&mut self, name: &str) {
        self.own.set_origin(name);
    }

    /// Adds a pack, which is asked for what the other sources do not describe.
    pub fn add_pack(&mut self, pack: Arc<Pack>) {
        self.packs.push(pack);
    }

    /// Orders packs for a trace of a build of Windows: those of that build and those of no build first, then by distance.
    pub fn prefer_build(&mut self, build: u32) {
        let distance =
            |pack: &Arc<Pack>| pack.windows().map_or(0, |known| known.build.abs_diff(build));
        self.packs.sort_by_key(distance);
    }

    /// The catalog for traces of a build of Windows, which their headers state ([`prefer_build`](Catalog::prefer_build)); `None` leaves
    /// the order of packs as it is.
    #[must_use]
    pub fn for_build(self: Arc<Catalog>, build: Option<u32>) -> Arc<Catalog> {
        match build {
            Some(build) if self.packs.len() > 1 => {
                let mut catalog = Arc::unwrap_or_clone(self);
                catalog.prefer_build(build);
                Arc::new(catalog)
            }
            _ => self,
        }
    }

    fn in_packs<'c, T>(&'c self, find: impl FnMut(&'c Pack) -> Option<T>) -> Option<T> {
        self.packs.iter().map(|pack| &**pack).find_map(find)
    }

    pub(crate) fn message(&self, guid: Guid, number: u16) -> Option<&Arc<Schema>> {
        let own = self.own.message(guid, number);
        own.or_else(|| self.in_packs(|pack| pack.message(guid, number)))
    }

    /// The schema of the record's version, else the one without a version.
    pub(crate) fn class(&self, class: Guid, kind: u8, version: u8) -> Option<&Arc<Schema>> {
        let own = self.own.class(class, kind, version);
        own.or_else(|| self.in_packs(|pack| pack.class(class, kind, version)))
    }

    /// How many WPP messages it describes, packs aside.
    pub fn message_count(&self) -> usize {
        self.own.message_count()
    }

    /// How many events, messages and classes it describes, packs aside.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Whether it describes nothing, packs aside.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// The name of a provider that it knows.
    pub fn provider_name(&self, provider: &Guid) -> Option<&str> {
        let own = self.own.provider_name(provider);
        own.or_else(|| self.in_packs(|pack| pack.provider_name(provider)))
    }

    /// The providers that it knows, packs aside.
    pub fn providers(&self) -> impl Iterator<Item = (&Guid, &str)> {
        self.own.providers.iter().map(|(guid, name)| (guid, name.as_str()))
    }

    /// The names of the providers in packs.
    pub fn pack_providers(&self) -> impl Iterator<Item = &str> {
        self.packs.iter().flat_map(|pack| {
            let guids = pack.sources().flat_map(|source| source.guids);
            guids.filter_map(|guid| pack.provider_name(guid))
        })
    }

    /// The providers of a name, compared without case, packs included.
    pub fn providers_named(&self, name: &str) -> Vec<Guid> {
        let own = self.providers().filter(|(_, known)| known.eq_ignore_ascii_case(name));
        let mut found: Vec<Guid> = own.map(|(guid, _)| *guid).collect();
        for pack in &self.packs {
            for guid in pack.sources().flat_map(|source| source.guids) {
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

    /// The events that a provider's manifests describe, by id and version, packs included.
    pub fn events_of(&self, provider: &Guid) -> Vec<DescribedEvent> {
        let mut found: Vec<DescribedEvent> = self.own.events_of(provider).collect();
        for pack in &self.packs {
            found.extend(pack.events_of(provider));
        }
        found.sort_by(|a, b| (a.id, a.version, &a.name).cmp(&(b.id, b.version, &b.name)));
        // Events without an id differ in their names.
        found.dedup_by(|a, b| {
            (a.id, a.version) == (b.id, b.version) && (a.id != 0 || a.name == b.name)
        });
        found
    }

    /// The keywords of a provider's manifests, packs included, by mask.
    pub fn keywords_of(&self, provider: &Guid) -> Vec<KeywordName> {
        let mut found = self.own.keywords_of(provider).to_vec();
        for pack in &self.packs {
            found.extend(pack.keywords_of(provider));
        }
        found.sort();
        found.dedup();
        found
    }

    /// Everything that a provider's manifest says beside its events, packs included.
    pub fn description_of(&self, provider: &Guid) -> Option<&ProviderDescription> {
        let own = self.own.description_of(provider);
        own.or_else(|| self.in_packs(|pack| pack.description_of(provider)))
    }

    /// All schemas of a manifest's event, packs included; they differ in their fields.
    #[inline]
    pub(crate) fn event_schemas(
        &self,
        provider: Guid,
        id: u16,
        version: u8,
    ) -> impl Iterator<Item = &Arc<Schema>> {
        let packs =
            self.packs.iter().flat_map(move |pack| pack.event_schemas(provider, id, version));
        self.own.event_schemas(provider, id, version).chain(packs)
    }

    /// The schema records of a manifest's event and of its maps, packs included; empty if no manifest describes it.
    pub fn records_of(&self, provider: Guid, id: u16, version: u8) -> Vec<SchemaRecord> {
        let Some(schema) = self.event(provider, id, version) else { return Vec::new() };
        let name = self.provider_name(&provider);
        let maps = event_info::map_records_of(provider, schema);
        maps.chain(event_info::event_record(provider, name, id, version, schema)).collect()
    }

    /// The schema of a manifest's event, packs included.
    #[inline]
    pub fn event(&self, provider: Guid, id: u16, version: u8) -> Option<&Schema> {
        let own = self.own.event(provider, id, version);
        own.or_else(|| self.in_packs(|pack| pack.event(provider, id, version)))
            .map(|schema| &**schema)
    }
}
