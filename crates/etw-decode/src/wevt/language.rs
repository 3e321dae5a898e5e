//! [`Language`]: which of several languages a program's texts are taken from.

use std::str::FromStr;

/// A language, by the name that Windows gives folders of `.mui` files: `en-US`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Language {
    tag: String,
    /// The number by which resources have it.
    id: Option<u16>,
}

/// The languages that Windows' own texts come in, as [MS-LCID] numbers them.
const IDS: [(&str, u16); 44] = [
    ("ar-SA", 0x0401),
    ("bg-BG", 0x0402),
    ("ca-ES", 0x0403),
    ("zh-TW", 0x0404),
    ("cs-CZ", 0x0405),
    ("da-DK", 0x0406),
    ("de-DE", 0x0407),
    ("el-GR", 0x0408),
    ("en-US", 0x0409),
    ("fi-FI", 0x040b),
    ("fr-FR", 0x040c),
    ("he-IL", 0x040d),
    ("hu-HU", 0x040e),
    ("it-IT", 0x0410),
    ("ja-JP", 0x0411),
    ("ko-KR", 0x0412),
    ("nl-NL", 0x0413),
    ("nb-NO", 0x0414),
    ("pl-PL", 0x0415),
    ("pt-BR", 0x0416),
    ("ro-RO", 0x0418),
    ("ru-RU", 0x0419),
    ("hr-HR", 0x041a),
    ("sk-SK", 0x041b),
    ("sv-SE", 0x041d),
    ("th-TH", 0x041e),
    ("tr-TR", 0x041f),
    ("id-ID", 0x0421),
    ("uk-UA", 0x0422),
    ("sl-SI", 0x0424),
    ("et-EE", 0x0425),
    ("lv-LV", 0x0426),
    ("lt-LT", 0x0427),
    ("vi-VN", 0x042a),
    ("eu-ES", 0x042d),
    ("gl-ES", 0x0456),
    ("zh-CN", 0x0804),
    ("en-GB", 0x0809),
    ("es-MX", 0x080a),
    ("pt-PT", 0x0816),
    ("es-ES", 0x0c0a),
    ("fr-CA", 0x0c0c),
    ("sr-Latn-RS", 0x241a),
    ("en", 0x0009),
];

/// The bits of a language's number that leave out the country.
const PRIMARY: u16 = 0x3ff;
const ENGLISH: u16 = 9;

/// The name of a language that is not known: "undetermined", as BCP 47 has it.
pub(crate) const UNDETERMINED: &str = "und";

/// The name of a language by its number; without the country if that is not known.
pub(crate) fn tag_of(id: Option<u16>) -> &'static str {
    let Some(id) = id else { return UNDETERMINED };
    if let Some((tag, _)) = IDS.iter().find(|(_, known)| *known == id) {
        return tag;
    }
    let kin = IDS.iter().filter(|(_, known)| known & PRIMARY == id & PRIMARY);
    let mut names = kin.filter_map(|entry| entry.0.split('-').next());
    match names.next() {
        // Several languages may have one number, such as Croatian and Serbian.
        Some(first) if names.all(|other| other == first) => first,
        _ => UNDETERMINED,
    }
}

impl Language {
    /// Windows' number of the language (`LANGID`), if it is a language of Windows' own texts.
    pub fn id(&self) -> Option<u16> {
        self.id
    }

    /// The language's name.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// How well a resource's language suits; smaller is better.
    pub(super) fn rank(wanted: Option<&Language>, found: Option<u16>) -> u8 {
        let wanted = wanted.and_then(|wanted| wanted.id);
        match (wanted, found) {
            (Some(wanted), Some(found)) if wanted == found => 0,
            (Some(wanted), Some(found)) if wanted & PRIMARY == found & PRIMARY => 1,
            (_, Some(found)) if found & PRIMARY == ENGLISH => 2,
            _ => 3,
        }
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(tag: &str) -> Result<Language, String> {
        let is_part = |part: &str| {
            (2..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if !tag.split('-').all(is_part) {
            return Err(format!("{tag:?} is not the name of a language, such as en-US or de-DE"));
        }
        let known = IDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(tag));
        Ok(Language { tag: tag.to_owned(), id: known.map(|(_, id)| *id) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wanted_language_comes_before_its_kin_then_english() {
        let german: Language = "de-de".parse().unwrap();
        let rank = |found: u16| Language::rank(Some(&german), Some(found));
        assert_eq!([rank(0x407), rank(0x807), rank(0x409), rank(0x40c)], [0, 1, 2, 3]);
        assert_eq!(Language::rank(None, Some(0x409)), 2);
        let tags = [0x407, 0x807, 0xc1a, 0, 0xffff].map(|id| tag_of(Some(id)));
        assert_eq!(tags, ["de-DE", "de", "und", "und", "und"]);
        assert!("../etc".parse::<Language>().is_err() && "".parse::<Language>().is_err());
        assert_eq!("mi-NZ".parse::<Language>().unwrap().id, None);
    }
}
