//! Traces that were changed on purpose, before a C program with sanitizers.

use std::path::{Path, PathBuf};
use std::process::Command;

use etw_etl::write::FileBuilder;
use etw_types::{EVENT_METADATA, EventRecord, Guid, HeaderType, Level, Opcode};

use crate::consumer::{agrees, corpus, run};
use crate::expected::Call;
use crate::support::*;

const PROVIDER: Guid = Guid::from_u128(0x0a0b_0c0d_0000_0000_0000_0000_0000_0001);

/// Properties of every kind: maps, lengths and counts that other properties tell, structures.
const MANIFEST: &str = r#"<m><instrumentation><events><provider name="Every" guid="{0a0b0c0d-0000-0000-0000-000000000001}">
  <keywords><keyword name="K" mask="1"/></keywords>
  <tasks><task name="Work" value="1"/></tasks><opcodes><opcode name="Go" value="12"/></opcodes>
  <maps><valueMap name="Colors"><map value="1" message="$(string.red)"/><map value="2" message="$(string.blue)"/></valueMap>
    <bitMap name="Flags"><map value="0x1" message="$(string.red)"/><map value="0x4" message="$(string.blue)"/></bitMap></maps>
  <templates><template tid="All">
    <data name="Count" inType="win:UInt16"/><data name="Size" inType="win:UInt32"/>
    <data name="Color" inType="win:UInt32" map="Colors"/><data name="Bits" inType="win:UInt32" map="Flags"/>
    <data name="List" inType="win:UInt16" count="Count" outType="win:HexInt16"/><data name="Blob" inType="win:Binary" length="Size"/>
    <data name="Fixed" inType="win:UnicodeString" length="4"/><data name="Three" inType="win:Int8" count="3"/>
    <data name="Text" inType="win:UnicodeString"/><data name="Code" inType="win:UInt32" outType="win:NTSTATUS"/>
    <data name="Id" inType="win:GUID"/><data name="When" inType="win:FILETIME"/><data name="Who" inType="win:SID"/>
    <data name="Where" inType="win:Pointer"/><data name="Ratio" inType="win:Double"/>
    <data name="Address" inType="win:Binary" outType="win:IPv6" length="16"/>
    <struct name="Item" count="Count"><data name="N" inType="win:UInt8"/><data name="Name" inType="win:AnsiString"/>
      <data name="Tail" inType="win:Binary" length="N"/></struct>
    <data name="Last" inType="win:UnicodeString"/></template></templates>
  <events><event value="1" version="2" template="All" task="Work" opcode="Go" keywords="K" message="$(string.text)"/>
    <event value="2"/></events></provider></events></instrumentation>
  <localization><resources culture="en-US"><stringTable><string id="red" value="red"/><string id="blue" value="blau"/>
    <string id="text" value="%1 of %2: %9%n%%"/></stringTable></resources></localization></m>"#;

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn payload(last: &str) -> Vec<u8> {
    [
        &2u16.to_le_bytes()[..],
        &3u32.to_le_bytes(),
        &2u32.to_le_bytes(),
        &7u32.to_le_bytes(),
        &[0xcd, 0xab, 1, 0],
        &[1, 2, 3],
        &utf16("ab\0c"),
        &[1, 0xff, 3],
        &utf16("grün 😀\0"),
        &0xc000_0005u32.to_le_bytes(),
        &Guid::from_u128(5).0,
        &132_223_104_000_000_000u64.to_le_bytes(),
        &[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0],
        &0x7fff_0000_1000u64.to_le_bytes(),
        &0.25f64.to_le_bytes(),
        &[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        &[1],
        b"one\0",
        &[9],
        &[2],
        b"\0",
        &[8, 7],
        // Its NUL is missing.
        &utf16(last),
    ]
    .concat()
}

/// A trace of events of the manifest, behind TRACE_EVENT_INFO records where there are some.
fn trace(described: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    for (number, (kind, blob)) in described.iter().enumerate() {
        let mut record = EventRecord::new(HeaderType::Full64, blob);
        record.provider = Some(EVENT_METADATA);
        record.descriptor.opcode = Opcode(*kind);
        record.order_time = start + number as i64;
        (record.process_id, record.thread_id) = (Some(1), Some(2));
        file.push(0, &record).unwrap();
    }
    for (number, last) in ["the end", "x", ""].into_iter().enumerate() {
        let payload = payload(last);
        let payload = if number == 2 { &payload[..90] } else { &payload };
        let mut record = EventRecord::new(HeaderType::Event64, payload);
        record.provider = Some(PROVIDER);
        (record.descriptor.id, record.descriptor.version) = (1, 2);
        record.descriptor.level = Level(4);
        record.order_time = start + 100 + number as i64;
        (record.process_id, record.thread_id) = (Some(1), Some(2));
        file.push(number as u16 % 2, &record).unwrap();
    }
    file.finish()
}

/// The payload of a record that describes a map.
fn map(name: &str, flags: u32, entries: &[(u32, &str)]) -> Vec<u8> {
    let mut texts = utf16(&format!("{name}\0"));
    let base = 16 + entries.len() as u32 * 8;
    let mut out = PROVIDER.0.to_vec();
    for word in [base, flags, entries.len() as u32, 0] {
        out.extend(word.to_le_bytes());
    }
    for (value, text) in entries {
        out.extend((base + texts.len() as u32).to_le_bytes());
        out.extend(value.to_le_bytes());
        texts.extend(utf16(&format!("{text} \0")));
    }
    out.extend(texts);
    out
}

/// A TRACE_EVENT_INFO in a trace, made from a manifest.
fn described(program: &Path, folder: &Folder) -> Vec<u8> {
    trace(&descriptions(program, folder))
}

fn descriptions(program: &Path, folder: &Folder) -> Vec<(u8, Vec<u8>)> {
    let (manifest, file) = (folder.0.join("every.man"), folder.0.join("every.etl"));
    std::fs::write(&manifest, MANIFEST).unwrap();
    std::fs::write(&file, trace(&[])).unwrap();
    let call = Call { manifest: Some(manifest), raw_info: true, ..Call::of(&[file]) };
    let text = run(program, &call);
    let info = text
        .lines()
        .filter_map(|line| line.strip_prefix("info "))
        .find(|info| info.starts_with("0d0c0b0a"));
    let info = info.expect("the event with every property");
    let bytes =
        (0..info.len() / 2).map(|at| u8::from_str_radix(&info[at * 2..at * 2 + 2], 16).unwrap());
    vec![
        (33, map("Colors", 1, &[(1, "red"), (2, "blau")])),
        (33, map("Flags", 2, &[(1, "red"), (4, "blau")])),
        (32, bytes.collect()),
    ]
}

/// A TRACE_EVENT_INFO whose offsets lead nowhere, into the middle of a character, or to a text without end: what the decoder makes of it a
/// program gets, and every offset that it gets can be followed.
#[test]
fn malicious_offsets_in_event_information() {
    let folder = Folder::new("tdh-offsets");
    // With sanitizers.
    let Some(program) = compile(&folder, "tdh_sample.c", COMPILERS[2]) else { return };
    let records = descriptions(&program, &folder);
    let size = records[2].1.len() as u32;
    let file = folder.0.join("offsets.etl");
    let properties = (0..3).flat_map(|number| [0x74 + number * 24, 0x7c + number * 24]);
    let texts = [0x34, 0x38, 0x3c, 0x40, 0x44, 0x48, 0x4c, 0x50, 0x54, 0x58, 0x5c, 0x60];
    for at in texts.into_iter().chain(properties) {
        for offset in [1, 3, size - 2, size - 1, size, size + 100, u32::MAX] {
            let mut records = records.clone();
            records[2].1[at..at + 4].copy_from_slice(&offset.to_le_bytes());
            // The last text loses its end.
            let end = records[2].1.len();
            records[2].1[end - 2..].copy_from_slice(&[0x41, 0]);
            std::fs::write(&file, trace(&records)).unwrap();
            agrees(&program, &Call::of(std::slice::from_ref(&file)));
        }
    }
}

/// Every kind of property, of a manifest and of a trace that describes its own events: both ways of printing, with all compilers.
#[test]
fn every_property_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("tdh-every-{number}"));
        let Some(program) = compile(&folder, "tdh_sample.c", compiler) else { continue };
        let own = folder.0.join("described.etl");
        std::fs::write(&own, described(&program, &folder)).unwrap();
        let (file, manifest) = (folder.0.join("every.etl"), Some(folder.0.join("every.man")));
        for call in [Call { manifest, ..Call::of(&[file]) }, Call::of(&[own])] {
            agrees(&program, &call);
            agrees(&program, &Call { by_format: true, ..call.clone() });
            let text = run(&program, &call);
            for line in [
                "Color=blau",
                "Bits=red|blau|0x2",
                "Item[1].Tail=0x0807",
                "List[0]=0xABCD",
                "Fixed=ab",
            ] {
                assert_eq!(
                    text.matches(&format!("\n{line}\n")).count(),
                    if line == "Item[1].Tail=0x0807" { 2 } else { 3 },
                    "{line} {text}"
                );
            }
        }
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// A generator of numbers that a seed repeats.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below.max(1)
    }
}

/// Some bytes changed, most of them where something stands.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    const WORDS: [u32; 8] = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff];
    for _ in 0..1 + random.next(12) {
        let mut at = random.next(bytes.len());
        for _ in 0..200 {
            if bytes[at] != 0 && bytes[at] != 0xff {
                break;
            }
            at = random.next(bytes.len());
        }
        match random.next(6) {
            0 => bytes[at] ^= 1 << random.next(8),
            1 => bytes[at] = random.next(256) as u8,
            2 | 3 => {
                let word = WORDS[random.next(WORDS.len())].to_le_bytes();
                let size = [1, 2, 4][random.next(3)].min(bytes.len() - at);
                bytes[at..at + size].copy_from_slice(&word[..size]);
            }
            4 => {
                let size = random.next(64).min(bytes.len() - at);
                let from = random.next(bytes.len() - size);
                bytes.copy_within(from..from + size, at);
            }
            _ if random.next(8) == 0 => bytes.truncate(at.max(200)),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
}

/// Whatever a trace holds, a program that follows what the calls give it reads no byte that is not its own, and comes to an end.
#[test]
fn malicious_traces_from_c() {
    let folder = Folder::new("tdh-hostile");
    // With sanitizers.
    let compiler = COMPILERS[2];
    let Some(program) = compile(&folder, "tdh_sample.c", compiler) else { return };
    let mut bases: Vec<(PathBuf, Vec<u8>)> = vec![
        ("described".into(), described(&program, &folder)),
        ("sample".into(), etw_etl::write::sample::trace()),
    ];
    let writers = Folder::new("tdh-hostile-writer");
    if let Some(writer) = compile(&writers, "tracelogging.c", compiler) {
        let own = folder.0.join("own.etl");
        assert!(Command::new(writer).env("TRACELOGGING_OUT", &own).status().unwrap().success());
        bases.push(("tracelogging".into(), std::fs::read(own).unwrap()));
    }
    for file in corpus() {
        if file.metadata().unwrap().len() < 500_000 {
            bases.push((file.clone(), std::fs::read(&file).unwrap()));
        }
    }
    let rounds = std::env::var("ETW_MUTATIONS").map_or(12, |rounds| rounds.parse().unwrap());
    for (name, base) in &bases {
        // Empty data has no byte to change.
        let used = base.iter().rposition(|byte| *byte != 0 && *byte != 0xff).unwrap_or(0) + 1;
        let rounds = if name.is_absolute() { rounds } else { rounds * 5 };
        for seed in 1..=rounds {
            let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15) ^ used as u64);
            let mut bytes = base[..used].to_vec();
            mutate(&mut bytes, &mut random);
            bytes.extend(base.get(used..).unwrap_or_default());
            let path = folder.0.join("mutated.etl");
            std::fs::write(&path, &bytes).unwrap();
            let modes: [&[&str]; 3] = [&["-q"], &["-q", "-f"], &["-q", "-o"]];
            for mode in &modes[..if seed % 4 == 0 { 3 } else { 2 }] {
                let output = Command::new("timeout")
                    .arg("60")
                    .arg(&program)
                    .args(*mode)
                    .arg(&path)
                    .env("ASAN_OPTIONS", "exitcode=99")
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                let opened = !output.stdout.starts_with(b"open ");
                let code = output.status.code();
                assert!(
                    said.is_empty() && code == Some(if opened { 0 } else { 1 }),
                    "{} seed {seed} {mode:?}: {code:?} {said}",
                    name.display()
                );
            }
        }
    }
}
