//! A C program with a classic provider, and what its sessions have of it.

use std::path::Path;
use std::process::Command;

use etw_etl::read::{Records, TraceFile};
use etw_types::HeaderType;
use etwd::{Host, HostOptions};

use crate::support::*;

const MOF: &str = r#"
[Guid("{c1a551c0-1111-2222-0102-030405060708}"), DisplayName("Shop") : amended] class Shop : EventTrace {};
[Guid("{c1a551c2-1111-2222-0102-030405060708}"), EventVersion(2), DisplayName("Order") : amended] class Order : Shop {};
[EventType{1, 2}, EventTypeName{"Begin", "End"}] class Order_Type : Order {
  [WmiDataId(1)] uint32 Number;
  [WmiDataId(2), StringTermination("NullTerminated")] string Name;
};
"#;

const TMF: &str = r#"// PDB: shop.pdb
c1a551c4-1111-2222-0102-030405060708 shop // SRC=shop.c MJ= MN=
#typev shop_c20 10 "%0%10!d! glasses of %11!s!" //   LEVEL=TRACE_LEVEL_INFORMATION FLAGS=SALES FUNC=sell
{
count, ItemLong -- 10
what, ItemString -- 11
}
#typev shop_c30 11 "%0change %10!d!" //   LEVEL=TRACE_LEVEL_INFORMATION FLAGS=SALES FUNC=pay
{
change, ItemLong -- 10
}
"#;

/// The output of `etw dump` for a file: a line for each record, `header event fields`, with the other members of the header.
fn dump(folder: &Folder, file: &Path) -> Vec<String> {
    let (mof, tmf) = (folder.0.join("shop.mof"), folder.0.join("shop.tmf"));
    std::fs::write(&mof, MOF).unwrap();
    std::fs::write(&tmf, TMF).unwrap();
    let output = Command::new(command_line())
        .args(["dump", "--format", "json", "--mof"])
        .arg(&mof)
        .arg("--tmf")
        .args([&tmf, file])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Those that were too large.
    assert!(said.lines().count() == 1 && said.contains("lost 5 events and 0 buffers"), "{said}");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = Vec::new();
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let header = record["header"].as_str().unwrap();
        if record["decoded"] == "header" || header == "EVENT64" {
            continue;
        }
        let text = |key: &str| record[key].to_string();
        let what = match &record["message"] {
            serde_json::Value::String(message) => message.clone(),
            _ if record["decoded"].is_null() => text("payload"),
            _ => text("fields"),
        };
        let level = text("level");
        lines.push(format!("{header} {} {} {level} {what}", text("event"), text("id")));
        let by = [&record["pid"], &record["tid"], &record["timestamp"]];
        let is_known = by.iter().all(|value| !value.is_null());
        // Messages without system information and time.
        assert_eq!(is_known, header != "MESSAGE" || ["10", "11"].contains(&&*text("id")), "{line}");
    }
    lines
}

fn expected(first: &[&str], last: &[u32]) -> Vec<String> {
    let order = |number: u32, name: &str| {
        format!(r#"FULL64 "Order/Begin" null 4 {{"Name":"{name}","Number":{number}}}"#)
    };
    let mut all = vec![order(1, "tea"), order(2, "coffee"), order(3, "water")];
    all.extend(first.iter().map(|line| line.to_string()));
    all.extend(last.iter().map(|number| order(*number, "tea")));
    all
}

/// P1, OV-12: classic events are written in a signal handler, in the middle of other ones, and nothing is allocated for them; each is recorded or
/// refused.
#[test]
fn classic_events_in_a_signal_handler() {
    let counting = Compiler(
        "gcc",
        &[
            "-std=c11",
            "-O2",
            "-DCOUNT_ALLOCATIONS",
            "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc",
        ],
    );
    let folder = Folder::new("classic-safety");
    // The library's allocations are counted, too.
    let Some(program) = compile_static(&folder, "classic_safety.c", counting) else { return };
    let file = folder.0.join("safety.etl");
    let output = Command::new(program)
        .env("ETW_RUNTIME_DIR", folder.0.join("run"))
        .env("TRACE_OUT", &file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{:?} {said}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = text.split_ascii_whitespace().map(|n| n.parse().unwrap()).collect();
    let [taken, in_handler, _refused, allocations] = numbers[..] else { panic!("{text}") };
    assert!(in_handler >= 300 && allocations == 0, "{text}");
    let mut records = Records::new(vec![TraceFile::open(&file).unwrap()]);
    let mut found = 0;
    let mut last = 0;
    while let Some(record) = records.next() {
        let payload = match record.header {
            HeaderType::Full64 | HeaderType::Message => &b"text\0"[..],
            HeaderType::Instance64 => &[0; 8],
            _ => continue,
        };
        assert_eq!(record.payload, payload);
        last = last.max(record.sequence.unwrap_or(0));
        found += 1;
    }
    assert!(records.damage().is_empty());
    assert_eq!(found, taken + in_handler, "{text}");
    assert!(u64::from(last) * 3 >= found / 2 && u64::from(last) < found);
}

/// OV-12: a classic provider from C, with every compiler: callbacks, statuses, the newest session, all forms of events under a private and a
/// global session, decoded by MOF and TMF.
#[test]
fn classic_providers_from_c() {
    let most = format!(r#"MESSAGE null 16 null "{}""#, "6162".repeat(64));
    let long = format!(r#"MESSAGE null 18 null "{}61{}""#, "63".repeat(65), "63".repeat(90));
    let forms = [
        // 16 fields, of which three have data.
        r#"FULL64 "Order/Begin" null 4 {"Name":"water","Number":3}"#,
        r#"INSTANCE64 "Order/Begin" null 0 {"Name":"ice","Number":5}"#,
        r#"INSTANCE64 "Order/Begin" null 0 {"Name":"ice","Number":5}"#,
        r#"MESSAGE "shop_c20" 10 null -6 glasses of juice"#,
        r#"MESSAGE "shop_c30" 11 null change -6"#,
        r#"MESSAGE null 12 null """#,
        r#"MESSAGE null 13 null "6162616261626162616261626162616261626162""#,
        &most,
        &most,
        &long,
    ];
    let mut ran = 0;
    // The last one with the shared library, whose symbols of variadic functions are made apart.
    let compilers = COMPILERS.into_iter().chain([COMPILERS[0]]);
    for (number, compiler) in compilers.enumerate() {
        let folder = Folder::new(&format!("classic-{number}"));
        let compile = if number < COMPILERS.len() { compile } else { compile_shared };
        let Some(program) = compile(&folder, "classic.c", compiler) else { continue };
        let directory = folder.0.join("run");
        let _host = Host::start(HostOptions::new(&directory)).unwrap();
        let (private, global) = (folder.0.join("private.etl"), folder.0.join("global.etl"));
        let output = Command::new(program)
            .env("ETW_RUNTIME_DIR", &directory)
            .env_remove("ETW_DAEMON")
            .env_remove("ETW_RECORD_DIR")
            .env("PRIVATE_OUT", &private)
            .env("GLOBAL_OUT", &global)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        for (file, last) in [(&private, &[104][..]), (&global, &[101, 102, 106, 108])] {
            let found = dump(&folder, file);
            assert_eq!(found, expected(&forms, last), "{compiler:?}");
        }
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}
