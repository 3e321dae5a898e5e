//! msquic's core and platform with their own manifest: unmodified sources, and a header that `etw mc` makes. The test runs if
//! `ETW_MSQUIC_SOURCES` names the folder of msquic's sources (that of crate `msquic` has all that it needs), and needs OpenSSL's headers.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::*;

/// Names of Windows' C library and headers that msquic's macros for ETW use.
const WINDOWS: &[&str] = &[
    "-D_IRQL_requires_same_=",
    "-D_TRUNCATE=0",
    "-D_snprintf_s(buffer,size,count,...)=snprintf(buffer,size,__VA_ARGS__)",
];

/// The sources of the platform, beside all of the core.
const PLATFORM: &[&str] = &[
    "cgroup",
    "certificates_posix",
    "crypt",
    "crypt_openssl",
    "datapath_epoll",
    "datapath_linux",
    "datapath_raw_dummy",
    "datapath_unix",
    "datapath_xplat",
    "hashtable",
    "pcp",
    "platform_posix",
    "platform_worker",
    "storage_posix",
    "toeplitz",
];

fn sources(root: &Path) -> Vec<PathBuf> {
    let core = fs::read_dir(root.join("src/core")).unwrap().map(|file| file.unwrap().path());
    let mut all: Vec<PathBuf> =
        core.filter(|path| path.extension().is_some_and(|ext| ext == "c")).collect();
    all.extend(PLATFORM.iter().map(|name| root.join(format!("src/platform/{name}.c"))));
    all.push(home().join("tests/c/msquic.c"));
    all.sort();
    all
}

/// Compiles everything; gives the objects.
fn compile_msquic(root: &Path, compiler: &str, folder: &Folder) -> Option<Vec<PathBuf>> {
    let mut objects = Vec::new();
    for source in sources(root) {
        let object = folder.0.join(source.file_name().unwrap()).with_extension("o");
        let mut command = Command::new(compiler);
        // msquic itself embeds structs without names.
        command.args(["-w", "-fms-extensions", "-D_GNU_SOURCE", "-DCX_PLATFORM_LINUX"]);
        command.args(["-DQUIC_BUILD_STATIC", "-DVER_BUILD_ID=0", "-DVER_SUFFIX=-x"]);
        command.args(["-DQUIC_EVENTS_MANIFEST_ETW", "-DQUIC_LOGS_MANIFEST_ETW"]).args(WINDOWS);
        for path in [folder.0.clone(), root.join("src/inc"), home().join("include")] {
            command.arg("-I").arg(path);
        }
        command.arg("-c").arg(&source).arg("-o").arg(&object);
        let Ok(output) = command.output() else {
            eprintln!("skipped: {compiler} is not installed");
            return None;
        };
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{compiler} {}: {messages}", source.display());
        objects.push(object);
    }
    Some(objects)
}

/// OV-21
#[test]
fn msquic_is_compiled_with_its_events_and_they_decode_by_name() {
    let Some(root) = std::env::var_os("ETW_MSQUIC_SOURCES").map(PathBuf::from) else {
        eprintln!("skipped: ETW_MSQUIC_SOURCES names no folder with msquic's sources");
        return;
    };
    let manifest = root.join("src/manifest/MsQuicEtw.man");
    let mut ran = 0;
    for compiler in ["gcc", "clang"] {
        let folder = Folder::new(&format!("msquic-{compiler}"));
        let schemas = folder.0.join("schemas.obj");
        let run = |arguments: &[OsString]| {
            let mut command = Command::new(command_line());
            let output = command.args(arguments).current_dir(&folder.0).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let folder_name = folder.0.clone().into_os_string();
        // One call: a second one, for the object alone, would write a header without code over this one.
        let mut compile = words(&["mc", "-um", "-h"]);
        compile.extend([folder_name.clone(), "-r".into(), folder_name, "-elf".into()]);
        compile.extend([schemas.clone().into(), manifest.clone().into()]);
        run(&compile);
        let Some(objects) = compile_msquic(&root, compiler, &folder) else { continue };
        let program = folder.0.join("quic");
        let mut linker = Command::new(compiler);
        linker.args(objects).arg(&schemas).arg("-lcrypto");
        assert!(link_with_library(&mut linker, &program), "{compiler}");
        let trace = folder.0.join("quic.etl");
        let mut record = words(&["record", "-o"]);
        record.extend([trace.clone().into(), "-p".into()]);
        record.push("ff15e657-4f26-570e-88ab-0796b258d11c:5".into());
        record.extend(["--".into(), program.into()]);
        run(&record);
        let mut dump = words(&["dump", "--format", "json"]);
        dump.push(trace.into());
        let text = String::from_utf8(run(&dump)).unwrap();
        let events: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|event| event["provider_name"] == "Microsoft-Quic")
            .collect();
        for event in &events {
            assert!(event["event"].is_string() && event.get("rest").is_none(), "{event}");
        }
        let has = |name: &str| events.iter().any(|event| event["event"] == name);
        for name in ["QuicLibraryInitializedV3", "QuicRegistrationCreatedV2", "QuicConnCreated"] {
            assert!(has(name), "{name}");
        }
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}
