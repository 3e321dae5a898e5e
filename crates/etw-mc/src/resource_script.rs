//! The resource script that puts a message table and a WEVT_TEMPLATE resource into a program.

use crate::Manifest;
use etw_decode::wevt::Language;

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

/// Primary and sub language of a culture's name. A culture is neutral if it is none of the languages that Windows' own texts come in.
fn language(culture: &str) -> (u16, u16) {
    let id = culture.parse::<Language>().ok().and_then(|language| language.id()).unwrap_or(0);
    (id & 0x3ff, id >> 10)
}
