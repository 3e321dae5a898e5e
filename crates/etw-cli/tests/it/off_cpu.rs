//! Context switches: time off the CPU, and who ran on each CPU.

use crate::fixture::{PROVIDER, TempFile, stdout};
use crate::perfetto;
use etw_etl::write::FileBuilder;
use etw_types::{EventRecord, HeaderType, Hook, LOST_EVENT, Opcode};
use serde_json::Value;
use std::collections::HashMap;

pub fn push_kernel(
    file: &mut FileBuilder,
    (cpu, after): (u16, i64),
    (version, hook): (u8, u16),
    payload: &[u8],
) {
    let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
    record.hook = Some(Hook(hook));
    record.descriptor.version = version;
    record.order_time = file.header.start_raw + after;
    file.push(cpu, &record).unwrap();
}

/// A thread leaves a CPU to another one. The old one waits.
pub fn push_switch(file: &mut FileBuilder, (cpu, after): (u16, i64), old: u32, new: u32) {
    let payload =
        [&new.to_le_bytes()[..], &old.to_le_bytes(), &[0; 4], &[6, 1, 5, 0], &[0; 8]].concat();
    push_kernel(file, (cpu, after), (2, 0x0524), &payload);
}

/// The processes of threads 20 and 30.
pub fn push_threads(file: &mut FileBuilder, after: i64) {
    for (process, thread) in [(10u32, 20u32), (11, 30)] {
        let thread = [&process.to_le_bytes()[..], &thread.to_le_bytes(), &[0; 64]].concat();
        push_kernel(file, (0, after), (3, 0x0504), &thread);
    }
}

/// Thread 20 of process 10 waits twice: 30 µs while thread 30 of process 11 runs, and 40 µs while that runs and then nobody.
fn waits() -> TempFile {
    let mut file = FileBuilder::new();
    for (after, old, new) in
        [(100, 0, 20), (200, 20, 30), (500, 30, 20), (600, 20, 30), (800, 30, 0), (1000, 0, 20)]
    {
        push_switch(&mut file, (1, after), old, new);
    }
    push_threads(&mut file, 1100);
    TempFile::new(&file.finish())
}

/// A filter selects the rows that are shown; waits are as long as they are without it.
#[test]
fn a_filter_leaves_the_times_of_waits_as_they_are() {
    let file = waits();
    let rows = |by: &str, filter: &[&str]| {
        let words = [&["stat", "--format", "json", "--by", by][..], filter].concat();
        let json: Value = serde_json::from_str(&stdout(&words, &[file.path()], 0)).unwrap();
        json["profile"].as_array().unwrap().clone()
    };
    for by in ["process", "thread"] {
        let all = rows(by, &[]);
        assert_eq!(all.len(), 2);
        let own = |row: &&Value| row[by].as_str().unwrap().contains("10");
        let own = all.iter().find(own).unwrap();
        assert_eq!((&own["off_cpu_ns"], &own["waits"]), (&70_000.into(), &2.into()));
        for filter in ["pid == 10", "tid == 20"] {
            assert_eq!(&rows(by, &["--where", filter])[..], std::slice::from_ref(own), "{filter}");
        }
    }
    for by in ["module", "function"] {
        let own = &rows(by, &["--where", "pid == 10"])[0];
        assert_eq!((&own["off_cpu_ns"], &own["waits"]), (&70_000.into(), &2.into()));
    }
    let options = ["--weight", "off-cpu", "--where", "pid == 10"];
    let folded = String::from_utf8(converted(&file, "folded", &options)).unwrap();
    assert_eq!(folded, "process 10;thread 20;[UserRequest] 70000\n");
}

/// With `--top`, each table has as many rows, and the profile those with the most time on the CPU and off it.
#[test]
fn each_table_has_as_many_rows_as_asked_for() {
    let mut file = FileBuilder::new();
    let sample = |thread: u32| [&[0; 8][..], &thread.to_le_bytes(), &[1, 0, 0, 0]].concat();
    for after in [100, 10_100, 20_100] {
        push_kernel(&mut file, (0, after), (2, 0x0f2e), &sample(30));
    }
    push_kernel(&mut file, (0, 30_100), (2, 0x0f2e), &sample(20));
    push_switch(&mut file, (0, 30_200), 20, 0);
    push_switch(&mut file, (0, 90_200), 0, 20);
    for (process, thread) in [(10u32, 20u32), (11, 30), (12, 40)] {
        let thread = [&process.to_le_bytes()[..], &thread.to_le_bytes(), &[0; 64]].concat();
        push_kernel(&mut file, (0, 90_300), (3, 0x0504), &thread);
    }
    let file = TempFile::new(&file.finish());
    let words = ["stat", "--by", "process", "--top", "1"];
    let json = stdout(&[&words[..], &["--json"]].concat(), &[file.path()], 0);
    let json: Value = serde_json::from_str(&json).unwrap();
    let rows = |name: &str| json[name].as_array().unwrap().clone();
    assert_eq!((rows("by_process").len(), rows("by_provider").len()), (1, 1));
    let profile = rows("profile");
    let names: Vec<_> = profile.iter().map(|row| row["process"].as_str().unwrap()).collect();
    assert_eq!(names, ["process 11", "process 10"], "the most samples, and the longest wait");
    let text = stdout(&words, &[file.path()], 0);
    assert!(text.contains("in 4 further rows"), "{text}");
    let by_provider = stdout(&["stat", "--by", "provider", "--top", "1"], &[file.path()], 0);
    assert!(by_provider.contains(" further row"), "{by_provider}");
    let text = stdout(&["stat", "--top", "1"], &[file.path()], 0);
    assert!(text.contains("further kinds of events"), "{text}");
}

/// `-o -` is standard output, without another line on it.
#[test]
fn a_conversion_can_go_to_standard_output() {
    let file = waits();
    let options = ["convert", "--to", "folded", "--weight", "off-cpu", "-o", "-"];
    let folded = stdout(&[&options[..], &["--where", "pid == 10"]].concat(), &[file.path()], 0);
    assert_eq!(folded, "process 10;thread 20;[UserRequest] 70000\n");
    stdout(&[&options[..], &["--json"]].concat(), &[file.path()], 2);
    stdout(&["convert", "--to", "evtx", "-o", "-"], &[file.path()], 3);
}

/// Bytes of a conversion.
pub fn converted(file: &TempFile, format: &str, options: &[&str]) -> Vec<u8> {
    let out = file.path().with_extension(format);
    let words = ["convert", "--to", format, "-o", out.to_str().unwrap()];
    stdout(&[&words[..], options].concat(), &[file.path()], 0);
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    bytes
}

/// The slices of all tracks: the track's name, the slice's, begin and end. Every begin has its end, and no end is alone.
fn slices(perfetto: &[u8]) -> Vec<(String, String, u64, u64)> {
    let (mut open, mut slices) = (HashMap::new(), Vec::new());
    let trace = perfetto::read(perfetto);
    for event in trace.events {
        let open: &mut Vec<(String, u64)> = open.entry(event.track).or_default();
        match event.kind {
            perfetto::SLICE_BEGIN => open.push((event.name, event.time)),
            perfetto::SLICE_END => {
                let (name, start) = open.pop().expect("an end has a begin");
                slices.push((trace.tracks[&event.track].clone(), name, start, event.time));
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "left open: {open:?}");
    slices.sort_by_key(|slice| (slice.0.clone(), slice.2));
    slices
}

/// Switches of two CPUs: one lacks the record of a switch, and later there is a loss; threads run when the trace ends.
fn broken_switches() -> TempFile {
    let mut file = FileBuilder::new();
    for (after, old, new) in [(100, 0, 20), (200, 20, 30), (300, 0, 20), (500, 20, 30)] {
        push_switch(&mut file, (1, after), old, new);
    }
    let start = file.header.start_raw;
    let mut lost = EventRecord::new(HeaderType::Full64, &[]);
    (lost.provider, lost.descriptor.opcode) = (Some(LOST_EVENT), Opcode(32));
    lost.order_time = start + 400;
    file.push(0, &lost).unwrap();
    push_switch(&mut file, (0, 600), 0, 20);
    for (after, opcode) in [(700, Opcode::STOP), (800, Opcode::START), (900, Opcode::START)] {
        let mut event = EventRecord::new(HeaderType::Event64, &[]);
        (event.provider, event.descriptor.opcode) = (Some(PROVIDER), opcode);
        (event.process_id, event.thread_id) = (Some(10), Some(20));
        event.order_time = start + after;
        file.push(0, &event).unwrap();
    }
    push_threads(&mut file, 1100);
    TempFile::new(&file.finish())
}

/// The slice of a CPU ends at its next switch and with the trace, and has no time in which switches are missing, whatever a filter selects.
#[test]
fn slices_of_cpus_and_threads_have_ends() {
    let file = broken_switches();
    let cpu_0 = ("CPU 0", "? (20)", 600, 1100);
    let all = [
        cpu_0,
        ("CPU 1", "? (20)", 100, 200),
        ("CPU 1", "? (20)", 400, 500),
        ("CPU 1", "? (30)", 500, 1100),
    ];
    let of_20 = [cpu_0, all[1], all[2]];
    for (filter, expected) in [
        (&[][..], &all[..]),
        (&["--where", "pid == 10"], &of_20),
        (&["--where", "tid == 20"], &of_20),
    ] {
        let found = slices(&converted(&file, "perfetto", filter));
        let on_cpus: Vec<_> = found.iter().filter(|slice| slice.0.starts_with("CPU")).collect();
        let start = on_cpus.iter().map(|slice| slice.2).min().unwrap() - 10_000;
        let ticks = |time: u64| (time - start) / 100;
        let shown: Vec<_> = on_cpus
            .iter()
            .map(|(track, name, from, to)| (&track[..], &name[..], ticks(*from), ticks(*to)))
            .collect();
        assert_eq!(shown, expected, "{filter:?}");
        let of_events = found.iter().filter(|slice| slice.1.starts_with("event "));
        // Starts without a stop are points.
        assert_eq!(of_events.count(), 0, "{found:?}");

        let chrome: Value = serde_json::from_slice(&converted(&file, "chrome", filter)).unwrap();
        let runs = chrome["traceEvents"].as_array().unwrap().iter();
        let runs = runs.filter(|run| run["ph"] == "X" && run["cat"].is_null());
        let ticks = |run: &Value| (run["dur"].as_f64().unwrap() * 10.0).round() as u64;
        let mut durations: Vec<_> = runs.map(|run| (run["tid"].as_u64(), ticks(run))).collect();
        durations.sort_unstable();
        let on = |slice: &(&str, &str, u64, u64)| {
            (Some(u64::from(slice.0 == "CPU 1")), slice.3 - slice.2)
        };
        let mut wanted: Vec<_> = expected.iter().map(on).collect();
        wanted.sort_unstable();
        assert_eq!(durations, wanted, "{filter:?}");
    }
}
