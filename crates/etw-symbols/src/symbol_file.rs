//! [`SymbolFile`]: the symbols and debug information of one ELF file.

use crate::bytes::{Bytes, Elf, Source};
use crate::debug_data::{CommonLink, DebugData, packed_table};
use crate::mangling::{is_mangled, readable};
use crate::scopes::Scopes;
use crate::split::SplitPlaces;
use crate::stubs::{Stub, stubs};
use crate::trampolines::trampolines;
use crate::{Frame, Frames, Function};
use gimli::{DwLang, UnitOffset};
use object::elf::SHF_EXECINSTR;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionFlags, SymbolKind};
use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the names of all symbols; many symbols of a damaged file may have one long name.
const MAX_NAMES: usize = 256 << 20;
/// Symbols of a file; browsers have about two million.
const MAX_SYMBOLS: usize = 8 << 20;
/// Inlined calls at one address; deeper ones are left out.
const MAX_INLINED: usize = 64;

/// In the symbol of a function's part that seldom runs, which is elsewhere.
const COLD: &str = ".cold";

/// The symbols and debug information of one ELF file.
pub struct SymbolFile {
    /// By address.
    symbols: Vec<Symbol>,
    names: String,
    trampolines: Vec<Range<u64>>,
    /// Symbols were left out, because they are more than are read.
    is_cut: bool,
    /// The build id, or empty.
    pub build_id: Vec<u8>,
    /// The separate debug file, if the file names one.
    pub debug_link: Option<DebugLink>,
    debug: Option<DebugData>,
    scopes: RefCell<Scopes>,
}

/// The separate debug file that a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugLink {
    /// Its name, without a folder.
    pub name: Vec<u8>,
    /// The CRC-32 of its bytes.
    pub checksum: u32,
}

#[derive(Clone, Copy)]
struct Symbol {
    address: u64,
    size: u64,
    name: (u32, u32),
}

impl std::fmt::Debug for SymbolFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let symbols = self.symbols.len();
        write!(f, "SymbolFile {{ symbols: {symbols}, has_debug: {} }}", self.debug.is_some())
    }
}

/// Facts by which a file is known again.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The build id, or empty.
    pub build_id: Vec<u8>,
    /// The runs of pages that its segments have, by address; empty: it is not loaded as it is.
    runs: Vec<Range<u64>>,
}

impl Identity {
    /// Reads the headers of a file. `None`: it is no ELF file.
    pub fn of(bytes: &Bytes) -> Option<Identity> {
        /// The smallest page.
        const PAGE: u64 = 4096;
        let file = Elf::parse(bytes).ok()?;
        let segments = file.segments().filter_map(|one| {
            let end = one.address().saturating_add(one.size()).checked_next_multiple_of(PAGE)?;
            Some(one.address() / PAGE * PAGE..end)
        });
        let mut all: Vec<Range<u64>> = segments.collect();
        all.sort_by_key(|pages| pages.start);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for pages in all {
            match runs.last_mut().filter(|last| pages.start <= last.end) {
                Some(last) => last.end = last.end.max(pages.end),
                None => runs.push(pages),
            }
        }
        Some(Identity { build_id: id_of(&file), runs })
    }

    /// Whether an image of so many bytes can be of this file: of all of it, or of a part between two gaps.
    pub fn may_have_size(&self, size: u64) -> bool {
        let has_end = |end: u64| self.runs.binary_search_by_key(&end, |run| run.end).is_ok();
        self.runs.is_empty() || self.runs.iter().any(|run| has_end(run.start.wrapping_add(size)))
    }
}

/// The end of the name of a stub that calls a function of another file.
const STUB: &str = "@plt";

/// The size of a symbol that has none, as those of assembly code: to the next one, at most to the end of their section.
fn to_end_of_section<'a>(file: &Elf<'a>, symbol: &impl ObjectSymbol<'a>) -> u64 {
    let section = symbol.section_index().and_then(|at| file.section_by_index(at).ok());
    let end = section.map_or(0, |one| one.address().saturating_add(one.size()));
    end.saturating_sub(symbol.address())
}

/// Whether a symbol is in a section of code.
fn is_in_code<'a>(file: &Elf<'a>, symbol: &impl ObjectSymbol<'a>) -> bool {
    let section = symbol.section_index().and_then(|at| file.section_by_index(at).ok());
    let flags = section.map(|one| one.flags());
    matches!(flags, Some(SectionFlags::Elf { sh_flags, .. }) if sh_flags.contains(SHF_EXECINSTR))
}

fn id_of(file: &Elf<'_>) -> Vec<u8> {
    file.build_id().ok().flatten().unwrap_or_default().to_vec()
}

impl SymbolFile {
    /// Reads a whole file. `None`: the bytes are no ELF file.
    pub fn parse(bytes: &[u8]) -> Option<SymbolFile> {
        SymbolFile::of(&Bytes::of(Source::Memory(bytes.into()))?)
    }

    /// Reads a file where it has symbols. `None`: it is no ELF file.
    pub(crate) fn of(bytes: &Bytes) -> Option<SymbolFile> {
        let file = Elf::parse(bytes).ok()?;
        let mut parsed = SymbolFile::of_file(&file, bytes);
        // Such a table has no other one in it.
        if let Some(table) = packed_table(&file)
            && let Ok(file) = Elf::parse(&table)
        {
            parsed.add_debug_file(SymbolFile::of_file(&file, &table));
        }
        Some(parsed)
    }

    fn of_file(file: &Elf<'_>, bytes: &Bytes) -> SymbolFile {
        let link = file.gnu_debuglink().ok().flatten();
        let mut parsed = SymbolFile {
            symbols: Vec::new(),
            names: String::new(),
            trampolines: trampolines(file),
            is_cut: false,
            build_id: id_of(file),
            debug_link: link.map(|(name, checksum)| DebugLink { name: name.to_vec(), checksum }),
            debug: DebugData::of(file, bytes),
            scopes: RefCell::default(),
        };
        let mut functions = Vec::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let is_code = matches!(symbol.kind(), SymbolKind::Text);
            let Ok(name) = symbol.name_bytes() else { continue };
            if !is_code || symbol.is_undefined() || symbol.address() == 0 || name.is_empty() {
                continue;
            }
            let size = match symbol.size() {
                0 => to_end_of_section(file, &symbol),
                size => {
                    functions.push(symbol.address()..symbol.address().saturating_add(size));
                    size
                }
            };
            parsed.add(symbol.address(), size, name);
        }
        parsed.add_labels(file, functions);
        for Stub { address, size, function } in stubs(file) {
            parsed.add_parts(address, size, [function, STUB.as_bytes()]);
        }
        parsed.sort();
        parsed.is_cut |= bytes.is_cut();
        parsed
    }

    /// Adds symbols of code without a type, as assembly code has them, but none inside of a function.
    fn add_labels(&mut self, file: &Elf<'_>, mut functions: Vec<Range<u64>>) {
        functions.sort_by_key(|one| one.start);
        let mut end = 0;
        for one in &mut functions {
            end = one.end.max(end);
            one.end = end;
        }
        let is_inside = |address: u64| {
            let before = functions.partition_point(|one| one.start <= address).checked_sub(1);
            before.is_some_and(|before| address < functions[before].end)
        };
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let Ok(name) = symbol.name_bytes() else { continue };
            // The symbols of tools mark the kind of code, or places in a function.
            let is_label = matches!(symbol.kind(), SymbolKind::Unknown)
                && !matches!(name.first(), None | Some(b'$' | b'.'))
                && is_in_code(file, &symbol);
            if is_label && !is_inside(symbol.address()) {
                let size = to_end_of_section(file, &symbol);
                self.add(symbol.address(), size, name);
            }
        }
    }

    fn add(&mut self, address: u64, size: u64, name: &[u8]) {
        self.add_parts(address, size, [name, b""]);
    }

    /// Adds a symbol whose name has two parts.
    fn add_parts(&mut self, address: u64, size: u64, parts: [&[u8]; 2]) {
        let start = self.names.len();
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        if length > MAX_NAMES.saturating_sub(start) || self.symbols.len() >= MAX_SYMBOLS {
            self.is_cut = true;
            return;
        }
        parts.iter().for_each(|part| self.names.push_str(&String::from_utf8_lossy(part)));
        if let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(self.names.len())) {
            self.symbols.push(Symbol { address, size, name: (start, end) });
        }
    }

    /// Sorts by address; of several names of one address, the one with the largest size and then the first one stays.
    fn sort(&mut self) {
        self.symbols.sort_by_key(|symbol| (symbol.address, std::cmp::Reverse(symbol.size)));
        self.symbols.dedup_by_key(|symbol| symbol.address);
    }

    /// Whether the file has symbols of its own functions. A stripped program has its stubs alone.
    pub fn has_symbols(&self) -> bool {
        let mut names = self.symbols.iter().filter_map(|one| {
            let (start, end) = one.name;
            self.names.get(start as usize..end as usize)
        });
        names.any(|name| !name.ends_with(STUB))
    }

    /// Whether the file has debug information.
    pub fn has_debug_information(&self) -> bool {
        self.debug.is_some()
    }

    /// Whether symbols or debug information were left out, because they are more than are read.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut || self.debug.as_ref().is_some_and(DebugData::is_cut)
    }

    /// Says at what path the file was found.
    pub(crate) fn set_path(&mut self, path: &Path) {
        if let Some(debug) = &mut self.debug {
            debug.path = Some(path.to_owned());
        }
    }

    /// The path of the file that has the debug information, if it has one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.debug.as_ref()?.path.as_deref()
    }

    /// The file with a part of the debug information, if that has not been added.
    pub(crate) fn missing_part(&self) -> Option<&CommonLink> {
        self.debug.as_ref()?.missing.as_ref()
    }

    /// Adds the file that [`missing_part`](SymbolFile::missing_part) names.
    pub(crate) fn add_part(&mut self, other: &SymbolFile) {
        if let (Some(debug), Some(other)) = (&mut self.debug, &other.debug) {
            debug.add_common(other);
        }
    }

    /// Says where split files are.
    pub(crate) fn set_split_places(&mut self, places: SplitPlaces) {
        if let Some(debug) = &mut self.debug {
            debug.split.places = places;
        }
    }

    /// Takes the symbols of another file of the program, such as its separate debug file, and the debug information that this one lacks.
    pub fn add_debug_file(&mut self, other: SymbolFile) {
        for symbol in &other.symbols {
            let (start, end) = symbol.name;
            let name = other.names.get(start as usize..end as usize).unwrap_or_default();
            self.add(symbol.address, symbol.size, name.as_bytes());
        }
        self.sort();
        self.is_cut |= other.is_cut;
        self.trampolines.extend(other.trampolines);
        self.debug_link = self.debug_link.take().or(other.debug_link);
        if self.debug.is_none() {
            (self.debug, self.scopes) = (other.debug, other.scopes);
        }
    }

    /// The function at an address of the file's headers.
    pub fn function(&self, address: u64) -> Option<Function> {
        let (name, offset) = self.symbol(address)?;
        Some(Function { name: readable(name), offset })
    }

    /// The symbol at an address: its name as the file has it, and the offset in it.
    fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        let next = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(next.checked_sub(1)?)?;
        let offset = address - symbol.address;
        if offset >= symbol.size {
            return None;
        }
        let name = self.names.get(symbol.name.0 as usize..symbol.name.1 as usize)?;
        Some((name, offset))
    }

    /// The functions at an address of the file's headers, the innermost inlined one first.
    pub fn frames(&self, address: u64) -> Frames {
        let mut frames = self.debug_frames(address);
        if frames.is_empty()
            && let Some(function) = self.function(address)
        {
            let offset = Some(function.offset);
            frames.push(Frame { name: function.name, file: None, line: None, offset });
        }
        let is_in = |one: &Range<u64>| one.contains(&address);
        Frames { all: frames, is_signal_trampoline: self.trampolines.iter().any(is_in) }
    }

    fn debug_frames(&self, address: u64) -> Vec<Frame> {
        let mut found = Vec::new();
        let Some(debug) = &self.debug else { return found };
        let Some(context) = debug.context() else { return found };
        // The debug information is asked for the range `address..address + 1`.
        if address == u64::MAX {
            return found;
        }
        let Ok(mut frames) = debug.result(context.find_frames(address)) else { return found };
        while let Ok(Some(frame)) = frames.next() {
            if found.len() >= MAX_INLINED {
                break;
            }
            let name = match &frame.function {
                Some(function) => {
                    let entry = frame.dw_die_offset.map(|entry| (entry, function.language));
                    function.raw_name().ok().map(|name| {
                        let full = (!is_mangled(&name)).then(|| self.full_name(address, entry?));
                        full.flatten().unwrap_or_else(|| readable(&name))
                    })
                }
                // Line tables alone name no functions.
                None => self.function(address).map(|function| function.name),
            };
            let Some(name) = name else { continue };
            let location = frame.location.as_ref();
            found.push(Frame {
                name,
                file: location.and_then(|location| location.file).map(Arc::from),
                line: location.and_then(|location| location.line),
                offset: None,
            });
        }
        if let Some(outermost) = found.last_mut() {
            let symbol = self.symbol(address).filter(|(name, _)| !name.contains(COLD));
            outermost.offset = symbol.map(|(_, offset)| offset);
        }
        found
    }
}

impl SymbolFile {
    /// The name with its scopes of a function of the debug information, at an address of its code.
    fn full_name(&self, address: u64, entry: (UnitOffset, Option<DwLang>)) -> Option<Arc<str>> {
        let debug = self.debug.as_ref()?;
        let unit = debug.result(debug.context()?.find_dwarf_and_unit(address))?;
        let symbol = |start| {
            let (name, offset) = self.symbol(start)?;
            (offset == 0).then(|| name.to_owned())
        };
        self.scopes.borrow_mut().name(unit, entry, &symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symbols of a damaged file may share a name of many megabytes.
    #[test]
    fn names_take_no_more_than_their_share_of_memory() {
        let mut file = SymbolFile {
            symbols: Vec::new(),
            names: String::new(),
            trampolines: Vec::new(),
            is_cut: false,
            build_id: Vec::new(),
            debug_link: None,
            debug: None,
            scopes: RefCell::default(),
        };
        let name = vec![b'a'; MAX_NAMES / 4];
        (0..100).for_each(|address| file.add_parts(address, 1, [&name, b"@plt"]));
        assert!(
            file.names.len() <= MAX_NAMES && file.symbols.len() == 3 && file.is_cut,
            "{}",
            file.names.len()
        );
        file.add(200, 1, b"short");
        assert_eq!(file.function(200).map(|one| one.name.to_string()).as_deref(), Some("short"));
    }

    #[test]
    fn bytes_that_are_no_elf_file_have_no_symbols() {
        assert!(SymbolFile::parse(b"").is_none());
        assert!(SymbolFile::parse(b"\x7fELF").is_none());
    }
}
