//! Providers with levels and keywords, as options name them.

use etw_system::system_providers;
use etw_types::{Guid, Keyword, Level, LevelKeyword};
use std::str::FromStr;

/// `PROVIDER[:LEVEL[:ANY[:ALL]]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub provider: Named,
    /// The name whose GUID it is, of `*Name`.
    pub hashed_name: Option<String>,
    /// Level and masks, those of keywords' names aside.
    pub wanted: LevelKeyword,
    /// Keywords by name instead of the mask.
    pub any_names: Option<String>,
    pub all_names: Option<String>,
}

/// How a provider is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A GUID, a name that was hashed, or the name of a system provider.
    Id(Guid),
    /// A name that a schema has, or that a program registers.
    Name(String),
}

impl Named {
    /// Whether it is a provider of events of the system.
    pub fn is_of_system(&self) -> bool {
        matches!(self, Named::Id(id) if system_providers::is_system_provider(id))
    }
}

impl FromStr for Named {
    type Err = String;
    fn from_str(text: &str) -> Result<Named, String> {
        if let Some(name) = text.strip_prefix('*') {
            return match name.is_empty() {
                true => Err("a name is missing behind *".to_owned()),
                false => Ok(Named::Id(Guid::from_name(name))),
            };
        }
        if let Some(id) = system_providers::named(text) {
            return Ok(Named::Id(id));
        }
        match text.trim_matches(['{', '}']).parse() {
            Ok(id) => Ok(Named::Id(id)),
            Err(_) if text.is_empty() => Err("the provider is missing".to_owned()),
            Err(_) if is_almost_guid(text) => Err(format!(
                "{text:?} is not a GUID: it needs 32 hexadecimal digits, as 8-4-4-4-12"
            )),
            Err(_) => Ok(Named::Name(text.to_owned())),
        }
    }
}

/// Whether a text is a GUID with a slip: five groups of hexadecimal digits, and nothing else.
fn is_almost_guid(text: &str) -> bool {
    let mut groups = text.trim_matches(['{', '}']).split('-');
    let is_hex = |group: &str| group.len() > 2 && group.bytes().all(|c| c.is_ascii_hexdigit());
    groups.clone().count() == 5 && groups.all(is_hex)
}

impl FromStr for Wanted {
    type Err = String;
    fn from_str(text: &str) -> Result<Wanted, String> {
        let mut parts = text.split(':');
        let provider = parts.next().unwrap_or_default();
        let hashed_name = provider.strip_prefix('*').map(str::to_owned);
        let provider = provider.parse()?;
        let (mut any_names, mut all_names) = (None, None);
        let mut wanted = LevelKeyword {
            level: Level(5),
            any: Keyword(0),
            all: Keyword(0),
            ignore_keyword_0: false,
        };
        if let Some(text) = parts.next().filter(|text| !text.is_empty()) {
            wanted.level = Level(level(text)?);
        }
        if let Some(text) = parts.next().filter(|text| !text.is_empty()) {
            (wanted.any, any_names) = keywords(text);
        }
        if let Some(text) = parts.next().filter(|text| !text.is_empty()) {
            (wanted.all, all_names) = keywords(text);
        }
        match parts.next() {
            Some(more) => Err(format!("{more:?} is too much: PROVIDER[:LEVEL[:ANY[:ALL]]]")),
            None => Ok(Wanted { provider, hashed_name, wanted, any_names, all_names }),
        }
    }
}

/// A mask, or the text with keywords' names. Digits without 0x may be a name as well.
fn keywords(text: &str) -> (Keyword, Option<String>) {
    match mask(text) {
        Ok(mask) if text.starts_with(|c: char| c.is_ascii_digit()) => (Keyword(mask), None),
        _ => (Keyword(0), Some(text.to_owned())),
    }
}

pub fn level(text: &str) -> Result<u8, String> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "critical" => 1,
        "error" => 2,
        "warning" => 3,
        "info" | "informational" | "information" => 4,
        "verbose" => 5,
        number => {
            let parsed = match number.strip_prefix("0x") {
                Some(hex) => u8::from_str_radix(hex, 16),
                None => number.parse(),
            };
            parsed.map_err(|_| format!("{text:?} is not a level: 0 to 255, critical to verbose"))?
        }
    })
}

pub fn mask(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| format!("{text:?} is not a hexadecimal mask"))
}
