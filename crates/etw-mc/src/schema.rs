//! Schemas that programs carry, so that traces of their events explain themselves.

use etw_decode::event_info::provider_records;
use etw_decode::wevt::{self, Messages};
use etw_types::schema_blob;

use crate::Manifest;
use crate::messages::{self, MessageIds};
use crate::wevt::{Version, write};

/// The blob of each provider ([`etw_types::SchemaBlob`]), in the order of the manifest, with the texts of its first culture. An event
/// without a name has that of its symbol.
pub fn blobs(manifest: &Manifest) -> Vec<Vec<u8>> {
    let mut named = manifest.clone();
    for event in named.providers.iter_mut().flat_map(|provider| &mut provider.events) {
        event.name = event.name.take().or_else(|| event.symbol.clone());
    }
    let resource = write(&named, Version::V5);
    let table = messages::table(&MessageIds::new(manifest), manifest.cultures.first());
    let mut texts = Messages::default();
    texts.add_table(&table);
    let parsed = wevt::parse(&resource, &texts).unwrap_or_default();
    let of = |guid| parsed.providers.iter().find(move |one| one.guid == guid);
    manifest
        .providers
        .iter()
        .map(|provider| {
            let records = of(provider.guid).map(provider_records).unwrap_or_default();
            schema_blob(provider.control_guid.unwrap_or(provider.guid), &records)
        })
        .collect()
}
