//! `cargo xtask wine`: the tests that need no Linux, compiled for Windows and run under Wine.
//!
//! Installs what is missing, from rustup and Debian's packages, and skips aloud if it cannot. Wine's own ETW functions do nothing:
//! the tests of `openetw` put a recorder in their place. All selections run, whatever fails; the last lines name each failed test
//! and each program that had to be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use etw_mc::{Manifest, header};

use crate::{Result, cargo, root};

const TARGET: &str = "x86_64-pc-windows-gnu";
const LINKER: &str = "x86_64-w64-mingw32-gcc";

/// Libraries that tests of `openetw` and of the command load.
const LIBRARIES: [&str; 7] =
    ["build", "-p", "openetw", "--example", "unloaded_library", "--example", "recorded_system"];

/// The packages whose tests run, with the selection of tests. `.github/workflows/windows.yml` has them, too.
const TESTS: [&str; 4] = [
    "-p etw-types -p etw-tracelogging -p etw-etl -p etw-decode -p etw-session -p etw-mc -p etw-tracewpp -p etw-evtx -p etw-macros \
     -p etw-storport -p etw-tracing -p etw-log-sink --lib --tests",
    "-p etw-ring -p etw-windows -p etw-stack -p etw-wire -p etw-host -p openetw --lib",
    "-p openetw --test windows --test windows_old --test windows_generated",
    // Cargo runs examples, and programs that Linux kills leave part files.
    "-p etw-cli --test it -- --skip examples:: --skip part:: --skip a_part_beside_the_file_is_not_lost",
];

/// The test of a generated header.
const HEADER_TEST: &str = "a_generated_header_compiles_with_the_headers_of_windows_alone";

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
    /// Kill a test program that runs longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    limit: u32,
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
    generate(&folder)?;
    let own: Vec<&str> = arguments.test.iter().map(String::as_str).collect();
    let selections = match own.is_empty() {
        true => TESTS.iter().map(|words| words.split_whitespace().collect()).collect(),
        false => vec![own.clone()],
    };
    let tests = selections
        .iter()
        .map(|selection: &Vec<&str>| [&["test", "--no-fail-fast"], &selection[..]].concat());
    let mut outcome = Outcome::default();
    let mut library = LIBRARIES.to_vec();
    library.extend(own.contains(&"--release").then_some("--release"));
    for words in std::iter::once(library).chain(tests) {
        outcome.follow(&mut tools.cargo(&words, &folder, arguments.limit), &words)?;
    }
    if own.is_empty() {
        outcome.count(HEADER_TEST, tools.run_header(&folder));
    }
    tools.end_all(&folder);
    outcome.print()
}

/// The results of all selections.
#[derive(Default)]
struct Outcome {
    passed: usize,
    ignored: usize,
    /// Tests that failed, programs that were killed, and builds.
    failures: Vec<String>,
}

/// The test program that runs now.
#[derive(Default)]
struct Program {
    /// As Cargo prints it.
    name: String,
    /// Tests of which the program said that they take long.
    slow: Vec<String>,
    failures: Vec<String>,
    has_ended: bool,
}

impl Outcome {
    /// Runs Cargo, prints its lines, and collects the results of the test programs that it starts.
    fn follow(&mut self, cargo: &mut Command, words: &[&str]) -> Result<()> {
        // One pipe for both outputs, so that the lines of a program follow the line with its name.
        let (reader, writer) = std::io::pipe()?;
        let mut child = cargo.stdout(writer.try_clone()?).stderr(writer).spawn()?;
        // The command holds the other ends of the pipe.
        cargo.stdout(Stdio::null()).stderr(Stdio::null());
        let known = self.failures.len();
        let mut program = Program::default();
        for line in BufReader::new(reader).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            self.read(line.trim_end(), &mut program);
        }
        self.end_of(program);
        let status = child.wait()?;
        if !status.success() && self.failures.len() == known {
            self.failures.push(format!("cargo {}: {status}", words.join(" ")));
        }
        Ok(())
    }

    fn read(&mut self, line: &str, program: &mut Program) {
        if let Some(name) = line.trim_start().strip_prefix("Running ") {
            let next = Program { name: name.to_owned(), ..Program::default() };
            self.end_of(std::mem::replace(program, next));
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            program.has_ended = true;
            self.passed += number_before(counts, " passed");
            self.ignored += number_before(counts, " ignored");
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some((name, _)) = test.split_once(" has been running for over") {
                program.slow.push(name.to_owned());
            } else if let Some((name, result)) = test.split_once(" ... ") {
                program.slow.retain(|slow| slow != name);
                if result.starts_with("FAILED") {
                    program.failures.push(name.to_owned());
                }
            }
        }
    }

    /// Takes the failures of a program that has ended, or was killed.
    fn end_of(&mut self, program: Program) {
        let Program { name, slow, failures, has_ended } = program;
        if name.is_empty() {
            return;
        }
        self.failures.extend(failures.iter().map(|test| format!("{name}: {test}")));
        if !has_ended {
            let slow = match slow.is_empty() {
                true => String::new(),
                false => format!("; still running: {}", slow.join(", ")),
            };
            self.failures.push(format!("{name}: did not end by itself{slow}"));
        }
    }

    fn count(&mut self, test: &str, result: Result<()>) {
        match result {
            Ok(()) => {
                println!("test {test} ... ok");
                self.passed += 1;
            }
            Err(error) => self.failures.push(format!("{test}: {error}")),
        }
    }

    fn print(&self) -> Result<()> {
        for failure in &self.failures {
            println!("wine: failed: {failure}");
        }
        let failed = self.failures.len();
        println!("wine: {} passed, {failed} failed, {} ignored", self.passed, self.ignored);
        if failed == 0 { Ok(()) } else { Err(format!("{failed} tests failed under Wine").into()) }
    }
}

/// The number before a word in `ok. 5 passed; 0 failed; …`.
fn number_before(counts: &str, word: &str) -> usize {
    let part = counts.split(';').find_map(|part| part.strip_suffix(word));
    let digits = part.and_then(|part| part.split_whitespace().last());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
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

    /// Cargo for Windows, whose programs run under Wine for at most `limit` seconds each.
    fn cargo(&self, words: &[&str], folder: &Path, limit: u32) -> Command {
        let mut command = Command::new(cargo());
        let wine = self.wine.display();
        command
            .args([words[0], "--locked", "--target", TARGET])
            .args(&words[1..])
            .current_dir(root())
            .env(
                "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER",
                format!("timeout --kill-after=10 {limit} {wine}"),
            )
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", LINKER)
            .env(
                "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS",
                format!("-Lnative={} --cfg etw_generated", folder.display()),
            )
            .env("ETW_GENERATED", folder.join("all_types.rs"))
            .env("CARGO_TERM_COLOR", "never")
            .env("WINEPREFIX", folder.join("prefix"))
            .env("WINEPATH", folder)
            .env("WINEDEBUG", "-all")
            .stdin(Stdio::null());
        command
    }

    /// Compiles a generated header with the compiler's own headers of Windows, and runs a program with it.
    fn run_header(&self, folder: &Path) -> Result<()> {
        let (source, program) = (folder.join("driver.c"), folder.join("driver.exe"));
        std::fs::write(&source, include_str!("wine/driver.c"))?;
        let output = Command::new(LINKER)
            .args(["-Wall", "-Wextra", "-Werror", "-D_WIN32_WINNT=0x0A00"])
            // MinGW's `evntprov.h` is that of Windows 7, and Microsoft's own headers need this name as well.
            .arg("-DEventProviderSetTraits=((EVENT_INFO_CLASS)2)")
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .arg("-ladvapi32")
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let status = Command::new("timeout")
            .args(["--kill-after=10", "120"])
            .args([&self.wine, &program])
            .env("WINEPREFIX", folder.join("prefix"))
            .env("WINEDEBUG", "-all")
            .stdin(Stdio::null())
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the program ended with {status}").into())
        }
    }

    /// Ends the programs that tests left behind, and Wine's server.
    fn end_all(&self, folder: &Path) {
        let mut servers =
            vec![PathBuf::from("wineserver"), PathBuf::from("/usr/lib/wine/wineserver64")];
        servers.extend(self.wine.parent().map(|folder| folder.join("wineserver")));
        for server in servers {
            let ended = Command::new(server)
                .arg("-k")
                .env("WINEPREFIX", folder.join("prefix"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if ended.is_ok() {
                return;
            }
        }
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

/// Generates a provider in Rust and in C from a manifest with every type.
fn generate(folder: &Path) -> Result<()> {
    let path = root().join("crates/etw-mc/tests/it/all_types.man");
    let manifest = Manifest::parse(&std::fs::read(path)?).map_err(|problems| {
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    })?;
    let rust = etw_mc::rust::write(&manifest, &etw_mc::rust::Options::default());
    std::fs::write(folder.join("all_types.rs"), rust)?;
    std::fs::write(
        folder.join("all_types.h"),
        header::write(&manifest, &header::Options::default()),
    )?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-27: what runs under Wine runs on Windows, too.
    #[test]
    fn the_job_for_windows_has_the_same_tests() {
        let job = std::fs::read_to_string(root().join(".github/workflows/windows.yml")).unwrap();
        for words in TESTS {
            // Only Wine's runs generate a provider.
            let line = format!("cargo test --no-fail-fast --locked {words}");
            let line = line.replace(" --test windows_generated", "");
            assert!(job.contains(&line), "{line}");
        }
        assert!(job.contains(&LIBRARIES.join(" ").replace("build", "cargo build --locked")));
    }

    fn outcome_of(lines: &[&str]) -> Outcome {
        let (mut outcome, mut program) = (Outcome::default(), Program::default());
        lines.iter().for_each(|line| outcome.read(line, &mut program));
        outcome.end_of(program);
        outcome
    }

    #[test]
    fn failures_have_the_name_of_their_program() {
        let outcome = outcome_of(&[
            "     Running unittests src/lib.rs (target/debug/deps/a.exe)",
            "test one ... ok",
            "test two ... FAILED",
            "test result: FAILED. 1 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out",
            "     Running tests/it.rs (target/debug/deps/b.exe)",
            "test three ... ok",
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        let first = "unittests src/lib.rs (target/debug/deps/a.exe)";
        assert_eq!(outcome.failures, [format!("{first}: two")]);
        assert_eq!((outcome.passed, outcome.ignored), (5, 3));
        assert!(outcome.print().is_err());
    }

    #[test]
    fn a_killed_program_is_named_with_the_tests_that_had_not_ended() {
        let outcome = outcome_of(&[
            "     Running tests/it.rs (b.exe)",
            "test slow has been running for over 60 seconds",
            "test stuck has been running for over 60 seconds",
            "test slow ... ok",
        ]);
        assert_eq!(
            outcome.failures,
            ["tests/it.rs (b.exe): did not end by itself; still running: stuck"]
        );
    }
}
