//! Answers of Windows commands: texts and errors of usage.

use crate::output::{Failure, Outcome, Output};

pub fn usage(what: impl Into<String>) -> Failure {
    Failure::Usage(what.into())
}

/// Writes a text to standard output.
pub fn print(text: &str) -> Result<Outcome, Failure> {
    let mut output = Output::open(None, &[])?;
    output.write(text.as_bytes())?;
    output.finish()?;
    Ok(Outcome::Done)
}
