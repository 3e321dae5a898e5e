//! [`Slices`]: which starts and stops of a trace belong together, found before the trace is converted.
//!
//! ```text
//! one provider, one thread or activity, and   the same task
//!                                             task 0: the same name without Start, Stop, Begin, End
//!                                             TraceLogging in an activity: no more, its stop may have another name
//! ```
//!
//! The innermost start is the one that a stop ends. What has no partner is a point in time: kernel providers write starts whose stop comes on
//! another thread, or never.

use super::Track;
use etw_types::{EventRecord, ExtType, Guid, Opcode};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Starts that wait for their stops at once. Beyond it, the oldest one is a point.
const MOST_OPEN: usize = if cfg!(test) { 1 << 10 } else { 1 << 17 };
/// Words at the end of a name that say which edge of a slice an event is.
const WORDS: [&str; 4] = ["Start", "Stop", "Begin", "End"];
/// Lanes of a track, with the track itself.
const MOST_LANES: usize = 64;
/// An event that is logged in two versions is logged within so many units of 100 ns.
const TWICE: i64 = 1000;
/// Starts and stops in that time among which the first version is looked for.
const MOST_SEEN: usize = 64;

/// The end of a slice at which an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    Start,
    Stop,
}

impl Edge {
    /// The edge of events with the opcodes Start and Stop; `None`: another record.
    pub fn of(record: &EventRecord<'_>) -> Option<Edge> {
        match record.descriptor.opcode {
            _ if !record.header.is_event() => None,
            Opcode::START => Some(Edge::Start),
            Opcode::STOP => Some(Edge::Stop),
            _ => None,
        }
    }
}

/// How a start or stop is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has no partner.
    Point,
    /// It was logged before, in another version: once is enough.
    Again,
    /// It begins or ends a slice. Slices of one lane never overlap but as one inside of the other. Lane 0 is the track itself.
    Slice { lane: u8 },
}

/// The facts that a start and its stop have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    track: Track,
    provider: Option<Guid>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Task(u16),
    /// A hash: names of hostile traces are long.
    Name(u64),
    Activity,
}

/// The open starts of a track, by their numbers.
#[derive(Debug, Default)]
struct Open {
    /// Those that no slice of lane 0 has ended inside of.
    nested: BTreeSet<u64>,
    /// All of them.
    count: usize,
    /// The last stop of each lane behind lane 0.
    ends: Vec<u64>,
}

/// A start or stop that may be logged again.
#[derive(Debug)]
struct Seen {
    what: (Key, Edge, u64),
    version: u8,
    payload: Box<[u8]>,
    time: i64,
}

/// The roles of starts and stops, by their numbers in the order of the trace.
#[derive(Debug, Default)]
pub struct Slices {
    /// One for each, so that a large trace needs little memory.
    roles: Vec<Role>,
    /// The number that [`next`](Slices::next) answers.
    next: usize,
    starts: HashMap<Key, VecDeque<u64>>,
    tracks: HashMap<Track, Open>,
    /// All open starts, the oldest first.
    open: BTreeMap<u64, Key>,
    /// The latest ones.
    seen: VecDeque<Seen>,
}

impl Slices {
    /// Notes a start or stop that is shown. `name`: the whole one of the event. `time`: in units of 100 ns.
    pub fn take(&mut self, edge: Edge, record: &EventRecord<'_>, name: &str, time: i64) {
        let track = Track::of(record);
        let base = hash(base_name(name));
        let is_activity = matches!(track, Track::Activity(..));
        let kind = match record.descriptor.task {
            0 if is_activity && record.extended.find(ExtType::EVENT_SCHEMA_TL).is_some() => {
                Kind::Activity
            }
            0 => Kind::Name(base),
            task => Kind::Task(task),
        };
        let key = Key { track, provider: record.provider, kind };
        let number = self.roles.len() as u64;
        if self.was_seen((key, edge, base), record, time) {
            self.roles.push(Role::Again);
            return;
        }
        self.roles.push(Role::Point);
        match edge {
            Edge::Start => self.start(key, number),
            Edge::Stop => self.stop(key, number),
        }
    }

    /// The role of the next start or stop that is shown, in the order in which they were taken.
    pub fn next(&mut self) -> Role {
        let role = self.roles.get(self.next).copied().unwrap_or(Role::Point);
        self.next += 1;
        role
    }

    /// Whether the event was logged a moment ago in another version. Newer versions have more fields, behind those of older ones.
    fn was_seen(&mut self, what: (Key, Edge, u64), record: &EventRecord<'_>, time: i64) -> bool {
        while self.seen.front().is_some_and(|old| time.saturating_sub(old.time) > TWICE) {
            self.seen.pop_front();
        }
        let (version, payload) = (record.descriptor.version, record.payload);
        let is_again = |old: &Seen| {
            let (older, newer) = match old.version < version {
                true => (&*old.payload, payload),
                false => (payload, &*old.payload),
            };
            old.what == what && old.version != version && newer.starts_with(older)
        };
        if self.seen.iter().any(is_again) {
            return true;
        }
        if self.seen.len() == MOST_SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(Seen { what, version, payload: payload.into(), time });
        false
    }

    fn start(&mut self, key: Key, number: u64) {
        if self.open.len() >= MOST_OPEN
            && let Some((oldest, of)) = self.open.pop_first()
        {
            self.close(of, oldest);
        }
        self.open.insert(number, key);
        self.starts.entry(key).or_default().push_back(number);
        let track = self.tracks.entry(key.track).or_default();
        track.nested.insert(number);
        track.count += 1;
    }

    fn stop(&mut self, key: Key, stop: u64) {
        let Some(start) = self.starts.get(&key).and_then(|starts| starts.back().copied()) else {
            return;
        };
        self.open.remove(&start);
        if let Some(lane) =
            self.tracks.get_mut(&key.track).and_then(|track| track.lane(start, stop))
        {
            for number in [start, stop] {
                self.roles[number as usize] = Role::Slice { lane };
            }
        }
        self.close(key, start);
    }

    /// Forgets an open start.
    fn close(&mut self, key: Key, number: u64) {
        if let Some(starts) = self.starts.get_mut(&key) {
            // It is the innermost one, or the oldest one of all.
            match starts.back() == Some(&number) {
                true => starts.pop_back(),
                false => starts.pop_front(),
            };
            if starts.is_empty() {
                self.starts.remove(&key);
            }
        }
        if let Some(track) = self.tracks.get_mut(&key.track) {
            track.nested.remove(&number);
            track.count -= 1;
            if track.count == 0 {
                self.tracks.remove(&key.track);
            }
        }
    }
}

impl Open {
    /// The lane of a slice; `None`: too many overlap.
    fn lane(&mut self, start: u64, stop: u64) -> Option<u8> {
        if self.nested.contains(&start) {
            // A slice that began inside of it and ends behind it needs another lane.
            self.nested.split_off(&start);
            return Some(0);
        }
        let free = self.ends.iter().position(|end| *end < start).unwrap_or(self.ends.len());
        if free + 1 >= MOST_LANES {
            return None;
        }
        match self.ends.get_mut(free) {
            Some(end) => *end = stop,
            None => self.ends.push(stop),
        }
        u8::try_from(free + 1).ok()
    }
}

/// The name without what says that it is a start or a stop.
fn base_name(name: &str) -> &str {
    // `ThreadStart/Start` has the opcode's name behind the event's.
    let event = name.rsplit_once('/').filter(|(_, opcode)| WORDS.contains(opcode));
    let event = event.map_or(name, |(event, _)| event);
    without_word(event).unwrap_or(event)
}

/// The name before its last word of [`WORDS`], which has a capital, or stands behind a sign in any case.
fn without_word(name: &str) -> Option<&str> {
    const SIGNS: [char; 6] = ['_', '-', '.', ' ', ':', '/'];
    WORDS.iter().find_map(|word| {
        let at = name.len().checked_sub(word.len()).filter(|at| name.is_char_boundary(*at))?;
        let (before, last) = name.split_at(at);
        let is_alone = before.is_empty() || before.ends_with(SIGNS);
        let is_word = last == *word || is_alone && last.eq_ignore_ascii_case(word);
        is_word.then(|| before.trim_end_matches(SIGNS))
    })
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::HeaderType;

    /// Events as task, opcode, version, name, thread and time; their roles.
    fn roles_of(events: &[(u16, u8, u8, &str, u32, i64)]) -> Vec<Role> {
        let mut slices = Slices::default();
        for (task, opcode, version, name, thread, time) in events {
            let mut record = EventRecord::new(HeaderType::Event64, &[]);
            record.provider = Some(Guid::from_u128(1));
            record.descriptor.task = *task;
            record.descriptor.opcode = Opcode(*opcode);
            record.descriptor.version = *version;
            (record.process_id, record.thread_id) = (Some(1), Some(*thread));
            slices.take(Edge::of(&record).unwrap(), &record, name, *time);
        }
        events.iter().map(|_| slices.next()).collect()
    }

    const POINT: Role = Role::Point;
    const SLICE: Role = Role::Slice { lane: 0 };
    const BESIDE: Role = Role::Slice { lane: 1 };

    #[test]
    fn a_stop_ends_the_start_of_its_task_on_its_thread() {
        let roles = roles_of(&[
            (1, 1, 0, "Collection/Start", 7, 1),
            (2, 2, 0, "Process/Stop", 7, 2),
            (1, 2, 0, "Collection/Stop", 8, 3),
            (1, 2, 0, "Collection/Stop", 7, 4),
            (1, 2, 0, "Collection/Stop", 7, 5),
        ]);
        assert_eq!(roles, [SLICE, POINT, POINT, SLICE, POINT]);
    }

    #[test]
    fn without_a_task_names_tell_what_belongs_together() {
        for (start, stop, expected) in [
            ("RequestStart", "RequestStop", SLICE),
            ("ReadBegin/Start", "ReadEnd/Stop", SLICE),
            ("send_start", "send_stop", SLICE),
            ("Request", "Request", SLICE),
            ("ThreadStart", "ImageStop", POINT),
            ("WorkEnd", "WorkEnd", SLICE),
            ("Backend", "Back", POINT),
        ] {
            let roles = roles_of(&[(0, 1, 0, start, 7, 1), (0, 2, 0, stop, 7, 2)]);
            assert_eq!(roles, [expected; 2], "{start}, {stop}");
        }
    }

    #[test]
    fn an_event_that_is_logged_in_two_versions_is_one() {
        let roles = roles_of(&[
            (1, 1, 1, "Collection/Start", 7, 1),
            (1, 1, 2, "Collection/Start", 7, 1),
            (1, 2, 1, "Collection/Stop", 7, 5),
            (1, 2, 1, "Collection/Stop", 7, 5),
            (1, 1, 1, "Collection/Start", 7, 6),
            (1, 1, 2, "Collection/Start", 7, 7 + TWICE),
        ]);
        assert_eq!(roles, [SLICE, Role::Again, SLICE, POINT, POINT, POINT]);
    }

    #[test]
    fn slices_that_overlap_have_lanes_of_their_own() {
        let roles = roles_of(&[
            (1, 1, 0, "A", 7, 1),
            (2, 1, 0, "B", 7, 2),
            (1, 2, 0, "A", 7, 3),
            (3, 1, 0, "C", 7, 4),
            (3, 2, 0, "C", 7, 5),
            (2, 2, 0, "B", 7, 6),
            (4, 1, 0, "never stops", 7, 7),
            (1, 1, 0, "A", 7, 8),
            (1, 2, 0, "A", 7, 9),
        ]);
        assert_eq!(roles, [SLICE, BESIDE, SLICE, SLICE, SLICE, BESIDE, POINT, SLICE, SLICE]);
    }

    #[test]
    fn starts_without_stops_take_bounded_memory() {
        let mut slices = Slices::default();
        let mut record = EventRecord::new(HeaderType::Event64, &[]);
        record.descriptor.opcode = Opcode::START;
        for number in 0..2 * MOST_OPEN as u32 {
            record.thread_id = Some(number);
            slices.take(Edge::Start, &record, "Start", i64::from(number));
        }
        assert_eq!((slices.open.len(), slices.starts.len()), (MOST_OPEN, MOST_OPEN));
        assert_eq!(slices.tracks.len(), MOST_OPEN);
    }
}
