//! [`Outline`]: a template instance as it lies in a chunk, before its values are read.

use etw_types::le;

use crate::parse::token;
use crate::value::{Value, ValueType};

/// The extents of a template instance. All lie inside of the chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline {
    /// Offset of the template's definition in the chunk.
    pub template: u32,
    /// Offset of the first descriptor. There is one for each value: `u16 size, u8 type, u8 0`.
    pub descriptors: usize,
    /// Offset of the first value, behind the last descriptor.
    pub values: usize,
    /// Offset behind the last byte that a value may have.
    pub end: usize,
}

impl Outline {
    /// Reads the head of the fragment in `chunk[at..end]`, which is a whole record or lies in a value. `None`: the fragment has no
    /// template, or is damaged.
    ///
    /// ```text
    /// 0F 01 01 00 (optional in a value)   0C   u8 1   u32 template id   u32 offset of the definition
    /// [the definition, where its offset is this one: u32 next, GUID, u32 size, content of that size]
    /// u32 count   count × descriptor   values
    /// ```
    #[inline]
    pub fn read(chunk: &[u8], mut at: usize, end: usize, is_record: bool) -> Option<Outline> {
        let first = *chunk.get(at)?;
        if is_record || first != token::TEMPLATE {
            if first != token::FRAGMENT {
                return None;
            }
            at += 4;
        }
        let (head, _) = chunk.get(at..)?.split_first_chunk::<10>()?;
        if head[0] != token::TEMPLATE {
            return None;
        }
        let template = u32::from_le_bytes([head[6], head[7], head[8], head[9]]);
        at += 10;
        if template as usize == at {
            let size = le::u32(chunk, at + 20)? as usize;
            at = at.checked_add(24)?.checked_add(size)?;
        }
        let count = le::u32(chunk, at)? as usize;
        let descriptors = at + 4;
        if end > chunk.len() || count > end.checked_sub(descriptors)? / 4 {
            return None;
        }
        Some(Outline { template, descriptors, values: descriptors + count * 4, end })
    }

    /// The descriptors.
    #[inline]
    pub fn descriptors<'a>(&self, chunk: &'a [u8]) -> &'a [u8] {
        chunk.get(self.descriptors..self.values).unwrap_or_default()
    }

    /// The value with a number.
    #[inline]
    pub fn value<'a>(&self, chunk: &'a [u8], index: u16) -> Option<Value<'a>> {
        let descriptors = self.descriptors(chunk);
        let (before, rest) = descriptors.split_at_checked(usize::from(index) * 4)?;
        let [low, high, value_type, _] = *rest.first_chunk()?;
        let sizes = before.chunks_exact(4).map(|one| u16::from_le_bytes([one[0], one[1]]));
        let at = self.values + sizes.map(usize::from).sum::<usize>();
        let end = at + usize::from(u16::from_le_bytes([low, high]));
        let bytes = chunk.get(at..end).filter(|_| end <= self.end)?;
        Some(Value { value_type: ValueType(value_type), bytes })
    }

    /// The fragment with a template in the last value that is a fragment: the data of nearly every event.
    #[inline]
    pub fn last_fragment(&self, chunk: &[u8]) -> Option<Outline> {
        let descriptors = self.descriptors(chunk);
        let is_fragment =
            |one: &[u8]| ValueType(one[2]) == ValueType::FRAGMENT && one[..2] != [0, 0];
        let index = descriptors.chunks_exact(4).rposition(is_fragment)?;
        let sizes = descriptors[..index * 4].chunks_exact(4);
        let sizes = sizes.map(|one| usize::from(u16::from_le_bytes([one[0], one[1]])));
        let at = self.values + sizes.sum::<usize>();
        let [low, high, ..] = *descriptors[index * 4..].first_chunk::<4>()?;
        let end = at + usize::from(u16::from_le_bytes([low, high]));
        Outline::read(chunk, at, end, false).filter(|_| end <= self.end)
    }
}
