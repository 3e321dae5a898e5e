//! `etw pack show --format json`: an object for each provider that a pack describes.

use etw_decode::pack::{Pack, ProviderContents, SourceKind};
use etw_decode::{Count, Field, Kind, Length, Map, MapKind, Schema};
use serde_json::{Value, json};

/// One JSON object a line, an object for each provider, class or component of each source.
pub fn json_lines(pack: &Pack) -> String {
    let mut text = String::new();
    for described in pack.contents() {
        text.push_str(&provider(&described).to_string());
        text.push('\n');
    }
    text
}

/// A provider as a JSON object.
pub fn provider(described: &ProviderContents) -> Value {
    let events = described.events.iter().map(|event| {
        let schema = &event.schema;
        let descriptor = schema.descriptor.as_ref();
        json!({
            "id": event.id,
            "version": event.version,
            "level": descriptor.map(|descriptor| descriptor.level.0),
            "opcode": event.opcode.or(descriptor.map(|descriptor| descriptor.opcode.0)),
            "task": descriptor.map(|descriptor| descriptor.task),
            "keyword": descriptor.map(|descriptor| format!("{:#018x}", descriptor.keyword.0)),
            "channel": descriptor.map(|descriptor| descriptor.channel.0),
            "name": schema.names.event,
            "level_name": schema.names.level,
            "opcode_name": schema.names.opcode,
            "task_name": schema.names.task,
            "keyword_names": schema.names.keywords,
            "channel_name": schema.names.channel,
            "message": schema.message.as_ref().map(|message| message.template()),
            "incomplete": schema.incomplete,
            "fields": fields(schema, 0, schema.top_level, &mut budget()),
        })
    });
    let mut provider = json!({
        "provider": described.provider,
        "guid": described.guid.to_string(),
        "source": described.source,
        "kind": described.kind.map(SourceKind::name),
        "events": events.collect::<Vec<_>>(),
        "maps": described.maps.iter().map(|known| map(known)).collect::<Vec<_>>(),
        "channels": described.channels.iter().map(|channel| {
            json!({"value": channel.value, "name": channel.name})
        }).collect::<Vec<_>>(),
        "keywords": described.keywords.iter().map(|keyword| {
            json!({"mask": format!("{:#018x}", keyword.mask), "name": keyword.name})
        }).collect::<Vec<_>>(),
    });
    if let Some(control) = described.control_guid {
        provider["control_guid"] = json!(control.to_string());
    }
    provider
}

/// Fields of one event that are shown: structs of a hostile pack may share members without end.
fn budget() -> usize {
    1 << 16
}

fn fields(schema: &Schema, first: usize, count: usize, budget: &mut usize) -> Vec<Value> {
    let range = schema.fields.get(first..first.saturating_add(count)).unwrap_or_default();
    let mut shown = Vec::new();
    for (number, field) in range.iter().enumerate() {
        if *budget == 0 {
            break;
        }
        *budget -= 1;
        shown.push(json_field(schema, first + number, field, budget));
    }
    shown
}

fn json_field(schema: &Schema, index: usize, field: &Field, budget: &mut usize) -> Value {
    let name_of = |source: usize| schema.fields.get(source).map(|field| field.name.as_str());
    let mut value = json!({
        "name": field.name,
        "in_type": null,
        "out_type": null,
        "length": match field.length {
            Length::Fixed(length) => json!(length),
            Length::Field(source) => json!(name_of(source)),
            _ => Value::Null,
        },
        "count": match field.count {
            Count::Fixed(count) => json!(count),
            Count::Field(source) => json!(name_of(source)),
            _ => Value::Null,
        },
        "map": field.map.as_ref().map(|map| &map.name),
    });
    match field.kind {
        // A struct's members stand behind it, so this ends.
        Kind::Struct { first, count } if first > index => {
            value["fields"] = json!(fields(schema, first, count, budget));
        }
        Kind::Struct { .. } => value["fields"] = json!([]),
        _ => {
            let (in_type, out_type) = field.types;
            let in_name = in_type.manifest_name().unwrap_or_else(|| format!("TDH {}", in_type.0));
            value["in_type"] = json!(in_name);
            value["out_type"] = json!(out_type.manifest_name());
        }
    }
    value
}

fn map(map: &Map) -> Value {
    let values =
        map.entries.iter().map(|(value, text)| json!({"value": value, "text": text.trim_end()}));
    json!({
        "name": map.name,
        "kind": if map.kind == MapKind::Bits { "bitMap" } else { "valueMap" },
        "values": values.collect::<Vec<_>>(),
    })
}
