//! [`Destination`]: the new file that a conversion writes, or standard output.

use super::Arguments;
use crate::output::{Failure, stdout_failure};
use crate::output_file::NewFile;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub enum Destination {
    File(NewFile),
    /// `-o -`
    Output,
}

impl Destination {
    pub fn open(arguments: &Arguments) -> Result<Destination, Failure> {
        let Arguments { output, files, .. } = arguments;
        if !is_stdout(output) {
            let new = NewFile::create(output, files, arguments.replace.force)?;
            return Ok(Destination::File(new));
        }
        if arguments.json.json {
            let text =
                "--json prints the result on standard output, which has the conversion with -o -";
            return Err(Failure::Usage(text.to_owned()));
        }
        Ok(Destination::Output)
    }

    pub fn writer(&self) -> Box<dyn Write + '_> {
        match self {
            Destination::File(new) => Box::new(BufWriter::with_capacity(1 << 16, new.file())),
            Destination::Output => Box::new(BufWriter::with_capacity(1 << 16, io::stdout())),
        }
    }

    /// The failure for an error of the system.
    pub fn failure(&self, error: io::Error) -> Failure {
        match self {
            Destination::File(new) => new.failure(&error),
            Destination::Output => stdout_failure(&error),
        }
    }

    /// Gives the file its name.
    pub fn keep(self) -> Result<(), Failure> {
        match self {
            Destination::File(new) => new.keep(),
            Destination::Output => Ok(()),
        }
    }
}

/// Whether a path of `-o` stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}
