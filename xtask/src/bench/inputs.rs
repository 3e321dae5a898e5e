//! The traces that are measured, made once and kept in target/bench.

use super::round::{Form, Round};
use crate::{Result, corpus, root, sample};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder in which traces are kept between runs, and their size.
pub struct Inputs {
    folder: PathBuf,
    size: u64,
}

/// CPUs and buffer size of the traces with many streams.
pub const CPUS: u16 = 64;
pub const LARGE_BUFFER: u32 = 1 << 20;
const HUGE: u64 = 10_000_000_000;
const HUGE_LOG: u64 = 1_000_000_000;

impl Inputs {
    /// Traces of `size` bytes of records.
    pub fn new(folder: PathBuf, size: u64) -> Inputs {
        Inputs { folder, size }
    }

    /// Real traces, else the sample.
    pub fn real_traces(&self) -> Result<Vec<PathBuf>> {
        let Some(corpus) = corpus() else {
            let path = self.folder.join("sample.etl");
            std::fs::write(&path, sample::trace()?)?;
            return Ok(vec![path]);
        };
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(corpus)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "etl"));
        files.sort();
        Ok(files)
    }

    pub fn plain(&self) -> Result<PathBuf> {
        self.made("plain", self.size, |path, size| kernel()?.repeat(path, size, Form::Plain))
    }

    pub fn huge(&self) -> Result<PathBuf> {
        self.made("plain", HUGE, |path, size| kernel()?.repeat(path, size, Form::Plain))
    }

    pub fn compressed(&self) -> Result<PathBuf> {
        self.made("compressed", self.size, |path, size| {
            Round::of("net452-x64-compressed.etl")?.repeat(path, size, Form::Compressed)
        })
    }

    pub fn circular(&self) -> Result<PathBuf> {
        self.made("wrapped", self.size, |path, size| kernel()?.repeat(path, size, Form::Circular))
    }

    pub fn streams(&self) -> Result<PathBuf> {
        self.made("streams64", self.size, |path, size| {
            kernel()?.spread(path, size, Form::Plain, CPUS, LARGE_BUFFER)
        })
    }

    pub fn circular_streams(&self) -> Result<PathBuf> {
        self.made("wrapped64", self.size, |path, size| {
            kernel()?.spread(path, size, Form::Circular, CPUS, LARGE_BUFFER)
        })
    }

    /// An event log of 1 GB, of records that are alike.
    pub fn event_log(&self) -> Result<PathBuf> {
        let path = self.folder.join(format!("log-{}.evtx", HUGE_LOG / 1_000_000));
        if !path.exists() {
            eprintln!("making {}", path.display());
            let part = path.with_extension("part");
            let mut writer = Command::new(env!("CARGO"));
            writer.args(["run", "--release", "--locked", "--quiet", "-p", "etw-evtx"]);
            writer.args(["--example", "write_log", "--"]).arg(&part).arg(HUGE_LOG.to_string());
            let status =
                writer.args(["keep", "5000"]).stdout(Stdio::null()).current_dir(root()).status()?;
            if !status.success() {
                return Err(format!("the writer of {}: {status}", part.display()).into());
            }
            std::fs::rename(part, &path)?;
        }
        Ok(path)
    }

    /// The path of a trace, which is made unless an earlier run left it.
    fn made(
        &self,
        name: &str,
        size: u64,
        make: impl FnOnce(&Path, u64) -> Result<()>,
    ) -> Result<PathBuf> {
        let source = if corpus().is_some() { "" } else { "-synthetic" };
        let path = self.folder.join(format!("{name}{source}-{}.etl", size / 1_000_000));
        if !path.exists() {
            eprintln!("making {}", path.display());
            let part = path.with_extension("part");
            make(&part, size)?;
            std::fs::rename(part, &path)?;
        }
        Ok(path)
    }
}

/// A trace of the kernel and the CLR, 32-bit, uncompressed.
fn kernel() -> Result<Round> {
    Round::of("net45-x86-kernel-clr.etl")
}
