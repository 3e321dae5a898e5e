//! Bookmarks: the positions in event logs at which a reader stopped, as the XML that Windows writes.
//!
//! ```text
//! <BookmarkList>
//!   <Bookmark Channel='Application' RecordId='23' IsCurrent='true'/>
//! </BookmarkList>
//! ```

use std::fmt;
use std::str::FromStr;

use quick_xml::events::{BytesStart, Event};

/// The last record that was read of a channel or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// The channel, or the path of a file.
    pub channel: String,
    /// The `EventRecordID` of the record.
    pub record_id: u64,
    /// Whether it is the record that was read last of all.
    pub is_current: bool,
}

/// A bookmark for each channel that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookmarkList {
    /// In the order in which their channels were first read.
    pub bookmarks: Vec<Bookmark>,
}

/// A text that is not a list of bookmarks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BookmarkError {
    /// Byte of the text.
    pub offset: u64,
    /// The expectation that was not met.
    pub expected: &'static str,
}

impl fmt::Display for BookmarkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bookmark, byte {}: expected {}", self.offset, self.expected)
    }
}

impl std::error::Error for BookmarkError {}

impl BookmarkList {
    /// The record of a channel at which its reader stopped. If the channel is the only one that is read, a single bookmark of any
    /// name is meant for it.
    pub fn record_id(&self, channel: &str, is_only_channel: bool) -> Option<u64> {
        let mut bookmarks = self.bookmarks.iter();
        let named = bookmarks.find(|one| one.channel.eq_ignore_ascii_case(channel));
        let only = || match &self.bookmarks[..] {
            [one] if is_only_channel => Some(one),
            _ => None,
        };
        named.or_else(only).map(|one| one.record_id)
    }

    /// Moves the bookmark of a channel to a record, which becomes the current one.
    pub fn update(&mut self, channel: &str, record_id: u64) {
        for bookmark in &mut self.bookmarks {
            bookmark.is_current = false;
        }
        let mut known = self.bookmarks.iter_mut();
        match known.find(|one| one.channel.eq_ignore_ascii_case(channel)) {
            Some(bookmark) => (bookmark.record_id, bookmark.is_current) = (record_id, true),
            None => {
                let channel = channel.to_owned();
                self.bookmarks.push(Bookmark { channel, record_id, is_current: true });
            }
        }
    }
}

impl FromStr for BookmarkList {
    type Err = BookmarkError;

    fn from_str(text: &str) -> Result<BookmarkList, BookmarkError> {
        let mut reader = quick_xml::Reader::from_str(text.trim_start_matches('\u{feff}'));
        let mut list = BookmarkList::default();
        let mut is_in_list = false;
        loop {
            let offset = reader.buffer_position();
            let error = |expected| BookmarkError { offset, expected };
            match reader.read_event().map_err(|_| error("XML"))? {
                Event::Start(start) | Event::Empty(start) => match start.name().as_ref() {
                    b"BookmarkList" if !is_in_list => is_in_list = true,
                    b"Bookmark" if is_in_list => {
                        let bookmark = read_bookmark(&start);
                        list.bookmarks.push(bookmark.ok_or_else(|| error("Channel and RecordId"))?);
                    }
                    _ => return Err(error("BookmarkList with Bookmark elements")),
                },
                Event::Text(text) if !text.iter().all(u8::is_ascii_whitespace) => {
                    return Err(error("BookmarkList"));
                }
                Event::Eof if is_in_list => return Ok(list),
                Event::Eof => return Err(error("BookmarkList")),
                _ => {}
            }
        }
    }
}

fn read_bookmark(start: &BytesStart<'_>) -> Option<Bookmark> {
    let text = |name: &str| -> Option<String> {
        let attribute = start.try_get_attribute(name).ok()??;
        Some(attribute.unescape_value().ok()?.into_owned())
    };
    let is_current = text("IsCurrent").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let record_id = text("RecordId")?.trim().parse().ok()?;
    Some(Bookmark { channel: text("Channel")?, record_id, is_current })
}

impl fmt::Display for BookmarkList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<BookmarkList>\r\n")?;
        for Bookmark { channel, record_id, is_current } in &self.bookmarks {
            let channel = quick_xml::escape::escape(channel);
            write!(f, "  <Bookmark Channel='{channel}' RecordId='{record_id}'")?;
            f.write_str(if *is_current { " IsCurrent='true'/>\r\n" } else { "/>\r\n" })?;
        }
        f.write_str("</BookmarkList>")
    }
}
