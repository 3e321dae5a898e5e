//! WPP: sources through `etw tracewpp`, compilers, `etw record` and `etw dump --tmf PROGRAM`.

use crate::support::{Folder, command_line, home, link_with_library};
use std::path::Path;
use std::process::{Command, Output};

const PROVIDER: &str = "{c1a551d0-1111-2222-3333-010203040506}";

/// A compiler with its flags, and the second source that it compiles.
struct Build {
    compiler: &'static [&'static str],
    second: &'static str,
}

const BUILDS: [Build; 4] = [
    Build { compiler: &["gcc", "-std=c11"], second: "other.c" },
    Build { compiler: &["clang", "-std=c11", "-O2"], second: "other.c" },
    Build { compiler: &["g++", "-std=c++17", "-O2", "-x", "c++"], second: "texts.cpp" },
    Build { compiler: &["clang++", "-std=c++17", "-x", "c++"], second: "texts.cpp" },
];

fn etw(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(command_line());
    // A host of this test's own.
    command.args(words).current_dir(folder).env("XDG_RUNTIME_DIR", folder).env("HOME", folder);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    output
}

/// Compiles a source to an object. Prints a note and returns `false` if the compiler is not installed.
fn compile(folder: &Path, compiler: &[&str], source: &str, object: &str) -> bool {
    let output = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-Wall", "-Wextra", "-Werror", "-I.", "-I"])
        .arg(home().join("include"))
        .args(["-c", source, "-o", object])
        .current_dir(folder)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: {} is not installed", compiler[0]);
        return false;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler:?} {source}: {said}");
    true
}

/// The texts of a trace's messages.
fn messages(json: &[u8]) -> Vec<String> {
    let lines = std::str::from_utf8(json).unwrap().lines();
    let records = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    records
        .filter(|record| record["decoded"] == "wpp")
        .map(|record| record["message"].as_str().unwrap().to_owned())
        .collect()
}

fn record_and_compare(build: &Build) {
    let name = format!("wpp-{}", build.compiler[0]);
    let folder = Folder::new(&name);
    let path = folder.0.as_path();
    for file in std::fs::read_dir(home().join("tests/c/wpp")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), path.join(file.file_name())).unwrap();
    }
    etw(path, &["tracewpp", "-scan:trace.h", "-p:Shop", "-tmf:formats", "main.c", build.second]);
    if !compile(path, build.compiler, "main.c", "main.o") {
        return;
    }
    compile(path, build.compiler, build.second, "second.o");
    let mut linker = Command::new(build.compiler[0]);
    linker.current_dir(path).args(["main.o", "second.o"]);
    assert!(link_with_library(&mut linker, &path.join("program")));
    let enablement = format!("{PROVIDER}:5:0x3");
    let trace = ["record", "-q", "-o", "t.etl", "-p", &enablement, "--", "./program"];
    let said = etw(path, &trace).stdout;
    let mut wanted: Vec<String> =
        String::from_utf8(said).unwrap().lines().map(str::to_owned).collect();
    if build.second == "texts.cpp" {
        let own = ["narrow|narrow|narrow|narrow|", "shop::Till::add 3", "shop::Till::~Till 3"];
        let last = wanted.pop().unwrap();
        wanted.extend(own[..2].iter().map(|text| (*text).to_owned()));
        wanted.extend([last, own[2].to_owned()]);
    }
    // The formats are in the program, and in the files.
    for formats in ["program", "formats"] {
        let dumped = etw(path, &["dump", "--tmf", formats, "--format", "json", "t.etl"]);
        let found = messages(&dumped.stdout);
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found, wanted, "{:?}", build.compiler);
        }
        assert_eq!(found.len(), wanted.len(), "{:?}", build.compiler);
    }
}

/// OV-21
#[test]
fn messages_of_c_sources_have_the_texts_that_their_program_prints() {
    BUILDS[..2].iter().for_each(record_and_compare);
}

/// OV-21
#[test]
fn messages_of_cpp_sources_have_the_texts_that_their_program_prints() {
    BUILDS[2..].iter().for_each(record_and_compare);
}

/// A source with a driver's calls is compiled for user mode, and says what it cannot have.
#[test]
fn sources_of_drivers_trace_without_the_recorder() {
    let folder = Folder::new("wpp-driver");
    let path = folder.0.as_path();
    let source = "\
        #define WPP_CONTROL_GUIDS WPP_DEFINE_CONTROL_GUID(Driver, (c1a551d2,1111,2222,3333,010203040506), WPP_DEFINE_BIT(Pnp))\n\
        #define WPP_FLAG_LEVEL_LOGGER(flag, level) WPP_LEVEL_LOGGER(flag)\n\
        #define WPP_FLAG_LEVEL_ENABLED(flag, level) (WPP_LEVEL_ENABLED(flag) && WPP_CONTROL(WPP_BIT_##flag).Level >= level)\n\
        /* begin_wpp config\nFUNC TraceEvents(FLAG, LEVEL, MSG, ...);\nend_wpp */\n\
        #include \"driver.tmh\"\n\
        LONG DriverEntry(PVOID DriverObject, PVOID RegistryPath)\n{\n\
        WPP_INIT_TRACING(DriverObject, RegistryPath);\n\
        TraceEvents(Pnp, TRACE_LEVEL_ERROR,\n    \"%!FUNC! %!STATUS!\", (LONG)0xC000000DL);\n\
        WPP_CLEANUP(DriverObject);\nreturn 0;\n}\n";
    std::fs::write(path.join("driver.c"), source).unwrap();
    etw(path, &["tracewpp", "-km", "-scan:driver.c", "driver.c"]);
    let compiler = ["gcc", "-std=c11", "-O2"];
    if !compile(path, &compiler, "driver.c", "driver.o") {
        return;
    }
    let refused = Command::new("gcc")
        .args(["-std=c11", "-DENABLE_WPP_RECORDER=1", "-I.", "-I"])
        .arg(home().join("include"))
        .args(["-c", "driver.c", "-o", "refused.o"])
        .current_dir(path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("the WPP recorder is not supported"),
        "{said}"
    );
}
