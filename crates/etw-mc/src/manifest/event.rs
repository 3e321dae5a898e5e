//! Events, with their references resolved.

use std::collections::{HashMap, HashSet};

use etw_types::winmeta;
use roxmltree::Node;

use super::element::{attribute, children, flag, number_in, owned, qualified, symbol};
use super::source::Source;
use super::{
    Channel, Culture, Event, Keyword, Level, Message, Opcode, Place, Provider, Task, strings,
};
use crate::diagnostic::Diagnostics;

pub fn events(
    node: Node<'_, '_>,
    source: &Source<'_>,
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) {
    let mut keys = HashSet::new();
    let mut templates = HashMap::new();
    for (index, template) in provider.templates.iter().enumerate() {
        templates.entry(template.id.clone()).or_insert(index);
    }
    let mut symbols = HashSet::new();
    for node in children(node, "events").flat_map(|one| children(one, "event")) {
        let mut event = event(node, source, provider, diagnostics);
        if let Some(name) = attribute(node, "template") {
            event.template = templates.get(name).copied();
            if event.template.is_none() {
                diagnostics.error(node, format!("template `{name}` is not defined"));
            }
        }
        if !keys.insert((event.id, event.version)) {
            let message =
                format!("two events have value {} and version {}", event.id, event.version);
            diagnostics.error(node, message);
        }
        if let Some(symbol) = &event.symbol
            && !symbols.insert(symbol.clone())
        {
            diagnostics.error(node, format!("two events have symbol `{symbol}`"));
        }
        check_inserts(node, source.cultures, provider, &event, diagnostics);
        provider.events.push(event);
    }
}

/// Warns of a message that shows a field which the event does not have. Windows shows the insert itself then.
fn check_inserts(
    node: Node<'_, '_>,
    cultures: &[Culture],
    provider: &Provider,
    event: &Event,
    diagnostics: &mut Diagnostics,
) {
    let Some(Message::String(id)) = &event.message else { return };
    let count = event.template.map_or(0, |index| provider.templates[index].fields.len());
    let texts = cultures.iter().filter_map(|culture| Some((culture, culture.string(id)?)));
    for (culture, text) in texts {
        let highest = inserts(text).max().unwrap_or(0);
        if highest > count {
            let message = format!(
                "string `{id}` ({}) shows %{highest}; event {} has {count} fields",
                culture.name, event.id
            );
            return diagnostics.warn(node, message);
        }
    }
}

/// The numbers of the fields that a message shows: `%1`, `%2!x!`. `%%1` is a string of the parameter file.
fn inserts(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(found) = bytes.get(at..)?.iter().position(|byte| *byte == b'%') {
            at += found + 1;
            if bytes.get(at) == Some(&b'%') {
                at += 1;
                continue;
            }
            let digits = bytes[at..].iter().take(2).take_while(|byte| byte.is_ascii_digit());
            let number = digits.fold(0, |sum, digit| 10 * sum + usize::from(digit - b'0'));
            if number > 0 {
                return Some(number);
            }
        }
        None
    })
}

fn event(
    node: Node<'_, '_>,
    source: &Source<'_>,
    provider: &mut Provider,
    diagnostics: &mut Diagnostics,
) -> Event {
    let mut event = Event {
        id: number_in(node, "value", 0..=0xffff, diagnostics) as u16,
        version: match attribute(node, "version") {
            Some(_) => number_in(node, "version", 0..=255, diagnostics) as u8,
            None => 0,
        },
        symbol: symbol(node, diagnostics),
        name: owned(node, "name"),
        message: strings::message(node, source, diagnostics),
        is_logged: !flag(node, "notLogged", diagnostics),
        attributes: attribute(node, "attributes").map(split_attributes).unwrap_or_default(),
        place: source.places.of(node),
        ..Event::default()
    };
    let unknown = |what: &str, name: &str, diagnostics: &mut Diagnostics| {
        diagnostics.error(node, format!("{what} `{name}` is not defined"));
    };
    if let Some(name) = attribute(node, "level") {
        event.level = level(provider, &qualified(node, name, diagnostics));
        if event.level.is_none() {
            unknown("level", name, diagnostics);
        }
    }
    if let Some(name) = attribute(node, "task") {
        event.task = task(provider, &qualified(node, name, diagnostics));
        if event.task.is_none() {
            unknown("task", name, diagnostics);
        }
    }
    if let Some(name) = attribute(node, "opcode") {
        let task = event.task.map_or(0, |index| provider.tasks[index].value);
        event.opcode = opcode(provider, &qualified(node, name, diagnostics), task);
        if event.opcode.is_none() {
            unknown("opcode", name, diagnostics);
        }
    }
    if let Some(name) = attribute(node, "channel") {
        event.channel = channel(provider, name);
        if event.channel.is_none() {
            unknown("channel", name, diagnostics);
        }
    }
    for name in attribute(node, "keywords").unwrap_or_default().split_ascii_whitespace() {
        match keyword(provider, &qualified(node, name, diagnostics)) {
            Some(index) => event.keywords.push(index),
            None => unknown("keyword", name, diagnostics),
        }
    }
    event.keywords.sort_by_key(|index| provider.keywords[*index].mask);
    event.keywords.dedup();
    check_admin(node, provider, &event, diagnostics);
    event
}

/// Events of Admin channels are read by administrators: they need a level and a message.
fn check_admin(
    node: Node<'_, '_>,
    provider: &Provider,
    event: &Event,
    diagnostics: &mut Diagnostics,
) {
    let Some(channel) = event.channel.map(|index| &provider.channels[index]) else { return };
    let declared = node.ancestors().find(|one| one.tag_name().name() == "provider");
    let is_admin = declared.is_some_and(|declared| {
        children(declared, "channels").flat_map(|one| children(one, "channel")).any(|one| {
            attribute(one, "chid").or(attribute(one, "name")) == Some(&channel.id)
                && attribute(one, "type") == Some("Admin")
        })
    });
    if !is_admin {
        return;
    }
    let level = event.level.map(|index| provider.levels[index].value);
    if !matches!(level, Some(1..=4)) {
        let message =
            "an event of an Admin channel needs level Critical, Error, Warning or Informational";
        diagnostics.error(node, message);
    }
    if event.message.is_none() {
        diagnostics.error(node, "an event of an Admin channel needs a message");
    }
}

/// `a=1;b="x;""y"""` into its pairs: a semicolon in quotes divides nothing.
fn split_attributes(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for c in text.chars() {
        is_quoted ^= c == '"';
        match parts.last_mut() {
            Some(part) if c != ';' || is_quoted => part.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn text(text: &str) -> Option<Message> {
    Some(Message::Text(text.to_owned()))
}

/// The index of a level. A predefined one is added at its first use.
fn level(provider: &mut Provider, name: &str) -> Option<usize> {
    let found = provider.levels.iter().position(|level| level.name == name);
    found.or_else(|| {
        let row = winmeta::find(&winmeta::LEVELS, name)?;
        let (name, message) = (row.name.to_owned(), text(row.text));
        provider.levels.push(Level { name, symbol: None, value: row.value.0, message });
        Some(provider.levels.len() - 1)
    })
}

fn task(provider: &mut Provider, name: &str) -> Option<usize> {
    let found = provider.tasks.iter().position(|task| task.name == name);
    found.or_else(|| {
        let row = winmeta::find(&winmeta::TASKS, name)?;
        let (name, message) = (row.name.to_owned(), text(row.text));
        provider.tasks.push(Task { name, symbol: None, value: row.value, guid: None, message });
        Some(provider.tasks.len() - 1)
    })
}

/// An opcode of the event's task comes before one of all tasks.
fn opcode(provider: &mut Provider, name: &str, task: u16) -> Option<usize> {
    let of = |task: u16| move |one: &Opcode| one.name == name && one.task == task;
    let found = provider.opcodes.iter().position(of(task));
    found.or_else(|| provider.opcodes.iter().position(of(0))).or_else(|| {
        let row = winmeta::find(&winmeta::OPCODES, name)?;
        let (name, message) = (row.name.to_owned(), text(row.text));
        provider.opcodes.push(Opcode { name, symbol: None, value: row.value.0, task: 0, message });
        Some(provider.opcodes.len() - 1)
    })
}

fn keyword(provider: &mut Provider, name: &str) -> Option<usize> {
    let found = provider.keywords.iter().position(|keyword| keyword.name == name);
    found.or_else(|| {
        let row = winmeta::find(&winmeta::KEYWORDS, name)?;
        let (name, message) = (row.name.to_owned(), text(row.text));
        provider.keywords.push(Keyword { name, symbol: None, mask: row.value, message });
        Some(provider.keywords.len() - 1)
    })
}

/// The first channel of that id or name. One of Windows' own may be used without being declared; it then gets no keyword bit.
fn channel(provider: &mut Provider, name: &str) -> Option<usize> {
    let found = provider.channels.iter().position(|one| one.id == name || one.name == name);
    found.or_else(|| {
        let row = winmeta::find(&winmeta::CHANNELS, name)?;
        provider.channels.push(Channel {
            name: row.name.to_owned(),
            id: row.name.to_owned(),
            symbol: None,
            value: row.value.0,
            is_imported: true,
            message: text(row.text),
            access: None,
            place: Place::default(),
            keyword_bit: None,
        });
        Some(provider.channels.len() - 1)
    })
}
