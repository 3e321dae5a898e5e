//! A session's properties, as Windows' commands divide them.

use super::super::options::absolute;
use crate::frontends::usage;
use crate::output::Failure;
use etw_wire::control::{FileMode, Start};
use std::path::PathBuf;

/// What a command says of the session that it starts.
#[derive(Debug, Default)]
pub struct Setup {
    /// Flags and timer are as they are asked for; the rest follows from what is beside.
    pub start: Start,
    pub file: Option<PathBuf>,
    /// How the file is written, by the option of this name.
    mode: Option<(FileMode, &'static str)>,
    /// 1 the performance counter, 2 system time, 3 cycles.
    pub clock: Option<u32>,
    pub max_size: Option<u64>,
    pub buffer_kb: Option<u64>,
    pub min_buffers: Option<u32>,
    pub max_buffers: Option<u32>,
}

/// Buffers when nothing else is asked for, as xperf's documentation has it.
const BUFFERS: u32 = 64;
/// The documented limits of a buffer, in KB.
const BUFFER_KB: std::ops::RangeInclusive<u64> = 4..=16384;
/// What one session may have of memory.
const MEMORY_KB: u64 = 2 << 20;

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

    /// The request, once everything fits. `default`: the file of a session that has neither file, consumers nor memory alone.
    pub fn finish(
        mut self,
        command: &str,
        name: String,
        default: impl FnOnce() -> PathBuf,
    ) -> Result<Start, Failure> {
        let wrong = |what: &str| Err(usage(format!("{command}: {what}")));
        let (mode, _) = self.mode.unwrap_or_default();
        let has_size = self.max_size.is_some();
        if self.max_size == Some(0) {
            return wrong("a file's maximum size is not 0");
        }
        let start = &mut self.start;
        if start.buffering && (self.file.is_some() || start.real_time) {
            return wrong(
                "a session in memory (-buffering) has neither a file nor consumers; \
                 -flush NAME -f FILE writes what it holds",
            );
        }
        if start.buffering && (self.mode.is_some() || has_size) {
            return wrong("a session in memory (-buffering) has no file that could be limited");
        }
        if self.file.is_none() && !start.buffering && !start.real_time {
            self.file = Some(default());
        }
        if self.file.is_none() && (self.mode.is_some() || has_size) {
            return wrong("there is no file whose mode or size could be set; -f or -o names it");
        }
        match mode {
            FileMode::Circular | FileMode::NewFile if !has_size => {
                return wrong("circular files and series of files need a maximum size");
            }
            FileMode::Append if has_size => {
                return wrong("a file that is appended to has no maximum size");
            }
            FileMode::Append if start.real_time => {
                return wrong("a session that appends to its file has no consumers");
            }
            FileMode::Append if self.clock.is_some_and(|clock| clock != 2) => {
                return wrong("files that are appended to are in system time");
            }
            _ => {}
        }
        let numbers = |file: &PathBuf| file.to_string_lossy().matches("%d").count();
        if mode == FileMode::NewFile && self.file.as_ref().is_none_or(|file| numbers(file) != 1) {
            return wrong("the name of a series of files has one %d in it, as in trace%d.etl");
        }
        if start.preallocate {
            if mode == FileMode::NewFile || !has_size {
                return wrong("-prealloc goes with the maximum size of one file: -seq or -cir");
            }
            if start.real_time {
                return wrong("-prealloc does not go with -rt");
            }
        }
        let size = self.buffer_kb.unwrap_or(64);
        if !BUFFER_KB.contains(&size) {
            return wrong(&format!("buffers of {size} KB: they have 4 to 16384 KB"));
        }
        let buffers = match (self.min_buffers, self.max_buffers) {
            (Some(min), Some(max)) if min > max => {
                return wrong(&format!("at least {min} and at most {max} buffers is not possible"));
            }
            // They are all there from the start.
            (_, Some(max)) => max,
            (min, None) => min.unwrap_or(0).max(BUFFERS),
        };
        if buffers < 2 || u64::from(buffers) * size > MEMORY_KB {
            return wrong(&format!(
                "{buffers} buffers of {size} KB: a session has at least 2, and at most 2 GB of them"
            ));
        }
        if self.max_size.is_some_and(|max| max < 3 * (size << 10)) {
            return wrong("a file's maximum size holds at least three buffers");
        }
        Ok(Start {
            name,
            file: self.file.as_deref().map(absolute).transpose()?,
            mode,
            clock: self.clock.unwrap_or(if mode == FileMode::Append { 2 } else { 1 }),
            max_size: self.max_size,
            buffer_size: (size << 10) as u32,
            buffers,
            ..self.start
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(setup: Setup) -> Result<Start, Failure> {
        setup.finish("x", "s".to_owned(), || "default.etl".into())
    }

    /// OV-24: minimum and maximum of Windows' sessions, whose buffers come one by one, as ours have them.
    #[test]
    fn buffers() {
        for (min, max, there) in [
            (None, None, 64),
            (Some(16), None, 64),
            (Some(256), None, 256),
            (None, Some(30), 30),
            (Some(10), Some(30), 30),
        ] {
            let setup = Setup { min_buffers: min, max_buffers: max, ..Setup::default() };
            assert_eq!(start(setup).unwrap().buffers, there, "{min:?} {max:?}");
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

    /// OV-24: what does not go together is told before a host is asked.
    #[test]
    fn files() {
        let start_of = |real_time, buffering| Start { real_time, buffering, ..Start::default() };
        let file = start(Setup::default()).unwrap().file.unwrap();
        assert!(file.is_absolute() && file.ends_with("default.etl"));
        let of = |start| Setup { start, ..Setup::default() };
        assert_eq!(start(of(start_of(true, false))).unwrap().file, None);
        assert_eq!(start(of(start_of(false, true))).unwrap().file, None);
        let named = |name: &str, mode, max_size, start| {
            let mut setup = Setup { file: Some(name.into()), max_size, start, ..Setup::default() };
            setup.set_mode("x", mode, "-m").unwrap();
            setup
        };
        let plain = Start::default;
        let mb = Some(1 << 20);
        assert!(start(named("a%d.etl", FileMode::NewFile, mb, plain())).is_ok());
        // The one clock that goes with it.
        assert_eq!(start(named("a.etl", FileMode::Append, None, plain())).unwrap().clock, 2);
        for (what, setup) in [
            ("no %d", named("a.etl", FileMode::NewFile, mb, plain())),
            ("two %d", named("a%d%d.etl", FileMode::NewFile, mb, plain())),
            ("no size", named("a.etl", FileMode::Circular, None, plain())),
            ("size 0", named("a.etl", FileMode::Circular, Some(0), plain())),
            ("small", named("a.etl", FileMode::Circular, Some(100 << 10), plain())),
            ("append", named("a.etl", FileMode::Append, mb, plain())),
            ("append", named("a.etl", FileMode::Append, None, start_of(true, false))),
            ("clock", {
                let append = named("a.etl", FileMode::Append, None, plain());
                Setup { clock: Some(1), ..append }
            }),
            ("memory", named("a.etl", FileMode::Sequential, None, start_of(false, true))),
            ("both", of(start_of(true, true))),
            ("no file", Setup { max_size: mb, ..of(start_of(true, false)) }),
            ("prealloc", of(Start { preallocate: true, ..plain() })),
        ] {
            assert!(matches!(start(setup), Err(Failure::Usage(_))), "{what}");
        }
        let mut setup = named("a.etl", FileMode::Circular, mb, plain());
        assert!(setup.set_mode("x", FileMode::Circular, "-c").is_ok());
        assert!(setup.set_mode("x", FileMode::Append, "-a").is_err());
    }
}
