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
        // Infinity and NaN have no digits that zeros could precede.
        let has_digits = !self.is_float() || text.contains(|c: char| c.is_ascii_digit());
        match (self.left, self.zero && self.is_number() && has_digits) {
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
        matches!(self.conversion, b'd' | b'i' | b'u' | b'o' | b'x' | b'X' | b'p') || self.is_float()
    }

    pub fn is_float(&self) -> bool {
        matches!(self.conversion, b'e' | b'E' | b'f' | b'F' | b'g' | b'G')
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
            // Half of a character is none.
            let unit = char::from_u32(unsigned as u32 & 0xffff);
            return String::from(unit.unwrap_or(char::REPLACEMENT_CHARACTER));
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

/// A number as `%e`, `%f` and `%g` print it.
pub(super) fn float(value: f64, spec: &Spec) -> String {
    let sign = match value.is_sign_negative() {
        true => "-",
        false if spec.plus => "+",
        false if spec.blank => " ",
        false => "",
    };
    let size = value.abs();
    let precision = spec.precision.unwrap_or(6);
    let digits = match spec.conversion {
        _ if size.is_nan() => "nan".to_owned(),
        _ if size.is_infinite() => "inf".to_owned(),
        b'e' | b'E' => exponent(size, precision, spec.alternate),
        b'g' | b'G' => shortest(size, precision.max(1), spec.alternate),
        _ => fixed(size, precision, spec.alternate),
    };
    let digits = match spec.conversion {
        b'E' | b'F' | b'G' => digits.to_ascii_uppercase(),
        _ => digits,
    };
    format!("{sign}{digits}")
}

fn fixed(size: f64, precision: usize, keeps_point: bool) -> String {
    let point = if keeps_point && precision == 0 { "." } else { "" };
    format!("{size:.precision$}{point}")
}

/// A number with its exponent as C writes it: with a sign, and at least two digits.
fn exponent(size: f64, precision: usize, keeps_point: bool) -> String {
    let text = format!("{size:.precision$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    let point = if keeps_point && precision == 0 { "." } else { "" };
    format!("{digits}{point}e{sign}{exponent:0>2}")
}

/// `%g`: with an exponent if that is below -4 or not below the precision, and without zeros at the end.
fn shortest(size: f64, precision: usize, keeps_zeros: bool) -> String {
    let rounded = format!("{size:.*e}", precision - 1);
    let power = rounded.split_once('e').and_then(|(_, power)| power.parse::<i64>().ok());
    let power = power.unwrap_or(0);
    let text = match usize::try_from(precision as i64 - 1 - power) {
        Ok(decimals) if power >= -4 => fixed(size, decimals, keeps_zeros),
        _ => exponent(size, precision - 1, keeps_zeros),
    };
    if keeps_zeros {
        return text;
    }
    let (digits, power) = text.split_at(text.find('e').unwrap_or(text.len()));
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned() + power,
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_is_no_empty_text() {
        let spec = Spec::parse("c");
        assert_eq!(integer(0x20ac, Value::UInt(0x20ac), &spec), "€");
        assert_eq!(integer(0xd83d, Value::UInt(0xd83d), &spec), "\u{fffd}");
    }

    /// The texts of glibc's `printf`.
    #[test]
    fn floats_are_those_of_c() {
        for (conversion, value, wanted) in [
            ("f", 2.5, "2.500000"),
            ("f", -0.0, "-0.000000"),
            (".0f", 2.5, "2"),
            ("#.0f", 3.0, "3."),
            ("08.2f", -1.5, "-0001.50"),
            ("+f", 1.0, "+1.000000"),
            (" .1f", 1.0, " 1.0"),
            ("e", 12345.678, "1.234568e+04"),
            ("E", 0.0, "0.000000E+00"),
            (".0e", 1e-7, "1e-07"),
            ("#.0e", 1e100, "1.e+100"),
            ("12.3e", -1.0, "  -1.000e+00"),
            ("-12.3e", 1.0, "1.000e+00   "),
            ("g", 0.0, "0"),
            ("g", 100.0, "100"),
            ("g", 0.1, "0.1"),
            ("g", 1e-4, "0.0001"),
            ("g", 1e-5, "1e-05"),
            ("g", 123456.0, "123456"),
            ("g", 1234567.0, "1.23457e+06"),
            ("g", 999999.5, "1e+06"),
            ("G", 1e300, "1E+300"),
            (".3g", 1234.0, "1.23e+03"),
            (".0g", 0.5, "0.5"),
            ("#g", 1.0, "1.00000"),
            ("010g", -2.5, "-0000002.5"),
            ("g", f64::INFINITY, "inf"),
            ("+E", f64::INFINITY, "+INF"),
            ("f", f64::NEG_INFINITY, "-inf"),
            ("08f", f64::INFINITY, "     inf"),
        ] {
            let spec = Spec::parse(conversion);
            let mut out = String::new();
            spec.pad(&mut out, &float(value, &spec));
            assert_eq!(out, wanted, "%{conversion} of {value}");
        }
    }
}
