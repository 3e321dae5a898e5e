//! Programs written for Windows, compiled as they are.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use etwd::{Host, HostOptions};

use crate::support::*;

const C: [Compiler; 2] = [
    Compiler("gcc", &["-std=gnu11", "-fshort-wchar", "-DUNICODE", WINDOWS, "-include", "wmain.h"]),
    Compiler(
        "clang",
        &["-std=gnu11", "-fshort-wchar", "-DUNICODE", WINDOWS, "-include", "wmain.h"],
    ),
];
/// `#pragma comment` is unknown to g++ before a header can say that it does not matter.
const CPP: [Compiler; 2] = [
    Compiler(
        "g++",
        &[
            "-std=c++17",
            "-fshort-wchar",
            "-DUNICODE",
            WINDOWS,
            "-include",
            "wmain.h",
            "-Wno-unknown-pragmas",
        ],
    ),
    Compiler(
        "clang++",
        &[
            "-std=c++17",
            "-fshort-wchar",
            "-DUNICODE",
            WINDOWS,
            "-include",
            "wmain.h",
            "-Wno-unknown-pragmas",
        ],
    ),
];

/// Programs as they are written for Windows, includes and all: a provider, a controller and a consumer compile without a warning and
/// work together.
#[test]
fn programs_for_windows_work_as_they_are() {
    let mut ran = 0;
    for (number, (c, cpp)) in C.into_iter().zip(CPP).enumerate() {
        let folder = Folder::new(&format!("windows-{number}"));
        let built = |name: &str, source: &str, compiler| {
            let source = home().join("tests/c/windows").join(source);
            let program = compile_file(&folder, &source, compiler)?;
            let place = folder.0.join(name);
            std::fs::rename(program, &place).unwrap();
            Some(place)
        };
        let (Some(controller), Some(provider), Some(consumer)) = (
            built("controller", "controller.c", c),
            built("provider", "provider.cpp", cpp),
            built("consumer", "consumer.cpp", cpp),
        ) else {
            continue;
        };
        let directory = folder.0.join("run");
        let _host = Host::start(HostOptions::new(&directory)).unwrap();
        let command = |program| {
            let mut command = Command::new(program);
            command.env("ETW_RUNTIME_DIR", &directory).current_dir(&folder.0);
            command
        };

        let mut session =
            command(&controller).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(session.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let name = "My Event Trace Session is {AE44CB98-BD11-4069-8093-770EC9258A12}; ";
        assert!(line.starts_with(name), "{line}");
        // U+1F600 is two units.
        assert!(command(&provider).arg("grüße \u{1f600}").status().unwrap().success());
        session.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert!(session.wait().unwrap().success(), "{rest}");
        assert_eq!(rest, "     0 lost; My Event Trace Session\n");

        let output = command(&consumer).arg("sample-windows.etl").output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("Number of events lost:  0"));
        assert_eq!(lines.next(), Some("Pointer size: 8, of all"));
        let event = "{4B5C3A3D-08E0-4A38-8C06-4C3D5AC9F0E2} HelloWorldTestEvent level 3";
        let at = lines.by_ref().skip_while(|line| *line != event).skip(1);
        let fields: Vec<&str> = at.take_while(|line| line.starts_with("  ")).collect();
        assert_eq!(fields.len(), 5, "{text}");
        assert_eq!(fields[0], "  arg0: grüße \u{1f600}");
        assert_eq!(fields[1], "  message: grüße \u{1f600} at 07, 3 of 9: narrow");
        assert!(fields[2].starts_with("  pid: "));
        assert_eq!(fields[3..], ["  IsLocal: true", "  Ticks: 1"]);
        // No manifest describes the event with a descriptor.
        assert_eq!(text.matches("  no information: 1168").count(), 1, "{text}");
        ran += 1;
    }
    assert!(ran > 0, "no C++ compiler is installed");
}

/// The headers for Windows programs, besides ETW's calls: texts of 16 bits and their formats, `strsafe.h`, times, SIDs,
/// messages, modules; GUIDs defined in two files, and `INITGUID` behind `windows.h`; `std::wstring`.
#[test]
fn headers_for_windows_programs_mean_what_windows_documents() {
    const AS_CPP: &[&str] = &["-x", "c++"];
    const SECOND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/windows/guids.cpp");
    let folder = Folder::new("windows-system");
    let source = home().join("tests/c/windows/system.c");
    let mut ran = 0;
    let cpp = CPP.map(|Compiler(name, flags)| {
        // The second file has no main of its own.
        let flags = flags.iter().copied().filter(|flag| !["-include", "wmain.h"].contains(flag));
        (name, flags.collect::<Vec<_>>())
    });
    let all = C.into_iter().map(|Compiler(name, flags)| (name, flags.to_vec(), None));
    for (name, flags, second) in all.chain(cpp.map(|(name, flags)| (name, flags, Some(SECOND)))) {
        let mut objects = Vec::new();
        let mut flags: Vec<&'static str> = flags;
        if let Some(second) = second {
            let object = folder.0.join(format!("guids-{name}.o"));
            let status = Command::new(name)
                .args(&flags)
                .args(["-Wall", "-Wextra", "-Werror", "-c", second, "-o"])
                .arg(&object)
                .arg("-I")
                .arg(home().join("include"))
                .status();
            let Ok(status) = status else { continue };
            assert!(status.success(), "{name}");
            objects.push(object.display().to_string().leak() as &'static str);
            flags.extend(objects.iter());
            flags.extend(["-include", "wmain.h"]);
            flags.extend(AS_CPP);
        }
        let Some(program) = compile_file(&folder, &source, Compiler(name, flags.leak())) else {
            continue;
        };
        let output = Command::new(program).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// Capitalised header names, annotations, status codes, threads and their waits, and functions in the form of mc.exe's headers compile without a
/// warning and mean what Windows documents, in C (without `-fgnu89-inline`) and in C++.
#[test]
fn names_that_windows_programs_use_compile_and_work() {
    const AS_C: &[&str] = &["-std=gnu11", "-fshort-wchar", "-DUNICODE", WINDOWS];
    const AS_CPP: &[&str] =
        &["-std=c++17", "-fshort-wchar", "-DUNICODE", WINDOWS, "-Wno-unknown-pragmas", "-x", "c++"];
    for (name, flags) in [("gcc", AS_C), ("clang", AS_C), ("g++", AS_CPP), ("clang++", AS_CPP)] {
        runs("names.c", name, flags);
    }
}

/// Names of temporary files, folders, the environment, privileges, priorities, condition variables and thread-local storage mean what
/// Windows documents, in C and in C++.
#[test]
fn files_threads_and_privileges_work() {
    const AS_C: &[&str] = &["-std=c11", "-D_GNU_SOURCE", "-fshort-wchar", "-DUNICODE", WINDOWS];
    const AS_CPP: &[&str] =
        &["-std=c++11", "-O2", "-fshort-wchar", "-DUNICODE", WINDOWS, "-x", "c++"];
    const AS_CPP_20: &[&str] = &["-std=c++20", "-fshort-wchar", "-DUNICODE", WINDOWS, "-x", "c++"];
    for (name, flags) in [
        ("gcc", AS_C),
        ("clang", AS_C),
        ("g++", AS_CPP),
        ("g++", AS_CPP_20),
        ("clang++", AS_CPP),
        ("clang++", AS_CPP_20),
    ] {
        runs("files.c", name, flags);
    }
}

/// Windows' tags of structures, values of threads with a callback, packet headers and a program's own `struct in6_addr` compile without a
/// warning with `_WIN32` defined, and mean what Windows documents.
#[test]
fn shapes_of_windows_programs_compile_with_win32_defined() {
    const AS_C: &[&str] = &["-std=gnu11", "-D_WIN32", WINDOWS];
    const OWN: &[&str] = &["-std=gnu11", "-D_WIN32", "-DOWN_ADDRESSES", "-fshort-wchar", WINDOWS];
    const AS_CPP: &[&str] = &["-std=gnu++17", "-D_WIN32", "-fshort-wchar", WINDOWS, "-x", "c++"];
    for (name, flags) in [
        ("gcc", AS_C),
        ("gcc", OWN),
        ("clang", AS_C),
        ("clang", OWN),
        ("g++", AS_CPP),
        ("clang++", AS_CPP),
    ] {
        runs("shapes.c", name, flags);
    }
}

/// A program of `tests/c/windows` compiles, succeeds and prints no errors.
fn runs(program: &str, name: &'static str, flags: &'static [&'static str]) {
    let source = home().join("tests/c/windows").join(program);
    let folder = Folder::new(&format!("windows-{program}-{name}"));
    let Some(program) = compile_file(&folder, &source, Compiler(name, flags)) else { return };
    let output = Command::new(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{name}: {said}");
}

/// With clang and its flags for it, forms that only Microsoft's compiler accepts otherwise (krabsetw has all of them) compile.
#[test]
fn clang_compiles_the_dialect_of_microsofts_compiler() {
    const MICROSOFT: &[&str] = &[
        "-std=gnu++17",
        "-fms-extensions",
        "-fms-compatibility",
        "-fms-compatibility-version=19.30",
        // The warning about `friend typename T;` has no name.
        "-w",
        "-fshort-wchar",
        "-DUNICODE",
        WINDOWS,
    ];
    runs("dialect.cpp", "clang++", MICROSOFT);
}

/// Forms of C++ that programs for Windows have compile without a warning in C++11 and later, and mean what Windows documents.
#[test]
fn forms_of_cpp_compile_from_cpp_11_on() {
    const SOURCE: &str = "tests/c/windows/com.cpp";
    let mut ran = 0;
    for name in ["g++", "clang++"] {
        for standard in ["-std=c++11", "-std=c++14", "-std=c++17", "-std=c++20", "-std=c++2b"] {
            let folder = Folder::new(&format!("windows-com-{name}-{standard}"));
            let flags = vec![standard, "-fshort-wchar", "-DUNICODE", WINDOWS, "-Wno-narrowing"];
            let compiler = Compiler(name, flags.leak());
            let Some(program) = compile_file(&folder, &home().join(SOURCE), compiler) else {
                continue;
            };
            let output = Command::new(program).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{name} {standard}: {said}");
            ran += 1;
        }
    }
    assert!(ran > 0, "no C++ compiler is installed");
}

/// `__try`, `__except` and `__finally` end the compilation with a message that names what to use.
#[test]
fn structured_exceptions_are_refused_with_a_message() {
    const SOURCE: &str = "#include <windows.h>\nint main(void)\n{\n#ifndef __cplusplus\n    __try { return 1; }\n#endif\n    \
        __finally { return 0; }\n}\n";
    for (name, language) in [("gcc", "c"), ("clang", "c"), ("g++", "c++"), ("clang++", "c++")] {
        let folder = Folder::new(&format!("windows-seh-{name}"));
        let source = folder.0.join("seh.c");
        std::fs::write(&source, SOURCE).unwrap();
        let output = Command::new(name)
            .args(["-fsyntax-only", "-x", language, WINDOWS, "-I"])
            .args([home().join("include"), source])
            .output();
        let Ok(output) = output else { continue };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{name}");
        assert!(said.contains("use a cleanup attribute or a C++ destructor"), "{name}: {said}");
    }
}
