//! Chores of the project: `cargo xtask ci`, `bench`, `requirements`, `bless`.

mod bench;
mod bless;
mod requirements;
mod sample;

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
    /// Print every figure that the project claims, with the command that reproduces it
    Bench(bench::Arguments),
    /// List requirement ids, and the tests that ran and passed for them
    Requirements(requirements::Arguments),
    /// Remake the fixtures in testdata/
    Bless(bless::Arguments),
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Ci => ci(),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Requirements(arguments) => requirements::run(&arguments),
        Chore::Bless(arguments) => bless::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The steps are listed in one place, the script that CI runs.
fn ci() -> Result<()> {
    let status = Command::new("bash").arg(root().join(".ci/run")).status()?;
    if status.success() { Ok(()) } else { Err("CI failed".into()) }
}

/// The project's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Real traces, where they lie beside the project.
fn corpus() -> Option<PathBuf> {
    Some(root().join("../shared/corpus/etl")).filter(|path| path.is_dir())
}

/// Builds the `etw` command in release mode; where it is.
fn etw_command() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--release", "--quiet", "--locked", "-p", "etw-cli"];
    let status = Command::new(cargo).args(build).current_dir(root()).status()?;
    if !status.success() {
        return Err("the etw command does not build".into());
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release").join(format!("etw{}", std::env::consts::EXE_SUFFIX)))
}
