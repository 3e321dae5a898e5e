//! `cargo xtask wine`: the tests that need no Linux, compiled for Windows and run under Wine.
//!
//! Installs what is missing, from rustup and Debian's packages, and skips aloud if it cannot. Wine's own ETW functions do nothing:
//! the tests of `openetw` put a recorder in their place.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Result, root};

const TARGET: &str = "x86_64-pc-windows-gnu";
const LINKER: &str = "x86_64-w64-mingw32-gcc";

/// A library that a test of `openetw` loads.
const LIBRARY: [&str; 5] = ["build", "-p", "openetw", "--example", "unloaded_library"];

/// The packages whose tests run, with the selection of tests.
const TESTS: [&[&str]; 3] = [
    &[
        "-p",
        "etw-types",
        "-p",
        "etw-tracelogging",
        "-p",
        "etw-etl",
        "-p",
        "etw-decode",
        "-p",
        "etw-session",
        "-p",
        "etw-mc",
        "-p",
        "etw-tracewpp",
        "-p",
        "etw-evtx",
        "-p",
        "etw-macros",
        "-p",
        "etw-storport",
        "-p",
        "etw-tracing",
        "-p",
        "etw-log-sink",
        "--lib",
        "--tests",
    ],
    &["-p", "openetw", "--test", "windows", "--test", "windows_old"],
    // Examples are run by Cargo, and part files are left by programs that Linux kills.
    &[
        "-p",
        "etw-cli",
        "--test",
        "it",
        "--",
        "--skip",
        "examples::",
        "--skip",
        "part::",
        "--skip",
        "a_part_beside_the_file_is_not_lost",
    ],
];

/// Rust's standard library needs this library, which Wine has since version 9.
const RANDOM_NUMBERS: &str = "\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    while (size) {
        ULONG part = size > 0x1000000 ? 0x1000000 : (ULONG)size;
        if (!SystemFunction036(data, part)) return FALSE;
        data += part;
        size -= part;
    }
    return TRUE;
}
";

#[derive(clap::Args)]
pub struct Arguments {
    /// Arguments of `cargo test` in place of all tests, as `-p etw-etl --lib`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    test: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(reason) => {
            println!("wine: skipped: {reason}");
            return Ok(());
        }
    };
    let folder = root().join("target/wine");
    tools.prepare(&folder)?;
    let own: Vec<&str> = arguments.test.iter().map(String::as_str).collect();
    let selections = if own.is_empty() { TESTS.to_vec() } else { vec![&own[..]] };
    let tests = selections.iter().map(|selection| ("test", *selection));
    for (command, words) in [(LIBRARY[0], &LIBRARY[1..])].into_iter().chain(tests) {
        let status = Command::new("cargo")
            .args([command, "--locked", "--target", TARGET])
            .args(words)
            .current_dir(root())
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", &tools.wine)
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", LINKER)
            .env(
                "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS",
                format!("-Lnative={}", folder.display()),
            )
            .env("WINEPREFIX", folder.join("prefix"))
            .env("WINEPATH", &folder)
            .env("WINEDEBUG", "-all")
            .status()?;
        if !status.success() {
            return Err(format!("cargo {command} {} failed under Wine", words.join(" ")).into());
        }
    }
    Ok(())
}

struct Tools {
    wine: PathBuf,
}

impl Tools {
    /// Finds the tools, or installs them. The error says what is missing.
    fn find() -> std::result::Result<Tools, String> {
        if !succeeds("rustup", &["target", "add", TARGET]) && !has_target() {
            return Err(format!("no standard library for {TARGET}, and rustup cannot fetch one"));
        }
        let packages = ["gcc-mingw-w64-x86-64-win32", "wine64"];
        if (!succeeds(LINKER, &["--version"]) || wine().is_none())
            && !succeeds(
                "apt-get",
                &[&["install", "-qq", "-y", "--no-install-recommends"][..], &packages].concat(),
            )
        {
            return Err(format!("{} cannot be installed with apt-get", packages.join(" and ")));
        }
        let wine = wine().ok_or("there is no wine64")?;
        Ok(Tools { wine })
    }

    /// Makes the libraries that programs link with and load, and Wine's folder.
    fn prepare(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let source = folder.join("bcryptprimitives.c");
        let library = folder.join("bcryptprimitives.dll");
        if !library.exists() {
            std::fs::write(&source, RANDOM_NUMBERS)?;
            let status = Command::new(LINKER)
                .args(["-shared", "-O1", "-o"])
                .arg(&library)
                .arg(&source)
                .arg("-ladvapi32")
                .status()?;
            if !status.success() {
                return Err(format!("{LINKER} cannot make {}", library.display()).into());
            }
        }
        // Microsoft's crate links with a library that MinGW has under another name.
        let output = Command::new(LINKER).arg("-print-file-name=libadvapi32.a").output()?;
        let advapi = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        std::fs::copy(&advapi, folder.join("libOneCore_apiset.a"))
            .map_err(|error| format!("{advapi}: {error}"))?;
        Ok(())
    }
}

fn has_target() -> bool {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    output.is_ok_and(|output| {
        let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Path::new(&sysroot).join("lib/rustlib").join(TARGET).exists()
    })
}

/// Debian keeps the program out of `PATH` unless its wrapper is installed, too.
fn wine() -> Option<PathBuf> {
    let candidates = ["wine64", "wine", "/usr/lib/wine/wine64"];
    candidates.into_iter().find(|wine| succeeds(wine, &["--version"])).map(PathBuf::from)
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
