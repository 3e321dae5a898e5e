//! Context switches that are missing, that belong to a thread that died, or that two sessions recorded.

use crate::fixture::{TempFile, etw, stderr, stdout};
use crate::off_cpu::{converted, push_kernel, push_threads};
use etw_etl::write::FileBuilder;
use etw_host::report::SystemOrigin;
use etw_types::{EventRecord, Guid, HeaderType, LOST_EVENT, LogFileMode, Opcode};
use serde_json::Value;
use std::path::Path;

const WAITS: u8 = 5;
const ENDED: u8 = 4;

fn push_switch(file: &mut FileBuilder, at: (u16, i64), (old, new): (u32, u32), state: u8) {
    let payload =
        [&new.to_le_bytes()[..], &old.to_le_bytes(), &[0; 4], &[6, 1, state, 0], &[0; 8]].concat();
    push_kernel(file, at, (2, 0x0524), &payload);
}

fn push_loss(file: &mut FileBuilder, (cpu, after): (u16, i64), kind: u8) {
    let mut lost = EventRecord::new(HeaderType::Full64, &[]);
    (lost.provider, lost.descriptor.opcode) = (Some(LOST_EVENT), Opcode(kind));
    lost.order_time = file.header.start_raw + after;
    file.push(cpu, &lost).unwrap();
}

/// CPU time and time off the CPU in nanoseconds, and waits of thread 20.
fn figures(file: &TempFile) -> (i64, i64, i64) {
    let words = ["stat", "--format", "json", "--by", "thread", "--where", "tid == 20"];
    let json: Value = serde_json::from_str(&stdout(&words, &[file.path()], 0)).unwrap();
    let number = |name: &str| json["profile"][0][name].as_i64().unwrap_or(0);
    (number("cpu_ns"), number("off_cpu_ns"), number("waits"))
}

/// The slices of Chrome's form: thread or CPU, begin and end in 100 ns since the first record, and whether they are off the CPU.
fn slices(file: &TempFile) -> Vec<(u64, i64, i64, bool)> {
    let json: Value = serde_json::from_slice(&converted(file, "chrome", &[])).unwrap();
    let events = json["traceEvents"].as_array().unwrap().iter();
    let ticks = |event: &Value, name: &str| (event[name].as_f64().unwrap() * 10.0).round() as i64;
    let slice = |event: &Value| {
        let start = ticks(event, "ts");
        let is_off = event["cat"] == "off_cpu";
        (event["tid"].as_u64().unwrap(), start, start + ticks(event, "dur"), is_off)
    };
    let mut slices: Vec<_> = events.filter(|event| event["ph"] == "X").map(slice).collect();
    slices.sort_unstable();
    slices
}

/// Thread 20 waits from 200 to 6000 and CPU 1 lacks switches between 300 and 5000: the thread may have run there.
#[test]
fn nothing_is_off_or_on_a_cpu_while_switches_are_missing() {
    for kind in [Some(32), Some(33), Some(34), None] {
        let mut file = FileBuilder::new();
        push_switch(&mut file, (0, 100), (0, 20), 1);
        push_switch(&mut file, (0, 200), (20, 0), WAITS);
        push_switch(&mut file, (1, 300), (0, 30), 1);
        if let Some(kind) = kind {
            push_loss(&mut file, (1, 5000), kind);
            push_switch(&mut file, (1, 5100), (30, 0), WAITS);
        } else {
            // Nobody saw the switch to this thread.
            push_switch(&mut file, (1, 5000), (31, 0), WAITS);
        }
        push_switch(&mut file, (0, 6000), (0, 20), 1);
        push_switch(&mut file, (0, 6500), (20, 0), WAITS);
        push_threads(&mut file, 7000);
        let file = TempFile::new(&file.finish());
        assert_eq!(figures(&file), (0, 110_000, 1), "{kind:?}");
        let all = slices(&file);
        let start = all.iter().map(|slice| slice.1).min().unwrap() - 100;
        let shown: Vec<_> =
            all.iter().map(|one| (one.0, one.1 - start, one.2 - start, one.3)).collect();
        let mut expected = vec![(0, 100, 200, false), (0, 6000, 6500, false)];
        if kind.is_some() {
            expected.push((1, 5000, 5100, false));
        }
        expected.extend([(20, 200, 300, true), (20, 5000, 6000, true)]);
        assert_eq!(shown, expected, "{kind:?}");
    }
}

/// Thread 20 dies and its id is used again.
#[test]
fn a_thread_has_no_wait_of_the_one_that_had_its_id() {
    let thread = [&10u32.to_le_bytes()[..], &20u32.to_le_bytes(), &[0; 64]].concat();
    let first = [&20u32.to_le_bytes()[..], &10u32.to_le_bytes(), &[0; 64]].concat();
    let process = [&[0; 8][..], &10u32.to_le_bytes(), &[0; 64]].concat();
    for (state, record) in [
        (ENDED, None),
        (WAITS, Some(((3, 0x0501), &thread))),
        (WAITS, Some(((3, 0x0502), &thread))),
        (WAITS, Some(((0, 0x0501), &first))),
        (WAITS, Some(((4, 0x0301), &process))),
    ] {
        let mut file = FileBuilder::new();
        push_switch(&mut file, (0, 100), (0, 20), 1);
        push_switch(&mut file, (0, 200), (20, 0), state);
        if let Some((kind, payload)) = record {
            push_kernel(&mut file, (1, 9000), kind, payload);
        }
        push_switch(&mut file, (0, 9100), (0, 20), 1);
        push_switch(&mut file, (0, 9200), (20, 0), WAITS);
        push_switch(&mut file, (0, 9300), (0, 20), 1);
        push_threads(&mut file, 9500);
        let file = TempFile::new(&file.finish());
        let kind = record.map(|(kind, _)| kind);
        assert_eq!(figures(&file), (0, 10_000, 1), "{kind:?}");
    }
}

/// Milliseconds of samples of thread 20 of a session, and its switches: it waits 30 µs.
fn push_session(file: &mut FileBuilder, late: i64) {
    let interval = [0u32, 10_000, 0].map(u32::to_le_bytes).concat();
    push_kernel(file, (0, 10 + late), (2, 0x0f49), &interval);
    for (after, switch) in [(100, (0, 20)), (200, (20, 30)), (500, (30, 20)), (700, (20, 0))] {
        push_switch(file, (1, after + late), switch, WAITS);
    }
    let sample = [&8u64.to_le_bytes()[..], &20u32.to_le_bytes(), &[1, 0, 0, 0]].concat();
    for number in 0..400 {
        push_kernel(file, (1, 10_000 * (number + 1) + 400 * late), (2, 0x0f2e), &sample);
    }
}

#[test]
fn what_two_sessions_recorded_counts_once() {
    let session = |late: &[i64]| {
        let mut file = FileBuilder::new();
        late.iter().for_each(|late| push_session(&mut file, *late));
        push_threads(&mut file, 5_000_000);
        TempFile::new(&file.finish())
    };
    let (one, both) = (session(&[0]), session(&[0, 10]));
    assert_eq!(figures(&one), (400_000_000, 30_000, 1));
    let (cpu, off_cpu, waits) = figures(&both);
    assert!((395_000_000..415_000_000).contains(&cpu), "{cpu}");
    assert_eq!((off_cpu, waits), (30_000, 1));
    let notes = |file: &TempFile| stderr(&etw(&["stat", "--by", "thread"], &[file.path()]));
    assert_eq!(notes(&one), "");
    let text = notes(&both);
    assert!(
        text.contains("context switches that several sessions recorded: 4; each counts once"),
        "{text}"
    );
    assert!(text.contains("more CPU samples than one session records"), "{text}");
    assert_eq!(slices(&both), slices(&one));

    let out = both.path().with_extension("merged");
    let merge = |paths: &[&TempFile]| {
        let paths: Vec<_> = paths.iter().map(|file| file.path()).collect();
        stderr(&etw(&["merge", "--force", "-o", out.to_str().unwrap()], &paths))
    };
    let later = session(&[5_000_000]);
    let text = merge(&[&one, &both]);
    assert!(text.contains("recorded context switches and CPU samples"), "{text}");
    assert_eq!(merge(&[&one, &later]), "");
    std::fs::remove_file(&out).unwrap();

    // The sum of a conversion's stacks, and its notes.
    let convert = |weight: &str, paths: &[&TempFile]| {
        let paths: Vec<_> = paths.iter().map(|file| file.path()).collect();
        let words = ["convert", "--to", "folded", "--weight", weight, "-o", out.to_str().unwrap()];
        let notes = stderr(&etw(&words, &paths));
        let text = std::fs::read_to_string(&out).unwrap();
        std::fs::remove_file(&out).unwrap();
        let weights = text.lines().map(|line| line.rsplit(' ').next().unwrap());
        (weights.map(|weight| weight.parse::<i64>().unwrap()).sum::<i64>(), notes)
    };
    let second = session(&[10]);
    assert_eq!(convert("off-cpu", &[&one]).0, 30_000);
    let (off_cpu, notes) = convert("off-cpu", &[&one, &second]);
    assert_eq!(off_cpu, 30_000);
    assert!(notes.contains("switches that several sessions recorded: 4"), "{notes}");
    let (cpu, notes) = convert("cpu", &[&one, &second]);
    assert!((395_000_000..415_000_000).contains(&cpu), "{cpu}");
    assert!(notes.contains("more CPU samples than one session records"), "{notes}");
}

/// A recording of the system with this boot id (0: not known) and PID namespace (0: not known). `boot`: so many 100 ns later than others, the
/// system started by the wall clock.
fn recording(boot: i64, (boot_id, namespace): (u128, u64), has_switches: bool) -> TempFile {
    let mut file = FileBuilder::new();
    file.header.logfile.boot_time.0 += boot;
    file.header.logfile.log_file_mode = LogFileMode::SYSTEM_LOGGER | LogFileMode::SEQUENTIAL;
    let boot_id = Some(Guid::from_u128(boot_id));
    crate::sampling::push_source(
        &mut file,
        1,
        SystemOrigin { pid_namespace: Some(namespace), boot_id },
    );
    match has_switches {
        true => {
            push_session(&mut file, 0);
            push_threads(&mut file, 5_000_000);
        }
        false => crate::fixture::push_tracelogging(&mut file, 0, 100, "of a program"),
    }
    TempFile::new(&file.finish())
}

/// The time off the CPU in a conversion of both, in nanoseconds.
fn off_cpu_of(one: &TempFile, other: &TempFile) -> i64 {
    let out = one.path().with_extension("folded");
    let words = ["convert", "--to", "folded", "--weight", "off-cpu", "-o", out.to_str().unwrap()];
    stdout(&words, &[one.path(), other.path()], 0);
    let text = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    let weights = text.lines().map(|line| line.rsplit(' ').next().unwrap());
    weights.map(|weight| weight.parse::<i64>().unwrap()).sum()
}

/// Merges files with this status, and returns the standard error. `kept`: looks at the new file.
fn merge_with(paths: &[&TempFile], status: i32, kept: impl FnOnce(&Path)) -> String {
    let out = paths[0].path().with_extension("one");
    let paths: Vec<_> = paths.iter().map(|file| file.path()).collect();
    let output = etw(&["merge", "-o", out.to_str().unwrap()], &paths);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    assert_eq!(out.exists(), status == 0);
    if status == 0 {
        kept(&out);
        std::fs::remove_file(&out).unwrap();
    }
    text
}

fn merge(paths: &[&TempFile], status: i32) -> String {
    merge_with(paths, status, |_| ())
}

/// Regression: a container and its host, which start at the same time, were one machine, so events of both counted once.
#[test]
fn a_container_is_another_machine_than_its_host() {
    for boot_id in [0, 5] {
        let [host, same, container] = [7, 7, 8].map(|one| recording(0, (boot_id, one), true));
        let both = (off_cpu_of(&host, &same), off_cpu_of(&host, &container));
        assert_eq!(both, (30_000, 60_000));
    }
}

/// Regression: a machine whose clock was set between two sessions, or that was suspended, was two.
#[test]
fn the_boot_id_says_which_files_are_of_one_machine() {
    let (one, other) = ((0x0501, 7), (0x0502, 7));
    let (first, second) = (recording(0, one, true), recording(100_000_000, one, true));
    let text = merge_with(&[&first, &second], 0, |merged| {
        // Its processes are one machine's.
        let words = ["stat", "--by", "process", "--format", "json", "--where", "pid == 10"];
        let json: Value = serde_json::from_str(&stdout(&words, &[merged], 0)).unwrap();
        assert_eq!(json["profile"].as_array().unwrap().len(), 1);
        assert_eq!(json["profile"][0]["off_cpu_ns"], 30_000);
    });
    assert!(text.contains("recorded context switches") && !text.contains("machine"), "{text}");
    assert_eq!(off_cpu_of(&first, &second), 30_000);

    let same_time = recording(0, other, true);
    let text = merge(&[&first, &same_time], 3);
    let ids = [one, other].map(|(id, _)| Guid::from_u128(id));
    let why = format!("(their SystemSource events name the boot ids {} and {})", ids[0], ids[1]);
    assert!(text.contains(&why), "{text}");
    assert_eq!(off_cpu_of(&first, &same_time), 60_000);

    // The first records say so.
    let nowhere = first.path().with_extension("none").join("out.etl");
    let words = ["merge", "-o", nowhere.to_str().unwrap()];
    let output = etw(&words, &[first.path(), same_time.path()]);
    assert_eq!((output.status.code(), stderr(&output).contains(&why)), (Some(3), true));

    // An older host named none.
    let older = recording(100_000_000, (0, 7), true);
    assert_eq!(off_cpu_of(&second, &older), 30_000);
    let text = merge(&[&first, &older], 3);
    assert!(text.contains("their machines started at "), "{text}");
    // The id says of both that they are one machine's.
    merge(&[&first, &older, &second], 0);
}

/// Regression: a merge made one machine of several, and what was read of it then was true of none.
#[test]
fn system_events_of_several_machines_are_not_merged() {
    let day = 864_000_000_000;
    let host = recording(0, (0, 7), true);
    let same = recording(1_000_000, (0, 7), true);
    let container = recording(0, (0, 8), true);
    let later = recording(day, (0, 7), true);
    let name = |file: &TempFile| file.path().display().to_string();

    let text = merge(&[&host, &same], 0);
    assert!(text.contains("recorded context switches"), "{text}");
    assert!(!text.contains("machine"), "{text}");

    let program = recording(0, (0, 0), false);
    let text = merge(&[&program, &host, &container], 3);
    let both = format!("{} and {} are of different machines", name(&host), name(&container));
    assert!(text.contains(&both) && text.contains("different PID namespaces"), "{text}");
    assert!(!text.contains("several of the merged sessions"), "{text}");

    let text = merge(&[&same, &later], 3);
    assert!(text.contains("their machines started at ") && text.contains("etw convert"), "{text}");

    // One machine has events of the system, the other one events of programs.
    let client = recording(day, (0, 7), false);
    let text = merge(&[&host, &client], 0);
    let groups = format!("the files are of 2 machines ({}; {})", name(&host), name(&client));
    assert!(text.contains(&groups), "{text}");
    assert_eq!(text.matches("machines").count(), 1, "{text}");

    // The command that the error names keeps them apart.
    let words = ["stat", "--by", "process", "--format", "json"];
    let counted = stdout(&words, &[host.path(), container.path()], 0);
    assert_eq!(crate::fixture::json_lines(&counted).len(), 2);
}
