//! Reviews of manifests beyond mc's rules: [`compare`] with an earlier version, as `mc -t` does, and [`lint`], what mc lets pass
//! and users regret.

use std::collections::BTreeMap;

use crate::manifest::{Event, Field, Map, MapItem, Opcode, Place, Provider};
use crate::{Diagnostic, Manifest, Severity};

/// Differences from an earlier version of the manifest that break programs, sessions or decoders that know the earlier one.
pub fn compare(earlier: &Manifest, manifest: &Manifest) -> Vec<Diagnostic> {
    let mut review = Review::default();
    for old in &earlier.providers {
        match manifest.providers.iter().find(|new| new.guid == old.guid) {
            Some(new) => review.provider(old, new),
            None => {
                let message = format!("provider `{}` {} is missing", old.name, old.guid);
                review.add(Severity::Error, Place::default(), message);
            }
        }
    }
    review.list
}

/// Warnings about events that sessions cannot choose well, and names that change by accident.
pub fn lint(manifest: &Manifest) -> Vec<Diagnostic> {
    let mut review = Review::default();
    for provider in &manifest.providers {
        for keyword in provider.keywords.iter().filter(|one| !one.name.starts_with("win:")) {
            if keyword.mask.0 >> 48 != 0 {
                let message = format!(
                    "keyword `{}` has a bit above 47; those belong to channels and to Microsoft",
                    keyword.name
                );
                review.add(Severity::Warning, provider.place, message);
            }
        }
        let mut versions: BTreeMap<u16, Vec<&Event>> = BTreeMap::new();
        for event in provider.events.iter().filter(|event| event.is_logged) {
            versions.entry(event.id).or_default().push(event);
            review.event(provider, event);
        }
        for mut events in versions.into_values() {
            events.sort_by_key(|event| event.version);
            for pair in events.windows(2) {
                let (before, after) = (fields(provider, pair[0]), fields(provider, pair[1]));
                let is_extended = before.len() <= after.len()
                    && before.iter().zip(after).all(|(a, b)| is_same(provider, a, provider, b));
                if !is_extended {
                    let message = format!(
                        "version {} of event {} does not begin with the fields of version {}; add new fields at the end",
                        pair[1].version, pair[1].id, pair[0].version
                    );
                    review.add(Severity::Warning, pair[1].place, message);
                }
            }
        }
    }
    review.list
}

#[derive(Default)]
struct Review {
    list: Vec<Diagnostic>,
}

impl Review {
    fn add(&mut self, severity: Severity, place: Place, message: String) {
        let Place { line, column } = place;
        let (line, column) = (line.max(1), column.max(1));
        self.list.push(Diagnostic { severity, line, column, message });
    }

    fn event(&mut self, provider: &Provider, event: &Event) {
        let id = event.id;
        if event.keywords.is_empty() {
            let message =
                format!("event {id} has no keyword: every session gets it, and none can choose it");
            self.add(Severity::Warning, event.place, message);
        }
        if provider.numbers_of(event).level.0 == 0 {
            let message = format!("event {id} has no level: sessions of every level get it");
            self.add(Severity::Warning, event.place, message);
        }
        if event.symbol.is_none() {
            let message = format!(
                "event {id} has no symbol: the names of its macros change with its level, task or keywords"
            );
            self.add(Severity::Warning, event.place, message);
        }
    }

    fn provider(&mut self, old: &Provider, new: &Provider) {
        for (what, old, other) in
            [("name", &old.name, &new.name), ("symbol", &old.symbol, &new.symbol)]
        {
            if old != other {
                let message = format!("the provider's {what} was `{old}` and is now `{other}`");
                self.add(Severity::Error, new.place, message);
            }
        }
        let mut changed = |what: &str, name: &str, before: u64, after: Option<u64>| {
            let message = match after {
                Some(after) if after == before => return,
                Some(after) => format!("{what} `{name}` was {before:#x} and is now {after:#x}"),
                None => format!("{what} `{name}` ({before:#x}) is missing"),
            };
            self.add(Severity::Error, new.place, message);
        };
        for one in &old.keywords {
            let now = new.keywords.iter().find(|other| other.name == one.name);
            if !one.name.starts_with("win:") {
                changed("keyword", &one.name, one.mask.0, now.map(|now| now.mask.0));
            }
        }
        for one in &old.channels {
            let now = new.channels.iter().find(|other| other.name == one.name);
            changed("channel", &one.name, one.value.into(), now.map(|now| now.value.into()));
        }
        for one in &old.tasks {
            let now = new.tasks.iter().find(|other| other.name == one.name);
            if !one.name.starts_with("win:") {
                changed("task", &one.name, one.value.into(), now.map(|now| now.value.into()));
            }
        }
        for one in &old.levels {
            let now = new.levels.iter().find(|other| other.name == one.name);
            if !one.name.starts_with("win:") {
                changed("level", &one.name, one.value.into(), now.map(|now| now.value.into()));
            }
        }
        for one in &old.opcodes {
            let is_it = |other: &&Opcode| (&other.name, other.task) == (&one.name, one.task);
            let now = new.opcodes.iter().find(is_it);
            if !one.name.starts_with("win:") {
                changed("opcode", &one.name, one.value.into(), now.map(|now| now.value.into()));
            }
        }
        for map in &old.maps {
            // A map that is gone is a changed field of the events that have it.
            let Some(now) = new.maps.iter().find(|other| other.name == map.name) else { continue };
            for item in &map.items {
                if !now.items.iter().any(|other| is_same_item(item, other)) {
                    let message = format!(
                        "value {:#x} of map `{}` is missing, or has another symbol",
                        item.value, map.name
                    );
                    self.add(Severity::Error, new.place, message);
                }
            }
        }
        for event in &old.events {
            let (id, version) = (event.id, event.version);
            let now = new.events.iter().find(|now| (now.id, now.version) == (id, version));
            match now {
                Some(now) => self.same_event(old, event, new, now),
                None => {
                    let message = format!(
                        "event {id} version {version} is missing; keep it, for traces and programs that have it"
                    );
                    self.add(Severity::Error, new.place, message);
                }
            }
        }
    }

    fn same_event(&mut self, old: &Provider, before: &Event, new: &Provider, after: &Event) {
        let (id, version) = (after.id, after.version);
        let (a, b) = (fields(old, before), fields(new, after));
        let is_same_layout =
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(old, a, new, b));
        if !is_same_layout {
            let message = format!(
                "the fields of event {id} version {version} changed; keep them and add version {}",
                version.saturating_add(1)
            );
            self.add(Severity::Error, after.place, message);
        }
        if old.numbers_of(before) != new.numbers_of(after)
            || old.keyword_of(before) != new.keyword_of(after)
        {
            let message = format!(
                "level, task, opcode, channel or keywords of event {id} version {version} changed; add a version"
            );
            self.add(Severity::Error, after.place, message);
        }
        if before.symbol != after.symbol {
            let message = format!(
                "the symbol of event {id} version {version} changed: programs that write it do not compile"
            );
            self.add(Severity::Error, after.place, message);
        }
    }
}

fn fields<'p>(provider: &'p Provider, event: &Event) -> &'p [Field] {
    event.template.map_or(&[], |index| &provider.templates[index].fields)
}

/// Whether two fields have the same name, bytes and meaning.
fn is_same(old: &Provider, a: &Field, new: &Provider, b: &Field) -> bool {
    let map = |provider: &'_ Provider, field: &Field| {
        field.map.map(|index| values(&provider.maps[index]))
    };
    (&a.name, a.in_type, a.out_type, a.length, a.count)
        == (&b.name, b.in_type, b.out_type, b.length, b.count)
        && map(old, a) == map(new, b)
        && a.members.len() == b.members.len()
        && a.members.iter().zip(&b.members).all(|(a, b)| is_same(old, a, new, b))
}

/// Whether an item of a map still means the same. Its text may change.
fn is_same_item(old: &MapItem, new: &MapItem) -> bool {
    (old.value, &old.symbol) == (new.value, &new.symbol)
}

/// The name of a map and whether it has bits: new values are no change of the layout.
fn values(map: &Map) -> (String, bool) {
    (map.name.clone(), map.is_bitmap)
}
