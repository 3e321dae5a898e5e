//! C consumers on trace files: what they print, beside what this project's reader finds.

use etw_decode::pack::{PackBuilder, WindowsVersion};
use std::path::{Path, PathBuf};
use std::process::Command;

use etw_decode::event_info::EventInfo;
use etw_etl::read::{Records, TraceFile};
use etw_types::{EventRecord, Guid, HeaderType, MessageFlags};

use crate::expected::{Call, Lines, expected};
use crate::support::*;

pub fn corpus() -> Vec<PathBuf> {
    let folder = home().join("../../../shared/corpus/etl");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: {} is not there", folder.display());
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs the sample; what it printed.
pub fn run(program: &Path, call: &Call) -> String {
    let output = Command::new(program).args(call.arguments()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{:?}: {said}", call.files);
    String::from_utf8(output.stdout).unwrap()
}

pub fn agrees(program: &Path, call: &Call) {
    let (found, expected) = (run(program, call), expected(call));
    if found == expected {
        return;
    }
    let mut pairs = found.lines().zip(expected.lines()).enumerate();
    let place = pairs.find(|(_, (found, expected))| found != expected);
    let at = place.map_or(found.lines().count().min(expected.lines().count()), |(at, _)| at);
    let part = |text: &str| {
        text.lines().skip(at.saturating_sub(25)).take(35).collect::<Vec<_>>().join("\n")
    };
    panic!(
        "{:?}, line {at}\n--- found\n{}\n--- expected\n{}",
        call.files,
        part(&found),
        part(&expected)
    );
}

fn shared(path: &str) -> PathBuf {
    home().join("../../../shared/corpus").join(path)
}

/// Names, values, items, times and order of the events of real traces, as a C program has them by name and by walking the payload, are
/// those that the reader and the decoder give.
#[test]
fn real_traces_from_c() {
    let folder = Folder::new("tdh-corpus");
    let Some(program) = compile(&folder, "tdh_sample.c", COMPILERS[0]) else { return };
    for file in corpus() {
        let call = Call { limit: 2000, ..Call::of(&[file]) };
        agrees(&program, &call);
        agrees(&program, &Call { by_format: true, ..call });
    }
}

/// Schemas that the program names: manifests by TdhLoadManifest, WPP formats by TDH_CONTEXT.
#[test]
fn named_schemas_from_c() {
    let folder = Folder::new("tdh-named");
    let Some(program) = compile(&folder, "tdh_sample.c", COMPILERS[0]) else { return };
    if corpus().is_empty() {
        return;
    }
    let mut decoded = 0;
    for (file, manifest) in [
        ("http-server-win7", "HTTP_Server"),
        ("clr-gc-circular", "ClrEtwAll"),
        ("net45-x86-kernel-clr", "ClrEtwAll"),
        ("kernel-classic-process-data-64-v3", "kernel.mof"),
    ] {
        let name =
            if manifest.contains('.') { manifest.to_owned() } else { format!("{manifest}.man") };
        let call = Call {
            manifest: Some(shared(&format!("manifests/{name}"))),
            limit: 1000,
            ..Call::of(&[shared(&format!("etl/{file}.etl"))])
        };
        agrees(&program, &call);
        agrees(&program, &Call { by_format: true, ..call.clone() });
        decoded += run(&program, &call).matches("schema 0 0").count();
    }
    assert!(decoded > 100, "{decoded} events by manifest");
}

/// WPP messages, with formats in a folder of TMF files: arguments, and the formatted message by its name.
#[test]
fn messages_from_c() {
    const TMF: &str = "00000000-0000-0000-0000-0000deadbeef Part // SRC=main.c MJ= MN=\n\
        #typev main_c12 10 \"%0count %10!d! of %11!s! at %12!p!\" //   LEVEL=TRACE_LEVEL_ERROR FLAGS=Init FUNC=Main\n\
        {\ncount, ItemLong -- 10\nname, ItemString -- 11\nplace, ItemPtr -- 12\n}\n";
    for (number, compiler) in [COMPILERS[0], COMPILERS[2]].into_iter().enumerate() {
        let folder = Folder::new(&format!("tdh-wpp-{number}"));
        let Some(program) = compile(&folder, "tdh_sample.c", compiler) else { continue };
        let tmf = folder.0.join("tmf");
        std::fs::create_dir_all(&tmf).unwrap();
        std::fs::write(tmf.join("00000000-0000-0000-0000-0000deadbeef.tmf"), TMF).unwrap();
        let mut file = etw_etl::write::FileBuilder::new();
        for (at, text) in ["one", "", "grün"].into_iter().enumerate() {
            let mut payload = (at as i32 - 1).to_le_bytes().to_vec();
            payload.extend(text.as_bytes());
            payload.push(0);
            payload.extend(0x1234_5678_9abc_u64.to_le_bytes());
            // The last one is cut.
            let payload = &payload[..payload.len() - if at == 2 { 3 } else { 0 }];
            let mut record = EventRecord::new(HeaderType::Message, payload);
            record.provider = Some(Guid::from_u128(0xdead_beef));
            record.descriptor.id = 10;
            record.message_flags = MessageFlags(0xab);
            record.order_time = file.header.start_raw + 10 + at as i64;
            (record.process_id, record.thread_id) = (Some(1), Some(2));
            file.push(0, &record).unwrap();
        }
        let trace = folder.0.join("wpp.etl");
        std::fs::write(&trace, file.finish()).unwrap();
        let call = Call { tmf: Some(tmf), ..Call::of(&[trace]) };
        agrees(&program, &call);
        agrees(&program, &Call { by_format: true, ..call.clone() });
        let text = run(&program, &call);
        assert!(text.contains("\nformatted count -1 of one at 0000123456789ABC\n"), "{text}");
        assert!(text.contains("\ncount=1\nname=gr\\u00fcn\nerror 15005\n"), "{text}");
    }
}

/// Each TRACE_EVENT_INFO that a program gets, read as if it came from a trace, describes the same properties.
#[test]
fn structures_describe_what_they_are_made_of() {
    let folder = Folder::new("tdh-structures");
    let Some(program) = compile(&folder, "tdh_sample.c", COMPILERS[0]) else { return };
    let writers = Folder::new("tdh-structures-writer");
    let Some(writer) = compile(&writers, "tracelogging.c", COMPILERS[0]) else { return };
    let own = folder.0.join("own.etl");
    assert!(Command::new(writer).env("TRACELOGGING_OUT", &own).status().unwrap().success());
    let mut calls: Vec<Call> = corpus().into_iter().map(|file| Call::of(&[file])).collect();
    calls.push(Call::of(&[own]));
    let has_corpus = calls.len() > 1;
    if has_corpus {
        let manifest = Some(shared("manifests/HTTP_Server.man"));
        calls.push(Call { manifest, ..Call::of(&[shared("etl/http-server-win7.etl")]) });
        let manifest = Some(shared("manifests/ClrEtwAll.man"));
        calls.push(Call { manifest, ..Call::of(&[shared("etl/clr-gc-circular.etl")]) });
    }
    let mut compared = 0;
    for call in calls {
        let call = Call { limit: 500, raw_info: true, ..call };
        let found = run(&program, &call);
        let mut events = found.split("\nevent ").skip(1);
        let mut records = Records::new(vec![TraceFile::open(&call.files[0]).unwrap()]);
        // Traces whose header is not the first of its records in time have one more at the front.
        while let Some(record) = records.next() {
            let Some(event) = events.next() else { break };
            let event = event.split("\nprocessed ").next().unwrap();
            let data = format!("\ndata {} ", record.payload.len());
            assert!(event.contains(&data), "{:?}", call.files);
            let Some(blob) = event.lines().find_map(|line| line.strip_prefix("info ")) else {
                continue;
            };
            if event.contains("\nerror ") {
                continue;
            }
            let blob: Vec<u8> = (0..blob.len() / 2)
                .map(|at| u8::from_str_radix(&blob[at * 2..at * 2 + 2], 16).unwrap())
                .collect();
            let info = EventInfo::parse(&blob).unwrap();
            let schema = info.schema(|_| None).unwrap();
            // Maps are asked for elsewhere: compared are the names and values of fields without.
            if info.map_names().next().is_some() {
                continue;
            }
            let mut lines = Lines::default();
            // The width that the structure itself tells is that of its pointers.
            let size = if record.pointer_size == 4 { 4 } else { 8 };
            let walked = [size, 12 - size].into_iter().find(|size| {
                lines = Lines::default();
                etw_decode::walk(&schema, record.payload, *size, &mut lines).is_ok()
                    && event.ends_with(lines.out.strip_suffix('\n').unwrap_or_default())
            });
            assert!(walked.is_some(), "{:?}\n{event}\n---\n{}", call.files, lines.out);
            compared += 1;
        }
    }
    // Without the corpus, only the program's own events are left.
    let least = if has_corpus { 20 } else { 5 };
    assert!(compared > least, "{compared}");
    eprintln!("{compared} structures compared");
}

/// TC-3, TC-4: traces that this library's own sessions write, and traces of every kind of record, with every compiler, sanitizers among
/// them. Custom-serialised fields are a length and a binary value, which has protocol and schema for those who look.
#[test]
fn own_traces_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("tdh-own-{number}"));
        let writers = Folder::new(&format!("tdh-own-writers-{number}"));
        let mut files = Vec::new();
        for (source, variable) in
            [("tracelogging.c", "TRACELOGGING_OUT"), ("write_calls.c", "WRITE_CALLS_OUT")]
        {
            let Some(writer) = compile(&writers, source, compiler) else { continue };
            let out = folder.0.join(source).with_extension("etl");
            assert!(Command::new(writer).env(variable, &out).status().unwrap().success());
            files.push(out);
        }
        let Some(program) = compile(&folder, "tdh_sample.c", compiler) else { continue };
        let sample = folder.0.join("sample.etl");
        std::fs::write(&sample, etw_etl::write::sample::trace()).unwrap();
        files.push(sample);
        for file in &files {
            let call = Call::of(std::slice::from_ref(file));
            agrees(&program, &call);
            agrees(&program, &Call { by_format: true, ..call.clone() });
            agrees(&program, &Call { older: true, ..call.clone() });
            agrees(&program, &Call { raw: true, ..call.clone() });
            agrees(&program, &Call { limit: 3, ..call });
        }
        agrees(&program, &Call::of(&files));
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// `OpenEtw.Session`
const HOST: etw_types::Guid = etw_types::Guid::from_u128(0xc426bcf2_cd6c_5679_c416_2f87e1f372d4);

/// Several files as one: in order of time, the header of each before its other records.
#[test]
fn merged_traces_from_c() {
    let folder = Folder::new("tdh-merged");
    let Some(program) = compile(&folder, "tdh_sample.c", COMPILERS[0]) else { return };
    let files: Vec<PathBuf> =
        corpus().into_iter().filter(|file| file.metadata().unwrap().len() < 500_000).collect();
    if files.is_empty() {
        return;
    }
    agrees(&program, &Call::of(&files));
    agrees(&program, &Call { older: true, ..Call::of(&files) });
    let mut backwards = files;
    backwards.reverse();
    agrees(&program, &Call { raw: true, ..Call::of(&backwards) });
    // As many as there may be.
    let many: Vec<PathBuf> = backwards.iter().cycle().take(64).cloned().collect();
    agrees(&program, &Call { limit: 3000, ..Call::of(&many) });
}

/// The statuses of every call, as documented, with every compiler; what C++ throws in a callback.
#[test]
fn statuses_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("tdh-calls-{number}"));
        let Some(writer) = compile(&folder, "write_calls.c", compiler) else { continue };
        let trace = folder.0.join("calls.etl");
        assert!(Command::new(writer).env("WRITE_CALLS_OUT", &trace).status().unwrap().success());
        let (no_trace, manifest) = (folder.0.join("no.etl"), folder.0.join("calls.man"));
        let text = "<m><provider name='P' guid='{00000000-0000-0000-0000-000000000001}'/></m>";
        std::fs::write(&manifest, text).unwrap();
        std::fs::write(&no_trace, "This is no trace.").unwrap();
        let Some(program) = compile(&folder, "consumer_calls.c", compiler) else { continue };
        let mut command = Command::new(program);
        command.env("CALLS_TRACE", &trace).env("NO_TRACE", &no_trace).env("MANIFEST", &manifest);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// The example prints every event in a line of its own, as C and as C++.
#[test]
fn the_example_prints_traces() {
    for (number, compiler) in [COMPILERS[2], COMPILERS[3]].into_iter().enumerate() {
        let folder = Folder::new(&format!("tdh-example-{number}"));
        let writers = Folder::new(&format!("tdh-example-writer-{number}"));
        let example = home().join("examples/tdh_dump.c");
        let Some(program) = compile_file(&folder, &example, compiler) else { continue };
        let Some(writer) = compile(&writers, "tracelogging.c", compiler) else { continue };
        let own = folder.0.join("own.etl");
        assert!(Command::new(writer).env("TRACELOGGING_OUT", &own).status().unwrap().success());
        let mut files = vec![own.clone()];
        files.extend(corpus().into_iter().filter(|file| file.metadata().unwrap().len() < 400_000));
        for file in files {
            let output = Command::new(&program).arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{}: {said}", file.display());
            let mut records = Records::new(vec![TraceFile::open(&file).unwrap()]);
            let mut count = 0;
            while let Some(record) = records.next() {
                // Programs of Windows receive no events of a host.
                count += usize::from(record.provider != Some(HOST));
            }
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(text.lines().count(), count, "{}", file.display());
            if file == own {
                let line = " Test.Shop Arrays v.Count=2 v=[1, -2] f=[1, -2, 3] h=[0xAA, 0xBB] none.Count=0 none=[]\n";
                assert!(text.contains(line), "{text}");
                let line = " Test.Shop Structs outer={ a=1 inner={ b=2} c=3}\n";
                assert!(text.contains(line), "{text}");
            }
        }
    }
}

/// A program that loads no manifest finds what its user has registered, as Windows' programs find what is installed there.
#[test]
fn registered_schemas_from_c() {
    let (folder, writers) = (Folder::new("tdh-registered"), Folder::new("tdh-registered-writer"));
    let example = home().join("examples/tdh_dump.c");
    let program =
        compile_file(&folder, &example, COMPILERS[0]).expect("no C compiler is installed");
    let writer = compile(&writers, "write_calls.c", COMPILERS[0]).unwrap();
    let trace = folder.0.join("calls.etl");
    assert!(Command::new(writer).env("WRITE_CALLS_OUT", &trace).status().unwrap().success());
    let manifest = r#"<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"
        xmlns:win="http://manifests.microsoft.com/win/2004/08/windows/events"><instrumentation><events>
        <provider name="Registered" symbol="R" guid="{12345678-9abc-def0-0102-030405060708}"
            messageFileName="r" resourceFileName="r">
        <templates><template tid="T"><data name="Number" inType="win:UInt32"/>
            <data name="Text" inType="win:AnsiString"/></template></templates>
        <events><event value="7" version="1" level="win:Informational" template="T" symbol="E"/></events>
        </provider></events></instrumentation></instrumentationManifest>"#;
    let packs = folder.0.join("data/etw/packs");
    std::fs::create_dir_all(&packs).unwrap();
    // The pack of another build of Windows comes first by its name, and must not be used.
    let other = manifest.replace("name=\"Number\"", "name=\"OtherBuild\"");
    for (file, build, text) in [("a.etwpack", 7601, &other[..]), ("b.etwpack", 19041, manifest)] {
        let mut pack = PackBuilder::default();
        pack.add("registered.man", text.as_bytes()).unwrap();
        pack.set_windows(&WindowsVersion { build, ..WindowsVersion::default() });
        std::fs::write(packs.join(file), pack.finish()).unwrap();
    }
    // A file that is not a pack is skipped.
    std::fs::write(packs.join("another.etwpack"), "no pack").unwrap();
    let dump = |variable: &str, value: &Path| {
        let mut command = Command::new(&program);
        command.env_remove("ETW_PACKS").env("XDG_DATA_HOME", folder.0.join("none"));
        let output = command.env(variable, value).arg(&trace).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        String::from_utf8(output.stdout).unwrap()
    };
    let line = "Number=42 Text=text";
    let unknown = dump("UNUSED", &packs);
    assert!(!unknown.contains(line), "{unknown}");
    for (variable, value) in [("ETW_PACKS", &packs), ("XDG_DATA_HOME", &folder.0.join("data"))] {
        let text = dump(variable, value);
        assert_eq!(text.matches(line).count(), 4, "{variable}: {text}");
    }
}
