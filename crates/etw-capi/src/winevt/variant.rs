//! `EVT_VARIANT`: values in a caller's buffer. The array of variants comes first; their pointers lead to the data behind it.

use std::ffi::c_void;

use etw_evtx::query::NodeValue;
use etw_evtx::value::{Value, ValueType};
use etw_types::{FileTime, Guid};

use super::Failure;
use crate::abi::store;
use crate::status::ERROR_INSUFFICIENT_BUFFER;

/// Bytes of an `EVT_VARIANT`.
const SIZE: usize = 16;
/// `EvtVarTypeEvtHandle`
const HANDLE: u32 = 32;

/// Values to be written.
#[derive(Default)]
pub struct Variants {
    heads: Vec<Head>,
    /// Data of all values, each aligned to 8 bytes.
    data: Vec<u8>,
    /// Offsets in the data of pointers to other offsets in it.
    pointers: Vec<usize>,
}

struct Head {
    content: Content,
    count: u32,
    kind: u32,
}

enum Content {
    Inline(u64),
    /// An offset in the data.
    Data(usize),
}

impl Variants {
    /// One value, made by `push`.
    pub fn of(push: impl FnOnce(&mut Variants)) -> Variants {
        let mut variants = Variants::default();
        push(&mut variants);
        variants
    }

    pub fn len(&self) -> usize {
        self.heads.len()
    }

    fn head(&mut self, content: Content, count: usize, kind: ValueType) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.heads.push(Head { content, count, kind: u32::from(kind.0) });
    }

    pub fn null(&mut self) {
        self.head(Content::Inline(0), 0, ValueType::NULL);
    }

    pub fn number(&mut self, kind: ValueType, value: Option<impl Into<u64>>) {
        match value {
            Some(value) => self.head(Content::Inline(value.into()), 0, kind),
            None => self.null(),
        }
    }

    pub fn boolean(&mut self, value: bool) {
        self.number(ValueType::BOOL, Some(u64::from(value)));
    }

    pub fn time(&mut self, time: FileTime) {
        self.number(ValueType::FILETIME, Some(time.0 as u64));
    }

    pub fn guid(&mut self, guid: Option<Guid>) {
        match guid {
            Some(guid) => self.bytes(ValueType::GUID, &guid.0, 0),
            None => self.null(),
        }
    }

    pub fn text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.bytes(ValueType::STRING, &utf16(text), 0),
            None => self.null(),
        }
    }

    pub fn handle(&mut self, handle: *mut c_void) {
        self.heads.push(Head {
            content: Content::Inline(handle.addr() as u64),
            count: 0,
            kind: HANDLE,
        });
    }

    pub fn numbers(&mut self, kind: ValueType, values: &[u32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(ValueType(kind.0 | ValueType::ARRAY), &bytes, values.len());
    }

    /// An array of texts: pointers, then the texts.
    pub fn texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) {
        self.array(ValueType::STRING, texts.map(utf16).collect());
    }

    /// Appends data and returns its offset.
    fn put(&mut self, bytes: &[u8]) -> usize {
        self.data.resize(self.data.len().next_multiple_of(8), 0);
        let at = self.data.len();
        self.data.extend_from_slice(bytes);
        at
    }

    fn bytes(&mut self, kind: ValueType, bytes: &[u8], count: usize) {
        let at = self.put(bytes);
        self.head(Content::Data(at), count, kind);
    }

    /// An array of pointers to items.
    fn array(&mut self, item: ValueType, items: Vec<Vec<u8>>) {
        let table = self.put(&vec![0; items.len() * 8]);
        for (index, item) in items.iter().enumerate() {
            let at = self.put(item) as u64;
            let pointer = table + index * 8;
            self.data[pointer..pointer + 8].copy_from_slice(&at.to_le_bytes());
            self.pointers.push(pointer);
        }
        self.head(Content::Data(table), items.len(), ValueType(item.0 | ValueType::ARRAY));
    }

    pub fn node(&mut self, value: Option<&NodeValue<'_>>) {
        match value {
            Some(NodeValue::Value(value)) => self.value(*value),
            Some(NodeValue::Text(text)) => self.text(Some(text)),
            None => self.null(),
        }
    }

    /// A value of a record: binary XML has the same types.
    pub fn value(&mut self, value: Value<'_>) {
        let Value { value_type, bytes } = value;
        if value.is_null() || bytes.is_empty() && value_type.is_array() {
            return self.null();
        }
        if value_type.is_array() {
            return self.value_array(value);
        }
        // Texts end with a NUL, whether the record has one or not.
        let padded =
            |size: usize| -> Vec<u8> { bytes.iter().copied().chain(vec![0; size]).collect() };
        match value_type {
            ValueType::STRING => self.bytes(value_type, &padded(2), 0),
            ValueType::ANSI_STRING => self.bytes(value_type, &padded(1), 0),
            ValueType::BINARY => self.bytes(value_type, bytes, bytes.len()),
            ValueType::GUID | ValueType::SYSTEMTIME if bytes.len() >= 16 => {
                self.bytes(value_type, &bytes[..16], 0);
            }
            ValueType::SID if is_sid(bytes) => self.bytes(value_type, bytes, 0),
            ValueType::BOOL => self.boolean(bytes.iter().any(|byte| *byte != 0)),
            ValueType::SIZE => self.head(Content::Inline(little_endian(bytes)), 0, value_type),
            _ => match value_type.fixed_size().filter(|size| *size <= 8 && *size <= bytes.len()) {
                Some(size) => {
                    self.head(Content::Inline(little_endian(&bytes[..size])), 0, value_type)
                }
                None => self.null(),
            },
        }
    }

    fn value_array(&mut self, value: Value<'_>) {
        let item = value.value_type.item();
        let with_nul = |size: usize| {
            let items = value.items();
            items.map(|one| one.bytes.iter().copied().chain(vec![0; size]).collect()).collect()
        };
        match item {
            ValueType::STRING => self.array(item, with_nul(2)),
            ValueType::ANSI_STRING => self.array(item, with_nul(1)),
            _ => match item.fixed_size().filter(|size| value.bytes.len() >= *size) {
                Some(size) => self.bytes(value.value_type, value.bytes, value.bytes.len() / size),
                None => self.null(),
            },
        }
    }

    /// Writes the array and its data. The sizes are in bytes.
    ///
    /// # Errors
    /// 122 if the buffer is too small; `used` has the size that it needs.
    ///
    /// # Safety
    /// OUT `buffer`, `size` bytes; OUT `used`.
    pub unsafe fn put_into(
        &self,
        buffer: *mut u8,
        size: u32,
        used: *mut u32,
    ) -> Result<(), Failure> {
        let start = self.heads.len() * SIZE;
        let needed = start + self.data.len();
        if used.is_null() {
            return Err(Failure::invalid("the pointer for the required size is NULL"));
        }
        // SAFETY: OUT.
        unsafe { store(used, u32::try_from(needed).unwrap_or(u32::MAX)) };
        if buffer.is_null() || (size as usize) < needed {
            return Err(Failure::from(ERROR_INSUFFICIENT_BUFFER));
        }
        let base = (buffer.expose_provenance() + start) as u64;
        let mut bytes = Vec::with_capacity(needed);
        for Head { content, count, kind } in &self.heads {
            let content = match content {
                Content::Inline(value) => *value,
                Content::Data(at) => base + *at as u64,
            };
            bytes.extend_from_slice(&content.to_le_bytes());
            bytes.extend_from_slice(&count.to_le_bytes());
            bytes.extend_from_slice(&kind.to_le_bytes());
        }
        bytes.extend_from_slice(&self.data);
        for pointer in &self.pointers {
            let slot = &mut bytes[start + pointer..][..8];
            let address = base + little_endian(slot);
            slot.copy_from_slice(&address.to_le_bytes());
        }
        // SAFETY: OUT: the buffer has at least `needed` bytes.
        unsafe { buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn is_sid(bytes: &[u8]) -> bool {
    bytes.len() >= 8 && bytes.len() >= 8 + 4 * usize::from(bytes[1])
}
