//! Points in time on the command line.

use etw_types::{FileTime, SystemTime};
use jiff::fmt::temporal::Pieces;
use std::str::FromStr;

/// An RFC 3339 time, or a distance from the start of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// A wall-clock time.
    At(FileTime),
    /// 100 ns units after the start.
    After(i64),
}

impl When {
    /// The time, for a trace that starts at `start`.
    pub fn resolve(self, start: FileTime) -> FileTime {
        match self {
            When::At(time) => time,
            When::After(ticks) => FileTime(start.0.saturating_add(ticks)),
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        if let Some(distance) = text.strip_prefix('+') {
            return parse_distance(distance).ok_or_else(|| {
                format!(
                    "{text:?} is not a distance: give a number and ns, us, ms, s, m or h, as +1.5s"
                )
            });
        }
        let time: jiff::Timestamp = match text.parse() {
            Ok(time) => time,
            Err(_) => {
                let no_time = || {
                    format!(
                        "{text:?} is neither RFC 3339 (2026-01-02T03:04:05.5Z) nor a distance (+1.5s)"
                    )
                };
                return at_the_edge(text).map(When::At).ok_or_else(no_time);
            }
        };
        let ticks = time.as_nanosecond().div_euclid(100) + i128::from(FileTime::UNIX_EPOCH.0);
        i64::try_from(ticks)
            .map(|ticks| When::At(FileTime(ticks)))
            .map_err(|_| format!("{text:?} is out of range"))
    }
}

/// A time that timestamps of `jiff` do not reach, as they leave room for time zones: the last day of the year 9999, until which times are
/// shown.
fn at_the_edge(text: &str) -> Option<FileTime> {
    let pieces = Pieces::parse(text).ok()?;
    let (date, time, offset) = (pieces.date(), pieces.time()?, pieces.to_numeric_offset()?);
    let part = |number: i8| u16::try_from(number).ok();
    let second = FileTime::from_system_time(&SystemTime {
        year: u16::try_from(date.year()).ok()?,
        month: part(date.month())?,
        day: part(date.day())?,
        hour: part(time.hour())?,
        minute: part(time.minute())?,
        second: part(time.second())?,
        ..SystemTime::default()
    })?;
    let ticks = i64::from(time.subsec_nanosecond() / 100);
    let time = FileTime(second.0 + ticks - i64::from(offset.seconds()) * 10_000_000);
    (time <= FileTime::MAX_SHOWN).then_some(time)
}

fn parse_distance(text: &str) -> Option<When> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let nanoseconds: u128 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" | "" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    // In whole numbers: seconds of ten years with seven decimals are more than a double has.
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number: u128 = digits.parse().ok().filter(|_| is_number && fraction.len() <= 18)?;
    let in_hundreds = 100 * 10u128.pow(fraction.len() as u32);
    let ticks = (number.checked_mul(nanoseconds)?.checked_add(in_hundreds / 2)?) / in_hundreds;
    Some(When::After(i64::try_from(ticks).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_distances() {
        let unix = FileTime::UNIX_EPOCH.0;
        assert_eq!("1970-01-01T00:00:01.5Z".parse(), Ok(When::At(FileTime(unix + 15_000_000))));
        assert_eq!("1970-01-01T01:00:00+01:00".parse(), Ok(When::At(FileTime(unix))));
        for (text, ticks) in [
            ("9999-12-31T23:59:59.9999999Z", 0),
            ("9999-12-31T23:59:59.9999998Z", 1),
            ("9999-12-31T22:59:59.9999999-01:00", 0),
            ("9999-12-31T00:00:00Z", 24 * 36_000_000_000 - 1),
        ] {
            assert_eq!(
                text.parse(),
                Ok(When::At(FileTime(FileTime::MAX_SHOWN.0 - ticks))),
                "{text}"
            );
        }
        assert_eq!("+1.5s".parse(), Ok(When::After(15_000_000)));
        assert_eq!("+250ms".parse(), Ok(When::After(2_500_000)));
        assert_eq!("+2".parse(), Ok(When::After(20_000_000)));
        assert_eq!("+374413805.4112334s".parse(), Ok(When::After(3_744_138_054_112_334)));
        assert_eq!("+.00000015m".parse(), Ok(When::After(90)));
        assert_eq!("+149ns".parse(), Ok(When::After(1)));
        assert_eq!("+99999999999999999999h".parse(), Ok(When::After(i64::MAX)));
        for bad in [
            "",
            "yesterday",
            "+",
            "+1.5x",
            "+-1s",
            "+infs",
            "2026-13-01T00:00:00Z",
            "9999-12-31T23:59:59.9999999",
            "9999-12-31T23:59:59.9999999-01:00",
            "9999-12-32T00:00:00Z",
        ] {
            assert!(bad.parse::<When>().is_err(), "{bad}");
        }
    }
}
