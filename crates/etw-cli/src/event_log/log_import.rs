//! `etw log import`: entries of journald and syslog as records of an event log.

use crate::frontends::answer::print;
use crate::output::{Failure, Outcome, counted};
use clap::{Args, ValueEnum};
use etw_eventlog::import::journal::Journal;
use etw_eventlog::import::{Entry, Importer, syslog};
use etw_eventlog::registry::Scope;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    /// systemd's journal: the output of journalctl -o json or -o export
    Journal,
    /// Lines of syslog, as in /var/log/syslog
    Syslog,
}

#[derive(Args)]
pub struct Arguments {
    /// The other log's form
    from: From,
    /// File with entries; -: standard input; default for the journal: journalctl is run, from where the last import ended
    file: Option<PathBuf>,
    /// Event log that receives them; default: Journal.evtx or Syslog.evtx beside your logs
    #[arg(short, long, value_name = "OUT.evtx")]
    output: Option<PathBuf>,
}

/// Entries that are stored together.
const BATCH: usize = 512;
/// Bytes of a line.
const MAX_LINE: u64 = 1 << 20;

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let (channel, file_name) = match arguments.from {
        From::Journal => ("Journal", "Journal.evtx"),
        From::Syslog => ("Syslog", "Syslog.evtx"),
    };
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => {
            let scope = Scope::user().ok_or_else(|| {
                Failure::new("no home for a log: set HOME, or name a file with -o")
            })?;
            std::fs::create_dir_all(&scope.logs).map_err(Failure::new)?;
            scope.logs.join(file_name)
        }
    };
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", output.display()));
    let cursor_file = output.with_extension("cursor");
    let mut input = open(arguments, &cursor_file)?;
    let mut importer = Importer::open(&output, channel).map_err(failed)?;
    let mut total = Total::default();
    let mut batch = Vec::new();
    let mut put = |entry: Option<Entry>| {
        let is_end = entry.is_none();
        batch.extend(entry);
        if batch.len() >= BATCH || is_end {
            total.stored += batch.len() as u64;
            importer.add(&batch)?;
            batch.clear();
        }
        Ok(())
    };
    let mut cursor = None;
    let damaged = match arguments.from {
        From::Journal => {
            let mut journal = Journal::new(&mut input.reader);
            while let Some(entry) = journal.read().map_err(Failure::new)? {
                put(Some(entry)).map_err(failed)?;
            }
            cursor = journal.cursor().map(str::to_owned);
            journal.damaged()
        }
        From::Syslog => lines(&mut input.reader, &mut |entry| put(Some(entry)).map_err(failed))?,
    };
    put(None).map_err(failed)?;
    importer.finish().map_err(failed)?;
    input.end()?;
    if let (Some(cursor), None) = (cursor, &arguments.file) {
        std::fs::write(&cursor_file, cursor).map_err(Failure::new)?;
    }
    print(&format!("{}: {}\n", output.display(), counted(total.stored, "record")))?;
    if damaged > 0 {
        eprintln!("etw: left out {} that could not be read", counted(damaged, "entry"));
        return Ok(Outcome::Damaged);
    }
    Ok(Outcome::Done)
}

#[derive(Default)]
struct Total {
    stored: u64,
}

/// The entries' bytes, and the program that writes them.
struct Input {
    reader: Box<dyn BufRead>,
    child: Option<std::process::Child>,
}

impl Input {
    fn end(mut self) -> Result<(), Failure> {
        drop(self.reader);
        let Some(child) = &mut self.child else { return Ok(()) };
        let status = child.wait().map_err(Failure::new)?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::new(format!("journalctl ended with {status}"))),
        }
    }
}

fn open(arguments: &Arguments, cursor: &Path) -> Result<Input, Failure> {
    match &arguments.file {
        Some(file) if file.as_os_str() != "-" => {
            let opened = File::open(file)
                .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
            Ok(Input { reader: Box::new(BufReader::new(opened)), child: None })
        }
        None if arguments.from == From::Journal => {
            let mut command = Command::new("journalctl");
            command.args(["-o", "json", "--all", "--no-pager"]).stdout(Stdio::piped());
            if let Ok(cursor) = std::fs::read_to_string(cursor) {
                command.arg(format!("--after-cursor={}", cursor.trim()));
            }
            let mut child = command.spawn().map_err(|error| {
                Failure::new(format!("journalctl: {error}; give its output as a file, or as -"))
            })?;
            let Some(stdout) = child.stdout.take() else { return Err(Failure::new("journalctl")) };
            Ok(Input { reader: Box::new(BufReader::new(stdout)), child: Some(child) })
        }
        _ => Ok(Input { reader: Box::new(BufReader::new(std::io::stdin())), child: None }),
    }
}

/// Reads lines of syslog; the number of those that are none.
fn lines(
    input: &mut dyn BufRead,
    put: &mut dyn FnMut(Entry) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let year = syslog::present_year();
    let mut damaged = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.take(MAX_LINE).read_until(b'\n', &mut line).map_err(Failure::new)? == 0 {
            return Ok(damaged);
        }
        let text = String::from_utf8_lossy(&line);
        match syslog::parse(&text, year) {
            Some(entry) => put(entry)?,
            None if text.trim().is_empty() => {}
            None => damaged += 1,
        }
    }
}
