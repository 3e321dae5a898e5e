//! A cursor over a blob of metadata; its errors say at which offset.

use crate::error::{MetadataError, MetadataErrorKind};
use crate::flags;
use etw_types::le;

/// A position in a blob. Every error names the offset of the part that could not be read.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    /// The blob up to the end its own size gives it.
    pub bytes: &'a [u8],
    pub offset: usize,
}

impl<'a> Cursor<'a> {
    /// Cuts a blob to the `u16` size at its front, which counts itself, and stands behind that size.
    pub fn open(blob: &'a [u8], smallest: usize) -> Result<Cursor<'a>, MetadataError> {
        let size = Cursor { bytes: blob, offset: 0 }.u16()?;
        match blob.get(..usize::from(size)) {
            Some(bytes) if bytes.len() >= smallest => Ok(Cursor { bytes, offset: 2 }),
            _ => Err(MetadataErrorKind::BadSize { size, room: blob.len() }.at(0)),
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.offset..]
    }

    pub fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub fn take(&mut self, size: usize) -> Result<&'a [u8], MetadataError> {
        let rest = self.rest();
        let Some(taken) = rest.get(..size) else {
            let kind = MetadataErrorKind::Truncated { needed: size, room: rest.len() };
            return Err(kind.at(self.offset));
        };
        self.offset += size;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8, MetadataError> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn u16(&mut self) -> Result<u16, MetadataError> {
        self.take(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// The bytes before the next NUL; stands behind the NUL.
    pub fn name(&mut self) -> Result<&'a [u8], MetadataError> {
        let rest = self.rest();
        let Some(size) = le::nul(rest) else {
            return Err(MetadataErrorKind::UnterminatedName.at(self.offset));
        };
        self.offset += size + 1;
        Ok(&rest[..size])
    }

    /// A tag: seven bits from each byte of a chain, the first byte's the most significant of 28, so that trailing zeros
    /// need no byte. Bytes past the fourth are part of the chain but not of the tag.
    pub fn tag(&mut self) -> Result<u32, MetadataError> {
        let rest = self.rest();
        let Some(last) = rest.iter().position(|&byte| byte & flags::CHAIN == 0) else {
            return Err(MetadataErrorKind::UnterminatedTag.at(self.offset));
        };
        self.offset += last + 1;
        let chain = rest[..=last].iter().zip([21, 14, 7, 0]);
        Ok(chain.fold(0, |tag, (byte, shift)| tag | u32::from(byte & !flags::CHAIN) << shift))
    }
}
