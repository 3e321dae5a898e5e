//! Decimal digits of numbers.

/// The eight decimal digits of a number below 10⁸, a byte each, the first one lowest.
#[inline]
pub fn eight_digits(value: u32) -> u64 {
    // Two numbers below 10,000 become four below 100, then eight digits, each side by side in one word.
    let halves = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    let hundreds = (halves * 10_486) >> 20 & 0x0000_007f_0000_007f;
    let quarters = hundreds | (halves - 100 * hundreds) << 16;
    let tens = (quarters * 103) >> 10 & 0x000f_000f_000f_000f;
    tens | (quarters - 10 * tens) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_digit_has_its_byte() {
        for value in (0..100_000_000).step_by(997).chain([9, 10, 99_999_999]) {
            let digits = eight_digits(value).to_le_bytes().map(|digit| char::from(b'0' + digit));
            assert_eq!(digits.iter().collect::<String>(), format!("{value:08}"));
        }
    }
}
