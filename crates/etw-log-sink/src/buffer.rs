//! Memory for formatted messages.

use std::fmt;

use etw::rt::Room;

use crate::encode::Message;

/// The least memory behind a message. Events with more values cost more.
const BEHIND: usize = 1024;
/// Pieces of up to so many bytes are copied without a call.
const SHORT: usize = 64;

/// A formatted message in memory that serves one message after another.
#[derive(Debug)]
pub(crate) struct Line {
    /// The text, and bytes of earlier texts behind it.
    memory: Vec<u8>,
    size: usize,
}

impl Line {
    /// Without memory.
    pub(crate) const fn new() -> Line {
        Line { memory: Vec::new(), size: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.size = 0;
    }

    /// The text, and memory behind it.
    #[inline(always)]
    pub(crate) fn message(&mut self) -> Message<'_> {
        let size = self.size;
        if self.memory.len() < size + BEHIND {
            self.grow(size);
        }
        self.memory[size] = 0;
        Message { memory: &mut self.memory, size, is_text: true }
    }

    /// The pieces of a message are short. Without a call on its way, such a piece saves no register.
    #[inline(always)]
    fn append(&mut self, text: &[u8]) {
        if text.len() <= SHORT {
            if let Some(rest) = self.memory.get_mut(self.size..) {
                if Room::of(rest).put_short(text).left().is_some() {
                    self.size += text.len();
                    return;
                }
            }
        }
        self.append_by_call(text);
    }

    #[cold]
    #[inline(never)]
    fn append_by_call(&mut self, text: &[u8]) {
        let end = self.size + text.len();
        if self.memory.len() < end {
            self.grow(end);
        }
        self.memory[self.size..end].copy_from_slice(text);
        self.size = end;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, size: usize) {
        self.memory.resize((size + BEHIND).next_power_of_two(), 0);
    }
}

impl fmt::Write for Line {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.append(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn texts_of_all_lengths_follow_one_another_whole() {
        let text: String = (0..100u8).map(|n| char::from(b' ' + n % 90)).collect();
        let (mut line, mut expected) = (Line::new(), String::new());
        for round in 0..2 {
            for size in 0..=100 {
                line.write_str(&text[..size]).unwrap();
                expected.push_str(&text[..size]);
            }
            let Message { memory, size, .. } = line.message();
            assert_eq!(&memory[..=size], format!("{expected}\0").as_bytes(), "{round}");
            assert!(memory.len() >= size + BEHIND);
            line.clear();
            expected.clear();
        }
    }
}
