//! Text in the encodings that payloads use, as UTF-8 and as JSON.

use encoding_rs::Encoding;
use etw_types::le;
use std::borrow::Cow;
use std::fmt;

/// How 8-bit text that is not UTF-8 is read; Windows-1252 unless set.
#[derive(Clone, Copy, PartialEq)]
pub struct CodePage(&'static Encoding);

impl Default for CodePage {
    fn default() -> CodePage {
        CodePage(encoding_rs::WINDOWS_1252)
    }
}

impl fmt::Debug for CodePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl CodePage {
    /// By number (`1252`, `932`, …) or name (`windows-1252`, `shift_jis`, …).
    pub fn parse(label: &str) -> Option<CodePage> {
        let name = match label {
            "437" | "850" => return None,
            "65001" => "utf-8",
            "874" => "windows-874",
            "932" => "shift_jis",
            "936" => "gbk",
            "949" => "euc-kr",
            "950" => "big5",
            "20866" => "koi8-r",
            "54936" => "gb18030",
            number if number.len() == 4 && number.starts_with("125") => {
                return Encoding::for_label(format!("windows-{number}").as_bytes()).map(CodePage);
            }
            number if number.len() == 5 && number.starts_with("2859") => {
                let part = &number[4..];
                return Encoding::for_label(format!("iso-8859-{part}").as_bytes()).map(CodePage);
            }
            name => name,
        };
        Encoding::for_label(name.as_bytes()).map(CodePage)
    }
}

/// How texts are escaped in an output.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Escape {
    /// As in a JSON string.
    Json,
    /// By this function. It treats each character by itself, and writes no quote for any.
    With(fn(&mut Vec<u8>, &str)),
}

impl Escape {
    /// Appends a text.
    pub(crate) fn put(self, out: &mut Vec<u8>, text: &str) {
        match self {
            Escape::Json => write_json_text(out, text.as_bytes()),
            Escape::With(escape) => escape(out, text),
        }
    }
}

/// Text as it lies in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// UTF-16LE without its NUL.
    Utf16(&'a [u8]),
    /// 8-bit text without its NUL: UTF-8 if valid, else of the code page.
    Ansi(&'a [u8]),
    /// 8-bit text declared to be UTF-8.
    Utf8(&'a [u8]),
}

impl<'a> Text<'a> {
    /// The text as UTF-8. Invalid Unicode becomes U+FFFD.
    pub fn to_str(&self, code_page: CodePage) -> Cow<'a, str> {
        match *self {
            Text::Utf16(bytes) => {
                let mut text = String::with_capacity(bytes.len() / 2);
                each_utf16(bytes, |c| text.push(c));
                Cow::Owned(text)
            }
            Text::Utf8(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => String::from_utf8_lossy(bytes),
            },
            Text::Ansi(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => code_page.0.decode_without_bom_handling(bytes).0,
            },
        }
    }

    /// Appends it as UTF-8.
    pub fn write(&self, out: &mut Vec<u8>, code_page: CodePage) {
        match *self {
            Text::Utf16(bytes) => {
                let mut rest = bytes;
                while let Some((word, count)) = ascii_word(rest) {
                    let end = out.len() + count;
                    out.extend_from_slice(&word.to_le_bytes());
                    out.truncate(end);
                    rest = &rest[2 * count..];
                }
                each_utf16(rest, |c| push_char(out, c));
            }
            Text::Utf8(bytes) | Text::Ansi(bytes) if bytes.is_ascii() => {
                out.extend_from_slice(bytes);
            }
            _ => out.extend_from_slice(self.to_str(code_page).as_bytes()),
        }
    }

    /// Appends it as a JSON string.
    pub fn write_json(&self, out: &mut Vec<u8>, code_page: CodePage) {
        match *self {
            Text::Utf16(bytes) => {
                out.push(b'"');
                let mut rest = bytes;
                while let Some((word, count)) = ascii_word(rest) {
                    let found = escapes(word);
                    let plain = (found.trailing_zeros() / 8) as usize;
                    let end = out.len() + plain.min(count);
                    out.extend_from_slice(&word.to_le_bytes());
                    out.truncate(end);
                    rest = &rest[2 * plain.min(count)..];
                    if found != 0 {
                        push_json_escape(out, rest[0]);
                        rest = &rest[2..];
                    }
                }
                each_utf16(rest, |c| push_json_char(out, c));
                out.push(b'"');
            }
            Text::Utf8(bytes) | Text::Ansi(bytes) if bytes.is_ascii() => {
                write_json_bytes(out, bytes);
            }
            _ => write_json_string(out, &self.to_str(code_page)),
        }
    }
}

/// Up to eight units at the front of UTF-16 as bytes, and how many they are; behind a shorter text there are letters. `None` if one of
/// them is not ASCII, and at the end.
#[inline]
fn ascii_word(utf16: &[u8]) -> Option<(u64, usize)> {
    const NOT_ASCII: u64 = 0xff80_ff80_ff80_ff80;
    // Four units become the four bytes at the front.
    let packed = |units: u64| {
        let pairs = (units | units >> 8) & 0x0000_ffff_0000_ffff;
        (pairs | pairs >> 16) & 0xffff_ffff
    };
    let (units, count) = match utf16.first_chunk::<16>() {
        Some(units) => (*units, 8),
        None if utf16.len() < 2 => return None,
        None => {
            let count = utf16.len() / 2;
            let mut units = *b"a\0a\0a\0a\0a\0a\0a\0a\0";
            units[..2 * count].copy_from_slice(&utf16[..2 * count]);
            (units, count)
        }
    };
    let (low, high) = (le::u64(&units, 0)?, le::u64(&units, 8)?);
    if (low | high) & NOT_ASCII != 0 {
        return None;
    }
    Some((packed(low) | packed(high) << 32, count))
}

/// The highest bit of each byte that JSON escapes: controls, quotes and backslashes. Bits above the first one may be wrong.
#[inline]
fn escapes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let controls = word.wrapping_sub(ONES * 0x20) & !word;
    (controls | zeros(word ^ (ONES * 0x22)) | zeros(word ^ (ONES * 0x5c))) & HIGHS
}

/// Whether JSON escapes one of these bytes. The compiler makes vector comparisons of it.
#[inline]
fn has_special(bytes: &[u8; 32]) -> bool {
    bytes
        .iter()
        .fold(false, |found, byte| found | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\'))
}

/// Bytes in front of the first one that JSON escapes.
#[inline]
fn plain_length(text: &[u8]) -> usize {
    let is_plain = |block: &&[u8]| !block.first_chunk().is_some_and(has_special);
    let plain = text.chunks_exact(32).take_while(is_plain).count() * 32;
    let words = text[plain..].chunks_exact(8);
    let tail = words.remainder();
    for (number, word) in words.enumerate() {
        let found = escapes(le::u64(word, 0).unwrap_or_default());
        if found != 0 {
            return plain + number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    if tail.is_empty() {
        return text.len();
    }
    // The last word overlaps bytes that are plain; with fewer than eight bytes, two halves overlap.
    if let Some(last) = text.last_chunk() {
        let found = escapes(u64::from_le_bytes(*last));
        let at = text.len() - 8 + found.trailing_zeros() as usize / 8;
        return if found == 0 { text.len() } else { at };
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        let found = escapes(u64::from(first) | u64::from(last) << 32);
        return match found.trailing_zeros() as usize / 8 {
            at @ ..4 => at,
            at @ 4..8 => text.len() + at - 8,
            _ => text.len(),
        };
    }
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    text.iter().position(is_special).unwrap_or(text.len())
}

#[inline]
fn each_utf16(bytes: &[u8], mut each: impl FnMut(char)) {
    // Most text is ASCII, which needs no look at the next unit.
    let ascii = bytes.chunks_exact(2).take_while(|unit| unit[0] < 0x80 && unit[1] == 0);
    let mut done = 0;
    for unit in ascii {
        each(char::from(unit[0]));
        done += 2;
    }
    let rest = bytes[done..].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    for unit in char::decode_utf16(rest) {
        each(unit.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    // Half a character, as at the end of a counted text with an odd count.
    if bytes.len() % 2 == 1 {
        each(char::REPLACEMENT_CHARACTER);
    }
}

#[inline]
fn push_char(out: &mut Vec<u8>, c: char) {
    if c.is_ascii() {
        out.push(c as u8);
    } else {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

#[inline]
fn push_json_char(out: &mut Vec<u8>, c: char) {
    match c {
        ' ' | '!' | '#'..='[' | ']'..='~' => out.push(c as u8),
        '"' | '\\' | '\0'..='\x1f' => push_json_escape(out, c as u8),
        _ => push_char(out, c),
    }
}

#[cold]
fn push_json_escape(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
        }
    }
}

/// Appends `text` as a JSON string with its quotes.
pub fn write_json_string(out: &mut Vec<u8>, text: &str) {
    write_json_bytes(out, text.as_bytes());
}

/// [`write_json_string`] of UTF-8.
fn write_json_bytes(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    write_json_text(out, text);
    out.push(b'"');
}

/// Appends the content of a JSON string: the text of UTF-8 without quotes.
#[inline]
pub(crate) fn write_json_text(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    loop {
        let (plain, special) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((byte, behind)) = special.split_first() else { break };
        push_json_escape(out, *byte);
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: Text<'_>) -> String {
        let mut out = Vec::new();
        text.write_json(&mut out, CodePage::default());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn long_texts_are_escaped_wherever_the_character_is() {
        for special in ["\"", "\\", "\n", "\u{1f}", "\u{0}", "€", "😀", "\u{7f}", "!"] {
            for at in 0..40 {
                let plain = "abcdefghijklmnopqrstuvwxyz !#[]^_`{|}~0123456789";
                let text = format!("{}{special}{}{special}", &plain[..at], &plain[at..]);
                let escaped = serde_json::to_string(&text).unwrap();
                assert_eq!(json(Text::Utf8(text.as_bytes())), escaped);
                let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
                assert_eq!(json(Text::Utf16(&wide)), escaped);
                let mut out = Vec::new();
                Text::Utf16(&wide).write(&mut out, CodePage::default());
                assert_eq!(out, text.as_bytes());
            }
        }
    }

    #[test]
    fn texts_of_every_length_are_escaped() {
        for length in 0..80 {
            for special in ['"', '\\', '\u{1f}', '\u{7f}', '!'] {
                for at in 0..length {
                    let mut text = vec!['a'; length];
                    text[at] = special;
                    let text: String = text.into_iter().collect();
                    let escaped = serde_json::to_string(&text).unwrap();
                    assert_eq!(json(Text::Utf8(text.as_bytes())), escaped);
                }
            }
        }
    }

    #[test]
    fn invalid_utf_8_is_read_in_the_code_page() {
        let page = CodePage::default();
        assert_eq!(Text::Ansi(b"gr\xc3\xbcn").to_str(page), "grün");
        assert_eq!(Text::Ansi(b"gr\xfcn").to_str(page), "grün");
        assert_eq!(Text::Ansi(b"\x82\xa0").to_str(CodePage::parse("932").unwrap()), "あ");
        assert_eq!(Text::Ansi(b"\xcf").to_str(CodePage::parse("1251").unwrap()), "П");
        assert_eq!(Text::Utf8(b"gr\xfcn").to_str(page), "gr\u{fffd}n");
        assert_eq!(Text::Utf16(&[0x00, 0xd8, 0x41, 0x00]).to_str(page), "\u{fffd}A");
        // Half a character.
        for (odd, wanted) in [(&b"A\0B"[..], "A\u{fffd}"), (b"B", "\u{fffd}")] {
            let text = Text::Utf16(odd);
            let mut out = Vec::new();
            text.write(&mut out, page);
            assert_eq!((text.to_str(page).as_ref(), &*out), (wanted, wanted.as_bytes()));
            assert_eq!(json(text), format!("{wanted:?}"));
        }
        assert_eq!(CodePage::parse("no such page"), None);
    }

    #[test]
    fn json_strings_are_escaped() {
        assert_eq!(json(Text::Utf8(b"a\"b\\c\n\x01\xe2\x82\xac")), r#""a\"b\\c\n\u0001€""#);
        let wide: Vec<u8> = "a\"\\\t\x1f€😀".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(json(Text::Utf16(&wide)), r#""a\"\\\t\u001f€😀""#);
    }
}
