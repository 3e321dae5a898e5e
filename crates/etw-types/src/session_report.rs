//! Providers with a meaning of their own: those by which a session reports on itself, programs report to logs, and the system's events
//! that no kernel class has.

use crate::{EventRecord, Guid, LOST_EVENT};

/// Provider `OpenEtw.Session`: a session writes its ledger as events of it. No ledger counts these events.
pub const SESSION_REPORTS: Guid = Guid::from_u128(0xc426bcf2_cd6c_5679_c416_2f87e1f372d4);

/// Provider `OpenEtw.EventSources`: the reports of programs (`ReportEvent`) travel as events of it to the hosts that keep logs.
pub const EVENT_SOURCES: Guid = Guid::from_u128(0xf81a325a_1f0c_5c5b_8ebb_ad57264a0f96);

/// The name of [`EVENT_SOURCES`].
pub const EVENT_SOURCES_NAME: &str = "OpenEtw.EventSources";

/// Provider `OpenEtw.System`: events of a Linux system that no class of Windows' kernel has.
pub const SYSTEM_EVENTS: Guid = Guid::from_u128(0xa6238efd_4dcd_5783_5592_f41b01abbc18);

/// The name of [`SYSTEM_EVENTS`].
pub const SYSTEM_EVENTS_NAME: &str = "OpenEtw.System";

/// Provider `Universal.System`: mappings and symbols of ELF files, for PerfView.
pub const UNIVERSAL_SYSTEM: Guid = Guid::from_u128(0x8c107b6c_79f8_5231_4de6_2a0e20a3f562);

/// Whether a session wrote the record to report on itself: as an event of [`SESSION_REPORTS`], or to mark where events are missing.
pub fn is_session_report(record: &EventRecord<'_>) -> bool {
    match record.provider {
        Some(SESSION_REPORTS) => record.header.is_event(),
        Some(LOST_EVENT) => record.header.is_classic(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_of_reports_has_the_guid_of_its_name() {
        assert_eq!(SESSION_REPORTS, Guid::from_name("OpenEtw.Session"));
        assert_eq!(EVENT_SOURCES, Guid::from_name(EVENT_SOURCES_NAME));
        assert_eq!(SYSTEM_EVENTS, Guid::from_name(SYSTEM_EVENTS_NAME));
        assert_eq!(UNIVERSAL_SYSTEM, Guid::from_name("Universal.System"));
    }
}
