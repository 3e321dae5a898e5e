//! Code that was compiled at run time, by process, address and time: other code may come to an address later.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, Range};

/// So many starts below an address are looked at: code does not overlap unless one has ended.
const MAX_STARTS: usize = 64;

/// Code compiled at run time, or ahead of time by NGEN.
#[derive(Debug)]
pub struct Method {
    pub size: u64,
    /// .NET's number of the method; 0 for a symbol of a perf map or of a jitdump file.
    pub id: u64,
    pub name: Box<str>,
    /// When it is there, by the clock of the trace; `None`: not known.
    pub times: Option<Range<i64>>,
}

impl Method {
    fn begin(&self) -> i64 {
        self.times.as_ref().map_or(i64::MIN, |times| times.start)
    }

    fn end(&self) -> i64 {
        self.times.as_ref().map_or(i64::MAX, |times| times.end)
    }
}

/// The methods of all processes.
#[derive(Debug, Default)]
pub struct Methods {
    /// By process; by first address and begin of their times.
    all: HashMap<u32, BTreeMap<(u64, i64), Method>>,
}

impl Methods {
    /// Adds a method. It replaces one of the same address and begin.
    pub fn add(&mut self, process: u32, start: u64, method: Method) {
        self.all.entry(process).or_default().insert((start, method.begin()), method);
    }

    /// The method at an address of a process and its first address. If none is known to be there at that time, one that was not logged yet.
    pub fn at(&self, process: u32, address: u64, time: Option<i64>) -> Option<(u64, &Method)> {
        let all = self.all.get(&process)?;
        let (mut end, mut later) = (Bound::Included((address, i64::MAX)), None);
        for _ in 0..MAX_STARTS {
            let Some(((start, _), _)) = all.range((Bound::Unbounded, end)).next_back() else {
                break;
            };
            let start = *start;
            end = Bound::Excluded((start, i64::MIN));
            let has_address = |one: &&Method| address - start < one.size;
            let now = (start, time.unwrap_or(i64::MAX));
            match all.range((start, i64::MIN)..=now).next_back() {
                Some((_, last)) => {
                    let is_there = time.is_none_or(|time| time < last.end());
                    if let Some(found) = Some(last).filter(has_address).filter(|_| is_there) {
                        return Some((start, found));
                    }
                }
                None => {
                    let next = all.range(now..).next().map(|(_, next)| next).filter(has_address);
                    later = later.or(next.map(|next| (start, next)));
                }
            }
        }
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(name: &str, times: Option<Range<i64>>) -> Method {
        Method { size: 0x10, id: 0, name: name.into(), times }
    }

    /// OV-23: code is named by what was at its address when it ran.
    #[test]
    fn an_address_has_the_code_of_its_time() {
        let mut methods = Methods::default();
        let mut add = |start, name, times| methods.add(7, start, method(name, Some(times)));
        add(0x1000, "first", 10..i64::MAX);
        add(0x1000, "second", 20..30);
        add(0x1008, "third", 40..i64::MAX);
        let name = |address, time| Some(&*methods.at(7, address, Some(time))?.1.name);
        assert_eq!((name(0x1008, 15), name(0x1008, 20)), (Some("first"), Some("second")));
        assert_eq!(name(0x1008, 45), Some("third"));
        assert_eq!(name(0x1017, 35), Some("third"), "its record came late");
        assert_eq!((name(0x1000, 5), name(0x1010, 5)), (Some("first"), Some("third")));
        assert_eq!(name(0x1018, 45), None);
        let last = methods.at(7, 0x1000, None).map(|(_, one)| &*one.name);
        assert_eq!(last, Some("second"), "without a time, the last one");
        methods.add(7, 0x1000, method("mapped", None));
        assert_eq!(methods.at(7, 0x1000, Some(5)).map(|(_, one)| &*one.name), Some("mapped"));
    }

    #[test]
    fn moved_code_is_not_at_its_old_address() {
        let mut methods = Methods::default();
        methods.add(7, 0x1000, method("moved", Some(10..20)));
        methods.add(7, 0x2000, method("moved", Some(20..i64::MAX)));
        assert!(methods.at(7, 0x1000, Some(15)).is_some());
        assert!(methods.at(7, 0x1000, Some(25)).is_none());
        assert!(methods.at(7, 0x2000, Some(25)).is_some());
    }
}
