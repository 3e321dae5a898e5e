//! Channels, levels, tasks, opcodes, keywords, maps and filters.

use std::collections::HashSet;

use etw_types::{Guid, winmeta};
use roxmltree::Node;

use super::element::{
    attribute, children, elements, flag, guid, list, number, number_in, required, symbol,
};
use super::source::Source;
use super::unique::Unique;
use super::{
    Channel, Extent, Field, Filter, Keyword, Level, Map, MapItem, Message, Opcode, PatternItem,
    PatternMap, Provider, Task, Template, strings,
};
use crate::diagnostic::Diagnostics;

/// Channels that one provider may have.
const MAX_CHANNELS: usize = 8;

pub fn read(
    node: Node<'_, '_>,
    source: &Source<'_>,
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    channels(node, source, provider, diagnostics);
    let mut levels = Unique::default();
    for level in list(node, "levels", "level") {
        levels.check(level, diagnostics);
        let value = number_in(level, "value", 16..=255, diagnostics);
        levels.check_value(level, "value", value, diagnostics);
        provider.levels.push(Level {
            name: required(level, "name", diagnostics).to_owned(),
            symbol: symbol(level, diagnostics),
            value: value as u8,
            message: strings::message(level, source, diagnostics),
        });
    }
    tasks(node, source, provider, diagnostics);
    let mut keywords = Unique::default();
    for keyword in list(node, "keywords", "keyword") {
        let mask = number_in(keyword, "mask", 1..=u64::MAX, diagnostics);
        if mask.count_ones() != 1 || mask >= 1 << 48 {
            diagnostics.error(keyword, "`mask` is not one bit of the lower 48");
        }
        keywords.check(keyword, diagnostics);
        keywords.check_value(keyword, "mask", mask, diagnostics);
        provider.keywords.push(Keyword {
            name: required(keyword, "name", diagnostics).to_owned(),
            symbol: symbol(keyword, diagnostics),
            mask: etw_types::Keyword(mask),
            message: strings::message(keyword, source, diagnostics),
        });
    }
    maps(node, source, provider, diagnostics);
    pattern_maps(node, provider, diagnostics);
}

fn channels(
    node: Node<'_, '_>,
    source: &Source<'_>,
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut known = Unique::default();
    let mut ids = HashSet::new();
    let all = || children(node, "channels").flat_map(elements);
    let given = all().filter_map(|one| number(attribute(one, "value")?));
    // Channels without a value get those from 16 up that no other channel is given.
    let given: HashSet<u64> = given.collect();
    let mut free = (16..=255u8).filter(|value| !given.contains(&u64::from(*value)));
    for channel in all() {
        let is_imported = match channel.tag_name().name() {
            "channel" => false,
            "importChannel" => true,
            _ => continue,
        };
        if provider.channels.len() == MAX_CHANNELS {
            diagnostics.error(channel, "a provider has at most 8 channels");
            break;
        }
        let name = required(channel, "name", diagnostics);
        let id = attribute(channel, "chid").unwrap_or(name);
        known.check(channel, diagnostics);
        check_channel_name(channel, name, diagnostics);
        if id.is_empty() {
            diagnostics.error(channel, "`chid` is empty");
        }
        if attribute(channel, "chid").is_some() && !ids.insert(id) {
            diagnostics.error(channel, format!("two channels have chid `{id}`"));
        }
        let predefined = winmeta::find(&winmeta::CHANNELS, name);
        let message = strings::message(channel, source, diagnostics);
        let (value, message) = match predefined.filter(|_| is_imported) {
            Some(row) => {
                (row.value.0, message.or_else(|| Some(Message::Text(row.text.to_owned()))))
            }
            None => {
                let value = match attribute(channel, "value") {
                    Some(_) => {
                        let value = number_in(channel, "value", 16..=255, diagnostics);
                        known.check_value(channel, "value", value, diagnostics);
                        value as u8
                    }
                    None => free.next().unwrap_or(u8::MAX),
                };
                (value, message)
            }
        };
        if !is_imported {
            let kind = required(channel, "type", diagnostics);
            if !matches!(kind, "Admin" | "Operational" | "Analytic" | "Debug" | "") {
                let message =
                    format!("`type` is `{kind}`: expected Admin, Operational, Analytic or Debug");
                diagnostics.error(channel, message);
            }
        }
        check_channel_settings(channel, diagnostics);
        let keyword_bit = Some(63 - provider.channels.len() as u8);
        provider.channels.push(Channel {
            name: name.to_owned(),
            id: id.to_owned(),
            symbol: symbol(channel, diagnostics),
            value,
            is_imported,
            message,
            access: attribute(channel, "access").map(str::to_owned),
            place: source.places.of(channel),
            keyword_bit,
        });
    }
}

/// Event logs use a channel's name as the name of a file.
fn check_channel_name(channel: Node<'_, '_>, name: &str, diagnostics: &mut Diagnostics) {
    if name.encode_utf16().count() > 255 {
        diagnostics.error(channel, "a channel's name has at most 255 characters");
    }
    if let Some(c) = name.chars().find(|c| *c < ' ' || "><&\"|\\:'?*".contains(*c)) {
        diagnostics.error(channel, format!("`{c}` is not allowed in a channel's name"));
    }
}

fn check_channel_settings(channel: Node<'_, '_>, diagnostics: &mut Diagnostics) {
    flag(channel, "enabled", diagnostics);
    if let Some(isolation) = attribute(channel, "isolation")
        && !matches!(isolation, "Application" | "System" | "Custom")
    {
        let message =
            format!("`isolation` is `{isolation}`: expected Application, System or Custom");
        diagnostics.error(channel, message);
    }
}

fn tasks(
    node: Node<'_, '_>,
    source: &Source<'_>,
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut known = Unique::default();
    let mut guids = HashSet::new();
    for task in list(node, "tasks", "task") {
        let value = number_in(task, "value", 1..=0xffff, diagnostics) as u16;
        known.check(task, diagnostics);
        known.check_value(task, "value", u64::from(value), diagnostics);
        let guid = attribute(task, "eventGUID").and_then(|_| guid(task, "eventGUID", diagnostics));
        // Zeros stand for no GUID: several tasks may have them, and headers name none of them.
        let guid = guid.filter(|guid| *guid != Guid::ZERO);
        if let Some(guid) = guid.filter(|guid| !guids.insert(*guid)) {
            diagnostics.error(task, format!("two tasks have eventGUID {guid}"));
        }
        provider.tasks.push(Task {
            name: required(task, "name", diagnostics).to_owned(),
            symbol: symbol(task, diagnostics),
            value,
            guid,
            message: strings::message(task, source, diagnostics),
        });
        opcodes(task, value, source, provider, diagnostics);
    }
    opcodes(node, 0, source, provider, diagnostics);
}

fn opcodes(
    node: Node<'_, '_>,
    task: u16,
    source: &Source<'_>,
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut known = Unique::default();
    for opcode in list(node, "opcodes", "opcode") {
        known.check(opcode, diagnostics);
        let value = number_in(opcode, "value", 10..=239, diagnostics);
        known.check_value(opcode, "value", value, diagnostics);
        provider.opcodes.push(Opcode {
            name: required(opcode, "name", diagnostics).to_owned(),
            symbol: symbol(opcode, diagnostics),
            value: value as u8,
            task,
            message: strings::message(opcode, source, diagnostics),
        });
    }
}

fn maps(
    node: Node<'_, '_>,
    source: &Source<'_>,
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut known = Unique::default();
    for map in children(node, "maps").flat_map(elements) {
        let is_bitmap = match map.tag_name().name() {
            "valueMap" => false,
            "bitMap" => true,
            _ => continue,
        };
        known.check(map, diagnostics);
        let mut known_items = Unique::default();
        let mut items = Vec::new();
        let mut values = HashSet::new();
        for item in children(map, "map") {
            let text = required(item, "value", diagnostics);
            // Values are 32 bits, signed or not.
            let value = match number(text) {
                Some(value) => u32::try_from(value).ok(),
                None => text.parse::<i32>().ok().map(|value| value as u32),
            };
            let Some(value) = value else {
                diagnostics.error(item, format!("`value` is `{text}`: expected 32 bits"));
                continue;
            };
            // Zero names the state without any bit.
            if is_bitmap && value.count_ones() > 1 {
                diagnostics
                    .error(item, format!("`value` of a bit map is `{text}`: expected one bit"));
            }
            if !values.insert(value) {
                diagnostics.error(item, format!("the map has value {text} twice"));
            }
            known_items.check_symbol(item, diagnostics);
            required(item, "message", diagnostics);
            items.push(MapItem {
                value,
                symbol: symbol(item, diagnostics),
                message: strings::message(item, source, diagnostics),
            });
        }
        if items.is_empty() {
            diagnostics.error(map, "the map has no values");
        }
        provider.maps.push(Map {
            name: required(map, "name", diagnostics).to_owned(),
            symbol: symbol(map, diagnostics),
            is_bitmap,
            items,
        });
    }
}

/// The pattern maps of `namedQueries`.
fn pattern_maps(node: Node<'_, '_>, provider: &mut Provider, diagnostics: &mut Diagnostics) {
    let mut known = Unique::default();
    let queries = children(node, "namedQueries").flat_map(|one| children(one, "patternMaps"));
    for map in queries.flat_map(|one| children(one, "patternMap")) {
        known.check(map, diagnostics);
        let items = children(map, "map").map(|item| PatternItem {
            name: required(item, "name", diagnostics).to_owned(),
            value: required(item, "value", diagnostics).to_owned(),
        });
        let items = items.collect();
        provider.pattern_maps.push(PatternMap {
            name: required(map, "name", diagnostics).to_owned(),
            format: required(map, "format", diagnostics).to_owned(),
            items,
        });
    }
}

/// Filters refer to templates, which are read before them.
pub fn filters(
    node: Node<'_, '_>,
    source: &Source<'_>,
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut known = Unique::default();
    let mut keys = HashSet::new();
    for filter in list(node, "filters", "filter") {
        known.check(filter, diagnostics);
        let template = attribute(filter, "tid").and_then(|id| {
            let found = provider.templates.iter().position(|template| template.id == id);
            if found.is_none() {
                diagnostics.error(filter, format!("template `{id}` is not defined"));
            }
            found
        });
        if let Some(index) = template {
            check_filter_template(filter, &provider.templates[index], diagnostics);
        }
        let value = number_in(filter, "value", 0..=255, diagnostics) as u8;
        let version = match attribute(filter, "version") {
            Some(_) => number_in(filter, "version", 0..=255, diagnostics) as u8,
            None => 0,
        };
        if !keys.insert((value, version)) {
            let message = format!("two filters have value {value} and version {version}");
            diagnostics.error(filter, message);
        }
        provider.filters.push(Filter {
            name: required(filter, "name", diagnostics).to_owned(),
            symbol: symbol(filter, diagnostics),
            value,
            version,
            message: strings::message(filter, source, diagnostics),
            template,
        });
    }
}

/// The data of a filter are plain values.
fn check_filter_template(filter: Node<'_, '_>, template: &Template, diagnostics: &mut Diagnostics) {
    let is_plain = |field: &Field| {
        field.members.is_empty() && field.count == Extent::None && field.map.is_none()
    };
    if template.user_data.is_some() || !template.fields.iter().all(is_plain) {
        let message = format!(
            "template `{}` of a filter may have no struct, array, map or UserData",
            template.id
        );
        diagnostics.error(filter, message);
    }
}
