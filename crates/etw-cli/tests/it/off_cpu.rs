//! Context switches: time off the CPU, and who ran on each CPU.

use crate::fixture::{TempFile, stdout};
use etw_etl::write::FileBuilder;
use etw_types::{EventRecord, HeaderType, Hook};
use serde_json::Value;

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
    let out = file.path().with_extension("folded");
    let name = out.to_str().unwrap();
    let words = ["convert", "--to", "folded", "--weight", "off-cpu", "--where", "pid == 10", "-o"];
    stdout(&[&words[..], &[name]].concat(), &[file.path()], 0);
    let folded = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    assert_eq!(folded, "process 10;thread 20;[UserRequest] 70000\n");
}
