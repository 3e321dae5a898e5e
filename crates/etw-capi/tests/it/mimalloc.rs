//! mimalloc with its events: a real header of mc and the sources around it, unmodified. The test runs if `ETW_MIMALLOC_SOURCES`
//! names folders with mimalloc's sources, separated by colons.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::*;

/// mimalloc's call at its end has no semicolon. mc's header takes a definition of the macro behind that call from outside.
const WITH_SEMICOLON: &str = "-DEventUnregistermicrosoft_windows_mimalloc()=\
     (void)McGenEventUnregister(&microsoft_windows_mimallocHandle);";

/// Compiles the library with its events into an object. `false`: the compiler is not installed.
fn compile_mimalloc(sources: &Path, compiler: Compiler, object: &Path) -> bool {
    let mut command = Command::new(compiler.0);
    command.args(compiler.1).args(["-D_DEFAULT_SOURCE", "-include", "windows.h"]);
    command.args(["-DMI_TRACK_ETW=1", WITH_SEMICOLON]);
    for folder in [home().join("include/windows"), home().join("include"), sources.join("include")]
    {
        command.arg("-I").arg(folder);
    }
    command.arg("-c").arg(sources.join("src/static.c")).arg("-o").arg(object);
    let Ok(output) = command.output() else {
        eprintln!("skipped: {} is not installed", compiler.0);
        return false;
    };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler:?}: {messages}");
    true
}

/// Name, address and size of mimalloc's events in a trace.
fn events(trace: &Path, manifest: &Path) -> Vec<(String, u64, u64)> {
    let mut command = Command::new(command_line());
    command.args(["dump", "--format", "json", "--manifest"]).arg(manifest).arg(trace);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events
        .filter(|event| event["provider_name"] == "microsoft-windows-mimalloc")
        .map(|event| {
            let field = |name: &str| event["fields"][name].as_u64().unwrap();
            (event["event"].as_str().unwrap().to_owned(), field("Address"), field("Size"))
        })
        .collect()
}

/// OV-21
#[test]
fn mimalloc_is_compiled_with_its_events_and_they_decode_by_name() {
    let Some(folders) = std::env::var_os("ETW_MIMALLOC_SOURCES") else {
        eprintln!("skipped: ETW_MIMALLOC_SOURCES names no folder with mimalloc's sources");
        return;
    };
    let mut ran = 0;
    for sources in std::env::split_paths(&folders) {
        for (number, compiler) in [(0, COMPILERS[0]), (4, COMPILERS[4])] {
            let folder = Folder::new(&format!("mimalloc-{number}"));
            let object = folder.0.join("mimalloc.o");
            if !compile_mimalloc(&sources, compiler, &object) {
                continue;
            }
            // The driver finds `mimalloc.h` beside it.
            let driver = folder.0.join("driver.c");
            fs::copy(home().join("tests/c/mimalloc.c"), &driver).unwrap();
            for name in ["mimalloc.h", "mimalloc-stats.h"] {
                let _ = fs::copy(sources.join("include").join(name), folder.0.join(name));
            }
            let program = compile_with_object(&folder, &driver, compiler, &object).unwrap();
            let trace = folder.0.join("out.etl");
            let status = Command::new(program).env("DRIVER_OUT", &trace).status().unwrap();
            assert!(status.success(), "{compiler:?}: {status}");
            let events = events(&trace, &sources.join("src/prim/windows/etw.man"));
            let [first, second] = [events[0].1, events[2].1];
            let expected = [
                ("ETW_MI_ALLOC".to_owned(), first, 1000),
                ("ETW_MI_FREE".to_owned(), first, 1000),
                ("ETW_MI_ALLOC".to_owned(), second, 5_000_000),
                ("ETW_MI_FREE".to_owned(), second, 5_000_000),
            ];
            assert_eq!(events, expected, "{compiler:?}");
            ran += 1;
        }
    }
    assert!(ran > 0, "no folder or no C compiler");
}
