//! Perf maps: `/tmp/perf-PID.map`, lines of start, size and name of code that was compiled at run time.

/// Code that was compiled at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledCode {
    /// The first address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// The name.
    pub name: String,
}

/// Reads the lines of a perf map; other lines are skipped.
pub fn parse(text: &[u8]) -> impl Iterator<Item = CompiledCode> + '_ {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let mut parts = line.trim_end().splitn(3, ' ');
        let mut hex = || u64::from_str_radix(parts.next()?.trim_start_matches("0x"), 16).ok();
        let (start, size) = (hex()?, hex()?);
        let name = parts.next().filter(|name| !name.is_empty())?;
        Some(CompiledCode { start, size, name: name.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_start_size_and_name() {
        let text = b"7f00 20 LazyCompile:*add /shop.js:3\nbad line\n0x7f40 8 \xff\n8000\n";
        let all: Vec<_> = parse(text).collect();
        let sizes: Vec<_> = all.iter().map(|code| (code.start, code.size)).collect();
        assert_eq!(sizes, [(0x7f00, 0x20), (0x7f40, 8)]);
        assert_eq!(all[0].name, "LazyCompile:*add /shop.js:3");
    }
}
