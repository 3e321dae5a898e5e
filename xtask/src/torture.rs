//! `cargo xtask torture`: the daemon's seeded torture (`crates/etwd/tests/it/torture`) for a number of minutes.

use crate::{Result, cargo, root};
use std::process::Command;

#[derive(clap::Args)]
#[command(after_help = "\
The first round has the seed of --seed, each further one the next number. A round that fails prints its seed and keeps \
its directory, whose name it has printed at its start; `--minutes 0 --seed SEED` repeats that round alone, and \
ETW_TORTURE_DEEDS=1 prints each of its actions. Only root can mount the small disk that sessions fill.")]
pub struct Arguments {
    /// Duration; the round that runs at its end is completed
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
    /// The seed of the first round; default: the time
    #[arg(long)]
    seed: Option<u64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => now()?.as_secs(),
    };
    let status = Command::new(cargo())
        .args(["test", "--release", "--locked", "--package", "etwd", "--test", "it", "--"])
        .args(["--ignored", "--exact", "--nocapture", "torture::a_long_torture"])
        .env("ETW_TORTURE_SECONDS", (arguments.minutes * 60).to_string())
        .env("ETW_TORTURE_SEED", seed.to_string())
        .current_dir(root())
        .status()?;
    if status.success() { Ok(()) } else { Err("a round of the torture failed".into()) }
}
