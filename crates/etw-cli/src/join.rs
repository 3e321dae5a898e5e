//! Names of processes and threads, from what the kernel's events tell of them.

use crate::attribution::{Owner, ThreadTable};
use etw_decode::{Decoded, Decoder, Field, Style, Value, Visitor};
use etw_etl::read::Records;
use etw_types::{EventRecord, Guid, Hook, is_session_report, le};
use std::collections::{BTreeMap, HashMap};

/// Microsoft-Windows-Kernel-Process
const KERNEL_PROCESS: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
/// Processes and threads of a trace; only a hostile one has more.
const LIMIT: usize = 1 << 20;

/// Bytes of stacks that are kept for their events.
const STACK_LIMIT: usize = 256 << 20;

/// Names of a trace's processes, threads, files and images, and stacks of its events.
#[derive(Debug, Default)]
pub struct Names {
    processes: HashMap<u32, String>,
    threads: ThreadTable,
    thread_names: HashMap<u32, String>,
    /// By the address of a file object, or its key.
    files: HashMap<u64, String>,
    /// Of the kernel's events, by file and raw time: thread and frames.
    stacks: HashMap<(u32, i64), Vec<Stack>>,
    stack_size: usize,
    /// By process (0: the kernel's) and base.
    images: HashMap<u32, BTreeMap<u64, Image>>,
    image_count: usize,
    /// Stacks that found no room.
    pub stacks_left_out: u64,
}

/// Loaded code.
#[derive(Debug)]
struct Image {
    size: u64,
    /// Subtracted from an address: the start of a Windows image, the load bias of an ELF file.
    zero: u64,
    name: String,
}

/// A thread and its frames.
type Stack = (u32, Box<[u64]>);

/// FileIo: Name, FileCreate, FileRundown.
fn is_file_name(hook: Hook) -> bool {
    matches!(hook.0, 0x0400 | 0x0420 | 0x0424)
}

/// StackWalk: Stack.
fn is_stack(hook: Hook) -> bool {
    hook.0 == 0x1820
}

/// Some fields of an event, as text.
#[derive(Default)]
pub struct Picked {
    wanted: &'static [&'static str],
    found: Vec<Option<String>>,
}

impl Picked {
    /// The fields with these names; `None` where the payload does not fit.
    pub fn of(
        wanted: &'static [&'static str],
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
    ) -> Option<Picked> {
        let mut picked = Picked { wanted, found: vec![None; wanted.len()] };
        decoded.visit(record, &mut picked).ok()?.then_some(picked)
    }

    pub fn text(&self, number: usize) -> Option<&str> {
        self.found.get(number)?.as_deref()
    }

    pub fn number<N: std::str::FromStr>(&self, number: usize) -> Option<N> {
        self.text(number)?.parse().ok()
    }
}

impl Visitor for Picked {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        let place = self.wanted.iter().position(|name| name.eq_ignore_ascii_case(&field.name));
        if let Some(place) = place.filter(|place| self.found[*place].is_none()) {
            let mut text = Vec::new();
            value.write_text(&mut text, &Style::default());
            self.found[place] = Some(String::from_utf8_lossy(&text).into_owned());
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

impl Names {
    /// Gathers the names of a whole trace: rundown events are at its start and at its end.
    pub fn gather(mut records: Records, mut decoder: Decoder) -> Names {
        let mut names = Names::default();
        while let Some(record) = records.next() {
            if !Names::may_tell(&record) {
                continue;
            }
            let decoded = decoder.decode(&record);
            names.learn(&record, &decoded);
        }
        names
    }

    /// Whether an event is of those that tell of processes and threads.
    pub fn may_tell(record: &EventRecord<'_>) -> bool {
        match record.hook {
            Some(hook) => {
                matches!(hook.group(), 3 | 5 | 0x14) || is_file_name(hook) || is_stack(hook)
            }
            None => {
                matches!(record.provider, Some(KERNEL_PROCESS | etw_host::LEDGER_PROVIDER))
                    || record.header.is_classic()
            }
        }
    }

    /// Learns names from an event about a process or thread.
    pub fn learn(&mut self, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
        let is_kernel = record.hook.is_some() || record.header.is_classic();
        if !is_kernel {
            if is_session_report(record) {
                self.module(record);
            }
            if record.provider == Some(KERNEL_PROCESS) && matches!(record.descriptor.id, 1 | 2 | 15)
            {
                self.process(&["ProcessID", "ImageName"], record, decoded);
            }
            return;
        }
        if record.hook.is_some_and(is_file_name) {
            let picked = Picked::of(&["FileObject", "FileName"], record, decoded);
            if let Some(picked) = picked
                && let (Some(object), Some(name)) = (picked.text(0), picked.text(1))
                && let Ok(object) = u64::from_str_radix(object.trim_start_matches("0x"), 16)
                && self.files.len() < LIMIT
            {
                self.files.insert(object, name.to_owned());
            }
            return;
        }
        if record.hook.is_some_and(is_stack) {
            return self.stack(record);
        }
        match decoded.event_name() {
            Some(
                "Process/Start" | "Process/DCStart" | "Process/DCEnd" | "Process/Defunct"
                | "Process/End",
            ) => {
                self.process(&["ProcessId", "ImageFileName"], record, decoded);
            }
            Some("Thread/Start" | "Thread/DCStart" | "Thread/DCEnd" | "Thread/End") => {
                let picked = Picked::of(&["TThreadId", "ProcessId", "ThreadName"], record, decoded);
                let Some(picked) = picked else { return };
                if let (Some(thread), Some(process)) = (picked.number(0), picked.number(1)) {
                    let is_start = decoded.event_name() == Some("Thread/Start");
                    self.threads.add(record, thread, process, is_start);
                    self.name_thread(thread, picked.text(2));
                }
            }
            Some("Image/Load" | "Image/DCStart" | "Image/DCEnd" | "Image/UnLoad") => {
                let fields = &["ImageBase", "ImageSize", "ProcessId", "FileName"];
                let Some(picked) = Picked::of(fields, record, decoded) else { return };
                let hex = |number| {
                    u64::from_str_radix(picked.text(number)?.trim_start_matches("0x"), 16).ok()
                };
                if let (Some(base), Some(size), Some(process), Some(name)) =
                    (hex(0), hex(1), picked.number(2), picked.text(3))
                    && self.image_count < LIMIT
                {
                    let name = name.rsplit(['\\', '/']).next().unwrap_or(name);
                    self.image_count += 1;
                    let image = Image { size, zero: base, name: name.to_owned() };
                    self.images.entry(process).or_default().insert(base, image);
                }
            }
            Some("Thread/SetName") => {
                let Some(picked) =
                    Picked::of(&["ThreadId", "ProcessId", "ThreadName"], record, decoded)
                else {
                    return;
                };
                if let (Some(thread), Some(process)) = (picked.number(0), picked.number(1)) {
                    self.threads.add(record, thread, process, false);
                    self.name_thread(thread, picked.text(2));
                }
            }
            _ => {}
        }
    }

    fn name_thread(&mut self, thread: u32, name: Option<&str>) {
        let name = name.filter(|name| !name.is_empty());
        if let Some(name) = name.filter(|_| self.thread_names.len() < LIMIT) {
            self.thread_names.insert(thread, name.to_owned());
        }
    }

    /// Notes a module that an instrumented program of ours had loaded.
    fn module(&mut self, record: &EventRecord<'_>) {
        let Some((process, module)) = etw_host::report::read_module(record) else { return };
        if self.image_count < LIMIT {
            let name = module.path.rsplit('/').next().unwrap_or_default().to_owned();
            let image = Image { size: module.size, zero: module.bias, name };
            self.image_count += 1;
            self.images.entry(process).or_default().insert(module.base, image);
        }
    }

    fn process(
        &mut self,
        fields: &'static [&'static str],
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
    ) {
        let Some(picked) = Picked::of(fields, record, decoded) else { return };
        if let (Some(process), Some(name)) = (picked.number(0), picked.text(1))
            && !name.is_empty()
            && self.processes.len() < LIMIT
        {
            // The last part of a path.
            let name = name.rsplit(['\\', '/']).next().unwrap_or(name);
            self.processes.insert(process, name.to_owned());
        }
    }

    /// `u64` time of the event, `u32` process, `u32` thread, addresses.
    fn stack(&mut self, record: &EventRecord<'_>) {
        let (payload, width) = (record.payload, usize::from(record.pointer_size));
        let (Some(time), Some(thread)) = (le::i64(payload, 0), le::u32(payload, 12)) else {
            return;
        };
        let frames: Box<[u64]> = payload[16..]
            .chunks_exact(width.max(4))
            .filter_map(|frame| match width {
                4 => le::u32(frame, 0).map(u64::from),
                _ => le::u64(frame, 0),
            })
            .collect();
        self.stack_size += frames.len() * 8 + 64;
        if self.stack_size > STACK_LIMIT {
            self.stacks_left_out += 1;
            return;
        }
        self.stacks.entry((record.position.file_index, time)).or_default().push((thread, frames));
    }

    /// The stacks that the kernel recorded for an event: of the kernel's side, and of the user's.
    pub fn stacks_of(&self, record: &EventRecord<'_>) -> impl Iterator<Item = &[u64]> {
        let time = record.raw_timestamp().filter(|_| !record.hook.is_some_and(is_stack));
        let found = time.and_then(|time| self.stacks.get(&(record.position.file_index, time)));
        let thread = record.thread_id;
        let all = found.map_or(&[][..], Vec::as_slice).iter();
        all.filter(move |(of, _)| thread.is_none_or(|thread| thread == *of))
            .map(|(_, frames)| &**frames)
    }

    /// The file that an event of the kernel's is about, by its object or key.
    pub fn file_of(&self, record: &EventRecord<'_>, decoded: &Decoded<'_>) -> Option<&str> {
        let hook = record.hook.filter(|hook| !self.files.is_empty() && !is_file_name(*hook))?;
        // DiskIo, PageFault, FileIo
        if !matches!(hook.group(), 1 | 2 | 4) {
            return None;
        }
        let picked = Picked::of(&["FileKey", "FileObject"], record, decoded)?;
        let objects = (0..2).filter_map(|number| picked.text(number));
        let mut objects =
            objects.filter_map(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        objects.find_map(|object| self.files.get(&object)).map(String::as_str)
    }

    /// The image that an address of a process lies in, and how far behind its beginning.
    pub fn image_of(&self, process: Option<u32>, address: u64) -> Option<(&str, u64)> {
        let of = |process: u32| {
            let (base, image) = self.images.get(&process)?.range(..=address).next_back()?;
            let inside = address - base < image.size;
            inside.then_some((image.name.as_str(), address.wrapping_sub(image.zero)))
        };
        // The kernel's are every process's.
        process.and_then(of).or_else(|| of(0))
    }

    /// The process and thread to which an event belongs.
    pub fn owner(&self, record: &EventRecord<'_>) -> Owner {
        let owner = self.threads.owner(record);
        if owner != Owner::default() {
            return owner;
        }
        // A kernel event without a thread belongs to the thread of its stack.
        let thread = self.stack_thread(record);
        Owner { process: thread.and_then(|thread| self.threads.process_at(record, thread)), thread }
    }

    /// The process whose code the stack of an event runs. A context switch has the stack of one of its two threads.
    pub fn stack_process(&self, record: &EventRecord<'_>) -> Option<u32> {
        let thread = self.stack_thread(record);
        thread
            .and_then(|thread| self.threads.process_at(record, thread))
            .or_else(|| self.owner(record).process)
    }

    /// The thread of the stack that the kernel recorded for an event.
    fn stack_thread(&self, record: &EventRecord<'_>) -> Option<u32> {
        if self.stacks.is_empty() || record.thread_id.is_some() {
            return None;
        }
        let time = record.raw_timestamp()?;
        Some(self.stacks.get(&(record.position.file_index, time))?.first()?.0)
    }

    /// The record with the ids of its owner, for filters and tracks by process and thread.
    pub fn attributed<'r>(&self, record: &EventRecord<'r>) -> EventRecord<'r> {
        let owner = self.owner(record);
        let mut record = *record;
        record.process_id = owner.process.or(record.process_id);
        record.thread_id = owner.thread.or(record.thread_id);
        record
    }

    /// The name of a process.
    pub fn process_name(&self, process: u32) -> Option<&str> {
        match process {
            0 => Some("Idle"),
            _ => self.processes.get(&process).map(String::as_str),
        }
    }

    /// The name of a thread.
    pub fn thread_name(&self, thread: u32) -> Option<&str> {
        self.thread_names.get(&thread).map(String::as_str)
    }

    /// The process of a thread.
    pub fn process_of(&self, thread: u32) -> Option<u32> {
        self.threads.process_of(thread)
    }
}
