//! Schemas that this program carries, for the traces of sessions that enable its providers.
//!
//! A provider in Rust refers to its blob ([`Provider::with_schema`]); a program or library in C has blobs as ELF notes, or lacks them and
//! has a file beside it that its build id names.

#[cfg(all(target_os = "linux", feature = "stacks"))]
mod by_build_id;

use etw_types::{Guid, SchemaBlob, SchemaRecord, SchemaRecordRef};
#[cfg(all(target_os = "linux", feature = "stacks"))]
use etw_types::{SCHEMA_NOTE_OWNER, SCHEMA_NOTE_TYPE};

use crate::provider::Provider;

/// The schema records of a provider's events; none for most providers, whose events are TraceLogging events.
pub(crate) fn of(provider: &Provider) -> Vec<SchemaRecord> {
    let mut records = Vec::new();
    add(provider.schema(), provider.id(), &mut records);
    #[cfg(all(target_os = "linux", feature = "stacks"))]
    if records.is_empty() && !provider.is_classic() {
        etw_stack::notes(SCHEMA_NOTE_OWNER, SCHEMA_NOTE_TYPE, &mut |note| {
            add(note, provider.id(), &mut records);
        });
        if records.is_empty() {
            by_build_id::each(&mut |note| add(note, provider.id(), &mut records));
        }
    }
    records
}

fn add(blob: &[u8], provider: Guid, records: &mut Vec<SchemaRecord>) {
    let Some(blob) = SchemaBlob::parse(blob).filter(|blob| blob.provider == provider) else {
        return;
    };
    records.extend(blob.records().map(SchemaRecordRef::to_record));
}
