//! The providers by which a session reports on itself, and programs report to logs.

use crate::{EventRecord, Guid};

/// Provider `OpenEtw.Session`: a session writes its ledger as events of it. No ledger counts these events.
pub const SESSION_REPORTS: Guid = Guid::from_u128(0xc426bcf2_cd6c_5679_c416_2f87e1f372d4);

/// Provider `OpenEtw.EventSources`: the reports of programs (`ReportEvent`) travel as events of it to the hosts that keep logs.
pub const EVENT_SOURCES: Guid = Guid::from_u128(0xf81a325a_1f0c_5c5b_8ebb_ad57264a0f96);

/// The name of [`EVENT_SOURCES`].
pub const EVENT_SOURCES_NAME: &str = "OpenEtw.EventSources";

/// Whether a session wrote the record to report on itself.
pub fn is_session_report(record: &EventRecord<'_>) -> bool {
    record.header.is_event() && record.provider == Some(SESSION_REPORTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_of_reports_has_the_guid_of_its_name() {
        assert_eq!(SESSION_REPORTS, Guid::from_name("OpenEtw.Session"));
        assert_eq!(EVENT_SOURCES, Guid::from_name(EVENT_SOURCES_NAME));
    }
}
