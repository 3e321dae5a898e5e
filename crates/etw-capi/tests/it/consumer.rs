use std::path::{Path, PathBuf};
use std::process::Command;

use crate::expected::{Call, expected};
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

/// Runs the sample; what it printed, but for the line on buffers.
pub fn run(program: &Path, call: &Call) -> String {
    let output = Command::new(program).args(call.arguments()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{:?}: {said}", call.files);
    let text = String::from_utf8(output.stdout).unwrap();
    let (text, buffers) = text.rsplit_once("buffers ").unwrap();
    assert!(matches!(buffers.trim(), "0" | "1"));
    text.to_owned()
}

fn agrees(program: &Path, call: &Call) {
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
    ] {
        let call = Call {
            manifest: Some(shared(&format!("manifests/{manifest}.man"))),
            limit: 1000,
            ..Call::of(&[shared(&format!("etl/{file}.etl"))])
        };
        agrees(&program, &call);
        agrees(&program, &Call { by_format: true, ..call.clone() });
        decoded += run(&program, &call).matches("schema 0 0").count();
    }
    assert!(decoded > 100, "{decoded} events by manifest");
    let call = Call { tmf: Some(shared("tmf")), ..Call::of(&[shared("etl/wpp-systemtime.etl")]) };
    agrees(&program, &call);
    agrees(&program, &Call { by_format: true, ..call.clone() });
    assert!(run(&program, &call).matches("\nformatted ").count() > 5);
}

/// Traces that this library's own sessions write, and traces of every kind of record, with every compiler, sanitizers among them.
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
        let no_trace = folder.0.join("no.etl");
        std::fs::write(&no_trace, "This is no trace.").unwrap();
        let Some(program) = compile(&folder, "consumer_calls.c", compiler) else { continue };
        let mut command = Command::new(program);
        let output =
            command.env("CALLS_TRACE", &trace).env("NO_TRACE", &no_trace).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}
