//! Attribution: the process and thread to which an event belongs.
//!
//! An event of a provider belongs to the process that wrote it. A kernel event is recorded on whatever thread runs: a CPU
//! sample, a context switch, a stack or a disk transfer belongs to the thread that its payload names, and through the
//! thread to a process.

use etw_decode::kernel_pointer_size;
use etw_types::{EventRecord, Hook, le};
use std::collections::HashMap;

/// Threads of a trace; only a hostile one has more.
const LIMIT: usize = 1 << 20;

/// The process and thread to which an event belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    pub process: Option<u32>,
    pub thread: Option<u32>,
    /// The interrupt that ran on the thread; `None`: the thread's own code.
    pub interrupt: Option<Interrupt>,
}

/// Code that interrupts a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interrupt {
    /// A deferred procedure call.
    Dpc,
    /// An interrupt service routine.
    Isr,
}

impl Interrupt {
    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Interrupt::Dpc => "DPC",
            Interrupt::Isr => "ISR",
        }
    }

    /// PerfInfo: threaded DPC, ISR, DPC, timer DPC, ISR-MSI, ISR-PASS.
    fn of(hook: Hook) -> Option<Interrupt> {
        match hook.0 {
            0x0f42 | 0x0f44 | 0x0f45 => Some(Interrupt::Dpc),
            0x0f32 | 0x0f43 | 0x0f5f => Some(Interrupt::Isr),
            _ => None,
        }
    }
}

/// When DPCs and interrupts ran, by file and CPU.
#[derive(Debug, Default)]
pub struct Interrupts {
    /// In the order of their ends.
    runs: HashMap<(u32, u16), Vec<Run>>,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    start: i64,
    end: i64,
    interrupt: Interrupt,
}

impl Interrupts {
    /// Whether a record is of a DPC or an interrupt.
    pub fn is_end(hook: Hook) -> bool {
        Interrupt::of(hook).is_some()
    }

    /// Notes a DPC or an interrupt: its record is written at its end and has the raw time of its start.
    pub fn learn(&mut self, hook: Hook, record: &EventRecord<'_>) {
        let Some(interrupt) = Interrupt::of(hook) else { return };
        let Some(start) = Interrupts::start(record) else { return };
        if self.count < LIMIT && start <= record.order_time {
            self.count += 1;
            let runs = self.runs.entry((record.position.file_index, record.cpu)).or_default();
            runs.push(Run { start, end: record.order_time, interrupt });
        }
    }

    /// The raw time at which a DPC or an interrupt started.
    pub fn start(record: &EventRecord<'_>) -> Option<i64> {
        le::i64(record.payload, 0)
    }

    /// The interrupt in which a CPU sample was taken.
    pub fn at(&self, record: &EventRecord<'_>) -> Option<Interrupt> {
        if self.count == 0 || record.hook != Some(SAMPLE) {
            return None;
        }
        let time = record.order_time;
        let runs = self.runs.get(&(record.position.file_index, record.cpu))?;
        // The first to end is the innermost: an interrupt inside a DPC ends before it.
        let next = runs.partition_point(|run| run.end < time);
        let nested = runs[next..].iter().take(8).find(|run| run.start <= time);
        nested.map(|run| run.interrupt)
    }
}

/// PerfInfo/SampleProf.
pub const SAMPLE: Hook = Hook(0x0f2e);

impl Owner {
    /// The ids that the record's header stores. Windows stores 4294967295 if there is none.
    fn of_header(record: &EventRecord<'_>) -> Owner {
        let known = |id: &u32| *id != u32::MAX;
        let (process, thread) = (record.process_id.filter(known), record.thread_id.filter(known));
        Owner { process, thread, interrupt: None }
    }
}

/// The process of each thread, by time: a system reuses thread ids.
#[derive(Debug, Default)]
pub struct ThreadTable {
    /// Lives of each id, in the order in which they became known.
    lives: HashMap<u32, Vec<Life>, foldhash::fast::RandomState>,
    count: usize,
    /// Records come as a stream without an end: only the last life of an id is kept.
    is_stream: bool,
}

#[derive(Clone, Copy, Debug)]
struct Life {
    file_index: u32,
    /// Raw time of the thread's start; the smallest time if the trace started later.
    start: i64,
    process: u32,
}

impl ThreadTable {
    /// The threads of a stream, whose records are asked about as they come.
    #[cfg(any(target_os = "linux", windows))]
    pub fn of_stream() -> ThreadTable {
        ThreadTable { is_stream: true, ..ThreadTable::default() }
    }

    /// Notes a thread that `record` names; `is_start`: it starts with this record.
    pub fn add(&mut self, record: &EventRecord<'_>, thread: u32, process: u32, is_start: bool) {
        let file_index = record.position.file_index;
        let start = if is_start { record.order_time } else { i64::MIN };
        let lives = self.lives.entry(thread).or_default();
        if self.is_stream && is_start {
            self.count -= lives.drain(..).count();
        }
        // Rundown at the end repeats a thread that is known; a late start of an unknown one does not change it.
        let is_known = |life: &Life| life.process == process && (!is_start || life.start == start);
        if self.count < LIMIT && !lives.iter().any(is_known) {
            self.count += 1;
            lives.push(Life { file_index, start, process });
        }
    }

    /// The process of a thread at the time of a record.
    pub fn process_at(&self, record: &EventRecord<'_>, thread: u32) -> Option<u32> {
        let lives = self.lives.get(&thread)?;
        let has_begun = |life: &&Life| {
            life.file_index == record.position.file_index && life.start <= record.order_time
        };
        let life = lives.iter().filter(has_begun).max_by_key(|life| life.start);
        life.or_else(|| lives.first()).map(|life| life.process)
    }

    /// The process of a thread at any time: the last one known.
    pub fn process_of(&self, thread: u32) -> Option<u32> {
        Some(self.lives.get(&thread)?.last()?.process)
    }

    /// The thread that a kernel event names.
    pub fn named_thread(record: &EventRecord<'_>) -> Option<u32> {
        match named_owner(record.hook?, record) {
            Named::Thread(thread) => Some(thread),
            _ => None,
        }
    }

    /// The owner of an event that this thread caused.
    pub fn owner_by_thread(&self, record: &EventRecord<'_>, thread: Option<u32>) -> Owner {
        // Thread 0 is the idle thread of each CPU.
        let process = thread.and_then(|thread| match thread {
            0 => Some(0),
            _ => self.process_at(record, thread),
        });
        Owner { process, thread, interrupt: None }
    }

    /// The owner of an event.
    pub fn owner(&self, record: &EventRecord<'_>) -> Owner {
        let Some(hook) = record.hook else { return Owner::of_header(record) };
        match named_owner(hook, record) {
            Named::Thread(thread) => self.owner_by_thread(record, Some(thread)),
            Named::Both(process, thread) => {
                Owner { process: Some(process), thread: Some(thread), interrupt: None }
            }
            Named::Process(process) => Owner { process: Some(process), ..Owner::of_header(record) },
            Named::Interrupt(interrupt) => Owner { interrupt: Some(interrupt), ..Owner::default() },
            Named::None => {
                let header = Owner::of_header(record);
                let process = || self.process_at(record, header.thread?);
                Owner { process: header.process.or_else(process), ..header }
            }
        }
    }
}

/// The owner that a kernel record's payload names.
enum Named {
    Thread(u32),
    Both(u32, u32),
    /// The header's thread acted for this process.
    Process(u32),
    /// A DPC or an interrupt: it runs on a thread and belongs to none.
    Interrupt(Interrupt),
    None,
}

/// Offsets as the kernel classes have them (`etw-decode/src/kernel.txt`).
fn named_owner(hook: Hook, record: &EventRecord<'_>) -> Named {
    let payload = record.payload;
    let pointer = || usize::from(kernel_pointer_size(record));
    let thread_at = |offset: usize| le::u32(payload, offset).map_or(Named::None, Named::Thread);
    let process_at = |offset: usize| le::u32(payload, offset).map_or(Named::None, Named::Process);
    if let Some(interrupt) = Interrupt::of(hook) {
        return Named::Interrupt(interrupt);
    }
    let version = record.descriptor.version;
    match hook.0 {
        // Behind the instruction pointer().
        _ if hook == SAMPLE => thread_at(pointer()),
        // Process: behind its key. Before version 1 its id is a pointer().
        0x0301..=0x0304 | 0x0327 if version >= 1 => process_at(pointer()),
        0x0301..=0x0304 => process_at(0),
        // Process: PerfCtr, PerfCtrRundown.
        0x0320 | 0x0321 => process_at(0),
        // Image: Load of older kernels, UnLoad, DCStart, DCEnd, Load; behind base and size.
        0x030a | 0x1402..=0x1404 | 0x140a if version >= 1 => process_at(2 * pointer()),
        // TcpIp and UdpIp, but for Fail: 4294967295 if the process is not known.
        0x060a..=0x0610 | 0x0612..=0x0622 | 0x080a..=0x0810 | 0x0812..=0x0822 if version >= 1 => {
            match le::u32(payload, 0) {
                Some(u32::MAX) | None => Named::None,
                Some(process) => Named::Process(process),
            }
        }
        // Thread/CSwitch: the new thread; Thread/ReadyThread.
        0x0524 | 0x0532 => thread_at(0),
        // StackWalk: Stack, StackKeyKernel, StackKeyUser.
        0x1820 | 0x1825 | 0x1826 => match (le::u32(payload, 8), le::u32(payload, 12)) {
            (Some(process), Some(thread)) => Named::Both(process, thread),
            _ => Named::None,
        },
        // PageFault/HardFault.
        0x0220 => thread_at(16 + 2 * pointer()),
        // PageFault: VirtualAlloc, VirtualFree; behind base and size.
        0x0262 | 0x0263 if version >= 2 => process_at(2 * pointer()),
        // FileIo: MapFile, UnmapFile, MapFileDCStart, MapFileDCEnd.
        0x0425..=0x0428 if version >= 2 => process_at(8 + 3 * pointer()),
        // FileIo of version 2: the thread is behind the IRP. Read and Write have an offset before it.
        0x0443 | 0x0444 if version == 2 => thread_at(8 + pointer()),
        0x0440..=0x044b | 0x044d if version == 2 => thread_at(pointer()),
        // FileIo of version 3: Create; Cleanup, Close, DirEnum, Flush, DirNotify; Read, Write; those with ExtraInfo.
        0x0440 if version >= 3 => thread_at(2 * pointer()),
        0x0441 | 0x0442 | 0x0448 | 0x0449 | 0x044d if version >= 3 => thread_at(3 * pointer()),
        0x0443 | 0x0444 if version >= 3 => thread_at(8 + 3 * pointer()),
        0x0445..=0x0447 | 0x044a | 0x044b | 0x044f..=0x0451 if version >= 3 => {
            thread_at(4 * pointer())
        }
        // DiskIo of version 3: Read and Write, their Inits, FlushBuffers.
        0x010a | 0x010b | 0x0137 | 0x0138 if version >= 3 => thread_at(32 + 2 * pointer()),
        0x010c | 0x010d | 0x010f | 0x013a..=0x013c if version >= 3 => thread_at(pointer()),
        0x010e | 0x0139 if version >= 3 => thread_at(16 + pointer()),
        _ => Named::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::HeaderType;

    fn record(hook: u16, version: u8, time: i64, payload: &[u8]) -> EventRecord<'_> {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(hook));
        record.descriptor.version = version;
        record.order_time = time;
        record
    }

    #[test]
    fn a_sample_belongs_to_the_thread_in_its_payload_at_its_time() {
        let mut threads = ThreadTable::default();
        threads.add(&record(0x0503, 3, 5, &[]), 7, 100, false);
        threads.add(&record(0x0501, 3, 50, &[]), 7, 200, true);
        threads.add(&record(0x0504, 3, 90, &[]), 7, 200, false);
        let sample = [&8u64.to_le_bytes()[..], &7u32.to_le_bytes(), &[0; 4]].concat();
        let at = |time| threads.owner(&record(0x0f2e, 2, time, &sample));
        let owner = |process| Owner { process: Some(process), thread: Some(7), interrupt: None };
        assert_eq!(at(10), owner(100));
        assert_eq!(at(60), owner(200));
        assert_eq!(threads.process_of(7), Some(200));
    }

    /// A stream has no end: of a thread id that is used again and again, the last life is kept.
    #[test]
    fn threads_of_a_stream_take_no_more_memory_in_time() {
        let mut threads = ThreadTable::of_stream();
        for time in 0..10_000 {
            threads.add(&record(0x0501, 3, time, &[]), 7, time as u32, true);
            threads.add(&record(0x0502, 3, time, &[]), 7, time as u32, false);
            assert_eq!(threads.process_at(&record(0x0f2e, 2, time, &[]), 7), Some(time as u32));
        }
        assert!(threads.count <= 2 && threads.lives[&7].len() == threads.count);
    }

    #[test]
    fn idle_time_is_process_0_and_a_dpc_has_no_owner() {
        let threads = ThreadTable::default();
        assert_eq!(threads.owner(&record(0x0524, 2, 1, &[0; 24])).process, Some(0));
        let dpc = Owner { interrupt: Some(Interrupt::Dpc), ..Owner::default() };
        assert_eq!(threads.owner(&record(0x0f44, 2, 1, &[0; 16])), dpc);
    }

    #[test]
    fn a_sample_in_an_interrupt_inside_a_dpc_is_interrupt_time() {
        let mut interrupts = Interrupts::default();
        let run = |start: i64| [&start.to_le_bytes()[..], &[0; 8]].concat();
        for (hook, start, end) in [(0x0f43, 12, 14), (0x0f44, 10, 20)] {
            interrupts.learn(Hook(hook), &record(hook, 2, end, &run(start)));
        }
        let at = |time| interrupts.at(&record(0x0f2e, 2, time, &[0; 16]));
        assert_eq!(at(9), None);
        assert_eq!(at(11), Some(Interrupt::Dpc));
        assert_eq!(at(13), Some(Interrupt::Isr));
        assert_eq!(at(15), Some(Interrupt::Dpc));
        assert_eq!(at(21), None);
    }

    #[test]
    fn image_and_network_events_belong_to_the_process_in_their_payload() {
        let threads = ThreadTable::default();
        let mut image = [0; 64];
        image[16..20].copy_from_slice(&77u32.to_le_bytes());
        let mut loaded = record(0x140a, 3, 1, &image);
        (loaded.process_id, loaded.thread_id) = (Some(4), Some(8));
        let owner = threads.owner(&loaded);
        assert_eq!((owner.process, owner.thread), (Some(77), Some(8)));
        let sent = [78u32, 5].map(u32::to_le_bytes).concat();
        assert_eq!(threads.owner(&record(0x060a, 2, 1, &sent)).process, Some(78));
        let unknown = [u32::MAX, 5].map(u32::to_le_bytes).concat();
        assert_eq!(threads.owner(&record(0x081b, 2, 1, &unknown)).process, None);
    }

    /// Against the fields of the decoded record.
    #[test]
    fn kernel_records_belong_to_the_thread_or_process_that_a_field_of_theirs_names() {
        let numbers: Vec<u8> = (1..=120).collect();
        for (hook, version, field) in [
            (0x0f2e, 2, "ThreadId"),
            (0x0301, 3, "ProcessId"),
            (0x0304, 1, "ProcessId"),
            (0x1402, 2, "ProcessId"),
            (0x060a, 2, "PID"),
            (0x081a, 2, "PID"),
            (0x0524, 2, "NewThreadId"),
            (0x0532, 2, "TThreadId"),
            (0x1820, 2, "StackThread"),
            (0x1820, 2, "StackProcess"),
            (0x1825, 2, "StackThread"),
            (0x0220, 2, "TThreadId"),
            (0x010a, 3, "IssuingThreadId"),
            (0x010b, 3, "IssuingThreadId"),
            (0x010c, 3, "IssuingThreadId"),
            (0x010f, 3, "IssuingThreadId"),
            (0x010e, 3, "IssuingThreadId"),
            (0x0262, 2, "ProcessId"),
            (0x0263, 2, "ProcessId"),
            (0x0425, 2, "ProcessId"),
            (0x0428, 2, "ProcessId"),
        ]
        .into_iter()
        .chain((0x0440..=0x044b).chain([0x044d]).map(|hook| (hook, 2, "TTID")))
        .chain((0x0440..=0x044b).chain([0x044d]).map(|hook| (hook, 3, "TTID")))
        .chain((0x044f..=0x0451).map(|hook| (hook, 3, "TTID")))
        {
            let mut payload = numbers.clone();
            if hook >> 8 == 3 {
                // No user, no texts.
                payload[32..].fill(0);
            }
            let record = record(hook, version, 1, &payload);
            let owner = ThreadTable::default().owner(&record);
            let mut decoder = etw_decode::Decoder::new();
            let decoded = decoder.decode(&record);
            let texts = decoded.fields_text(&record, &etw_decode::Style::default()).unwrap();
            let text = texts.iter().find(|(name, _)| name == field);
            let text = &text.unwrap_or_else(|| panic!("{hook:#x}: {texts:?}")).1;
            let named = match text.strip_prefix("0x") {
                // The thread has the size of a pointer in version 2.
                Some(digits) => u64::from_str_radix(digits, 16).unwrap() as u32,
                None => text.parse().unwrap(),
            };
            let of_field = if field.contains("Thread") || field == "TTID" {
                owner.thread
            } else {
                owner.process
            };
            assert_eq!(of_field, Some(named), "{hook:#x} {field}: {texts:?}");
        }
    }

    #[test]
    fn the_header_decides_for_events_of_providers() {
        let mut event = EventRecord::new(HeaderType::Event64, &[]);
        (event.process_id, event.thread_id) = (Some(4), Some(u32::MAX));
        let owner = ThreadTable::default().owner(&event);
        assert_eq!(owner, Owner { process: Some(4), ..Owner::default() });
    }

    #[test]
    fn malicious_payloads_have_no_owner() {
        for hook in 0..=u16::MAX {
            let _ = ThreadTable::default().owner(&record(hook, 3, 0, &[1, 2, 3]));
            Interrupts::default().learn(Hook(hook), &record(hook, 3, 0, &[1, 2, 3]));
        }
    }
}
