//! Clocks, and wall-clock times as `FileTime`.

use crate::decimal::eight_digits;
use std::cell::Cell;
use std::fmt;

/// 100 ns units since 1601-01-01 UTC.
#[doc(alias = "FILETIME")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FileTime(pub i64);

/// Days from 0001-01-01 to 1601-01-01 in the proleptic Gregorian calendar.
const DAYS_TO_1601: i64 = 584_388;
const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;

impl FileTime {
    /// 0001-01-01T00:00:00, the first time that can be shown.
    pub const MIN_SHOWN: FileTime = FileTime(-DAYS_TO_1601 * TICKS_PER_DAY);
    /// 9999-12-31T23:59:59.9999999, the last time that can be shown.
    pub const MAX_SHOWN: FileTime = FileTime((3_652_059 - DAYS_TO_1601) * TICKS_PER_DAY - 1);
    /// 1970-01-01T00:00:00.
    pub const UNIX_EPOCH: FileTime = FileTime(116_444_736_000_000_000);

    /// The 28 characters `YYYY-MM-DDTHH:MM:SS.fffffffZ`; `None` outside the years 1–9999.
    pub fn to_ascii(self) -> Option<[u8; 28]> {
        let (until_second, rest) = self.ascii_parts()?;
        let mut text = [0; 28];
        text[..20].copy_from_slice(&until_second);
        text[20..].copy_from_slice(&rest);
        Some(text)
    }

    /// Appends the characters of [`to_ascii`](FileTime::to_ascii); `false` if there are none.
    // The parts are not joined before they are copied: a processor waits where it loads what several stores have just written.
    #[inline]
    pub fn put_ascii(self, out: &mut Vec<u8>) -> bool {
        let Some((until_second, rest)) = self.ascii_parts() else { return false };
        out.reserve(28);
        out.extend_from_slice(&until_second);
        out.extend_from_slice(&rest);
        true
    }

    /// Up to the point behind the second, and from there on.
    #[inline]
    fn ascii_parts(self) -> Option<([u8; 20], [u8; 8])> {
        if self < FileTime::MIN_SHOWN || self > FileTime::MAX_SHOWN {
            return None;
        }
        let second = self.0.div_euclid(TICKS_PER_SECOND);
        let tick = (self.0 - second * TICKS_PER_SECOND) as u32;
        // The first of the eight digits is a zero.
        let digits = (eight_digits(tick) >> 8) + u64::from_le_bytes(*b"0000000Z");
        Some((until_second(second), digits.to_le_bytes()))
    }

    /// From a calendar time; `None` unless every part is in its range.
    pub fn from_system_time(time: &SystemTime) -> Option<FileTime> {
        let (year, month, day) = (time.year, time.month, time.day);
        if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || day == 0 {
            return None;
        }
        let days = days_from_civil(i64::from(year), i64::from(month), i64::from(day));
        if civil_from_days(days) != (u32::from(year), u32::from(month), u32::from(day)) {
            return None;
        }
        if time.hour > 23 || time.minute > 59 || time.second > 59 || time.milliseconds > 999 {
            return None;
        }
        let seconds =
            i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second);
        Some(FileTime(
            days * TICKS_PER_DAY
                + seconds * TICKS_PER_SECOND
                + i64::from(time.milliseconds) * 10_000,
        ))
    }
}

thread_local! {
    /// The second that was shown last, and its twenty characters up to the point behind it.
    static LAST: Cell<(i64, [u8; 20])> = const { Cell::new((0, *b"1601-01-01T00:00:00.")) };
}

/// The twenty characters up to the point behind the second. Times that are shown one after another are mostly of one second, so the
/// last one is kept.
#[inline]
fn until_second(second: i64) -> [u8; 20] {
    if LAST.get().0 != second {
        set_last(second);
    }
    LAST.get().1
}

/// Keeps another second.
// Apart from the function that loads it: inlined, its single characters are what is loaded and stored.
#[cold]
#[inline(never)]
fn set_last(second: i64) {
    let days = second.div_euclid(86_400);
    let of_day = (second - days * 86_400) as u32;
    let (year, month, day) = civil_from_days(days);
    let mut text = *b"0000-00-00T00:00:00.";
    put(&mut text[0..4], year);
    put(&mut text[5..7], month);
    put(&mut text[8..10], day);
    put(&mut text[11..13], of_day / 3600);
    put(&mut text[14..16], of_day / 60 % 60);
    put(&mut text[17..19], of_day % 60);
    LAST.set((second, text));
}

/// Writes `value` as decimal, right-aligned over zeros.
fn put(text: &mut [u8], mut value: u32) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Days since 1601-01-01 to a proleptic Gregorian date. Years begin in March inside, so that the leap day is last.
fn civil_from_days(days: i64) -> (u32, u32, u32) {
    let days = days + DAYS_TO_1601 + 306;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as u32, month as u32, day as u32)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 306 - DAYS_TO_1601
}

impl fmt::Display for FileTime {
    /// RFC 3339 with seven decimals; a time that has no such form is shown as its number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_ascii() {
            Some(text) => f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A calendar time in sixteen bytes: eight `u16`.
///
/// ```text
/// 0 year   2 month   4 day of week   6 day   8 hour   A minute   C second   E milliseconds
/// ```
#[doc(alias = "SYSTEMTIME")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct SystemTime {
    pub year: u16,
    pub month: u16,
    pub day_of_week: u16,
    pub day: u16,
    pub hour: u16,
    pub minute: u16,
    pub second: u16,
    pub milliseconds: u16,
}

impl SystemTime {
    /// Reads the sixteen bytes at `offset`; the parts are not checked.
    pub fn read(bytes: &[u8], offset: usize) -> Option<SystemTime> {
        let part = |index: usize| crate::le::u16(bytes, offset.checked_add(index * 2)?);
        Some(SystemTime {
            year: part(0)?,
            month: part(1)?,
            day_of_week: part(2)?,
            day: part(3)?,
            hour: part(4)?,
            minute: part(5)?,
            second: part(6)?,
            milliseconds: part(7)?,
        })
    }
}

/// The clock of a session's raw timestamps (`ReservedFlags` of the logfile header).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockType(pub u32);

impl ClockType {
    /// 0: system time, as headers before Vista wrote it.
    pub const SYSTEM_OLD: ClockType = ClockType(0);
    /// 1: the performance counter, `PerfFreq` ticks a second.
    pub const QPC: ClockType = ClockType(1);
    /// 2: system time, the raw value is a FILETIME.
    pub const SYSTEM: ClockType = ClockType(2);
    /// 3: CPU cycles, `CpuSpeedInMHz` million a second.
    pub const TSC: ClockType = ClockType(3);

    /// `qpc`, `system` or `tsc`.
    pub fn name(self) -> Option<&'static str> {
        match self.0 {
            0 | 2 => Some("system"),
            1 => Some("qpc"),
            3 => Some("tsc"),
            _ => None,
        }
    }
}

/// The clock of one file: converts its raw timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The counter.
    pub kind: ClockType,
    /// Wall-clock time of `raw_start`.
    pub start: FileTime,
    /// Raw timestamp of the logfile header record.
    pub raw_start: i64,
    /// Ticks a second of a counter; 0 is unusable.
    pub frequency: u64,
}

impl Clock {
    /// A clock that converts nothing.
    pub const UNUSABLE: Clock =
        Clock { kind: ClockType::QPC, start: FileTime(0), raw_start: 0, frequency: 0 };

    /// `start + floor((raw − raw_start) · 10⁷ / frequency)` in 128 bits; `None` without a usable clock or out of range.
    #[inline]
    pub fn filetime(&self, raw: i64) -> Option<FileTime> {
        match self.kind {
            ClockType::SYSTEM | ClockType::SYSTEM_OLD => Some(FileTime(raw)),
            ClockType::QPC | ClockType::TSC if self.frequency != 0 => {
                if let (10_000_000, Some(elapsed)) =
                    (self.frequency, raw.checked_sub(self.raw_start))
                {
                    return self.start.0.checked_add(elapsed).map(FileTime);
                }
                self.scaled(raw)
            }
            _ => None,
        }
    }

    /// The first raw time that [`filetime`](Clock::filetime) turns into `time`, or into the next later one where the
    /// counter is coarser; `None` without a usable clock or out of range.
    pub fn raw(&self, time: FileTime) -> Option<i64> {
        match self.kind {
            ClockType::SYSTEM | ClockType::SYSTEM_OLD => Some(time.0),
            ClockType::QPC | ClockType::TSC if self.frequency != 0 => {
                let elapsed = i128::from(time.0) - i128::from(self.start.0);
                let scaled = elapsed.checked_mul(i128::from(self.frequency))?;
                // Rounded up, which is the negative of the negative rounded down.
                let ticks = -(-scaled).div_euclid(i128::from(TICKS_PER_SECOND));
                i64::try_from(i128::from(self.raw_start).checked_add(ticks)?).ok()
            }
            _ => None,
        }
    }

    fn scaled(&self, raw: i64) -> Option<FileTime> {
        // The usual trace fits in 64 bits, where division is several times cheaper.
        let narrow = raw
            .checked_sub(self.raw_start)
            .and_then(|elapsed| elapsed.checked_mul(TICKS_PER_SECOND))
            .zip(i64::try_from(self.frequency).ok())
            .map(|(ticks, frequency)| i128::from(ticks.div_euclid(frequency)));
        let elapsed = narrow.unwrap_or_else(|| {
            ((i128::from(raw) - i128::from(self.raw_start)) * i128::from(TICKS_PER_SECOND))
                .div_euclid(i128::from(self.frequency))
        });
        i64::try_from(i128::from(self.start.0) + elapsed).ok().map(FileTime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        for (ticks, text) in [
            (0, "1601-01-01T00:00:00.0000000Z"),
            (FileTime::UNIX_EPOCH.0, "1970-01-01T00:00:00.0000000Z"),
            // Unix time 951 782 400, a leap day in a year divisible by 400.
            (125_962_560_000_000_000, "2000-02-29T00:00:00.0000000Z"),
            (FileTime::MIN_SHOWN.0, "0001-01-01T00:00:00.0000000Z"),
            (FileTime::MAX_SHOWN.0, "9999-12-31T23:59:59.9999999Z"),
            (-1, "1600-12-31T23:59:59.9999999Z"),
        ] {
            assert_eq!(FileTime(ticks).to_string(), text);
        }
        assert_eq!(FileTime(FileTime::MAX_SHOWN.0 + 1).to_ascii(), None);
        assert_eq!(FileTime(i64::MIN).to_string(), i64::MIN.to_string());
    }

    #[test]
    fn calendar_round_trip() {
        let mut ticks = FileTime::MIN_SHOWN.0;
        while ticks <= FileTime::MAX_SHOWN.0 {
            let text = FileTime(ticks).to_string();
            let part = |range: std::ops::Range<usize>| text[range].parse::<u16>().unwrap();
            let time = SystemTime {
                year: part(0..4),
                month: part(5..7),
                day_of_week: 0,
                day: part(8..10),
                hour: part(11..13),
                minute: part(14..16),
                second: part(17..19),
                milliseconds: part(20..23),
            };
            let back = FileTime::from_system_time(&time).unwrap();
            assert_eq!(back.0, ticks - ticks.rem_euclid(10_000), "{text}");
            ticks += 777 * TICKS_PER_DAY + 12_345_678_901;
        }
        let bad = SystemTime { year: 2023, month: 2, day: 29, ..SystemTime::default() };
        assert_eq!(FileTime::from_system_time(&bad), None);
    }

    #[test]
    fn clocks_floor_on_both_sides_of_the_start() {
        let clock = Clock {
            kind: ClockType::QPC,
            start: FileTime(1_000),
            raw_start: 500,
            frequency: 30_000_000,
        };
        assert_eq!(clock.filetime(500), Some(FileTime(1_000)));
        assert_eq!(clock.filetime(502), Some(FileTime(1_000)));
        assert_eq!(clock.filetime(503), Some(FileTime(1_001)));
        assert_eq!(clock.filetime(499), Some(FileTime(999)));
        // Both multiply past 64 bits and come back.
        let far = 3_000_000_000_000_000_000;
        assert_eq!(clock.filetime(far + 500), Some(FileTime(1_000 + far / 3)));
        let ten = Clock { frequency: 10_000_000, ..clock };
        assert_eq!(ten.filetime(7), Some(FileTime(507)));
        assert_eq!(ten.filetime(i64::MIN), Some(FileTime(i64::MIN + 500)));
        assert_eq!(Clock { raw_start: 5_000, ..ten }.filetime(i64::MIN), None);
        assert_eq!(Clock::UNUSABLE.filetime(7), None);
        let system = Clock { kind: ClockType::SYSTEM, ..Clock::UNUSABLE };
        assert_eq!(system.filetime(7), Some(FileTime(7)));
    }

    #[test]
    fn raw_times_are_the_first_of_their_filetime() {
        let kinds = [ClockType::QPC, ClockType::TSC];
        let frequencies = [3_579_545, 10_000_000, 24_000_000, 2_600_000_000, 1];
        for (kind, frequency) in kinds.into_iter().flat_map(|k| frequencies.map(|f| (k, f))) {
            let start = FileTime(130_000_000_000_000_000);
            let clock = Clock { kind, start, raw_start: -7, frequency };
            for time in (-50..50).chain([-12_345_678_901, 12_345_678_901]) {
                let time = FileTime(start.0 + time);
                let raw = clock.raw(time).unwrap();
                let back = clock.filetime(raw).unwrap();
                assert!(back >= time && clock.filetime(raw - 1).unwrap() < time, "{time:?} {raw}");
                assert!(back == time || frequency < 10_000_000);
            }
        }
        let system = Clock { kind: ClockType::SYSTEM, ..Clock::UNUSABLE };
        assert_eq!(system.raw(FileTime(7)), Some(7));
        assert_eq!(Clock::UNUSABLE.raw(FileTime(7)), None);
        let fast = Clock { frequency: u64::MAX, ..Clock::UNUSABLE };
        assert_eq!(fast.raw(FileTime(i64::MAX)), None);
    }
}
