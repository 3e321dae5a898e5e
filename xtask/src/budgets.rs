//! `cargo xtask budgets`: counts the instructions of each hot path and compares them with `bench/budgets.txt`.
//!
//! Instructions depend on the compiler and on the C library, but not on the machine's load: a budget can be checked exactly where
//! a clock cannot. `bench/budgets` is the program with the paths in Rust, `bench/budgets/c/paths.c` the one in C; both mark the begin
//! and the end of each path for callgrind. Both are built with the profile `budgets`, whose one codegen unit a crate keeps a change in one
//! function from moving the boundaries of all units. Valgrind shows programs a processor of its own, the same on every machine with
//! AVX2; [`PINNED`] keeps the C library from choosing by it, and [`processor`] gives programs the number of their processor, which
//! writers read in place of a system call. `etw dump` is counted by two traces of different length: with `--where`, and in its formats, which
//! `--all` counts, too, by the released command, which takes minutes to build.

use crate::{Result, build_executable, cargo, etw_command, root};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub struct Arguments {
    /// Write the counted instructions to bench/budgets.txt
    #[arg(long)]
    bless: bool,
    /// Count only the paths of this program: rust, c, where, dump
    #[arg(long, value_name = "PROGRAM")]
    only: Option<String>,
    /// Count the formats of `etw dump`, too
    #[arg(long)]
    all: bool,
}

/// The profile of the programs with the paths.
const PROFILE: &str = "budgets";

/// A path may cost so much more than its budget.
const TOLERANCE: f64 = 0.02;
/// Records of the traces whose difference is the cost of a record in `etw dump`.
const RECORDS: [u32; 2] = [2_000, 6_000];
const FORMATS: [&str; 4] = ["json", "text", "csv", "xml"];
/// Records of those for `--where`.
const FILTERED: [u32; 2] = [10_000, 50_000];
/// Paths of `--where` that refuse all records: the kind of trace, and the expression. A trace of a system is read once before, for the owners
/// of its events.
const REFUSALS: [(&str, &str, &str); 3] = [
    ("etw dump --where, refused by the header / record", "trace", "pid == 4 and tid == 12"),
    ("etw dump --where, refused by the owner / record", "system-trace", "pid == 4 and tid == 12"),
    ("etw dump --where, refused by the process / record", "system-trace", "process == 'shop'"),
];

/// The C library picks its `memcpy`, `memset` and `memcmp` by the processor. Without these features it picks the ones that every x86-64
/// processor has, and no `rep movsb`, each byte of which would count as an instruction.
const PINNED: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-ERMS,-FSRM,-AVX_Fast_Unaligned_Load");

/// Instructions of one unit of a path, by the path's name.
type Counts = BTreeMap<String, f64>;

pub fn run(arguments: &Arguments) -> Result<()> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Err("valgrind is not installed".into());
    }
    // Not `target/budgets`, which is the profile's.
    let folder = root().join("target/counts");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let is_wanted = |program: &str| match &arguments.only {
        Some(only) => only == program,
        None => arguments.all || program != "dump",
    };
    let processor = processor(&folder)?;
    let program = build_executable("etw-budgets", &["--package", "etw-budgets"], PROFILE)?;
    let mut counts = Counts::new();
    if is_wanted("rust") {
        counts.extend(marked(&program, &processor, &folder)?);
    }
    if is_wanted("c") {
        match c_program(&program, &folder)? {
            Some(program) => counts.extend(marked(&program, &processor, &folder)?),
            None => println!("skipped: no C compiler; paths of C are not counted"),
        }
    }
    if is_wanted("where") {
        let etw = etw_command(PROFILE)?;
        for (name, kind, expression) in REFUSALS {
            let traces = traces(&program, &folder, kind, FILTERED)?;
            let count = dump(&etw, &traces, FILTERED, &["--where", expression], &folder)?;
            counts.insert(name.to_owned(), count);
        }
    }
    if is_wanted("dump") {
        let etw = etw_command("release")?;
        let traces = traces(&program, &folder, "trace", RECORDS)?;
        for format in FORMATS {
            let count = dump(&etw, &traces, RECORDS, &["--format", format], &folder)?;
            counts.insert(format!("etw dump, {format} / record"), count);
        }
    }
    let file = root().join("bench/budgets.txt");
    let tools = tools()?;
    let budgets = std::fs::read_to_string(&file)?;
    if arguments.bless {
        // Paths of programs that did not run keep their budgets.
        let mut all = budgets_of(&budgets);
        all.extend(counts);
        return Ok(std::fs::write(file, text_of(&all, &tools))?);
    }
    compare(&counts, &budgets, &tools)
}

/// Compiles the library that stands for rseq(2), which valgrind has not.
fn processor(folder: &Path) -> Result<PathBuf> {
    let library = folder.join("processor.so");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"])
        .arg(root().join("bench/budgets/c/processor.c"))
        .arg("-o")
        .arg(&library)
        .status()?;
    match compiled.success() {
        true => Ok(library),
        false => Err("bench/budgets/c/processor.c does not compile".into()),
    }
}

/// The tools and the clock on which counts depend.
fn tools() -> Result<String> {
    let first_line = |command: &mut Command| -> Result<String> {
        let output = command.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().next().unwrap_or_default().to_owned())
    };
    let rustc = first_line(Command::new("rustc").arg("--version"))?;
    let libc = first_line(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let compiler = first_line(Command::new("cc").arg("-dumpfullversion"))?;
    let valgrind = first_line(Command::new("valgrind").arg("--version"))?;
    // Writers read another clock where the system's is not the processor's counter.
    let clock =
        std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let clock = clock.as_deref().map_or("no clock source", str::trim);
    let machine = std::env::consts::ARCH;
    Ok(format!("{rustc}, cc {compiler}, {libc}, {valgrind}, {machine}, {clock}"))
}

/// Runs a program under callgrind; the counts of the paths that it marks. Their names end with the unit, and the program prints how many
/// units each has.
fn marked(program: &Path, processor: &Path, folder: &Path) -> Result<Counts> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--collect-atstart=no", "-q"])
        .arg(format!("--callgrind-out-file={}", folder.join("marked").display()))
        .arg(program)
        .env("LD_PRELOAD", processor)
        .env(PINNED.0, PINNED.1);
    let output = valgrind.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} failed", program.display()).into());
    }
    let mut counts = Counts::new();
    let units = String::from_utf8_lossy(&output.stdout).into_owned();
    let units = units.lines().filter_map(|line| line.split_once('\t'));
    let units: BTreeMap<&str, f64> =
        units.filter_map(|(name, units)| Some((name, units.parse().ok()?))).collect();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("marked")) {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        std::fs::remove_file(&path)?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let Some(name) = value("desc: Trigger: Client Request: ") else { continue };
        let total: f64 = value("totals: ").or(value("summary: ")).unwrap_or("0").trim().parse()?;
        let units = units.get(name).ok_or_else(|| format!("no units of {name}"))?;
        counts.insert(name.to_owned(), total / units);
    }
    Ok(counts)
}

/// Compiles the program in C; `None` without a compiler. `maker`: the program that makes the header of its manifest.
fn c_program(maker: &Path, folder: &Path) -> Result<Option<PathBuf>> {
    let header = folder.join("bench.h");
    let made = Command::new(maker)
        .arg("header")
        .arg(root().join("bench/providers/bench.man"))
        .arg(&header)
        .status()?;
    if !made.success() {
        return Err("the header of bench/providers/bench.man was not made".into());
    }
    let output = Command::new(cargo())
        .args(["build", "--profile", PROFILE, "--locked", "--quiet", "--package", "etw-capi"])
        .args(["--message-format=json"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let library = messages.split('"').find(|part| part.ends_with("/libetw.a"));
    let program = folder.join("paths");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root().join("crates/etw-capi/include"))
        .arg("-I")
        .arg(folder)
        .arg(root().join("bench/budgets/c/paths.c"))
        .arg(library.ok_or("the library was not built")?)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .status();
    match compiled {
        Ok(status) if status.success() => Ok(Some(program)),
        Ok(_) => Err("bench/budgets/c/paths.c does not compile".into()),
        Err(_) => Ok(None),
    }
}

/// Traces of so many records.
fn traces(program: &Path, folder: &Path, kind: &str, records: [u32; 2]) -> Result<Vec<PathBuf>> {
    let make = |records: u32| -> Result<PathBuf> {
        let trace = folder.join(format!("{kind}-{records}.etl"));
        let made = Command::new(program).arg(kind).arg(&trace).arg(records.to_string()).status()?;
        if made.success() { Ok(trace) } else { Err("the trace was not made".into()) }
    };
    records.into_iter().map(make).collect()
}

/// Instructions of `etw dump` for a record, on one thread: the difference of two traces.
fn dump(
    etw: &Path,
    traces: &[PathBuf],
    records: [u32; 2],
    options: &[&str],
    folder: &Path,
) -> Result<f64> {
    let out = folder.join("dump");
    let count = |trace: &PathBuf| -> Result<f64> {
        let status = Command::new("taskset")
            .args(["-c", "0", "valgrind", "--tool=callgrind", "-q"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(etw)
            .arg("dump")
            .args(options)
            .arg(trace)
            .env(PINNED.0, PINNED.1)
            .stdout(Stdio::null())
            .status()?;
        if !status.success() {
            return Err(format!("etw dump {} failed", options.join(" ")).into());
        }
        let text = std::fs::read_to_string(&out)?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        Ok(total.ok_or("callgrind counted nothing")?.trim().parse()?)
    };
    let counts = traces.iter().map(count).collect::<Result<Vec<f64>>>()?;
    Ok((counts[1] - counts[0]) / f64::from(records[1] - records[0]))
}

fn text_of(counts: &Counts, tools: &str) -> String {
    let mut text = format!(
        "# Instructions of each hot path, for one unit of it. `cargo xtask budgets` fails if a path costs over 2 % more.\n\
         # A commit that raises a budget says why. `cargo xtask budgets --bless` writes this file.\n\
         # {tools}\n"
    );
    for (name, count) in counts {
        let _ = writeln!(text, "{count:9.2}  {name}");
    }
    text
}

/// The budgets in the text of their file.
fn budgets_of(text: &str) -> Counts {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.trim().split_once("  "))
        .filter_map(|(count, name)| Some((name.trim().to_owned(), count.parse().ok()?)))
        .collect()
}

/// Prints each path beside its budget.
fn compare(counts: &Counts, budgets: &str, tools: &str) -> Result<()> {
    let is_comparable = budgets.lines().any(|line| line.strip_prefix("# ") == Some(tools));
    let budgets = budgets_of(budgets);
    let (mut over, mut under) = (0, 0);
    for (name, count) in counts {
        let Some(budget) = budgets.get(name.as_str()) else {
            println!("{count:9.2} {:23}  {name}: has no budget", "");
            over += 1;
            continue;
        };
        let change = (count - budget) / budget.max(1.0);
        let verdict = match change {
            _ if change > TOLERANCE => {
                over += 1;
                ": OVER its budget"
            }
            _ if change < -TOLERANCE => {
                under += 1;
                ": cheaper than its budget"
            }
            _ => "",
        };
        println!("{count:9.2} of {budget:9.2} {:+7.1} %  {name}{verdict}", change * 100.0);
    }
    if under > 0 {
        println!(
            "{under} paths got cheaper: lower their budgets with `cargo xtask budgets --bless`"
        );
    }
    match over {
        0 => Ok(()),
        _ if !is_comparable => {
            println!("the budgets were counted with other tools than {tools}: nothing fails");
            Ok(())
        }
        _ => Err(format!("{over} paths are over their budgets or have none").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_over_its_budget_fails_and_one_within_it_does_not() {
        let counts = |a: f64| Counts::from([("a / event".to_owned(), a)]);
        let budgets = text_of(&counts(100.0), "tools");
        assert!(compare(&counts(101.9), &budgets, "tools").is_ok());
        assert!(compare(&counts(50.0), &budgets, "tools").is_ok());
        assert!(compare(&counts(102.1), &budgets, "tools").is_err());
        assert!(compare(&counts(102.1), &budgets, "other tools").is_ok());
        let unknown = Counts::from([("b / event".to_owned(), 1.0)]);
        assert!(compare(&unknown, &budgets, "tools").is_err());
    }
}
