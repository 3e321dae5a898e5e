//! Events of the system in a recording and in a session. A machine that refuses them is named, and the test passes.

use crate::controllers::Place;
use crate::fixture::stderr;

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The kernel leaves a context switch out now and then: such losses, and no others, end the stop of a session with 1.
fn is_stopped(output: &std::process::Output) {
    let text = format!("{}{}", stdout(output), stderr(output));
    let has_only_losses_of_kernel = || {
        let is_loss = |line: &&str| line.contains(", provider ") || line.contains(", class ");
        let losses: Vec<&str> = text.lines().filter(is_loss).collect();
        !losses.is_empty() && losses.iter().all(|line| line.contains("kernel, class "))
    };
    match output.status.code() {
        Some(0) => {}
        Some(1) => assert!(has_only_losses_of_kernel(), "{text}"),
        code => panic!("{code:?}: {text}"),
    }
}

/// OV-23: the command's processes and samples, and its exit status.
#[test]
fn a_command_is_recorded_with_events_of_the_system() {
    let place = Place::new("system-record");
    let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3";
    let record = ["record", "--force", "-o", "s.etl", "--system", "profile,cswitch", "--"];
    let output = place.etw(&[&record[..], &["sh", "-c", work]].concat());
    if output.status.code() == Some(125) {
        return eprintln!("left out: {}", stderr(&output));
    }
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let text = stdout(&place.etw(&["dump", "--join", "s.etl"]));
    for event in ["Process/End", "Thread/CSwitch", "PerfInfo/SampleProf", "Image/Load"] {
        assert!(text.contains(event), "{event} is missing");
    }
    let is_command = |line: &&str| line.contains("Process/End") && line.contains("-lt 100000");
    assert!(text.lines().any(|line| is_command(&line)), "the command line is missing");
    check_events_of_linux(&stdout(&place.etw(&["dump", "--format", "json", "s.etl"])), work);
    let output = place.etw(&["check", "s.etl"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

/// The kernel records by the machine's clock, whatever the clock of the recording's time namespace.
#[test]
fn a_recording_in_a_time_namespace_has_the_times_of_the_machine() {
    let place = Place::new("system-time");
    for offset in ["100000", "-1"] {
        let etw = env!("CARGO_BIN_EXE_etw");
        let mut command = place.command("unshare".as_ref());
        command.args(["--time", "--monotonic", offset, "--boottime", offset, etw]);
        command.args(["record", "--force", "-o", "t.etl", "--system", "process", "--"]);
        let Ok(output) = command.args(["sh", "-c", "true; /bin/true"]).output() else { return };
        if output.status.code() != Some(0) {
            return eprintln!("left out: {}", stderr(&output));
        }
        let stat = stdout(&place.etw(&["stat", "--format", "json", "t.etl"]));
        let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
        let (start, end) = (stat["start"].as_str().unwrap(), stat["end"].as_str().unwrap());
        let events = stdout(&place.etw(&["dump", "--format", "json", "t.etl"]));
        let mut ends = 0;
        for line in events.lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let time = event["timestamp"].as_str().unwrap();
            assert!(start <= time && time <= end, "{offset}: {start} to {end}: {event}");
            ends += usize::from(event["event"] == "Process/End");
        }
        assert!(ends > 0, "{offset}: {events}");
    }
}

/// The events that no class of Windows' kernel has: the program that was executed, whole build ids, and what PerfView needs for symbols.
fn check_events_of_linux(json: &str, work: &str) {
    let events: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named = |name: &'static str| events.iter().filter(move |event| event["event"] == name);
    let exec = named("Exec").find(|event| event["fields"]["argv"][2] == work).unwrap();
    assert_eq!(exec["provider_name"], "OpenEtw.System");
    assert_eq!(exec["fields"]["argv"][1], "-c");
    assert!(exec["fields"]["path"].as_str().unwrap().contains("sh"), "{exec}");
    let process = &exec["pid"];
    let first = named("Process/DCStart").find(|event| event["fields"]["ProcessId"] == *process);
    let line = &first.unwrap()["fields"]["CommandLine"];
    assert_eq!(line, "", "it is that of this program, not of the command");
    assert_eq!(process, &exec["fields"]["pid"]);
    for mapping in named("ProcessMapping").filter(|event| event["pid"] == *process) {
        let fields = &mapping["fields"];
        let metadata = named("ProcessMappingMetadata")
            .find(|event| event["fields"]["Id"] == fields["MetadataId"]);
        let Some(metadata) = metadata else { continue };
        let symbols = metadata["fields"]["SymbolMetadata"].as_str().unwrap();
        let symbols: serde_json::Value = serde_json::from_str(symbols).unwrap();
        let is_same = |event: &&serde_json::Value| {
            event["pid"] == *process && event["fields"]["base"] == fields["StartAddress"]
        };
        let module = named("Module").find(is_same).unwrap();
        assert_eq!(module["fields"]["path"], fields["FileName"]);
        assert_eq!(module["fields"]["build_id"], symbols["build_id"]);
    }
    let of_kernel = |event: &&serde_json::Value| {
        let address = event["fields"]["InstructionPointer"].as_str().unwrap_or_default();
        address.starts_with("0xffffffff")
    };
    if named("PerfInfo/SampleProf").any(|event| of_kernel(&event))
        && named("ProcessMapping").any(|event| event["fields"]["FileName"] == "vmlinux")
    {
        assert!(named("ProcessSymbol").next().is_some(), "no function of the kernel has a name");
    }
}

/// OV-23: command lines that nobody could read are counted at the end of a recording: without programs in the kernel, those of some of the
/// programs that end at once.
#[test]
fn missing_command_lines_are_told() {
    const PROGRAMS: usize = 60;
    let place = Place::new("system-notes");
    let work =
        format!("i=0; while [ $i -lt {PROGRAMS} ]; do i=$((i+1)); /bin/true short-lived; done");
    let record =
        ["record", "--json", "-o", "s.etl", "--system", "process", "--", "sh", "-c", &work];
    let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    let output = command.args(record).env("ETW_SYSTEM_BPF", "0").output().unwrap();
    if output.status.code() == Some(125) {
        return eprintln!("left out: {}", stderr(&output));
    }
    let text = stderr(&output);
    let summary: serde_json::Value =
        serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap();
    let text = stdout(&place.etw(&["dump", "s.etl"]));
    let is_known = |line: &&str| line.contains("Process/End") && line.contains("true short-lived");
    let known = text.lines().filter(is_known).count();
    if summary["lost"] != 0 {
        return eprintln!("left out: events were lost");
    }
    let notes = summary["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str());
    let count = |note: &str| {
        note.strip_prefix("missing command lines: ")?.split_once(',')?.0.parse::<usize>().ok()
    };
    let told = notes.filter_map(count).sum::<usize>();
    assert!(known + told >= PROGRAMS, "{known} known, {told} told: {summary}");
    assert!(told > 0, "{summary}");
}

/// P11: a snapshot whose buffers do not hold the rundown says so, and no other one does.
#[test]
fn a_snapshot_without_its_rundown_is_told() {
    let place = Place::new("system-snapshot");
    for (buffers, size, is_told) in [("4", "4", true), ("64", "64", false)] {
        let start = ["session", "start", "m", "--buffering", "--system", "process,image"];
        let start = [&start[..], &["--buffers", buffers, "--buffer-size", size]].concat();
        let output = place.etw(&start);
        if !output.status.success() {
            return eprintln!("left out: {}", stderr(&output));
        }
        let output = place.etw(&["session", "flush", "m", "--force", "-o", "m.etl"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stderr(&output);
        assert_eq!(text.contains("lacks a part of the system's rundown"), is_told, "{text}");
        place.etw(&["session", "stop", "m"]);
    }
}

/// P11: a circular file that is too small for its rundown says so at its end, also in the file, and names the size that it needs.
#[test]
fn a_circular_file_without_its_rundown_is_told() {
    let place = Place::new("system-circular");
    let record = |size: &str| {
        let record = ["record", "--force", "--json", "-o", "c.etl", "--mode", "circular"];
        let events = ["--max-size", size, "--buffer-size", "4K", "--buffers", "256"];
        let events = [&events[..], &["--system", "process,thread,image", "--", "true"]].concat();
        place.etw(&[&record[..], &events].concat())
    };
    let notes = |text: &str| -> Vec<String> {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let notes = value["notes"].as_array().unwrap().iter();
        notes.map(|note| note.as_str().unwrap().to_owned()).collect()
    };
    let mut size = "16K".to_owned();
    let mut counts = Vec::new();
    for is_told in [true, false] {
        let output = record(&size);
        if output.status.code() == Some(125) {
            return eprintln!("left out: {}", stderr(&output));
        }
        let summary = notes(stderr(&output).lines().last().unwrap_or_default());
        let of_file = notes(&stdout(&place.etw(&["stat", "--format", "json", "c.etl"])));
        let is_it = |note: &&String| note.contains("too small for the rundown at its end");
        let note = summary.iter().find(is_it);
        assert_eq!(note.is_some(), is_told, "{size}: {summary:?}");
        assert_eq!(note, of_file.iter().find(is_it), "{of_file:?}");
        let text = stdout(&place.etw(&["dump", "c.etl"]));
        let ends = ["Process/DCEnd", "Thread/DCEnd", "Image/DCEnd"];
        counts.push(ends.map(|end| text.matches(end).count()));
        if let Some(note) = note {
            let (_, rest) = note.split_once("a maximum size of ").unwrap();
            let needed: u64 = rest.split_once(" KiB").unwrap().0.parse().unwrap();
            // Another recording has a few records more.
            size = format!("{}K", needed + needed / 4);
        }
    }
    // The end of the rundown is there in any case.
    assert!(counts[1].iter().all(|count| *count > 0), "{counts:?}");
    assert!(counts[0].iter().sum::<usize>() < counts[1].iter().sum(), "{counts:?}");
}

/// One file of a series, read alone, names the process of each sample: also one that is older than the file.
#[test]
fn a_file_of_a_series_names_processes_by_itself() {
    /// A file that is filled within a second has no rundown.
    const LEAST_SIZE: u64 = 3 << 20;
    let place = Place::new("system-series");
    let start = |name: &str, more: &[&str]| {
        let events = ["--system", "profile", "--buffer-size", "16K", "--buffers", "256"];
        place.etw(&[&["session", "start", "s", "-o", name][..], &events, more].concat())
    };
    let output = start("rundowns.etl", &[]);
    if !output.status.success() {
        let text = stderr(&output);
        assert!(text.contains("CAP_PERFMON") || text.contains("tracefs"), "{text}");
        return eprintln!("left out: {text}");
    }
    place.etw(&["session", "stop", "s"]);
    let rundowns = std::fs::metadata(place.file("rundowns.etl")).unwrap().len();
    let size = (rundowns * 4).max(LEAST_SIZE).to_string();
    let mut forking = place.command("sh".as_ref());
    let mut forking = forking.args(["-c", "while :; do sleep 0.002; done"]).spawn().unwrap();
    let output = start("s-%d.etl", &["--mode", "new-file", "--max-size", &size]);
    assert!(output.status.success(), "{}", stderr(&output));
    while !place.file("s-3.etl").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    is_stopped(&place.etw(&["session", "stop", "s"]));
    let id = u64::from(forking.id());
    forking.kill().unwrap();
    forking.wait().unwrap();
    let text = stdout(&place.etw(&["dump", "--join", "--format", "json", "s-2.etl"]));
    let mut samples = 0;
    for line in text.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let process = &event["process"];
        if event["event"] == "PerfInfo/SampleProf" && process["pid"] == id {
            let names = [&process["name"], &event["thread_name"]].map(|name| name.as_str());
            assert!(names[0].is_some() && names[1] == Some("sh"), "{event}");
            samples += 1;
        }
    }
    assert!(samples > 0, "{text:.2000}");
    let output = place.etw(&["check", "s-2.etl"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

/// OV-23: a session of a host.
#[test]
fn a_session_records_events_of_the_system() {
    let place = Place::new("system-session");
    let start = ["session", "start", "s", "-o", "s.etl", "--system", "cswitch"];
    let output = place.etw(&start);
    if !output.status.success() {
        let text = stderr(&output);
        assert!(text.contains("CAP_PERFMON") || text.contains("tracefs"), "{text}");
        return eprintln!("left out: {text}");
    }
    let text = stdout(&place.etw(&["doctor"]));
    assert!(text.contains("ok     enablement          the system's own events are"), "{text}");
    assert!(!text.contains("WRONG  enablement"), "{text}");
    is_stopped(&place.etw(&["session", "stop", "s"]));
    let text = stdout(&place.etw(&["stat", "s.etl"]));
    for event in ["Process/DCStart", "Process/DCEnd", "EventTrace/Extension", "SystemConfig/CPU"] {
        assert!(text.contains(event), "{event} is missing in\n{text}");
    }
}

#[test]
fn words_that_name_no_events_are_errors() {
    let place = Place::new("system-words");
    for (system, expected) in
        [("colour", "colour: no class of system events"), ("registry", "does not record these")]
    {
        let output = place.etw(&["record", "-o", "x.etl", "--system", system, "--", "true"]);
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains(expected), "{text}");
    }
}

/// OV-24: options that would change nothing are errors, or there is a note.
#[test]
fn options_without_effect_have_an_answer() {
    let place = Place::new("system-options");
    for (line, expected) in [
        ("record -o x.etl --system profile --pid 1 -- true", "name one with -p"),
        ("tracelog -start -noprocess -nothread -nodisk -nonet -f b.etl", "name some"),
        ("logman start NT_Kernel_Logger -o f.etl -ets", "name some"),
        (
            "logman start NT_Kernel_Logger -p Windows_Kernel_Trace () -o f.etl -ets",
            "needs its flags",
        ),
        (
            "logman start NT_Kernel_Logger -p Windows_Kernel_Trace (process -o f.etl -ets",
            "needs its flags",
        ),
        ("tracelog -start -eflag 9 1 2 3 4 5 6 7 8 9 -f b.etl", "there are 8"),
        ("xperf -on Base -setprofint 4294967295 -f k.etl", "the longest interval"),
        ("wpr -start ok.wprp!", "names no profile"),
    ] {
        let words = words(line);
        let output = place.etw(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains(expected), "{line}: {text}");
    }
    let line =
        "record -o x.etl --system cswitch --stack FileCreate,Profile --sample-interval 2ms -- true";
    let output = place.etw(&line.split(' ').collect::<Vec<_>>());
    let text = stderr(&output);
    assert!(
        text.contains("FileCreate: no call stacks") && text.contains("add profile, fileio"),
        "{text}"
    );
    assert!(text.contains("the interval is that of CPU samples"), "{text}");
}

/// OV-24: a trace is replaced only if its command can be started, and a query names the classes that a session records.
#[test]
fn an_old_trace_outlives_a_misspelt_command() {
    let place = Place::new("system-old-trace");
    std::fs::write(place.file("a.etl"), "old").unwrap();
    std::fs::write(place.file("no-program"), "text").unwrap();
    for (command, status) in [("nonexistent-command", 127), ("./no-program", 126), (".", 126)] {
        for system in [&["--system", "process"][..], &["-p", "*P"]] {
            let before = ["record", "--force", "-o", "a.etl"];
            let line = [&before[..], system, &["--", command]].concat();
            let output = place.etw(&line);
            assert_eq!(output.status.code(), Some(status), "{command}: {}", stderr(&output));
            assert_eq!(std::fs::read(place.file("a.etl")).unwrap(), b"old", "{command}");
        }
    }
    let start =
        "session start s -o s.etl --system profile,cswitch --stack CSwitch --sample-interval 2ms";
    if !place.etw(&start.split(' ').collect::<Vec<_>>()).status.success() {
        return eprintln!("left out: no right to record the machine");
    }
    let text = stdout(&place.etw(&["session", "query", "s"]));
    for row in
        ["system          process, thread, img, cswitch, profile", "CSwitch", "every 2000 us"]
    {
        assert!(text.contains(row), "{row} is missing in\n{text}");
    }
    let text = stdout(&place.etw(&["xperf", "-loggers"]));
    assert!(text.contains("PROC_THREAD+LOADER+CSWITCH+PROFILE"), "{text}");
    let text = stdout(&place.etw(&["logman", "query", "s", "-ets"]));
    assert!(text.contains("0x1000017 (process,thread,img,cswitch,profile)"), "{text}");
    is_stopped(&place.etw(&["session", "stop", "s"]));
}

/// OV-24: the kernel's session as Windows' commands show it: with its own GUID, its provider's name and its flags, and without
/// providers that nobody enabled.
#[test]
fn the_kernels_session_is_shown_as_on_windows() {
    const GUID: &str = "9e814aad-3204-11d2-9a82-006008a86939";
    let place = Place::new("system-shown");
    let run = |line: &str| {
        let words = words(line);
        let output = place.etw(&words.iter().map(String::as_str).collect::<Vec<_>>());
        (output.status.success(), stdout(&output), stderr(&output))
    };
    let (is_started, started, text) = run("tracelog -start -f k.etl");
    if !is_started {
        assert!(text.contains("CAP_PERFMON") || text.contains("tracefs"), "{text}");
        return eprintln!("left out: {text}");
    }
    assert!(!started.contains("Enabling trace"), "{started}");
    let queried = run("tracelog -q").1;
    let listed = run("tracelog -l").1;
    let by_logman = run("logman query NT_Kernel_Logger -ets").1;
    let others: Vec<String> = ["xperf -loggers", "session query NT_Kernel_Logger", "provider list"]
        .map(|line| run(line).1)
        .to_vec();
    let words = words("tracelog -stop");
    let output = place.etw(&words.iter().map(String::as_str).collect::<Vec<_>>());
    is_stopped(&output);
    for text in [started, queried, listed, stdout(&output)] {
        let flags = "Enabled tracing:        Process Thread ImageLoad Disk Network\n";
        assert!(text.contains(flags), "{text}");
        assert!(text.contains(&format!("Guid:                   {GUID}\n")), "{text}");
    }
    assert!(others[1].contains(GUID), "{}", others[1]);
    assert!(by_logman.contains("Windows Kernel Trace"), "{by_logman}");
    assert_eq!(by_logman.matches("Provider Guid:").count(), 1, "{by_logman}");
    for text in others.iter().chain([&by_logman]) {
        let text = text.to_ascii_lowercase();
        assert!(!text.contains("8c107b6c-") && !text.contains("a6238efd-"), "{text}");
    }
}

/// A program that computes in one thread and waits in another one, which the first one wakes.
const SPINNING: &str = "
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static int ends[2];
__attribute__((noinline)) long known_inner(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++) sum += i * i;
    return sum;
}
__attribute__((noinline)) long known_outer(long n) { return known_inner(n) + 1; }
static void *wait_for_tokens(void *none) {
    char token;
    for (int i = 0; i < 20; i++) if (read(ends[0], &token, 1) != 1) _exit(2);
    return none;
}
int main(void) {
    pthread_t thread;
    long sum = 0;
    if (pipe(ends) || pthread_create(&thread, 0, wait_for_tokens, 0)) return 1;
    for (int i = 0; i < 20; i++) {
        sum += known_outer(10000000);
        if (write(ends[1], \"x\", 1) != 1) return 3;
    }
    pthread_join(thread, 0);
    printf(\"%d\\n\", getpid());
    return sum == 0;
}
";

/// Compiles a program; `false`: there is no compiler.
fn compile(place: &Place, name: &str, source: &str) -> bool {
    let file = format!("{name}.c");
    std::fs::write(place.file(&file), source).unwrap();
    let words = ["-g", "-O1", "-fno-omit-frame-pointer", "-o", name, &file, "-lpthread"];
    match place.command("cc".as_ref()).args(words).status() {
        Ok(status) => status.success(),
        Err(_) => false,
    }
}

/// OV-23: functions by name in every form, and the thread that ended a wait.
#[test]
fn a_profile_names_functions_and_wakers() {
    let place = Place::new("system-profile");
    if !compile(&place, "spinning", SPINNING) {
        return eprintln!("left out: there is no C compiler");
    }
    let record = ["record", "--force", "-o", "s.etl", "--system", "profile,cswitch,dispatcher"];
    let stacks = ["--stack", "Profile,CSwitch,ReadyThread", "--", "./spinning"];
    let output = place.etw(&[&record[..], &stacks].concat());
    if output.status.code() == Some(125) {
        return eprintln!("left out: {}", stderr(&output));
    }
    // Others may run programs with much debug information.
    let own = format!("pid == {}", stdout(&output).trim());
    let is_machine = !stderr(&output).contains("left out");
    let text = stdout(&place.etw(&["dump", "--join", "--where", &own, "s.etl"]));
    assert!(text.contains("spinning!known_inner+0x"), "dump --join has no names of functions");
    for by in ["function", "module", "thread", "process"] {
        let text = stdout(&place.etw(&["stat", "--by", by, "--where", &own, "s.etl"]));
        let expected = if by == "function" { "spinning!known_inner" } else { "spinning" };
        assert!(text.contains("off-cpu ms") && text.contains(expected), "--by {by}: {text}");
    }
    for (format, expected) in [
        ("folded", "spinning!main;spinning!known_outer;spinning!known_inner"),
        ("speedscope", "spinning!known_inner"),
        ("chrome", "spinning!known_inner"),
        ("perfetto", "known_inner"),
    ] {
        let output =
            place.etw(&["convert", "--to", format, "-o", format, "--where", &own, "s.etl"]);
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        let bytes = std::fs::read(place.file(format)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(expected), "{format} has no {expected}");
    }
    let chrome = std::fs::read(place.file("chrome")).unwrap();
    let chrome: serde_json::Value = serde_json::from_slice(&chrome).unwrap();
    assert!(!chrome["samples"].as_array().unwrap().is_empty());
    let output = place.etw(&["convert", "--to", "pprof", "-o", "p", "--where", &own, "s.etl"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let mut profile = Vec::new();
    let packed = std::fs::read(place.file("p")).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut profile)
        .unwrap();
    let text = String::from_utf8_lossy(&profile);
    assert!(
        text.contains("known_outer") && text.contains("off_cpu") && text.contains("spinning.c")
    );
    if is_machine {
        let weight = ["convert", "--to", "folded", "--weight", "off-cpu", "-o", "off"];
        place.etw(&[&weight[..], &["--where", &own, "s.etl"]].concat());
        let text = std::fs::read_to_string(place.file("off")).unwrap();
        let is_wait = |line: &&str| {
            line.contains("[UserRequest];[woken by spinning (") && line.contains("vmlinux!")
        };
        assert!(text.lines().any(|line| is_wait(&line)), "no wait has its waker:\n{text}");
        let is_scheduler = text.contains("schedule;[") || text.contains("sched_switch;[");
        assert!(!is_scheduler, "a wait ends in the scheduler:\n{text}");
    }
}

/// A program whose functions take six, three and one tenth of its time, as its own clock says.
const SHARES: &str = "
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}
#define PART(name, tenths) \\
    __attribute__((noinline)) long name(void) { \\
        volatile long sum = 0; \\
        for (long i = 0; i < (tenths) * 300000L; i++) sum += i * i; \\
        return sum; \\
    }
PART(six_tenths, 6)
PART(three_tenths, 3)
PART(one_tenth, 1)
int main(void) {
    long taken[3] = {0}, sum = 0;
    for (int i = 0; i < 800; i++) {
        long start = now();
        sum += six_tenths();
        long second = now();
        sum += three_tenths();
        long third = now();
        sum += one_tenth();
        taken[0] += second - start, taken[1] += third - second, taken[2] += now() - third;
    }
    printf(\"%d %ld %ld %ld\\n\", getpid(), taken[0], taken[1], taken[2]);
    return sum == 0;
}
";

/// OV-23: functions have the shares of the samples that they have of the program's time.
#[test]
fn functions_have_their_shares_of_the_samples() {
    const NAMES: [&str; 3] = ["six_tenths", "three_tenths", "one_tenth"];
    /// Standard deviations: one of 16,000 runs is further off by chance.
    const DEVIATIONS: f64 = 4.0;
    /// The part of the time that is between the functions, or that a virtual machine does not get: its clocks go on, its timers do not.
    const BETWEEN: f64 = 0.03;
    /// Nanoseconds between two samples, for which each one stands.
    const DISTANCE: f64 = 250e3;
    let place = Place::new("system-shares");
    if !compile(&place, "shares", SHARES) {
        return eprintln!("left out: there is no C compiler");
    }
    let record = ["record", "--force", "-o", "s.etl", "--system", "profile"];
    let command = ["--sample-interval", "250us", "--", "./shares"];
    let output = place.etw(&[&record[..], &command].concat());
    if output.status.code() == Some(125) {
        return eprintln!("left out: {}", stderr(&output));
    }
    let text = stdout(&output);
    let line = text.lines().find(|line| line.split(' ').count() == 4).expect("the program's line");
    let numbers: Vec<f64> = line.split(' ').map(|one| one.parse().unwrap()).collect();
    let own = format!("pid == {}", numbers[0]);
    let convert = ["convert", "--to", "folded", "-o", "folded", "--where", &own, "s.etl"];
    let converted = place.etw(&convert);
    assert!(converted.status.success(), "{}", stderr(&converted));
    let folded = std::fs::read_to_string(place.file("folded")).unwrap();
    let samples = NAMES.map(|name| {
        let frame = format!("shares!{name}");
        let own = folded.lines().filter_map(|line| line.rsplit_once(' '));
        let own = own.filter(|(stack, _)| stack.split(';').any(|one| one == frame));
        own.map(|(_, time)| time.parse::<f64>().unwrap() / DISTANCE).sum::<f64>()
    });
    let all: f64 = samples.iter().sum();
    let time: f64 = numbers[1..].iter().sum();
    assert!(all >= 500.0, "{all} samples of {} ms:\n{folded}", time / 1e6);
    // Timers of a busy machine leave samples out, and add none.
    assert!(all * DISTANCE <= time * 1.1, "{all} samples of {} ms", time / 1e6);
    for ((name, samples), taken) in NAMES.iter().zip(samples).zip(&numbers[1..]) {
        let (share, expected) = (samples / all, taken / time);
        let bound = DEVIATIONS * (expected * (1.0 - expected) / all).sqrt() + BETWEEN;
        eprintln!(
            "{name}: {share:.3} of {all} samples, {expected:.3} of the time, bound {bound:.3}"
        );
        assert!((share - expected).abs() <= bound, "{name}: {share} of {all}, expected {expected}");
    }
}

/// Runs a command line with names that have spaces, which are written with underscores.
fn words(line: &str) -> Vec<String> {
    let spaced = ["NT_Kernel_Logger", "Windows_Kernel_Trace"];
    let word = |word: &str| {
        spaced.iter().fold(word.to_owned(), |word, one| word.replace(one, &one.replace('_', " ")))
    };
    line.split_whitespace().map(word).collect()
}

/// OV-24: the kernel's session by each of Windows' commands, and its trace.
#[test]
fn windows_commands_start_and_stop_the_kernels_session() {
    let place = Place::new("system-frontends");
    for (start, stop, expected) in [
        (
            "xperf -on Latency+DISPATCHER -stackwalk Profile+CSwitch -setprofint 20000 -f k.etl",
            "xperf -d merged.etl",
            &["Thread/CSwitch", "PerfInfo/SampleProf", "StackWalk/Stack"][..],
        ),
        (
            "tracelog -start -f k.etl -dpcisr -img -nonet -SetProfInt 20000 timer",
            "tracelog -stop",
            &["Thread/CSwitch", "PerfInfo/", "Image/DCStart"],
        ),
        (
            "logman start NT_Kernel_Logger -p Windows_Kernel_Trace (process,thread,img,cswitch) -o k.etl -ets",
            "logman stop NT_Kernel_Logger -ets",
            &["Thread/CSwitch", "Process/DCStart"],
        ),
        (
            "logman start s -p {9E814AAD-3204-11D2-9A82-006008A86939} 0x13 -o k.etl -ets",
            "logman stop s -ets",
            &["Thread/CSwitch", "Process/DCStart"],
        ),
        (
            "tracelog -start s -systemlogger -eflag 2 0x3 0x4 -f k.etl",
            "tracelog -stop s",
            &["Thread/CSwitch", "Process/DCStart"],
        ),
    ] {
        let run = |line: &str| {
            let words = words(line);
            place.etw(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let output = run(start);
        if !output.status.success() {
            let text = stderr(&output);
            assert!(text.contains("CAP_PERFMON") || text.contains("tracefs"), "{start}: {text}");
            return eprintln!("left out: {text}");
        }
        // Some switches happen in between.
        place.ends(0, "session list");
        let output = run(stop);
        is_stopped(&output);
        let text = stdout(&place.etw(&["stat", "k.etl"]));
        for event in expected {
            assert!(text.contains(event), "{start}: {event} is missing in\n{text}");
        }
        if !start.contains(" s ") {
            assert!(text.contains("NT Kernel Logger"), "{start}: {text}");
        }
    }
    assert!(place.file("merged.etl").exists());
}

/// Windows' scheduler as a provider.
const SCHEDULER: &str = "599a2a76-4d91-4910-9ac7-7d33f2e97a6c";

fn run_line(place: &Place, line: &str) -> std::process::Output {
    let words = words(line);
    place.etw(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The classes of the system that a session records.
fn classes_of(place: &Place, session: &str) -> String {
    let text = stdout(&place.etw(&["session", "query", session]));
    let row = text.lines().find_map(|line| line.strip_prefix("system "));
    row.map(|row| row.trim().to_owned()).unwrap_or(text)
}

/// Regression: xperf and tracelog refused them in the kernel's session, for which logman named no events.
#[test]
fn the_kernels_session_takes_system_providers() {
    let place = Place::new("system-providers-kernel");
    let run = |line: &str| run_line(&place, line);
    let classes = |session: &str| classes_of(&place, session);
    for (line, wanted) in [
        (format!("xperf -on {SCHEDULER}:0x200 -stackwalk CSwitch -f s.etl"), "cswitch"),
        ("xperf -on NETWORK+SystemSchedulerProviderGuid:0x200 -f s.etl".to_owned(), "cswitch, net"),
        (
            format!("tracelog -start -nodisk -nonet -f s.etl -guid #{SCHEDULER} -flag 0x200"),
            "cswitch",
        ),
        (
            "tracelog -start NT_Kernel_Logger -nodisk -f s.etl -guid SystemSchedulerProviderGuid -flag 2"
                .to_owned(),
            "dispatcher, net",
        ),
        (
            "logman start NT_Kernel_Logger -p SystemSchedulerProviderGuid 0x200 -o s -ow -ets"
                .to_owned(),
            "cswitch",
        ),
        (
            format!("session start NT_Kernel_Logger -o s.etl --force -p {SCHEDULER}:5:2"),
            "dispatcher",
        ),
    ] {
        let output = run(&line);
        if !output.status.success() && stderr(&output).contains("the kernel refuses") {
            return eprintln!("left out: {}", stderr(&output));
        }
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{line}");
        assert_eq!(classes("NT Kernel Logger"), format!("process, thread, img, {wanted}"), "{line}");
        is_stopped(&run("xperf -stop"));
    }
}

/// OV-24: Windows' system providers record their classes, whichever command enables them.
#[test]
fn every_command_enables_system_providers() {
    let place = Place::new("system-providers");
    let run = |line: &str| run_line(&place, line);
    let classes = |session: &str| classes_of(&place, session);
    const KERNEL: &str = "9e814aad-3204-11d2-9a82-006008a86939";
    for (line, wanted) in [
        (
            format!(
                "tracelog -start s -systemlogger -f s.etl -guid #{SCHEDULER} -matchanykw 0x200"
            ),
            "cswitch",
        ),
        (format!("logman start s -p {{{SCHEDULER}}} 0x200 5 -o s -ow -ets"), "cswitch"),
        (format!("xperf -start s -on {SCHEDULER}:0x200 -f s.etl"), "cswitch"),
        (format!("session start s -o s.etl --force -p {SCHEDULER}:5:0x200"), "cswitch"),
        (format!("session start s -o s.etl --force -p {KERNEL}:5:0x10"), "cswitch"),
        ("session start s -o s.etl --force -p Windows_Kernel_Trace:5:0x10000".to_owned(), "net"),
        // Regression: the names of evntrace.h were known to no command.
        (
            "tracelog -start s -systemlogger -f s.etl -guid SystemMemoryProviderGuid -flag 2"
                .into(),
            "hf",
        ),
        ("logman start s -p SystemProfileProviderGuid 1 -o s -ow -ets".into(), "profile"),
        ("xperf -start s -on SystemIoProviderGuid:1 -f s.etl".into(), "disk"),
        ("session start s -o s.etl --force -p systeminterruptproviderguid:5:4".into(), "dpc"),
        ("session start s -o s.etl --force -p SystemTraceControlGuid:5:0x10".into(), "cswitch"),
    ] {
        let output = run(&line);
        if !output.status.success() {
            let text = stderr(&output);
            assert!(text.contains("CAP_PERFMON") || text.contains("tracefs"), "{line}: {text}");
            return eprintln!("left out: {text}");
        }
        assert_eq!(classes("s"), format!("process, thread, img, {wanted}"), "{line}");
        is_stopped(&place.etw(&["session", "stop", "s"]));
    }
    // A running session.
    assert!(run("session start s -o s.etl --force --system net").status.success());
    for (line, wanted) in [
        (format!("session enable s {SCHEDULER}:5:0x200"), "process, thread, img, cswitch, net"),
        (
            format!("tracelog -enable s -guid #{SCHEDULER} -matchanykw 2"),
            "process, thread, img, dispatcher, net",
        ),
        ("session disable s SystemSchedulerProviderGuid".to_owned(), "process, thread, img, net"),
    ] {
        let output = run(&line);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{line}");
        assert_eq!(classes("s"), wanted, "{line}");
    }
    // Process, thread, image and network.
    let text = stdout(&run("tracelog -q s -lp"));
    assert!(text.contains("9e814aad-") && text.contains("MatchAnyKeyword 0x10007 "), "{text}");
    for (line, status, why) in [
        (format!("session enable s {SCHEDULER}:5:0x1"), 3, "records none of these events"),
        ("session enable s Windows_Kernel_Trace".to_owned(), 3, "is the whole kernel"),
        ("tracelog -start t -systemlogger".to_owned(), 2, "-eflag N FLAG"),
        (format!("xperf -on {SCHEDULER}+My-Provider"), 2, "My-Provider is no flag or group"),
        (format!("tracelog -start -guid #{SCHEDULER} -guid *Doc"), 2, "records the kernel only"),
    ] {
        let output = run(&line);
        let text = stderr(&output);
        assert!(output.status.code() == Some(status) && text.contains(why), "{line}: {text}");
    }
    // A busy machine loses some, which is a finding, too.
    let text = stdout(&place.etw(&["doctor", "SystemProcessProviderGuid"]));
    assert!(text.contains("ok     enablement          session s records its events"), "{text}");
    place.ends(1, "doctor SystemSchedulerProviderGuid");
    is_stopped(&place.etw(&["session", "stop", "s"]));
    // The events of one command.
    let provider = "SystemSchedulerProviderGuid:5:0x200".to_owned();
    let record = ["record", "--force", "-q", "-o", "r.etl", "-p", &provider, "--", "true"];
    let output = place.etw(&record);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&place.etw(&["stat", "r.etl"]));
    assert!(text.contains("Thread/CSwitch") && text.contains("Process/End"), "{text}");
    // A session of programs gets no system events later.
    assert!(run("session start p -o p.etl -p *Some").status.success());
    let output = run(&format!("session enable p {SCHEDULER}"));
    assert!(stderr(&output).contains("start it with --system"), "{}", stderr(&output));
}

/// Regression: options without effect were taken without a word.
#[test]
fn processes_and_threads_cannot_be_left_out() {
    let place = Place::new("system-lives");
    let start = ["tracelog", "-start", "-noprocess", "-nothread", "-nonet", "-f", "k.etl"];
    let output = place.etw(&start);
    let text = stderr(&output);
    assert!(text.contains("etw: note: -noprocess, -nothread: no effect: "), "{text}");
    if output.status.success() {
        place.does("tracelog -stop");
    }
}

/// OV-24: an update notes what it cannot record, as a start does.
#[test]
fn an_update_of_call_stacks_without_their_class_is_noted() {
    let place = Place::new("system-update");
    let output = place.etw(&["xperf", "-on", "PROC_THREAD", "-f", "k.etl"]);
    if !output.status.success() {
        let text = stderr(&output);
        assert!(text.contains("CAP_PERFMON") || text.contains("tracefs"), "{text}");
        return eprintln!("left out: {text}");
    }
    let output = place.etw(&["xperf", "-update", "-stackwalk", "Profile", "-setprofint", "20000"]);
    let text = stderr(&output);
    assert!(output.status.success() && text.contains("Profile: no call stacks, because"), "{text}");
    assert!(text.contains("the interval is that of CPU samples"), "{text}");
    is_stopped(&place.etw(&["xperf", "-stop"]));
}
