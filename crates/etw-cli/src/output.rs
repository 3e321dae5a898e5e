//! Output of commands, and how commands end.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How a command ended that did what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Exit status 0.
    Done,
    /// Bytes were damaged or this run lost something, and the output says what: exit status 1.
    Damaged,
    /// The exit status of the recorded command.
    OfCommand(u8),
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// Exit status 3.
    Message(String),
    /// Wrong usage: exit status 2.
    Usage(String),
    /// Recording a command failed: exit status 125 to 127.
    Recording { status: u8, message: String },
    /// The reader of the output has closed its pipe: exit status 0, without a message.
    ClosedPipe,
}

impl Failure {
    /// The message to print, if any.
    pub fn message(&self) -> Option<&str> {
        match self {
            Failure::Message(message)
            | Failure::Usage(message)
            | Failure::Recording { message, .. } => Some(message),
            Failure::ClosedPipe => None,
        }
    }

    /// A failure with exit status 3.
    pub fn new(message: impl fmt::Display) -> Failure {
        Failure::Message(message.to_string())
    }
}

impl From<etw_etl::Error> for Failure {
    fn from(error: etw_etl::Error) -> Failure {
        Failure::new(error)
    }
}

/// Standard output or the file of `-o`.
pub struct Output {
    writer: Box<dyn Write>,
    path: Option<PathBuf>,
}

impl Output {
    /// Opens the output; `inputs` must not be overwritten.
    pub fn open(path: Option<&Path>, inputs: &[PathBuf]) -> Result<Output, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            return Ok(Output { writer: Box::new(io::stdout()), path: None });
        };
        let same = |input: &PathBuf| matches!((input.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if inputs.iter().any(same) {
            let text = format!("{}: is an input file; choose another -o", path.display());
            return Err(Failure::Message(text));
        }
        let file = File::create(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Output { writer: Box::new(file), path: Some(path.to_owned()) })
    }

    /// Writes all bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(|error| self.failure(error))
    }

    /// Flushes the output.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| self.failure(error))
    }

    fn failure(&self, error: io::Error) -> Failure {
        match &self.path {
            None if error.kind() == io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            None => Failure::new(format!("standard output: {error}")),
            Some(path) => Failure::new(format!("{}: {error}", path.display())),
        }
    }
}

/// A count on standard error, where that is a terminal and the work takes more than a second.
pub struct Progress {
    shown: bool,
    terminal: bool,
    next: Instant,
}

impl Progress {
    /// Starts the clock.
    pub fn start() -> Progress {
        let terminal = io::stderr().is_terminal();
        Progress { shown: false, terminal, next: Instant::now() + Duration::from_secs(1) }
    }

    /// Shows the count if it is time.
    pub fn update(&mut self, records: u64) {
        if self.terminal && Instant::now() >= self.next {
            eprint!("\r{records} records ");
            self.shown = true;
            self.next = Instant::now() + Duration::from_millis(200);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r{:40}\r", "");
        }
    }
}
