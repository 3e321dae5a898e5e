//! [`LogItem`]: the facts of an event log's record for which an ETW event has no header field.

use crate::le;

/// Bytes before the texts.
const FIXED_SIZE: usize = 12;

/// The data of [`ExtType::EVENT_LOG`](crate::ExtType::EVENT_LOG): the facts of an event log's record for which an ETW
/// event has no header field.
///
/// The item is openetw's own; Windows writes none. It lets every reader of traces read event logs.
///
/// ```text
/// 0  u64 record id   8  u16 size of the channel   10  u16 size of the computer   12  channel, computer, message: UTF-8
/// ```
///
/// ```
/// use etw_types::LogItem;
///
/// let item = LogItem { record_id: 7, channel: "Application", computer: "host", message: None };
/// assert_eq!(LogItem::read(&item.to_bytes()), Some(item));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogItem<'a> {
    /// The record's number in its log.
    pub record_id: u64,
    /// Name of the channel.
    pub channel: &'a str,
    /// Name of the computer.
    pub computer: &'a str,
    /// The message that was stored with the record (`RenderingInfo`).
    pub message: Option<&'a str>,
}

impl<'a> LogItem<'a> {
    /// Reads an item's data; `None` if it is invalid.
    pub fn read(data: &'a [u8]) -> Option<LogItem<'a>> {
        let record_id = le::u64(data, 0)?;
        let channel_end = FIXED_SIZE + usize::from(le::u16(data, 8)?);
        let computer_end = channel_end + usize::from(le::u16(data, 10)?);
        let text = |range| std::str::from_utf8(data.get(range)?).ok();
        Some(LogItem {
            record_id,
            channel: text(FIXED_SIZE..channel_end)?,
            computer: text(channel_end..computer_end)?,
            message: text(computer_end..data.len()).filter(|message| !message.is_empty()),
        })
    }

    /// The item's data. Texts are cut so that the item fits a record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let channel = cut(self.channel, 512);
        let computer = cut(self.computer, 512);
        let message = cut(self.message.unwrap_or_default(), 0x4000);
        let mut bytes = Vec::with_capacity(FIXED_SIZE + channel.len() + computer.len());
        bytes.extend_from_slice(&self.record_id.to_le_bytes());
        bytes.extend_from_slice(&(channel.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&(computer.len() as u16).to_le_bytes());
        for text in [channel, computer, message] {
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }
}

/// The longest start of a text that has at most `limit` bytes.
fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_log_items_are_rejected() {
        let item = LogItem { record_id: 1, channel: "C", computer: "é", message: Some("text") };
        let bytes = item.to_bytes();
        assert_eq!(LogItem::read(&bytes), Some(item));
        assert_eq!(LogItem::read(&bytes[..FIXED_SIZE + 1]), None);
        let mut long = bytes.clone();
        long[8] = 0xff;
        assert_eq!(LogItem::read(&long), None);
        // A channel that ends inside of a character.
        let mut split = bytes;
        (split[8], split[10]) = (2, 1);
        assert_eq!(LogItem::read(&split), None);
    }
}
