//! `--where`: the option, its errors, and notes on names that no record has.

use crate::attribution::ThreadTable;
use crate::event_kinds::EventKinds;
use crate::join::{Names, TestedNames};
use crate::output::{Failure, Outcome, counted};
use crate::running_threads::is_of_running_thread;
use crate::switches::switch_of;
use crate::time_point::When;
use clap::Args;
use etw_decode::expr::{Expr, ExprError, Owned};
use etw_decode::{Decoded, Decoder, Style};
use etw_types::{EventRecord, FileTime, Guid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[derive(Args, Clone, Debug, Default)]
pub struct WhereOption {
    /// Only records for which EXPR holds: pid == 4 and Status != 0 (see `etw help where`)
    #[arg(long = "where", value_name = "EXPR")]
    expression: Option<String>,
}

impl WhereOption {
    #[cfg(test)]
    pub fn of(expression: &str) -> WhereOption {
        WhereOption { expression: Some(expression.to_owned()) }
    }

    /// The expression, for records of which only the header is known before the trace is open. `None`: the header decides nothing, or
    /// the expression needs the start of the trace or the size of the fields, or is wrong.
    pub fn for_headers(&self) -> Option<Expr> {
        let time = |text: &str| match text.parse()? {
            When::At(time) => Ok(time),
            When::After(_) => Err("it counts from the start of the trace".to_owned()),
        };
        let expr = Expr::parse(self.expression.as_deref()?, time).ok()?;
        let headers = expr.names().headers;
        (!headers.is_empty() && !headers.iter().any(|name| name == "size")).then_some(expr)
    }

    /// Compiles the expression; `+1.5s` counts from `start`.
    pub fn compile(&self, start: FileTime) -> Result<Option<Filter>, Failure> {
        let Some(text) = &self.expression else { return Ok(None) };
        let time = |text: &str| text.parse::<When>().map(|when| when.resolve(start));
        let expr =
            Expr::parse(text, time).map_err(|error| Failure::Usage(pointed(text, &error)))?;
        let headers = expr.names().headers;
        let tests = |names: &[&str]| headers.iter().any(|name| names.contains(&name.as_str()));
        let tested = TestedNames { processes: expr.names_processes(), files: expr.tests_file() };
        Ok(Some(Filter {
            tests_owner: tests(&OWNER_NAMES),
            tested,
            expr,
            is_stream: false,
            ownerless: Ownerless::default(),
            named: NamedProcesses::default(),
            is_shown: AtomicBool::new(false),
            checked: AtomicU32::new(0),
            hidden: Mutex::default(),
        }))
    }
}

/// Shown records that are checked for fields with names of header values.
const CHECKED_RECORDS: u32 = 1000;

/// A compiled `--where`.
#[derive(Debug)]
pub struct Filter {
    expr: Expr,
    /// The records are those of a stream, in which an event is known only behind those before it.
    is_stream: bool,
    /// Whether a test is of a record's process or thread.
    tests_owner: bool,
    tested: TestedNames,
    ownerless: Ownerless,
    named: NamedProcesses,
    /// Whether a record was shown.
    is_shown: AtomicBool,
    checked: AtomicU32,
    /// Header values in the expression that are also names of fields.
    hidden: Mutex<BTreeSet<String>>,
}

/// Records that a test of a process or thread met and that had none.
#[derive(Debug, Default)]
struct Ownerless {
    /// Their payloads name their threads.
    named: AtomicU64,
    /// The thread that ran on their CPU caused them.
    of_running: AtomicU64,
    /// Whether a switch says which thread that was.
    has_switches: AtomicBool,
}

impl Ownerless {
    fn learn(&self, owned: &Owned<'_>) {
        let Owned { record, stored, .. } = owned;
        if stored.hook.is_none() {
            return;
        }
        if switch_of(stored).is_some() {
            self.has_switches.store(true, Ordering::Relaxed);
        }
        if record.process_id.is_some() {
            return;
        }
        if is_of_running_thread(stored) {
            self.of_running.fetch_add(1, Ordering::Relaxed);
        } else if ThreadTable::named_thread(stored).is_some() {
            self.named.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Why records of a process or thread may not be shown.
    fn notes(&self, is_stream: bool) -> Vec<String> {
        let of_running = self.of_running.load(Ordering::Relaxed);
        let named = self.named.load(Ordering::Relaxed);
        let mut notes = Vec::new();
        if of_running > 0 && !self.has_switches.load(Ordering::Relaxed) {
            notes.push(format!(
                "{} with no known process: the trace has no context switches, which say who ran (--system cswitch)",
                counted(of_running, "record")
            ));
        }
        if is_stream && named > 0 {
            notes.push(format!(
                "{} of threads whose processes are not known, as they began before the stream; a rundown names them \
                 (etw session capture-state)",
                counted(named, "record")
            ));
        }
        notes
    }
}

/// Whether the processes of records have names, for a test of one.
#[derive(Debug, Default)]
struct NamedProcesses {
    /// A record is of a process.
    has_process: AtomicBool,
    /// A record is of a process whose name is known.
    has_name: AtomicBool,
}

impl NamedProcesses {
    fn learn(&self, owned: &Owned<'_>) {
        let process = owned.record.process_id;
        // The idle process needs no trace to name it.
        let is_found = match owned.process_name {
            Some(_) if process != Some(0) => &self.has_name,
            _ if process.is_some() => &self.has_process,
            _ => return,
        };
        if !is_found.load(Ordering::Relaxed) {
            is_found.store(true, Ordering::Relaxed);
        }
    }

    /// Why no record is of a process of some name. `is_none_shown`: no record matched, and perhaps none came to be tested.
    fn note(&self, is_stream: bool, is_none_shown: bool) -> Option<&'static str> {
        let has_process = is_none_shown || self.has_process.load(Ordering::Relaxed);
        (has_process && !self.has_name.load(Ordering::Relaxed)).then_some(match is_stream {
            true => {
                "the stream has named no process, so process can only be compared with ids; a rundown names them \
                 (etw session capture-state)"
            }
            false => {
                "the trace has no names of processes, so process can only be compared with ids \
                 (--system process records the names)"
            }
        })
    }
}

impl std::ops::Deref for Filter {
    type Target = Expr;

    fn deref(&self) -> &Expr {
        &self.expr
    }
}

/// Names of header values that are the owner's where the owner is known.
const OWNER_NAMES: [&str; 3] = ["pid", "tid", "process"];

impl Filter {
    /// For records of a stream.
    #[cfg(any(target_os = "linux", windows))]
    pub fn of_stream(self) -> Filter {
        Filter { is_stream: true, ..self }
    }

    /// Whether a test is of a record's process or thread.
    #[cfg(any(target_os = "linux", windows))]
    pub fn tests_owner(&self) -> bool {
        self.tests_owner
    }

    /// The names that tests are of, or may be.
    #[inline]
    pub fn tested_names(&self) -> TestedNames {
        self.tested
    }

    /// Whether a test is of an event's process, thread or file.
    pub fn needs_join(&self) -> bool {
        self.tests_owner || self.tested.files
    }

    /// Whether a record matches. `names`: those that `owned` is of.
    pub fn matches_joined(
        &self,
        owned: Owned<'_>,
        names: Option<&Names>,
        decoded: &Decoded<'_>,
        time: Option<FileTime>,
        style: &Style,
    ) -> bool {
        let names = names.filter(|_| self.tested.files);
        let file = names.and_then(|names| names.file_of(owned.stored, decoded));
        self.matches_owned(Owned { file: file.as_deref(), ..owned }, decoded, time, style)
    }

    /// As [`by_owned_header`](Filter::by_owned_header) for a record whose owner is the one that its header stores.
    #[inline]
    pub fn by_header(&self, record: &EventRecord<'_>, time: Option<FileTime>) -> Option<bool> {
        self.by_owned_header(Owned::stored(record), time)
    }

    /// Whether a record matches, if its header alone decides. Every record comes here once, before it is decoded.
    #[inline]
    pub fn by_owned_header(&self, owned: Owned<'_>, time: Option<FileTime>) -> Option<bool> {
        if self.tests_owner {
            self.ownerless.learn(&owned);
        }
        if self.tested.processes {
            self.named.learn(&owned);
        }
        self.expr.by_owned_header(owned, time)
    }

    /// Marks that a record is shown.
    #[inline]
    pub fn mark_shown(&self) {
        if !self.is_shown.load(Ordering::Relaxed) {
            self.is_shown.store(true, Ordering::Relaxed);
        }
    }

    /// Marks that a record is shown, and looks for fields with names of header values in it.
    pub fn check_shown(&self, decoded: &Decoded<'_>) {
        self.mark_shown();
        if self.checked.load(Ordering::Relaxed) >= CHECKED_RECORDS {
            return;
        }
        self.checked.fetch_add(1, Ordering::Relaxed);
        let Some(schema) = decoded.schema() else { return };
        for header in self.names().headers {
            if schema.fields.iter().any(|field| field.name.eq_ignore_ascii_case(&header)) {
                let mut hidden = self.hidden.lock().unwrap_or_else(|lock| lock.into_inner());
                hidden.insert(header);
            }
        }
    }

    /// Whether notes may need the names in the trace: as long as no record was shown, or a field of the expression was not
    /// found. Once false, it stays so.
    #[inline]
    pub fn needs_names(&self) -> bool {
        !self.is_shown.load(Ordering::Relaxed) || self.misses_fields()
    }

    /// Prints notes after a run that has shown `shown` records. `names`: those of the whole trace.
    pub fn report(&self, shown: u64, names: impl FnOnce() -> TraceNames) {
        let may_be_wrong = shown == 0 || self.misses_fields();
        let trace = if may_be_wrong { names() } else { TraceNames::default() };
        for note in self.notes(shown, &trace) {
            eprintln!("etw: note: --where: {note}");
        }
    }

    /// Why no event has a value that `dump --join` shows.
    fn note_on_joined(&self, name: &str) -> String {
        match name {
            "file" | "file_name" if !self.is_stream => format!(
                "no event has a field {name}, and of none the file is known (--system fileio,file)"
            ),
            "file" | "file_name" => format!(
                "no event has a field {name}; the files of kernel events are known in a trace, not in a stream"
            ),
            _ => format!(
                "no event has a field {name}: of what dump --join shows, process, pid, tid and file can be tested"
            ),
        }
    }

    fn notes(&self, shown: u64, trace: &TraceNames) -> Vec<String> {
        let names = self.names();
        let mut notes = Vec::new();
        for path in &names.missing_fields {
            let name = path.rsplit('.').next().unwrap_or(path);
            if trace.is_empty() || trace.fields.contains_key(&name.to_ascii_lowercase()) {
                continue;
            }
            if JOINED.contains(&path.as_str()) {
                notes.push(self.note_on_joined(path));
                continue;
            }
            let fields = trace.fields.values().map(String::as_str);
            let meant = closest(name, HEADER_NAMES.into_iter().chain(fields));
            notes.push(match meant {
                Some(meant) => format!("no event has a field {path}; did you mean {meant}?"),
                None => format!(
                    "no event has a field {path}; etw dump --limit 5 shows what events have"
                ),
            });
        }
        if shown == 0 && !trace.is_empty() {
            notes.extend(names.providers.iter().filter_map(|name| trace.note_on_provider(name)));
        }
        let mut hidden = self.hidden.lock().unwrap_or_else(|lock| lock.into_inner()).clone();
        if shown == 0 {
            let headers = names.headers.iter();
            hidden.extend(headers.filter(|name| trace.fields.contains_key(*name)).cloned());
        }
        // Such a field is where the owner's id comes from.
        hidden.retain(|name| !OWNER_NAMES.contains(&name.as_str()));
        notes.extend(self.ownerless.notes(self.is_stream));
        if self.tested.processes {
            notes.extend(self.named.note(self.is_stream, shown == 0).map(str::to_owned));
        }
        notes.extend(hidden.iter().map(|name| {
            format!("{name} is the header's; events also have a field of this name: fields.{name}")
        }));
        notes
    }
}

/// Names of what `dump --join` adds to events.
const JOINED: [&str; 7] =
    ["file", "file_name", "thread_name", "interrupt", "function", "stack", "frames"];

/// Names of every record.
pub const HEADER_NAMES: [&str; 24] = [
    "provider",
    "provider_name",
    "event",
    "id",
    "version",
    "level",
    "opcode",
    "channel",
    "task",
    "keyword",
    "process",
    "pid",
    "tid",
    "cpu",
    "time",
    "raw_timestamp",
    "header",
    "decoded",
    "message",
    "activity_id",
    "related_activity_id",
    "size",
    "channel_name",
    "record_id",
];

/// More names than this come from a hostile trace.
const NAME_LIMIT: usize = 1 << 16;

/// Names that occur in a trace.
#[derive(Debug, Default)]
pub struct TraceNames {
    /// Fields by their name in lower case.
    fields: BTreeMap<String, String>,
    /// Providers, with their name where it is known.
    providers: BTreeMap<Guid, Option<String>>,
}

impl TraceNames {
    /// The names of all kinds of events in a trace. `decoder` has all its schemas.
    pub fn of(kinds: EventKinds, decoder: Decoder) -> TraceNames {
        let mut names = TraceNames::default();
        kinds.resolve(decoder, |kind| names.add(kind.record, kind.decoded));
        names
    }

    /// Adds the names of a record.
    pub fn add(&mut self, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
        if let Some(provider) = record.provider
            && self.providers.len() < NAME_LIMIT
        {
            let name = self.providers.entry(provider).or_default();
            if name.is_none() {
                *name = decoded.provider_name().map(|name| name.into_owned());
            }
        }
        for field in decoded.schema().map_or(&[][..], |schema| &schema.fields) {
            let lower = field.name.to_ascii_lowercase();
            if self.fields.len() < NAME_LIMIT && !self.fields.contains_key(&lower) {
                self.fields.insert(lower, field.name.clone());
            }
        }
    }

    /// The names of fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.values().map(String::as_str)
    }

    fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }

    /// Why no record is of a provider.
    fn note_on_provider(&self, name: &str) -> Option<String> {
        let known = || self.providers.values().flatten().map(String::as_str);
        if known().any(|known| known == name) {
            return None;
        }
        let mut ids = vec![Guid::from_name(name)];
        ids.extend(crate::schemas::own().providers_named(name));
        if let Some(id) = ids.into_iter().find(|id| self.providers.contains_key(id)) {
            let named = self.providers.get(&id).and_then(Option::as_deref);
            return Some(match named {
                Some(named) => format!("the provider {name} is called {named} in this trace"),
                None => format!(
                    "no record names the provider {name:?}, but some have its GUID: \
                     provider == {id}"
                ),
            });
        }
        Some(match closest(name, known()) {
            Some(meant) => format!("no record is of a provider {name:?}; did you mean {meant:?}?"),
            None => format!(
                "no record is of a provider {name:?}; etw stat --by provider lists the trace's providers"
            ),
        })
    }
}

/// The name that differs least, if it does not differ much.
pub fn closest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let lower = name.to_lowercase();
    let most = lower.chars().count() / 3;
    let scored = known.map(|known| (distance(&lower, &known.to_lowercase()), known));
    scored.filter(|(distance, _)| *distance <= most).min().map(|(_, known)| known)
}

/// Insertions, deletions, replacements and exchanges of neighbours that turn one text into the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, c) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(c != other);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from[i - 1] == *other && to[j - 1] == *c {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

/// The error, with a mark below the character that it is about.
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
    crate::output::print_paged(HELP)
}

const HELP: &str = "\
Expressions of --where

  pid == 4 and event like \"Process/*\"
  level <= warning or keyword & 0x10
  provider == \"Microsoft-Windows-Kernel-Process\" and ImageName ~ \"(?i)notepad\"
  id in (1, 5, 10..20) and not (Status == 0) and time >= +1.5s

Operators  == != < <= > >=   & (a bit is set)   in (values, first..last)
           like (* and ?, in any case)   ~ (regular expression; in any case: (?i))   and or not ( )
Values     12 0x1f -3 1.5   \"text\" 'text'   GUID, *Name (a provider's GUID by its name)
           a negative number beside an unsigned field: its two's complement (Status == -2)
           true false   critical error warning informational verbose
           times: \"2026-01-02T03:04:05Z\", +1.5s from the start of the trace
Of every record
           provider (a GUID or a name) provider_name event id version level opcode
           channel task keyword process pid tid cpu time raw_timestamp header decoded message
           activity_id related_activity_id size
           process: the process by its id or its name (process == \"shop\")
           process, pid, tid: those of the thread that a kernel event names, or that ran;
           (in tail, as far as the stream shows it); header.pid header.tid: the stored ids
           file (or file_name): the file of a kernel event, but in tail
Of records of event logs
           channel_name record_id
Of the event
           every other name is a field, at any depth: Status, Process.Id, `odd name`;
           fields.pid where a field is called like one of those above
           an array has a value if one of its elements has it
           a name alone: the event has it, and it is neither zero nor empty

A test of a field that an event does not have is false; != needs a field with another value.
Names of the header are tested before anything is decoded.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_have_a_closest_one() {
        let names = || HEADER_NAMES.into_iter();
        assert_eq!(closest("provder", names()), Some("provider"));
        assert_eq!(closest("Levle", names()), Some("level"));
        assert_eq!(closest("Status", names()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
