//! Texts of others that are safe on a line of a terminal.

use std::borrow::Cow;
use std::path::Path;

/// Names come from the trace: nothing in them may move the terminal's cursor, turn its text around or break the line.
pub fn safe(name: &str) -> Cow<'_, str> {
    match is_safe(name) {
        true => name.into(),
        false => {
            let shown = name.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c });
            shown.collect::<String>().into()
        }
    }
}

/// A path for people, with U+FFFD for characters that a line cannot have.
pub fn shown_path(path: &Path) -> String {
    safe(&path.to_string_lossy()).into_owned()
}

/// Whether a line can have the text as it is.
pub fn is_safe(text: &str) -> bool {
    is_printable_ascii(text.as_bytes()) || !text.chars().any(is_unsafe)
}

/// Whether a character is no part of a line: a control, the end of a line or paragraph, or one that turns the text behind it around.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether all bytes are those of visible characters and blanks.
pub fn is_printable_ascii(text: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // A bit is set if a byte is above 7e or below 20.
    let others =
        |word: u64| (word | word.wrapping_add(ONES) | word.wrapping_sub(ONES * 0x20)) & ONES << 7;
    let Some(last) = text.last_chunk() else {
        return text.iter().all(|byte| (0x20..0x7f).contains(byte));
    };
    let words = text.chunks_exact(8).filter_map(<[u8]>::first_chunk);
    let found = words.fold(others(u64::from_le_bytes(*last)), |found, word| {
        found | others(u64::from_le_bytes(*word))
    });
    found == 0
}

#[cfg(test)]
mod tests {
    use super::is_printable_ascii;

    #[test]
    fn other_bytes_are_found_wherever_they_are() {
        for length in 0..20 {
            for byte in 0..=255 {
                for at in 0..length {
                    let mut text = vec![b'~'; length];
                    text[at] = byte;
                    assert_eq!(is_printable_ascii(&text), (0x20..0x7f).contains(&byte), "{byte:x}");
                }
            }
        }
    }
}
