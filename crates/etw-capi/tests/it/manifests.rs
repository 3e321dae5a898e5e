//! Every event of every manifest, written through the names of its header, read back and decoded.

mod c_driver;
mod rust_driver;
mod values;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use etw_etl::read::{Records, TraceFile};
use etw_mc::Manifest;
use etw_mc::header::{self, Options};
use serde_json::Value;

use crate::support::*;

/// Manifests: those of `etw-mc`, which have every type of field and rare forms, and those of the corpus, where it is found.
fn manifests() -> Vec<PathBuf> {
    let own = ["all_types.man", "odd_forms.man"];
    let mut found: Vec<PathBuf> =
        own.iter().map(|name| home().join("../etw-mc/tests/it").join(name)).collect();
    for folder in ["mc", "manifests"] {
        let corpus = home().join("../../../shared/corpus").join(folder);
        match fs::read_dir(&corpus) {
            Ok(files) => {
                let files = files.map(|file| file.unwrap().path());
                let is_manifest = |path: &PathBuf| {
                    // One is the manifest of a Windows component, which mc does not take.
                    path.extension().is_some_and(|ext| ext == "man")
                        && path.file_stem().is_some_and(|stem| stem != "SystemEvents")
                };
                found.extend(files.filter(is_manifest));
            }
            Err(_) => eprintln!("skipped: no {}", corpus.display()),
        }
    }
    found.sort();
    found
}

fn parse(path: &Path) -> Manifest {
    Manifest::parse(&fs::read(path).unwrap()).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// The payloads of a manifest's events in a trace, in order.
fn payloads(trace: &Path, manifest: &Manifest) -> Vec<(u16, u8, Vec<u8>)> {
    let mut records = Records::new(vec![TraceFile::open(trace).unwrap()]);
    let mut found = Vec::new();
    while let Some(record) = records.next() {
        let is_own = |one: &etw_mc::manifest::Provider| {
            record.provider == Some(one.control_guid.unwrap_or(one.guid))
        };
        if manifest.providers.iter().any(is_own) {
            let descriptor = record.descriptor;
            found.push((descriptor.id, descriptor.version, record.payload.to_vec()));
        }
    }
    found
}

/// Decodes a trace with a manifest: each event has a name of the manifest's and all of its fields.
fn decoded(trace: &Path, manifest: Option<&Path>) -> Vec<Value> {
    let mut command = Command::new(command_line());
    command.args(["dump", "--format", "json"]);
    if let Some(manifest) = manifest {
        command.arg("--manifest").arg(manifest);
    }
    let output = command.arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_own =
        |event: &Value| event["header"] == "EVENT64" && event["provider_name"] != "OpenEtw.Session";
    events.filter(is_own).collect()
}

/// OV-21
#[test]
fn every_event_is_written_through_its_macro_and_decoded() {
    let mut ran = 0;
    for path in manifests() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let manifest = parse(&path);
        if manifest.providers.is_empty() {
            continue;
        }
        let text = header::write(&manifest, &Options::default());
        let header = format!("{name}.h");
        let driver = c_driver::driver(&manifest, &header, &text);
        let is_own = name == "all_types";
        let compilers = COMPILERS.into_iter().enumerate();
        for (number, compiler) in compilers.filter(|(number, _)| is_own || [0, 5].contains(number))
        {
            let folder = Folder::new(&format!("manifest-{name}-{number}"));
            fs::write(folder.0.join(&header), &text).unwrap();
            let source = folder.0.join("driver.c");
            fs::write(&source, &driver.source).unwrap();
            let Some(program) = compile_file(&folder, &source, compiler) else { continue };
            let out = folder.0.join("out.etl");
            let output = Command::new(program).env("DRIVER_OUT", &out).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && errors.is_empty(), "{compiler:?}: {errors}");
            let written = payloads(&out, &manifest);
            assert_eq!(written.len(), driver.payloads.len(), "{name}");
            for ((id, version, payload), expected) in written.iter().zip(&driver.payloads) {
                assert_eq!(payload, expected, "{name} event {id} version {version}");
            }
            if number == 0 {
                let expected = decoded(&out, Some(&path));
                check_decoded(&expected, &manifest, written.len());
                check_merged(&folder, &out, &path, &expected);
            }
            ran += 1;
        }
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// A trace that was merged with schemas is decoded without the manifest.
fn check_merged(folder: &Folder, trace: &Path, manifest: &Path, expected: &[Value]) {
    let merged = folder.0.join("merged.etl");
    let mut command = Command::new(command_line());
    command.args(["merge", "--with-schemas", "--manifest"]).arg(manifest);
    let output = command.arg("-o").arg(&merged).arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The text that names the schema's source differs.
    let rest = |event: &Value| {
        let mut event = event.clone();
        for key in ["decoded", "schema", "offset", "buffer", "cpu"] {
            event.as_object_mut().unwrap().remove(key);
        }
        event
    };
    let found: Vec<Value> = decoded(&merged, None).iter().map(rest).collect();
    let expected: Vec<Value> = expected.iter().map(rest).collect();
    assert_eq!(found, expected);
}

/// A program that allocates the contexts of a provider itself: each is a registration of its own.
#[test]
fn each_context_that_a_program_allocates_is_a_registration() {
    let path = home().join("../etw-mc/tests/it/all_types.man");
    let text = header::write(&parse(&path), &Options::default());
    let source = r#"
#define MCGEN_ENABLE_FORCONTEXT_CODE_GENERATION 1
#include <stdio.h>
#include <stdlib.h>
#include <etw_session.h>
#include "all_types.h"

#define CHECK(condition)                                            \
    do {                                                            \
        if (!(condition)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            return 1;                                               \
        }                                                           \
    } while (0)

int main(void)
{
    static const GUID other = {1, 2, 3, {4}};
    static McGenContext_OpenEtw_All_Types first, second;
    ETW_SESSION session;
    ULONGLONG lost = 99;
    CHECK(etw_session_start("contexts", getenv("DRIVER_OUT"), &session) == 0);
    CHECK(EventRegisterOpenEtw_All_Types_ForContext(&first) == 0);
    CHECK(EventRegisterByGuidOpenEtw_All_Types_ForContext(other, &second) == 0);
    CHECK(!EventEnabledEmpty_ForContext(&first));
    CHECK(etw_session_enable(session, &ALL_TYPES, 255, 0, 0) == 0);
    CHECK(EventEnabledEmpty_ForContext(&first));
    CHECK(!EventEnabledEmpty_ForContext(&second));
    CHECK(EventWriteEmpty_ForContext(&first) == 0);
    CHECK(EventWriteEmpty_ForContext(&second) == 0);
    CHECK(OpenEtw_All_TypesHandle_ForContext(&first) != 0);
    CHECK(EventUnregisterOpenEtw_All_Types_ForContext(&first) == 0);
    CHECK(EventUnregisterOpenEtw_All_Types_ForContext(&second) == 0);
    CHECK(etw_session_stop(session, &lost) == 0);
    return lost != 0;
}
"#;
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("manifest-contexts-{number}"));
        fs::write(folder.0.join("all_types.h"), &text).unwrap();
        let file = folder.0.join("contexts.c");
        fs::write(&file, source).unwrap();
        let Some(program) = compile_file(&folder, &file, compiler) else { continue };
        let out = folder.0.join("out.etl");
        let output = Command::new(program).env("DRIVER_OUT", &out).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{compiler:?}: {errors}");
        assert_eq!(payloads(&out, &parse(&path)).len(), 1, "{compiler:?}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// A program that carries its schemas: its own session's trace, that of a host, and the program itself explain its events.
#[test]
fn traces_of_a_program_with_schemas_explain_themselves() {
    let path = home().join("../etw-mc/tests/it/all_types.man");
    let manifest = parse(&path);
    let text = header::write(&manifest, &Options::default());
    let driver = c_driver::driver(&manifest, "all_types.h", &text);
    let Some(machine) = etw_mc::elf::Machine::own() else { return };
    let mut ran = 0;
    for (number, compiler) in [(0, COMPILERS[0]), (5, COMPILERS[5])] {
        let folder = Folder::new(&format!("manifest-schemas-{number}"));
        fs::write(folder.0.join("all_types.h"), &text).unwrap();
        let (source, object) = (folder.0.join("driver.c"), folder.0.join("schemas.o"));
        fs::write(&source, &driver.source).unwrap();
        fs::write(&object, etw_mc::elf::write(&manifest, machine)).unwrap();
        let program = compile_with_object(&folder, &source, compiler, &object);
        let Some(program) = program else { continue };
        check_explained(&folder, &program, &manifest, driver.payloads.len());
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// Runs a driver under a session of its own and one of a host: both traces explain its events.
fn check_explained(folder: &Folder, program: &Path, manifest: &Manifest, events: usize) {
    let (own, hosted) = (folder.0.join("own.etl"), folder.0.join("hosted.etl"));
    let guid = manifest.providers[0].guid;
    let mut command = Command::new(command_line());
    command.arg("record").arg("-o").arg(&hosted).arg("-p").arg(format!("{guid}:255"));
    command.arg("--").arg(program).env("DRIVER_OUT", &own);
    command.env("ETW_SCHEMAS", folder.0.join("ids"));
    command.env("HOME", &folder.0).env("ETW_PACKS", "").env_remove("XDG_DATA_HOME");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for trace in [&own, &hosted] {
        check_decoded(&decoded(trace, None), manifest, events);
    }
}

/// A program without schemas whose build id names an object that has them.
#[test]
fn traces_of_a_program_whose_build_id_names_its_schemas_explain_themselves() {
    let path = home().join("../etw-mc/tests/it/all_types.man");
    let manifest = parse(&path);
    let text = header::write(&manifest, &Options::default());
    let driver = c_driver::driver(&manifest, "all_types.h", &text);
    let Some(machine) = etw_mc::elf::Machine::own() else { return };
    let mut ran = 0;
    for (number, compiler) in [(0, COMPILERS[0]), (5, COMPILERS[5])] {
        let folder = Folder::new(&format!("manifest-build-id-{number}"));
        fs::write(folder.0.join("all_types.h"), &text).unwrap();
        let source = folder.0.join("driver.c");
        fs::write(&source, &driver.source).unwrap();
        let id = "0a1b2c3d4e5f60718293";
        let Some(program) = compile_with_build_id(&folder, &source, compiler, id) else { continue };
        let ids = folder.0.join("ids/0a");
        fs::create_dir_all(&ids).unwrap();
        let object = etw_mc::elf::write(&manifest, machine);
        fs::write(ids.join("1b2c3d4e5f60718293.debug"), object).unwrap();
        check_explained(&folder, &program, &manifest, driver.payloads.len());
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// The command that builds and runs a package of its own, with this workspace's versions of everything.
fn rust_package(folder: &Folder, main: &str) -> Command {
    let workspace = home().join("../..");
    let etw = home().join("../etw").canonicalize().unwrap();
    let manifest = format!(
        "[package]\nname = \"driver\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\n\
         etw = {{ package = \"openetw\", path = {etw:?}, features = [\"session\"] }}\n\
         [workspace]\n[profile.dev]\nincremental = false\ndebug = false\n"
    );
    fs::create_dir_all(folder.0.join("src")).unwrap();
    fs::write(folder.0.join("Cargo.toml"), manifest).unwrap();
    fs::copy(workspace.join("Cargo.lock"), folder.0.join("Cargo.lock")).unwrap();
    fs::write(folder.0.join("src/main.rs"), main).unwrap();
    let mut command = Command::new(env!("CARGO"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust-driver");
    command.args(["run", "--quiet", "--offline", "--target-dir"]).arg(target);
    command.current_dir(&folder.0);
    command
}

/// OV-21
#[test]
fn rust_writes_the_payloads_of_c() {
    let folder = Folder::new("manifest-rust");
    let mut main = String::from(
        "#![forbid(unsafe_code)]\n\
         fn system_time(bytes: [u8; 16]) -> etw::SystemTime {\n    etw::SystemTime::read(&bytes, 0).unwrap()\n}\n",
    );
    let mut calls = String::new();
    let mut drivers = Vec::new();
    for (number, path) in manifests().into_iter().enumerate() {
        let manifest = parse(&path);
        let text = etw_mc::rust::write(&manifest, &etw_mc::rust::Options::default());
        let file = folder.0.join(format!("generated{number}.rs"));
        fs::write(&file, &text).unwrap();
        let driver = rust_driver::driver(&manifest, &text, file.to_str().unwrap());
        let out = folder.0.join(format!("{number}.etl"));
        main.push_str(&format!("mod driver{number} {{\n{}}}\n", driver.source));
        calls.push_str(&format!("    driver{number}::run({:?});\n", out.to_str().unwrap()));
        drivers.push((path, manifest, driver, out));
    }
    main.push_str(&format!("fn main() {{\n{calls}}}\n"));
    let output = rust_package(&folder, &main).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    for (path, manifest, driver, out) in drivers {
        let name = path.display();
        let written = payloads(&out, &manifest);
        assert_eq!(written.len(), driver.payloads.len(), "{name}");
        for ((id, version, payload), expected) in written.iter().zip(&driver.payloads) {
            assert_eq!(payload, expected, "{name} event {id} version {version}");
        }
        if !manifest.providers.is_empty() {
            // The generated providers carry their schemas.
            check_decoded(&decoded(&out, None), &manifest, written.len());
        }
    }
}

fn check_decoded(events: &[Value], manifest: &Manifest, count: usize) {
    assert_eq!(events.len(), count);
    for event in events {
        let of = |provider: &&etw_mc::manifest::Provider| event["provider_name"] == *provider.name;
        let provider = manifest.providers.iter().find(of).unwrap_or_else(|| panic!("{event}"));
        let known = provider
            .events
            .iter()
            .find(|one| event["id"] == one.id && event["version"] == one.version)
            .unwrap_or_else(|| panic!("{event}"));
        let fields = known.template.map_or(&[][..], |index| &provider.templates[index].fields);
        let empty = serde_json::Map::new();
        let shown = event["fields"].as_object().unwrap_or(&empty);
        let names: Vec<&str> = shown.keys().map(String::as_str).collect();
        let expected: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        let sorted = |mut names: Vec<&str>| -> Vec<String> {
            names.sort_unstable();
            names.into_iter().map(str::to_owned).collect()
        };
        assert_eq!(sorted(names), sorted(expected), "{event}");
        assert!(event.get("error").is_none() && event.get("rest").is_none(), "{event}");
    }
}
