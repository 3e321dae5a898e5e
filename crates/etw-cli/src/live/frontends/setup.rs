//! A session's properties, as Windows' commands divide them.

use super::super::options::absolute;
use super::kernel::{KERNEL_LOGGER, is_kernel_logger};
use crate::frontends::answer::usage;
use crate::output::Failure;
use etw_host::{ConfigError, ConfigOption, FileMode, LogMode, SessionClock, SessionConfig};
use std::path::PathBuf;

/// The settings of the session that a command starts.
#[derive(Debug, Default)]
pub struct Setup {
    /// Flags and flush timer; [`Setup::finish`] sets the other options.
    pub config: SessionConfig,
    pub file: Option<PathBuf>,
    /// The session has no file and keeps its events in memory.
    pub buffering: bool,
    /// The log mode, and the option that set it.
    mode: Option<(FileMode, &'static str)>,
    pub clock: Option<SessionClock>,
    pub max_size: Option<u64>,
    pub buffer_kb: Option<u64>,
    pub min_buffers: Option<u32>,
    pub max_buffers: Option<u32>,
}

/// The default number of buffers in xperf's documentation.
const BUFFERS: u32 = 64;
/// The documented limits of a buffer, in KB.
const BUFFER_KB: std::ops::RangeInclusive<u64> = 4..=16384;

impl Setup {
    /// One way to write the file: another one asked for beside it is a contradiction.
    pub fn set_mode(
        &mut self,
        command: &str,
        mode: FileMode,
        option: &'static str,
    ) -> Result<(), Failure> {
        match self.mode.replace((mode, option)) {
            Some((before, by)) if before != mode => {
                Err(usage(format!("{command}: {by} and {option} exclude each other")))
            }
            _ => Ok(()),
        }
    }

    /// The session that the options describe. `default`: the file of a session that has neither file, consumers nor memory alone.
    pub fn finish(
        mut self,
        command: &str,
        name: String,
        default: impl FnOnce() -> PathBuf,
    ) -> Result<SessionConfig, Failure> {
        let wrong = |what: &str| Err(usage(format!("{command}: {what}")));
        let broken = |error: ConfigError| {
            let option = option_of(error.option()).map(|option| format!("{option}: "));
            let hint = match error {
                ConfigError::Exclusive { other: ConfigOption::Buffering, .. } => {
                    "; -flush NAME -f FILE writes what a session in memory holds"
                }
                ConfigError::Needs { needs: ConfigOption::File, .. } => "; -f or -o names it",
                ConfigError::SystemClock { appends: false } => match command {
                    "xperf" => "; use -ClockType PerfCounter",
                    "tracelog" => "; use -UsePerfCounter",
                    _ => "; use -ct perf",
                },
                _ => "",
            };
            usage(format!("{command}: {}{error}{hint}", option.unwrap_or_default()))
        };
        if self.file.is_none() && !self.buffering && !self.config.real_time {
            self.file = Some(default());
        }
        let mode = self.mode.map(|(mode, _)| mode);
        if is_kernel_logger(&name) && self.config.system.is_none() {
            return wrong(&format!("{KERNEL_LOGGER} records events of the kernel; name some"));
        }
        if is_kernel_logger(&name) && mode == Some(FileMode::NewFile) {
            return wrong(&format!(
                "{KERNEL_LOGGER} cannot write a series of files; use a circular file, or another name for the session"
            ));
        }
        let mode = LogMode::of_options(self.buffering, mode, self.max_size).map_err(broken)?;
        let size = self.buffer_kb.unwrap_or(64);
        if !BUFFER_KB.contains(&size) {
            return wrong(&format!("buffers of {size} KB: they have 4 to 16384 KB"));
        }
        let buffer_count = match (self.min_buffers, self.max_buffers) {
            (Some(min), Some(max)) if min > max => {
                return wrong(&format!("at least {min} and at most {max} buffers is not possible"));
            }
            // They are all there from the start.
            (_, Some(max)) => max,
            (min, None) => min.unwrap_or(0).max(BUFFERS),
        };
        let config = SessionConfig {
            name,
            file: self.file.as_deref().map(absolute).transpose()?,
            mode,
            clock: self.clock.unwrap_or(SessionClock::default_of(mode)),
            buffer_size: (size << 10) as u32,
            buffer_count,
            ..self.config
        };
        config.validate().map_err(broken)?;
        Ok(config)
    }
}

/// An option's spelling, where tracelog and xperf share it.
fn option_of(option: ConfigOption) -> Option<&'static str> {
    match option {
        ConfigOption::Preallocate => Some("-prealloc"),
        ConfigOption::RealTime => Some("-rt"),
        ConfigOption::Buffering => Some("-buffering"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(setup: Setup) -> Result<SessionConfig, Failure> {
        setup.finish("x", "s".to_owned(), || "default.etl".into())
    }

    /// OV-24: minimum and maximum of Windows' sessions, whose buffers come one by one, as ours have them.
    #[test]
    fn the_larger_number_of_buffers_counts() {
        for (min, max, there) in [
            (None, None, 64),
            (Some(16), None, 64),
            (Some(256), None, 256),
            (None, Some(30), 30),
            (Some(10), Some(30), 30),
        ] {
            let setup = Setup { min_buffers: min, max_buffers: max, ..Setup::default() };
            assert_eq!(start(setup).unwrap().buffer_count, there, "{min:?} {max:?}");
        }
        for (kb, min, max) in [
            (64, Some(3), Some(2)),
            (64, None, Some(1)),
            (0, None, None),
            (3, None, None),
            (16385, None, None),
            (16384, Some(129), None),
        ] {
            let setup = Setup {
                buffer_kb: Some(kb),
                min_buffers: min,
                max_buffers: max,
                ..Setup::default()
            };
            assert!(matches!(start(setup), Err(Failure::Usage(_))), "{kb} {min:?} {max:?}");
        }
    }

    /// OV-24: options that exclude each other are rejected before a host is asked.
    #[test]
    fn options_that_exclude_each_other_are_rejected() {
        let of = |real_time, buffering| Setup {
            config: SessionConfig { real_time, ..SessionConfig::default() },
            buffering,
            ..Setup::default()
        };
        let file = start(Setup::default()).unwrap().file.unwrap();
        assert!(file.is_absolute() && file.ends_with("default.etl"));
        assert_eq!(start(of(true, false)).unwrap().file, None);
        assert_eq!(start(of(false, true)).unwrap().file, None);
        let named = |name: &str, mode, max_size, setup| {
            let mut setup = Setup { file: Some(name.into()), max_size, ..setup };
            setup.set_mode("x", mode, "-m").unwrap();
            setup
        };
        let plain = Setup::default;
        let mb = Some(1 << 20);
        assert!(start(named("a%d.etl", FileMode::NewFile, mb, plain())).is_ok());
        // The one clock that goes with it.
        assert_eq!(
            start(named("a.etl", FileMode::Append, None, plain())).unwrap().clock,
            SessionClock::System
        );
        for (what, setup) in [
            ("no %d", named("a.etl", FileMode::NewFile, mb, plain())),
            ("two %d", named("a%d%d.etl", FileMode::NewFile, mb, plain())),
            ("no size", named("a.etl", FileMode::Circular, None, plain())),
            ("size 0", named("a.etl", FileMode::Circular, Some(0), plain())),
            ("small", named("a.etl", FileMode::Circular, Some(100 << 10), plain())),
            ("append", named("a.etl", FileMode::Append, mb, plain())),
            ("append", named("a.etl", FileMode::Append, None, of(true, false))),
            ("clock", {
                let append = named("a.etl", FileMode::Append, None, plain());
                Setup { clock: Some(SessionClock::Qpc), ..append }
            }),
            ("memory", named("a.etl", FileMode::Sequential, None, of(false, true))),
            ("both", of(true, true)),
            ("no file", Setup { max_size: mb, ..of(true, false) }),
            ("prealloc", {
                let config = SessionConfig { preallocate: true, ..SessionConfig::default() };
                Setup { config, ..plain() }
            }),
        ] {
            assert!(matches!(start(setup), Err(Failure::Usage(_))), "{what}");
        }
        let mut setup = named("a.etl", FileMode::Circular, mb, plain());
        assert!(setup.set_mode("x", FileMode::Circular, "-c").is_ok());
        assert!(setup.set_mode("x", FileMode::Append, "-a").is_err());
    }
}
