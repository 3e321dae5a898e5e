//! The actions of `wevtutil` on publishers: `ep`, `gp`.

use crate::output::Failure;
use etw_decode::pack::ProviderContents;
use etw_eventlog::registry::{self, Scope};
use std::fmt::Write;

/// Parts of `gp` that are printed on request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// `/ge`
    pub has_events: bool,
    /// `/gm`: messages as text; otherwise they are left out.
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
    line(0, "name", name_of(provider));
    line(0, "guid", &provider.guid.to_string());
    for key in ["helpLink", "resourceFileName", "messageFileName", "message", "channels"] {
        line(0, key, "");
    }
    for channel in &provider.channels {
        line(2, "channel", "");
        line(4, "name", &channel.name);
        line(4, "id", &channel.value.to_string());
        line(4, "flags", if channel.config.is_imported { "1" } else { "0" });
        line(4, "message", "");
    }
    line(0, "keywords", "");
    for keyword in &provider.keywords {
        line(2, "keyword", "");
        line(4, "name", &keyword.name);
        line(4, "mask", &format!("{:x}", keyword.mask));
        line(4, "message", "");
    }
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
            let message = event.schema.message.as_ref().map(|message| message.template());
            line(4, "message", message.filter(|_| parts.has_messages).unwrap_or_default());
        }
    }
    Ok(text)
}
