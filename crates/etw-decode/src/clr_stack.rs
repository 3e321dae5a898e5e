//! [`with_all_frames`]: the call stacks that the CLR writes as events. Their manifest declares two frames; the runtime writes as many as the
//! field in front of them says.

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

/// The schema with as many frames as `FrameCount` says, if it is that of a stack.
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
    fn another_provider_has_the_frames_that_its_manifest_declares() {
        let (frames, rest) = stack("11111111-2222-3333-4444-555555555555");
        assert!(frames.contains("0x20") && !frames.contains("0x30"), "{frames}");
        assert_eq!(rest, 4);
    }
}
