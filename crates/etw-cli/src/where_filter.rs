//! `--where`

use crate::output::{Failure, Outcome};
use crate::time_point::When;
use clap::Args;
use etw_decode::expr::{Expr, ExprError};
use etw_types::FileTime;

#[derive(Args, Clone, Debug, Default)]
pub struct Wanted {
    /// Only records for which EXPR holds: pid == 4 and Status != 0 (see `etw help where`)
    #[arg(long = "where", value_name = "EXPR")]
    expression: Option<String>,
}

impl Wanted {
    /// The expression; `start`: what `+1.5s` counts from.
    pub fn compile(&self, start: FileTime) -> Result<Option<Expr>, Failure> {
        let Some(text) = &self.expression else { return Ok(None) };
        let time = |text: &str| text.parse::<When>().map(|when| when.resolve(start));
        Expr::parse(text, time).map(Some).map_err(|error| Failure::Usage(pointed(text, &error)))
    }
}

/// The error with a mark below its character.
fn pointed(text: &str, error: &ExprError) -> String {
    let before = text.get(..error.at).unwrap_or(text);
    let (line_start, line) = match before.rfind('\n') {
        Some(at) => (at + 1, &text[at + 1..]),
        None => (0, text),
    };
    let line = line.lines().next().unwrap_or_default();
    let column = before[line_start..].chars().count();
    format!("--where: {error}\n  {line}\n  {}^", " ".repeat(column))
}

/// `etw help where`
pub fn help() -> Result<Outcome, Failure> {
    let mut output = crate::output::Output::open(None, &[])?;
    output.write(HELP.as_bytes())?;
    output.finish()?;
    Ok(Outcome::Done)
}

const HELP: &str = "\
Expressions of --where

  pid == 4 and event like \"Process/*\"
  level <= warning or keyword & 0x10
  provider == \"Microsoft-Windows-Kernel-Process\" and ImageName ~ \"(?i)notepad\"
  id in (1, 5, 10..20) and not (Status == 0) and time >= +1.5s

Operators  == != < <= > >=   & (a bit is set)   in (values, first..last)
           like (* and ?, in any case)   ~ (regular expression)   and or not ( )
Values     12 0x1f -3 1.5   \"text\" 'text'   GUID, *Name (a provider's GUID by its name)
           true false   critical error warning informational verbose
           times: \"2026-01-02T03:04:05Z\", +1.5s from the start of the trace
Of every record
           provider (a GUID or a name) provider_name event id version level opcode
           channel task keyword pid tid cpu time raw_timestamp header decoded message
           activity_id related_activity_id size
Of the event
           every other name is a field, at any depth: Status, Process.Id, `odd name`;
           fields.pid where a field is called like one of those above
           an array has a value if one of its elements has it
           a name alone: the event has it, and it is neither zero nor empty

A test of what an event lacks is false; != is true of what is there and other.
What the header tells is asked before anything is decoded.
";
