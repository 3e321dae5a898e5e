//! Names of processes by time: a system reuses their ids.

use super::images::Moment;
use std::collections::HashMap;

/// Lives of a trace's processes; only a hostile one has more.
const LIMIT: usize = 1 << 20;

/// The names of all processes.
#[derive(Debug, Default)]
pub struct ProcessNames {
    /// The lives of each id, in the order of their starts.
    lives: HashMap<u32, Vec<Life>, foldhash::fast::RandomState>,
    count: usize,
    /// Records come as a stream without an end: only the last life of an id is kept.
    is_stream: bool,
}

#[derive(Debug)]
struct Life {
    file_index: u32,
    /// The smallest time if the trace began later.
    start: i64,
    name: String,
}

impl ProcessNames {
    /// The names of a stream, whose records are asked about as they come.
    #[cfg(any(target_os = "linux", windows))]
    pub fn of_stream() -> ProcessNames {
        ProcessNames { is_stream: true, ..ProcessNames::default() }
    }

    /// Notes a name; `is_start`: the process starts at that moment. A life has the last one of its names.
    pub fn add(&mut self, process: u32, moment: Moment, name: &str, is_start: bool) {
        let Moment { file_index, time } = moment;
        if self.is_stream && is_start {
            self.count -= self.lives.remove(&process).map_or(0, |lives| lives.len());
        }
        if self.count >= LIMIT {
            return;
        }
        let lives = self.lives.entry(process).or_default();
        let known = lives.iter_mut().rfind(|life| life.file_index == file_index);
        if let Some(known) = known.filter(|_| !is_start) {
            known.name = name.to_owned();
            return;
        }
        self.count += 1;
        let start = if is_start { time } else { i64::MIN };
        lives.push(Life { file_index, start, name: name.to_owned() });
    }

    /// The name at a moment.
    pub fn at(&self, process: u32, moment: Moment) -> Option<&str> {
        self.name(process, self.life_at(process, moment)?)
    }

    /// The number of the life at a moment. If none is known to have begun by then, that of the first one.
    pub fn life_at(&self, process: u32, moment: Moment) -> Option<usize> {
        let lives = self.lives.get(&process)?;
        let is_of_file = |life: &Life| life.file_index == moment.file_index;
        let begun = lives.iter().rposition(|life| is_of_file(life) && life.start <= moment.time);
        begun.or_else(|| lives.iter().position(is_of_file)).or(lives.len().checked_sub(1))
    }

    /// The name of a life.
    pub fn name(&self, process: u32, life: usize) -> Option<&str> {
        Some(&self.lives.get(&process)?.get(life)?.name)
    }

    /// The name of the last life.
    pub fn last(&self, process: u32) -> Option<&str> {
        self.lives.get(&process)?.last().map(|life| &*life.name)
    }
}
