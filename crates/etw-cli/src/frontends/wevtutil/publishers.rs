//! The actions of `wevtutil` on publishers: `ep`, `gp`.

use crate::output::Failure;
use etw_decode::manifest::NamedValueKind;
use etw_decode::pack::ProviderContents;
use etw_eventlog::registry::{self, Scope};
use etw_types::message_id;
use std::fmt::Write;

/// Parts of `gp` that are printed on request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// `/ge`
    pub has_events: bool,
    /// `/gm`: messages as text; otherwise their numbers.
    pub has_messages: bool,
}

fn all() -> Vec<ProviderContents> {
    let mut note = |note: String| eprintln!("etw: note: {note}");
    let scopes = Scope::user().into_iter().chain([Scope::machine()]);
    let providers = scopes.flat_map(|scope| registry::providers(&scope, &mut note));
    providers.collect()
}

fn name_of(provider: &ProviderContents) -> &str {
    provider.provider.as_deref().unwrap_or_default()
}

/// `ep`: the names of all publishers, one a line.
pub fn list() -> String {
    let mut names: Vec<String> =
        all().iter().map(|provider| format!("{}\n", name_of(provider))).collect();
    names.sort_by_key(|name| name.to_lowercase());
    names.dedup();
    names.concat()
}

/// `gp`: a publisher, as text.
pub fn show(name: &str, parts: Parts) -> Result<String, Failure> {
    let providers = all();
    let found = providers.iter().find(|provider| {
        name_of(provider).eq_ignore_ascii_case(name) || name.parse() == Ok(provider.guid)
    });
    let Some(provider) = found else {
        let what = format!("{name}: no such publisher is installed; wevtutil ep lists them");
        return Err(Failure::new(what));
    };
    let mut text = String::new();
    let mut line = |indent: usize, key: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = match value.is_empty() {
            true => writeln!(text, "{:indent$}{key}: ", ""),
            false => writeln!(text, "{:indent$}{key}: {}", "", crate::format::safe(value)),
        };
    };
    // Without a message there is no number either.
    let message = |text: &str, id: u32| match (parts.has_messages, text) {
        (_, "") => String::new(),
        (true, text) => text.to_owned(),
        // A guess: Windows documents that it shows numbers, not how.
        (false, _) => id.to_string(),
    };
    line(0, "name", name_of(provider));
    line(0, "guid", &provider.guid.to_string());
    line(0, "helpLink", &provider.texts.help_link);
    let files = [
        ("resourceFileName", &provider.texts.resource_file),
        ("messageFileName", &provider.texts.message_file),
    ];
    for (key, file) in files.into_iter().filter(|(_, file)| !file.is_empty()) {
        line(0, key, file);
    }
    line(0, "message", &message(&provider.texts.message, message_id::CHANNEL + 1));
    line(0, "channels", "");
    for channel in &provider.channels {
        line(2, "channel", "");
        line(4, "name", &channel.name);
        line(4, "id", &channel.value.to_string());
        line(4, "flags", if channel.config.is_imported { "1" } else { "0" });
        line(4, "message", &message(&channel.message, channel.message_id.unwrap_or(0)));
    }
    put_named_values(provider, &mut line, &message);
    if parts.has_events {
        line(0, "events", "");
        for event in &provider.events {
            let Some(descriptor) = event.schema.descriptor else { continue };
            line(2, "event", "");
            line(4, "value", &descriptor.id.to_string());
            line(4, "version", &descriptor.version.to_string());
            line(4, "opcode", &descriptor.opcode.0.to_string());
            line(4, "channel", &descriptor.channel.0.to_string());
            line(4, "level", &descriptor.level.0.to_string());
            line(4, "task", &descriptor.task.to_string());
            line(4, "keywords", &format!("{:#018x}", descriptor.keyword.0));
            let text = event.schema.message.as_ref().map_or("", |message| message.template());
            let id = u32::from(descriptor.version) << 16 | u32::from(descriptor.id);
            line(4, "message", &message(text, message_id::EVENT | id));
        }
    }
    Ok(text)
}

/// The lists of levels, opcodes, tasks and keywords.
fn put_named_values(
    provider: &ProviderContents,
    line: &mut impl FnMut(usize, &str, &str),
    message: &impl Fn(&str, u32) -> String,
) {
    let lists = [
        (NamedValueKind::Level, "levels", "level"),
        (NamedValueKind::Opcode, "opcodes", "opcode"),
        (NamedValueKind::Task, "tasks", "task"),
        (NamedValueKind::Keyword, "keywords", "keyword"),
    ];
    for (kind, list, item) in lists {
        line(0, list, "");
        for one in provider.named_values.iter().filter(|one| one.kind == kind) {
            line(2, item, "");
            line(4, "name", &one.name);
            match kind {
                NamedValueKind::Keyword => line(4, "mask", &format!("{:x}", one.value)),
                NamedValueKind::Opcode => {
                    line(4, "value", &(one.value << 16 | u64::from(one.task)).to_string());
                    line(6, "task", &one.task.to_string());
                    line(6, "opcode", &one.value.to_string());
                }
                NamedValueKind::Level | NamedValueKind::Task => {
                    line(4, "value", &one.value.to_string());
                }
            }
            if kind == NamedValueKind::Task {
                line(4, "eventGUID", &one.event_guid.to_string());
            }
            line(4, "message", &message(&one.message, one.message_id().unwrap_or(0)));
        }
    }
}
