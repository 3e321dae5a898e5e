//! Names of functions as symbols have them, and as programmers write them.

use addr2line::demangle_auto;
use std::sync::Arc;

/// Whether a name may be a mangled one: of C++ or of Rust's older scheme, which begin with `_Z` and, in some object formats and in
/// blocks, with more underscores; or of Rust's newer scheme, with `_R`. Others are as the program has them, though the demangler takes
/// C's `f` and `t` for types.
pub(crate) fn is_mangled(name: &str) -> bool {
    const UNDERSCORES: std::ops::RangeInclusive<usize> = 1..=4;
    let rest = name.trim_start_matches('_');
    match name.len() - rest.len() {
        1 => rest.starts_with(['Z', 'R']),
        count => UNDERSCORES.contains(&count) && rest.starts_with('Z'),
    }
}

/// The name as a programmer writes it: demangled, and without the hash that Rust adds.
pub(crate) fn readable(name: &str) -> Arc<str> {
    const HASH: usize = 16;
    if !is_mangled(name) {
        return name.into();
    }
    let name = demangle_auto(name.into(), None);
    if let Some((path, hash)) = name.rsplit_once("::h")
        && hash.len() == HASH
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return path.into();
    }
    name.as_ref().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rusts_hashes_are_left_out_and_other_names_stay() {
        assert_eq!(&*readable("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(&*readable("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(&*readable("main"), "main");
        assert_eq!(&*readable("_ZN"), "_ZN");
    }

    #[test]
    fn names_of_c_that_look_like_types_stay() {
        for name in ["f", "t", "Ss", "St", "i", "N3foo3barE", "ZN3foo3barE", "R", "_R", "__R", ""] {
            assert_eq!(&*readable(name), name);
        }
        assert_eq!(&*readable("__ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(&*readable("_RNvC6_123foo3bar"), "123foo::bar");
    }
}
