//! Compiled manifests that `mc.exe` made, compared with the texts that it made them of; skipped where the corpus is absent.

use crate::corpus::corpus;
use etw_decode::manifest::{self, Manifest, ManifestProvider};
use etw_decode::wevt::{self, Messages};
use etw_decode::{Field, Kind, Length, Schema};
use std::collections::BTreeSet;

/// A field as text, for comparison.
fn shape(field: &Field) -> String {
    let map = field.map.as_ref().map(|map| (&map.name, &map.kind, &map.entries));
    // A length of one belongs to values that have a length of their own, too.
    let length = match (&field.kind, field.length) {
        (Kind::Struct { .. }, _) => Length::Own,
        (_, length) => length,
    };
    let types = if field.is_struct() { None } else { Some(field.types) };
    format!("{} {:?} {types:?} {:?} {length:?} {map:?}", field.name, field.kind, field.count)
}

fn compare(what: &str, compiled: &Schema, text: &Schema) {
    assert_eq!(compiled.descriptor, text.descriptor, "{what}");
    assert_eq!(compiled.incomplete, None, "{what}");
    assert_eq!(compiled.top_level, text.top_level, "{what}");
    let shapes = |schema: &Schema| schema.fields.iter().map(shape).collect::<Vec<_>>();
    assert_eq!(shapes(compiled), shapes(text), "{what}");
    let (ours, theirs) = (&compiled.names, &text.names);
    assert_eq!(ours.task, theirs.task, "{what}");
    assert_eq!(ours.opcode, theirs.opcode, "{what}");
    assert_eq!(ours.level, theirs.level, "{what}");
    assert_eq!(ours.channel, theirs.channel, "{what}");
    let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(set(&ours.keywords), set(&theirs.keywords), "{what}");
    let message = |schema: &Schema| schema.message.as_ref().map(|m| m.template().trim().to_owned());
    assert_eq!(message(compiled), message(text), "{what}");
}

fn compare_providers(what: &str, compiled: &Manifest, text: &[ManifestProvider]) {
    assert_eq!(compiled.warnings, [""; 0], "{what}");
    assert_eq!(compiled.providers.len(), text.len(), "{what}");
    for (ours, theirs) in compiled.providers.iter().zip(text) {
        assert_eq!(ours.guid, theirs.guid, "{what}");
        let keys =
            |provider: &ManifestProvider| provider.events.keys().copied().collect::<BTreeSet<_>>();
        assert_eq!(keys(ours), keys(theirs), "{what}");
        for (key, schema) in &ours.events {
            compare(&format!("{what} {key:?}"), schema, &theirs.events[key]);
        }
        assert_eq!(ours.maps, theirs.maps, "{what}");
        assert_eq!(ours.keywords, theirs.keywords, "{what}");
        let channels = |provider: &ManifestProvider| {
            provider.channels.iter().map(|c| (c.value, c.name.clone())).collect::<BTreeSet<_>>()
        };
        assert!(channels(ours).is_superset(&channels(theirs)), "{what}");
    }
}

#[test]
fn every_compiled_manifest_says_what_its_text_says() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("mc");
    let mut compared = 0;
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().flatten().map(|e| e.path()).collect();
    names.sort();
    for path in names {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some((base, version)) = name.split_once(".wevt") else { continue };
        let text = std::fs::read(folder.join(format!("{base}.man"))).unwrap();
        let text = manifest::parse(&text).map(|manifest| manifest.providers).unwrap_or_default();
        let mut messages = Messages::default();
        for table in [format!("{base}.msg{version}"), format!("{base}.msg.bin")] {
            if let Ok(table) = std::fs::read(folder.join(table)) {
                messages.add_table(&table);
            }
        }
        let compiled = wevt::parse(&std::fs::read(&path).unwrap(), &messages).unwrap();
        compare_providers(&name, &compiled, &text);
        // The name is in resources of newer compilers only.
        if version.contains("v5")
            && let Some(provider) = compiled.providers.first()
        {
            assert_eq!(provider.name, text[0].name);
        }
        compared += 1;
    }
    assert_eq!(compared, 10);
}

#[test]
fn the_resource_library_of_the_clr_says_what_its_manifest_says() {
    let Some(corpus) = corpus() else { return };
    let library = std::fs::read(corpus.join("pe/clretwrc.dll")).unwrap();
    let compiled = wevt::parse_pe(&library, &Messages::default()).unwrap();
    let text = std::fs::read(corpus.join("manifests/ClrEtwAll.man")).unwrap();
    let text = manifest::parse(&text).unwrap();
    assert_eq!(compiled.warnings, [""; 0]);
    let (mut same, mut other, mut new) = (0, Vec::new(), 0);
    for provider in &compiled.providers {
        let known = text.providers.iter().find(|known| known.guid == provider.guid).unwrap();
        for (key, schema) in &provider.events {
            // The manifest is of another state: names of values were added and renamed.
            let shapes = |schema: &Schema| {
                let shapes = schema.fields.iter().map(shape);
                shapes.map(|text| text.split(", [").next().map(str::to_owned)).collect::<Vec<_>>()
            };
            match known.events.get(key) {
                Some(known) if shapes(known) == shapes(schema) => same += 1,
                Some(_) => other.push((provider.name.clone(), *key)),
                None => new += 1,
            }
        }
    }
    other.sort();
    println!("{same} events are equal, {new} are not in the text, others: {other:?}");
    assert!(same > 370 && other.is_empty(), "{same} {new} {other:?}");
}

/// The four providers of the CLR's library: damage to one, and to a template, costs that one.
#[test]
fn damage_to_a_provider_or_template_of_the_clr_costs_that_one() {
    let Some(corpus) = corpus() else { return };
    let library = std::fs::read(corpus.join("pe/clretwrc.dll")).unwrap();
    let places = |name: &[u8]| -> Vec<usize> {
        (0..library.len()).filter(|at| library[*at..].starts_with(name)).collect()
    };
    let damaged = |at: usize| {
        let mut library = library.clone();
        library[at] = 0;
        wevt::parse_pe(&library, &Messages::default()).unwrap()
    };
    let whole = wevt::parse_pe(&library, &Messages::default()).unwrap();
    let providers = places(b"WEVT").into_iter().filter(|at| !library[*at..].starts_with(b"WEVT_"));
    let providers: Vec<usize> = providers.collect();
    assert_eq!(providers.len(), 4);
    for (number, at) in providers.into_iter().enumerate() {
        let left = damaged(at);
        let guid = whole.providers[number].guid;
        assert!(left.providers.len() == 3 && left.providers.iter().all(|one| one.guid != guid));
        let found = left.warnings.iter().any(|warning| warning.starts_with(&guid.to_string()));
        assert!(found, "{:?}", left.warnings);
    }
    let events = |manifest: &Manifest| -> usize {
        let events = manifest.providers.iter().flat_map(|provider| provider.events.values());
        events.filter(|event| event.incomplete.is_none()).count()
    };
    let templates = places(b"TEMP");
    assert!(templates.len() > 180);
    let mut losses = Vec::new();
    for at in templates.into_iter().step_by(20) {
        let left = damaged(at);
        assert_eq!(left.warnings.len(), 1, "{:?}", left.warnings);
        losses.push(events(&whole) - events(&left));
    }
    // One template of the CLR serves 44 events, most serve one.
    assert!(losses.iter().all(|loss| (1..=44).contains(loss)), "{losses:?}");
}
