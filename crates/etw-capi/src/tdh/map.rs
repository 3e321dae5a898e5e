//! `EVENT_MAP_INFO`: building it from a map, and reading the name of a value from it.

use std::borrow::Cow;

use etw_decode::event_info::utf16_z;
use etw_decode::{Map, MapKind, Source};

const MANIFEST_VALUES: u32 = 0x01;
const MANIFEST_BITS: u32 = 0x02;
const WBEM_VALUES: u32 = 0x08;
const WBEM_BITS: u32 = 0x10;
/// The map names bits, in whatever kind of schema.
const BITS: u32 = 0x02 | 0x10 | 0x20;
/// The map has patterns, which do not name integers.
const PATTERNS: u32 = 0x04;

const FIXED_SIZE: usize = 16;
const ENTRY_SIZE: usize = 8;

/// The bytes of the structure: the fixed part, entries of `{ u32 offset of the text, u32 value }`, and the texts.
pub fn map_info(map: &Map, source: Option<Source>) -> Vec<u8> {
    let is_wbem = matches!(source, Some(Source::Mof | Source::Kernel | Source::Header));
    let flags = match (map.kind, is_wbem) {
        (MapKind::Bits, false) => MANIFEST_BITS,
        (MapKind::Bits, true) => WBEM_BITS,
        (_, false) => MANIFEST_VALUES,
        (_, true) => WBEM_VALUES,
    };
    let base = FIXED_SIZE + map.entries.len() * ENTRY_SIZE;
    let mut texts = utf16_z(&map.name);
    let mut out = Vec::with_capacity(base + texts.len());
    for word in [base as u32, flags, map.entries.len() as u32, 0] {
        out.extend(word.to_le_bytes());
    }
    for (value, text) in &map.entries {
        out.extend(((base + texts.len()) as u32).to_le_bytes());
        out.extend(value.to_le_bytes());
        // Windows documents a blank behind each text ("Monday "): programs cut off the last unit, or put a bar in its place.
        let text = text.trim_end();
        let text = if is_wbem { Cow::Borrowed(text) } else { Cow::Owned(format!("{text} ")) };
        texts.extend(utf16_z(&text));
    }
    out.extend(texts);
    out
}

/// The name of a value in an EVENT_MAP_INFO of the program; `None` if the map does not name it.
///
/// # Safety
/// ONE `info`, as `TdhGetEventMapInformation` has written it, with all its entries and texts.
pub unsafe fn name_in(info: *const u8, value: u64) -> Option<String> {
    if info.is_null() {
        return None;
    }
    // SAFETY: ONE: `at` is in the fixed part, or in an entry that its count covers.
    let word = |at: usize| unsafe { info.add(at).cast::<u32>().read_unaligned() };
    let (flags, count) = (word(4), word(8) as usize);
    if flags & PATTERNS != 0 {
        return None;
    }
    let entries = (0..count).map(|number| {
        let at = FIXED_SIZE + number * ENTRY_SIZE;
        (word(at), word(at + 4))
    });
    // SAFETY: ONE: the offset is that of a text in the structure.
    let text = |offset: u32| unsafe { crate::abi::utf16_of(info.add(offset as usize).cast()) };
    let wanted: Vec<(u32, String)> = entries
        .filter(|(_, entry)| match flags & BITS {
            0 => u64::from(*entry) == value,
            _ => *entry != 0 && value & u64::from(*entry) == u64::from(*entry),
        })
        .filter_map(|(offset, entry)| Some((entry, text(offset)?.trim_end().to_owned())))
        .collect();
    let kind = if flags & BITS == 0 { MapKind::Value } else { MapKind::Bits };
    let map = Map { name: String::new(), kind, entries: wanted };
    map.name_of(value).map(Cow::into_owned)
}
