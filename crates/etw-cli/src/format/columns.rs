//! Records as rows of chosen columns: tab-separated text, CSV, JSON.

use super::csv::quote;
use super::{FileFacts, Format, Options};
use crate::column::{self, Column, Form, Row, put_shown};
use etw_decode::{Decoded, write_json_string};
use etw_types::EventRecord;

/// The line with the columns' names.
pub fn heading(format: Format, columns: &[Column]) -> String {
    if format == Format::Json {
        return String::new();
    }
    let mut out = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        separate(format, number, &mut out);
        match format {
            Format::Csv => quote(&mut out, column.name.as_bytes(), false),
            _ => put_shown(&mut out, &column.name),
        }
    }
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

fn separate(format: Format, number: usize, out: &mut Vec<u8>) {
    match format {
        _ if number == 0 => {}
        Format::Json | Format::Csv => out.push(b','),
        _ => out.push(b'\t'),
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
            form: if options.format == Format::Json { Form::Json } else { Form::Text },
            gathers_numbers: false,
        },
    );
    let mut plain = Vec::new();
    if options.format == Format::Json {
        out.push(b'{');
    }
    for (number, (column, cell)) in columns.iter().zip(&cells).enumerate() {
        if cell.is_some() {
            options.view.asked.mark_found(number);
        }
        separate(options.format, number, out);
        match options.format {
            Format::Json => {
                write_json_string(out, &column.name);
                out.push(b':');
                match cell {
                    Some(cell) => cell.put_json(out, &options.style),
                    None => out.extend_from_slice(b"null"),
                }
            }
            Format::Csv => {
                plain.clear();
                if let Some(cell) = cell {
                    cell.put_plain(&mut plain);
                }
                // Readers pass over an empty line, which a row of one empty cell would be.
                quote(out, &plain, columns.len() == 1 && plain.is_empty());
            }
            _ => {
                let colour = options.view.colour_of(&column.name, record);
                options.view.coloured(out, colour, |out| match cell {
                    Some(cell) => cell.put_text(out),
                    None => out.push(b'-'),
                });
            }
        }
    }
    out.extend_from_slice(if options.format == Format::Json { b"}\n" } else { b"\n" });
}
