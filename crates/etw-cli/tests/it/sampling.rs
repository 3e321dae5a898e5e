//! CPU time by samples, whose interval the trace names before or behind them.

use crate::fixture::{TempFile, etw, stderr, stdout};
use crate::off_cpu::{converted, push_kernel, push_threads};
use etw_etl::write::FileBuilder;
use etw_host::report::SystemOrigin;
use etw_types::{EventRecord, ExtendedItems, HeaderType};
use serde_json::Value;

/// `CollectionEnd`
const END: u16 = 0x0f4a;
/// `SetInterval`
const SET: u16 = 0x0f48;

/// Four samples of thread 20 of process 10, and records that name the interval: time, hook, new and old interval.
fn samples(intervals: &[(i64, u16, u32, u32)]) -> TempFile {
    samples_in(FileBuilder::new(), intervals)
}

fn samples_in(mut file: FileBuilder, intervals: &[(i64, u16, u32, u32)]) -> TempFile {
    for after in [100, 200, 300, 400] {
        let sample = [&0x1234u64.to_le_bytes()[..], &20u32.to_le_bytes(), &[1, 0, 0, 0]].concat();
        push_kernel(&mut file, (0, after), (2, 0x0f2e), &sample);
    }
    for (after, hook, new, old) in intervals {
        let payload = [0, *new, *old].map(u32::to_le_bytes).concat();
        push_kernel(&mut file, (1, *after), (2, *hook), &payload);
    }
    push_threads(&mut file, 500);
    TempFile::new(&file.finish())
}

/// Nanoseconds of the first row.
fn cpu_time(path: &std::path::Path) -> Value {
    let words = ["stat", "--format", "json", "--by", "process"];
    let json: Value = serde_json::from_str(&stdout(&words, &[path], 0)).unwrap();
    json["profile"][0]["cpu_ns"].clone()
}

#[test]
fn samples_count_with_the_interval_that_the_trace_names_behind_them() {
    let file = samples(&[(450, END, 2500, 2500)]);
    assert_eq!(cpu_time(file.path()), 1_000_000);
    let folded = |file: &TempFile| String::from_utf8(converted(file, "folded", &[])).unwrap();
    assert_eq!(folded(&file), "process 10;thread 20;0x1234 1000000\n");
    let changed = samples(&[(250, SET, 5000, 2500)]);
    assert_eq!(cpu_time(changed.path()), 1_500_000);
    assert!(folded(&changed).ends_with(" 1500000\n"));
}

#[test]
fn traces_that_are_converted_together_keep_their_own_intervals() {
    let mut other_machine = FileBuilder::new();
    other_machine.header.logfile.boot_time.0 -= 20_000_000;
    let one = samples(&[(450, END, 2500, 2500)]);
    let two = samples_in(other_machine, &[(450, END, 20_000, 20_000)]);
    let out = one.path().with_extension("both");
    let words = ["convert", "--to", "folded", "-o", out.to_str().unwrap()];
    stdout(&words, &[one.path(), two.path()], 0);
    let text = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    assert_eq!(text, "process 10;thread 20;0x1234 9000000\n");
}

/// A `SystemSource` event.
pub fn push_source(file: &mut FileBuilder, has_kernel: u8, origin: SystemOrigin) {
    let chain = etw_host::report::source_chain();
    let number = origin.pid_namespace.unwrap_or(0).to_le_bytes();
    let boot_id = origin.boot_id.unwrap_or_default().0;
    let payload = [&[4, 0][..], b"perf", &[has_kernel], &number, &boot_id].concat();
    let mut source = EventRecord::new(HeaderType::Event64, &payload);
    source.provider = Some(etw_host::LEDGER_PROVIDER);
    source.extended = ExtendedItems::parse_chain(&chain).unwrap().0;
    source.order_time = file.header.start_raw + 50;
    file.push(0, &source).unwrap();
}

/// A recording without the right to record the kernel says so, and whoever reads its CPU time, too.
#[test]
fn samples_without_the_kernel_have_a_note() {
    let notes = |has_kernel: u8, with_samples: bool| {
        let mut file = FileBuilder::new();
        push_source(&mut file, has_kernel, SystemOrigin::default());
        if !with_samples {
            push_threads(&mut file, 500);
            return stderr(&etw(
                &["stat", "--by", "process"],
                &[TempFile::new(&file.finish()).path()],
            ));
        }
        let file = samples_in(file, &[(450, END, 2500, 2500)]);
        let out = file.path().with_extension("noted");
        let words = ["convert", "--to", "folded", "-o", out.to_str().unwrap()];
        let converted = stderr(&etw(&words, &[file.path()]));
        std::fs::remove_file(&out).unwrap();
        assert_eq!(converted, stderr(&etw(&["stat", "--by", "process"], &[file.path()])));
        converted
    };
    let text = notes(0, true);
    assert!(text.contains("samples lack the time that programs spent in the kernel"), "{text}");
    assert_eq!((notes(1, true), notes(0, false)), (String::new(), String::new()));
}

#[test]
fn a_filtered_trace_keeps_the_interval() {
    let file = samples(&[(50, END, 2500, 2500)]);
    let out = file.path().with_extension("filtered");
    let filter = "event == \"PerfInfo/SampleProf\" or event like \"Thread/*\"";
    stdout(&["relog", "-o", out.to_str().unwrap(), "--where", filter], &[file.path()], 0);
    let time = cpu_time(&out);
    std::fs::remove_file(&out).unwrap();
    assert_eq!(time, 1_000_000);
}

#[test]
fn a_note_says_that_an_interval_is_assumed() {
    let noted = |file: &TempFile| {
        let output = etw(&["stat", "--by", "process"], &[file.path()]);
        stderr(&output).contains("no record names the interval of the CPU samples; 1 ms is assumed")
    };
    assert!(noted(&samples(&[])));
    assert!(!noted(&samples(&[(450, END, 2500, 2500)])));
}
