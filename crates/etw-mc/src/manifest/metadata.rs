//! Channels, levels, tasks, opcodes, keywords, maps and filters.

use std::collections::HashSet;

use etw_types::winmeta;
use roxmltree::Node;

use super::element::{attribute, children, guid, list, number, number_in, owned, required};
use super::{
    Channel, Culture, Filter, Keyword, Level, Map, MapItem, Message, Opcode, PatternItem,
    PatternMap, Provider, Task, strings,
};
use crate::diagnostic::Diagnostics;

/// Channels that one provider may have.
const MAX_CHANNELS: usize = 8;

pub fn read(
    node: Node<'_, '_>,
    cultures: &[Culture],
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    channels(node, cultures, provider, diagnostics);
    for level in list(node, "levels", "level") {
        provider.levels.push(Level {
            name: required(level, "name", diagnostics).to_owned(),
            symbol: owned(level, "symbol"),
            value: number_in(level, "value", 16..=255, diagnostics) as u8,
            message: strings::message(level, cultures, diagnostics),
        });
    }
    tasks(node, cultures, provider, diagnostics);
    for keyword in list(node, "keywords", "keyword") {
        let mask = number_in(keyword, "mask", 1..=u64::MAX, diagnostics);
        if mask.count_ones() != 1 || mask >= 1 << 48 {
            diagnostics.error(keyword, "`mask` is not one bit of the lower 48");
        }
        provider.keywords.push(Keyword {
            name: required(keyword, "name", diagnostics).to_owned(),
            symbol: owned(keyword, "symbol"),
            mask: etw_types::Keyword(mask),
            message: strings::message(keyword, cultures, diagnostics),
        });
    }
    maps(node, cultures, provider, diagnostics);
    pattern_maps(node, provider, diagnostics);
    let mut levels = HashSet::new();
    for level in list(node, "levels", "level") {
        unique(level, attribute(level, "name"), &mut levels, diagnostics);
    }
    let mut keywords = HashSet::new();
    for keyword in list(node, "keywords", "keyword") {
        unique(keyword, attribute(keyword, "name"), &mut keywords, diagnostics);
    }
}

fn unique<'a>(
    node: Node<'a, '_>,
    name: Option<&'a str>,
    known: &mut HashSet<&'a str>,
    diagnostics: &mut Diagnostics,
) {
    if let Some(name) = name.filter(|name| !known.insert(name)) {
        let element = node.tag_name().name();
        diagnostics.error(node, format!("{element} `{name}` is defined twice"));
    }
}

fn channels(
    node: Node<'_, '_>,
    cultures: &[Culture],
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut known = HashSet::new();
    let all = || children(node, "channels").flat_map(|one| one.children());
    let given = all().filter_map(|one| number(attribute(one, "value")?));
    // Channels without a value get those from 16 up that no other channel is given.
    let given: HashSet<u64> = given.collect();
    let mut free = (16..=255u8).filter(|value| !given.contains(&u64::from(*value)));
    for channel in all().filter(Node::is_element) {
        let is_imported = match channel.tag_name().name() {
            "channel" => false,
            "importChannel" => true,
            other => {
                diagnostics.error(channel, format!("`{other}` does not belong in `channels`"));
                continue;
            }
        };
        if provider.channels.len() == MAX_CHANNELS {
            diagnostics.error(channel, "a provider has at most 8 channels");
            break;
        }
        let name = required(channel, "name", diagnostics);
        let id = attribute(channel, "chid").unwrap_or(name);
        unique(channel, Some(id), &mut known, diagnostics);
        let predefined = winmeta::find(&winmeta::CHANNELS, name);
        let message = strings::message(channel, cultures, diagnostics);
        let (value, message) = match predefined.filter(|_| is_imported) {
            Some(row) => {
                (row.value.0, message.or_else(|| Some(Message::Text(row.text.to_owned()))))
            }
            None => {
                let value = match attribute(channel, "value") {
                    Some(_) => number_in(channel, "value", 16..=255, diagnostics) as u8,
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
        let keyword_bit = Some(63 - provider.channels.len() as u8);
        provider.channels.push(Channel {
            name: name.to_owned(),
            id: id.to_owned(),
            symbol: owned(channel, "symbol"),
            value,
            is_imported,
            message,
            keyword_bit,
        });
    }
}

fn tasks(
    node: Node<'_, '_>,
    cultures: &[Culture],
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut names = HashSet::new();
    let mut values = HashSet::new();
    for task in list(node, "tasks", "task") {
        let value = number_in(task, "value", 1..=0xffff, diagnostics) as u16;
        unique(task, attribute(task, "name"), &mut names, diagnostics);
        if !values.insert(value) {
            diagnostics.error(task, format!("two tasks have value {value}"));
        }
        provider.tasks.push(Task {
            name: required(task, "name", diagnostics).to_owned(),
            symbol: owned(task, "symbol"),
            value,
            guid: attribute(task, "eventGUID").and_then(|_| guid(task, "eventGUID", diagnostics)),
            message: strings::message(task, cultures, diagnostics),
        });
        opcodes(task, value, cultures, provider, diagnostics);
    }
    opcodes(node, 0, cultures, provider, diagnostics);
}

fn opcodes(
    node: Node<'_, '_>,
    task: u16,
    cultures: &[Culture],
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut names = HashSet::new();
    for opcode in list(node, "opcodes", "opcode") {
        unique(opcode, attribute(opcode, "name"), &mut names, diagnostics);
        provider.opcodes.push(Opcode {
            name: required(opcode, "name", diagnostics).to_owned(),
            symbol: owned(opcode, "symbol"),
            value: number_in(opcode, "value", 10..=239, diagnostics) as u8,
            task,
            message: strings::message(opcode, cultures, diagnostics),
        });
    }
}

fn maps(
    node: Node<'_, '_>,
    cultures: &[Culture],
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut names = HashSet::new();
    let all = children(node, "maps").flat_map(|one| one.children());
    for map in all.filter(Node::is_element) {
        let is_bitmap = match map.tag_name().name() {
            "valueMap" => false,
            "bitMap" => true,
            other => {
                diagnostics.error(map, format!("`{other}` is not supported in `maps`"));
                continue;
            }
        };
        unique(map, attribute(map, "name"), &mut names, diagnostics);
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
            items.push(MapItem {
                value,
                symbol: owned(item, "symbol"),
                message: strings::message(item, cultures, diagnostics),
            });
        }
        if items.is_empty() {
            diagnostics.error(map, "the map has no values");
        }
        provider.maps.push(Map {
            name: required(map, "name", diagnostics).to_owned(),
            symbol: owned(map, "symbol"),
            is_bitmap,
            items,
        });
    }
}

/// The pattern maps of `namedQueries`.
fn pattern_maps(node: Node<'_, '_>, provider: &mut Provider, diagnostics: &mut Diagnostics) {
    let mut names = HashSet::new();
    let queries = children(node, "namedQueries").flat_map(|one| children(one, "patternMaps"));
    for map in queries.flat_map(|one| children(one, "patternMap")) {
        unique(map, attribute(map, "name"), &mut names, diagnostics);
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
    cultures: &[Culture],
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    for filter in list(node, "filters", "filter") {
        let template = attribute(filter, "tid").and_then(|id| {
            let found = provider.templates.iter().position(|template| template.id == id);
            if found.is_none() {
                diagnostics.error(filter, format!("template `{id}` is not defined"));
            }
            found
        });
        provider.filters.push(Filter {
            name: required(filter, "name", diagnostics).to_owned(),
            symbol: owned(filter, "symbol"),
            value: number_in(filter, "value", 0..=255, diagnostics) as u8,
            version: match attribute(filter, "version") {
                Some(_) => number_in(filter, "version", 0..=255, diagnostics) as u8,
                None => 0,
            },
            message: strings::message(filter, cultures, diagnostics),
            template,
        });
    }
}
