//! `windows.h` beside the headers of Linux and of the C++ library.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::*;

/// Headers of Linux that programs include beside `windows.h`.
const LINUX: &[&str] = &[
    "arpa/inet.h",
    "linux/in6.h",
    "net/if.h",
    "netdb.h",
    "netinet/in.h",
    "pthread.h",
    "signal.h",
    "sys/socket.h",
    "sys/stat.h",
    "threads.h",
    "time.h",
    "uchar.h",
    "unistd.h",
    "wchar.h",
];

/// Headers of Windows that have Linux' declarations: in the order of the programs, each after its `windows.h`.
const WINDOWS_HEADERS: &[&str] = &["windows.h", "winsock2.h"];

/// Headers of the C++ library, `1` if C++20 has them first.
const CPP: &[(&str, bool)] = &[
    ("algorithm", false),
    ("any", false),
    ("array", false),
    ("atomic", false),
    ("barrier", true),
    ("bit", true),
    ("bitset", false),
    ("chrono", false),
    ("cmath", false),
    ("complex", false),
    ("condition_variable", false),
    ("deque", false),
    ("exception", false),
    ("filesystem", false),
    ("fstream", false),
    ("functional", false),
    ("future", false),
    ("iomanip", false),
    ("iostream", false),
    ("list", false),
    ("locale", false),
    ("map", false),
    ("memory", false),
    ("mutex", false),
    ("numbers", true),
    ("optional", false),
    ("queue", false),
    ("random", false),
    ("regex", false),
    ("semaphore", true),
    ("set", false),
    ("shared_mutex", false),
    ("span", true),
    ("sstream", false),
    ("string", false),
    ("string_view", false),
    ("system_error", false),
    ("thread", false),
    ("tuple", false),
    ("type_traits", false),
    ("unordered_map", false),
    ("variant", false),
    ("vector", false),
];

/// The compiler's messages for a text; `None` if it is not installed.
fn messages(compiler: &str, flags: &[&str], source: &Path) -> Option<String> {
    let output = Command::new(compiler)
        .args(flags)
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-fsyntax-only", WINDOWS])
        .arg("-I")
        .arg(home().join("include"))
        .arg(source)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: {compiler} is not installed");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { String::new() } else { said })
}

fn write(folder: &Folder, name: &str, text: &str) -> PathBuf {
    let path = folder.0.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// `windows.h` and `winsock2.h` compile without a warning before and after each header of Linux that defines some of their names.
#[test]
fn windows_h_compiles_before_and_after_headers_of_linux() {
    let folder = Folder::new("linux-headers");
    for header in LINUX {
        for windows in WINDOWS_HEADERS {
            for pair in [[header, windows], [windows, header]] {
                let text = pair.map(|name| format!("#include <{name}>\n")).concat();
                let text = text + "#include <evntrace.h>\nint main(void) { return 0; }\n";
                for (compiler, flags, name) in [
                    ("gcc", ["-std=gnu11", "-O0"], "pair.c"),
                    ("clang++", ["-std=gnu++17", "-fshort-wchar"], "pair.cpp"),
                ] {
                    if *header == "threads.h" && compiler == "clang++" {
                        // C alone has this header.
                        continue;
                    }
                    let source = write(&folder, name, &text);
                    let said = messages(compiler, &flags, &source).unwrap_or_default();
                    assert!(said.is_empty(), "{compiler}, {pair:?}: {said}");
                }
            }
        }
    }
}

/// With `-std=c11` the C library declares less. `windows.h` asks for more if it comes first, and says what to do otherwise.
#[test]
fn windows_h_compiles_in_strict_c() {
    let folder = Folder::new("strict-c");
    const BODY: &str = "#include <evntprov.h>\nint main(void) { Sleep(0); return 0; }\n";
    for compiler in ["gcc", "clang"] {
        let first = write(&folder, "first.c", &format!("#include <windows.h>\n{BODY}"));
        let said = messages(compiler, &["-std=c11", "-O2"], &first).unwrap_or_default();
        assert!(said.is_empty(), "{compiler}: {said}");
        let text = format!("#include <stdio.h>\n#include <windows.h>\n{BODY}");
        let behind = write(&folder, "behind.c", &text);
        let asked = ["-std=c11", "-D_DEFAULT_SOURCE"];
        let said = messages(compiler, &asked, &behind).unwrap_or_default();
        assert!(said.is_empty(), "{compiler}: {said}");
        if let Some(said) = messages(compiler, &["-std=c11"], &behind) {
            assert!(said.contains("-D_DEFAULT_SOURCE"), "{compiler}: {said}");
        }
    }
}

/// The headers of the C++ library compile behind `windows.h`, with `_WIN32` and with clang's dialect of Microsoft's compiler, too.
#[test]
fn the_cpp_library_compiles_behind_windows_h() {
    let folder = Folder::new("cpp-library");
    let includes = |all: bool| -> String {
        let chosen = CPP.iter().filter(|(_, is_new)| all || !is_new);
        chosen.map(|(name, _)| format!("#include <{name}>\n")).collect()
    };
    const BODY: &str = "#include <evntrace.h>\n#include <TraceLoggingProvider.h>\n\
        int main() { std::atomic<int> one{1}; std::wstring text(L\"abc\"); std::thread([] {}).join();\n\
        return one.load() - 1 + (text.size() == 3 ? 0 : 1); }\n";
    const MICROSOFT: &[&str] =
        &["-fms-extensions", "-fms-compatibility", "-fms-compatibility-version=19.30"];
    for (compiler, dialect) in [("g++", &[][..]), ("clang++", &[]), ("clang++", MICROSOFT)] {
        for standard in ["-std=gnu++17", "-std=gnu++20"] {
            let text =
                format!("#include <windows.h>\n{}{BODY}", includes(standard.ends_with("20")));
            let source = write(&folder, "library.cpp", &text);
            let mut flags = vec![standard, "-fshort-wchar", "-DUNICODE", "-D_WIN32"];
            flags.extend(dialect);
            let said = messages(compiler, &flags, &source).unwrap_or_default();
            assert!(said.is_empty(), "{compiler} {flags:?}: {said}");
        }
    }
}
