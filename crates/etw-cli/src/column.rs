//! Columns: values of a record by name, for `--columns` of `etw dump` and `--by` of `etw stat`.

use crate::join::{Moment, Names};
use crate::times::Times;
use etw_decode::{Decoded, Field, Style, Value, Visitor};
use etw_types::{EventRecord, FileTime, HeaderType, Level};
use std::borrow::Cow;

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
    Field,
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Number(i128),
    /// A pointer, or another number that is shown in hex.
    Hex(u64),
    Float(f64),
    Text(String),
}

impl Cell {
    pub fn to_text(&self) -> Cow<'_, str> {
        match self {
            Cell::Number(number) => number.to_string().into(),
            Cell::Hex(number) => format!("{number:#x}").into(),
            Cell::Float(number) => number.to_string().into(),
            Cell::Text(text) => crate::format::safe(text),
        }
    }
}

/// The source of a row's values: a record and its decoded event.
pub struct Row<'r> {
    pub record: &'r EventRecord<'r>,
    pub decoded: &'r Decoded<'r>,
    pub time: Option<FileTime>,
    pub names: Option<&'r Names>,
    pub style: &'r Style,
    pub times: &'r Times,
}

impl std::str::FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Column, String> {
        let lower = text.trim().to_ascii_lowercase();
        if lower.is_empty() {
            return Err("a column's name is empty".to_owned());
        }
        let name = if lower == "file_name" { "file" } else { &lower };
        let header = HEADER_COLUMNS.iter().find(|(known, _)| *known == name);
        let field = text.trim().strip_prefix("fields.").unwrap_or(text.trim());
        Ok(match header {
            Some((name, _)) => Column { name: lower, source: Source::Header(name) },
            None => Column { name: field.to_owned(), source: Source::Field },
        })
    }
}

impl Column {
    /// Whether the column is a field of the event.
    pub fn is_field(&self) -> bool {
        self.source == Source::Field
    }

    /// Whether a field of the column's name is its value: of `file`, where no file is joined to the event.
    fn may_be_field(&self) -> bool {
        matches!(self.source, Source::Field | Source::Header("file"))
    }

    /// Whether the column's value is known only with the names of the whole trace.
    pub fn needs_names(&self) -> bool {
        matches!(self.source, Source::Header("process" | "pid" | "tid" | "file"))
    }
}

/// The values of columns in a record; `None` where the record has none.
pub fn cells(columns: &[Column], row: &Row<'_>) -> Vec<Option<Cell>> {
    let mut cells: Vec<Option<Cell>> = columns
        .iter()
        .map(|column| match column.source {
            Source::Header(name) => header(name, row),
            Source::Field => None,
        })
        .collect();
    if columns.iter().any(Column::may_be_field) {
        let mut found = FieldCells { columns, cells: &mut cells, style: row.style };
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
    let number = |number: i128| Some(Cell::Number(number));
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
        "cpu" => number(record.cpu.into()),
        "id" => number((is_event || is_message).then_some(descriptor.id)?.into()),
        "version" => number((!is_message).then_some(descriptor.version)?.into()),
        "opcode" => number((!is_message).then_some(descriptor.opcode.0)?.into()),
        "task" => number(is_event.then_some(descriptor.task)?.into()),
        "channel" => number(is_event.then_some(descriptor.channel.0)?.into()),
        "keyword" => text(&format!("{:#x}", is_event.then_some(descriptor.keyword.0)?)),
        "activity_id" => {
            (!record.activity_id.is_zero()).then(|| Cell::Text(record.activity_id.to_string()))
        }
        "related_activity_id" => Some(Cell::Text(record.related_activity_id()?.to_string())),
        "file" => text(&row.names?.file_of(record, decoded)?),
        "message" => Some(Cell::Text(decoded.message(record, row.style)?)),
        "header" => text(record.header.name()),
        "size" => number(record.payload.len() as i128),
        "channel_name" => text(record.log_item()?.channel),
        "record_id" => number(record.log_item()?.record_id.into()),
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

/// Collects the first value of each field.
struct FieldCells<'c> {
    columns: &'c [Column],
    cells: &'c mut [Option<Cell>],
    style: &'c Style,
}

impl Visitor for FieldCells<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        for (column, cell) in self.columns.iter().zip(self.cells.iter_mut()) {
            let is_asked = column.may_be_field();
            if cell.is_some() || !is_asked || !column.name.eq_ignore_ascii_case(&field.name) {
                continue;
            }
            *cell = Some(match value {
                Value::F32(value) => Cell::Float(value.into()),
                Value::F64(value) => Cell::Float(value),
                Value::Hex(value) => Cell::Hex(value),
                _ => match value.as_integer().filter(|_| !matches!(value, Value::Mapped { .. })) {
                    Some(number) => Cell::Number(number),
                    None => {
                        let mut text = Vec::new();
                        value.write_text(&mut text, self.style);
                        Cell::Text(String::from_utf8_lossy(&text).into_owned())
                    }
                },
            });
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}

    fn is_done(&self) -> bool {
        self.cells.iter().all(Option::is_some)
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
        assert!("".parse::<Column>().is_err());
    }
}
