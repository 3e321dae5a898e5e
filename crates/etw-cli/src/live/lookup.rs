//! Providers and keywords by name: among registered providers, and in the schemas that the user named or keeps.

use super::host::Client;
use super::wanted::{Named, Wanted};
use crate::format::safe;
use crate::output::Failure;
use crate::schemas;
use crate::where_filter::closest;
use etw_decode::manifest::KeywordName;
use etw_decode::{Catalog, Schema, known_providers_named};
use etw_host::ProviderKey;
use etw_system::system_providers;
use etw_types::{Guid, Keyword, LevelKeyword};
use etw_wire::requests::{ProviderStatus, Request, Response};
use std::cell::OnceCell;
use std::sync::Arc;

/// The sources of names.
pub struct Lookup<'c> {
    client: Option<&'c Client>,
    named: Arc<Catalog>,
    own: OnceCell<Arc<Catalog>>,
    registered: OnceCell<Vec<ProviderStatus>>,
}

/// An event of a manifest.
pub struct KnownEvent<'a> {
    pub id: u16,
    pub version: u8,
    pub schema: &'a Schema,
}

impl<'c> Lookup<'c> {
    /// `named`: the schemas of the command line, which come before the user's own.
    pub fn new(client: Option<&'c Client>, named: Arc<Catalog>) -> Lookup<'c> {
        Lookup { client, named, own: OnceCell::new(), registered: OnceCell::new() }
    }

    fn catalogs(&self) -> [&Catalog; 2] {
        [&self.named, self.own.get_or_init(schemas::own)]
    }

    fn registered(&self) -> &[ProviderStatus] {
        self.registered.get_or_init(|| {
            let response = self.client.map(|client| client.ask(&Request::Providers));
            match response {
                Some(Ok(Response::Providers { providers })) => providers,
                _ => Vec::new(),
            }
        })
    }

    /// The GUIDs of registered providers of a name.
    fn registered_as(&self, name: &str) -> Vec<Guid> {
        let same = self.registered().iter().filter(|known| known.name.eq_ignore_ascii_case(name));
        let live: Vec<_> = same.clone().filter(|known| !known.pids.is_empty()).collect();
        match live.is_empty() {
            true => same.map(|known| known.id).collect(),
            false => live.into_iter().map(|known| known.id).collect(),
        }
    }

    /// The GUID of the schemas' provider of a name, if there is one.
    fn known_as(&self, name: &str) -> Result<Option<Guid>, Failure> {
        for catalog in self.catalogs() {
            match catalog.providers_named(name)[..] {
                [] => {}
                [id] => return Ok(Some(id)),
                ref several => return Err(ambiguous(name, several)),
            }
        }
        Ok(None)
    }

    /// The GUID of the provider of Windows or .NET of a name, if there is one.
    fn built_in(name: &str) -> Result<Option<Guid>, Failure> {
        match known_providers_named(name)[..] {
            [] => Ok(None),
            [id] => Ok(Some(id)),
            ref several => Err(ambiguous(name, several)),
        }
    }

    /// The GUID of a provider that is registered, in a schema, or of Windows or .NET.
    pub fn id(&self, named: &Named) -> Result<Guid, Failure> {
        let name = match named {
            Named::Id(id) => return Ok(*id),
            Named::Name(name) => name,
        };
        match self.registered_as(name)[..] {
            [] => {}
            [id] => return Ok(id),
            ref several => return Err(ambiguous(name, several)),
        }
        let known = match self.known_as(name)? {
            None => Lookup::built_in(name)?,
            known => known,
        };
        known.ok_or_else(|| {
            Failure::Usage(format!(
                "no provider named {name} is registered or in a schema pack; a program that is not there yet: \
                 by its GUID, or as *{name} if its GUID is that of its name (TraceLogging, EventSource)"
            ))
        })
    }

    /// A provider as a session enables it: the host keeps a name that is in no schema until a program registers it.
    pub fn key(&self, named: &Named) -> Result<ProviderKey, Failure> {
        let name = match named {
            Named::Id(id) => return Ok(ProviderKey::Id(*id)),
            Named::Name(name) => name,
        };
        if self.registered_as(name).is_empty() {
            if let Some(id) = self.known_as(name)? {
                return Ok(ProviderKey::Id(id));
            }
            // The hash of a name is its provider's GUID, whatever name that registers under.
            if let Some(id) = Lookup::built_in(name)?.filter(|id| *id != Guid::from_name(name)) {
                let shown = safe(name);
                eprintln!(
                    "etw: note: {shown} is {id}; *{shown} is the provider whose GUID is that of the name"
                );
                return Ok(ProviderKey::Id(id));
            }
            self.note_unknown(name);
        }
        Ok(ProviderKey::Name(name.clone()))
    }

    /// Prints that a name is not registered yet: it may be misspelt.
    fn note_unknown(&self, name: &str) {
        // Without a host nothing can be registered yet.
        if self.client.is_none() {
            return;
        }
        let known = self.registered().iter().map(|known| known.name.as_str());
        let known = known.filter(|known| !known.is_empty());
        let shown = safe(name);
        match closest(name, known.chain(system_providers::names().map(|name| name as &str))) {
            Some(near) if system_providers::named(near).is_some() => eprintln!(
                "etw: note: no program has registered {shown} yet; {near} is a provider of the system: did you mean that?"
            ),
            Some(near) => eprintln!(
                "etw: note: no program has registered {shown} yet; {} is registered: did you mean that?",
                safe(near)
            ),
            None => eprintln!(
                "etw: note: no program has registered {shown} yet; events are recorded once one does"
            ),
        }
    }

    /// Level and masks of a provider; names of keywords are looked up in its schema.
    pub fn level_keyword(&self, wanted: &Wanted, id: Guid) -> Result<LevelKeyword, Failure> {
        let mut masks = wanted.wanted;
        for (names, mask) in
            [(&wanted.any_names, &mut masks.any), (&wanted.all_names, &mut masks.all)]
        {
            if let Some(names) = names {
                *mask = self.mask(names, &wanted.provider, id)?;
            }
        }
        Ok(masks)
    }

    /// The events of a provider in manifests, each id and version once.
    pub fn events(&self, provider: &Guid) -> Vec<KnownEvent<'_>> {
        let mut found: Vec<KnownEvent<'_>> = Vec::new();
        for catalog in self.catalogs() {
            for event in catalog.events_of(provider) {
                let (id, version) = (event.id, event.version);
                let is_new = found.iter().all(|known| (known.id, known.version) != (id, version));
                if let Some(schema) = catalog.event(*provider, id, version).filter(|_| is_new) {
                    found.push(KnownEvent { id, version, schema });
                }
            }
        }
        found
    }

    fn mask(&self, names: &str, provider: &Named, id: Guid) -> Result<Keyword, Failure> {
        let mut known: Vec<KeywordName> = Vec::new();
        for catalog in self.catalogs() {
            known.extend(catalog.keywords_of(&id));
        }
        let mut mask = Keyword(0);
        for name in names.split(',').map(str::trim) {
            let same = |known: &&KeywordName| known.name.eq_ignore_ascii_case(name);
            // A name may look like a number: Add, Cafe.
            let bits = match (known.iter().find(same), super::wanted::mask(name)) {
                (Some(known), _) => known.mask,
                (None, Ok(bits)) => Keyword(bits),
                (None, Err(_)) => return Err(unknown_keyword(name, provider, &known)),
            };
            mask = mask | bits;
        }
        Ok(mask)
    }
}

fn ambiguous(name: &str, several: &[Guid]) -> Failure {
    let ids: Vec<String> = several.iter().map(Guid::to_string).collect();
    Failure::Usage(format!(
        "several providers are named {name}: {}; give one of these",
        ids.join(", ")
    ))
}

fn unknown_keyword(name: &str, provider: &Named, known: &[KeywordName]) -> Failure {
    let provider = match provider {
        Named::Id(id) => id.to_string(),
        Named::Name(name) => name.clone(),
    };
    if known.is_empty() {
        return Failure::Usage(format!(
            "keyword {name:?} of {provider}: no schema of this provider is known, so its keywords have no names; give a \
             hexadecimal mask, or its manifest (--manifest FILE, etw manifest install)"
        ));
    }
    let names = || known.iter().map(|known| known.name.as_str());
    let all = names().collect::<Vec<_>>().join(", ");
    let near =
        closest(name, names()).map_or(String::new(), |near| format!("did you mean {near}? "));
    Failure::Usage(format!("keyword {name:?} of {provider}: {near}its keywords are {all}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_windows_providers_are_known_without_a_schema() {
        let lookup = Lookup::new(None, Arc::default());
        let key = |name: &str| lookup.key(&Named::Name(name.to_owned())).unwrap();
        let process: Guid = "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716".parse().unwrap();
        let name = "Microsoft-Windows-Kernel-Process";
        assert_eq!(key(name), ProviderKey::Id(process));
        assert_eq!(lookup.id(&Named::Name(name.to_lowercase())).unwrap(), process);
        assert_eq!(key("My-Provider"), ProviderKey::Name("My-Provider".to_owned()));
        // Programs may register the provider of a hashed name under that name.
        let hashed = "Microsoft-Windows-Containers-Wcifs-Mapping".to_owned();
        assert_eq!(lookup.id(&Named::Name(hashed.clone())).unwrap(), Guid::from_name(&hashed));
        assert_eq!(key(&hashed), ProviderKey::Name(hashed));
        assert!(lookup.key(&Named::Name("Microsoft-Windows-Dwm-Core".to_owned())).is_err());
    }
}
