//! c-logging's ETW sink from C and C++.

use std::process::Command;

use etw_etl::read::{Records, TraceFile};
use etw_types::Guid;

use crate::support::*;

/// Level, metadata, payload.
type Event = (u8, Vec<u8>, Vec<u8>);

fn events(out: &std::path::Path) -> Vec<Event> {
    events_of("dad29f36-0a48-4def-9d50-8ef9036b92b4", out)
}

fn events_of(provider: &str, out: &std::path::Path) -> Vec<Event> {
    let provider: Guid = provider.parse().unwrap();
    let mut records = Records::new(vec![TraceFile::open(out).unwrap()]);
    let mut events = Vec::new();
    while let Some(record) = records.next() {
        if record.provider == Some(provider) {
            let item = |wanted: u16| {
                let mut items = record.extended.into_iter();
                items.find(|i| i.ext_type.0 == wanted).map(|i| i.data.to_vec()).unwrap_or_default()
            };
            assert_eq!(item(12), b"\x12\0block_storage_2\0");
            assert_eq!((record.descriptor.channel.0, record.descriptor.keyword.0), (11, 0));
            events.push((record.descriptor.level.0, item(11), record.payload.to_vec()));
        }
    }
    events
}

fn metadata(name: &str, properties: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0x80, 0];
    bytes.extend(name.as_bytes());
    bytes.extend(b"\0content\0\x02file\0\x02func\0\x02line\0\x07");
    bytes.extend(properties);
    let size = bytes.len() as u16;
    bytes[..2].copy_from_slice(&size.to_le_bytes());
    bytes
}

/// SRS_LOG_SINK_ETW_01_001, SRS_LOG_SINK_ETW_01_040, SRS_LOG_SINK_ETW_01_049, SRS_LOG_SINK_ETW_01_050, SRS_LOG_SINK_ETW_01_082: the
/// sink from C, byte for byte, with every compiler: levels, formats, unaligned values, limits, both interfaces, a race.
#[test]
fn the_sink_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        // With a wchar_t of 16 bits, the texts differ; the program is C, with compound literals.
        if compiler.1.contains(&"-fshort-wchar") {
            continue;
        }
        let folder = Folder::new(&format!("log-{number}"));
        let Some(program) = compile(&folder, "log_sink.c", compiler) else { continue };
        let out = folder.0.join("log.etl");
        let output = Command::new(program).env("LOG_SINK_OUT", &out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "log_sink_etw already initialized\r\nlog_sink_etw not initialized\r\n"
        );
        check(events(&out));
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

fn check(mut events: Vec<Event>) {
    let is_test = |event: &Event| event.2.starts_with(b"ETW provider was registered succesfully");
    assert_eq!(
        events.iter().filter(|event| is_test(event)).count(),
        2,
        "one, and one after deinit"
    );
    assert!(is_test(events.last().unwrap()));
    let races = events.iter().filter(|event| event.2.starts_with(b"race ")).count();
    assert_eq!(races, 800);
    events.retain(|event| !is_test(event) && !event.2.starts_with(b"race "));
    let mut events = events.into_iter();
    let mut next = || events.next().unwrap();

    let tail = b"\0a.c\0f\0\xf9\xff\xff\xff";
    let payload = |message: &[u8], rest: &[u8]| [message, &tail[..], rest].concat();
    let text = payload(b"text 42 0.5", b"");
    for (name, level) in [
        ("Unknown", 0),
        ("LogCritical", 1),
        ("LogError", 2),
        ("LogWarning", 3),
        ("LogInfo", 4),
        ("LogVerbose", 5),
        ("Unknown", 0),
    ] {
        assert_eq!(next(), (level, metadata(name, b""), text.clone()));
    }
    assert_eq!(next(), (2, metadata("LogError", b""), b"\0\0\0\xf9\xff\xff\xff".to_vec()));

    let names = b"outer\0\x98\x0c\0\x98\0s\0\x02null\0\x02b\0\x0di64\0\x09u64\0\x0ai32\0\x07u32\0\x08i16\0\x05\
        u16\0\x06i8\0\x03u8\0\x04w\0\x01";
    let values = [
        &b"text\0\0\x01\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        b"\xfd\xff\xff\xff\x04\x03\x02\x01\xfc\xff\x02\x01\xfb\xc8\xfc\0\x3d\xd8\0\xde\0\0",
    ]
    .concat();
    assert_eq!(next(), (4, metadata("LogInfo", names), payload(b"x", &values)));
    let plain = (4, metadata("LogInfo", b""), payload(b"x", b""));
    assert_eq!(next(), plain, "an unknown type");
    let many = (4, metadata("LogInfo", &b"u8\0\x04".repeat(64)), payload(b"x", &[0xc8; 64]));
    assert_eq!(next(), many);
    assert_eq!((next(), next()), (plain.clone(), plain.clone()), "65, and 65,537");
    let seed = payload(b"1-b", b"\xfe\xff\xff\xff\xff\xff\xff\xff");
    assert_eq!(next(), (4, metadata("LogInfo", b"s\0\x98\x01n\0\x09"), seed));
    assert_eq!(next(), plain, "a number that the older form does not know");
    let long = "ü".repeat(4000);
    assert_eq!(next(), (5, metadata("LogVerbose", b""), payload(&long.as_bytes()[..4057], b"")));
    let (level, blob, bytes) = next();
    assert_eq!((level, blob), (3, metadata("LogWarning", b"")));
    assert!(bytes.starts_with(b"macro 1\0"));
    check_formats(events);
}

/// Each message is what `snprintf` made of its arguments, up to the longest message; the event has that text in place of its file.
fn check_formats(events: impl Iterator<Item = Event>) {
    let mut checked = 0;
    for (level, blob, payload) in events {
        assert_eq!((level, blob), (4, metadata("LogInfo", b"")));
        let texts: Vec<&[u8]> = payload.split(|byte| *byte == 0).take(3).collect();
        let [message, formatted, b"formatted"] = texts[..] else { panic!("{payload:?}") };
        let longest = &formatted[..formatted.len().min(4060)];
        let [message, longest] = [message, longest].map(String::from_utf8_lossy);
        assert_eq!(message, longest);
        checked += 1;
    }
    assert_eq!(checked, 12 + 3 * 60);
}

/// SRS_LOG_SINK_ETW_01_048, SRS_LOG_SINK_ETW_01_049, SRS_LOG_SINK_ETW_01_050, SRS_LOG_SINK_ETW_01_084: where the program has c-logging's
/// functions, contexts are asked through them alone; the provider is the program's.
#[test]
fn contexts_are_read_through_c_loggings_functions() {
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("opaque-{number}"));
        let Some(program) = compile(&folder, "log_sink_opaque.c", compiler) else { continue };
        let out = folder.0.join("log.etl");
        let output = Command::new(program).env("LOG_SINK_OUT", &out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        let provider: Guid = "0000002a-0000-0000-0000-000000000000".parse().unwrap();
        let mut records = Records::new(vec![TraceFile::open(&out).unwrap()]);
        let mut found = Vec::new();
        while let Some(record) = records.next() {
            if record.provider == Some(provider) {
                // OV-22: the program's channel.
                assert_eq!(record.descriptor.channel.0, 16);
                let mut items = record.extended.into_iter();
                let item = items.find(|item| item.ext_type.0 == 11).unwrap();
                found.push(item.data.to_vec());
            }
        }
        let (plain, full) = (metadata("LogInfo", b""), b"opaque\0\x98\x01n\0\x04");
        assert_eq!(found, [plain.clone(), metadata("LogInfo", full), plain], "{compiler:?}");
    }
}

/// The provider of `LOG_SINK_ETW_PROVIDER_GUID` and the size of `wchar_t` come from the program's compilation, whether the library is static or
/// shared: with `-fshort-wchar`, a text ends at its own end.
#[test]
fn provider_and_wide_texts_are_those_of_the_programs_compilation() {
    const SHORT_CPP: Compiler = Compiler("g++", &["-std=c++17", "-fshort-wchar", "-x", "c++"]);
    const SHORT_CLANG: Compiler = Compiler("clang", &["-std=c11", "-O2", "-fshort-wchar"]);
    let compilers = COMPILERS.into_iter().chain([SHORT_CPP, SHORT_CLANG]);
    for (number, compiler) in compilers.enumerate() {
        // One compiler is enough for the shared library.
        for is_shared in [false, true].into_iter().take(if number == 0 { 2 } else { 1 }) {
            let folder = Folder::new(&format!("compilation-{number}-{is_shared}"));
            let compile = if is_shared { compile_shared } else { compile };
            let Some(program) = compile(&folder, "log_sink_compilation.c", compiler) else {
                continue;
            };
            let out = folder.0.join("log.etl");
            let output = Command::new(program).env("LOG_SINK_OUT", &out).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
            let events = events_of("41fc493d-1bc2-4ea6-bb02-d9def0d7af9e", &out);
            let [test, (_, blob, payload)] = &events[..] else {
                panic!("{compiler:?}: {events:?}");
            };
            assert!(test.2.starts_with(b"ETW provider was registered succesfully"));
            assert_eq!(*blob, metadata("LogInfo", b"s\0\x98\x01w\0\x01"), "{compiler:?}");
            assert!(payload.ends_with(b"w\0\xfc\0d\0e\0\0\0"), "{compiler:?}: {payload:?}");
        }
    }
}

/// A program with c-logging of May 2023 calls the only function of its sink's structure, where today's has `init`. Its logs are events, with its
/// numbers of property types.
#[test]
fn a_program_with_c_logging_of_may_2023_is_recognised() {
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        for is_shared in [false, true].into_iter().take(if number == 0 { 2 } else { 1 }) {
            let folder = Folder::new(&format!("2023-{number}-{is_shared}"));
            let compile = if is_shared { compile_shared } else { compile };
            let Some(program) = compile(&folder, "log_sink_2023.c", compiler) else { continue };
            let out = folder.0.join("log.etl");
            let output = Command::new(program).env("LOG_SINK_OUT", &out).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
            let events = events(&out);
            let [_, first, second] = &events[..] else { panic!("{compiler:?}: {events:?}") };
            let payload = b"1-b-0.5\0a.c\0f\0\xf9\xff\xff\xff\x07\0\0\0\0\0\0\0".to_vec();
            assert_eq!(*first, (4, metadata("LogInfo", b"s\0\x98\x01n\0\x09"), payload));
            let payload = b"plain\0a.c\0f\0\xf9\xff\xff\xff".to_vec();
            assert_eq!(*second, (2, metadata("LogError", b""), payload));
        }
    }
}

/// The header of c-logging's types when its sinks had three members and a variadic `log`.
const VARIADIC: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/c/variadic_sinks");

/// In C, `log_sink_etw.h` selects the sink's form by the type of `log` in c-logging's headers, at no cost for today's form.
#[test]
fn a_program_with_variadic_sinks_of_three_members_gets_a_sink_of_that_form() {
    for (number, name) in ["gcc", "clang"].into_iter().enumerate() {
        for is_shared in [false, true] {
            let folder = Folder::new(&format!("variadic-{number}-{is_shared}"));
            let compile = if is_shared { compile_shared } else { compile };
            let compiler = Compiler(name, &["-std=gnu11", VARIADIC]);
            let Some(program) = compile(&folder, "log_sink_variadic.c", compiler) else { continue };
            let out = folder.0.join("log.etl");
            let output = Command::new(program).env("LOG_SINK_OUT", &out).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
            let events = events(&out);
            let [_, first, second] = &events[..] else { panic!("{compiler:?}: {events:?}") };
            let payload = b"1-b-0.5\0a.c\0f\0\xf9\xff\xff\xff\x07\0\0\0\0\0\0\0".to_vec();
            assert_eq!(*first, (4, metadata("LogInfo", b"s\0\x98\x01n\0\x09"), payload));
            let payload = b"plain\0a.c\0f\0\xf9\xff\xff\xff".to_vec();
            assert_eq!(*second, (2, metadata("LogError", b""), payload));
        }
    }
}

/// Without this project's header, `init` fails and says why: the variadic arguments would be read as a `va_list`.
#[test]
fn variadic_sinks_without_the_librarys_header_are_refused_by_init() {
    let folder = Folder::new("variadic-own");
    let compiler = Compiler("gcc", &["-std=gnu11", "-DOWN_HEADER", VARIADIC]);
    let Some(program) = compile(&folder, "log_sink_variadic.c", compiler) else { return };
    let output = Command::new(program).env("LOG_SINK_OUT", folder.0.join("log.etl")).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("compile it with -I for libetw's headers first"), "{said}");
}
