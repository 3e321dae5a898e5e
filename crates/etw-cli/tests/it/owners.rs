//! Kernel events that name no thread, no function and no file: `dump --join` and `stat` find theirs in other records.

use crate::fixture::{TempFile, etw, json_lines, stderr, stdout};
use crate::off_cpu::{push_kernel, push_switch, push_threads};
use etw_etl::write::FileBuilder;
use etw_types::{EventRecord, HeaderType, UNIVERSAL_SYSTEM};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const FAULT: (u8, u16) = (2, 0x020b);
const CALL: (u8, u16) = (2, 0x0f33);
const RESULT: (u8, u16) = (2, 0x0f34);
const ADDRESS: u64 = 0xffff_ffff_816c_5eb0;

fn push_fault(file: &mut FileBuilder, at: (u16, i64)) {
    push_kernel(file, at, FAULT, &[0x1000u64, 0x2000].map(u64::to_le_bytes).concat());
}

/// On CPU 1, thread 20 of process 10 runs from 100 on, and thread 30 of process 11 from 200 to 300.
fn push_switches(file: &mut FileBuilder) {
    for (after, old, new) in [(100, 0, 20), (200, 20, 30), (300, 30, 0)] {
        push_switch(file, (1, after), old, new);
    }
}

/// Faults, and a system call that fails.
fn trace(has_switches: bool) -> TempFile {
    let mut file = FileBuilder::new();
    for at in [(1, 50), (0, 150), (1, 150), (1, 160), (1, 250)] {
        push_fault(&mut file, at);
    }
    push_kernel(&mut file, (1, 170), CALL, &ADDRESS.to_le_bytes());
    push_kernel(&mut file, (1, 180), RESULT, &(-2i32).to_le_bytes());
    if has_switches {
        push_switches(&mut file);
    }
    push_threads(&mut file, 1100);
    TempFile::new(&file.finish())
}

fn counted(words: &[&str], file: &TempFile) -> Value {
    let words = [&["stat", "--format", "json"][..], words].concat();
    serde_json::from_str(&stdout(&words, &[file.path()], 0)).unwrap()
}

#[test]
fn faults_and_system_calls_belong_to_the_thread_that_ran() {
    let file = trace(true);
    let ids = |line: &Value| (line["process"]["pid"].clone(), line["event"].clone());
    let joined = ["dump", "--join", "--format", "json", "--where"];
    let lines = |expression: &str| {
        let words = [&joined[..], &[expression]].concat();
        json_lines(&stdout(&words, &[file.path()], 0)).iter().map(ids).collect::<Vec<_>>()
    };
    let fault = json!("PageFault/DemandZeroFault");
    let of_10 = (json!(10), fault.clone());
    let faults = lines("event like 'PageFault/*'");
    let nobodys = (Value::Null, fault.clone());
    assert_eq!(faults, [nobodys.clone(), nobodys, of_10.clone(), of_10, (json!(11), fault)]);
    assert_eq!(lines("pid == 10 and event like 'PerfInfo/*'").len(), 2);
    assert_eq!(lines("tid == 30 and event like 'PageFault/*'").len(), 1);

    let process = |json: &Value, pid: Value| {
        let rows = json["by_process"].as_array().unwrap();
        rows.iter().find(|row| row["pid"] == pid).map_or(0, |row| row["count"].as_u64().unwrap())
    };
    // With the switch that brought the thread.
    let all = counted(&["--by", "process"], &file);
    assert_eq!((process(&all, 10.into()), process(&all, 11.into())), (5, 2), "{all}");
    let faults = counted(&["--by", "process", "--where", "event like 'PageFault/*'"], &file);
    let of = [json!(10), json!(11), Value::Null].map(|pid| process(&faults, pid));
    assert_eq!(of, [2, 1, 2], "{faults}");
    let groups = counted(&["--by", "pid", "--where", "event like 'PageFault/*'"], &file);
    let mut rows = groups["groups"].as_array().unwrap().iter();
    assert!(rows.any(|row| *row == json!({"by": {"pid": 10}, "count": 2})), "{groups}");
}

/// Regression: `relog`, and `dump` without names, tested the ids that headers store; and `stat --by process` counted as it went, by the
/// process that a thread belonged to at the end.
#[test]
fn all_commands_have_the_same_owners() {
    let mut file = FileBuilder::new();
    // Two lives of process 10 with other names, one of process 11, and the thread 20 in both processes.
    let process = |id: u32, name: &str| {
        [&[0; 8][..], &id.to_le_bytes(), &[0; 28], name.as_bytes(), &[0; 7]].concat()
    };
    let thread = |process: u32, thread: u32| {
        [&process.to_le_bytes()[..], &thread.to_le_bytes(), &[0; 64]].concat()
    };
    let (start, end) = ((4, 0x0301), (4, 0x0302));
    let (thread_start, thread_end) = ((3, 0x0501), (3, 0x0502));
    push_switch(&mut file, (1, 100), 0, 20);
    push_fault(&mut file, (1, 110));
    push_kernel(&mut file, (0, 150), thread_end, &thread(10, 20));
    push_kernel(&mut file, (0, 160), end, &process(10, "first"));
    push_kernel(&mut file, (0, 200), start, &process(10, "second"));
    push_kernel(&mut file, (0, 210), start, &process(11, "third"));
    push_kernel(&mut file, (0, 220), thread_start, &thread(11, 20));
    push_switch(&mut file, (1, 230), 20, 0);
    push_switch(&mut file, (1, 240), 0, 20);
    push_fault(&mut file, (1, 250));
    push_fault(&mut file, (1, 260));
    // Nobody ran on its CPU, and its stack, which comes behind it, has the thread.
    let at = file.header.start_raw + 270;
    push_kernel(&mut file, (0, 270), FAULT, &[0; 16]);
    let stack = [&at.to_le_bytes()[..], &11u32.to_le_bytes(), &20u32.to_le_bytes(), &[1; 8]];
    push_kernel(&mut file, (0, 271), (2, 0x1820), &stack.concat());
    let file = TempFile::new(&file.finish());

    let joined = json_lines(&stdout(&["dump", "--join", "--json"], &[file.path()], 0));
    let mut shown: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in &joined {
        let process = &line["process"];
        let key = (process["pid"].to_string(), process["name"].to_string());
        *shown.entry(key).or_default() += 1;
    }
    let all = counted(&["--by", "process"], &file);
    let rows = all["by_process"].as_array().unwrap().iter().map(|row| {
        ((row["pid"].to_string(), row["name"].to_string()), row["count"].as_u64().unwrap())
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), shown, "{all}");
    let named = |pid: u32, name: &str| shown[&(pid.to_string(), format!("{name:?}"))];
    assert!(named(10, "first") > named(10, "second"), "{shown:?}");

    let out = TempFile::new(&[]);
    for (expression, pids) in [
        ("pid == 10", &[10u32][..]),
        ("pid == 11 and event like 'PageFault/*'", &[11]),
        ("process == 'second'", &[10]),
        ("tid == 20", &[10, 11]),
        ("pid == 12", &[]),
    ] {
        let lines = |words: &[&str]| {
            let words = [&["dump", "--json"][..], words, &["--where", expression]].concat();
            json_lines(&stdout(&words, &[file.path()], 0))
        };
        let (with_names, plain) = (lines(&["--join"]), lines(&[]));
        let found: BTreeSet<u64> =
            with_names.iter().filter_map(|line| line["process"]["pid"].as_u64()).collect();
        assert_eq!(found, pids.iter().map(|pid| u64::from(*pid)).collect(), "{expression}");
        let times = |lines: &[Value]| lines.iter().map(|line| line["timestamp"].clone()).collect();
        let expected: Vec<Value> = times(&with_names);
        assert_eq!(times(&plain), expected, "{expression}");
        let count = expected.len();
        assert_eq!(counted(&["--where", expression], &file)["records"], count, "{expression}");
        let path = out.path().to_str().unwrap();
        let relog = ["relog", "--json", "--force", "--where", expression, "-o", path];
        assert!(etw(&relog, &[file.path()]).status.success());
        let kept = json_lines(&stdout(&["dump", "--json"], &[out.path()], 0));
        let kept: Vec<Value> = times(&kept).into_iter().filter(|t| expected.contains(t)).collect();
        assert_eq!(kept, expected, "{expression}");
        let by_header = expression.replace("pid", "header.pid");
        if by_header != expression {
            let none = stdout(&["dump", "--where", &by_header], &[file.path()], 0);
            assert_eq!(none, "", "{by_header}");
        }
    }
}

/// A switch that takes away another thread than the last one brought has lost one before it.
#[test]
fn nobody_owns_what_happened_around_a_missing_switch() {
    let mut file = FileBuilder::new();
    push_switch(&mut file, (1, 100), 0, 20);
    push_fault(&mut file, (1, 150));
    push_switch(&mut file, (1, 200), 30, 20);
    push_fault(&mut file, (1, 250));
    push_threads(&mut file, 1100);
    let file = TempFile::new(&file.finish());
    let json = counted(&["--by", "process", "--where", "event like 'PageFault/*'"], &file);
    let rows = json["by_process"].as_array().unwrap();
    let row = |pid: Value| rows.iter().find(|row| row["pid"] == pid).unwrap()["count"].clone();
    assert_eq!((row(json!(10)), row(Value::Null)), (json!(1), json!(1)));
    let words = ["dump", "--join", "--where", "event like 'PageFault/*' and pid == 10"];
    assert_eq!(stdout(&words, &[file.path()], 0).lines().count(), 1);
}

/// A filter says which records have no process, and why.
#[test]
fn notes_say_why_records_have_no_process() {
    let (with, without) = (trace(true), trace(false));
    let note = |words: &[&str], file: &TempFile| {
        let words = [words, &["--where", "pid == 10"]].concat();
        stderr(&etw(&words, &[file.path()]))
    };
    for words in [&["dump"][..], &["dump", "--join"], &["stat"], &["stat", "--by", "pid"]] {
        let found = note(words, &without);
        assert!(found.contains("7 records with no known process"), "{found}");
        assert!(!note(words, &with).contains("known process"), "{words:?}");
    }
}

#[test]
fn a_system_call_has_the_name_of_its_function_and_its_address_is_in_hex() {
    let mut file = FileBuilder::new();
    // The compiled form of `u64` numbers: seven bits in each byte.
    let leb = |mut number: u64| {
        let mut bytes = Vec::new();
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let name = b"__x64_sys_execve";
    let ends = [leb(ADDRESS), leb(ADDRESS + 0x3f), vec![name.len() as u8, 0]].concat();
    let symbol = [&[1, 2][..], &ends, name].concat();
    let mut record = EventRecord::new(HeaderType::Event64, &symbol);
    (record.provider, record.descriptor.id) = (Some(UNIVERSAL_SYSTEM), 4);
    (record.process_id, record.thread_id) = (Some(0), Some(0));
    record.order_time = file.header.start_raw + 500;
    push_kernel(&mut file, (1, 170), CALL, &ADDRESS.to_le_bytes());
    file.push(0, &record).unwrap();
    let base = (ADDRESS & !0xff_ffff).to_le_bytes();
    let path = "vmlinux".encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
    let image = [&base[..], &0x200_0000u64.to_le_bytes(), &[0; 16], &base, &[0; 16]].concat();
    let image: Vec<u8> = image.into_iter().chain(path).collect();
    push_kernel(&mut file, (0, 510), (3, 0x1403), &image);
    let file = TempFile::new(&file.finish());
    let calls = ["--where", "event == 'PerfInfo/SysClEnter'"];
    let dumped =
        |words: &[&str]| stdout(&[&["dump", "--join"], words, &calls].concat(), &[file.path()], 0);
    let line = &json_lines(&dumped(&["--json"]))[0];
    assert_eq!(line["function"], "vmlinux!__x64_sys_execve", "{line}");
    assert!(dumped(&[]).contains(" function=vmlinux!__x64_sys_execve"));

    let hex = format!("{ADDRESS:#x}");
    let columns = ["--columns", "SysCallAddress"];
    assert_eq!(dumped(&columns), format!("SysCallAddress\n{hex}\n"));
    let column = [&columns[..], &["--format", "json"]].concat();
    assert_eq!(json_lines(&dumped(&column)), [json!({"SysCallAddress": hex})]);
    let words = [&["--by", "SysCallAddress", "--sum", "SysCallAddress"][..], &calls].concat();
    let group = counted(&words, &file)["groups"][0].clone();
    assert_eq!(group["by"], json!({"SysCallAddress": hex}));
    assert_eq!(group["sum"].as_f64(), Some(ADDRESS as f64), "a pointer is a number");
}

#[test]
fn results_are_compared_with_negative_numbers() {
    let file = trace(false);
    for expression in ["SysCallNtStatus == -2", "SysCallNtStatus in (-4095..-1)"] {
        let words = ["dump", "--where", expression];
        assert_eq!(stdout(&words, &[file.path()], 0).lines().count(), 1, "{expression}");
    }
}

/// Writes to a file whose name a record at the end has, and an event with a field `file`.
#[test]
fn the_file_of_an_event_can_be_tested_and_counted() {
    let mut file = FileBuilder::new();
    for (after, key) in [(10, 0x77u64), (20, 0x77), (30, 0x88)] {
        let write = [&[0; 16][..], &7u64.to_le_bytes(), &key.to_le_bytes(), &20u32.to_le_bytes()];
        push_kernel(&mut file, (0, after), (3, 0x0444), &[&write.concat()[..], &[0; 12]].concat());
    }
    for (key, path) in [(0x77u64, "/tmp/srv.log"), (0x88, "/tmp/other")] {
        let path = path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
        let name: Vec<u8> = key.to_le_bytes().into_iter().chain(path).collect();
        push_kernel(&mut file, (0, 900), (2, 0x0424), &name);
    }
    push_threads(&mut file, 1100);
    let file = TempFile::new(&file.finish());
    let writes = "event == 'FileIo/Write'";
    for name in ["file", "file_name", "FILE"] {
        let filter = format!("{name} like '*srv.log' and {writes}");
        let words = ["dump", "--join", "--where", &filter];
        assert_eq!(stdout(&words, &[file.path()], 0).lines().count(), 2, "{name}");
        let groups = counted(&["--by", &format!("pid,{name}"), "--where", &filter], &file);
        let by = json!({"pid": 10, name.to_lowercase(): "/tmp/srv.log"});
        assert_eq!(groups["groups"], json!([{"by": by, "count": 2}]));
        assert_eq!(counted(&["--where", &filter], &file)["records"], 2);
    }
    let columns = ["dump", "--join", "--columns", "file,file_name", "--where", writes, "-n", "1"];
    let shown = stdout(&columns, &[file.path()], 0);
    assert_eq!(shown, "file\tfile_name\n/tmp/srv.log\t/tmp/srv.log\n");

    let note = |words: &[&str]| stderr(&etw(words, &[file.path()]));
    let plain = ["dump", "--where", "file like '*srv.log' and event == 'FileIo/Write'"];
    assert_eq!(stdout(&plain, &[file.path()], 0).lines().count(), 2);
    let found = note(&["dump", "--join", "--where", "thread_name == 'x'"]);
    assert!(found.contains("process, pid, tid and file can be tested"), "{found}");
    // A field of that name is tested where no file is known.
    let greeting = TempFile::new(&crate::fixture::greetings(1));
    let found = stderr(&etw(&["dump", "--where", "fields.file == 'x'"], &[greeting.path()]));
    assert!(found.contains("no event has a field file"), "{found}");
}
