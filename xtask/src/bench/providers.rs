//! The group `providers`: manifests' events from C and Rust, and the time that their compilers take.

use super::Bench;
use super::report::{Goal, Unit};
use super::write::{c_program, figures};
use crate::{Result, cargo, root};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

#[path = "../../../crates/etw-mc/tests/it/large_manifest.rs"]
mod large_manifest;

const ONLY: &str = "providers";
const SOURCES: usize = 500;
const CALLS_OF_A_SOURCE: usize = 20;

impl Bench {
    pub fn providers(&mut self) -> Result<()> {
        let folder = self.folder.join("providers");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let manifest = root().join("bench/providers/bench.man");
        self.seconds_of(&["mc", "-um"], &[&manifest], &folder)?;
        match c_program("bench/providers/cost.c", &folder)? {
            Some(output) => self.event_costs(&output)?,
            None => self.report.skip("a manifest's event from C", "no C compiler"),
        }
        let output = Command::new(cargo())
            .args(["run", "--release", "--locked", "--quiet", "--manifest-path"])
            .arg(root().join("bench/providers/Cargo.toml"))
            .arg("--target-dir")
            .arg(folder.join("target"))
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err("bench/providers failed".into());
        }
        self.event_costs(&output.stdout)?;
        self.compilers(&folder)
    }

    fn event_costs(&mut self, output: &[u8]) -> Result<()> {
        for (name, value, unit) in figures(output)? {
            let goal = match name.split_once(": ").map_or("", |(_, name)| name) {
                "manifest event / floor" => Goal::AtMost(1.4),
                "manifest event, not enabled / empty loop turn" => Goal::AtMost(1.1),
                "lost while measuring" => Goal::AtMost(0.0),
                _ => Goal::None,
            };
            self.add(&format!("providers: {name}"), value, unit, goal, ONLY);
        }
        Ok(())
    }

    fn compilers(&mut self, folder: &Path) -> Result<()> {
        let manifest = folder.join("large.man");
        std::fs::write(&manifest, large_manifest::large(5000))?;
        let compiled = self.best_of(&["mc", "-um"], &[&manifest], folder)?;
        let name = "providers: etw mc of 5,000 events";
        self.add(name, compiled * 1e3, Unit::Milliseconds, Goal::AtMost(1000.0), ONLY);
        let sources = folder.join("sources");
        std::fs::create_dir_all(&sources)?;
        for number in 0..SOURCES {
            std::fs::write(sources.join(format!("part{number:03}.c")), source(number))?;
        }
        let traced = self.best_of(&["tracewpp", "-odir:headers", "sources/*.c"], &[], folder)?;
        let name = "providers: etw tracewpp of 10,000 calls in 500 files";
        self.add(name, traced * 1e3, Unit::Milliseconds, Goal::AtMost(2000.0), ONLY);
        Ok(())
    }

    fn best_of(&self, words: &[&str], files: &[&Path], folder: &Path) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..self.runs {
            best = best.min(self.seconds_of(words, files, folder)?);
        }
        Ok(best)
    }

    /// Runs `etw` in a folder.
    fn seconds_of(&self, words: &[&str], files: &[&Path], folder: &Path) -> Result<f64> {
        let start = Instant::now();
        let mut command = Command::new(&self.etw);
        command.args(words).args(files).current_dir(folder).stdout(Stdio::null());
        if !command.status()?.success() {
            return Err(format!("etw {} failed", words.join(" ")).into());
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

/// A source with as many calls as each has.
fn source(number: usize) -> String {
    let mut text = format!(
        "#define WPP_CONTROL_GUIDS WPP_DEFINE_CONTROL_GUID(Large, (11111111,2222,3333,4444,555555555555), WPP_DEFINE_BIT(Start))\n\
         #include \"part{number:03}.tmh\"\nvoid part{number}(int count, const char *name)\n{{\n"
    );
    for call in 0..CALLS_OF_A_SOURCE {
        let _ = writeln!(
            text,
            "    DoTraceMessage(Start, \"part {number} call {call}: %d of %s\", count, name);"
        );
    }
    text.push_str("}\n");
    text
}
