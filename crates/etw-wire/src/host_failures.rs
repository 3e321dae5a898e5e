//! Failures of a host, in a file of its runtime directory: controllers read there what the host cannot answer, or no longer.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::fs::OFlags;

use crate::runtime_directory::Directory;

const FILE: &str = "failures";
/// Bytes of the file that are read or kept. The oldest lines are dropped.
const MAX_SIZE: usize = 8 << 10;

impl Directory {
    /// Why a host does not serve, or which sessions ended with an error: sentences, the oldest first. A host forgets those of hosts before it
    /// when it starts.
    pub fn failures(&self) -> Vec<String> {
        let Ok(file) = self.file(FILE, OFlags::RDONLY | OFlags::NONBLOCK, 0) else {
            return Vec::new();
        };
        let mut bytes = Vec::new();
        // The lines that could be read are shown.
        let _ = File::from(file).take(MAX_SIZE as u64).read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Adds a failure. It is one line: other whitespace becomes spaces.
    ///
    /// # Errors
    /// The system's.
    pub fn add_failure(&self, what: &str) -> io::Result<()> {
        let mut all = self.failures();
        all.push(one_line(what));
        self.put_failures(&all)
    }

    /// Removes a failure that is over.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_failure(&self, what: &str) -> io::Result<()> {
        let what = one_line(what);
        let mut all = self.failures();
        all.retain(|line| *line != what);
        self.put_failures(&all)
    }

    /// Forgets all failures.
    ///
    /// # Errors
    /// The system's.
    pub fn clear_failures(&self) -> io::Result<()> {
        self.remove(FILE)
    }

    fn put_failures(&self, all: &[String]) -> io::Result<()> {
        let mut text = String::new();
        let mut first = all.len();
        let mut size = 0;
        while first > 0 && size + all[first - 1].len() < MAX_SIZE {
            first -= 1;
            size += all[first].len() + 1;
        }
        all[first..].iter().for_each(|line| text.extend([line, "\n"]));
        if text.is_empty() {
            return self.clear_failures();
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK;
        File::from(self.file(FILE, flags, 0o644)?).write_all(text.as_bytes())
    }
}

fn one_line(what: &str) -> String {
    let words: Vec<&str> = what.split_whitespace().collect();
    let mut line = words.join(" ");
    // A line that is longer than the file would leave none.
    let end = (0..=line.len().min(MAX_SIZE / 4)).rev().find(|at| line.is_char_boundary(*at));
    line.truncate(end.unwrap_or(0));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failures_are_kept() {
        let path = std::env::temp_dir().join(format!("etw-failures-{}", std::process::id()));
        let directory = Directory::open_or_make(&path).unwrap();
        assert_eq!(directory.failures(), [""; 0]);
        directory.add_failure("no worker:\n\tno threads").unwrap();
        directory.add_failure("another").unwrap();
        assert_eq!(directory.failures(), ["no worker: no threads", "another"]);
        directory.remove_failure("no worker:\n\tno threads").unwrap();
        assert_eq!(directory.failures(), ["another"]);
        for number in 0..100 {
            directory.add_failure(&format!("{number} {}", "é".repeat(MAX_SIZE))).unwrap();
        }
        let all = directory.failures();
        assert!((3..=4).contains(&all.len()) && all[all.len() - 1].starts_with("99 é"), "{all:?}");
        // Bytes of somebody else are no text, and have no end.
        let file = directory.file(FILE, OFlags::WRONLY, 0).unwrap();
        File::from(file).write_all(&vec![0xff; 4 * MAX_SIZE]).unwrap();
        assert_eq!(directory.failures().len(), 1);
        directory.clear_failures().unwrap();
        assert_eq!(directory.failures(), [""; 0]);
        std::fs::remove_dir_all(path).unwrap();
    }
}
