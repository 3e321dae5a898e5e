//! Levels, opcodes, tasks and keywords of a manifest with their own names and messages.

use super::xml::{Tree, number};
use crate::provider::{NamedValue, NamedValueKind};
use etw_types::{Guid, winmeta};

/// Those that a provider declares, and the predefined ones that its events use, by kind and value. `message_of`: an element's message.
pub(super) fn of_provider(
    tree: &Tree<'_>,
    provider: usize,
    message_of: &dyn Fn(usize) -> String,
) -> Vec<NamedValue> {
    use NamedValueKind::{Keyword, Level, Opcode, Task};
    let declared = |kind, element, task| {
        let message = message_of(element).trim().to_owned();
        declared(tree, kind, element).map(|value| NamedValue { task, message, ..value })
    };
    let mut all = Vec::new();
    let lists = [
        (Level, "levels", "level"),
        (Opcode, "opcodes", "opcode"),
        (Task, "tasks", "task"),
        (Keyword, "keywords", "keyword"),
    ];
    for (kind, list, item) in lists {
        for element in tree.grandchildren(provider, list, item) {
            let own_value = declared(kind, element, 0);
            if let Some(task) = own_value.as_ref().filter(|_| kind == Task) {
                let task = u16::try_from(task.value).unwrap_or(0);
                let own = tree.grandchildren(element, "opcodes", "opcode");
                all.extend(own.filter_map(|one| declared(Opcode, one, task)));
            }
            all.extend(own_value);
        }
    }
    for event in tree.grandchildren(provider, "events", "event") {
        for (kind, key) in
            [(Level, "level"), (Opcode, "opcode"), (Task, "task"), (Keyword, "keywords")]
        {
            let names = tree.get(event, key).unwrap_or_default().split_ascii_whitespace();
            all.extend(names.take(64).filter_map(|name| predefined(kind, name)));
        }
    }
    all.sort();
    all.dedup();
    all
}

/// A declared value without its message.
fn declared(tree: &Tree<'_>, kind: NamedValueKind, element: usize) -> Option<NamedValue> {
    let value = if kind == NamedValueKind::Keyword { "mask" } else { "value" };
    let event_guid = tree.get(element, "eventGUID").and_then(|guid| guid.parse().ok());
    Some(NamedValue {
        kind,
        value: tree.get(element, value).and_then(number)?,
        task: 0,
        name: tree.get(element, "name")?.to_owned(),
        message: String::new(),
        event_guid: event_guid.unwrap_or(Guid::ZERO),
    })
}

fn predefined(kind: NamedValueKind, name: &str) -> Option<NamedValue> {
    let (value, text) = match kind {
        NamedValueKind::Level => {
            let row = winmeta::find(&winmeta::LEVELS, name)?;
            (u64::from(row.value.0), row.text)
        }
        NamedValueKind::Opcode => {
            let row = winmeta::find(&winmeta::OPCODES, name)?;
            (u64::from(row.value.0), row.text)
        }
        NamedValueKind::Task => {
            let row = winmeta::find(&winmeta::TASKS, name)?;
            (u64::from(row.value), row.text)
        }
        NamedValueKind::Keyword => {
            let row = winmeta::find(&winmeta::KEYWORDS, name)?;
            (row.value.0, row.text)
        }
    };
    let (name, message) = (name.to_owned(), text.to_owned());
    Some(NamedValue { kind, value, task: 0, name, message, event_guid: Guid::ZERO })
}
