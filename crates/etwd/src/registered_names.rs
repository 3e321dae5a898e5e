//! Providers that registered manifests name, for enablements by name.

use std::collections::HashMap;

use etw_decode::registered::{self, PackStamp};
use etw_types::Guid;

/// The GUIDs that manifests have for names, for the names that sessions have used.
#[derive(Default)]
pub(crate) struct RegisteredNames {
    packs: Vec<PackStamp>,
    known: HashMap<String, Vec<Guid>>,
}

impl RegisteredNames {
    /// The GUIDs of each of these names. The packs are read again only if they have changed, or for names that were not asked for
    /// before.
    pub fn of_names(&mut self, names: &[String]) -> Vec<Vec<Guid>> {
        let packs = registered::pack_stamps();
        if packs != self.packs {
            self.known.clear();
            self.packs = packs;
        }
        // Without a pack there is nothing to read.
        if !self.packs.is_empty() && names.iter().any(|name| !self.known.contains_key(name)) {
            // A pack that cannot be read names nothing; commands report it.
            let catalog = registered::catalog(&mut |_| ());
            self.known.retain(|name, _| names.contains(name));
            for name in names {
                let ids = || catalog.providers_named(name);
                self.known.entry(name.clone()).or_insert_with(ids);
            }
        }
        names.iter().map(|name| self.known.get(name).cloned().unwrap_or_default()).collect()
    }
}
