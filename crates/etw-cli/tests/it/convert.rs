//! `etw convert`.

use crate::fixture::{PROVIDER, TempFile, etw, push_tracelogging, stderr, stdout};
use crate::off_cpu::converted;
use crate::perfetto;
use etw_etl::write::FileBuilder;
use etw_types::{EventRecord, Guid, HeaderType, Hook, Opcode};
use serde_json::Value;
use std::path::Path;

/// A slice on a thread, one of an activity, a counter, context switches and the names of who took part.
fn trace() -> Vec<u8> {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let mut push = |after: i64, record: &mut EventRecord<'_>| {
        record.order_time = start + after;
        file.push(1, record).unwrap();
    };
    let wide =
        |text: &str| text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let process = [
        &[1u8; 8][..],
        &10u32.to_le_bytes(),
        &[0; 8],
        &259u32.to_le_bytes(),
        &[0; 8],
        &[0; 4],
        &[0; 4],
        b"maker.exe\0",
        &wide("maker"),
        &wide(""),
        &wide(""),
    ]
    .concat();
    let thread =
        [&10u32.to_le_bytes()[..], &20u32.to_le_bytes(), &[0; 60], &[8, 5, 2, 0], &wide("worker")]
            .concat();
    let switch =
        |new: u32, old: u32| [&new.to_le_bytes()[..], &old.to_le_bytes(), &[0; 16]].concat();
    let switches = [switch(20, 0), switch(0, 20)];
    for (after, version, hook, payload) in [
        (1, 2, 0x0524, &switches[0]),
        (5, 2, 0x0524, &switches[1]),
        (90, 4, 0x0303, &process),
        (91, 3, 0x0503, &thread),
    ] {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(hook));
        record.descriptor.version = version;
        push(after, &mut record);
    }
    for (after, opcode, activity) in [(10, 1, 0), (20, 2, 0), (30, 1, 7), (40, 2, 7), (50, 0, 0)] {
        let mut record = EventRecord::new(HeaderType::Event64, b"h\0i\0\0\0");
        record.provider = Some(PROVIDER);
        record.descriptor.id = 3;
        record.descriptor.opcode = Opcode(opcode);
        record.activity_id = Guid::from_u128(activity);
        (record.process_id, record.thread_id) = (Some(10), Some(20));
        push(after, &mut record);
    }
    file.finish()
}

#[test]
fn chrome_output_has_slices_counters_and_names() {
    let file = TempFile::new(&trace());
    let out = file.path().with_extension("json");
    let told =
        stdout(&["convert", "--to", "chrome", "-o", out.to_str().unwrap()], &[file.path()], 0);
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    std::fs::remove_file(&out).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    // Names of processes and threads are no events.
    assert!(told.contains("10 events, of 10 records") && events.len() > 10, "{told}");
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let elapsed =
        |from: &Value, to: &Value| to["ts"].as_f64().unwrap() - from["ts"].as_f64().unwrap();
    // Doubles tell times since 1970 to a quarter of a microsecond only.
    let times = || events.iter().filter_map(|event| event["ts"].as_f64());
    assert!(times().all(|time| (0.0..1e6).contains(&time)), "{events:?}");
    let start = &json["otherData"];
    assert_eq!(start["start"], "2026-01-02T03:04:05.0000000Z", "{start}");
    assert_eq!(start["start_ns_since_1970"], "1767323045000000000", "{start}");
    // A microsecond is ten ticks.
    assert!((elapsed(of("B")[0], of("E")[0]) - 1.0).abs() < 0.5);
    assert_eq!(
        (&of("b")[0]["id"], of("e").len()),
        (&Value::from("00000000-0000-0000-0000-000000000007"), 1)
    );
    let run = of("X")[0];
    assert_eq!((run["name"].as_str(), run["dur"].as_f64()), (Some("maker.exe (20)"), Some(0.4)));
    let names: Vec<&str> =
        of("M").iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    assert!(
        ["maker.exe", "worker", "CPUs", "CPU 1"].iter().all(|name| names.contains(name)),
        "{names:?}"
    );
}

#[test]
fn perfetto_output_has_slices_counters_and_names() {
    let file = TempFile::new(&trace());
    let out = file.path().with_extension("perfetto");
    stdout(&["convert", "--to", "perfetto", "-o", out.to_str().unwrap()], &[file.path()], 0);
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    let trace = perfetto::read(&bytes);
    let names: Vec<&str> = trace.events.iter().map(|event| &event.name[..]).collect();
    let begins = trace.events.iter().filter(|event| event.kind == perfetto::SLICE_BEGIN);
    // Two of events, and one of a CPU.
    assert_eq!(begins.count(), 3, "{names:?}");
    assert!(["maker.exe (20)", "event 3"].iter().all(|name| names.contains(name)), "{names:?}");
    let event = trace.events.iter().find(|event| event.name == "event 3").unwrap();
    assert_eq!(event.categories, [PROVIDER.to_string()]);
    for name in ["maker.exe", "worker", "CPU 1", "activity 00000000-0000-0000-0000-000000000007"] {
        assert!(bytes.windows(name.len()).any(|part| part == name.as_bytes()), "{name}");
    }
}

/// A trace of events as opcode, task, version, thread and payload, each 100 µs behind the one before unless it is another version of it.
fn starts_and_stops(events: &[(u8, u16, u8, u32, &[u8])]) -> TempFile {
    let mut file = FileBuilder::new();
    let (mut time, mut before) = (file.header.start_raw, 0);
    for (opcode, task, version, thread, payload) in events {
        let mut record = EventRecord::new(HeaderType::Event64, payload);
        record.provider = Some(PROVIDER);
        record.descriptor.opcode = Opcode(*opcode);
        (record.descriptor.task, record.descriptor.version) = (*task, *version);
        record.descriptor.id = *task;
        (record.process_id, record.thread_id) = (Some(10), Some(*thread));
        time += if *version > before { 40 } else { 2000 };
        before = *version;
        record.order_time = time;
        file.push(1, &record).unwrap();
    }
    TempFile::new(&file.finish())
}

/// The order of what was on a track: begin, end, point.
fn chrome_phases(file: &TempFile) -> Vec<(String, String)> {
    let json: Value = serde_json::from_slice(&converted(file, "chrome", &[])).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    let events = events.iter().filter(|event| event["cat"] == PROVIDER.to_string().as_str());
    events.map(|event| (text(event, "ph"), text(event, "name"))).collect()
}

/// As [`chrome_phases`], by the kinds of Perfetto's events.
fn perfetto_kinds(file: &TempFile) -> Vec<i32> {
    let bytes = converted(file, "perfetto", &[]);
    let events = perfetto::read(&bytes).events.into_iter();
    let events = events.filter(|event| event.categories == [PROVIDER.to_string()]);
    events.map(|event| event.kind).collect()
}

/// Providers of the kernel log starts of other threads, and stops of other things: none of them is the end of a slice.
#[test]
fn only_a_start_and_a_stop_that_belong_together_are_a_slice() {
    let file = starts_and_stops(&[
        (1, 3, 0, 20, b""),
        (2, 4, 0, 20, b""),
        (1, 5, 0, 20, b""),
        (2, 5, 0, 21, b""),
        (2, 5, 0, 20, b""),
    ]);
    let phases = chrome_phases(&file);
    let phases: Vec<_> = phases.iter().map(|(phase, name)| (&phase[..], &name[..])).collect();
    let expected =
        [("i", "event 3"), ("i", "event 4"), ("B", "event 5"), ("i", "event 5"), ("E", "event 5")];
    assert_eq!(phases, expected);
    assert_eq!(perfetto_kinds(&file), [3, 3, 1, 3, 2]);
    // An event that the filter leaves out is no partner.
    let json = converted(&file, "chrome", &["--where", "opcode == 1"]);
    let json: Value = serde_json::from_slice(&json).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    assert!(events.iter().all(|event| event["ph"] != "B"), "{json}");
}

/// .NET logs each collection in two versions.
#[test]
fn a_start_that_is_logged_in_two_versions_begins_one_slice() {
    let collection: [(u8, u16, u8, u32, &[u8]); 3] =
        [(1, 1, 1, 20, b"four"), (1, 1, 2, 20, b"four and more"), (2, 1, 1, 20, b"four")];
    let file = starts_and_stops(&collection.repeat(3));
    let phases: String = chrome_phases(&file).into_iter().map(|(phase, _)| phase).collect();
    assert_eq!(phases, "BEBEBE");
    assert_eq!(perfetto_kinds(&file), [1, 2, 1, 2, 1, 2]);
    for format in ["chrome", "perfetto"] {
        let out = file.path().with_extension(format);
        let words = ["convert", "--to", format, "-o", out.to_str().unwrap()];
        let told = stdout(&words, &[file.path()], 0);
        std::fs::remove_file(&out).unwrap();
        // With the trace's own header.
        assert!(told.contains("7 events, of 10 records"), "{told}");
    }
}

/// Perfetto's slices of a track end with the innermost one.
#[test]
fn slices_that_overlap_are_on_tracks_of_their_own() {
    let file = starts_and_stops(&[
        (1, 1, 0, 20, b""),
        (1, 2, 0, 20, b""),
        (2, 1, 0, 20, b""),
        (2, 2, 0, 20, b""),
    ]);
    let phases: String = chrome_phases(&file).into_iter().map(|(phase, _)| phase).collect();
    assert_eq!(phases, "BbEe");
    let bytes = converted(&file, "perfetto", &[]);
    let events = perfetto::read(&bytes).events;
    let slices: Vec<_> = events.iter().filter(|event| event.kind < 3).collect();
    let tracks: Vec<u64> = slices.iter().map(|event| event.track).collect();
    assert!(tracks[0] == tracks[2] && tracks[1] == tracks[3], "{tracks:?}");
    assert_ne!(tracks[0], tracks[1]);
}

/// Names of events, providers and fields are in the file once. A value is in place at its first use.
#[test]
fn perfetto_output_has_repeated_texts_once() {
    let mut file = FileBuilder::new();
    for after in 1..=50 {
        push_tracelogging(&mut file, 1, 10 * after, "a repeated path");
    }
    let bytes = converted(&TempFile::new(&file.finish()), "perfetto", &[]);
    let trace = perfetto::read(&bytes);
    let events: Vec<_> = trace.events.iter().filter(|event| event.name == "Greeting").collect();
    assert_eq!(events.len(), 50);
    for event in events {
        assert_eq!(event.categories, ["Test.Provider"]);
        let [text, number, _] = &event.annotations[..] else { panic!("{:?}", event.annotations) };
        assert_eq!((&text.0[..], &text.1[..]), ("text", "a repeated path"));
        assert_eq!(number.0, "number");
    }
    for (text, expected) in
        [("Greeting", 1), ("Test.Provider", 1), ("text", 1), ("number", 1), ("a repeated path", 2)]
    {
        let found = bytes.windows(text.len()).filter(|part| *part == text.as_bytes());
        assert_eq!(found.count(), expected, "{text}");
    }
}

/// A packet in two fragments, one whose beginning was lost, and one that is larger than its record.
#[test]
fn pcapng_output_joins_fragments_and_omits_incomplete_packets() {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let fragments: [(u64, u32, &[u8]); 4] = [
        (0x8000_0000, 2, b"xx"),
        (0x1_4000_0000, 3, b"abc"),
        (0x1_8000_0000, 5, b"defgh"),
        (0xc000_0000, 900, b"cut"),
    ];
    for (number, (keyword, size, bytes)) in fragments.into_iter().enumerate() {
        let payload =
            [&7u32.to_le_bytes()[..], &0u32.to_le_bytes(), &size.to_le_bytes(), bytes].concat();
        let mut record = EventRecord::new(HeaderType::Event64, &payload);
        record.provider = "2ed6006e-4729-4609-b423-3ee7bcd678ef".parse().ok();
        record.descriptor.id = 1001;
        record.descriptor.keyword.0 = keyword;
        record.order_time = start + 10 * number as i64;
        file.push(0, &record).unwrap();
    }
    let file = TempFile::new(&file.finish());
    let out = file.path().with_extension("pcapng");
    let told =
        stdout(&["convert", "--to", "pcapng", "-o", out.to_str().unwrap()], &[file.path()], 0);
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    assert!(told.contains("1 packet, of 5 records"), "{told}");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut kinds) = (0, Vec::new());
    while at < bytes.len() {
        let size = word(at + 4) as usize;
        assert_eq!(word(at + size - 4) as usize, size);
        if word(at) == 6 {
            assert_eq!((word(at + 20), &bytes[at + 28..at + 36]), (8, &b"abcdefgh"[..]));
        }
        kinds.push(word(at));
        at += size;
    }
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6]);
    // An existing file is not replaced without --force.
    std::fs::write(&out, b"mine").unwrap();
    let refused = etw(&["convert", "--to", "pcapng", "-o", out.to_str().unwrap()], &[file.path()]);
    assert_eq!((refused.status.code(), std::fs::read(&out).unwrap()), (Some(3), b"mine".to_vec()));
    std::fs::remove_file(&out).unwrap();
}

/// A trace of three messages: decodable, of an unknown number, and damaged.
fn three_messages() -> Vec<u8> {
    let mut file = FileBuilder::new();
    let guid: Guid = "00112233-4455-6677-8899-aabbccddeeff".parse().unwrap();
    for (number, payload) in [(10u16, 5u32.to_le_bytes().to_vec()), (11, Vec::new()), (10, vec![1])]
    {
        let mut record = EventRecord::new(HeaderType::Message, &payload);
        record.provider = Some(guid);
        record.descriptor.id = number;
        record.message_flags = etw_types::MessageFlags(0x2b);
        (record.process_id, record.thread_id, record.sequence) =
            (Some(0xaf4), Some(0xc64), Some(1));
        record.has_time = true;
        record.order_time = file.header.start_raw + 10;
        file.push(2, &record).unwrap();
    }
    file.finish()
}

/// OV-24, its decoder half: `tracefmt` and `tracerpt`, by their names; what they do not support is refused.
#[test]
fn tracefmt_and_tracerpt_work_by_their_names() {
    let folder = std::env::temp_dir().join(format!("etw-front-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("t.etl"), three_messages()).unwrap();
    std::fs::write(
        folder.join("a.tmf"),
        "00112233-4455-6677-8899-aabbccddeeff Driver // SRC=a.c\n#typev a_c1 10 \"%0code %10!d!\" // FUNC=f\n{\ncode, ItemLong -- 10\n}\n",
    )
    .unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_etw"), folder.join("tracefmt")).unwrap();
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_etw"))
            .args(arguments)
            .current_dir(&folder)
            .env_remove("TRACE_FORMAT_PREFIX")
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (status, told, _) = run(&["tracefmt", "t.etl", "-p", ".", "-o", "out.txt"]);
    assert!(
        status == Some(0) && told.contains("Messages formatted      1\nMessages unknown        2"),
        "{told}"
    );
    let text = std::fs::read_to_string(folder.join("out.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("[2]0AF4.0C64::01/02/2026-03:04:05.")
            && lines[0].ends_with(" [Driver]code 5"),
        "{text}"
    );
    assert!(lines[1].ends_with("[Unknown]Unknown( 11): GUID=00112233-4455-6677-8899-aabbccddeeff (No Format Information found)."));
    assert!(lines[2].ends_with("(its arguments are damaged)."), "{text}");
    assert_eq!(std::fs::read_to_string(folder.join("FmtSum.txt")).unwrap(), told);
    #[cfg(unix)]
    {
        let linked = std::process::Command::new(folder.join("tracefmt"))
            .args(["t.etl", "-tmf", "a.tmf", "-displayonly"])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(String::from_utf8(linked.stdout).unwrap().contains("code 5"));
    }
    let searched = std::process::Command::new(env!("CARGO_BIN_EXE_etw"))
        .args(["dump", "--format", "json", "--where", "decoded == wpp", "t.etl"])
        .current_dir(&folder)
        .env("TRACE_FORMAT_SEARCH_PATH", &folder)
        .output()
        .unwrap();
    let lines = crate::fixture::json_lines(&String::from_utf8(searched.stdout).unwrap());
    assert_eq!(lines[0]["message"], "code 5");
    let (status, ..) = run(&["tracerpt", "t.etl"]);
    assert_eq!(status, Some(0));
    let dump = std::fs::read_to_string(folder.join("dumpfile.xml")).unwrap();
    assert!(dump.contains("<Events>") && dump.trim_end().ends_with("</Events>"));
    let summary = std::fs::read_to_string(folder.join("summary.txt")).unwrap();
    assert!(summary.contains("Total Events  Processed 4\n"), "{summary}");
    // Nothing is replaced unasked.
    assert_eq!(run(&["tracerpt", "t.etl"]).0, Some(3));
    assert_eq!(
        run(&[
            "tracerpt", "t.etl", "-y", "-o", "o.csv", "-of", "csv", "-report", "r.html", "-f",
            "HTML"
        ])
        .0,
        Some(0)
    );
    assert!(std::fs::read_to_string(folder.join("o.csv")).unwrap().starts_with("Event Name,"));
    let page = std::fs::read_to_string(folder.join("r.html")).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains("<svg") && !page.contains("http"),
        "{page}"
    );
    assert!(page.contains("class=\"axis\"") && page.contains(">records/s</text>"), "{page}");
    for wrong in [
        &["tracerpt", "t.etl", "-of", "ETL"][..],
        &["tracerpt", "-export"],
        &["tracefmt", "t.etl", "-what"],
        &["tracefmt"],
    ] {
        let (status, _, told) = run(wrong);
        assert!(status == Some(2) && !told.is_empty(), "{wrong:?}: {told}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Names of a trace are text on the page, never markup.
#[test]
fn a_report_shows_names_as_text_not_markup() {
    let mut file = FileBuilder::new();
    let metadata = etw_tracelogging::MetadataBuilder::new("<script>&\"x", 0).finish().unwrap();
    crate::fixture::push_event(&mut file, 0, 10, &metadata, &[]);
    let file = TempFile::new(&file.finish());
    let out = file.path().with_extension("html");
    stdout(&["report", "-o", out.to_str().unwrap()], &[file.path()], 0);
    let page = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    assert!(page.contains("&lt;script&gt;&amp;&quot;x") && !page.contains("<script"), "{page}");
}

/// The views of `stat`, each with its rows, in text and JSON.
#[test]
fn each_view_of_stat_has_its_rows_in_text_and_json() {
    let file = TempFile::new(&trace());
    let text = |by: &str| stdout(&["stat", "--by", by], &[file.path()], 0);
    assert!(text("process").contains("10 maker.exe"));
    assert!(text("provider").contains("MSNT_SystemTrace/Thread"));
    assert!(text("time").contains('█'));
    assert!(text("activity").contains("00000000-0000-0000-0000-000000000007"));
    let json: Value =
        serde_json::from_str(&stdout(&["stat", "--format", "json"], &[file.path()], 0)).unwrap();
    let counts = json["rate"]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().filter_map(Value::as_u64).sum::<u64>(), 10);
    // Five events that process 10 wrote, the switch to its thread, and its own rundown.
    assert_eq!(json["by_process"][0]["count"], 7);
    assert_eq!(json["by_process"][0]["pid"], 10);
}

/// Facts that one record contains about others, before or behind it: names, and the stack of a context switch.
#[test]
fn join_adds_names_and_stacks_from_other_records() {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let stack = [
        &(start + 5).to_le_bytes()[..],
        &10u32.to_le_bytes(),
        &20u32.to_le_bytes(),
        &0x1234u64.to_le_bytes(),
        &0x5678u64.to_le_bytes(),
    ]
    .concat();
    let wide: Vec<u8> = "\\Device\\x.txt\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let name = [&0xff00u64.to_le_bytes()[..], &wide].concat();
    let mut read = [0; 52];
    read[24..32].copy_from_slice(&0xff00u64.to_le_bytes());
    let switch = [0; 24];
    // x.dll of process 10 at 0x1000, as long as 0x1000.
    let thread = [&10u32.to_le_bytes()[..], &20u32.to_le_bytes(), &[0; 64]].concat();
    let wide: Vec<u8> = "\\Windows\\x.dll\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let image = [
        &0x1000u64.to_le_bytes()[..],
        &0x1000u64.to_le_bytes(),
        &10u32.to_le_bytes(),
        &[0; 36],
        &wide,
    ]
    .concat();
    for (after, version, hook, payload) in [
        (5, 2, 0x0524, &switch[..]),
        (6, 2, 0x1820, &stack),
        (7, 3, 0x010a, &read),
        (9, 2, 0x0424, &name),
        (10, 2, 0x1403, &image),
        (11, 2, 0x0503, &thread),
    ] {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(hook));
        record.descriptor.version = version;
        record.order_time = start + after;
        file.push(0, &record).unwrap();
    }
    let file = TempFile::new(&file.finish());
    let lines = crate::fixture::json_lines(&stdout(
        &["dump", "--join", "--format", "json"],
        &[file.path()],
        0,
    ));
    let of = |event: &str| lines.iter().find(|line| line["event"] == event).unwrap();
    assert_eq!(
        of("Thread/CSwitch")["stack"],
        serde_json::json!(["0x0000000000001234", "0x0000000000005678"])
    );
    assert_eq!(of("Thread/CSwitch")["frames"], serde_json::json!(["x.dll+0x234", null]));
    assert_eq!(of("DiskIo/Read")["file_name"], "\\Device\\x.txt");
    // To thread 0, which idles.
    assert_eq!(of("Thread/CSwitch")["process"], serde_json::json!({"pid": 0, "name": "Idle"}));
    assert_eq!(of("StackWalk/Stack")["stack"], Value::Null);
    let named = TempFile::new(&trace());
    let text = stdout(&["dump", "--join"], &[named.path()], 0);
    assert!(text.contains("10.20(maker.exe)"), "{text}");
    let plain = stdout(&["dump"], &[named.path()], 0);
    assert!(!plain.contains("(maker.exe)"), "{plain}");
}

/// With `--join` a CPU sample belongs to the process of the thread in its payload, in JSON, in filters and on tracks.
#[test]
fn samples_belong_to_the_process_of_their_thread() {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let thread = [&10u32.to_le_bytes()[..], &20u32.to_le_bytes(), &[0; 64]].concat();
    let sample =
        |thread: u32| [&0x1234u64.to_le_bytes()[..], &thread.to_le_bytes(), &[0; 4]].concat();
    let samples = [sample(20), sample(21)];
    for (after, version, hook, payload) in
        [(1, 2, 0x0f2e, &samples[0]), (2, 2, 0x0f2e, &samples[1]), (90, 3, 0x0504, &thread)]
    {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(hook));
        record.descriptor.version = version;
        record.order_time = start + after;
        file.push(0, &record).unwrap();
    }
    let file = TempFile::new(&file.finish());
    let lines = |arguments: &[&str]| {
        let json = [&["dump", "--join", "--format", "json"][..], arguments].concat();
        crate::fixture::json_lines(&stdout(&json, &[file.path()], 0))
    };
    let all = lines(&[]);
    let samples: Vec<_> = all.iter().filter(|l| l["event"] == "PerfInfo/SampleProf").collect();
    assert_eq!(samples[0]["process"], serde_json::json!({"pid": 10, "name": null}));
    assert_eq!(samples[0]["pid"], Value::Null, "the stored id stays");
    assert_eq!(samples[1]["process"], Value::Null, "no rundown names thread 21");
    let filtered = lines(&["--where", "pid == 10"]);
    assert_eq!(filtered.len(), 1);
    assert_eq!(filtered[0]["event"], "PerfInfo/SampleProf");
    let out = file.path().with_extension("chrome");
    stdout(&["convert", "--to", "chrome", "-o", out.to_str().unwrap()], &[file.path()], 0);
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    std::fs::remove_file(&out).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let on_track = events.iter().filter(|e| e["pid"] == 10 && e["tid"] == 20 && e["ph"] == "i");
    assert_eq!(on_track.count(), 1, "{json}");
}

/// A trace without what the format shows is converted to an empty file, with a note on what is missing.
#[test]
fn an_empty_conversion_says_what_is_missing() {
    let sample = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sample.etl"));
    let folder = std::env::temp_dir().join(format!("etw-cli-empty-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let nothing = ["--where", "id == 65535"];
    for (format, options, missing) in [
        ("pcapng", &[][..], "has no packets of"),
        (
            "speedscope",
            &[],
            "neither CPU samples nor context switches; etw record --system profile,cswitch ",
        ),
        ("folded", &[], "has no CPU samples; etw record --system profile records"),
        (
            "folded",
            &["--weight", "off-cpu"],
            "has no context switches; etw record --system cswitch ",
        ),
        ("folded", &nothing, "the selection has no CPU samples"),
    ] {
        let out = folder.join(format);
        let words = ["convert", "--to", format, "--force", "-o", out.to_str().unwrap()];
        let output = etw(&[&words[..], options].concat(), &[sample]);
        let text = stderr(&output);
        let kind = if format == "pcapng" { "packet" } else { "stack" };
        let kind = if format == "speedscope" { "sample" } else { kind };
        let note = format!("{} has no {kind}: the ", out.display());
        assert!(text.contains(&note) && text.contains(missing), "{text}");
        assert!(out.is_file(), "it is written all the same");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// OV-23: a selection without samples says nothing of the trace.
#[test]
fn an_empty_profile_of_a_selection_says_so() {
    let sample = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sample.etl"));
    let shown =
        |options: &[&str]| stdout(&[&["stat", "--by", "thread"], options].concat(), &[sample], 0);
    assert!(shown(&[]).contains("the trace has no CPU samples and no context switches"));
    let of_selection = shown(&["--where", "id == 65535"]);
    assert!(of_selection.contains("the selection has no CPU samples and no"), "{of_selection}");
}

/// OV-23: a misspelt folder would leave functions without names.
#[test]
fn a_folder_of_symbols_must_exist() {
    let sample = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sample.etl"));
    for command in [&["stat", "--by", "function"][..], &["dump", "--join"]] {
        let output = etw(&[command, &["--symbols", "/nowhere/symbols"]].concat(), &[sample]);
        assert_eq!(output.status.code(), Some(2));
        let text = stderr(&output);
        assert!(text.contains("--symbols /nowhere/symbols: there is no such folder"), "{text}");
    }
}
