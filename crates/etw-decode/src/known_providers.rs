//! Names of providers that are part of Windows and .NET, for traces that do not name them.

use etw_types::Guid;
use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("providers.txt");

static NAMES: LazyLock<HashMap<Guid, &'static str, foldhash::fast::RandomState>> =
    LazyLock::new(|| {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(' '));
        pairs.filter_map(|(guid, name)| Some((guid.parse().ok()?, name))).collect()
    });

/// The name of a provider of Windows or .NET.
pub fn known_provider_name(provider: &Guid) -> Option<&'static str> {
    NAMES.get(provider).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_guid_and_a_name() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.count(), NAMES.len());
        let clr = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4".parse().unwrap();
        assert_eq!(known_provider_name(&clr), Some("Microsoft-Windows-DotNETRuntime"));
        // The reason stays that of an event without a manifest.
        let mut record = etw_types::EventRecord::new(etw_types::HeaderType::Event64, &[1]);
        record.provider = Some(clr);
        let mut decoder = crate::Decoder::new();
        let decoded = decoder.decode(&record);
        assert_eq!(decoded.provider_name().as_deref(), Some("Microsoft-Windows-DotNETRuntime"));
        assert_eq!(decoded.reason(), Some(&crate::Reason::NoManifest));
    }
}
