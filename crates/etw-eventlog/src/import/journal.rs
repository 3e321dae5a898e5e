//! Entries of systemd's journal: `journalctl -o json`, and `-o export`.

use super::{Entry, time_of_micros};
use std::io::{self, BufRead, Read};

/// Bytes of one entry.
const MAX_ENTRY: u64 = 16 << 20;
/// Bytes of a field that is kept.
const MAX_FIELD: usize = 4 << 10;
/// Fields of an entry that are kept.
const MAX_FIELDS: usize = 64;

/// Reads entries one by one.
#[derive(Debug)]
pub struct Journal<R> {
    input: R,
    /// Entries that could not be read.
    damaged: u64,
    cursor: Option<String>,
}

impl<R: BufRead> Journal<R> {
    /// Entries of an input, in either form.
    pub fn new(input: R) -> Journal<R> {
        Journal { input, damaged: 0, cursor: None }
    }

    /// Entries that could not be read, so far.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The journal's position behind the last entry.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The next entry; `None` at the end. Entries that cannot be read are counted and left out.
    ///
    /// # Errors
    /// Those of the input.
    pub fn read(&mut self) -> io::Result<Option<Entry>> {
        loop {
            let Some(first) = self.input.fill_buf()?.first().copied() else { return Ok(None) };
            let entry = match first {
                b'\n' | b'\r' => {
                    self.input.consume(1);
                    continue;
                }
                b'{' => self.json()?,
                _ => self.export()?,
            };
            match entry {
                Some(entry) => return Ok(Some(entry)),
                None => self.damaged += 1,
            }
        }
    }

    fn json(&mut self) -> io::Result<Option<Entry>> {
        let mut line = Vec::new();
        (&mut self.input).take(MAX_ENTRY).read_until(b'\n', &mut line)?;
        let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(&line) else {
            return Ok(None);
        };
        let mut fields = Fields::default();
        for (name, value) in object {
            let text = match value {
                serde_json::Value::String(text) => text,
                // Bytes that are not text.
                serde_json::Value::Array(bytes) => {
                    let bytes: Vec<u8> =
                        bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
                    String::from_utf8_lossy(&bytes).into_owned()
                }
                _ => continue,
            };
            fields.add(&name, &text);
        }
        Ok(self.finish(fields))
    }

    fn export(&mut self) -> io::Result<Option<Entry>> {
        let mut fields = Fields::default();
        let mut left = MAX_ENTRY;
        loop {
            let mut line = Vec::new();
            (&mut self.input).take(left).read_until(b'\n', &mut line)?;
            left = left.saturating_sub(line.len() as u64);
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            if line.is_empty() {
                return Ok(self.finish(fields));
            }
            if let Some(equals) = line.iter().position(|byte| *byte == b'=') {
                let value = String::from_utf8_lossy(&line[equals + 1..]);
                fields.add(&String::from_utf8_lossy(&line[..equals]), &value);
                continue;
            }
            // A name alone: a size of 64 bits and the bytes follow.
            let mut size = [0; 8];
            if self.input.read_exact(&mut size).is_err() {
                return Ok(None);
            }
            let size = u64::from_le_bytes(size);
            if size > left {
                // The size may be wrong: entries end with an empty line.
                self.skip_entry()?;
                return Ok(None);
            }
            let mut value = Vec::new();
            (&mut self.input).take(size + 1).read_to_end(&mut value)?;
            left -= size;
            let value = &value[..value.len().min(size as usize)];
            fields.add(&String::from_utf8_lossy(line), &String::from_utf8_lossy(value));
        }
    }

    /// Skips the rest of an entry in the export form.
    fn skip_entry(&mut self) -> io::Result<()> {
        let mut is_line_start = true;
        loop {
            let mut piece = Vec::new();
            (&mut self.input).take(64 << 10).read_until(b'\n', &mut piece)?;
            if piece.is_empty() || is_line_start && piece == b"\n" {
                return Ok(());
            }
            is_line_start = piece.ends_with(b"\n");
        }
    }

    fn finish(&mut self, fields: Fields) -> Option<Entry> {
        self.cursor = fields.cursor.or(self.cursor.take());
        fields.has_time.then_some(fields.entry)
    }
}

#[derive(Default)]
struct Fields {
    entry: Entry,
    has_time: bool,
    has_source: bool,
    cursor: Option<String>,
}

impl Fields {
    fn add(&mut self, name: &str, value: &str) {
        let entry = &mut self.entry;
        match name {
            "MESSAGE" => value.clone_into(&mut entry.message),
            "__REALTIME_TIMESTAMP" => {
                if let Some(time) = value.parse().ok().and_then(time_of_micros) {
                    (entry.time, self.has_time) = (time, true);
                }
            }
            "PRIORITY" => entry.severity = value.parse().unwrap_or(6),
            "SYSLOG_IDENTIFIER" => {
                value.clone_into(&mut entry.source);
                self.has_source = true;
            }
            "_COMM" => {
                if !self.has_source {
                    value.clone_into(&mut entry.source);
                }
            }
            "_HOSTNAME" => entry.computer = Some(value.chars().take(255).collect()),
            "_PID" => entry.process = value.parse().ok(),
            "_UID" => entry.user = value.parse().ok(),
            "__CURSOR" => self.cursor = Some(value.to_owned()),
            _ if name.starts_with("__") || entry.fields.len() >= MAX_FIELDS => {}
            _ if name.len() + value.len() > MAX_FIELD => {}
            _ => entry.fields.push(format!("{name}={value}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> (Vec<Entry>, u64) {
        let mut journal = Journal::new(input);
        let mut entries = Vec::new();
        while let Ok(Some(entry)) = journal.read() {
            entries.push(entry);
        }
        (entries, journal.damaged())
    }

    fn expected() -> Entry {
        Entry {
            time: FileTime(FileTime::UNIX_EPOCH.0 + 17_000_000_000_000_010),
            severity: 3,
            source: "sshd".to_owned(),
            computer: Some("host".to_owned()),
            process: Some(42),
            user: Some(1000),
            message: "no\nentry".to_owned(),
            fields: vec!["_SYSTEMD_UNIT=ssh.service".to_owned()],
        }
    }

    use etw_types::FileTime;

    /// OV-22: both forms of `journalctl` give the same entries.
    #[test]
    fn entries_are_read_from_json_and_from_the_export_form() {
        let json = br#"{"__CURSOR":"c1","__REALTIME_TIMESTAMP":"1700000000000001","PRIORITY":"3","SYSLOG_IDENTIFIER":"sshd","_COMM":"x","_HOSTNAME":"host","_PID":"42","_UID":"1000","MESSAGE":[110,111,10,101,110,116,114,121],"_SYSTEMD_UNIT":"ssh.service"}
"#;
        assert_eq!(all(json), (vec![expected()], 0));
        let mut export = b"__CURSOR=c1\n__REALTIME_TIMESTAMP=1700000000000001\nPRIORITY=3\n_COMM=x\nSYSLOG_IDENTIFIER=sshd\n_HOSTNAME=host\n_PID=42\n_UID=1000\nMESSAGE\n".to_vec();
        export.extend(8u64.to_le_bytes());
        export.extend(b"no\nentry\n_SYSTEMD_UNIT=ssh.service\n\n");
        let twice = [&export[..], &export[..]].concat();
        assert_eq!(all(&twice), (vec![expected(), expected()], 0));
        let mut journal = Journal::new(&json[..]);
        journal.read().unwrap();
        assert_eq!(journal.cursor(), Some("c1"));
    }

    #[test]
    fn malicious_entries_are_left_out_and_counted() {
        assert_eq!(all(b"{\n{}\n{\"MESSAGE\":\"no time\"}\n"), (vec![], 3));
        assert_eq!(all(b"MESSAGE=no time\n\n").1, 1);
        let mut large = b"MESSAGE\n".to_vec();
        large.extend(u64::MAX.to_le_bytes());
        large.extend(b"x\n\n__REALTIME_TIMESTAMP=1700000000000000\nMESSAGE=next\n\n");
        let (entries, damaged) = all(&large);
        assert_eq!((entries.len(), damaged), (1, 1), "a size that is too large costs its entry");
        assert_eq!(entries[0].message, "next");
        assert_eq!(all(b"MESSAGE\n\x01").1, 1);
        assert_eq!(all(&[b'{'; 1000]), (vec![], 1));
    }
}
