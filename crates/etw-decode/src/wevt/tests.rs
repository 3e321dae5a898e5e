//! A compiled manifest made here, whole and damaged.

use super::messages::NONE;
use super::*;
use crate::field::{Count, Kind, Length};
use crate::map::MapKind;
use crate::provider::KeywordName;
use etw_tracelogging::{Show, Wire};
use etw_types::{Guid, Keyword};

const GUID: Guid = Guid::from_u128(0x11111111_2222_3333_4444_555555555555);

/// Bytes whose parts are referred to by where they begin.
#[derive(Default)]
struct Blob(Vec<u8>);

impl Blob {
    fn u32(&mut self, value: u32) -> usize {
        self.0.extend(value.to_le_bytes());
        self.0.len() - 4
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn set(&mut self, at: usize, value: usize) {
        self.0[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    }

    fn name(&mut self, text: &str) -> usize {
        let at = self.0.len();
        let units: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        self.u32(units.len() as u32 + 4);
        self.bytes(&units);
        at
    }
}

/// A provider with a name of its own, a channel, a level, an opcode, a task, a keyword, a map, and two events: one has a template
/// with a struct and a name, the other a template whose second property has the type `unknown`.
fn resource(unknown: u8) -> Vec<u8> {
    let mut blob = Blob::default();
    blob.bytes(b"CRIM\0\0\0\0\x05\0\x01\0\x01\0\0\0");
    blob.bytes(&GUID.0);
    let wevt = blob.u32(0);
    let at = blob.0.len();
    blob.set(wevt, at);
    blob.bytes(b"WEVT\0\0\0\0");
    blob.u32(100);
    blob.u32(11);
    let slots: Vec<usize> = (0..11)
        .map(|kind| {
            blob.u32(kind);
            blob.u32(0)
        })
        .collect();
    let mut names = Vec::new();
    let begin = |blob: &mut Blob, slot: usize, kind: &[u8], count: u32| {
        let at = blob.0.len();
        blob.set(slots[slot], at);
        blob.bytes(kind);
        blob.u32(0);
        blob.u32(count);
        at
    };
    begin(&mut blob, 0, b"CHAN", 1);
    blob.u32(1);
    names.push((blob.u32(0), "Maker/Operational"));
    blob.u32(16);
    blob.u32(NONE);
    begin(&mut blob, 1, b"PRVA", 1);
    blob.u32(0x1000_0001);
    let provider = blob.u32(0);
    let at = blob.0.len();
    blob.set(provider, at);
    blob.bytes(b"M\0a\0k\0e\0r\0\0\0");
    let level = begin(&mut blob, 2, b"LEVL", 1) + 12;
    blob.u32(4);
    blob.u32(NONE);
    names.push((blob.u32(0), "win:Informational"));
    let opcode = begin(&mut blob, 3, b"OPCO", 1) + 12;
    blob.u32(11 << 16);
    blob.u32(102);
    names.push((blob.u32(0), "Own"));
    let task = begin(&mut blob, 4, b"TASK", 1) + 12;
    blob.u32(1);
    blob.u32(101);
    blob.bytes(&[0; 16]);
    names.push((blob.u32(0), "Job"));
    let keyword = begin(&mut blob, 5, b"KEYW", 1) + 12;
    blob.bytes(&0x10u64.to_le_bytes());
    blob.u32(NONE);
    names.push((blob.u32(0), "Disk"));
    begin(&mut blob, 6, b"MAPS", 2);
    let offsets = [blob.u32(0), blob.u32(0)];
    let mut maps = Vec::new();
    for (signature, offset) in [b"VMAP", b"BMAP"].into_iter().zip(offsets) {
        let at = blob.0.len();
        blob.set(offset, at);
        maps.push(at);
        blob.bytes(signature);
        blob.u32(0);
        names.push((blob.u32(0), if maps.len() == 1 { "V" } else { "B" }));
        blob.u32(u32::from(maps.len() == 2));
        blob.u32(1);
        blob.u32(3);
        blob.u32(103);
    }
    begin(&mut blob, 7, b"TTBL", 2);
    let templates = templates(&mut blob, unknown, &maps, &mut names);
    begin(&mut blob, 8, b"EVNT", 2);
    let refers = [opcode, level, task];
    events(&mut blob, &templates, refers, keyword);
    begin(&mut blob, 9, b"EVTA", 1);
    blob.bytes(&[0x11, 2, 7, 0]);
    let text = blob.u32(0);
    let at = blob.0.len();
    blob.set(text, at);
    blob.bytes(b"M\0a\0d\0e\0\0\0");
    for (at, name) in names {
        let offset = blob.name(name);
        blob.set(at, offset);
    }
    blob.0
}

/// Two templates; returns their offsets. `names`: offsets of texts, and the texts.
fn templates(
    blob: &mut Blob,
    unknown: u8,
    maps: &[usize],
    names: &mut Vec<(usize, &'static str)>,
) -> Vec<usize> {
    // n, text of n characters, a struct of two twice, a pair of bytes; members: kind, mask.
    type Property = (u32, [u8; 4], usize, u16, u16, &'static str);
    let whole: &[Property] = &[
        (0, [6, 0, 0, 0], 0, 1, 2, "n"),
        (4, [1, 1, 0, 0], 0, 1, 0, "text"),
        (1 | 8, [4, 0, 2, 0], 0, 2, 0, "s"),
        (2 | 8, [14, 15, 0, 0], 0, 3, 2, "raw"),
        (0, [4, 0, 0, 0], maps[0], 1, 1, "kind"),
        (0, [8, 18, 0, 0], maps[1], 1, 4, "mask"),
    ];
    let cut: &[Property] =
        &[(0, [8, 0, 0, 0], 0, 1, 4, "known"), (0, [unknown, 0, 0, 0], 0, 1, 4, "strange")];
    let mut templates = Vec::new();
    for (top_level, properties) in [(4, whole), (2, cut)] {
        let template = blob.0.len();
        templates.push(template);
        blob.bytes(b"TEMP");
        let size = blob.u32(0);
        blob.u32(top_level);
        blob.u32(properties.len() as u32);
        let items = blob.u32(0);
        blob.u32(1);
        blob.bytes(&[9; 16]);
        let at = blob.0.len();
        blob.set(items, at);
        for (flags, types, map, count, length, name) in properties {
            blob.u32(*flags);
            blob.bytes(types);
            blob.u32(*map as u32);
            blob.bytes(&count.to_le_bytes());
            blob.bytes(&length.to_le_bytes());
            names.push((blob.u32(0), name));
        }
        let end = blob.0.len();
        blob.set(size, end - template);
    }
    templates
}

/// An event for each template.
fn events(blob: &mut Blob, templates: &[usize], refers: [usize; 3], keyword: usize) {
    let [opcode, level, task] = refers;
    blob.u32(0);
    let mut lists = Vec::new();
    for (id, template) in [7u8, 8].into_iter().zip(templates.iter().copied()) {
        blob.bytes(&[id, 0, 2, 16, 4, 11, 1, 0]);
        blob.bytes(&0x8000_0000_0000_0010u64.to_le_bytes());
        blob.u32(104);
        for offset in [template, opcode, level, task, 1] {
            blob.u32(offset as u32);
        }
        lists.push(blob.u32(0));
        blob.u32(0);
    }
    let at = blob.0.len();
    lists.into_iter().for_each(|list| blob.set(list, at));
    blob.u32(keyword as u32);
}

/// A table of messages 100 to 104, one of them in 8 bits.
fn table() -> Vec<u8> {
    let mut blob = Blob::default();
    blob.u32(1);
    blob.u32(100);
    blob.u32(104);
    blob.u32(16);
    for (number, text) in
        ["Maker-Product\r\n", "Work", "Do ", "three\r\n", "%1 said %2\r\n"].iter().enumerate()
    {
        let wide: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        let bytes = if number == 1 { [text.as_bytes(), b"\0"].concat() } else { wide };
        blob.bytes(&(bytes.len() as u16 + 4).to_le_bytes());
        blob.bytes(&u16::from(number != 1).to_le_bytes());
        blob.bytes(&bytes);
    }
    blob.0
}

fn messages() -> Messages {
    let mut messages = Messages::default();
    messages.add_table(&table());
    messages
}

/// A PE file: what may differ between linkers, and its resources.
struct Library {
    machine: u16,
    section: [u8; 8],
    size_in_memory: Option<u32>,
    /// Resources by language, of WEVT_TEMPLATE and message tables.
    templates: Vec<(u32, Vec<u8>)>,
    tables: Vec<(u32, Vec<u8>)>,
}

impl Library {
    fn new() -> Library {
        Library {
            machine: 0x8664,
            section: *b".rsrc\0\0\0",
            size_in_memory: None,
            templates: vec![(0x409, resource(8))],
            tables: vec![(0x409, table())],
        }
    }

    /// The section of resources, for the address `base`.
    fn resources(&self, base: usize) -> Vec<u8> {
        let mut section = Blob::default();
        let directory = |section: &mut Blob, named: u16, numbered: u16| {
            section.bytes(&[0; 12]);
            section.bytes(&named.to_le_bytes());
            section.bytes(&numbered.to_le_bytes());
        };
        // Root: one kind by name, one by number; below each a name and its languages.
        directory(&mut section, 1, 1);
        let name = section.u32(0);
        let first = section.u32(0);
        section.u32(11);
        let second = section.u32(0);
        let mut data = Vec::new();
        for (kind, resources) in [(first, &self.templates), (second, &self.tables)] {
            let at = section.0.len();
            section.set(kind, at | 1 << 31);
            directory(&mut section, 0, 1);
            section.u32(1);
            let languages = section.u32(0);
            let at = section.0.len();
            section.set(languages, at | 1 << 31);
            directory(&mut section, 0, resources.len() as u16);
            let mut entries = Vec::new();
            for (language, bytes) in resources {
                section.u32(*language);
                entries.push((section.u32(0), bytes));
            }
            for (entry, bytes) in entries {
                let at = section.0.len();
                section.set(entry, at);
                data.push((section.u32(0), bytes));
                section.bytes(&[0; 12]);
            }
        }
        let at = section.0.len();
        section.set(name, at | 1 << 31);
        section.bytes(&13u16.to_le_bytes());
        let kind: Vec<u8> = "WEVT_TEMPLATE".encode_utf16().flat_map(u16::to_le_bytes).collect();
        section.bytes(&kind);
        for (entry, bytes) in data {
            let at = section.0.len();
            section.set(entry, at + base);
            section.set(entry + 4, bytes.len());
            section.bytes(bytes);
        }
        section.0
    }

    fn bytes(&self) -> Vec<u8> {
        const BASE: u32 = 0x1000;
        let section = self.resources(BASE as usize);
        let size = section.len() as u32;
        let mut file = Blob::default();
        file.bytes(b"MZ");
        file.bytes(&[0; 58]);
        file.u32(64);
        file.bytes(b"PE\0\0");
        file.bytes(&self.machine.to_le_bytes());
        file.bytes(&1u16.to_le_bytes());
        file.bytes(&[0; 12]);
        file.bytes(&(112u16 + 16 * 8).to_le_bytes());
        file.bytes(&0x2022u16.to_le_bytes());
        let mut optional = vec![0; 112 + 16 * 8];
        optional[..2].copy_from_slice(&0x20bu16.to_le_bytes());
        optional[108..112].copy_from_slice(&16u32.to_le_bytes());
        optional[112 + 16..112 + 20].copy_from_slice(&BASE.to_le_bytes());
        optional[112 + 20..112 + 24].copy_from_slice(&size.to_le_bytes());
        file.bytes(&optional);
        file.bytes(&self.section);
        let in_memory = self.size_in_memory.unwrap_or(size);
        for value in [in_memory, BASE, size, 0x400, 0, 0, 0, 0x4000_0040] {
            file.u32(value);
        }
        file.0.resize(0x400, 0);
        file.bytes(&section);
        file.0
    }
}

fn pe() -> Vec<u8> {
    Library::new().bytes()
}

#[test]
fn libraries_of_any_linker_are_read() {
    let arm = Library { machine: 0xaa64, section: [0; 8], ..Library::new() };
    check(&parse_pe(&arm.bytes(), &Messages::default()).unwrap());
    let without_size = Library { size_in_memory: Some(0), ..Library::new() };
    check(&parse_pe(&without_size.bytes(), &Messages::default()).unwrap());
}

#[test]
fn resources_in_several_languages_are_one_manifest() {
    let templates = vec![(0x407, resource(8)), (0x409, resource(8)), (0, b"junk".to_vec())];
    let mut german = table();
    let at = german.windows(4).position(|bytes| bytes == b"Work").unwrap();
    german[at..at + 4].copy_from_slice(b"Werk");
    let tables = vec![(0x407, german), (0x409, table())];
    let library = Library { templates, tables, ..Library::new() }.bytes();
    let mut manifest = parse_pe(&library, &Messages::default()).unwrap();
    assert_eq!(manifest.providers.len(), 1);
    assert!(manifest.warnings.pop().unwrap().contains("CRIM was expected"));
    check(&manifest);
    let mut builder = crate::pack::PackBuilder::default();
    builder.add("a.dll", &library).unwrap();
    let pack = crate::pack::Pack::open(builder.finish().into()).unwrap();
    assert_eq!(pack.event(GUID, 7, 2).unwrap().names.task.as_deref(), Some("Work"));
}

/// Texts of a library in one language, of one in several, and of a bare table, which does not say its language: alone and in a pack.
#[test]
fn a_text_has_the_language_of_its_table() {
    let mut german = table();
    let at = german.windows(4).position(|bytes| bytes == b"Work").unwrap();
    german[at..at + 4].copy_from_slice(b"Werk");
    let library = |tables| Library { tables, ..Library::new() }.bytes();
    let only_german = library(vec![(0x407, german.clone())]);
    let both = library(vec![(0x407, german.clone()), (0x409, table())]);
    let swiss = library(vec![(0x807, german.clone())]);
    let without_texts = library(Vec::new());
    let german_first: Language = "de-DE".parse().unwrap();
    let tables = |table: &[u8]| vec![table.to_vec()];
    for (file, texts, wanted, task, language) in [
        (&only_german, Vec::new(), None, "Werk", "de-DE"),
        (&both, Vec::new(), None, "Work", "en-US"),
        (&both, Vec::new(), Some(&german_first), "Werk", "de-DE"),
        (&swiss, Vec::new(), None, "Werk", "de"),
        (&without_texts, tables(&german), None, "Werk", "und"),
        (&without_texts, vec![only_german.clone(), table()], None, "Werk", "de-DE"),
    ] {
        let mut builder = crate::pack::PackBuilder::default();
        let program = crate::pack::ProgramSources::read(file, &texts, wanted).unwrap();
        builder.add_program("a.dll", program);
        let pack = crate::pack::Pack::open(builder.finish().into()).unwrap();
        let schema = pack.event(GUID, 7, 2).unwrap();
        assert_eq!(schema.names.task.as_deref(), Some(task));
        assert_eq!(schema.language.as_deref(), Some(language));
    }
    let alone = parse_pe(&only_german, &Messages::default()).unwrap();
    assert_eq!(alone.providers[0].events[&(7, 2)].language.as_deref(), Some("de-DE"));
    let bare = parse(&resource(8), &messages()).unwrap();
    assert_eq!(bare.providers[0].events[&(7, 2)].language.as_deref(), Some("und"));
    // Without a text there is no language.
    let none = parse(&resource(8), &Messages::default()).unwrap();
    assert_eq!(none.providers[0].events[&(7, 2)].language, None);
}

#[test]
fn a_resource_behind_the_end_of_the_file_is_told() {
    let whole = pe();
    let start = whole.windows(4).position(|bytes| bytes == b"CRIM").unwrap();
    let error = parse_pe(&whole[..start], &Messages::default()).unwrap_err();
    assert!(error.to_string().contains("bytes in the file"), "{error}");
    // Where the end of the resource is missing, what comes before it counts.
    let cut = parse_pe(&whole[..start + resource(8).len() - 1], &messages()).unwrap();
    assert!(!cut.providers.is_empty());
    assert!(cut.warnings.iter().any(|what| what.starts_with("its texts are left out")));
}

#[test]
fn old_compilers_leave_the_name_of_a_provider_to_the_registry() {
    let mut blob = resource(8);
    let known = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
    let at = blob.windows(16).position(|bytes| bytes == GUID.0).unwrap();
    blob[at..at + 16].copy_from_slice(&known.0);
    let attribute = blob.windows(4).position(|bytes| bytes == b"PRVA").unwrap();
    blob[attribute + 12 + 3] = 0x70;
    let manifest = parse(&blob, &messages()).unwrap();
    assert_eq!(manifest.providers[0].name, "Microsoft-Windows-DotNETRuntime");
}

fn check(manifest: &Manifest) {
    let [provider] = &manifest.providers[..] else { panic!("{manifest:?}") };
    assert_eq!((provider.guid, provider.name.as_str()), (GUID, "Maker"));
    let disk = KeywordName { mask: Keyword(0x10), name: "Disk".to_owned() };
    assert_eq!(provider.keywords, [disk]);
    assert_eq!(
        (provider.channels[0].value, provider.channels[0].name.as_str()),
        (16, "Maker/Operational")
    );
    let schema = &provider.events[&(7, 2)];
    let descriptor = schema.descriptor.unwrap();
    assert_eq!((descriptor.id, descriptor.level.0, descriptor.task), (7, 4, 1));
    let names = &schema.names;
    assert_eq!(names.event.as_deref(), Some("Made"));
    assert_eq!((names.task.as_deref(), names.opcode.as_deref()), (Some("Work"), Some("Do")));
    assert_eq!(names.channel.as_deref(), Some("Maker/Operational"));
    assert_eq!(names.level.as_deref(), Some("win:Informational"));
    assert_eq!(names.keywords, ["Disk"]);
    assert_eq!((schema.top_level, schema.fields.len()), (4, 6));
    assert_eq!(schema.fields[0].count, Count::One);
    assert_eq!(schema.fields[1].length, Length::Field(0));
    assert_eq!(schema.fields[2].kind, Kind::Struct { first: 4, count: 2 });
    assert_eq!(schema.fields[2].count, Count::Fixed(2));
    assert_eq!(
        (schema.fields[3].count, schema.fields[3].length),
        (Count::Fixed(3), Length::Fixed(2))
    );
    assert_eq!(schema.fields[4].map.as_ref().unwrap().name_of(3).unwrap(), "three");
    assert_eq!(schema.fields[5].map.as_ref().unwrap().kind, MapKind::Bits);
    let shown = Kind::Scalar { wire: Wire::U32, show: Show::Hex };
    assert_eq!(schema.fields[5].kind, shown);
    assert_eq!(schema.message.as_ref().unwrap().format(|n| Some(n.to_string())), "0 said 1");
}

#[test]
fn a_resource_says_names_fields_maps_and_messages() {
    let manifest = parse(&resource(8), &messages()).unwrap();
    check(&manifest);
    assert_eq!(manifest.warnings, [""; 0]);
    assert_eq!(manifest.providers[0].events[&(8, 2)].fields.len(), 2);
    assert!(is_bare(&resource(8)));
}

#[test]
fn an_unknown_type_costs_the_fields_behind_it_and_a_warning_names_it() {
    let manifest = parse(&resource(99), &messages()).unwrap();
    check(&manifest);
    let schema = &manifest.providers[0].events[&(8, 2)];
    assert_eq!((schema.top_level, schema.fields[0].name.as_str()), (1, "known"));
    assert_eq!(schema.incomplete.as_deref(), Some("\"strange\" has the unknown in-type 99"));
    assert_eq!(
        manifest.warnings,
        [
            "Maker: the template of event 8 version 2 is cut behind 1 fields: \"strange\" has the unknown in-type 99"
        ]
    );
}

#[test]
fn a_damaged_map_costs_that_map() {
    let mut blob = resource(8);
    let at = blob.windows(4).position(|bytes| bytes == b"VMAP").unwrap();
    blob[at] = b'X';
    let manifest = parse(&blob, &messages()).unwrap();
    let schema = &manifest.providers[0].events[&(7, 2)];
    assert!(schema.fields[4].map.is_none() && schema.fields[5].map.is_some());
    let expected = format!(
        "Maker: the map at offset {at:#x} is left out: VMAP or BMAP was expected at offset {at:#x}"
    );
    assert_eq!(manifest.warnings, [expected]);
}

#[test]
fn a_damaged_template_costs_that_template() {
    let blob = resource(8);
    let templates: Vec<usize> =
        (0..blob.len()).filter(|at| blob[*at..].starts_with(b"TEMP")).collect();
    let [first, second] = templates[..] else { panic!("{templates:?}") };
    for (damaged, cut, whole, fields) in [(first, 7, 8, 2), (second, 8, 7, 6)] {
        // The signature, the size, the number of properties.
        for (place, bytes) in [(0, b"TEMX"), (4, &[0xff; 4]), (12, &[0xff; 4])] {
            let mut blob = blob.clone();
            blob[damaged + place..damaged + place + 4].copy_from_slice(bytes);
            let manifest = parse(&blob, &messages()).unwrap();
            let events = &manifest.providers[0].events;
            assert_eq!(events[&(whole, 2)].fields.len(), fields);
            // No reader needs the size.
            let is_cut = place != 4;
            assert_eq!(events[&(cut, 2)].fields.is_empty(), is_cut);
            assert_eq!(manifest.warnings.len(), usize::from(is_cut), "{:?}", manifest.warnings);
            if is_cut {
                assert!(manifest.warnings[0].contains(&format!("event {cut} version 2")));
            }
        }
    }
}

#[test]
fn a_damaged_row_costs_that_row_and_a_damaged_block_is_named() {
    let place = |name: &[u8]| resource(8).windows(4).position(|bytes| bytes == name).unwrap();
    let damaged = |at: usize| {
        let mut blob = resource(8);
        blob[at..at + 4].copy_from_slice(&0xfff_ffffu32.to_le_bytes());
        parse(&blob, &messages()).unwrap()
    };
    // The name of the first channel.
    let manifest = damaged(place(b"CHAN") + 12 + 4);
    assert!(manifest.providers[0].channels.is_empty());
    assert_eq!(manifest.providers[0].events.len(), 2);
    let expected =
        "Maker: an entry of its CHAN is left out: a number was expected at offset 0xfffffff";
    assert_eq!(manifest.warnings, [expected]);
    let levels = place(b"LEVL");
    let manifest = damaged(levels);
    assert_eq!(manifest.providers[0].events.len(), 2);
    let expected =
        format!("Maker-Product: a block is left out: a block was expected at offset {levels:#x}");
    assert_eq!(manifest.warnings, [expected]);
}

#[test]
fn a_damaged_provider_without_others_is_an_error() {
    let mut blob = resource(8);
    let at = blob.windows(4).position(|bytes| bytes == b"WEVT").unwrap();
    blob[at] = b'x';
    let expected = format!("bad WEVT_TEMPLATE resource: WEVT was expected at offset {at:#x}");
    assert_eq!(parse(&blob, &messages()).unwrap_err().to_string(), expected);
}

#[test]
fn a_pe_file_has_resource_and_messages() {
    check(&parse_pe(&pe(), &Messages::default()).unwrap());
    assert!(matches!(parse_pe(b"MZ", &Messages::default()), Err(WevtError::NotPe(_))));
    let mut catalog = crate::Catalog::default();
    catalog.add_manifest(&pe()).unwrap();
    assert_eq!(catalog.provider_name(&GUID), Some("Maker"));
}

#[test]
fn a_bare_resource_is_a_manifest_and_packs_with_its_messages() {
    let mut catalog = crate::Catalog::default();
    catalog.add_compiled(&resource(8), &messages()).unwrap();
    assert!(catalog.event(GUID, 7, 2).unwrap().message.is_some());
    let mut builder = crate::pack::PackBuilder::default();
    builder.add_compiled("a.bin", &resource(8), &[table()]).unwrap();
    let pack = crate::pack::Pack::open(builder.finish().into()).unwrap();
    assert!(pack.event(GUID, 7, 2).unwrap().message.is_some());
}

/// Cut and changed at any byte: an error that tells where, or what is left.
#[test]
fn damaged_resources_give_an_error_or_what_is_left() {
    let (whole, messages) = (resource(99), messages());
    for end in 0..whole.len() {
        let _ = parse(&whole[..end], &messages);
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            let _ = parse(&changed, &messages);
        }
    }
    let file = pe();
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 0xff;
        let _ = parse_pe(&changed, &Messages::default());
    }
    let table = table();
    for at in 0..table.len() {
        let mut changed = table.clone();
        changed[at] = 0xff;
        Messages::default().add_table(&changed);
    }
}

/// The seeds of the fuzz targets, which tests of the command read too. `ETW_BLESS=1` rewrites them.
#[test]
fn seeds_are_the_resource_and_the_library_made_here() {
    let part = |bytes: &[u8]| [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat();
    let seeds = [
        ("wevt/whole", [part(&resource(8)), part(&table()), vec![1, 0, b'a', 0]].concat()),
        ("wevt/unknown_type", [part(&resource(99)), part(&table()), vec![1, 2, 3, 4, 5]].concat()),
        ("pe/library", pe()),
    ];
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/");
    for (name, bytes) in seeds {
        let path = format!("{corpus}{name}");
        if std::env::var_os("ETW_BLESS").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{name} is stale: run with ETW_BLESS=1");
    }
}
