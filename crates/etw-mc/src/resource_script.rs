//! The resource script that puts a message table and a WEVT_TEMPLATE resource into a program.

use crate::Manifest;

/// The script for files of these names: `Msg` tables in the order of the manifest's cultures.
pub fn write(manifest: &Manifest, tables: &[String], template: &str) -> String {
    let mut out = String::new();
    for (culture, table) in manifest.cultures.iter().zip(tables) {
        let (primary, sub) = language(&culture.name);
        out.push_str(&format!("LANGUAGE {primary:#x},{sub:#x}\r\n1 11 \"{table}\"\r\n"));
    }
    out.push_str(&format!("1 WEVT_TEMPLATE \"{template}\"\r\n"));
    out
}

/// Primary and sub language of a culture's name. Cultures that are not listed are neutral.
///
/// Source: the identifiers that Microsoft documents (MS-LCID).
fn language(culture: &str) -> (u16, u16) {
    const LANGUAGES: [(&str, u16); 24] = [
        ("ar-SA", 0x0401),
        ("cs-CZ", 0x0405),
        ("da-DK", 0x0406),
        ("de-DE", 0x0407),
        ("el-GR", 0x0408),
        ("en-GB", 0x0809),
        ("en-US", 0x0409),
        ("es-ES", 0x0c0a),
        ("fi-FI", 0x040b),
        ("fr-FR", 0x040c),
        ("he-IL", 0x040d),
        ("hu-HU", 0x040e),
        ("it-IT", 0x0410),
        ("ja-JP", 0x0411),
        ("ko-KR", 0x0412),
        ("nb-NO", 0x0414),
        ("nl-NL", 0x0413),
        ("pl-PL", 0x0415),
        ("pt-BR", 0x0416),
        ("ru-RU", 0x0419),
        ("sv-SE", 0x041d),
        ("tr-TR", 0x041f),
        ("zh-CN", 0x0804),
        ("zh-TW", 0x0404),
    ];
    let known = LANGUAGES.iter().find(|(name, _)| name.eq_ignore_ascii_case(culture));
    let id = known.map_or(0, |(_, id)| *id);
    (id & 0x3ff, id >> 10)
}
