//! The bodies of the fuzz targets for decoding; the stable tests of `etw-decode` replay them.

use etw_decode::{Decoder, Field, Style, Value, Visitor};
use etw_types::{EVENT_METADATA, EventRecord, ExtType, ExtendedItems, Guid, HeaderType, Opcode};

/// Writes every value, so that its text is made.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Visitor for Writer {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        self.0.clear();
        self.0.extend(field.json_key());
        value.write_json(&mut self.0, &Style::default());
        value.write_text(&mut self.0, &Style::default());
    }
    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

/// A byte that tells how the rest is cut in two.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (at, rest) = data.split_first_chunk::<2>()?;
    Some(rest.split_at(usize::from(u16::from_le_bytes(*at)).min(rest.len())))
}

fn decode(decoder: &mut Decoder, record: &EventRecord<'_>) {
    let decoded = decoder.decode(record);
    let _ = decoded.visit(record, &mut Writer::default());
    let _ = decoded.message(record, &Style::default());
    let _ = decoded.provider_name();
}

/// `u16` length, TraceLogging metadata, payload.
pub fn event_metadata(data: &[u8]) {
    let Some((blob, payload)) = split(data) else { return };
    let Ok(length) = u16::try_from(blob.len()) else { return };
    let Ok(total) = u16::try_from((blob.len() + 8).next_multiple_of(8)) else { return };
    let mut chain = total.to_le_bytes().to_vec();
    chain.extend(ExtType::EVENT_SCHEMA_TL.0.to_le_bytes());
    chain.extend([0, 0]);
    chain.extend(length.to_le_bytes());
    chain.extend(blob);
    chain.resize(usize::from(total), 0);
    let Ok((items, _)) = ExtendedItems::parse_chain(&chain) else { return };
    let mut record = EventRecord::new(HeaderType::Event64, payload);
    record.extended = items;
    decode(&mut Decoder::new(), &record);
}

/// `u16` length, TRACE_EVENT_INFO, payload of the event that it describes.
pub fn event_info(data: &[u8]) {
    let Some((info, payload)) = split(data) else { return };
    let mut decoder = Decoder::new();
    let mut schema = EventRecord::new(HeaderType::Full64, info);
    schema.provider = Some(EVENT_METADATA);
    for opcode in [33, 32] {
        schema.descriptor.opcode = Opcode(opcode);
        decode(&mut decoder, &schema);
    }
    let mut record = EventRecord::new(HeaderType::Event32, payload);
    record.provider = Guid::read(info, 0);
    if let Some(descriptor) = etw_types::EventDescriptor::read(info, 0x20) {
        record.descriptor = descriptor;
    }
    decode(&mut decoder, &record);
}
