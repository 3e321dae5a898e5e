//! Names of processes, threads, files and code, from the events of a trace that describe them.

mod code;
mod code_file;
mod file_names;
#[cfg(any(target_os = "linux", windows))]
mod following;
mod gathering;
mod images;
mod labels;
mod methods;
mod processes;
mod stacks;

use crate::attribution::{Interrupts, Owner, ThreadTable};
use crate::file_operations::FileOperations;
use crate::machines::Origins;
use crate::output::Failure;
use crate::running_threads::RunningThreads;
use crate::sample_intervals::SampleIntervals;
use code::Code;
pub use code::{StackFrame, Within};
use code_file::{Place, Refused, Trust};
use etw_decode::expr::Owned;
use etw_decode::{Decoded, Field, Source, Style, Value, Visitor, kernel_pointer_size};
use etw_symbols::{Module, Symbolizer};
use etw_types::{EventRecord, FileTime, Guid, Hook, SESSION_REPORTS, SYSTEM_EVENTS, le};
use file_names::FileNames;
pub use gathering::TestedNames;
pub use images::Moment;
use images::{Image, ImageEvent, SymbolSource, is_memory};
use labels::ModuleFile;
pub use labels::file_name;
use processes::ProcessNames;
use stacks::{Stacks, is_stack};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Microsoft-Windows-Kernel-Process
const KERNEL_PROCESS: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
/// ImageID, the class of build ids
const IMAGE_ID: Guid = Guid::from_u128(0xb3e675d7_2554_4f18_830b_2762732560de);
/// Processes and threads of a trace; only a hostile one has more.
const LIMIT: usize = 1 << 20;
/// Addresses of the kernel begin here.
const KERNEL_START: u64 = 0xffff << 48;
/// The path of executable memory without a file.
const ANONYMOUS: &str = "//anon";
/// Volumes of a trace.
const VOLUME_LIMIT: usize = 1 << 8;

/// Names of a trace's processes, threads, files and code, and stacks of its events.
#[derive(Debug, Default)]
pub struct Names {
    processes: ProcessNames,
    recorded: HashMap<u32, Recorded>,
    threads: ThreadTable,
    interrupts: Interrupts,
    sample_intervals: SampleIntervals,
    origins: Origins,
    file_operations: FileOperations,
    running: RunningThreads,
    thread_names: HashMap<u32, String>,
    /// By the address of a file object, or its key.
    files: FileNames,
    /// NT paths of volumes and their DOS paths: `\\Device\\HarddiskVolume3` is `C:`.
    volumes: Vec<(String, String)>,
    stacks: Stacks,
    code: Code,
    /// Processes of our own programs.
    own_processes: BTreeSet<u32>,
    /// Those that no image's event has taken yet.
    build_ids: HashMap<ImageKey, BuildId>,
}

/// File of the trace, process, and base.
type ImageKey = (u32, u32, u64);

/// A build id, whole or its first 16 bytes. The event of its image follows at the same time: in a later life of the process, or behind an
/// unload, another file may be at that base.
#[derive(Debug)]
struct BuildId {
    time: i64,
    id: Vec<u8>,
}

/// A process of Linux in the trace.
#[derive(Clone, Debug, Default)]
struct Recorded {
    /// The users that it had.
    users: BTreeSet<u32>,
    end: Option<FileTime>,
}

/// Where symbols of an image of Linux are.
fn symbol_source(
    process: u32,
    base: u64,
    default_base: u64,
    module: Module,
) -> Option<SymbolSource> {
    let is_kernel = process == 0 && module.is_kernel();
    // Programs of 32 bits have another vdso than ours.
    let is_vdso = module.is_vdso() && base > u64::from(u32::MAX);
    let is_file =
        module.path.to_str().is_some_and(|path| path.starts_with('/') && !is_memory(path));
    if !is_kernel && !is_vdso && !is_file {
        return None;
    }
    let default_base = if is_kernel { 0 } else { default_base };
    Some(SymbolSource { module, bias: base.wrapping_sub(default_base) })
}

/// How a module is shown: its file, and its name.
fn shown(module: &Module) -> (ModuleFile, Arc<str>) {
    let path = module.unmarked_path().to_string_lossy();
    (ModuleFile::new(&path, &module.build_id), file_name(&path).into())
}

/// FileIo: Name, FileCreate, FileRundown.
fn is_file_name(hook: Hook) -> bool {
    matches!(hook.0, 0x0400 | 0x0420 | 0x0424)
}

/// The process of a perf map: `perf-PID.map`.
fn perf_map_process(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix("perf-")?.strip_suffix(".map")?.parse().ok()
}

/// Where a process may have written its perf map. A container has a `/tmp` of its own, and other ids, which are known as long as the
/// process lives.
fn perf_maps_of(process: u32) -> Vec<Place> {
    let named = |process: &dyn std::fmt::Display| PathBuf::from(format!("/tmp/perf-{process}.map"));
    let mut all = vec![Place::Here(named(&process))];
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    if let Some(innermost) = ids.and_then(|ids| ids.split_whitespace().next_back()) {
        all.push(Place::InRootOf(process, named(&innermost)));
    }
    all
}

/// Reads the first of these files that can be read.
fn read_first(places: &[Place], mut read: impl FnMut(&Place) -> io::Result<usize>) {
    for place in places {
        match read(place) {
            Ok(_) => return eprintln!("etw: note: names of compiled code from {place}"),
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<Refused>()) => {
                eprintln!("etw: note: no names of compiled code from {place}: {error}");
            }
            // Most processes have no such file, and those of others may not be looked at.
            Err(_) => {}
        }
    }
}

/// The user of a process that runs; `None`: of this one.
#[cfg(unix)]
fn user_of(process: Option<u32>) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let process = process.map_or("self".to_owned(), |process| process.to_string());
    Some(std::fs::metadata(format!("/proc/{process}")).ok()?.uid())
}

#[cfg(not(unix))]
fn user_of(_: Option<u32>) -> Option<u32> {
    None
}

/// When a process that lives began, up to a second earlier: `/proc` counts in hundredths of seconds.
fn process_start(process: u32) -> Option<FileTime> {
    const TICKS: f64 = 100.0;
    const FIELD: usize = 19;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let start: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(FIELD)?.parse().ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let age = std::time::Duration::try_from_secs_f64(uptime - start / TICKS + 1.0).ok()?;
    file_time(std::time::SystemTime::now().checked_sub(age)?)
}

fn file_time(time: std::time::SystemTime) -> Option<FileTime> {
    let elapsed = time.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos() / 100;
    Some(FileTime(FileTime::UNIX_EPOCH.0.checked_add(i64::try_from(elapsed).ok()?)?))
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
    /// The systems that the trace's files name.
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// The nanoseconds between a CPU sample and the next one of its CPU; `None`: the trace does not name them.
    pub fn sample_interval(&self, sample: &EventRecord<'_>) -> Option<i64> {
        self.sample_intervals.at(sample)
    }

    /// Reads perf maps: files called `perf-PID.map`, or folders of them. Those in `/tmp` of our own programs are read in any case, if
    /// they were written since `start`, or since the recorded process began if it still lives.
    pub fn read_perf_maps(&mut self, paths: &[PathBuf], start: FileTime) -> Result<(), Failure> {
        for path in paths {
            let maps: Vec<(u32, PathBuf)> = match path.is_dir() {
                false => {
                    let process = perf_map_process(path).ok_or_else(|| {
                        Failure::Usage(format!(
                            "--perf-map {}: its name must say the process: perf-PID.map",
                            path.display()
                        ))
                    })?;
                    vec![(process, path.clone())]
                }
                true => std::fs::read_dir(path)
                    .map_err(|error| crate::schemas::refused(path, error))?
                    .flatten()
                    .filter_map(|entry| Some((perf_map_process(&entry.path())?, entry.path())))
                    .collect(),
            };
            for (process, path) in maps {
                self.code
                    .read_perf_map(process, &Place::Here(path.clone()), None)
                    .map_err(|error| crate::schemas::refused(&path, error))?;
            }
        }
        let mut own = self.own_processes.clone();
        own.extend(self.code.linux_processes());
        for process in own {
            let trust = self.trust_in_files_of(process, start);
            let places = perf_maps_of(process).into_iter();
            let places: Vec<Place> =
                places.filter(|place| !paths.iter().any(|path| place.is(path))).collect();
            let code = &mut self.code;
            read_first(&places, |place| code.read_perf_map(process, place, Some(&trust)));
        }
        for (process, path) in self.code.jit_dumps() {
            let trust = self.trust_in_files_of(process, start);
            let places = [Place::Here(path.clone()), Place::InRootOf(process, path)];
            let code = &mut self.code;
            read_first(&places, |place| code.read_jit_dump(process, place, &trust));
        }
        Ok(())
    }

    /// The files of a process's compiled code that are believed, in a trace that began at `start`.
    fn trust_in_files_of(&self, process: u32, start: FileTime) -> Trust {
        let lives = self.code.lives(process);
        // A process that lives may have compiled its code before the trace began.
        let began = lives.then(|| process_start(process)).flatten();
        let known = self.recorded.get(&process).cloned().unwrap_or_default();
        let users = match known.users.is_empty() {
            true => user_of(if lives { Some(process) } else { None }).into_iter().collect(),
            false => known.users,
        };
        Trust { since: began.map_or(start, |began| began.min(start)), until: known.end, users }
    }

    /// Finds names of functions with this symbolizer.
    pub fn set_symbolizer(&mut self, symbolizer: Symbolizer) {
        self.code.set_symbolizer(symbolizer);
    }

    /// Says which functions have no names, or perhaps wrong ones. For the end of a command.
    pub fn report_symbols(&self) {
        for note in self.code.symbol_notes() {
            eprintln!("etw: note: {note}");
        }
    }

    /// Gives the functions of an event's stack, the innermost first, and where in them its addresses are. An address may have several: those whose calls
    /// the compiler inlined come first.
    pub fn each_function(
        &self,
        record: &EventRecord<'_>,
        give: &mut impl FnMut(StackFrame, Within),
    ) {
        let of = (self.stack_process(record), Moment::of(record));
        let stack = self.stacks_of(record).flatten().copied().chain(record.stack());
        self.code.functions_of(of, stack, give);
    }

    /// The functions of an event's stack, the innermost first; empty: the event has no stack.
    pub fn functions_of(&self, record: &EventRecord<'_>) -> Vec<StackFrame> {
        let mut found = Vec::new();
        self.each_function(record, &mut |frame, _| found.push(frame));
        // Without frame pointers the kernel follows data behind the last function.
        let is_code = |frame: &StackFrame| frame.function.is_some() || !frame.module.is_empty();
        if let Some(last) = found.iter().rposition(is_code) {
            found.truncate(last + 1);
        }
        found
    }

    /// The functions at an address that a process executed at the time of a record.
    pub fn functions_at(
        &self,
        record: &EventRecord<'_>,
        process: Option<u32>,
        address: u64,
    ) -> Vec<StackFrame> {
        let (mut found, of) = (Vec::new(), (process, Moment::of(record)));
        self.code.frames_of(of, address, false, &mut |frame, _| found.push(frame));
        found
    }

    /// The function at the address in an event of the kernel: that of a system call, of a DPC or of an interrupt.
    pub fn function_of(&self, record: &EventRecord<'_>) -> Option<String> {
        let offset = match record.hook?.0 {
            0x0f33 => 0,
            // Behind the time of its start.
            0x0f32 | 0x0f42..=0x0f45 | 0x0f5f => 8,
            _ => return None,
        };
        let address = match kernel_pointer_size(record) {
            4 => le::u32(record.payload, offset)?.into(),
            _ => le::u64(record.payload, offset)?,
        };
        let found = self.functions_at(record, None, address);
        found.last().filter(|frame| frame.function.is_some()).map(StackFrame::text)
    }

    /// Stacks that were not kept.
    pub fn stacks_left_out(&self) -> u64 {
        self.stacks.left_out
    }

    /// Learns names from an event about a process or thread.
    pub fn learn(&mut self, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
        let is_kernel = record.hook.is_some() || record.header.is_classic();
        if !is_kernel {
            if matches!(record.provider, Some(SESSION_REPORTS | SYSTEM_EVENTS)) {
                self.origins.learn(record);
                self.module(record);
            }
            if decoded.source() == Some(Source::Universal) {
                self.kernel_function(record, decoded);
            }
            if record.provider == Some(KERNEL_PROCESS) && matches!(record.descriptor.id, 1 | 2 | 15)
            {
                let is_start = record.descriptor.id == 1;
                self.process(&["ProcessID", "ImageName"], is_start, record, decoded);
            }
            return;
        }
        if record.hook.is_some_and(is_file_name) {
            let picked = Picked::of(&["FileObject", "FileName"], record, decoded);
            if let Some(picked) = picked
                && let (Some(object), Some(name)) = (picked.text(0), picked.text(1))
                && let Ok(object) = u64::from_str_radix(object.trim_start_matches("0x"), 16)
            {
                self.files.add(object, Moment::of(record), name);
            }
            return;
        }
        if let Some(hook) = record.hook.filter(|hook| is_stack(*hook)) {
            return self.stacks.learn(hook, record);
        }
        if record.provider == Some(IMAGE_ID) {
            return self.build_id(record);
        }
        match decoded.event_name() {
            Some(
                "Process/Start" | "Process/DCStart" | "Process/DCEnd" | "Process/Defunct"
                | "Process/End",
            ) => {
                let is_start = decoded.event_name() == Some("Process/Start");
                self.process(&["ProcessId", "ImageFileName"], is_start, record, decoded);
                self.user(record, decoded);
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
            Some(name @ ("Image/Load" | "Image/DCStart" | "Image/DCEnd" | "Image/UnLoad")) => {
                let event = match name {
                    "Image/Load" => ImageEvent::Load,
                    "Image/UnLoad" => ImageEvent::Unload,
                    _ => ImageEvent::Rundown,
                };
                self.image(event, record, decoded);
            }
            Some("SysConfigEx/VolumeMapping") => {
                let picked = Picked::of(&["NtPath", "DosPath"], record, decoded);
                if let Some(picked) = picked
                    && let (Some(nt), Some(dos)) = (picked.text(0), picked.text(1))
                    && nt.len() > 1
                    && self.volumes.len() < VOLUME_LIMIT
                {
                    let path = |text: &str| text.trim_end_matches('\\').to_owned();
                    self.volumes.push((path(nt), path(dos)));
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

    /// Notes the build id of an image: base, process, GUID.
    fn build_id(&mut self, record: &EventRecord<'_>) {
        const DBG_ID_RSDS: u8 = 36;
        if record.descriptor.opcode.0 != DBG_ID_RSDS || record.pointer_size != 8 {
            return;
        }
        let payload = record.payload;
        if let (Some(base), Some(process), Some(id)) =
            (le::u64(payload, 0), le::u32(payload, 8), payload.get(12..28))
        {
            // Shorter build ids are padded.
            let padding = id.iter().rev().take_while(|byte| **byte == 0).count();
            let id = &id[..id.len() - padding];
            let known = self.build_id_at(record, process, base);
            if !known.is_some_and(|whole| whole.starts_with(id)) {
                self.add_build_id(record, (process, base), id.to_vec());
            }
        }
    }

    fn add_build_id(&mut self, record: &EventRecord<'_>, (process, base): (u32, u64), id: Vec<u8>) {
        let key = (record.position.file_index, process, base);
        if self.build_ids.len() < LIMIT || self.build_ids.contains_key(&key) {
            self.build_ids.insert(key, BuildId { time: record.order_time, id });
        }
    }

    /// The build id that the trace has for the image of an event at the time of a record.
    fn build_id_at(&self, record: &EventRecord<'_>, process: u32, base: u64) -> Option<&[u8]> {
        let known = self.build_ids.get(&(record.position.file_index, process, base))?;
        (known.time == record.order_time).then_some(&known.id)
    }

    /// Takes the build id of the image that a record describes, if the trace has one.
    fn take_build_id(
        &mut self,
        record: &EventRecord<'_>,
        process: u32,
        base: u64,
    ) -> Option<Vec<u8>> {
        let known = self.build_ids.remove(&(record.position.file_index, process, base))?;
        (known.time == record.order_time).then_some(known.id)
    }

    /// Notes an image.
    fn image(&mut self, event: ImageEvent, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
        const FIELDS: &[&str] =
            &["ImageBase", "ImageSize", "ProcessId", "FileName", "DefaultBase", "TimeDateStamp"];
        let Some(picked) = Picked::of(FIELDS, record, decoded) else { return };
        let hex =
            |number| u64::from_str_radix(picked.text(number)?.trim_start_matches("0x"), 16).ok();
        if let (Some(base), Some(size), Some(process), Some(name)) =
            (hex(0), hex(1), picked.number(2), picked.text(3))
        {
            let stamp = picked.number(5).unwrap_or(0);
            let module = self.image_module(record, (process, base, size), stamp, name);
            let (file, name) = match name {
                // Regions of a process are different code.
                ANONYMOUS => (ModuleFile::new(name, &[]), format!("anon@{base:#x}").into()),
                _ => shown(&module),
            };
            let source = symbol_source(process, base, hex(4).unwrap_or(0), module);
            let image = Image { size, zero: base, name, file, source };
            self.code.add_image(process, base, (event, Moment::of(record)), image);
        }
    }

    /// The file of an image of Linux. `stamp`: the first bytes of its build id.
    fn image_module(
        &mut self,
        record: &EventRecord<'_>,
        (process, base, size): (u32, u64, u64),
        stamp: u32,
        path: &str,
    ) -> Module {
        let known = self.take_build_id(record, process, base);
        let stamp = || if stamp == 0 { Vec::new() } else { stamp.to_le_bytes().to_vec() };
        let module = Module {
            path: path.into(),
            build_id: known.unwrap_or_else(stamp),
            process: Some(process),
            ..Module::default()
        };
        match module.build_id.is_empty() {
            true => Module { size, loaded: self.system_time(record), ..module },
            false => module,
        }
    }

    /// The time of a record by the clock of files.
    fn system_time(&self, record: &EventRecord<'_>) -> Option<SystemTime> {
        let clock = self.code.clock(record.position.file_index)?;
        let ticks = record.timestamp(clock)?.0.checked_sub(FileTime::UNIX_EPOCH.0)?;
        let elapsed = Duration::from_nanos(u64::try_from(ticks).ok()?.checked_mul(100)?);
        SystemTime::UNIX_EPOCH.checked_add(elapsed)
    }

    /// Notes a function of the kernel.
    fn kernel_function(&mut self, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
        if decoded.event_name() != Some("ProcessSymbol") || record.process_id != Some(0) {
            return;
        }
        let fields = &["StartAddress", "EndAddress", "Name"];
        let Some(picked) = Picked::of(fields, record, decoded) else { return };
        let hex =
            |number| u64::from_str_radix(picked.text(number)?.trim_start_matches("0x"), 16).ok();
        if let (Some(start), Some(last), Some(name)) = (hex(0), hex(1), picked.text(2)) {
            self.code.add_kernel_function(Moment::of(record), (start, last), name);
        }
    }

    /// Notes a module that an instrumented program of ours had loaded, or the whole build id of an image of the system.
    fn module(&mut self, record: &EventRecord<'_>) {
        let Some(found) = etw_host::report::read_module(record) else { return };
        let (process, module) = (found.process_id, found.module);
        if record.provider == Some(SYSTEM_EVENTS) {
            return self.add_build_id(record, (process, module.base), module.build_id);
        }
        self.own_processes.insert(process);
        let (path, build_id) = (module.path.into(), module.build_id);
        let loaded = self.system_time(record).filter(|_| build_id.is_empty());
        let process_id = Some(process);
        let of_file = Module { path, build_id, loaded, process: process_id, ..Module::default() };
        let (file, name) = shown(&of_file);
        let source = Some(SymbolSource { module: of_file, bias: module.bias });
        let image = Image { size: module.size, zero: module.bias, name, file, source };
        let event = (ImageEvent::Rundown, Moment::of(record));
        self.code.add_image(process, module.base, event, image);
    }

    fn process(
        &mut self,
        fields: &'static [&'static str],
        is_start: bool,
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
    ) {
        let Some(picked) = Picked::of(fields, record, decoded) else { return };
        if let (Some(process), Some(name)) = (picked.number(0), picked.text(1))
            && !name.is_empty()
        {
            // The last part of a path.
            self.processes.add(process, Moment::of(record), file_name(name), is_start);
        }
    }

    /// Notes the user of a process of Linux, and when it ends.
    fn user(&mut self, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
        const UNIX_USER: &str = "S-1-22-1-";
        let Some(picked) = Picked::of(&["ProcessId", "UserSID"], record, decoded) else { return };
        let user = picked.text(1).and_then(|text| text.strip_prefix(UNIX_USER)?.parse().ok());
        let (Some(process), Some(user)) = (picked.number(0), user) else { return };
        if self.recorded.len() >= LIMIT {
            return;
        }
        let known = self.recorded.entry(process).or_default();
        match decoded.event_name() {
            // Another process had the number before.
            Some("Process/Start") => *known = Recorded::default(),
            Some("Process/End") => {
                let clock = self.code.clock(record.position.file_index);
                known.end = clock.and_then(|clock| record.timestamp(clock));
            }
            _ => {}
        }
        known.users.insert(user);
    }

    /// The stacks that the kernel recorded for an event: of the kernel's side, and of the user's.
    pub fn stacks_of(&self, record: &EventRecord<'_>) -> impl Iterator<Item = &[u64]> {
        self.stacks.frames_of(record)
    }

    /// The file of a kernel event: by its object or key, else by the path in the event. A path on a volume whose drive letter the
    /// trace names is a DOS path.
    pub fn file_of(&self, record: &EventRecord<'_>, decoded: &Decoded<'_>) -> Option<Cow<'_, str>> {
        let hook = record.hook?;
        // DiskIo, PageFault, FileIo, Image.
        if !matches!(hook.group(), 1 | 2 | 4 | 0x14) {
            return None;
        }
        let by_object = !self.files.is_empty() && hook.group() != 0x14 && !is_file_name(hook);
        if !by_object && self.volumes.is_empty() {
            return None;
        }
        const FIELDS: &[&str] = &["FileKey", "FileObject", "FileName", "OpenPath"];
        let picked = Picked::of(FIELDS, record, decoded)?;
        let object =
            |number| u64::from_str_radix(picked.text(number)?.trim_start_matches("0x"), 16).ok();
        let by_object = || {
            let name = |object| self.files.at(object, Moment::of(record));
            let path = (0..2).filter_map(object).find_map(name)?;
            Some(self.dos_path(path).map_or(Cow::Borrowed(path), Cow::Owned))
        };
        by_object().or_else(|| Some(Cow::Owned(self.dos_path(picked.text(2).or(picked.text(3))?)?)))
    }

    /// The DOS path of an NT path.
    fn dos_path(&self, path: &str) -> Option<String> {
        self.volumes.iter().find_map(|(nt, dos)| {
            let rest =
                path.get(nt.len()..).filter(|rest| rest.is_empty() || rest.starts_with('\\'))?;
            path[..nt.len()].eq_ignore_ascii_case(nt).then(|| format!("{dos}{rest}"))
        })
    }

    /// The process and thread to which an event belongs.
    pub fn owner(&self, record: &EventRecord<'_>) -> Owner {
        let owner = self.owner_by_ids(record);
        let interrupt = owner.interrupt.or_else(|| self.interrupts.at(record));
        Owner { interrupt, ..owner }
    }

    /// As [`owner`](Names::owner), without the interrupt in which a sample of a known thread was taken.
    fn owner_by_ids(&self, record: &EventRecord<'_>) -> Owner {
        let owner = self.threads.owner(record);
        if owner != Owner::default() {
            return owner;
        }
        if let interrupt @ Some(_) = self.interrupts.at(record) {
            return Owner { interrupt, ..owner };
        }
        // A kernel event without a thread belongs to the thread of its stack, or of its operation, or to the one that ran.
        let thread = self.stacks.thread_of(record);
        let thread = thread.or_else(|| self.file_operations.thread_of(record));
        self.threads.owner_by_thread(record, thread.or_else(|| self.running.at(record)))
    }

    /// The process whose code the stack of an event runs. A context switch has the stack of one of its two threads.
    pub fn stack_process(&self, record: &EventRecord<'_>) -> Option<u32> {
        let thread = self.stacks.thread_of(record);
        thread
            .and_then(|thread| self.threads.process_at(record, thread))
            .or_else(|| self.owner(record).process)
    }

    /// The record with the ids of its owner, for filters and tracks by process and thread.
    pub fn attributed<'r>(&self, record: &EventRecord<'r>) -> EventRecord<'r> {
        let owner = self.owner_by_ids(record);
        let mut record = *record;
        (record.process_id, record.thread_id) = (owner.process, owner.thread);
        record
    }

    /// Calls `test` with a record and its owner. `has_name`: and with the name of the owner's process.
    #[inline]
    pub fn with_owner<R>(
        &self,
        stored: &EventRecord<'_>,
        has_name: bool,
        test: impl FnOnce(Owned<'_>) -> R,
    ) -> R {
        let Owner { process, thread, .. } = self.owner_by_ids(stored);
        let name = |process| self.process_name_at(process, Moment::of(stored));
        let process_name = process.filter(|_| has_name).and_then(name);
        if (process, thread) == (stored.process_id, stored.thread_id) {
            return test(Owned { process_name, ..Owned::stored(stored) });
        }
        let mut record = *stored;
        (record.process_id, record.thread_id) = (process, thread);
        test(Owned { record: &record, stored, process_name, file: None })
    }

    /// A record, and what [`attributed`](Names::attributed) made of it, for expressions.
    pub fn owned<'r>(
        &'r self,
        stored: &'r EventRecord<'r>,
        attributed: &'r EventRecord<'r>,
    ) -> Owned<'r> {
        let name = |process| self.process_name_at(process, Moment::of(stored));
        let process_name = attributed.process_id.and_then(name);
        Owned { record: attributed, stored, process_name, file: None }
    }

    /// The name of a process; if several had its id, of the last one.
    pub fn process_name(&self, process: u32) -> Option<&str> {
        match process {
            0 => Some("Idle"),
            _ => self.processes.last(process),
        }
    }

    /// The name of the process that had an id at a moment.
    pub fn process_name_at(&self, process: u32, moment: Moment) -> Option<&str> {
        match process {
            0 => Some("Idle"),
            _ => self.processes.at(process, moment),
        }
    }

    /// The number of the life of a process at a moment.
    pub fn life_at(&self, process: u32, moment: Moment) -> Option<usize> {
        self.processes.life_at(process, moment)
    }

    /// The name that a process had in one of its lives.
    pub fn name_in_life(&self, process: u32, life: Option<usize>) -> Option<&str> {
        match process {
            0 => Some("Idle"),
            _ => self.processes.name(process, life?),
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
