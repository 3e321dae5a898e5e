//! Comparisons of text without regard to case.

/// The form of a character that its forms in upper and lower case have in common: [simple case folding] of Unicode, for all scripts and
/// languages. One character stays one, so `ß` and `SS` differ, and so do the dotless `ı` and `i`.
///
/// [simple case folding]: https://www.unicode.org/Public/UCD/latest/ucd/CaseFolding.txt
///
/// ```
/// use etw_types::fold_case;
///
/// assert_eq!("ΣΑΣ Straße".chars().map(fold_case).collect::<String>(), "σασ straße");
/// assert_eq!("σας STRAẞE".chars().map(fold_case).collect::<String>(), "σασ straße");
/// ```
#[inline]
pub fn fold_case(c: char) -> char {
    match c {
        '\0'..='\x7f' => c.to_ascii_lowercase(),
        // Its upper case is that of `i`.
        'ı' => c,
        // Some characters of lower case have the same one in upper case: `ς` and `σ`.
        _ => {
            let upper = one(c, c.to_uppercase());
            one(upper, upper.to_lowercase())
        }
    }
}

/// The only character of a mapping, else the character itself.
fn one(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_character_fold_to_one() {
        for forms in [
            "aA",
            "kK\u{212a}",
            "sSſ",
            "åÅ\u{212b}",
            "σΣς",
            "жЖ",
            "ǆǅǄ",
            "µμΜ",
            "ßẞ",
            "θϑΘϴ",
            "𐐨𐐀",
            "ᾳᾼ",
        ] {
            let mut folded: Vec<char> = forms.chars().map(fold_case).collect();
            folded.dedup();
            assert_eq!(folded.len(), 1, "{forms}");
        }
        for others in
            ["iı", "iİ", "eé", "ao", "ss", "09"].map(|pair| pair.chars().collect::<Vec<_>>())
        {
            let is_same = fold_case(others[0]) == fold_case(others[1]);
            assert_eq!(is_same, others[0] == others[1], "{others:?}");
        }
    }

    #[test]
    fn folding_twice_changes_nothing() {
        for c in '\0'..=char::MAX {
            assert_eq!(fold_case(fold_case(c)), fold_case(c), "{c:?}");
        }
    }
}
