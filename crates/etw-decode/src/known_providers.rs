//! Names of providers that are part of Windows and .NET, for traces that do not name them.

use etw_types::Guid;

/// Lines of `GUID name`, sorted by GUID, behind lines of comments.
const TABLE: &str = include_str!("providers.txt");

/// Characters of a GUID and the space behind it.
const NAME_START: usize = 37;

struct Provider {
    /// The GUID as its digits are written, so that order is that of the table.
    id: u128,
    /// The offset of its name in the table.
    start: usize,
    end: usize,
}

/// The table, read at compile time: a trace without unknown providers costs nothing, and a lookup allocates nothing.
static PROVIDERS: [Provider; COUNT] = providers();

const COUNT: usize = {
    let (table, mut at, mut count) = (TABLE.as_bytes(), 0, 0);
    while at < table.len() {
        if table[at] != b'#' {
            count += 1;
        }
        at = line_end(at) + 1;
    }
    count
};

const fn line_end(mut at: usize) -> usize {
    let table = TABLE.as_bytes();
    while at < table.len() && table[at] != b'\n' {
        at += 1;
    }
    at
}

/// A table that does not hold GUIDs at the start of its lines, sorted, does not compile.
const fn providers() -> [Provider; COUNT] {
    let mut providers = [const { Provider { id: 0, start: 0, end: 0 } }; COUNT];
    let (table, mut at, mut count) = (TABLE.as_bytes(), 0, 0);
    while at < table.len() {
        let end = line_end(at);
        if table[at] != b'#' {
            let id = id_at(at);
            assert!(count == 0 || providers[count - 1].id < id);
            providers[count] = Provider { id, start: at + NAME_START, end };
            count += 1;
        }
        at = end + 1;
    }
    providers
}

const fn id_at(start: usize) -> u128 {
    let (table, mut id, mut number) = (TABLE.as_bytes(), 0, 0);
    while number < NAME_START - 1 {
        let digit = table[start + number];
        match digit {
            b'0'..=b'9' => id = id << 4 | (digit - b'0') as u128,
            b'a'..=b'f' => id = id << 4 | (digit - b'a' + 10) as u128,
            _ => assert!(digit == b'-'),
        }
        number += 1;
    }
    id
}

/// The name of a provider of Windows or .NET.
pub fn known_provider_name(provider: &Guid) -> Option<&'static str> {
    let id = provider.to_u128();
    let found = PROVIDERS.binary_search_by_key(&id, |provider| provider.id).ok()?;
    let Provider { start, end, .. } = PROVIDERS[found];
    Some(&TABLE[start..end])
}

/// The providers of Windows and .NET of a name, in any case of letters.
pub fn known_providers_named(name: &str) -> Vec<Guid> {
    let is_named = |known: &&Provider| {
        TABLE.as_bytes()[known.start..known.end].eq_ignore_ascii_case(name.as_bytes())
    };
    PROVIDERS.iter().filter(is_named).map(|known| Guid::from_u128(known.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;
    use std::collections::HashSet;

    #[test]
    fn more_than_a_thousand_providers_are_known_each_by_one_name() {
        const { assert!(COUNT > 1000) };
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        let mut seen = HashSet::new();
        for (line, provider) in lines.zip(&PROVIDERS) {
            let (guid, name) = line.split_once(' ').unwrap();
            let guid: Guid = guid.parse().unwrap();
            assert!(seen.insert(guid), "{line}");
            assert_eq!(guid.to_u128(), provider.id);
            assert_eq!(known_provider_name(&guid), Some(name));
            assert!(known_providers_named(&name.to_uppercase()).contains(&guid), "{line}");
            assert!(name == name.trim() && !name.is_empty(), "{line:?}");
        }
        assert_eq!(seen.len(), COUNT);
        assert_eq!(known_provider_name(&Guid::ZERO), None);
        assert_eq!(known_providers_named("No-Provider"), []);
        assert!(TABLE.len() <= 150 << 10);
    }

    /// Names and GUIDs were gathered apart from each other; a GUID that is the hash of its name shows that they belong together.
    #[test]
    fn names_of_self_describing_providers_agree_with_their_guids() {
        let named = |provider: &Provider| &TABLE[provider.start..provider.end];
        let by_hash = PROVIDERS.iter().filter(|p| Guid::from_name(named(p)).to_u128() == p.id);
        assert!(by_hash.count() > 100);
    }

    #[test]
    fn the_reason_names_the_missing_manifest_and_how_to_get_it() {
        let dns = "1c95126e-7eea-49a9-a3fe-a378b03ddb4d".parse().unwrap();
        let mut record = etw_types::EventRecord::new(etw_types::HeaderType::Event64, &[1]);
        record.provider = Some(dns);
        let mut decoder = crate::Decoder::new();
        let decoded = decoder.decode(&record);
        assert_eq!(decoded.provider_name().as_deref(), Some("Microsoft-Windows-DNS-Client"));
        let reason = decoded.reason().unwrap().to_string();
        assert!(
            reason.starts_with("no schema: the manifest of Microsoft-Windows-DNS-Client is needed")
        );
        assert!(reason.contains("etw pack create"), "{reason}");
        record.provider = Some(Guid::from_u128(1));
        assert_eq!(decoder.decode(&record).reason(), Some(&Reason::NoManifest));
    }
}
