//! Schema records of a provider's events, for traces that explain themselves.

use std::sync::Arc;

use etw_types::{EVENT_INFO, EventDescriptor, Guid, MAP_INFO, SchemaRecord};

use super::{EventInfoParts, map_blob};
use crate::map::Map;
use crate::provider::ManifestProvider;
use crate::schema::Schema;

/// The largest payload of a schema record: a record has 64 KiB with its header.
const PAYLOAD_LIMIT: usize = 0xffff - 0x30;

/// The record that describes an event of a manifest.
///
/// `None` if the schema is incomplete, is that of a WPP message, or has more names than a record holds.
pub fn event_record(
    provider: Guid,
    provider_name: Option<&str>,
    id: u16,
    version: u8,
    schema: &Schema,
) -> Option<SchemaRecord> {
    if schema.incomplete.is_some() || schema.wpp.is_some() {
        return None;
    }
    let known = schema.descriptor.unwrap_or_default();
    let parts = EventInfoParts {
        provider,
        class: Guid::ZERO,
        descriptor: EventDescriptor { id, version, ..known },
        source: 0,
        names: &schema.names.without_made_event(),
        provider_name: provider_name.or(schema.names.provider.as_deref()),
        schema,
        pointer_size: 8,
        top_level: schema.top_level,
        rest_counts: &[],
    };
    let payload = parts.write()?;
    (payload.len() <= PAYLOAD_LIMIT).then_some(SchemaRecord { kind: EVENT_INFO, payload })
}

/// The record that describes a map of a provider; `None` if it has more names than a record holds.
pub fn map_record(provider: Guid, map: &Map) -> Option<SchemaRecord> {
    let payload = map_blob(provider, map);
    (payload.len() <= PAYLOAD_LIMIT).then_some(SchemaRecord { kind: MAP_INFO, payload })
}

/// The records of the maps that an event's fields use.
pub fn map_records_of(provider: Guid, schema: &Schema) -> impl Iterator<Item = SchemaRecord> {
    let maps = schema.fields.iter().filter_map(|field| field.map.as_ref());
    let mut seen: Vec<&Arc<Map>> = Vec::new();
    for map in maps {
        if !seen.iter().any(|known| known.name == map.name) {
            seen.push(map);
        }
    }
    seen.into_iter().filter_map(move |map| map_record(provider, map))
}

/// The records of all events and maps of a provider, by the GUID that sessions enable: the maps first, then events by id.
pub fn provider_records(provider: &ManifestProvider) -> Vec<SchemaRecord> {
    let guid = provider.control_guid.unwrap_or(provider.guid);
    let maps = provider.maps.iter().filter_map(|map| map_record(guid, map));
    let mut events: Vec<_> = provider.events.iter().collect();
    events.sort_by_key(|(number, _)| **number);
    let events = events.into_iter().filter_map(|((id, version), schema)| {
        event_record(guid, Some(&provider.name), *id, *version, schema)
    });
    maps.chain(events).collect()
}
