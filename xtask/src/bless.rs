//! `cargo xtask bless`: the fixtures in testdata/, made by the project itself.

use crate::{Result, etw_command, root, sample};
use std::path::Path;
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// Write nothing; fail if anything would change
    #[arg(long)]
    check: bool,
}

const OUTPUTS: [(&str, &[&str]); 6] = [
    ("sample.json", &["dump", "--format", "json"]),
    ("sample.txt", &["dump", "--format", "text"]),
    ("sample.csv", &["dump", "--format", "csv"]),
    ("sample.xml", &["dump", "--format", "xml"]),
    ("sample.stat.json", &["stat", "--format", "json"]),
    ("sample.stat.txt", &["stat", "--format", "text"]),
];

pub fn run(arguments: &Arguments) -> Result<()> {
    let folder = root().join("testdata");
    std::fs::create_dir_all(&folder)?;
    let etw = etw_command("dev")?;
    let mut changed = Vec::new();
    let mut put = |name: &str, bytes: &[u8]| -> Result<()> {
        let path = folder.join(name);
        if std::fs::read(&path).ok().as_deref() != Some(bytes) {
            changed.push(name.to_string());
            if !arguments.check {
                std::fs::write(path, bytes)?;
            }
        }
        Ok(())
    };
    put("sample.etl", &sample::trace()?)?;
    for (name, command) in OUTPUTS {
        put(name, &output_of(&etw, command)?)?;
    }
    match (changed.is_empty(), arguments.check) {
        (true, _) => println!("testdata is up to date"),
        (false, false) => println!("rewritten, read the diff: {}", changed.join(", ")),
        (false, true) => {
            return Err(format!("testdata differs, run `cargo xtask bless`: {changed:?}").into());
        }
    }
    Ok(())
}

/// Runs the command in testdata/, so that fixtures contain no path of this machine.
fn output_of(etw: &Path, command: &[&str]) -> Result<Vec<u8>> {
    let folder = root().join("testdata");
    let output = Command::new(etw).args(command).arg("sample.etl").current_dir(folder).output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("etw {}: {text}", command.join(" ")).into());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_in_testdata_is_the_one_that_is_made() {
        let stored = std::fs::read(root().join("testdata/sample.etl")).unwrap();
        assert!(stored == sample::trace().unwrap(), "run `cargo xtask bless`");
    }
}
