//! [`Scopes`]: full names of functions for which debug information has only a bare one, such as `work` of `alpha::work`.
//!
//! GCC writes no linkage name for functions that other files cannot call: those that are static, in anonymous namespaces, of lambdas, or of
//! templates on local types. The names of what encloses them are in the entries around theirs.

use crate::mangling::{is_mangled, readable};
use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, DwLang, Dwarf, EndianArcSlice,
    RunTimeEndian, Unit, UnitHeader, UnitOffset, UnitRef,
};
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) type Reader = EndianArcSlice<RunTimeEndian>;
type Entry = DebuggingInformationEntry<Reader>;

/// Entries that lead from a function to its name, and scopes around it; only a hostile file has more.
const MAX_STEPS: usize = 16;
/// Bytes of a name's part, and entries of a unit that are remembered.
const MAX_PART: usize = 4 << 10;
const MAX_ENTRIES: usize = 4 << 20;

/// The file that has a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Home {
    /// The program, or its debug file.
    Own,
    /// The file with what several programs have in common.
    Common,
    /// The split file of the unit with this number.
    Split(u64),
}

/// An offset in the section of a file's entries.
type Place = (Home, usize);

/// A unit, and which of its entries are inside of which.
struct Outline {
    unit: Unit<Reader>,
    /// Functions, classes and namespaces, and the one around each, by offset.
    parents: Vec<(usize, Option<usize>)>,
    /// Entries with the addresses of functions that are inlined elsewhere, by the functions' places.
    instances: HashMap<Place, usize>,
}

/// Full names of functions in the units of a file.
#[derive(Default)]
pub(crate) struct Scopes {
    /// Those of a file, by offset in the section.
    headers: HashMap<Home, Vec<(usize, UnitHeader<Reader>)>>,
    outlines: HashMap<Place, Option<Arc<Outline>>>,
}

/// Whether a bare name says all: these languages have one scope, or names with their packages.
fn has_whole_names(language: DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C89
            | gimli::DW_LANG_C
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17
            | gimli::DW_LANG_Mips_Assembler
            | gimli::DW_LANG_Go
    )
}

impl Scopes {
    /// The full name of the function at an entry. `symbol`: the name of the symbol that begins at an address. `None`: it has only its bare name.
    pub(crate) fn name(
        &mut self,
        unit: UnitRef<'_, Reader>,
        (entry, language): (UnitOffset, Option<DwLang>),
        symbol: &dyn Fn(u64) -> Option<String>,
    ) -> Option<Arc<str>> {
        if language.is_some_and(has_whole_names) {
            return None;
        }
        let home = unit.dwo_id.map_or(Home::Own, |id| Home::Split(id.0));
        let start = unit.header.debug_info_offset()?.0;
        // The addresses are those of one unit; with link-time optimisation, names are in others.
        let code = self.outline(unit, (home, start))?;
        let (mut dwarf, mut place) = (unit.dwarf, (home, start));
        let (mut outline, mut at) = (code.clone(), entry.0);
        for _ in 0..MAX_STEPS {
            let here = UnitRef::new(dwarf, &outline.unit);
            let entry = here.entry(UnitOffset(at)).ok()?;
            if let Some(name) = linkage_name(here, &entry) {
                return Some(readable(&name));
            }
            let instance = code.instances.get(&(place.0, place.1.checked_add(at)?));
            let with_code = UnitRef::new(unit.dwarf, &code.unit);
            let name = match instance.and_then(|of| with_code.entry(UnitOffset(*of)).ok()) {
                Some(instance) => symbol_name(with_code, &instance, symbol),
                None => symbol_name(here, &entry, symbol),
            };
            if name.is_some() {
                return name;
            }
            if let Some(name) = text(here, &entry, gimli::DW_AT_name) {
                return scoped(here, &outline, at, name);
            }
            let next = match origin(&entry)? {
                AttributeValue::UnitRef(offset) => {
                    at = offset.0;
                    continue;
                }
                AttributeValue::DebugInfoRef(DebugInfoOffset(offset)) => (place.0, offset),
                AttributeValue::DebugInfoRefSup(DebugInfoOffset(offset)) => {
                    dwarf = dwarf.sup()?;
                    (Home::Common, offset)
                }
                _ => return None,
            };
            place = (next.0, self.unit_at(dwarf, next)?);
            outline = self.outline(UnitRef::new(dwarf, unit.unit), place)?;
            at = next.1 - place.1;
        }
        None
    }

    /// The start of the unit that has a place.
    fn unit_at(&mut self, dwarf: &Dwarf<Reader>, (home, offset): Place) -> Option<usize> {
        let headers = self.headers.entry(home).or_insert_with(|| {
            let (mut found, mut all) = (Vec::new(), dwarf.units());
            while let Ok(Some(header)) = all.next() {
                if let Some(start) = header.debug_info_offset() {
                    found.push((start.0, header));
                }
            }
            found
        });
        let next = headers.partition_point(|(start, _)| *start <= offset);
        Some(headers.get(next.checked_sub(1)?)?.0)
    }

    /// The outline of the unit that begins at a place. `of`: the unit with the code, and what has the place's file.
    fn outline(&mut self, of: UnitRef<'_, Reader>, place: Place) -> Option<Arc<Outline>> {
        if let Some(known) = self.outlines.get(&place) {
            return known.clone();
        }
        let (home, start) = place;
        let header = of.dwarf.debug_info.header_from_offset(DebugInfoOffset(start)).ok();
        let unit = header.and_then(|header| of.dwarf.unit(header).ok());
        let unit = unit.map(|mut unit| {
            // A split unit counts its addresses from where the program says.
            if let Home::Split(_) = home {
                unit.copy_relocated_attributes(of.unit);
            }
            unit
        });
        let outline = unit.and_then(|unit| Outline::of(unit, home)).map(Arc::new);
        self.outlines.insert(place, outline.clone());
        outline
    }
}

impl Outline {
    fn of(unit: Unit<Reader>, home: Home) -> Option<Outline> {
        let start = unit.header.debug_info_offset()?.0;
        let (mut parents, mut instances) = (Vec::new(), HashMap::new());
        let mut around: Vec<(isize, usize)> = Vec::new();
        let mut entries = unit.entries_raw(None).ok()?;
        while !entries.is_empty() && parents.len() < MAX_ENTRIES {
            let (at, depth) = (entries.next_offset().0, entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation().ok()? else { continue };
            let tag = abbreviation.tag();
            if !is_scope(tag) {
                entries.skip_attributes(abbreviation.attributes()).ok()?;
                continue;
            }
            while around.last().is_some_and(|(outer, _)| *outer >= depth) {
                around.pop();
            }
            parents.push((at, around.last().map(|(_, parent)| *parent)));
            around.push((depth, at));
            let (mut origin, mut has_code) = (None, false);
            for attribute in abbreviation.attributes() {
                let attribute = entries.read_attribute(*attribute).ok()?;
                match (attribute.name(), attribute.value()) {
                    (gimli::DW_AT_abstract_origin, AttributeValue::UnitRef(of)) => {
                        origin = start.checked_add(of.0).map(|of| (home, of));
                    }
                    (gimli::DW_AT_abstract_origin, AttributeValue::DebugInfoRef(of)) => {
                        origin = Some((home, of.0));
                    }
                    (gimli::DW_AT_abstract_origin, AttributeValue::DebugInfoRefSup(of)) => {
                        origin = Some((Home::Common, of.0));
                    }
                    (gimli::DW_AT_low_pc | gimli::DW_AT_ranges, _) => has_code = true,
                    _ => {}
                }
            }
            if let Some(origin) = origin.filter(|_| has_code) {
                instances.entry(origin).or_insert(at);
            }
        }
        drop(entries);
        Some(Outline { unit, parents, instances })
    }

    fn parent(&self, at: usize) -> Option<usize> {
        let index = self.parents.binary_search_by_key(&at, |(entry, _)| *entry).ok()?;
        self.parents[index].1
    }
}

fn is_class(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_interface_type
    )
}

fn is_scope(tag: gimli::DwTag) -> bool {
    is_class(tag)
        || matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_module | gimli::DW_TAG_subprogram)
}

/// The entry that declares the function of another one.
fn origin(entry: &Entry) -> Option<AttributeValue<Reader>> {
    let origin = entry.attr_value(gimli::DW_AT_abstract_origin);
    origin.or_else(|| entry.attr_value(gimli::DW_AT_specification))
}

fn text(unit: UnitRef<'_, Reader>, entry: &Entry, attribute: gimli::DwAt) -> Option<String> {
    let value = unit.attr_string(entry.attr_value(attribute)?).ok()?;
    (value.len() <= MAX_PART).then(|| String::from_utf8_lossy(&value).into_owned())
}

fn linkage_name(unit: UnitRef<'_, Reader>, entry: &Entry) -> Option<String> {
    let name = text(unit, entry, gimli::DW_AT_linkage_name);
    name.or_else(|| text(unit, entry, gimli::DW_AT_MIPS_linkage_name))
}

/// The name of the symbol at the start of a function's code, if it has more than a bare name. Parts of functions are named as the whole.
fn symbol_name(
    unit: UnitRef<'_, Reader>,
    entry: &Entry,
    symbol: &dyn Fn(u64) -> Option<String>,
) -> Option<Arc<str>> {
    // Inlined code may begin where the function around it begins.
    if entry.tag() != gimli::DW_TAG_subprogram {
        return None;
    }
    let start = unit.die_ranges(entry).ok()?.next().ok()??.begin;
    let symbol = symbol(start)?;
    let name = symbol.split('.').next().filter(|name| is_mangled(name))?;
    let shown = readable(name);
    (*shown != *name).then_some(shown)
}

/// The name of the function at an entry, behind those of its scopes.
fn scoped(
    unit: UnitRef<'_, Reader>,
    outline: &Outline,
    mut at: usize,
    name: String,
) -> Option<Arc<str>> {
    let (mut parts, mut is_in_class) = (vec![name], false);
    for _ in 0..MAX_STEPS {
        let Some(parent) = outline.parent(at) else { break };
        let entry = unit.entry(UnitOffset(parent)).ok()?;
        let name = text(unit, &entry, gimli::DW_AT_name);
        if entry.tag() == gimli::DW_TAG_subprogram {
            // Functions inside of functions are those of their classes, such as lambdas.
            if !is_in_class {
                break;
            }
            let whole = function_name(unit, entry);
            if let Some(linkage) = whole.0 {
                parts.push(linkage);
                break;
            }
            parts.extend(whole.1);
            at = whole.2;
            continue;
        }
        parts.push(match name {
            Some(name) => name,
            None if is_class(entry.tag()) => {
                // The classes of lambdas have no names.
                let is_lambda = parts.last().is_some_and(|method| method == "operator()");
                let kind = if is_lambda { "lambda" } else { "unnamed" };
                let number = |attribute| entry.attr(attribute).and_then(|one| one.udata_value());
                let [line, column] = [gimli::DW_AT_decl_line, gimli::DW_AT_decl_column].map(number);
                format!("{{{kind} at {}:{}}}", line.unwrap_or(0), column.unwrap_or(0))
            }
            None => "(anonymous namespace)".to_owned(),
        });
        is_in_class |= is_class(entry.tag());
        at = parent;
    }
    parts.reverse();
    (parts.len() > 1).then(|| parts.join("::").into())
}

/// The readable linkage name of the function at an entry, or its bare name; and the entry that declares it.
fn function_name(
    unit: UnitRef<'_, Reader>,
    mut entry: Entry,
) -> (Option<String>, Option<String>, usize) {
    for _ in 0..MAX_STEPS {
        let at = entry.offset().0;
        if let Some(name) = linkage_name(unit, &entry) {
            return (Some(readable(&name).to_string()), None, at);
        }
        let name = text(unit, &entry, gimli::DW_AT_name);
        let next = match origin(&entry) {
            Some(AttributeValue::UnitRef(offset)) => unit.entry(offset).ok(),
            _ => None,
        };
        match next.filter(|_| name.is_none()) {
            Some(next) => entry = next,
            None => return (None, name, at),
        }
    }
    (None, None, entry.offset().0)
}
