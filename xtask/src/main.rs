//! Chores of the project: `cargo xtask ci`, `lint`, `features`, `bench`, `budgets`, `readers`, `requirements`, `sites`, `bless`, `install`, `dist`, `torture`,
//! `wine`.

mod bench;
mod bless;
mod budgets;
mod build;
mod dist;
mod features;
mod install;
mod lint;
mod readers;
mod requirements;
mod sample;
mod sites;
mod torture;
mod wine;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[derive(Parser)]
#[command(name = "xtask", about)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run what CI runs
    Ci,
    /// Check the house rules: files, words, links, names in ARCHITECTURE.md
    Lint,
    /// Compile each crate with each of its features alone
    Features,
    /// Print every figure of BENCHMARKS.md, with the command that measures it again
    Bench(bench::Arguments),
    /// Count the instructions of each hot path, and compare them with bench/budgets.txt
    Budgets(budgets::Arguments),
    /// Kill a writer of event logs at random moments, and read its logs with four readers from PyPI
    Readers(readers::Arguments),
    /// List requirement ids with the tests that ran and passed for them
    Requirements(requirements::Arguments),
    /// Count the instructions of an event that no session wants
    Sites,
    /// Remake the fixtures in testdata/
    Bless(bless::Arguments),
    /// Install on Linux: the etw command with its manual pages and completions; libetw with headers, pkg-config and CMake files
    Install(install::Arguments),
    /// Make what a release publishes: archives, Debian and RPM packages, list of components, licences, checksums
    Dist(dist::Arguments),
    /// Attack the daemon of global sessions at random, from a seed: kills, stops, hostile clients, full disks
    Torture(torture::Arguments),
    /// Run the tests that need no Linux as Windows programs, under Wine
    Wine(wine::Arguments),
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Ci => ci(),
        Chore::Lint => lint::run(),
        Chore::Features => features::run(),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Budgets(arguments) => budgets::run(&arguments),
        Chore::Readers(arguments) => readers::run(&arguments),
        Chore::Requirements(arguments) => requirements::run(&arguments),
        Chore::Sites => sites::run(),
        Chore::Bless(arguments) => bless::run(&arguments),
        Chore::Install(arguments) => install::run(&arguments),
        Chore::Dist(arguments) => dist::run(&arguments),
        Chore::Torture(arguments) => torture::run(&arguments),
        Chore::Wine(arguments) => wine::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the script of CI, which lists the steps.
fn ci() -> Result<()> {
    let status = Command::new("bash").arg(root().join(".ci/run")).status()?;
    if status.success() { Ok(()) } else { Err("CI failed".into()) }
}

/// The project's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The folder of real traces beside the project, if it is there.
fn corpus() -> Option<PathBuf> {
    Some(root().join("../shared/corpus/etl")).filter(|path| path.is_dir())
}

/// Builds the `etw` command with one of Cargo's profiles and returns its path.
fn etw_command(profile: &str) -> Result<PathBuf> {
    build::Build::of_profile(profile).etw()
}

/// Builds one executable with one of Cargo's profiles and returns its path.
fn build_executable(name: &str, selection: &[&str], profile: &str) -> Result<PathBuf> {
    build::Build::of_profile(profile).executable(name, selection)
}

/// The cargo that runs this program.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
