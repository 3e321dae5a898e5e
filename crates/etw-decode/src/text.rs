//! Text in the encodings that payloads use, as UTF-8 and as JSON.

use encoding_rs::Encoding;
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
            Text::Utf16(bytes) => Cow::Owned(etw_types::le::utf16_lossy(bytes)),
            Text::Utf8(bytes) => String::from_utf8_lossy(bytes),
            Text::Ansi(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => code_page.0.decode_without_bom_handling(bytes).0,
            },
        }
    }

    /// Appends it as UTF-8.
    pub fn write(&self, out: &mut Vec<u8>, code_page: CodePage) {
        match *self {
            Text::Utf16(bytes) => each_utf16(bytes, |c| push_char(out, c)),
            _ => out.extend_from_slice(self.to_str(code_page).as_bytes()),
        }
    }

    /// Appends it as a JSON string.
    pub fn write_json(&self, out: &mut Vec<u8>, code_page: CodePage) {
        match *self {
            Text::Utf16(bytes) => {
                out.push(b'"');
                each_utf16(bytes, |c| push_json_char(out, c));
                out.push(b'"');
            }
            _ => write_json_string(out, &self.to_str(code_page)),
        }
    }
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
    out.push(b'"');
    let mut rest = text.as_bytes();
    // Nearly every text needs no escape; without a way out this is a few vector operations.
    let is_bad = |bad: bool, &b: &u8| bad | (b < 0x20) | (b == b'"') | (b == b'\\');
    if !rest.iter().fold(false, is_bad) {
        out.extend_from_slice(rest);
        out.push(b'"');
        return;
    }
    while let Some(at) = rest.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        push_json_escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
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
    fn encodings() {
        let page = CodePage::default();
        assert_eq!(Text::Ansi(b"gr\xc3\xbcn").to_str(page), "grün");
        assert_eq!(Text::Ansi(b"gr\xfcn").to_str(page), "grün");
        assert_eq!(Text::Ansi(b"\x82\xa0").to_str(CodePage::parse("932").unwrap()), "あ");
        assert_eq!(Text::Ansi(b"\xcf").to_str(CodePage::parse("1251").unwrap()), "П");
        assert_eq!(Text::Utf8(b"gr\xfcn").to_str(page), "gr\u{fffd}n");
        assert_eq!(Text::Utf16(&[0x00, 0xd8, 0x41, 0x00]).to_str(page), "\u{fffd}A");
        assert_eq!(CodePage::parse("no such page"), None);
    }

    #[test]
    fn json_strings_are_escaped() {
        assert_eq!(json(Text::Utf8(b"a\"b\\c\n\x01\xe2\x82\xac")), r#""a\"b\\c\n\u0001€""#);
        let wide: Vec<u8> = "a\"\\\t\x1f€😀".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(json(Text::Utf16(&wide)), r#""a\"\\\t\u001f€😀""#);
    }
}
