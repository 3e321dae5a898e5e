//! Beginnings and ends of threads in records that wait for the watermark.

use super::Perf;
use super::parse::{EXIT, FORK, TRAILER, common_of, is_exec};
use etw_types::le;

/// The part of a life that a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Begin,
    /// `parent`: the process that waits for this one.
    End {
        parent: u32,
    },
    /// It executes a program, with the id of its process.
    Exec,
}

/// A moment in the life of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LifeMoment {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    pub process: u32,
    pub thread: u32,
    pub life: Life,
}

impl LifeMoment {
    /// `None`: the record is another one, is cut, or its process is outside of the container.
    fn of(record: &[u8]) -> Option<LifeMoment> {
        let time = common_of(record)?.time;
        if let Some(exec) = is_exec(record) {
            let (process, thread) = (exec.process, exec.process);
            return (process > 0).then_some(LifeMoment { time, process, thread, life: Life::Exec });
        }
        let body = &record[..record.len().checked_sub(TRAILER)?];
        let [process, parent, thread] = [8, 12, 16].map(|at| le::u32(body, at));
        let life = match le::u32(body, 0)? {
            FORK => Life::Begin,
            EXIT => Life::End { parent: parent? },
            _ => return None,
        };
        let (process, thread) = (process.filter(|id| *id > 0)?, thread?);
        Some(LifeMoment { time, process, thread, life })
    }
}

impl Perf {
    /// The moments in the lives of threads that have been read and not released, in order of time.
    pub fn lives(&self) -> Vec<LifeMoment> {
        let mut linear = Vec::new();
        let mut moments = Vec::new();
        for one in &self.waiting {
            let is_side = self.ring_uses.get(one.ring).is_some_and(|one| one.place.is_side);
            let ring = self.rings.get(one.ring).filter(|_| is_side);
            let record = ring.and_then(|ring| ring.record(one.position, &mut linear));
            moments.extend(record.and_then(LifeMoment::of));
        }
        moments.sort_by_key(|one| one.time);
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_lives_are_read() {
        let record = |kind: u32, misc: u32, body: &[u32]| {
            let size = (8 + body.len() * 4 + TRAILER) as u32;
            let mut words = vec![kind, size << 16 | misc];
            words.extend(body);
            words.extend([50, 50, 900, 0, 0, 0]);
            words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
        };
        let moment = |process, thread, life| Some(LifeMoment { time: 900, process, thread, life });
        let fork = record(FORK, 0, &[60, 50, 61, 50, 800, 0]);
        assert_eq!(LifeMoment::of(&fork), moment(60, 61, Life::Begin));
        let exit = record(EXIT, 0, &[60, 50, 61, 50, 800, 0]);
        assert_eq!(LifeMoment::of(&exit), moment(60, 61, Life::End { parent: 50 }));
        let outside = record(EXIT, 0, &[0, 0, 0, 0, 800, 0]);
        assert_eq!(LifeMoment::of(&outside), None);
        let name = u32::from_le_bytes(*b"prog");
        assert_eq!(
            LifeMoment::of(&record(3, 0x2000, &[60, 60, name, 0])),
            moment(60, 60, Life::Exec)
        );
        assert_eq!(LifeMoment::of(&record(3, 0, &[60, 61, name, 0])), None);
        (0..TRAILER + 20).for_each(|size| assert_eq!(LifeMoment::of(&exit[..size]), None));
    }
}
