//! Lines of syslog: RFC 5424, RFC 3164, and the forms of files in `/var/log`.

use super::{Entry, time_of_micros};
use etw_types::FileTime;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Reads a line. `year`: the present year, for lines that have none. `None`: the line is not one of syslog.
pub fn parse(line: &str, year: i64) -> Option<Entry> {
    let (severity, rest) = priority(line.trim_end());
    if let Some(rest) = rest.strip_prefix("1 ") {
        return rfc5424(severity, rest);
    }
    let (time, rest) = match rest.as_bytes().first()? {
        b'0'..=b'9' => {
            let (time, rest) = rest.split_once(' ')?;
            (iso_time(time)?, rest)
        }
        _ => traditional_time(rest, year)?,
    };
    let (computer, rest) = rest.split_once(' ')?;
    let (tag, message) = rest.split_once(": ").or_else(|| Some((rest.strip_suffix(':')?, "")))?;
    let (source, process) = match tag.split_once('[') {
        Some((source, process)) => (source, process.strip_suffix(']')?.parse().ok()),
        None => (tag, None),
    };
    if source.is_empty() || source.contains(' ') {
        return None;
    }
    Some(Entry {
        time,
        severity,
        source: source.to_owned(),
        computer: Some(computer.chars().take(255).collect()),
        process,
        message: message.to_owned(),
        ..Entry::default()
    })
}

/// `<PRI>`: the severity is its low three bits. Lines of files have none, and are notices.
fn priority(line: &str) -> (u8, &str) {
    let found = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    match found.and_then(|(number, rest)| Some((number.parse::<u16>().ok()?, rest))) {
        Some((number, rest)) if number < 192 => ((number & 7) as u8, rest),
        _ => (5, line),
    }
}

fn rfc5424(severity: u8, rest: &str) -> Option<Entry> {
    let mut parts = rest.splitn(6, ' ');
    let mut part = || parts.next().filter(|part| !part.is_empty());
    let (time, computer, source) = (iso_time(part()?)?, part()?, part()?);
    let (process, message_id, rest) = (part()?, part()?, part()?);
    let (data, message) = structured_data(rest)?;
    let given = |text: &str| (text != "-").then(|| text.to_owned());
    let mut fields = Vec::new();
    fields.extend(given(message_id).map(|id| format!("MSGID={id}")));
    fields.extend(given(data).map(|data| format!("STRUCTURED-DATA={data}")));
    Some(Entry {
        time,
        severity,
        source: given(source).unwrap_or_default(),
        computer: given(computer),
        process: process.parse().ok(),
        user: None,
        message: message.trim_start_matches('\u{feff}').to_owned(),
        fields,
    })
}

/// Splits `[…][…] message`, or `- message`.
fn structured_data(text: &str) -> Option<(&str, &str)> {
    if let Some(message) = text.strip_prefix('-') {
        return Some(("-", message.strip_prefix(' ').unwrap_or(message)));
    }
    let (mut in_quotes, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_quotes => is_escaped = true,
            b'"' => in_quotes = !in_quotes,
            b']' if !in_quotes => match text.as_bytes().get(at + 1) {
                Some(b'[') => {}
                Some(b' ') => return Some((&text[..=at], &text[at + 2..])),
                None => return Some((text, "")),
                Some(_) => return None,
            },
            b'[' | b'\\' => {}
            _ if at == 0 => return None,
            _ => {}
        }
    }
    None
}

/// `2026-01-31T23:59:59.123456+01:00`
fn iso_time(text: &str) -> Option<FileTime> {
    if !text.is_ascii() || text.len() < 20 || text.as_bytes()[10] != b'T' {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let mut micros = micros_of(
        [number(0, 4)?, number(5, 7)?, number(8, 10)?],
        [number(11, 13)?, number(14, 16)?, number(17, 19)?],
    )?;
    let mut rest = &text[19..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let six: String = fraction[..digits].chars().chain("000000".chars()).take(6).collect();
        micros += six.parse::<i64>().ok()?;
        rest = &fraction[digits..];
    }
    let offset = match rest {
        "Z" | "z" => 0,
        _ => {
            let sign = match rest.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let part = |range: std::ops::Range<usize>| rest.get(range)?.parse::<i64>().ok();
            sign * (part(1..3)? * 60 + part(4..6)?)
        }
    };
    time_of_micros(micros - offset * 60_000_000)
}

/// `Jan  1 23:59:59`, in UTC: the line does not say more.
fn traditional_time(text: &str, year: i64) -> Option<(FileTime, &str)> {
    let (month, rest) = (text.get(..3)?, text.get(4..)?.trim_start());
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let (day, rest) = rest.split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    let mut parts = time.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let mut part = || parts.next().flatten();
    let micros = micros_of([year, month, day.parse().ok()?], [part()?, part()?, part()?])?;
    Some((time_of_micros(micros)?, rest))
}

/// Microseconds since 1970 of a date and time.
fn micros_of([year, month, day]: [i64; 3], [hour, minute, second]: [i64; 3]) -> Option<i64> {
    let is_date =
        (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    if !is_date || !is_time {
        return None;
    }
    // Days since 1970 of the proleptic Gregorian calendar, with years that begin in March.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000)
}

/// The present year.
pub fn present_year() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let time =
        FileTime(FileTime::UNIX_EPOCH.0 + since.map_or(0, |since| (since.as_nanos() / 100) as i64));
    time.to_string().get(..4).and_then(|year| year.parse().ok()).unwrap_or(1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-22: the usual forms of syslog are read, with severity, time, program and process.
    #[test]
    fn the_forms_of_syslog_are_read() {
        for (line, time, severity, source, process, message) in [
            (
                "<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
                "2003-10-11T22:14:15.0000000Z",
                2,
                "su",
                None,
                "'su root' failed",
            ),
            (
                "Feb  1 02:03:04 host sshd[42]: Accepted: yes",
                "2003-02-01T02:03:04.0000000Z",
                5,
                "sshd",
                Some(42),
                "Accepted: yes",
            ),
            (
                "<165>1 2003-10-11T22:14:15.003Z host app 77 ID47 [a b=\"]\\\"\"][c] text",
                "2003-10-11T22:14:15.0030000Z",
                5,
                "app",
                Some(77),
                "text",
            ),
            (
                "2026-11-22T12:00:00.123456+01:00 host kernel: hello",
                "2026-11-22T11:00:00.1234560Z",
                5,
                "kernel",
                None,
                "hello",
            ),
        ] {
            let entry = parse(line, 2003).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(entry.time.to_string(), time, "{line}");
            assert_eq!((entry.severity, entry.source.as_str()), (severity, source), "{line}");
            assert_eq!((entry.process, entry.message.as_str()), (process, message), "{line}");
        }
    }

    #[test]
    fn malicious_lines_are_no_entries() {
        for line in [
            "",
            "<",
            "<999>x",
            "<34>1 - - - - - -",
            "<34>1 2003-10-11T22:14:15Z h a p i [x",
            "Foo  1 02:03:04 host sshd: x",
            "Feb 99 02:03:04 host sshd: x",
            "Feb  1 02:03:04 host",
            "2026-11-22T12:00:00+99 host kernel: x",
            "2026-99-22T12:00:00Z host kernel: x",
            "\u{1F600}\u{1F600}",
        ] {
            assert_eq!(parse(line, 2026), None, "{line}");
        }
    }
}
