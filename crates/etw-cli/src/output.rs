//! Output of commands, and how commands end.

use crate::terminal::{self, Pager};
use clap::Args;
use etw_etl::read::TraceFile;
use etw_types::Position;
use serde_json::Value;
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

impl Outcome {
    /// The outcome of two steps of a command.
    pub fn worse(self, other: Outcome) -> Outcome {
        if self == Outcome::Done { other } else { self }
    }
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
    writer: Box<dyn Write + Send>,
    path: Option<PathBuf>,
}

impl Output {
    /// Opens the output; `inputs` must not be overwritten.
    pub fn open(path: Option<&Path>, inputs: &[PathBuf]) -> Result<Output, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            return Ok(Output { writer: Box::new(io::stdout()), path: None });
        };
        if inputs.iter().any(|input| is_read_with(input, path)) {
            return Err(input_refused(path));
        }
        let file = File::create(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Output { writer: Box::new(file), path: Some(path.to_owned()) })
    }

    /// An output that keeps nothing.
    #[cfg(test)]
    pub fn to_nothing() -> Output {
        Output { writer: Box::new(io::sink()), path: None }
    }

    /// Opens the output of a command that ends by itself: a pager shows it on a terminal.
    pub fn open_paged(path: Option<&Path>, inputs: &[PathBuf]) -> Result<Output, Failure> {
        let mut output = Output::open(path, inputs)?;
        if output.path.is_none()
            && let Some(pager) = Pager::start()
        {
            output.writer = Box::new(pager);
        }
        Ok(output)
    }

    /// Whether it goes to a terminal or a pager.
    pub fn is_on_terminal(&self) -> bool {
        self.path.is_none() && io::stdout().is_terminal()
    }

    /// Prepares for as much output as a reader takes.
    pub fn expect_much(&self) {
        if self.path.is_none() {
            terminal::widen_pipe();
        }
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
            None => stdout_failure(&error),
            Some(path) => Failure::new(format!("{}: {error}", path.display())),
        }
    }
}

/// Whether a file is read for an input: itself, or what a killed program left beside it.
pub fn is_read_with(input: &Path, path: &Path) -> bool {
    is_same_file(input, path) || is_same_file(&etw_host::part::part_path(input), path)
}

/// The failure for an output that is an input.
pub fn input_refused(output: &Path) -> Failure {
    Failure::Message(format!("{}: is an input file; choose another output", output.display()))
}

/// Whether two paths lead to one file, by links of any kind.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    file_identity(a).is_some_and(|identity| file_identity(b) == Some(identity))
}

/// The identity that all paths to a file share; `None` if there is no file.
#[cfg(unix)]
pub fn file_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
pub fn file_identity(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

/// The failure for an error of standard output.
pub fn stdout_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Failure::new(format!("standard output: {error}")),
    }
}

/// Writes a text to standard output, through a pager on a terminal.
pub fn print_paged(text: &str) -> Result<Outcome, Failure> {
    let mut output = Output::open_paged(None, &[])?;
    output.write(text.as_bytes())?;
    output.finish()?;
    Ok(Outcome::Done)
}

/// `--json` of commands that print one result.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct JsonOption {
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl JsonOption {
    /// Prints a result as a line of text or as an object.
    pub fn print(self, text: &str, object: impl FnOnce() -> Value) -> Result<(), Failure> {
        let mut output = Output::open(None, &[])?;
        match self.json {
            true => output.write(format!("{}\n", object()).as_bytes())?,
            false => output.write(format!("{text}\n").as_bytes())?,
        }
        output.finish()
    }
}

/// The size of a written file, for its result in JSON.
pub fn file_size(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|file| file.len())
}

/// A count with its noun, which is given in the singular.
pub fn counted(count: impl fmt::Display, noun: &str) -> String {
    let count = count.to_string();
    match noun.strip_suffix('y') {
        _ if count == "1" => format!("{count} {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {noun}s"),
    }
}

/// A count on standard error, where that is a terminal and the work takes more than a second.
pub struct Progress {
    shown: bool,
    terminal: bool,
    started: Instant,
    next: Instant,
    /// The buffers of each file, and the largest index of one that was read.
    files: Vec<FileProgress>,
    /// Bytes of all files.
    size: u64,
    /// The part of all buffers that was read.
    done: f64,
    /// Records that were read.
    records: u64,
}

struct FileProgress {
    buffers: u64,
    reached: u64,
}

/// The time before anything is shown.
const SILENT: Duration = Duration::from_secs(1);
/// Records between two looks at the clock.
const RECORDS: u64 = 65_536;
/// Between two updates.
const PAUSE: Duration = Duration::from_millis(200);

impl Progress {
    /// Starts the clock of work on some traces.
    pub fn of(files: &[TraceFile]) -> Progress {
        let size = |file: &TraceFile| std::fs::metadata(file.path()).map_or(0, |data| data.len());
        let started = Instant::now();
        Progress {
            shown: false,
            terminal: io::stderr().is_terminal(),
            started,
            next: started + SILENT,
            files: files
                .iter()
                .map(|file| FileProgress { buffers: file.totals().buffers, reached: 0 })
                .collect(),
            size: files.iter().map(size).sum(),
            done: 0.0,
            records: 0,
        }
    }

    /// Starts the clock of work whose size is unknown.
    pub fn start() -> Progress {
        Progress::of(&[])
    }

    /// Counts a record, and shows the count from time to time.
    pub fn count(&mut self, position: Position) {
        self.records += 1;
        if self.records.is_multiple_of(RECORDS) {
            self.update_at(self.records, Some(position));
        }
    }

    /// Shows nothing: the output is on the same terminal.
    pub fn hide(&mut self) {
        self.terminal = false;
    }

    /// Notes that a record was read.
    fn reach(&mut self, position: Position) {
        let Some(file) = self.files.get_mut(position.file_index as usize) else { return };
        // Streams of several CPUs are read at once, so that buffers are not read in their order.
        file.reached = file.reached.max(position.buffer_index).min(file.buffers);
        let sum = |of: fn(&FileProgress) -> u64| self.files.iter().map(of).sum::<u64>() as f64;
        self.done = sum(|file| file.reached) / sum(|file| file.buffers).max(1.0);
    }

    /// Shows the count and the part that is done, if it is time. `position`: of the last record.
    pub fn update_at(&mut self, records: u64, position: Option<Position>) {
        if !self.terminal || Instant::now() < self.next {
            return;
        }
        if let Some(position) = position {
            self.reach(position);
        }
        let line = self.line(records, self.started.elapsed());
        self.show(|| line);
    }

    /// Shows a text in place of the one before, if it is time.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        if self.terminal && Instant::now() >= self.next {
            eprint!("\r{:60}\r{}", "", text());
            self.shown = true;
            self.next = Instant::now() + PAUSE;
        }
    }

    fn line(&self, records: u64, elapsed: Duration) -> String {
        let mut line = counted(records, "record");
        if self.done > 0.0 {
            let left = elapsed.as_secs_f64() * (1.0 - self.done) / self.done;
            let (percent, mebibytes) = (self.done * 100.0, self.size >> 20);
            line += &format!(", {percent:.0} % of {mebibytes} MiB, {left:.0} s left ");
        }
        line
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r{:60}\r", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(1, "event"), "1 event");
        assert_eq!(counted(0, "event"), "0 events");
        assert_eq!(counted(2, "activity"), "2 activities");
    }

    #[test]
    fn progress_has_size_and_time_left() {
        let mut progress = Progress::of(&[]);
        assert_eq!(progress.line(7, Duration::from_secs(3)), "7 records");
        (progress.done, progress.size) = (0.25, 8 << 20);
        let line = progress.line(7, Duration::from_secs(3));
        assert_eq!(line, "7 records, 25 % of 8 MiB, 9 s left ");
    }

    #[test]
    fn several_files_are_done_when_the_last_one_is() {
        let mut progress = Progress::of(&[]);
        progress.files = [10, 30].map(|buffers| FileProgress { buffers, reached: 0 }).into();
        let mut at = |file_index, buffer_index| {
            progress.reach(Position { file_index, buffer_index, ..Position::default() });
            progress.done
        };
        assert_eq!(at(0, 10), 0.25);
        assert_eq!(at(1, 15), 0.625);
        assert_eq!(at(1, 14), 0.625);
        assert_eq!(at(1, 99), 1.0);
        assert_eq!(at(2, 0), 1.0);
    }
}
