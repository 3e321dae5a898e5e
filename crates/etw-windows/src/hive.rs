//! [`Hive`]: keys and values of a registry hive, read where they lie.
//!
//! ```text
//! 0000 "regf"   04 u32 first sequence number   08 u32 second one (differs if the hive was not closed)   14 u32 major (1)
//! 24 u32 offset of the root key   28 u32 size of the bins   1000 bins; offsets count from here
//! cell: i32 size with these four bytes, negative if it is in use
//!   "nk" key    02 u16 flags (20: 8-bit name)   14 u32 subkeys   1c u32 list of subkeys   24 u32 values   28 u32 list of values
//!               48 u16 size of the name   4c name
//!   "lf", "lh"  02 u16 n, n × { u32 key, u32 hash }     "li" n × u32 key     "ri" n × u32 list, which is none of these itself
//!   "vk" value  02 u16 size of the name (0: the key's own value)   04 u32 size of the data (bit 31: the data are the offset)
//!               08 u32 data   0c u32 type   10 u16 flags (1: 8-bit name)   14 name
//! list of values: n × u32 value
//! ```
//!
//! Source: public descriptions of the format. Damage costs the key or value that has it. No key is searched for by its hash, and data
//! beyond 16,344 bytes, which have segments, are not read: no value that describes a provider has so many.

use crate::hive_log;
use etw_types::le;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Where the bins begin.
const BINS: u64 = 0x1000;
/// A cell, as far as it is read: a list of 65,535 subkeys.
const CELL_LIMIT: usize = 8 * 65_536 + 16;
/// Subkeys of one key; Windows' largest publisher list has a thousandth of it.
const SUBKEY_LIMIT: usize = 1 << 20;
/// Values of one key.
const VALUE_LIMIT: usize = 4096;
/// Bytes of a hive, or of one of its logs, that are read into memory where the logs are needed.
const RECOVERY_LIMIT: u64 = 512 << 20;
/// Bytes of a value that are read.
const DATA_LIMIT: usize = 16_344;

/// Why a file is not a hive, or a part of it is not readable.
#[derive(Debug)]
#[non_exhaustive]
pub enum HiveError {
    /// The file cannot be read.
    Io(std::io::Error),
    /// It does not begin as a hive.
    NotAHive,
    /// Something else stands where a key, list or value is referred to.
    Bad {
        /// Bytes from the start of the file.
        offset: u64,
        /// The item that was expected there.
        what: &'static str,
    },
    /// A key has more subkeys than any system's.
    TooMuch,
}

impl fmt::Display for HiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HiveError::Io(error) => error.fmt(f),
            HiveError::NotAHive => f.write_str("not a registry hive"),
            HiveError::TooMuch => {
                write!(f, "a damaged registry hive: more than {SUBKEY_LIMIT} keys in one")
            }
            HiveError::Bad { offset, what } => {
                write!(f, "a damaged registry hive: {what} was expected at offset {offset:#x}")
            }
        }
    }
}

impl std::error::Error for HiveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HiveError::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// The bytes of a hive.
enum Source {
    File(Mutex<File>),
    Memory(Vec<u8>),
}

impl Source {
    /// Fills a buffer; fails at the end of the file.
    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<(), HiveError> {
        match self {
            Source::File(file) => {
                let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                file.seek(SeekFrom::Start(at)).map_err(HiveError::Io)?;
                file.read_exact(buffer).map_err(HiveError::Io)
            }
            Source::Memory(bytes) => {
                let part =
                    usize::try_from(at).ok().and_then(|at| bytes.get(at..)?.get(..buffer.len()));
                let part = part.ok_or(HiveError::Bad { offset: at, what: "more of the file" })?;
                buffer.copy_from_slice(part);
                Ok(())
            }
        }
    }
}

/// An open hive.
pub struct Hive {
    source: Source,
    /// Bytes of the file.
    size: u64,
    root: u32,
    state: HiveState,
}

/// Whether all changes of a hive are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HiveState {
    /// Windows closed it.
    Clean,
    /// Windows did not close it. These many changes of its logs were applied.
    Recovered(usize),
    /// Windows did not close it, and its last changes, which are in its logs, are missing.
    Outdated,
}

impl fmt::Debug for Hive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hive").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Hive {
    /// Opens a file, of which only the cells that are asked for are read.
    ///
    /// # Errors
    /// [`HiveError`].
    pub fn open(path: &Path) -> Result<Hive, HiveError> {
        let file = File::open(path).map_err(HiveError::Io)?;
        let size = file.metadata().map_err(HiveError::Io)?.len();
        Hive::new(Source::File(Mutex::new(file)), size)
    }

    /// Opens a hive in memory.
    ///
    /// # Errors
    /// [`HiveError`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Hive, HiveError> {
        let size = bytes.len() as u64;
        Hive::new(Source::Memory(bytes), size)
    }

    /// Opens a file. If Windows did not close it, the changes in its transaction logs are applied in memory; logs that cannot be
    /// read, or belong to another state of the hive, are ignored. [`state`](Hive::state) says what came of it.
    ///
    /// # Errors
    /// [`HiveError`].
    pub fn open_with_logs(path: &Path, logs: &[PathBuf]) -> Result<Hive, HiveError> {
        let hive = Hive::open(path)?;
        if hive.is_clean() || hive.size > RECOVERY_LIMIT {
            return Ok(hive);
        }
        let read = |path: &PathBuf| {
            let log = path.metadata().ok()?;
            // Reading a pipe would wait.
            let is_read = log.is_file() && log.len() <= RECOVERY_LIMIT;
            if is_read { std::fs::read(path).ok() } else { None }
        };
        let logs: Vec<Vec<u8>> = logs.iter().filter_map(read).collect();
        Hive::from_bytes_with_logs(std::fs::read(path).map_err(HiveError::Io)?, &logs)
    }

    /// Opens a hive in memory with its transaction logs, as [`open_with_logs`](Hive::open_with_logs).
    ///
    /// # Errors
    /// [`HiveError`].
    pub fn from_bytes_with_logs(mut bytes: Vec<u8>, logs: &[Vec<u8>]) -> Result<Hive, HiveError> {
        let changes = match is_closed(&bytes) {
            true => 0,
            false => hive_log::replay(&mut bytes, logs),
        };
        let mut hive = Hive::from_bytes(bytes)?;
        if changes > 0 {
            hive.state = HiveState::Recovered(changes);
        }
        Ok(hive)
    }

    fn new(source: Source, size: u64) -> Result<Hive, HiveError> {
        let mut head = [0; 0x200];
        if size < BINS || source.read(0, &mut head).is_err() || !head.starts_with(b"regf") {
            return Err(HiveError::NotAHive);
        }
        let number = |at: usize| le::u32(&head, at).unwrap_or(0);
        let state = if is_closed(&head) { HiveState::Clean } else { HiveState::Outdated };
        Ok(Hive { source, size, root: number(0x24), state })
    }

    /// Whether Windows closed it. The last changes of one that was not are in its logs.
    pub fn is_clean(&self) -> bool {
        self.state == HiveState::Clean
    }

    /// Whether all changes are in it.
    pub fn state(&self) -> HiveState {
        self.state
    }

    /// The root key.
    ///
    /// # Errors
    /// [`HiveError::Bad`].
    pub fn root(&self) -> Result<Key<'_>, HiveError> {
        self.key_at(self.root)
    }

    /// The key of a path, such as `Microsoft\Windows NT\CurrentVersion`; `None` if there is none.
    ///
    /// # Errors
    /// [`HiveError`] if a key or list on the way is damaged.
    pub fn key(&self, path: &str) -> Result<Option<Key<'_>>, HiveError> {
        let mut key = self.root()?;
        for name in path.split('\\') {
            let mut damage = None;
            let mut found = None;
            for subkey in key.subkeys()? {
                match subkey {
                    Ok(subkey) if subkey.name.eq_ignore_ascii_case(name) => {
                        found = Some(subkey);
                        break;
                    }
                    Ok(_) => {}
                    Err(error) => damage = damage.or(Some(error)),
                }
            }
            key = match (found, damage) {
                (Some(found), _) => found,
                // The wanted key may be the damaged one.
                (None, Some(damage)) => return Err(damage),
                (None, None) => return Ok(None),
            };
        }
        Ok(Some(key))
    }

    /// The data of a cell, at most `limit` bytes.
    fn cell(&self, offset: u32, limit: usize) -> Result<Vec<u8>, HiveError> {
        let at = BINS + u64::from(offset);
        let bad = HiveError::Bad { offset: at, what: "a cell in use" };
        let left = self.size.saturating_sub(at);
        let mut size = [0; 4];
        if left < 4 {
            return Err(bad);
        }
        self.source.read(at, &mut size)?;
        let size = i32::from_le_bytes(size);
        if size >= -4 || u64::from(size.unsigned_abs()) > left {
            return Err(bad);
        }
        let mut data = vec![0; (size.unsigned_abs() as usize - 4).min(limit)];
        self.source.read(at + 4, &mut data)?;
        Ok(data)
    }

    fn key_at(&self, offset: u32) -> Result<Key<'_>, HiveError> {
        let bad = || HiveError::Bad { offset: BINS + u64::from(offset), what: "a key" };
        // Names have at most 255 characters.
        let cell = self.cell(offset, 0x4c + 512)?;
        if !cell.starts_with(b"nk") {
            return Err(bad());
        }
        let number = |at: usize| le::u32(&cell, at).ok_or_else(bad);
        let name = name(&cell, 0x48, 0x4c, le::u16(&cell, 2).ok_or_else(bad)? & 0x20 != 0);
        Ok(Key {
            hive: self,
            name: name.ok_or_else(bad)?,
            subkeys: (number(0x14)?, number(0x1c)?),
            values: (number(0x24)?, number(0x28)?),
        })
    }

    /// The keys of a list, lists of lists included.
    fn list(&self, offset: u32, is_nested: bool, keys: &mut Vec<u32>) -> Result<(), HiveError> {
        let bad = || HiveError::Bad { offset: BINS + u64::from(offset), what: "a list of keys" };
        let cell = self.cell(offset, CELL_LIMIT)?;
        let count = usize::from(le::u16(&cell, 2).ok_or_else(bad)?);
        let entry_size = match cell.get(..2) {
            Some(b"lf" | b"lh") => 8,
            Some(b"li") => 4,
            Some(b"ri") if !is_nested => 4,
            _ => return Err(bad()),
        };
        let entries = cell.get(4..4 + count * entry_size).ok_or_else(bad)?;
        let entries = entries.chunks_exact(entry_size).filter_map(|entry| le::u32(entry, 0));
        for entry in entries {
            if keys.len() >= SUBKEY_LIMIT {
                return Err(HiveError::TooMuch);
            }
            match cell.starts_with(b"ri") {
                true => self.list(entry, true, keys)?,
                false => keys.push(entry),
            }
        }
        Ok(())
    }
}

/// Whether the first sector of a hive says that Windows closed it.
fn is_closed(head: &[u8]) -> bool {
    head.get(4..8) == head.get(8..12) && hive_log::is_sound_head(head)
}

/// A name with its size before it; `size_at`, `at`: where both are.
fn name(cell: &[u8], size_at: usize, at: usize, is_narrow: bool) -> Option<String> {
    let size = usize::from(le::u16(cell, size_at)?);
    let bytes = cell.get(at..at + size)?;
    Some(match is_narrow {
        // Latin-1
        true => bytes.iter().map(|byte| char::from(*byte)).collect(),
        false => le::utf16_lossy(bytes),
    })
}

/// A key.
#[derive(Debug)]
pub struct Key<'h> {
    hive: &'h Hive,
    name: String,
    /// How many, and where their list is.
    subkeys: (u32, u32),
    values: (u32, u32),
}

impl<'h> Key<'h> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its subkeys; an error stands for one that is damaged.
    ///
    /// # Errors
    /// [`HiveError`] if the list is damaged.
    pub fn subkeys(
        &self,
    ) -> Result<impl Iterator<Item = Result<Key<'h>, HiveError>> + use<'h>, HiveError> {
        let hive = self.hive;
        let mut keys = Vec::new();
        if self.subkeys.0 > 0 {
            hive.list(self.subkeys.1, false, &mut keys)?;
        }
        Ok(keys.into_iter().map(move |offset| hive.key_at(offset)))
    }

    /// The value of a name, `""` for the key's own; `None` if there is none, or if it is damaged.
    pub fn value(&self, name: &str) -> Option<Value> {
        let count = (self.values.0 as usize).min(VALUE_LIMIT);
        if count == 0 {
            return None;
        }
        let list = self.hive.cell(self.values.1, count * 4).ok()?;
        let offsets = list.chunks_exact(4).filter_map(|entry| le::u32(entry, 0));
        offsets.take(count).find_map(|offset| self.value_at(offset, name))
    }

    /// The text of a value.
    pub fn text(&self, name: &str) -> Option<String> {
        self.value(name)?.text()
    }

    fn value_at(&self, offset: u32, wanted: &str) -> Option<Value> {
        let cell = self.hive.cell(offset, 0x14 + 1024).ok()?;
        let found = cell.starts_with(b"vk").then(|| {
            name(&cell, 2, 0x14, le::u16(&cell, 0x10).is_some_and(|flags| flags & 1 != 0))
        })??;
        if !found.eq_ignore_ascii_case(wanted) {
            return None;
        }
        let size = le::u32(&cell, 4)?;
        let data = match size & 1 << 31 {
            0 if size as usize > DATA_LIMIT => return None,
            0 => {
                let mut data = self.hive.cell(le::u32(&cell, 8)?, size as usize).ok()?;
                data.truncate(size as usize);
                data
            }
            _ => cell.get(8..8 + (size as usize & 7).min(4))?.to_vec(),
        };
        Some(Value { kind: le::u32(&cell, 0xc)?, data })
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its type, as Windows numbers them.
    pub kind: u32,
    /// Its bytes.
    pub data: Vec<u8>,
}

impl Value {
    /// A text (REG_SZ, REG_EXPAND_SZ) up to its NUL.
    pub fn text(&self) -> Option<String> {
        let text = le::utf16_z(&self.data).map_or(&self.data[..], |(text, _)| text);
        matches!(self.kind, 1 | 2).then(|| le::utf16_lossy(text))
    }

    /// A number (REG_DWORD).
    pub fn number(&self) -> Option<u32> {
        le::u32(&self.data, 0).filter(|_| self.kind == 4)
    }
}
