//! Columns: values of a record by name, for `--columns` of `etw dump` and `--by` of `etw stat`.

mod cell;
mod field_cells;

pub use cell::{Cell, Form, put_shown};

use crate::join::{Moment, Names};
use crate::times::Times;
use etw_decode::{Decoded, Field, Kind, Schema, Style, Value};
use etw_types::{EventRecord, FileTime, HeaderType, Level};
use field_cells::FieldCells;

/// Names of header values, and what each is.
pub const HEADER_COLUMNS: [(&str, &str); 22] = [
    ("time", "time of the event"),
    ("provider", "name of the provider, or its GUID"),
    ("event", "name of the event, or its id and version"),
    ("level", "name of the level"),
    ("process", "process id, and its name with --join"),
    ("pid", "process id"),
    ("tid", "thread id"),
    ("cpu", "number of the CPU"),
    ("id", "event id"),
    ("version", "version of the event"),
    ("opcode", "number of the opcode"),
    ("task", "number of the task"),
    ("channel", "number of the channel"),
    ("keyword", "keywords, in hex"),
    ("activity_id", "GUID of the activity"),
    ("related_activity_id", "GUID of the related activity"),
    ("file", "the event's file, with --join; also called file_name"),
    ("message", "the event's message"),
    ("header", "kind of the record's header"),
    ("size", "bytes of the payload"),
    ("channel_name", "name of the channel, in event logs"),
    ("record_id", "number of the record, in event logs"),
];

/// A named value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name as the user wrote it.
    pub name: String,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// A name of [`HEADER_COLUMNS`].
    Header(&'static str),
    Field {
        /// Names of structs stand before the field's.
        is_path: bool,
        /// It may be the second field of a name, or one behind that.
        is_numbered: bool,
    },
}

/// The source of a row's values: a record and its decoded event.
pub struct Row<'r> {
    pub record: &'r EventRecord<'r>,
    pub decoded: &'r Decoded<'r>,
    pub time: Option<FileTime>,
    pub names: Option<&'r Names>,
    pub style: &'r Style,
    pub times: &'r Times,
    /// The form of cells that differ in JSON and in text.
    pub form: Form,
    /// Whether the numbers of arrays and structs are gathered, too.
    pub gathers_numbers: bool,
}

impl std::str::FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Column, String> {
        let lower = text.trim().to_ascii_lowercase();
        let field = text.trim().strip_prefix("fields.").unwrap_or(text.trim());
        if field.is_empty() {
            return Err("a column's name is empty".to_owned());
        }
        let name = if lower == "file_name" { "file" } else { &lower };
        let header = HEADER_COLUMNS.iter().find(|(known, _)| *known == name);
        Ok(match header {
            Some((name, _)) => Column { name: lower, source: Source::Header(name) },
            None => Column::of_field(field),
        })
    }
}

impl Column {
    /// A field: by its name, by a path through structs (`Process.Id`), or of several by its number (`Id#2`), as JSON names them.
    pub fn of_field(name: &str) -> Column {
        let source = Source::Field { is_path: name.contains('.'), is_numbered: name.contains('#') };
        Column { name: name.to_owned(), source }
    }

    /// Whether the column is a field of the event.
    pub fn is_field(&self) -> bool {
        matches!(self.source, Source::Field { .. })
    }

    /// Whether a field of the column's name is its value: of `file`, where no file is joined to the event.
    fn may_be_field(&self) -> bool {
        self.is_field() || self.source == Source::Header("file")
    }

    /// Whether the name is a path through structs.
    fn is_path(&self) -> bool {
        matches!(self.source, Source::Field { is_path: true, .. })
    }

    /// Whether a field is meant, which lies in `structs`, the outermost first.
    fn means(&self, field: &Field, structs: &[String]) -> bool {
        let (is_path, is_numbered) = match self.source {
            Source::Field { is_path, is_numbered } => (is_path, is_numbered),
            Source::Header(_) => (false, false),
        };
        let name = if is_numbered { field.unique_name() } else { &field.name };
        if !is_path {
            return self.name.eq_ignore_ascii_case(name);
        }
        let Some(mut rest) = without_end(&self.name, name) else { return false };
        for around in structs.iter().rev() {
            if rest.is_empty() {
                break;
            }
            match rest.strip_suffix('.').and_then(|rest| without_end(rest, around)) {
                Some(before) => rest = before,
                None => return false,
            }
        }
        rest.is_empty()
    }

    /// Whether events of a schema have the field, though an array around it may be empty.
    pub fn is_of(&self, schema: &Schema) -> bool {
        let top = schema.fields.get(..schema.top_level).unwrap_or_default();
        self.may_be_field() && self.is_among(schema, top, &mut Vec::new(), &mut LOOKED_AT.clone())
    }

    /// `left`: how many fields are looked at. Structs of a hostile schema share members.
    fn is_among(
        &self,
        schema: &Schema,
        fields: &[Field],
        structs: &mut Vec<String>,
        left: &mut usize,
    ) -> bool {
        for field in fields {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return false;
            }
            if self.means(field, structs) {
                return true;
            }
            if let Kind::Struct { first, count } = field.kind {
                let members = schema.fields.get(first..first.saturating_add(count));
                structs.push(field.unique_name().to_owned());
                let is_inside = structs.len() < DEPTH
                    && self.is_among(schema, members.unwrap_or_default(), structs, left);
                structs.pop();
                if is_inside {
                    return true;
                }
            }
        }
        false
    }

    /// Whether the column's value is known only with the names of the whole trace.
    pub fn needs_names(&self) -> bool {
        matches!(self.source, Source::Header("process" | "pid" | "tid" | "file"))
    }
}

/// Fields of a schema among which a column is looked for.
const LOOKED_AT: usize = 1 << 16;
/// Structs in structs that are looked into, as many as a walk visits.
const DEPTH: usize = 60;

/// The text before an end that is this one in any case.
fn without_end<'t>(text: &'t str, end: &str) -> Option<&'t str> {
    let at = text.len().checked_sub(end.len()).filter(|at| text.is_char_boundary(*at))?;
    text[at..].eq_ignore_ascii_case(end).then(|| &text[..at])
}

/// The values of columns in a record; `None` where the record has none.
pub fn cells(columns: &[Column], row: &Row<'_>) -> Vec<Option<Cell>> {
    let mut cells: Vec<Option<Cell>> = columns
        .iter()
        .map(|column| match column.source {
            Source::Header(name) => header(name, row),
            Source::Field { .. } => None,
        })
        .collect();
    if columns.iter().any(Column::may_be_field) {
        let mut found = FieldCells::new(columns, &mut cells, row);
        // Fields before damage have their values.
        let _ = row.decoded.visit_part(row.record, &mut found);
    }
    cells
}

fn header(name: &str, row: &Row<'_>) -> Option<Cell> {
    let (record, decoded) = (row.record, row.decoded);
    let descriptor = &record.descriptor;
    let is_event = record.header.is_event();
    let is_message = record.header == HeaderType::Message;
    let number = |number: u64| Some(Cell::Scalar(Value::UInt(number)));
    let text = |text: &str| Some(Cell::Text(text.to_owned()));
    match name {
        "time" => {
            let mut out = Vec::new();
            row.times.put(&mut out, row.time?)?;
            Some(Cell::Text(String::from_utf8_lossy(&out).into_owned()))
        }
        "provider" => provider(row).map(Cell::Text),
        "event" => Some(Cell::Text(event(row))),
        "level" => match descriptor.level.name() {
            Some(name) if is_event => text(name),
            _ if is_event || record.header.is_classic() => number(descriptor.level.0.into()),
            _ => None,
        },
        "process" => {
            let pid = record.process_id?;
            match row.names.and_then(|names| names.process_name_at(pid, Moment::of(record))) {
                Some(name) => Some(Cell::Text(format!("{name} ({pid})"))),
                None => number(pid.into()),
            }
        }
        "pid" => number(record.process_id?.into()),
        "tid" => number(record.thread_id?.into()),
        "cpu" => number(record.known_cpu()?.into()),
        "id" => number((is_event || is_message).then_some(descriptor.id)?.into()),
        "version" => number((!is_message).then_some(descriptor.version)?.into()),
        "opcode" => number((!is_message).then_some(descriptor.opcode.0)?.into()),
        "task" => number(is_event.then_some(descriptor.task)?.into()),
        "channel" => number(record.channel_number()?.into()),
        "keyword" => text(&format!("{:#x}", is_event.then_some(descriptor.keyword.0)?)),
        "activity_id" => {
            (!record.activity_id.is_zero()).then(|| Cell::Text(record.activity_id.to_string()))
        }
        "related_activity_id" => Some(Cell::Text(record.related_activity_id()?.to_string())),
        "file" => text(&row.names?.file_of(record, decoded)?),
        "message" => Some(Cell::Text(decoded.message(record, row.style)?)),
        "header" => text(record.header_name()),
        "size" => number(record.payload.len() as u64),
        "channel_name" => text(record.log_item()?.channel),
        "record_id" => number(record.log_item()?.record_id),
        _ => None,
    }
}

/// The provider by name, or by its GUID.
fn provider(row: &Row<'_>) -> Option<String> {
    let class = || row.record.hook?.class_name().map(str::to_owned);
    let name = row.decoded.provider_name().map(|name| name.into_owned());
    name.or_else(class).or_else(|| Some(row.record.provider?.to_string()))
}

/// The event by name, or by what stands for it.
pub fn event(row: &Row<'_>) -> String {
    let descriptor = &row.record.descriptor;
    match row.decoded.event_name() {
        Some(name) => name.to_owned(),
        None if row.record.header.is_event() => {
            format!("{}v{}", descriptor.id, descriptor.version)
        }
        None if row.record.header == HeaderType::Message => format!("#{}", descriptor.id),
        None => format!("{}v{}", descriptor.opcode.0, descriptor.version),
    }
}

/// The colour of a level on a terminal.
pub fn level_colour(level: Level) -> &'static str {
    match level.0 {
        1 | 2 => "\x1b[31m",
        3 => "\x1b[33m",
        5.. => "\x1b[2m",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_header_or_of_fields() {
        let column = |text: &str| text.parse::<Column>().unwrap();
        assert!(!column("PID").is_field() && column("Status").is_field());
        assert!(column("fields.pid").is_field());
        assert_eq!(column("fields.pid").name, "pid");
        assert!("".parse::<Column>().is_err() && "fields.".parse::<Column>().is_err());
    }
}
