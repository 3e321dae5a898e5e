//! Conversions of `printf`.

use crate::value::Value;

/// Widths and precisions above this are cut to it.
pub(super) const WIDTH_LIMIT: usize = 4096;

/// A conversion of `printf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spec {
    pub left: bool,
    pub plus: bool,
    /// A blank stands where a sign would.
    pub blank: bool,
    pub zero: bool,
    pub alternate: bool,
    pub width: usize,
    pub precision: Option<usize>,
    pub conversion: u8,
    /// Bits that the size prefix asks for; 0: of the argument.
    pub bits: u8,
}

impl Spec {
    pub fn parse(text: &str) -> Spec {
        let mut spec = Spec { conversion: b's', ..Spec::default() };
        let mut rest = text.as_bytes();
        while let [flag @ (b'-' | b'+' | b'0' | b'#' | b' '), behind @ ..] = rest {
            match flag {
                b'-' => spec.left = true,
                b'+' => spec.plus = true,
                b'0' => spec.zero = true,
                b'#' => spec.alternate = true,
                _ => spec.blank = true,
            }
            rest = behind;
        }
        let number = |rest: &mut &[u8]| {
            let mut value = None;
            while let [digit @ b'0'..=b'9', behind @ ..] = *rest {
                let digit = usize::from(digit - b'0');
                value = Some((value.unwrap_or(0) * 10 + digit).min(WIDTH_LIMIT));
                *rest = behind;
            }
            value
        };
        spec.width = number(&mut rest).unwrap_or(0);
        if let [b'.', behind @ ..] = rest {
            rest = behind;
            spec.precision = Some(number(&mut rest).unwrap_or(0));
        }
        for (prefix, bits) in [
            ("I64", 64),
            ("I32", 32),
            ("ll", 64),
            ("hh", 8),
            ("h", 16),
            ("l", 32),
            ("I", 0),
            ("w", 0),
        ] {
            // A lone `I`, `l`, `h` or `w` stands before a conversion.
            if let Some(behind) = rest.strip_prefix(prefix.as_bytes()) {
                if !behind.is_empty() {
                    (spec.bits, rest) = (bits, behind);
                    break;
                }
            }
        }
        if let [conversion, ..] = rest {
            spec.conversion = *conversion;
        }
        spec
    }

    pub fn pad(&self, out: &mut String, text: &str) {
        let missing = self.width.saturating_sub(text.chars().count());
        let blanks = " ".repeat(missing);
        match (self.left, self.zero && self.is_number()) {
            (true, _) => {
                out.push_str(text);
                out.push_str(&blanks);
            }
            (false, true) => {
                // Zeros stand between a sign, or 0x, and the digits.
                let starts = ["-", "+", " ", "0x", "0X"];
                let sign = starts.into_iter().find(|start| text.starts_with(start)).unwrap_or("");
                let digits = &text[sign.len()..];
                out.push_str(sign);
                out.push_str(&"0".repeat(missing));
                out.push_str(digits);
            }
            (false, false) => {
                out.push_str(&blanks);
                out.push_str(text);
            }
        }
    }

    fn is_number(&self) -> bool {
        matches!(self.conversion, b'd' | b'i' | b'u' | b'o' | b'x' | b'X' | b'p')
    }
}

pub(super) fn integer(number: i128, value: Value<'_>, spec: &Spec) -> String {
    // A signed number shown unsigned has the bits of its size.
    let bits = match (spec.bits, value) {
        (0, Value::Int(value)) if i32::try_from(value).is_ok() => 32,
        (0, _) => 64,
        (bits, _) => bits,
    };
    let unsigned = number as u128 & ((1 << bits) - 1);
    let digits = match spec.conversion {
        b'x' => format!("{unsigned:x}"),
        b'X' => format!("{unsigned:X}"),
        b'p' => format!("{unsigned:X}"),
        b'o' => format!("{unsigned:o}"),
        b'u' => unsigned.to_string(),
        b'c' => {
            return char::from_u32(unsigned as u32 & 0xffff).map_or(String::new(), String::from);
        }
        _ if matches!(value, Value::Hex(_)) && spec.conversion == b's' => format!("{unsigned:x}"),
        _ if matches!(value, Value::UInt(_)) && bits == 64 => unsigned.to_string(),
        _ => {
            let shift = 128 - u32::from(bits);
            ((number << shift) >> shift).to_string()
        }
    };
    let prefix = match spec.conversion {
        b'x' if spec.alternate && unsigned != 0 => "0x",
        b'X' if spec.alternate && unsigned != 0 => "0X",
        b'o' if spec.alternate && unsigned != 0 => "0",
        b'd' | b'i' if spec.plus && number >= 0 => "+",
        b'd' | b'i' if spec.blank && number >= 0 => " ",
        _ => "",
    };
    let missing = spec.precision.unwrap_or(0).saturating_sub(digits.trim_start_matches('-').len());
    match digits.strip_prefix('-') {
        Some(rest) => format!("-{}{rest}", "0".repeat(missing)),
        None => format!("{prefix}{}{digits}", "0".repeat(missing)),
    }
}

pub(super) fn float(value: f64, spec: &Spec) -> String {
    let precision = spec.precision.unwrap_or(6);
    match spec.conversion {
        b'e' => exponent(format!("{value:.precision$e}"), 'e'),
        b'E' => exponent(format!("{value:.precision$E}"), 'E'),
        b'g' | b'G' => format!("{value}"),
        _ => format!("{value:.precision$}"),
    }
}

/// A number with its exponent as C writes it: with a sign, and at least two digits.
fn exponent(text: String, letter: char) -> String {
    let Some((digits, exponent)) = text.split_once(letter) else { return text };
    let (sign, size) = match exponent.strip_prefix('-') {
        Some(size) => ('-', size),
        None => ('+', exponent),
    };
    format!("{digits}{letter}{sign}{size:0>2}")
}
