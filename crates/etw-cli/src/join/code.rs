//! Code by address: images, methods that .NET compiled, and symbols of perf maps.

use super::KERNEL_START;
use super::code_file::{Place, Trust};
use super::images::{Image, ImageEvent, Images, Moment, SymbolSource};
use super::methods::{Method, Methods};
use etw_symbols::{Module, Symbolizer, jit_dump, perf_map};
use etw_types::{Clock, ClockType, EventRecord, Guid, le};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Microsoft-Windows-DotNETRuntime
const CLR: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
/// Microsoft-Windows-DotNETRuntimeRundown
const CLR_RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);
/// Methods of a trace; only a hostile one has more.
const LIMIT: usize = 1 << 20;
/// Bytes of the names of methods and of their IL maps.
const METHOD_BYTES: usize = 256 << 20;

/// One function of a call stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackFrame {
    /// The name of the image; empty: code that was compiled at run time, or an unknown address.
    pub module: Arc<str>,
    /// The function; `None`: only the address is known.
    pub function: Option<Arc<str>>,
    /// The source file.
    pub file: Option<Arc<str>>,
    /// The line in that file; 0: not known.
    pub line: u32,
    /// The address, or the offset in its image.
    pub address: u64,
}

impl StackFrame {
    /// `image!function`, `function`, `image+0x234` or `0x7f00`.
    pub fn text(&self) -> String {
        match (&*self.module, &self.function) {
            ("", Some(function)) => function.to_string(),
            ("", None) => format!("{:#x}", self.address),
            (module, Some(function)) => format!("{module}!{function}"),
            (module, None) => format!("{module}+{:#x}", self.address),
        }
    }

    /// [`text`](StackFrame::text) with the place in the function: `libc.so.6!malloc+0x12`, `Shop.Cart.Add+0x1c [IL 0x5]`. An inlined function has no
    /// offset of its own. `None`: nothing is known of the address.
    pub fn text_within(&self, within: Within) -> Option<String> {
        if self.module.is_empty() && self.function.is_none() {
            return None;
        }
        let mut text = self.text();
        // Writing to a String cannot fail.
        if let Some(offset) = within.offset {
            let _ = write!(text, "+{offset:#x}");
        }
        if let Some(il) = within.il {
            let _ = write!(text, " [IL {il:#x}]");
        }
        Some(text)
    }
}

/// Where in its function an address is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// Bytes between the function's first one and the address; `None`: it is inlined, or not known.
    pub offset: Option<u64>,
    /// The offset in the method's IL.
    pub il: Option<u32>,
    /// The compiler inlined its call into the next function.
    pub is_inlined: bool,
}

/// The result of a look-up of an address.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// Functions are known there.
    has_functions: bool,
    /// The handler of a signal returns there.
    is_signal_trampoline: bool,
}

/// Where IL is in a method's native code: native offset and IL offset, sorted.
type IlMap = Box<[(u32, u32)]>;

/// The code of all processes of a trace.
#[derive(Debug, Default)]
pub struct Code {
    images: Images,
    /// Those that .NET names, compiled at run time or ahead of it.
    methods: Methods,
    /// Code of perf maps and jitdump files.
    compiled: Methods,
    il_maps: HashMap<(u32, u64), IlMap>,
    method_count: usize,
    method_bytes: usize,
    symbolizer: Symbolizer,
    /// The traces are of the kernel that runs on this machine.
    is_of_running_kernel: bool,
    /// Clocks of the files.
    clocks: Vec<Clock>,
    /// Functions of the kernel that the trace names, by file and first address: their last addresses and names.
    kernel_functions: BTreeMap<(u32, u64), (u64, Arc<str>)>,
}

/// Whether an event describes methods of .NET.
pub fn is_method(record: &EventRecord<'_>) -> bool {
    match record.provider {
        Some(CLR) => matches!(record.descriptor.id, 143 | 144 | 190),
        Some(CLR_RUNDOWN) => matches!(record.descriptor.id, 143 | 144 | 149 | 150),
        _ => false,
    }
}

impl Code {
    /// Code of files with these clocks.
    pub fn new(clocks: Vec<Clock>) -> Code {
        Code { clocks, ..Code::default() }
    }

    /// The clock of a file.
    pub fn clock(&self, file_index: u32) -> Option<&Clock> {
        self.clocks.get(file_index as usize)
    }

    /// Notes a loaded file that an event names.
    pub fn add_image(
        &mut self,
        process: u32,
        base: u64,
        event: (ImageEvent, Moment),
        image: Image,
    ) {
        self.images.add(process, base, event, image);
    }

    /// Names modules so that different files have different names. For the end of a trace.
    pub fn label_modules(&mut self) {
        self.images.label();
    }

    /// Notes a function of the kernel that the trace names.
    pub fn add_kernel_function(&mut self, of: Moment, (start, last): (u64, u64), name: &str) {
        let cost = name.len() + 64;
        if self.method_count < LIMIT && self.method_bytes + cost <= METHOD_BYTES {
            self.method_count += 1;
            self.method_bytes += cost;
            self.kernel_functions.insert((of.file_index, start), (last, name.into()));
        }
    }

    /// The function of the kernel that the trace names at an address, and the offset in it.
    fn kernel_function_at(&self, of: Moment, address: u64) -> Option<(&Arc<str>, u64)> {
        let range = (of.file_index, 0)..=(of.file_index, address);
        let ((_, start), (last, name)) = self.kernel_functions.range(range).next_back()?;
        (address <= *last).then(|| (name, address - start))
    }

    /// Notes the method or IL map of an event for which [`is_method`] holds. The layouts are those of `ClrEtwAll.man`; later
    /// versions only add fields at the end.
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        let Some(process) = record.process_id else { return };
        let is_runtime = record.provider == Some(CLR);
        match record.descriptor.id {
            // MethodLoadVerbose, MethodUnloadVerbose; MethodDCStartVerbose, MethodDCEndVerbose.
            143 | 144 => self.learn_method(process, record.payload),
            // MethodILToNativeMap; MethodDCStartILToNativeMap, MethodDCEndILToNativeMap.
            190 if is_runtime => self.learn_il_map(process, record.payload),
            149 | 150 if !is_runtime => self.learn_il_map(process, record.payload),
            _ => {}
        }
    }

    /// `u64` method, `u64` module, `u64` start, `u32` size, `u32` token, `u32` flags, namespace, name, signature.
    fn learn_method(&mut self, process: u32, payload: &[u8]) {
        let (Some(id), Some(start), Some(size)) =
            (le::u64(payload, 0), le::u64(payload, 16), le::u32(payload, 24))
        else {
            return;
        };
        let Some((namespace, rest)) = payload.get(36..).and_then(wide_text) else { return };
        let Some((name, _)) = wide_text(rest) else { return };
        let name = match namespace.is_empty() {
            true => name,
            false => format!("{namespace}.{name}"),
        };
        let method = Method { size: size.into(), id, name: name.into(), times: None };
        if self.makes_room(&method) {
            self.methods.add(process, start, method);
        }
    }

    fn add_compiled(&mut self, process: u32, start: u64, method: Method) {
        if self.makes_room(&method) {
            self.compiled.add(process, start, method);
        }
    }

    /// Counts a method that is to be kept; `false`: there are too many.
    fn makes_room(&mut self, method: &Method) -> bool {
        let cost = method.name.len() + 64;
        let has_room = self.method_count < LIMIT && self.method_bytes + cost <= METHOD_BYTES;
        if has_room {
            self.method_count += 1;
            self.method_bytes += cost;
        }
        has_room
    }

    /// `u64` method, `u64` version, `u8` extent, `u16` count, `u32` IL offsets, `u32` native offsets.
    fn learn_il_map(&mut self, process: u32, payload: &[u8]) {
        /// Prologue, epilogue and code without IL have offsets from here.
        const NO_IL: u32 = 0xffff_fffd;
        let (Some(id), Some(count)) = (le::u64(payload, 0), le::u16(payload, 17)) else { return };
        let count = usize::from(count);
        let at = |index: usize| le::u32(payload, 19 + 4 * index);
        let pairs = (0..count).map_while(|index| Some((at(count + index)?, at(index)?)));
        let mut map: Vec<(u32, u32)> = pairs.filter(|(_, il)| *il < NO_IL).collect();
        map.sort_unstable();
        let cost = 8 * map.len() + 64;
        if self.method_bytes + cost <= METHOD_BYTES {
            self.method_bytes += cost;
            self.il_maps.insert((process, id), map.into());
        }
    }

    /// Answers addresses with the symbols that this symbolizer finds.
    pub fn set_symbolizer(&mut self, symbolizer: Symbolizer) {
        let images =
            self.images.iter().filter_map(|(_, image)| Some(&image.source.as_ref()?.module));
        let mut kernels = images.filter(|module| module.is_kernel()).peekable();
        self.is_of_running_kernel =
            kernels.peek().is_some() && kernels.all(|module| symbolizer.is_running_kernel(module));
        self.symbolizer = symbolizer;
    }

    /// The file of an image's symbols. A vdso without a build id is that of the running kernel, or not known.
    fn source_of<'i>(&self, image: &'i Image) -> Option<&'i SymbolSource> {
        let is_known = |module: &Module| {
            !module.is_vdso() || !module.build_id.is_empty() || self.is_of_running_kernel
        };
        image.source.as_ref().filter(|source| is_known(&source.module))
    }

    /// Sentences about modules whose names a reader should doubt or miss.
    pub fn symbol_notes(&self) -> Vec<String> {
        self.symbolizer.notes()
    }

    /// Processes with images of Linux.
    pub fn linux_processes(&self) -> BTreeSet<u32> {
        let has_source =
            |image: &Image| image.source.as_ref().is_some_and(|s| !s.module.is_kernel());
        let all = self.images.iter().filter(|(_, image)| has_source(image));
        all.map(|(process, _)| process).collect()
    }

    /// Whether the recorded process still lives on this machine: the process with its id has an image at the same address.
    pub fn lives(&self, process: u32) -> bool {
        let maps = std::fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        let has_image = |line: &str| {
            let base = line.split('-').next().and_then(|base| u64::from_str_radix(base, 16).ok());
            let source = base.and_then(|base| self.images.last(process, base)?.source.as_ref());
            source
                .and_then(|source| source.module.path.to_str())
                .is_some_and(|path| line.strip_suffix(path).is_some_and(|rest| rest.ends_with(' ')))
        };
        String::from_utf8_lossy(&maps).lines().any(has_image)
    }

    /// jitdump files that processes mapped, to mark them for profilers: processes and paths.
    pub fn jit_dumps(&self) -> BTreeSet<(u32, PathBuf)> {
        let is_dump = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("jit-") && name.ends_with(".dump")
        };
        let path = |(process, image): (u32, &Image)| {
            let path = &image.source.as_ref()?.module.path;
            is_dump(path).then(|| (process, path.clone()))
        };
        self.images.iter().filter_map(path).collect()
    }

    /// Reads the symbols of a perf map.
    pub fn read_perf_map(
        &mut self,
        process: u32,
        place: &Place,
        trust: Option<&Trust>,
    ) -> std::io::Result<usize> {
        let mut count = 0;
        for code in perf_map::parse(&place.read(trust)?) {
            count += 1;
            let method = Method { size: code.size, id: 0, name: code.name.into(), times: None };
            self.add_compiled(process, code.start, method);
        }
        Ok(count)
    }

    /// Reads the code of a jitdump file that a process mapped. In a container, the file has another number of the process.
    pub fn read_jit_dump(
        &mut self,
        process: u32,
        place: &Place,
        trust: &Trust,
    ) -> std::io::Result<usize> {
        let Some(dump) = jit_dump::parse(&place.read(Some(trust))?) else {
            return Err(std::io::Error::other("it is not a jitdump file"));
        };
        let count = dump.code.len();
        // Traces of Linux count 100 ns of the same clock.
        let ticks = |time: u64| i64::try_from(time / 100).unwrap_or(i64::MAX);
        for code in dump.code {
            let times = ticks(code.since)..code.until.map_or(i64::MAX, ticks);
            let times = Some(times).filter(|_| dump.is_monotonic);
            let method = Method { size: code.size, id: 0, name: (&*code.name).into(), times };
            self.add_compiled(process, code.start, method);
        }
        Ok(count)
    }

    /// The image at an address, in a process or in the kernel.
    fn image_at(&self, process: Option<u32>, address: u64, moment: Moment) -> Option<&Image> {
        let of = |process: u32| self.images.at(process, address, moment);
        // The kernel's images are in every process.
        process.and_then(of).or_else(|| of(0))
    }

    /// The functions of a stack, the innermost first. The address of a caller is behind its call, unless no call made the frame: where the stack leaves the
    /// kernel, and where a signal interrupted the program, it is that of the next instruction.
    pub fn functions_of(
        &self,
        of: (Option<u32>, Moment),
        stack: impl Iterator<Item = u64>,
        give: &mut impl FnMut(StackFrame, Within),
    ) {
        let (mut is_exact, mut was_kernel) = (true, false);
        for address in stack {
            let is_kernel = address >= KERNEL_START;
            is_exact |= was_kernel && !is_kernel;
            was_kernel = is_kernel;
            is_exact = self.frames_of(of, address, !is_exact, give).is_signal_trampoline;
        }
    }

    /// The functions at an address, the innermost inlined one first. A return address belongs to the call in front of it, unless no call has put it
    /// on the stack: a signal's handler returns to the first byte of its trampoline, and the first function of a context to that of another one.
    pub fn frames_of(
        &self,
        (process, moment): (Option<u32>, Moment),
        address: u64,
        is_return: bool,
        give: &mut impl FnMut(StackFrame, Within),
    ) -> Given {
        let of = (process, moment);
        let inside = if is_return { address.wrapping_sub(1) } else { address };
        let mut given = self.give_functions(of, inside, address, give);
        if !given.has_functions && is_return {
            given = self.give_functions(of, address, address, give);
        }
        if !given.has_functions {
            let image = self.image_at(process, inside, moment);
            let (module, address) = image.map_or(("".into(), address), |image| {
                (image.name.clone(), address.wrapping_sub(image.zero))
            });
            let frame = StackFrame { module, function: None, file: None, line: 0, address };
            give(frame, Within::default());
        }
        given
    }

    /// Gives the functions at an address, which are shown as those at another one.
    fn give_functions(
        &self,
        (process, moment): (Option<u32>, Moment),
        inside: u64,
        address: u64,
        give: &mut impl FnMut(StackFrame, Within),
    ) -> Given {
        let mut give_function = |module: &Arc<str>, function: Arc<str>, address, within| {
            let (module, function) = (module.clone(), Some(function));
            give(StackFrame { module, function, file: None, line: 0, address }, within);
            Given { has_functions: true, ..Given::default() }
        };
        let within = |inside: u64, offset: Option<u64>, il| {
            let offset = offset.map(|offset| offset.saturating_add(address.wrapping_sub(inside)));
            Within { offset, il, is_inlined: false }
        };
        if let Some((process, (start, method))) =
            process.and_then(|process| Some((process, self.method_at(process, inside, moment)?)))
        {
            let il = self.il_offset(process, method, inside - start);
            let within = within(inside, Some(inside - start), il);
            return give_function(&"".into(), (&*method.name).into(), address, within);
        }
        let Some(image) = self.image_at(process, inside, moment) else { return Given::default() };
        let module = image.name.clone();
        let in_image = address.wrapping_sub(image.zero);
        if let Some((function, offset)) = self.kernel_function_at(moment, inside) {
            let within = within(inside, Some(offset), None);
            return give_function(&module, function.clone(), in_image, within);
        }
        let Some(source) = self.source_of(image) else { return Given::default() };
        let at = |address: u64| {
            self.symbolizer.frames(&source.module, address.wrapping_sub(source.bias))
        };
        let (mut inside, mut frames) = (inside, at(inside));
        if frames.is_signal_trampoline && inside != address {
            (inside, frames) = (address, at(address));
        }
        for (number, frame) in frames.iter().enumerate() {
            let is_inlined = number + 1 < frames.len();
            let within = Within { is_inlined, ..within(inside, frame.offset, None) };
            let frame = StackFrame {
                module: module.clone(),
                function: Some(frame.name.clone()),
                file: frame.file.clone(),
                line: frame.line.unwrap_or(0),
                address: in_image,
            };
            give(frame, within);
        }
        let is_signal_trampoline = frames.is_signal_trampoline;
        Given { has_functions: !frames.is_empty(), is_signal_trampoline }
    }

    /// A moment as 100 ns of Linux' `CLOCK_MONOTONIC`; `None`: the clock of its file is another one.
    fn monotonic(&self, moment: Moment) -> Option<i64> {
        let clock = self.clock(moment.file_index)?;
        let is_monotonic = clock.kind == ClockType::QPC && clock.frequency == 10_000_000;
        is_monotonic.then_some(moment.time)
    }

    /// The code without a file at an address, and its first address.
    fn method_at(&self, process: u32, address: u64, moment: Moment) -> Option<(u64, &Method)> {
        let time = self.monotonic(moment);
        // A file that is mapped there has names of its own.
        let has_file = || {
            let image = self.images.loaded_at(process, address, moment);
            address >= KERNEL_START || image.is_some_and(Image::has_file)
        };
        self.methods
            .at(process, address, time)
            .or_else(|| self.compiled.at(process, address, time).filter(|_| !has_file()))
    }

    /// The offset in the IL of a method, from that in its native code.
    fn il_offset(&self, process: u32, method: &Method, offset: u64) -> Option<u32> {
        let map = self.il_maps.get(&(process, method.id))?;
        let next = map.partition_point(|(native, _)| u64::from(*native) <= offset);
        Some(map[next.checked_sub(1)?].1)
    }
}

/// NUL-terminated UTF-16 text, and the bytes behind it.
fn wide_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let length = bytes.chunks_exact(2).position(|unit| unit == [0, 0])?;
    let units =
        bytes[..2 * length].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    Some((
        char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect(),
        &bytes[2 * length + 2..],
    ))
}

#[cfg(test)]
mod tests {
    use super::super::labels::ModuleFile;
    use super::*;
    use etw_types::{FileTime, HeaderType};

    const MOMENT: Moment = Moment { file_index: 0, time: 0 };

    impl Code {
        /// The code at an address of process 7 that is no return address.
        fn name_at(&self, address: u64, moment: Moment) -> Option<String> {
            let mut texts = Vec::new();
            let give = &mut |one: StackFrame, within| texts.push(one.text_within(within));
            self.frames_of((Some(7), moment), address, false, give);
            texts.into_iter().next().flatten()
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn code_files_are_neither_links_nor_devices() {
        let folder = std::env::temp_dir().join(format!("etw-code-files-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (map, link) = (folder.join("perf-7.map"), folder.join("perf-8.map"));
        std::fs::write(&map, "1000 10 compiled\n").unwrap();
        std::os::unix::fs::symlink(&map, &link).unwrap();
        let mut code = Code::default();
        let mut read = |path: &Path, trust: Option<&Trust>| {
            let read = code.read_perf_map(7, &Place::Here(path.to_owned()), trust);
            read.map_err(|error| error.to_string())
        };
        assert!(read(&map, None).is_ok());
        assert!(read(&link, None).is_err());
        assert!(read(Path::new("/dev/null"), None).is_err());
        let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&map).unwrap());
        let all = Trust { since: FileTime(0), until: None, users: [own].into() };
        assert!(read(&map, Some(&all)).is_ok());
        let early = Trust { since: FileTime(i64::MAX), ..all.clone() };
        assert!(read(&map, Some(&early)).is_err(), "it was written before the trace");
        let late = Trust { until: Some(FileTime(0)), ..all.clone() };
        assert!(read(&map, Some(&late)).unwrap_err().contains("after the process ended"));
        let others = Trust { users: [own + 1].into(), ..all };
        match own {
            0 => assert!(read(&map, Some(&others)).is_ok(), "root's files are believed"),
            _ => assert!(read(&map, Some(&others)).unwrap_err().contains("another user")),
        }
        let is_given = own == 0 && std::os::unix::fs::chown(&map, Some(1234), None).is_ok();
        assert!(!is_given || read(&map, Some(&others)).unwrap_err().contains("another user"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn event(provider: Guid, id: u16, payload: &[u8]) -> EventRecord<'_> {
        let mut record = EventRecord::new(HeaderType::Event64, payload);
        record.provider = Some(provider);
        record.descriptor.id = id;
        record.process_id = Some(7);
        record
    }

    fn method(start: u64, size: u32, texts: &str) -> Vec<u8> {
        let texts: Vec<u8> = texts.encode_utf16().flat_map(u16::to_le_bytes).collect();
        [
            &9u64.to_le_bytes()[..],
            &[0; 8],
            &start.to_le_bytes(),
            &size.to_le_bytes(),
            &[0; 8],
            &texts,
            &[1, 0],
        ]
        .concat()
    }

    #[test]
    fn compiled_methods_are_found_by_address_with_their_il_offset() {
        let mut code = Code::default();
        let add = method(0x1000, 0x100, "Shop.Cart\0Add\0void (int32)\0");
        assert!(is_method(&event(CLR_RUNDOWN, 144, &add)));
        code.learn(&event(CLR_RUNDOWN, 144, &add));
        assert_eq!(code.name_at(0x101c, MOMENT).as_deref(), Some("Shop.Cart.Add+0x1c"));
        assert_eq!(code.name_at(0x1100, MOMENT), None, "behind its end");
        assert!(code.method_at(8, 0x101c, MOMENT).is_none(), "another process");
        let il = [0xffff_fffeu32, 5, 9].map(u32::to_le_bytes).concat();
        let native = [0u32, 0x10, 0x20].map(u32::to_le_bytes).concat();
        let map = [&9u64.to_le_bytes()[..], &[0; 9], &3u16.to_le_bytes(), &il, &native, &[0; 2]];
        code.learn(&event(CLR, 190, &map.concat()));
        assert_eq!(code.name_at(0x1008, MOMENT).as_deref(), Some("Shop.Cart.Add+0x8"));
        assert_eq!(code.name_at(0x101c, MOMENT).as_deref(), Some("Shop.Cart.Add+0x1c [IL 0x5]"));
    }

    /// OV-23: functions of the kernel have their names on other machines, too.
    #[test]
    fn functions_of_the_kernel_are_those_that_the_trace_names() {
        let mut code = Code::default();
        let base = 0xffff_ffff_8100_0000;
        let (name, file) = ("vmlinux".into(), ModuleFile::default());
        let image = Image { size: 0x1000, zero: base, name, file, source: None };
        code.add_image(0, base, (ImageEvent::Rundown, MOMENT), image);
        code.add_kernel_function(MOMENT, (base + 0x10, base + 0x1f), "do_it");
        let name = |address| code.name_at(address, MOMENT);
        assert_eq!(name(base + 0x14).as_deref(), Some("vmlinux!do_it+0x4"));
        assert_eq!(name(base + 0x20).as_deref(), Some("vmlinux+0x20"), "behind its end");
        let mut texts = Vec::new();
        // A return address behind the last instruction is that of a call there.
        code.frames_of((Some(7), MOMENT), base + 0x20, true, &mut |one, _| texts.push(one.text()));
        // The first byte of a function is no return address of a call.
        code.frames_of((Some(7), MOMENT), base + 0x10, true, &mut |one, _| texts.push(one.text()));
        code.frames_of((Some(7), MOMENT), base + 0x40, true, &mut |one, _| texts.push(one.text()));
        assert_eq!(texts, ["vmlinux!do_it", "vmlinux!do_it", "vmlinux+0x40"]);
        let elsewhere = Moment { file_index: 1, time: 0 };
        assert!(code.kernel_function_at(elsewhere, base + 0x14).is_none(), "another boot");
    }

    /// OV-23: the vdso has no file, and in traces no build id.
    #[test]
    #[cfg(target_os = "linux")]
    fn functions_of_the_vdso_are_those_of_the_recorded_kernel() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Some(line) = maps.lines().find(|line| line.ends_with(" [vdso]")) else { return };
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        let running = etw_symbols::KernelSymbols::of_this_machine().build_id;
        let image = |path: &str, size, build_id| {
            let module = Module { path: path.into(), build_id, size, loaded: None, process: None };
            let source = Some(SymbolSource { module, bias: start });
            let file = ModuleFile::default();
            Image { size, zero: start, name: path.into(), file, source }
        };
        let has_names = |kernel: &[u8]| {
            let mut code = Code::default();
            let event = (ImageEvent::Rundown, MOMENT);
            code.add_image(7, start, event, image("[vdso]", end - start, Vec::new()));
            code.add_image(0, 0xffff << 48, event, image("vmlinux", 0x1000, kernel.to_vec()));
            code.set_symbolizer(Symbolizer::default());
            let name = |address| code.name_at(address, MOMENT);
            (start..end).filter_map(name).any(|name| name.starts_with("[vdso]!"))
        };
        assert_eq!(has_names(&running), !running.is_empty());
        assert!(!has_names(&[0xaa; 20]), "another kernel");
    }

    fn map_image(code: &mut Code, time: i64, (base, path): (u64, &str)) {
        let file = ModuleFile::new(path, &[]);
        let image = Image { size: 0x100, zero: base, name: path.into(), file, source: None };
        code.add_image(7, base, (ImageEvent::Load, Moment { time, ..MOMENT }), image);
    }

    /// OV-23: a file that is mapped where compiled code was has its own names.
    #[test]
    fn names_of_a_perf_map_are_those_of_code_without_a_file() {
        let mut code = Code::default();
        let size = u64::MAX;
        code.add_compiled(7, 0, Method { size, id: 0, name: "everything".into(), times: None });
        map_image(&mut code, 10, (0x1000, "//anon"));
        map_image(&mut code, 20, (0x1000, "/lib/plain.so"));
        for shared in ["/memfd:doublemapper (deleted)", "/dev/zero", "/SYSV00000000 (deleted)"] {
            map_image(&mut code, 30, (0x1000, shared));
        }
        let name = |address, time| code.name_at(address, Moment { time, ..MOMENT });
        assert_eq!(name(0x1004, 5).as_deref(), Some("everything+0x1004"), "nothing is there yet");
        assert_eq!(name(0x1004, 15).as_deref(), Some("everything+0x1004"));
        assert_eq!(name(0x1004, 25).as_deref(), Some("/lib/plain.so+0x4"));
        assert_eq!(name(0x1004, 35).as_deref(), Some("everything+0x1004"));
        assert_eq!(name(KERNEL_START, 35), None);
    }

    #[test]
    fn symbols_of_a_perf_map_are_found_and_bad_lines_are_passed_over() {
        let path = std::env::temp_dir().join(format!("etw-perf-map-{}", std::process::id()));
        let lines = b"7f00 20 LazyCompile:*add /shop.js:3\nbad line\n7f40 8 \xff\n8000\n";
        std::fs::write(&path, lines).unwrap();
        let mut code = Code::default();
        assert_eq!(code.read_perf_map(7, &Place::Here(path.clone()), None).unwrap(), 2);
        std::fs::remove_file(&path).unwrap();
        let name = code.name_at(0x7f04, MOMENT);
        assert_eq!(name.as_deref(), Some("LazyCompile:*add /shop.js:3+0x4"));
        assert_eq!(code.name_at(0x7f30, MOMENT), None);
    }

    /// OV-23: code that comes to an address later has its name from then on.
    #[test]
    fn code_of_a_jitdump_has_the_name_of_its_time() {
        let words = |all: &[u32]| all.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<_>>();
        let load = |time: u32, name: &[u8]| {
            let head = words(&[0, 60, time, 0, 7, 7, 0x1000, 0, 0x1000, 0, 0x20, 0, 1, 0]);
            [&head[..], name, &[0]].concat()
        };
        let header = words(&[0x4a69_5444, 1, 40, 62, 0, 7, 1, 0, 0, 0]);
        let dump = [header, load(500, b"old"), load(900, b"new")].concat();
        let path = std::env::temp_dir().join(format!("jit-{}.dump", std::process::id()));
        std::fs::write(&path, dump).unwrap();
        let qpc = Clock { frequency: 10_000_000, ..Clock::UNUSABLE };
        let mut code = Code::new(vec![qpc, Clock { kind: ClockType::SYSTEM, ..qpc }]);
        let data = std::fs::metadata(&path).unwrap();
        let users = [std::os::unix::fs::MetadataExt::uid(&data)].into();
        let trust = Trust { since: FileTime(0), until: None, users };
        let read = code.read_jit_dump(7, &Place::Here(path.clone()), &trust);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), 2);
        let name = |file_index, time| {
            code.name_at(0x1001, Moment { file_index, time }).unwrap_or_default()
        };
        assert_eq!([name(0, 5), name(0, 8), name(0, 9)], ["old+0x1", "old+0x1", "new+0x1"]);
        assert_eq!(name(1, 5), "new+0x1", "of another clock");
    }

    #[test]
    fn malicious_methods_and_maps_are_harmless() {
        let mut code = Code::default();
        let whole = method(u64::MAX - 1, u32::MAX, "A\0B\0C\0");
        for size in 0..whole.len() {
            code.learn(&event(CLR, 143, &whole[..size]));
            code.learn(&event(CLR, 190, &whole[..size]));
        }
        code.learn(&event(CLR, 143, &whole));
        assert_eq!(code.name_at(u64::MAX, MOMENT).as_deref(), Some("A.B+0x1"));
    }
}
