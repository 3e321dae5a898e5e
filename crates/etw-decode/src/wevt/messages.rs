//! [`Messages`]: the texts of message tables.

use super::WevtError;
use super::language::tag_of;
use super::pe::{Kind, resources};
use etw_types::le;
use std::collections::HashMap;

/// Bytes of texts that are kept.
const TEXT_LIMIT: usize = 64 << 20;
/// The id that stands for no message.
pub(super) const NONE: u32 = u32::MAX;

/// Texts by message id, from any number of tables; of several texts for one id the first is kept.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    texts: HashMap<u32, Entry>,
}

/// A text and the name of its language.
#[derive(Clone, Debug)]
struct Entry {
    text: String,
    language: &'static str,
}

impl Messages {
    /// The text without the white space at its end.
    pub(super) fn get(&self, id: u32) -> Option<&str> {
        let text = self.texts.get(&id).filter(|_| id != NONE)?.text.trim_end();
        (!text.is_empty()).then_some(text)
    }

    /// The name of the language of a text; `und` where its table does not say.
    pub(super) fn language(&self, id: u32) -> Option<&'static str> {
        self.get(id)?;
        Some(self.texts.get(&id)?.language)
    }

    /// Adds the texts of a message table that does not say in which language they are.
    pub fn add_table(&mut self, table: &[u8]) {
        self.add_table_of(None, table);
    }

    /// Adds the texts of a message table resource. `language`: Windows' number of it.
    ///
    /// ```text
    /// u32 blocks, each { u32 lowest id, u32 highest id, u32 offset of its entries }
    /// entry: u16 size with these four bytes, u16 flags (1: UTF-16, else 8-bit), text, padding
    /// ```
    pub(crate) fn add_table_of(&mut self, language: Option<u16>, table: &[u8]) {
        let language = tag_of(language);
        let blocks = le::u32(table, 0).unwrap_or(0) as usize;
        let mut size = 0;
        for block in 0..blocks.min(table.len() / 12) {
            let at = 4 + block * 12;
            let (Some(low), Some(high), Some(offset)) =
                (le::u32(table, at), le::u32(table, at + 4), le::u32(table, at + 8))
            else {
                return;
            };
            let mut at = offset as usize;
            for id in low..=high {
                let Some(length) =
                    le::u16(table, at).map(usize::from).filter(|length| *length >= 4)
                else {
                    break;
                };
                let Some(bytes) = table.get(at + 4..at + length) else { break };
                let is_wide = le::u16(table, at + 2) == Some(1);
                let text = match is_wide {
                    true => le::utf16_lossy(bytes),
                    false => String::from_utf8_lossy(bytes).into_owned(),
                };
                size += text.len();
                if size > TEXT_LIMIT {
                    return;
                }
                let text = text.trim_end_matches('\0');
                self.texts.entry(id).or_insert_with(|| Entry { text: text.to_owned(), language });
                at += length;
            }
        }
    }

    /// Adds the message tables of a PE file, a library or its `.mui`; those in English come first.
    ///
    /// # Errors
    /// [`WevtError::NotPe`].
    pub fn add_pe(&mut self, file: &[u8]) -> Result<(), WevtError> {
        for table in resources(file, &Kind::MESSAGE_TABLE, None)? {
            self.add_table_of(table.language, table.bytes);
        }
        Ok(())
    }

    /// Adds the texts of `others` that are missing here.
    pub(super) fn fill(&mut self, others: &Messages) {
        for (id, entry) in &others.texts {
            self.texts.entry(*id).or_insert_with(|| entry.clone());
        }
    }
}
