//! Records of the system, and the queue between a shaper and its session.

use std::collections::VecDeque;

use etw_types::{Classic, ClassicHeader, EventClass, Guid, Hook, KernelClass, Level};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// An event of a kernel class.
    Kernel(Classic),
    /// Another event, which has the header of those of providers.
    Provider(ProviderEvent),
}

/// An event that no kernel class has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderEvent {
    /// An event of `Universal.System`, with this id.
    Universal(u16),
    /// A module of a process: its id in four bytes, and a [`LoadedModule`](etw_types::LoadedModule).
    Module,
    /// A process executes a program:
    ///
    /// ```text
    /// u32 process   u16 n, path (n bytes)   u16 arguments, each: u16 n, text (n bytes)
    /// ```
    Exec,
    /// The machine was suspended: for how many nanoseconds, in eight bytes.
    Resumed,
    /// At the end of the recording, a thread is off its CPU: since how many nanoseconds, in eight bytes.
    Waiting,
}

/// An event of the system, ready to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemRecord<'a> {
    /// 100 ns of `CLOCK_MONOTONIC`.
    pub time: i64,
    /// The CPU.
    pub cpu: u16,
    /// The process in the header; a PERFINFO header has none.
    pub process: u32,
    /// The thread in the header.
    pub thread: u32,
    /// The kind.
    pub kind: &'a RecordKind,
    /// The fields.
    pub payload: &'a [u8],
}

impl<'a> SystemRecord<'a> {
    /// The header of an event of a kernel class.
    pub fn class(&self) -> Option<&'a Classic> {
        match self.kind {
            RecordKind::Kernel(class) => Some(class),
            RecordKind::Provider(_) => None,
        }
    }

    /// The hook; `None` for records without one.
    pub fn hook(&self) -> Option<u16> {
        match self.class()?.header {
            ClassicHeader::System(class) | ClassicHeader::PerfInfo(class) => Some(class.hook.0),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: i64,
    start: u64,
    size: u32,
    process: u32,
    thread: u32,
    cpu: u16,
    /// The index of its kind.
    kind: u16,
}

/// The kinds of records. There are as many as kinds of events.
#[derive(Debug, Default)]
struct Kinds {
    all: Vec<RecordKind>,
    /// Some kinds with hooks, by their keys.
    recent: [Recent; Kinds::RECENT],
}

/// A kind with a hook: its key, and its index.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    key: u64,
    index: u16,
}

impl Kinds {
    /// A prime number: the most frequent kinds have different places.
    const RECENT: usize = 31;

    /// Different classes with hooks have different keys; 0: it has no hook.
    #[inline]
    fn key(header: &ClassicHeader) -> u64 {
        let (class, form) = match header {
            ClassicHeader::System(class) => (class, 1),
            ClassicHeader::PerfInfo(class) => (class, 2),
            _ => return 0,
        };
        u64::from(class.hook.0) | u64::from(class.version) << 16 | form << 32
    }

    /// The index of a class.
    #[inline]
    fn of_class(&mut self, header: ClassicHeader) -> u16 {
        let kind = || RecordKind::Kernel(Classic { header, is_32_bit: false });
        let key = Kinds::key(&header);
        if key == 0 {
            return self.find(kind());
        }
        let place = usize::from(key as u16) % Kinds::RECENT;
        if self.recent[place].key != key {
            self.recent[place] = Recent { key, index: self.find(kind()) };
        }
        self.recent[place].index
    }

    /// The index of an event without a class.
    fn of_event(&mut self, event: ProviderEvent) -> u16 {
        self.find(RecordKind::Provider(event))
    }

    #[cold]
    fn find(&mut self, kind: RecordKind) -> u16 {
        let known = self.all.iter().position(|one| *one == kind);
        let index = known.unwrap_or_else(|| {
            self.all.push(kind);
            self.all.len() - 1
        });
        index as u16
    }
}

/// Records in order of time.
#[derive(Debug, Default)]
pub struct Records {
    kinds: Kinds,
    /// The fields of the records, behind those of removed ones.
    bytes: Vec<u8>,
    /// Bytes that have been removed in front of `bytes`: entries count from the first byte there ever was.
    removed: u64,
    entries: VecDeque<Entry>,
    last: i64,
}

/// Fields of removed records stay in memory until there are so many bytes of them, and as many as of others: moving the others costs
/// less than adding them did.
const LEAST_REMOVED: usize = 64 << 10;
/// Memory that a burst left is given back beyond this size, in bytes.
const KEPT_MEMORY: usize = 1 << 20;

/// The part of a record's header that its event decides.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// 100 ns of `CLOCK_MONOTONIC`.
    pub time: i64,
    /// The CPU.
    pub cpu: u16,
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
}

impl Records {
    /// The first record.
    pub fn peek(&self) -> Option<SystemRecord<'_>> {
        let entry = self.entries.front()?;
        let start = (entry.start - self.removed) as usize;
        Some(SystemRecord {
            time: entry.time,
            cpu: entry.cpu,
            process: entry.process,
            thread: entry.thread,
            kind: self.kinds.all.get(usize::from(entry.kind))?,
            payload: self.bytes.get(start..start + entry.size as usize)?,
        })
    }

    /// Gives the records up to a time, and removes those that `take` takes: it returns whether it did. The first that it does not take is
    /// the last one.
    #[inline]
    pub fn give(&mut self, until: i64, mut take: impl FnMut(&SystemRecord<'_>) -> bool) {
        let mut taken = 0;
        for entry in self.entries.iter().take_while(|entry| entry.time <= until) {
            let start = (entry.start - self.removed) as usize;
            let kind = self.kinds.all.get(usize::from(entry.kind));
            let fields = self.bytes.get(start..start + entry.size as usize);
            let (Some(kind), Some(payload)) = (kind, fields) else { break };
            let &Entry { time, process, thread, cpu, .. } = entry;
            if !take(&SystemRecord { time, cpu, process, thread, kind, payload }) {
                break;
            }
            taken += 1;
        }
        self.entries.drain(..taken);
        self.forget_removed();
    }

    /// Removes the first record.
    pub fn pop(&mut self) {
        self.entries.pop_front();
        self.forget_removed();
    }

    /// The fields of removed records leave memory now and then.
    fn forget_removed(&mut self) {
        let end = self.removed + self.bytes.len() as u64;
        let first = self.entries.front().map_or(end, |entry| entry.start);
        // While records keep coming, the queue is seldom empty.
        let read = (first - self.removed) as usize;
        if self.entries.is_empty() || read >= LEAST_REMOVED.max(self.bytes.len() - read) {
            self.bytes.drain(..read);
            self.removed = first;
            self.give_memory_back();
        }
    }

    fn give_memory_back(&mut self) {
        if self.bytes.capacity() > KEPT_MEMORY.max(self.bytes.len() * 4) {
            self.bytes.shrink_to(self.bytes.len() * 2);
        }
        let size = self.entries.len() * size_of::<Entry>();
        if self.entries.capacity() * size_of::<Entry>() > KEPT_MEMORY.max(size * 4) {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// Bytes of the records.
    pub fn size(&self) -> usize {
        let end = self.removed + self.bytes.len() as u64;
        let first = self.entries.front().map_or(end, |entry| entry.start);
        (end - first) as usize + self.entries.len() * size_of::<Entry>()
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A time that is not before that of any record so far.
    pub fn not_before(&self, time: i64) -> i64 {
        time.max(self.last)
    }

    /// Adds a SYSTEM record.
    pub fn system(&mut self, head: Head, hook: u16, version: u8, payload: &Payload) {
        let class = KernelClass { hook: Hook(hook), version };
        self.add(head, ClassicHeader::System(class), &payload.0);
    }

    /// Adds a PERFINFO record.
    pub fn perf_info(&mut self, head: Head, hook: u16, version: u8, payload: &Payload) {
        let class = KernelClass { hook: Hook(hook), version };
        self.add(head, ClassicHeader::PerfInfo(class), &payload.0);
    }

    /// Adds a frequent PERFINFO record, whose fields need no memory of their own.
    #[inline]
    pub fn frequent<const N: usize>(
        &mut self,
        head: Head,
        hook: u16,
        version: u8,
        fields: &[u8; N],
    ) {
        let class = KernelClass { hook: Hook(hook), version };
        let start = self.bytes.len();
        self.bytes.extend_from_slice(fields);
        self.add_from(start, head, ClassicHeader::PerfInfo(class));
    }

    /// Adds a FULL record of a class.
    pub fn classic(&mut self, head: Head, guid: Guid, kind: u8, version: u16, payload: &Payload) {
        let class = EventClass { guid, kind, level: Level::LOG_ALWAYS, version };
        self.add(head, ClassicHeader::Trace(class), &payload.0);
    }

    /// Adds a frequent PERFINFO record of some fields and two lists of addresses.
    pub fn with_addresses(
        &mut self,
        head: Head,
        hook: u16,
        version: u8,
        fields: &[u8],
        addresses: [&[u64]; 2],
    ) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(fields);
        for address in addresses.into_iter().flatten() {
            self.bytes.extend_from_slice(&address.to_le_bytes());
        }
        let class = KernelClass { hook: Hook(hook), version };
        self.add_from(start, head, ClassicHeader::PerfInfo(class));
    }

    /// Adds an event that no kernel class has.
    pub fn event(&mut self, head: Head, event: ProviderEvent, payload: &Payload) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&payload.0);
        let kind = self.kinds.of_event(event);
        self.add_kind(start, head, kind);
    }

    fn add(&mut self, head: Head, header: ClassicHeader, payload: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.add_from(start, head, header);
    }

    /// Adds a record whose fields are the last bytes.
    #[inline]
    fn add_from(&mut self, start: usize, head: Head, header: ClassicHeader) {
        let kind = self.kinds.of_class(header);
        self.add_kind(start, head, kind);
    }

    #[inline]
    fn add_kind(&mut self, start: usize, head: Head, kind: u16) {
        let time = self.not_before(head.time);
        self.last = time;
        self.entries.push_back(Entry {
            time,
            start: self.removed + start as u64,
            // A session stores no record of more than 64 KiB.
            size: (self.bytes.len() - start) as u32,
            process: head.process,
            thread: head.thread,
            cpu: head.cpu,
            kind,
        });
    }
}

/// The fields of a record, packed.
#[derive(Clone, Debug, Default)]
pub struct Payload(pub Vec<u8>);

/// A record has at most so many bytes of text.
const LONGEST_TEXT: usize = 16 << 10;

impl Payload {
    /// No fields yet.
    pub fn new() -> Payload {
        /// Holds the fields of the frequent events without growing.
        const USUAL_SIZE: usize = 64;
        Payload(Vec::with_capacity(USUAL_SIZE))
    }

    /// Adds a byte.
    pub fn u8(mut self, value: u8) -> Payload {
        self.0.push(value);
        self
    }

    /// Adds two bytes.
    pub fn u16(mut self, value: u16) -> Payload {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds four bytes.
    pub fn u32(mut self, value: u32) -> Payload {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds eight bytes.
    pub fn u64(mut self, value: u64) -> Payload {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds eight bytes each.
    pub fn u64s(mut self, values: &[u64]) -> Payload {
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
        self
    }

    /// Adds bytes as they are.
    pub fn bytes(mut self, bytes: &[u8]) -> Payload {
        self.0.extend(bytes);
        self
    }

    /// Adds a number of seven bits in each byte, the lowest first (ULEB128).
    pub fn var_uint(mut self, mut value: u64) -> Payload {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    /// Adds a text behind its size in two bytes.
    pub fn counted(mut self, text: &[u8]) -> Payload {
        let text = &text[..text.len().min(LONGEST_TEXT)];
        self.0.extend((text.len() as u16).to_le_bytes());
        self.0.extend(text);
        self
    }

    /// Adds a text of bytes and its NUL.
    pub fn ansi(mut self, text: &[u8]) -> Payload {
        let text = &text[..text.len().min(LONGEST_TEXT)];
        self.0.extend(text.iter().take_while(|byte| **byte != 0));
        self.0.push(0);
        self
    }

    /// Adds a text in UTF-16 and its NUL.
    pub fn wide(mut self, text: &[u8]) -> Payload {
        let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST_TEXT)]);
        for unit in text.encode_utf16().take_while(|unit| *unit != 0) {
            self.0.extend(unit.to_le_bytes());
        }
        self.0.extend([0, 0]);
        self
    }

    /// Adds a text in UTF-16 of at most `units` units, and its NUL.
    pub fn wide_up_to(mut self, text: &[u8], units: usize) -> Payload {
        // No unit has more than three bytes.
        let text = String::from_utf8_lossy(&text[..text.len().min(units.saturating_mul(3))]);
        let mut rest = units;
        for character in text.chars().take_while(|character| *character != '\0') {
            let Some(left) = rest.checked_sub(character.len_utf16()) else { break };
            rest = left;
            let mut units = [0; 2];
            character
                .encode_utf16(&mut units)
                .iter()
                .for_each(|unit| self.0.extend(unit.to_le_bytes()));
        }
        self.0.extend([0, 0]);
        self
    }

    /// Adds a text in UTF-16 in a field of `units` units, its NUL included.
    pub fn fixed(mut self, text: &[u8], units: usize) -> Payload {
        let text = String::from_utf8_lossy(text);
        let mut all: Vec<u16> = text.encode_utf16().take(units - 1).collect();
        all.resize(units, 0);
        all.iter().for_each(|unit| self.0.extend(unit.to_le_bytes()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_queue_never_go_back() {
        let mut records = Records::default();
        let head = |time| Head { time, cpu: 0, process: 1, thread: 2 };
        records.perf_info(head(10), 0x0524, 4, &Payload::new().u32(7));
        records.system(head(5), 0x0301, 4, &Payload::new().ansi(b"a\0b").wide("é".as_bytes()));
        assert_eq!(
            records.peek().map(|r| (r.time, r.payload.to_vec())),
            Some((10, vec![7, 0, 0, 0]))
        );
        records.pop();
        let second = records.peek().unwrap();
        assert_eq!((second.time, second.payload), (10, &[b'a', 0, 0xe9, 0, 0, 0][..]));
        assert_eq!(second.hook(), Some(0x0301));
        records.pop();
        assert!(records.is_empty() && records.bytes.is_empty());
    }

    /// Records are given up to a time, until one is not taken; the others stay.
    #[test]
    fn records_are_given_until_one_is_not_taken() {
        let mut records = Records::default();
        for time in 1..=6 {
            let head = Head { time: time * 10, cpu: 0, process: 1, thread: 2 };
            records.perf_info(head, 0x0524, 4, &Payload::new().u64(time as u64));
        }
        let mut give = |until, first_refused: i64| {
            let mut given = Vec::new();
            records.give(until, |record| {
                assert_eq!(record.payload, (record.time as u64 / 10).to_le_bytes());
                let is_taken = record.time < first_refused;
                given.extend(is_taken.then_some(record.time));
                is_taken
            });
            (given, records.peek().map(|record| record.time), records.len())
        };
        assert_eq!(give(9, i64::MAX), (vec![], Some(10), 6));
        assert_eq!(give(30, 20), (vec![10], Some(20), 5));
        assert_eq!(give(40, i64::MAX), (vec![20, 30, 40], Some(50), 2));
        assert_eq!(give(i64::MAX, i64::MAX), (vec![50, 60], None, 0));
        assert!(records.bytes.is_empty());
    }

    /// A queue that is never empty has no more memory than its records need, and gives back what a burst needed.
    #[test]
    fn removed_records_leave_no_memory_behind() {
        let mut records = Records::default();
        let head = |time| Head { time, cpu: 0, process: 1, thread: 2 };
        let add = |records: &mut Records, number: u64| {
            records.perf_info(head(number as i64), 0x0524, 4, &Payload::new().u64(number));
        };
        add(&mut records, 0);
        for number in 1..100_000 {
            add(&mut records, number);
            let first = records.peek().unwrap();
            assert_eq!(
                (first.time, first.payload),
                (number as i64 - 1, &(number - 1).to_le_bytes()[..])
            );
            records.pop();
            assert!(records.bytes.len() <= 2 * LEAST_REMOVED);
        }
        assert_eq!(records.size(), 8 + size_of::<Entry>());
        let memory = |records: &Records| {
            records.bytes.capacity() + records.entries.capacity() * size_of::<Entry>()
        };
        (0..200_000).for_each(|number| add(&mut records, number));
        let (size, most) = (records.size(), memory(&records));
        assert!(size > 200_000 * size_of::<Entry>() && most > size);
        (0..200_000).for_each(|_| records.pop());
        assert_eq!(
            (records.len(), records.peek().map(|one| one.payload)),
            (1, Some(&199_999u64.to_le_bytes()[..]))
        );
        assert!(memory(&records) <= 2 * KEPT_MEMORY, "{} of {most}", memory(&records));
    }
}
