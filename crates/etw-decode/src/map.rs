//! [`Map`]: names of an integer's values.

use std::borrow::Cow;
use std::fmt::Write;

/// Names of an integer's values.
#[doc(alias = "EVENT_MAP_INFO")]
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Map {
    /// Its name in the manifest.
    pub name: String,
    /// Whole values or single bits.
    pub kind: MapKind,
    /// Value or bit, and its text, which may end in a space as message tables have it.
    pub entries: Vec<(u32, String)>,
}

/// The kind of values that the entries of a map name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MapKind {
    /// The whole value.
    #[default]
    Value,
    /// Bits of it.
    Bits,
}

impl Map {
    /// The value's name; names of its bits joined by `|`, bits without one as hex at the end.
    pub fn name_of(&self, value: u64) -> Option<Cow<'_, str>> {
        match self.kind {
            MapKind::Value => {
                let entry = self.entries.iter().find(|entry| u64::from(entry.0) == value)?;
                Some(Cow::Borrowed(entry.1.trim_end()))
            }
            MapKind::Bits => self.bits(value).map(Cow::Owned),
        }
    }

    /// The name with the space that may end it, as messages show it.
    pub(crate) fn text_of(&self, value: u64) -> Option<Cow<'_, str>> {
        match self.kind {
            MapKind::Value => {
                let entry = self.entries.iter().find(|entry| u64::from(entry.0) == value)?;
                Some(Cow::Borrowed(&entry.1))
            }
            MapKind::Bits => {
                let mut text = self.bits(value)?;
                let set = self.entries.iter().rfind(|entry| is_set(entry.0, value));
                let ends_in_space = set.is_some_and(|entry| entry.1.ends_with(' '));
                text.push_str(if ends_in_space { " " } else { "" });
                Some(Cow::Owned(text))
            }
        }
    }

    /// Bytes of [`name_of`](Map::name_of), for what it costs to write.
    pub(crate) fn name_length(&self, value: u64) -> Option<usize> {
        match self.kind {
            MapKind::Value => self.name_of(value).map(|name| name.len()),
            MapKind::Bits => {
                let set = self.entries.iter().filter(|entry| is_set(entry.0, value));
                let length = set.map(|entry| entry.1.len() + 1).sum();
                (length > 0).then_some(length)
            }
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn size(&self) -> usize {
        let names = self.entries.iter().map(|entry| size_of_val(entry) + entry.1.len());
        size_of::<Map>() + self.name.len() * 2 + names.sum::<usize>()
    }

    fn bits(&self, value: u64) -> Option<String> {
        let mut left = value;
        let mut text = String::new();
        for (bits, name) in &self.entries {
            if is_set(*bits, value) {
                let separator = if text.is_empty() { "" } else { "|" };
                let _ = write!(text, "{separator}{}", name.trim_end());
                left &= !u64::from(*bits);
            }
        }
        if text.is_empty() {
            return None;
        }
        if left != 0 {
            let _ = write!(text, "|{left:#x}");
        }
        Some(text)
    }
}

fn is_set(bits: u32, value: u64) -> bool {
    let bits = u64::from(bits);
    if bits == 0 { value == 0 } else { value & bits == bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_names_whole_values_or_bits() {
        let entries = vec![(1, "one".into()), (4, "four".into()), (2, "two".into())];
        let mut map = Map { name: "m".into(), kind: MapKind::Value, entries };
        assert_eq!(map.name_of(4).as_deref(), Some("four"));
        assert_eq!(map.name_of(5), None);
        map.kind = MapKind::Bits;
        assert_eq!(map.name_of(5).as_deref(), Some("one|four"));
        assert_eq!(map.name_of(0x13).as_deref(), Some("one|two|0x10"));
        assert_eq!(map.name_of(0), None);
        assert_eq!(map.name_of(8), None);
        map.entries[0].1.push(' ');
        assert_eq!(
            (map.name_of(1).as_deref(), map.text_of(1).as_deref()),
            (Some("one"), Some("one "))
        );
    }
}
