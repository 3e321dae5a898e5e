//! The CLR writes more than its manifest says: call stacks ([`with_all_frames`]), and events newer than the manifest
//! ([`as_newer_version`]).

use crate::field::{Count, Kind};
use crate::schema::Schema;
use etw_tracelogging::Wire;
use etw_types::Guid;

/// Microsoft-Windows-DotNETRuntime, and its providers for rundown, stress tests and private events.
const PROVIDERS: [Guid; 4] = [
    Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4),
    Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18),
    Guid::from_u128(0xcc2bcbba_16b6_4cf3_8990_d74c2e8af500),
    Guid::from_u128(0x763fd754_7086_4dfe_95eb_c01a46faf4ca),
];

/// Whether new versions of a provider's events have the fields of the older ones, and more behind them.
pub(crate) fn only_adds_fields(provider: &Guid) -> bool {
    PROVIDERS.contains(provider)
}

/// The schema of an older version, for events of a newer one.
pub(crate) fn as_newer_version(older: &Schema, version: u8) -> Schema {
    let what = format!(
        "version {version} is the newest one that is described, and later ones have more fields"
    );
    Schema { incomplete: Some(what.into()), ..older.clone() }
}

/// The schema with as many frames as `FrameCount` says, if it is that of a stack. The manifest declares two.
pub(crate) fn with_all_frames(provider: &Guid, schema: &Schema) -> Option<Schema> {
    let last = schema.top_level.checked_sub(1)?;
    let (frames, count) = (schema.fields.get(last)?, last.checked_sub(1)?);
    let is_pointer = matches!(frames.kind, Kind::Scalar { wire: Wire::Pointer, .. });
    let is_stack = frames.name == "Stack"
        && frames.count == Count::Fixed(2)
        && schema.fields[count].name == "FrameCount";
    if !(is_stack && is_pointer && PROVIDERS.contains(provider)) {
        return None;
    }
    let mut whole = schema.clone();
    whole.fields[last].count = Count::Field(count);
    whole.has_references = true;
    Some(whole)
}

#[cfg(test)]
mod tests {
    use crate::{Catalog, Decoder, Style};
    use etw_types::{EventRecord, HeaderType};
    use std::sync::Arc;

    /// The template as the CLR's manifest has it.
    const MANIFEST: &str = r#"<m><provider name="P" guid="{GUID}"><templates><template tid="T">
        <data name="ClrInstanceID" inType="win:UInt16"/><data name="Reserved1" inType="win:UInt8"/>
        <data name="Reserved2" inType="win:UInt8"/><data name="FrameCount" inType="win:UInt32"/>
        <data name="Stack" count="2" inType="win:Pointer"/></template></templates>
        <events><event value="82" template="T"/></events></provider></m>"#;

    fn stack(guid: &str) -> (String, usize) {
        let payload = [13u32, 3, 0x10, 0x20, 0x30].map(u32::to_le_bytes).concat();
        let mut catalog = Catalog::default();
        catalog.add_manifest(MANIFEST.replace("GUID", guid).as_bytes()).unwrap();
        let mut decoder = Decoder::new();
        decoder.set_catalog(Arc::new(catalog));
        let mut record = EventRecord::new(HeaderType::Event32, &payload);
        (record.provider, record.descriptor.id) = (guid.parse().ok(), 82);
        record.pointer_size = 4;
        let decoded = decoder.decode(&record);
        let fields = decoded.fields_text(&record, &Style::default()).unwrap();
        let rest = decoded.visit_part(&record, &mut ()).unwrap().rest.len();
        (fields[4].1.clone(), rest)
    }

    #[test]
    fn a_stack_of_the_clr_has_all_its_frames() {
        let (frames, rest) = stack("e13c0d23-ccbc-4e12-931b-d9cc2eee27e4");
        assert!(frames.contains("0x10") && frames.contains("0x30"), "{frames}");
        assert_eq!(rest, 0);
    }

    #[test]
    fn an_event_newer_than_the_manifest_has_the_fields_of_the_version_before() {
        const EVENTS: &str = r#"<events><event value="10" version="1" template="T" symbol="Tick"/><event value="10" version="3" template="U"/>
            <event value="10" version="6" template="T"/></events>"#;
        const TEMPLATES: &str = r#"<templates><template tid="T"><data name="A" inType="win:UInt8"/></template>
            <template tid="U"><data name="A" inType="win:UInt8"/><data name="B" inType="win:UInt16"/></template></templates>"#;
        let decode = |guid: &str, version| {
            let mut catalog = Catalog::default();
            let text = format!(
                r#"<m><provider name="P" guid="{{{guid}}}">{TEMPLATES}{EVENTS}</provider></m>"#
            );
            catalog.add_manifest(text.as_bytes()).unwrap();
            let mut decoder = Decoder::new();
            decoder.set_catalog(Arc::new(catalog));
            let mut record = EventRecord::new(HeaderType::Event32, &[1, 2, 0, 5, 6]);
            (record.provider, record.descriptor.id) = (guid.parse().ok(), 10);
            record.descriptor.version = version;
            let decoded = decoder.decode(&record);
            let part = decoded.visit_part(&record, &mut ());
            part.map(|part| (part.rest.to_vec(), part.reason.map(|reason| reason.to_string())))
        };
        let clr = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4";
        let (rest, reason) = decode(clr, 4).unwrap();
        assert_eq!(rest, [5, 6]);
        assert!(reason.unwrap().contains("version 3 is the newest"));
        assert_eq!(decode(clr, 3).unwrap(), (vec![5, 6], None));
        assert_eq!(decode(clr, 0), None);
        assert_eq!(decode("11111111-2222-3333-4444-555555555555", 4), None);
    }

    #[test]
    fn another_provider_has_the_frames_that_its_manifest_declares() {
        let (frames, rest) = stack("11111111-2222-3333-4444-555555555555");
        assert!(frames.contains("0x20") && !frames.contains("0x30"), "{frames}");
        assert_eq!(rest, 4);
    }
}
