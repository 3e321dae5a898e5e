//! Activity ids as EventSource makes them: a path of numbers.
//!
//! ```text
//! 12 bytes of nibbles, the higher one of a byte first: 0 ends, 1 to A are numbers, B means that numbers before it were left out,
//!   C to F begin one of 1 to 4 bytes, little-endian behind the byte; its bits above them are the lower nibble, if that is left
//! u32 = sum of the three words before it and 599D99AD, exclusive or the process id
//! ```
//!
//! Source: how .NET's EventSource makes them and public tools show them.

use etw_types::{Guid, le};
use std::fmt::Write;

/// `//1/2/3/` for an id that an EventSource made, else the GUID. `process`: the process of the event, if it is known.
pub fn activity_path(id: Guid, process: Option<u32>) -> String {
    path(&id.0, process).unwrap_or_else(|| id.to_string())
}

fn path(bytes: &[u8; 16], process: Option<u32>) -> Option<String> {
    let word = |at| le::u32(bytes, at).unwrap_or(0);
    let sum = word(0).wrapping_add(word(4)).wrapping_add(word(8)).wrapping_add(0x599d_99ad);
    let is_path = match process {
        // Older ones have no process in them.
        Some(process) if process != 0 => sum ^ process == word(12) || sum == word(12),
        _ => (sum ^ word(12)) >> 28 == 0,
    };
    if !is_path {
        return None;
    }
    let mut text = String::from("//");
    let mut at = 0;
    // Writing to a String cannot fail.
    while at < 12 {
        let (high, low) = (bytes[at] >> 4, bytes[at] & 0xf);
        let mut nibble = high;
        let mut is_low = false;
        if (1..=0xb).contains(&high) {
            let _ = if high == 0xb { write!(text, "$/") } else { write!(text, "{high}/") };
            (nibble, is_low) = (low, true);
        }
        match nibble {
            0 => break,
            1..=0xa => {
                let _ = write!(text, "{nibble}/");
                at += 1;
            }
            0xb => {
                text.push_str("$/");
                at += 1;
            }
            _ => {
                let size = usize::from(nibble - 0xc) + 1;
                let number = bytes.get(at + 1..at + 1 + size).filter(|_| at + 1 + size <= 12)?;
                let above = if is_low { 0 } else { u64::from(low) };
                let value =
                    number.iter().rev().fold(above, |value, byte| value << 8 | u64::from(*byte));
                let _ = write!(text, "{value}/");
                at += 1 + size;
            }
        }
    }
    (text.len() > 2).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(nibbles: &[u8], process: u32) -> Guid {
        let mut bytes = [0; 16];
        bytes[..nibbles.len()].copy_from_slice(nibbles);
        let word = |at: usize| le::u32(&bytes, at).unwrap();
        let sum = word(0).wrapping_add(word(4)).wrapping_add(word(8)).wrapping_add(0x599d_99ad);
        bytes[12..].copy_from_slice(&(sum ^ process).to_le_bytes());
        Guid(bytes)
    }

    #[test]
    fn activity_ids_of_event_sources_are_paths() {
        for (nibbles, path) in [
            (&[0x11, 0x2a][..], "//1/1/2/10/"),
            (&[0x1c, 0xff, 0x30], "//1/255/3/"),
            (&[0xc1, 0x02, 0xd0, 0x01, 0x02], "//258/513/"),
            (&[0x1b, 0x20], "//1/$/2/"),
        ] {
            assert_eq!(activity_path(id(nibbles, 4660), Some(4660)), path);
            assert_eq!(activity_path(id(nibbles, 0), Some(4660)), path);
            assert_eq!(activity_path(id(nibbles, 4660), None), path);
            let other = id(nibbles, 4660);
            assert_eq!(activity_path(other, Some(4661)), other.to_string());
        }
        // A path that runs over the end, or is empty, is an ordinary GUID.
        for nibbles in
            [&[0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0xf0][..], &[]]
        {
            let id = id(nibbles, 7);
            assert_eq!(activity_path(id, Some(7)), id.to_string());
        }
    }
}
