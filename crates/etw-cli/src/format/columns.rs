//! Records as rows of chosen columns: tab-separated text, CSV, JSON.

use super::{FileFacts, Format, Options};
use crate::column::{self, Cell, Column, Row};
use etw_decode::{Decoded, write_json_string};
use etw_types::EventRecord;

/// The line with the columns' names.
pub fn heading(format: Format, columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    match format {
        Format::Json => String::new(),
        Format::Csv => format!("{}\n", names.join(",")),
        _ => format!("{}\n", names.join("\t")),
    }
}

pub fn write(
    options: &Options,
    columns: &[Column],
    out: &mut Vec<u8>,
    record: &EventRecord<'_>,
    decoded: &Decoded<'_>,
    file: &FileFacts,
) {
    let names = options.names.as_deref();
    let attributed = names.map(|names| names.attributed(record));
    let record = attributed.as_ref().unwrap_or(record);
    let cells = column::cells(
        columns,
        &Row {
            record,
            decoded,
            time: record.timestamp(&file.clock),
            names,
            style: &options.message_style(file),
            times: &options.view.times,
        },
    );
    if options.format == Format::Json {
        out.push(b'{');
    }
    for (number, (column, cell)) in columns.iter().zip(&cells).enumerate() {
        if cell.is_some() {
            options.view.asked.mark_found(number);
        }
        match options.format {
            Format::Json => {
                if number > 0 {
                    out.push(b',');
                }
                write_json_string(out, &column.name);
                out.push(b':');
                put_json(out, cell.as_ref());
            }
            Format::Csv => {
                if number > 0 {
                    out.push(b',');
                }
                let text = cell.as_ref().map(Cell::to_text).unwrap_or_default();
                match text.contains(['"', ',', '\n']) {
                    true => put_quoted(out, &text),
                    false => out.extend_from_slice(text.as_bytes()),
                }
            }
            _ => {
                if number > 0 {
                    out.push(b'\t');
                }
                let text = cell.as_ref().map_or("-".into(), Cell::to_text);
                let colour = options.view.colour_of(&column.name, record);
                options.view.put_coloured(out, colour, text.as_bytes());
            }
        }
    }
    out.extend_from_slice(if options.format == Format::Json { b"}\n" } else { b"\n" });
}

fn put_json(out: &mut Vec<u8>, cell: Option<&Cell>) {
    match cell {
        None => out.extend_from_slice(b"null"),
        Some(Cell::Float(number)) if !number.is_finite() => out.extend_from_slice(b"null"),
        Some(Cell::Text(text)) => write_json_string(out, text),
        Some(cell @ Cell::Hex(_)) => write_json_string(out, &cell.to_text()),
        Some(number) => out.extend_from_slice(number.to_text().as_bytes()),
    }
}

fn put_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}
