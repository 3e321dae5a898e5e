//! How times are shown: UTC, local, or since the start.

use clap::Args;
use etw_types::FileTime;
use jiff::tz::TimeZone;
use std::io::Write;

/// `--utc`, `--local`, `--relative`
#[derive(Args, Clone, Copy, Debug, Default)]
#[group(id = "times", multiple = false)]
pub struct TimesOption {
    /// Show times as UTC, which is the default
    #[arg(long)]
    utc: bool,
    /// Show times of this machine's time zone
    #[arg(long)]
    local: bool,
    /// Show seconds since the start of the trace
    #[arg(long)]
    relative: bool,
}

/// The form of shown times.
#[derive(Clone, Debug, Default)]
pub enum Times {
    #[default]
    Utc,
    Local(TimeZone),
    /// Since this time.
    Relative(FileTime),
}

impl TimesOption {
    /// Whether the user requested another form than UTC.
    pub fn is_other(self) -> bool {
        self.local || self.relative
    }

    /// `start`: of the trace.
    pub fn times(self, start: FileTime) -> Times {
        match (self.local, self.relative) {
            (true, _) => Times::Local(TimeZone::system()),
            (_, true) => Times::Relative(start),
            _ => Times::Utc,
        }
    }
}

impl Times {
    /// Appends a time; `None` outside the years 1–9999.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>, time: FileTime) -> Option<()> {
        match self {
            Times::Utc => return time.put_ascii(out).then_some(()),
            Times::Local(zone) => put_local(out, zone, time)?,
            Times::Relative(start) => {
                let ticks = i128::from(time.0) - i128::from(start.0);
                let sign = if ticks < 0 { '-' } else { '+' };
                let ticks = ticks.unsigned_abs();
                // Writing to a Vec cannot fail.
                let _ = write!(out, "{sign}{}.{:07}", ticks / 10_000_000, ticks % 10_000_000);
            }
        }
        Some(())
    }
}

/// `2026-01-02T03:04:05.0000010+01:00`
fn put_local(out: &mut Vec<u8>, zone: &TimeZone, time: FileTime) -> Option<()> {
    let ticks = i128::from(time.0) - i128::from(FileTime::UNIX_EPOCH.0);
    let time = jiff::Timestamp::from_nanosecond(ticks * 100).ok()?;
    let offset = zone.to_offset(time);
    let local = offset.to_datetime(time);
    let seconds = offset.seconds();
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
    let _ = write!(
        out,
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:07}{sign}{:02}:{:02}",
        local.year(),
        local.month(),
        local.day(),
        local.hour(),
        local.minute(),
        local.second(),
        local.subsec_nanosecond() / 100,
        minutes / 60,
        minutes % 60
    );
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_forms() {
        let time = FileTime(FileTime::UNIX_EPOCH.0 + 15_000_000);
        let text = |times: &Times| {
            let mut out = Vec::new();
            times.put(&mut out, time).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&Times::Utc), "1970-01-01T00:00:01.5000000Z");
        let zone = TimeZone::fixed(
            jiff::tz::offset(-3).saturating_add(jiff::SignedDuration::from_mins(30)),
        );
        assert_eq!(text(&Times::Local(zone)), "1969-12-31T21:30:01.5000000-02:30");
        assert_eq!(text(&Times::Relative(FileTime::UNIX_EPOCH)), "+1.5000000");
        assert_eq!(text(&Times::Relative(FileTime(time.0 + 1))), "-0.0000001");
    }
}
