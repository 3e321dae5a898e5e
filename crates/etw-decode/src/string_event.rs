//! Events of `EventWriteString`: one string without a schema.

use crate::field::Field;
use crate::schema::{Names, Schema};
use etw_tracelogging::{Show, Wire};
use etw_types::{EventFlags, EventProperty, EventRecord};
use std::sync::OnceLock;

/// Whether `EventWriteString` wrote it: marked so, or all that such an event has is level and keyword and the payload
/// is exactly one string. Windows leaves no mark on disk, so the second is a guess by form.
pub fn is_string_event(record: &EventRecord<'_>) -> bool {
    if !record.header.is_event() {
        return false;
    }
    if record.flags.contains(EventFlags::STRING_ONLY) {
        return true;
    }
    let descriptor = &record.descriptor;
    let bare = descriptor.id == 0
        && descriptor.version == 0
        && descriptor.channel.0 == 0
        && descriptor.opcode.0 == 0
        && descriptor.task == 0;
    let payload = record.payload;
    let one_string = payload.len() >= 2
        && payload.len() % 2 == 0
        && etw_types::le::utf16_z(payload).is_some_and(|(_, taken)| taken == payload.len());
    if bare && record.property.contains(EventProperty::LEGACY_EVENTLOG) {
        return one_string;
    }
    let text = &payload[..payload.len().saturating_sub(2)];
    let printable = || {
        char::decode_utf16(text.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])))
            .all(|unit| unit.is_ok_and(|c| !c.is_control() || c.is_whitespace()))
    };
    bare && one_string && printable()
}

pub(crate) fn string_schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let names = Names { event: Some("EventWriteString".into()), ..Names::default() };
        Schema::new(names, vec![Field::new("Message", Wire::Utf16, Show::Plain)], 1)
    })
}
