//! Places of buffers in the files of a session that was killed.

use std::fs::File;
use std::io;
use std::path::Path;

use etw_session::{LogPolicy, Place};
use etw_types::BufferHeader;

use crate::facts::{SessionFacts, file_name};
use crate::part::ReadAt;

/// The last buffer of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub place: Place,
    pub sequence: i64,
}

/// The places of buffers in the files of a session that was killed.
pub(super) struct Places {
    policy: LogPolicy,
    slots: Option<u64>,
}

impl Places {
    pub fn of(facts: &SessionFacts) -> Places {
        let policy = facts.log_policy();
        // A damaged header states less than a session can have.
        let slots = policy.slots(facts.header.buffer_size).filter(|slots| *slots >= 3);
        Places { policy, slots }
    }

    pub fn next(&self, last: Place) -> Option<Place> {
        self.policy.place_after(last, self.slots)
    }

    /// Whether the session can have assigned this place.
    pub fn holds(&self, place: Place) -> bool {
        place.slot < self.slots.unwrap_or(u64::MAX).min(1 << 32)
            && (self.policy.is_series() || place.file == 1)
            && place.file < 1 << 20
    }

    /// The position of the last buffer in the files.
    pub fn last_in_files(&self, pattern: &Path, buffer_size: u32) -> io::Result<Position> {
        let mut last = Position { place: Place { file: 1, slot: 0 }, sequence: 0 };
        let mut number = 1;
        loop {
            let file = match File::open(file_name(pattern, number)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            let slots = file.metadata()?.len() / u64::from(buffer_size);
            for slot in 1..slots {
                let mut bytes = [0; BufferHeader::SIZE];
                file.read_exact_at(&mut bytes, slot * u64::from(buffer_size))?;
                let header = BufferHeader::read(&bytes);
                if header.buffer_size == buffer_size && header.sequence_number > last.sequence {
                    let place = Place { file: number, slot };
                    last = Position { place, sequence: header.sequence_number };
                }
            }
            if !self.policy.is_series() {
                break;
            }
            number += 1;
        }
        Ok(last)
    }
}
