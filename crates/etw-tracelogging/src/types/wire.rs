//! [`Wire`]: how a value is stored.

/// How one value is stored in a payload; numbers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Wire {
    /// No bytes.
    Nothing,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// An unsigned number of up to 64 bits, seven in each byte, the lowest first (ULEB128).
    VarUint,
    /// 4 or 8 bytes.
    Pointer,
    Guid,
    FileTime,
    SystemTime,
    /// 8 + 4 · count bytes.
    Sid,
    /// Two pointers and a SID, or a zero `u32`.
    WbemSid,
    /// UTF-16 up to its NUL, or of a given length in characters.
    Utf16,
    /// 8-bit text up to its NUL, or of a given length in bytes.
    Ansi,
    /// Bytes of a given length.
    Binary,
    /// `u16` count of bytes, UTF-16.
    CountedUtf16,
    /// `u16` count of bytes, 8-bit text.
    CountedAnsi,
    /// `u16` count of bytes, bytes.
    CountedBinary,
    /// Big-endian `u16` count of bytes, UTF-16.
    ReverseCountedUtf16,
    /// Big-endian `u16` count of bytes, 8-bit text.
    ReverseCountedAnsi,
    /// UTF-16 up to the end of the payload.
    RestUtf16,
    /// 8-bit text up to the end of the payload.
    RestAnsi,
    /// `u32` count of bytes, bytes.
    HexDump,
}

impl Wire {
    /// Bytes of one value, if its size does not depend on the payload.
    pub const fn fixed_size(self, pointer_size: u8) -> Option<usize> {
        Some(match self {
            Wire::Nothing => 0,
            Wire::I8 | Wire::U8 => 1,
            Wire::I16 | Wire::U16 => 2,
            Wire::I32 | Wire::U32 | Wire::F32 => 4,
            Wire::I64 | Wire::U64 | Wire::F64 | Wire::FileTime => 8,
            Wire::Pointer => pointer_size as usize,
            Wire::Guid | Wire::SystemTime => 16,
            _ => return None,
        })
    }

    /// The groups of [`wires`] that it belongs to.
    pub(crate) const fn group(self) -> u8 {
        match self {
            Wire::I8 | Wire::U8 => wires::BITS8,
            Wire::I16 | Wire::U16 => wires::BITS16,
            Wire::I32 | Wire::U32 => wires::BITS32,
            Wire::I64 | Wire::U64 => wires::BITS64,
            Wire::Ansi | Wire::CountedAnsi | Wire::ReverseCountedAnsi | Wire::RestAnsi => {
                wires::NARROW_TEXT
            }
            Wire::Binary | Wire::CountedBinary => wires::BYTES,
            _ => 0,
        }
    }

    /// Whether it is an integer of a fixed width.
    pub const fn is_integer(self) -> bool {
        self.group() & wires::INTEGER != 0
    }

    /// Whether it is a signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self, Wire::I8 | Wire::I16 | Wire::I32 | Wire::I64)
    }

    /// The integer of the same width with the other sign; others as they are.
    pub(crate) const fn with_sign(self, signed: bool) -> Wire {
        match (self.group(), signed) {
            (wires::BITS8, true) => Wire::I8,
            (wires::BITS8, false) => Wire::U8,
            (wires::BITS16, true) => Wire::I16,
            (wires::BITS16, false) => Wire::U16,
            (wires::BITS32, true) => Wire::I32,
            (wires::BITS32, false) => Wire::U32,
            (wires::BITS64, true) => Wire::I64,
            (wires::BITS64, false) => Wire::U64,
            _ => self,
        }
    }
}

/// Sets of wire forms, for which an out-type has a meaning.
pub(crate) mod wires {
    pub const BITS8: u8 = 1;
    pub const BITS16: u8 = 2;
    pub const BITS32: u8 = 4;
    pub const BITS64: u8 = 8;
    pub const NARROW: u8 = BITS8 | BITS16;
    pub const INTEGER: u8 = BITS8 | BITS16 | BITS32 | BITS64;
    pub const NARROW_TEXT: u8 = 16;
    pub const BYTES: u8 = 32;
    pub const ANY: u8 = 0xff;
}
