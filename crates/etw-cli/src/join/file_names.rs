//! Names of files by object or key, and time: a file may change its name, and a key may be used again.

use super::images::Moment;
use std::collections::HashMap;

/// Names of a trace's files; only a hostile one has more.
const LIMIT: usize = 1 << 20;

/// Names of all files.
#[derive(Debug, Default)]
pub struct FileNames {
    /// By object or key, in the order of their events.
    all: HashMap<u64, Vec<(Moment, String)>, foldhash::fast::RandomState>,
    count: usize,
}

impl FileNames {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Notes a name that an event tells.
    pub fn add(&mut self, file: u64, moment: Moment, name: &str) {
        let names = self.all.entry(file).or_default();
        let last = names.iter().rfind(|(of, _)| of.file_index == moment.file_index);
        if self.count < LIMIT && last.is_none_or(|(_, last)| last != name) {
            self.count += 1;
            names.push((moment, name.to_owned()));
        }
    }

    /// The name that a file has at a moment: the last one before it, else the first one behind it, of the moment's trace or of another one.
    pub fn at(&self, file: u64, moment: Moment) -> Option<&str> {
        let names = self.all.get(&file)?;
        let is_own = |of: &Moment| of.file_index == moment.file_index;
        let before = names.iter().rfind(|(of, _)| is_own(of) && of.time <= moment.time);
        let found = before.or_else(|| names.iter().find(|(of, _)| is_own(of)));
        found.or_else(|| names.last()).map(|(_, name)| &name[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_its_time() {
        let mut names = FileNames::default();
        let at = |file_index, time| Moment { file_index, time };
        assert!(names.is_empty());
        names.add(7, at(0, 100), "old");
        names.add(7, at(0, 150), "old");
        names.add(7, at(0, 200), "new");
        names.add(8, at(0, 900), "found at the end");
        for (time, name) in [(0, "old"), (100, "old"), (199, "old"), (200, "new"), (999, "new")] {
            assert_eq!(names.at(7, at(0, time)), Some(name), "{time}");
        }
        assert_eq!(names.at(8, at(0, 1)), Some("found at the end"));
        assert_eq!(names.at(9, at(0, 1)), None);
        // The next file of a series has the names of the one before, until it has its own.
        assert_eq!(names.at(7, at(1, 50)), Some("new"));
        names.add(7, at(1, 60), "newest");
        assert_eq!(names.at(7, at(1, 50)), Some("newest"));
        assert_eq!(names.at(7, at(0, 120)), Some("old"));
    }
}
