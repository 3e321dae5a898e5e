//! Symbols for readers: events of `Universal.System`, and whole build ids.
//!
//! `Universal.System` is the provider by which PerfView finds symbols of ELF files. Its numbers are ULEB128, its texts UTF-8 behind
//! their size in two bytes. Source: PerfView's document on universal providers and TraceEvent's parser. No reader of Windows was at
//! hand to look at such events in an `.etl` file.

use std::collections::{BTreeMap, HashMap, HashSet};

use etw_types::LoadedModule;
use foldhash::fast::RandomState;

use super::Shaper;
use crate::flags::Flag;
use crate::neutral::Image;
use crate::record::{Head, Payload, ProviderEvent, Records};

/// Ids of events of `Universal.System`.
const PROCESS_MAPPING: u16 = 3;
const PROCESS_SYMBOL: u16 = 4;
const MAPPING_METADATA: u16 = 5;
/// Files whose metadata is remembered. Beyond that it is written again.
const MAX_FILES: usize = 4096;
/// A file's metadata is written again if it is needed so much later, in 100 ns: a buffer of the newest events may have lost it.
const AGAIN: i64 = 1_000_000;
/// Addresses of the kernel that are remembered.
const MAX_ADDRESSES: usize = 1 << 16;

/// A function of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFunction {
    /// The address of its first byte.
    pub start: u64,
    /// The address behind its last byte.
    pub end: u64,
    /// Its name.
    pub name: Vec<u8>,
}

/// Facts about symbols that the trace has.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// The numbers of files by build id and first address, and the times of their last records.
    files: HashMap<(Vec<u8>, u64), (u64, i64), RandomState>,
    /// The number that was given last.
    last_number: u64,
    /// The numbers of the kernel's images by their bases, and the ends of the images.
    kernel_mappings: BTreeMap<u64, (u64, u64)>,
    kernel_addresses: KernelAddresses,
    /// Functions of the kernel that the end of the recording names.
    functions: Vec<KernelFunction>,
}

impl Symbols {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The end of the trace has the metadata of all files again: its beginning may have been overwritten.
    pub fn repeat_files(&mut self) {
        self.files.values_mut().for_each(|(_, time)| *time = i64::MIN);
    }
}

/// Addresses of the kernel's code that records have.
#[derive(Debug)]
struct KernelAddresses {
    /// Those that came last, by a part of their bits.
    recent: Box<[u64; KernelAddresses::RECENT]>,
    all: HashSet<u64, RandomState>,
}

impl Default for KernelAddresses {
    fn default() -> KernelAddresses {
        KernelAddresses { recent: Box::new([0; KernelAddresses::RECENT]), all: HashSet::default() }
    }
}

impl KernelAddresses {
    const RECENT: usize = 4096;

    #[inline]
    fn add(&mut self, address: u64) {
        let place = (address ^ address >> 12) as usize % KernelAddresses::RECENT;
        if self.recent[place] != address {
            self.add_new(place, address);
        }
    }

    #[cold]
    fn add_new(&mut self, place: usize, address: u64) {
        self.recent[place] = address;
        if self.all.len() < MAX_ADDRESSES {
            self.all.insert(address);
        }
    }
}

impl Shaper {
    /// Remembers the kernel's addresses of a call stack.
    #[inline]
    pub(super) fn remember_kernel(&mut self, addresses: &[u64]) {
        if self.has(Flag::IMAGE) {
            addresses.iter().for_each(|address| self.symbols.kernel_addresses.add(*address));
        }
    }

    /// The addresses of the kernel's code that the trace has, in their order.
    pub fn kernel_addresses(&self) -> Vec<u64> {
        let routines = |flag, all: &[u64]| if self.has(flag) { all.to_vec() } else { Vec::new() };
        let mut all: Vec<u64> = self.symbols.kernel_addresses.all.iter().copied().collect();
        all.extend(routines(Flag::DPC, &self.machine.soft_interrupts));
        all.extend(routines(Flag::SYSCALL, &self.machine.system_calls));
        let in_kernel = |address: &u64| {
            let below = self.symbols.kernel_mappings.range(..=*address).next_back();
            below.is_some_and(|(_, (_, end))| address < end)
        };
        all.retain(in_kernel);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Functions of the kernel, for the end of the recording.
    pub fn name_kernel_functions(&mut self, functions: Vec<KernelFunction>) {
        self.symbols.functions = functions;
    }

    /// Adds the records for the symbols of an image.
    pub(super) fn symbol_records(
        &mut self,
        head: Head,
        process: u32,
        image: &Image,
        out: &mut Records,
    ) {
        // Readers take the process from the header.
        let head = Head { process, ..head };
        let metadata = self.metadata_of(head, process, image, out);
        let number = self.symbols.next_number();
        let end = image.base.saturating_add(image.size);
        if process == 0 {
            self.symbols.kernel_mappings.insert(image.base, (number, end));
        }
        let payload = Payload::new()
            .var_uint(number)
            .var_uint(image.base)
            .var_uint(end)
            .var_uint(0)
            .counted(String::from_utf8_lossy(&image.path).as_bytes())
            .var_uint(metadata);
        out.event(head, ProviderEvent::Universal(PROCESS_MAPPING), &payload);
        if image.build_id.is_empty() {
            return;
        }
        let module = LoadedModule {
            base: image.base,
            size: image.size,
            file_offset: 0,
            bias: image.base.wrapping_sub(image.default_base),
            path: String::from_utf8_lossy(&image.path).into_owned(),
            build_id: image.build_id.clone(),
        };
        let mut payload = Payload::new().u32(process);
        module.put(&mut payload.0);
        out.event(head, ProviderEvent::Module, &payload);
    }

    /// The number of a file's metadata, whose record is added if the trace does not have it yet; 0: there is none.
    fn metadata_of(&mut self, head: Head, process: u32, image: &Image, out: &mut Records) -> u64 {
        if image.build_id.is_empty() {
            return 0;
        }
        let key = (image.build_id.clone(), image.default_base);
        let known = self.symbols.files.get(&key).copied();
        if let Some((number, _)) = known.filter(|(_, last)| head.time.saturating_sub(*last) < AGAIN)
        {
            return number;
        }
        if self.symbols.files.len() >= MAX_FILES {
            self.symbols.files.clear();
        }
        let number = known.map_or_else(|| self.symbols.next_number(), |(number, _)| number);
        self.symbols.files.insert(key, (number, head.time));
        let id: String = image.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        // A mapping stands for the whole image, so the distance from its start is that from the first address in the file's headers.
        // The kernel may lie elsewhere than its file says.
        let first = if process == 0 { 0 } else { image.default_base };
        let symbols = format!(
            r#"{{"type":"ELF","build_id":"{id}","p_vaddr":"{first:#x}","p_offset":"0x0"}}"#
        );
        let payload = Payload::new().var_uint(number).counted(symbols.as_bytes()).counted(b"{}");
        out.event(head, ProviderEvent::Universal(MAPPING_METADATA), &payload);
        number
    }

    /// Adds the names of the kernel's functions that the trace has addresses of.
    pub(super) fn function_records(&mut self, head: Head, out: &mut Records) {
        let head = Head { process: 0, thread: 0, ..head };
        for KernelFunction { start, end, name } in std::mem::take(&mut self.symbols.functions) {
            let image = self.symbols.kernel_mappings.range(..=start).next_back();
            let Some((_, &(mapping, image_end))) = image else { continue };
            let end = end.min(image_end);
            if start >= end {
                continue;
            }
            let payload = Payload::new()
                .var_uint(self.symbols.next_number())
                .var_uint(mapping)
                .var_uint(start)
                .var_uint(end - 1)
                .counted(String::from_utf8_lossy(&name).as_bytes());
            out.event(head, ProviderEvent::Universal(PROCESS_SYMBOL), &payload);
        }
    }
}
