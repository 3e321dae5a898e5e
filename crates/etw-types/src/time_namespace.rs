//! Offsets of clocks in a time namespace of Linux.

/// Nanoseconds by which a clock (`monotonic`, `boottime`) of a time namespace is ahead of the machine's, by the text of
/// `/proc/PID/timens_offsets`: a line for each clock with its name, seconds and nanoseconds. `None`: the text has no such line.
/// Source: `time_namespaces(7)`.
pub fn time_namespace_offset(text: &str, clock: &str) -> Option<i64> {
    let of = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_of_clock = words.next() == Some(clock);
        let mut number = || words.next()?.parse::<i64>().ok();
        let (seconds, nanos) = (number()?, number()?);
        is_of_clock.then(|| seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos))
    };
    text.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proc(5): a line for each clock; the offset may be negative.
    #[test]
    fn the_offset_of_a_time_namespace_is_parsed() {
        let text = "monotonic     86400       500\nboottime  7  0\n";
        assert_eq!(time_namespace_offset(text, "monotonic"), Some(86_400_000_000_500));
        assert_eq!(time_namespace_offset(text, "boottime"), Some(7_000_000_000));
        let text = "boottime 7 0\nmonotonic -2 5";
        assert_eq!(time_namespace_offset(text, "monotonic"), Some(-1_999_999_995));
        for wrong in ["", "monotonic", "monotonic 5", "monotonic x 0", "boottime 1 1"] {
            assert_eq!(time_namespace_offset(wrong, "monotonic"), None, "{wrong}");
        }
    }
}
