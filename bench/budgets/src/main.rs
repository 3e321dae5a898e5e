//! The hot paths of the project, each run between two marks for callgrind. `cargo xtask budgets` runs this program and compares the
//! instructions with `bench/budgets.txt`.
//!
//! `curves` prints the points that `cargo xtask bench --plot` draws.
//!
//! Every path warms up first, so that what is counted is the usual case. Names end with what one unit is.

mod callgrind;
mod curves;
mod host;
mod read;
mod system;
mod write;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        // A trace for the commands, of a provider or of a system: `trace PATH RECORDS`, `system-trace PATH RECORDS`.
        Some(kind @ ("trace" | "system-trace")) => {
            let path = arguments.next().ok_or("no path")?;
            let records = arguments.next().ok_or("no number of records")?.parse()?;
            let trace = match kind {
                "trace" => read::trace(records, false)?,
                _ => read::system_trace(records)?,
            };
            Ok(std::fs::write(path, trace)?)
        }
        // The header of a manifest for the program in C: `header MANIFEST PATH`.
        Some("header") => {
            let manifest = std::fs::read(arguments.next().ok_or("no manifest")?)?;
            let manifest = etw_mc::Manifest::parse(&manifest)
                .map_err(|found| found.iter().map(|one| format!("{one}\n")).collect::<String>())?;
            let header = etw_mc::header::write(&manifest, &etw_mc::header::Options::default());
            Ok(std::fs::write(arguments.next().ok_or("no path")?, header)?)
        }
        // The paths of a host alone.
        Some("host") => host::run(),
        // The points of all curves, or of those with a name that contains the argument.
        Some("curves") => curves::run(&arguments.next().unwrap_or_default()),
        _ => {
            write::run()?;
            host::run()?;
            system::run()?;
            read::run()
        }
    }
}
