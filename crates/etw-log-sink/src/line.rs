//! A record as a line of text, as c-logging's console and callback sinks have it.

use std::fmt::Write;

use crate::LogRecord;
use crate::context::LogContext;
use crate::value::Value;

/// Bytes of a line, its end included: what is beyond is cut.
pub(crate) const MAX_LINE: usize = 4095;

/// ` name={ a=1 b=2 }`, or ` { a=1 }` without a name.
fn write_context(out: &mut String, context: &LogContext<'_>) {
    // Members that each open structure still has.
    let mut open: Vec<u8> = Vec::new();
    for pair in context.pairs() {
        let name = String::from_utf8_lossy(&pair.name);
        if let Some(left) = open.last_mut() {
            *left = left.saturating_sub(1);
        }
        match pair.value {
            Value::Struct(count) => {
                let _ = match name.is_empty() {
                    true => write!(out, " {{"),
                    false => write!(out, " {name}={{"),
                };
                open.push(count);
            }
            _ => {
                let _ = write!(out, " {name}={}", pair.value);
            }
        }
        while open.last() == Some(&0) {
            open.pop();
            out.push_str(" }");
        }
    }
    out.extend(open.iter().map(|_| " }"));
}

/// `Time:… File:…:1 Func:… { … } message`
pub(crate) fn write_line(out: &mut String, record: &LogRecord<'_>, time: &str) {
    let LogRecord { file, func, line, message, .. } = record;
    let _ = write!(out, "Time:{time} File:{file}:{line} Func:{func}");
    if let Some(context) = record.context {
        write_context(out, context);
    }
    let _ = write!(out, " {message}");
}

/// At most so many bytes, whole characters.
pub(crate) fn cut(line: &mut String, longest: usize) {
    if line.len() > longest {
        let end = (0..=longest).rev().find(|&end| line.is_char_boundary(end));
        line.truncate(end.unwrap_or_default());
    }
}

/// Local time as `ctime` writes it.
pub(crate) fn time() -> String {
    #[cfg(feature = "console")]
    return jiff::Zoned::now().strftime("%a %b %e %H:%M:%S %Y").to_string();
    #[cfg(not(feature = "console"))]
    String::new()
}
