//! The prefix of a message: thread, process, time, ….

use super::printf::{Spec, integer};
use crate::value::Value;
use etw_types::{CpuTimes, EventRecord, FileTime};

/// The prefix of a message: a format with `%1` component, `%2` file and line, `%3` thread, `%4` time, `%5` and `%6` kernel and user
/// time, `%7` sequence number, `%8` process, `%9` CPU.
#[derive(Clone, Debug)]
pub struct Prefix {
    parts: Vec<PrefixPart>,
}

#[derive(Clone, Debug)]
enum PrefixPart {
    Text(String),
    Value(u8, Spec),
}

/// The facts of a message that a prefix can show.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct PrefixFacts<'f> {
    pub component: &'f str,
    pub place: &'f str,
    pub thread: u32,
    pub process: u32,
    pub cpu: u16,
    pub sequence: u32,
    pub time: Option<FileTime>,
    pub cpu_times: CpuTimes,
}

impl<'f> PrefixFacts<'f> {
    /// The facts that a record has; what its header lacks is 0. `time`: its wall-clock time.
    pub fn of(record: &EventRecord<'_>, time: Option<FileTime>) -> PrefixFacts<'f> {
        PrefixFacts {
            component: "",
            place: "",
            thread: record.thread_id.unwrap_or(0),
            process: record.process_id.unwrap_or(0),
            cpu: record.cpu,
            sequence: record.sequence.unwrap_or(0),
            time,
            cpu_times: record.cpu_times.unwrap_or_default(),
        }
    }

    /// Appends the variable of this number.
    pub(super) fn put(&self, out: &mut String, number: u8, spec: &Spec) {
        let count = |value: u32| integer(value.into(), Value::UInt(value.into()), spec);
        let text = match number {
            1 => self.component.to_owned(),
            2 => self.place.to_owned(),
            3 => count(self.thread),
            4 => self.time.map(short_time).unwrap_or_default(),
            // Headers of messages have no CPU times, those of classic events do.
            5 => count(self.cpu_times.kernel),
            6 => count(self.cpu_times.user),
            7 => count(self.sequence),
            8 => count(self.process),
            _ => count(self.cpu.into()),
        };
        spec.pad(out, &text);
    }
}

impl Prefix {
    /// As `TRACE_FORMAT_PREFIX` is, unless set.
    pub const DEFAULT: &'static str = "[%9!d!]%8!04X!.%3!04X!::%4!s! [%1!s!]";

    /// Reads a format. Text that is not a variable stays as it is.
    pub fn parse(text: &str) -> Prefix {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let Some(number @ b'1'..=b'9') = rest.bytes().next() else {
                plain.push('%');
                rest = rest.strip_prefix('%').unwrap_or(rest);
                continue;
            };
            rest = &rest[1..];
            let spec = match rest.strip_prefix('!').and_then(|spec| spec.split_once('!')) {
                Some((spec, behind)) => {
                    rest = behind;
                    Spec::parse(spec)
                }
                None => Spec { conversion: b's', ..Spec::default() },
            };
            parts.push(PrefixPart::Text(std::mem::take(&mut plain)));
            parts.push(PrefixPart::Value(number - b'0', spec));
        }
        plain.push_str(rest);
        parts.push(PrefixPart::Text(plain));
        Prefix { parts }
    }

    /// Appends it.
    pub fn write(&self, out: &mut String, facts: &PrefixFacts<'_>) {
        for part in &self.parts {
            match part {
                PrefixPart::Text(text) => out.push_str(text),
                PrefixPart::Value(number, spec) => facts.put(out, *number, spec),
            }
        }
    }
}

/// `MM/dd/yyyy-HH:mm:ss.fff`, UTC: a trace away from its machine has no local time.
pub(super) fn short_time(time: FileTime) -> String {
    let Some(text) = time.to_ascii() else { return time.0.to_string() };
    let text = String::from_utf8_lossy(&text).into_owned();
    match (text.get(..4), text.get(5..7), text.get(8..10), text.get(11..23)) {
        (Some(year), Some(month), Some(day), Some(time)) => format!("{month}/{day}/{year}-{time}"),
        _ => text,
    }
}
