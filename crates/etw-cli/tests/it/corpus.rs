//! Real traces: what `etw dump` prints of them against independent records of their contents.

use crate::fixture::{json_lines, stdout};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::path::{Path, PathBuf};

pub fn corpus() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    if !path.is_dir() {
        println!("skipped: ../shared/corpus is absent");
        return None;
    }
    Some(path)
}

/// Every key of a line that an independent walk of the file knows too.
#[test]
fn json_lines_agree_with_the_records() {
    let Some(corpus) = corpus() else { return };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(corpus.join("etl")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        // The two large files take half a minute in a debug build; the container's own test reads them whole.
        if std::fs::metadata(&file).unwrap().len() > 4 << 20 {
            continue;
        }
        let name = file.file_stem().unwrap().to_str().unwrap();
        let packed = std::fs::read(corpus.join(format!("records/{name}.jsonl.gz"))).unwrap();
        let mut expected = String::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut expected).unwrap();
        let expected = json_lines(&expected);
        let mut lines = json_lines(&stdout(&["dump", "--raw", "--format", "json"], &[&file], 0));
        lines.sort_by_key(|line| (line["buffer"].as_u64(), line["offset"].as_u64()));
        assert_eq!(lines.len(), expected.len(), "{name}");
        for (line, expected) in lines.iter().zip(&expected) {
            compare(name, line, expected);
        }
    }
}

fn compare(name: &str, line: &Value, expected: &Value) {
    for (key, known) in [
        ("header", "ht"),
        ("raw_timestamp", "ts"),
        ("cpu", "cpu"),
        ("pid", "pid"),
        ("tid", "tid"),
        ("id", "id"),
        ("version", "ver"),
        ("opcode", "op"),
        ("level", "lvl"),
        ("channel", "ch"),
        ("task", "task"),
        ("buffer", "buf"),
        ("offset", "off"),
    ] {
        let known = expected.get(known).unwrap_or(&Value::Null);
        assert_eq!(&line[key], known, "{name}: {key} of {line}");
    }
    let keyword =
        expected["kw"].as_u64().filter(|_| line["header"].as_str().unwrap().starts_with("EVENT"));
    assert_eq!(line["keyword"], keyword.map_or(Value::Null, |bits| json!(format!("{bits:#018x}"))));
    let activity =
        expected["act"].as_str().filter(|id| *id != "00000000-0000-0000-0000-000000000000");
    assert_eq!(line["activity_id"].as_str(), activity);
    let provider = expected["prov"].as_str().unwrap();
    if !provider.starts_with("group") {
        assert_eq!(line["provider"], provider);
    }
    if let Some(event) = expected.get("tl") {
        assert_eq!((&line["event"], &line["decoded"]), (event, &json!("tracelogging")));
    }
    let payload = line["payload"].as_str().unwrap();
    let bytes: Vec<u8> = (0..payload.len() / 2)
        .map(|at| u8::from_str_radix(&payload[at * 2..at * 2 + 2], 16).unwrap())
        .collect();
    assert_eq!(json!(bytes.len()), expected["plen"]);
    let digest: String =
        Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(json!(digest), expected["sha"]);
}

/// Fields that TraceEvent shows in another way, each with its reason.
const OTHERWISE: [(&str, &str); 24] = [
    // A parser of its own names the bits; the trace's schema has no map for them.
    ("Microsoft-Windows-Kernel-File/Create", "CreateOptions"),
    ("Microsoft-Windows-Kernel-File/Create", "ShareAccess"),
    // A drive letter in place of the device name that was recorded.
    ("Microsoft-Windows-Kernel-File/Create", "FileName"),
    // A parser of its own: 0 is shown as "None"; the map in the trace has no name for 0.
    ("", "AssemblyFlags"),
    // A parser of its own splits or joins flags; the trace's map is a bitmap with `|` between its names.
    ("", "ModuleFlags"),
    ("", "AppDomainFlags"),
    // A parser of its own shows the number; the trace's map names it.
    ("Microsoft-Windows-DotNETRuntime/AppDomainResourceManagement/ThreadCreated", "Flags"),
    // The schema says hex, TraceEvent shows a signed number.
    ("Microsoft-Windows-DotNETRuntime/Exception/Start", "ExceptionHRESULT"),
    // An IPv6 address stands in brackets, port or not; Windows leaves brackets and port 0 away.
    ("Microsoft-Windows-DNS-Client/DnsServerForInterface", "Address"),
    // Local dates with two-digit years.
    ("", "CreateTime"),
    ("", "ExitTime"),
    ("solar_system/PrimitiveTypesTest", "file_time_type"),
    // TraceEvent's milliseconds of a SYSTEMTIME are wrong.
    ("solar_system/PrimitiveTypesTest", "system_time_type"),
    // A UInt64 shown signed.
    ("solar_system/PrimitiveTypesTest", "int64_type"),
    // Unsigned fields of the kernel shown signed.
    ("", "SessionID"),
    ("", "TimeDateStamp"),
    ("Windows Kernel/SystemConfig/NIC", "PhysicalAddr"),
    ("Windows Kernel/SystemConfig/Network", "MaxHashTableSize"),
    // A parser of its own names the bits.
    ("", "IrpFlags"),
    ("Windows Kernel/Process/DCStart", "Flags"),
    ("Windows Kernel/Process/Defunct", "Flags"),
    ("Windows Kernel/Process/Start", "Flags"),
    // Drive letters in place of the devices that were recorded; names without their extension.
    ("", "FileName"),
    ("Windows Kernel/SystemConfig/Services", "ProcessName"),
];

#[test]
fn values_agree_with_traceevent() {
    let Some(corpus) = corpus() else { return };
    for (name, at_least) in [("eventsource-primitive-types", 45), ("net452-x64-compressed", 1300)] {
        let file = corpus.join(format!("etl/{name}.etl"));
        let lines = json_lines(&stdout(&["dump", "--two-pass", "--format", "json"], &[&file], 0));
        let start = lines[0]["raw_timestamp"].as_i64().unwrap();
        // Microseconds since the start and thread tell an event, or a few that follow each other.
        let mut ours: HashMap<(i64, i64), VecDeque<&Value>> = HashMap::new();
        let mut kernel: HashMap<i64, VecDeque<&Value>> = HashMap::new();
        for line in &lines {
            let described =
                ["tracelogging", "event_info"].map(Value::from).contains(&line["decoded"]);
            if described && line["header"].as_str().unwrap().starts_with("EVENT") {
                let elapsed = line["raw_timestamp"].as_i64().unwrap() - start;
                let key = ((elapsed + 5) / 10, line["tid"].as_i64().unwrap());
                ours.entry(key).or_default().push_back(line);
            } else if line["decoded"] == "kernel" {
                let elapsed = line["raw_timestamp"].as_i64().unwrap() - start;
                kernel.entry((elapsed + 5) / 10).or_default().push_back(line);
            }
        }
        let text =
            std::fs::read_to_string(corpus.join(format!("decoded/{name}.traceevent.txt"))).unwrap();
        let mut compared = 0;
        let mut wrong = BTreeMap::new();
        for event in text.split("\nEVENT ").filter_map(parse_event) {
            let taken = [0, -1, 1].into_iter().find_map(|off| {
                let queue = ours.get_mut(&(event.microseconds + off, event.thread))?;
                let provider = event.name.split('/').next().unwrap();
                let place = queue.iter().position(|line| line["provider_name"] == provider)?;
                queue.remove(place)
            });
            let taken = taken.or_else(|| {
                // Many kernel events of one type have the same time. Their names are compared, and not their threads.
                let name = event.name.strip_prefix("Windows Kernel/")?.to_lowercase();
                [0, -1, 1].into_iter().find_map(|off| {
                    let queue = kernel.get_mut(&(event.microseconds + off))?;
                    let is = |line: &&Value| {
                        line["event"].as_str().is_some_and(|n| n.to_lowercase() == name)
                    };
                    let mut same = queue.iter().enumerate().filter(|(_, line)| is(line));
                    let (place, _) = same.next()?;
                    // Rundown shares its time: which of several it is cannot be told.
                    if same.next().is_some() && !name.starts_with("systemconfig") {
                        return None;
                    }
                    queue.remove(place)
                })
            });
            let Some(line) = taken else { continue };
            let fields: HashMap<String, &Value> = line["fields"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| (name.to_lowercase(), value))
                .collect();
            for (field, shown) in &event.fields {
                let Some(value) = fields.get(&field.to_lowercase()) else { continue };
                let otherwise = OTHERWISE.iter().any(|(name, other)| {
                    (name.is_empty() || *name == event.name) && other == field
                });
                if otherwise {
                    continue;
                }
                compared += 1;
                if !agree(shown, value) {
                    wrong.insert(
                        (event.name.clone(), field.clone()),
                        (shown.clone(), value.to_string()),
                    );
                }
            }
        }
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        assert!(compared >= at_least, "{name}: only {compared} fields were compared");
    }
}

struct Shown {
    name: String,
    microseconds: i64,
    thread: i64,
    fields: Vec<(String, String)>,
}

/// `12.345: Provider/Event PID=1; TID=2; …; DataLen=4; Field=value; `
fn parse_event(text: &str) -> Option<Shown> {
    let (time, rest) = text.strip_prefix("EVENT ").unwrap_or(text).split_once(": ")?;
    let (name, rest) = rest.split_once(" PID=")?;
    let thread = rest.split_once("TID=")?.1.split_once(';')?.0.parse().ok()?;
    let fields = rest.split_once("DataLen=")?.1.split_once("; ")?.1;
    let milliseconds: f64 = time.replace(',', "").parse().ok()?;
    let fields = fields.split("; ").filter_map(|part| part.split_once('='));
    Some(Shown {
        name: name.to_string(),
        microseconds: (milliseconds * 1000.0).round() as i64,
        thread,
        fields: fields.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
    })
}

/// Undoes TraceEvent's formatting: thousands, cut strings, hex, capitals.
fn agree(shown: &str, value: &Value) -> bool {
    let value = value.get("name").unwrap_or(value);
    let ours = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let number = |text: &str| -> Option<i128> {
        let text = text.replace(',', "");
        match text.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    shown.eq_ignore_ascii_case(&ours)
        || shown.strip_suffix("...").is_some_and(|start| ours.starts_with(start))
        || number(shown).is_some_and(|shown| Some(shown) == number(&ours))
        // A UInt8 or UInt16 that is a character is shown as its number.
        || ours.chars().count() == 1 && number(shown) == ours.chars().next().map(|c| c as i128)
}
