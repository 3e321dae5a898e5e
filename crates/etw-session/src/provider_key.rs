//! [`ProviderKey`]: a provider as an enablement names it.

use std::fmt;

use etw_types::Guid;

/// A provider or provider group, by its GUID or by its name.
///
/// A name stands for the provider whose GUID is the name's hash, and for every provider that a program registers under the name,
/// now or later, whatever its GUID is. Names are compared without case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "String", into = "String"))]
pub enum ProviderKey {
    /// A GUID.
    Id(Guid),
    /// A name.
    Name(String),
}

impl ProviderKey {
    /// The GUID, or the hash of the name.
    pub fn id(&self) -> Guid {
        match self {
            ProviderKey::Id(id) => *id,
            ProviderKey::Name(name) => Guid::from_name(name),
        }
    }

    /// The name, if the provider is named by it.
    pub fn name(&self) -> Option<&str> {
        match self {
            ProviderKey::Id(_) => None,
            ProviderKey::Name(name) => Some(name),
        }
    }
}

impl fmt::Display for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProviderKey::Id(id) => id.fmt(f),
            ProviderKey::Name(name) => f.write_str(name),
        }
    }
}

impl From<Guid> for ProviderKey {
    fn from(id: Guid) -> ProviderKey {
        ProviderKey::Id(id)
    }
}

/// A GUID, with or without braces; `*Name`, the GUID of a name; a name.
impl From<String> for ProviderKey {
    fn from(text: String) -> ProviderKey {
        if let Some(name) = text.strip_prefix('*').filter(|name| !name.is_empty()) {
            return ProviderKey::Id(Guid::from_name(name));
        }
        match text.trim_matches(['{', '}']).parse() {
            Ok(id) => ProviderKey::Id(id),
            Err(_) => ProviderKey::Name(text),
        }
    }
}

impl From<ProviderKey> for String {
    fn from(key: ProviderKey) -> String {
        key.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_guid_a_hashed_name_or_a_name() {
        let id = Guid::from_name("Shop");
        for text in [id.to_string(), format!("{{{id}}}"), "*Shop".to_owned()] {
            assert_eq!(ProviderKey::from(text), ProviderKey::Id(id));
        }
        let named = ProviderKey::from("Shop".to_owned());
        assert_eq!((named.id(), named.name()), (id, Some("Shop")));
        assert_eq!(String::from(named), "Shop");
    }
}
