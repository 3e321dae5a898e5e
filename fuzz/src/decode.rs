//! The bodies of the fuzz targets for decoding; the stable tests of `etw-decode` replay them.

use etw_decode::{Decoder, Field, Style, Value, Visitor};
use etw_types::{EVENT_METADATA, EventRecord, ExtType, ExtendedItems, Guid, HeaderType, Opcode};

/// Makes the text of every value, and counts what all of it comes to.
#[derive(Default)]
struct Writer {
    text: Vec<u8>,
    size: usize,
    open: Vec<&'static str>,
}

impl Writer {
    fn open(&mut self, field: &Field, what: &'static str) {
        self.open.push(what);
        self.size += field.name.len() + 2;
        assert!(self.open.len() <= 128, "nested too deeply");
    }
}

impl Visitor for Writer {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        self.text.clear();
        self.text.extend(field.json_key());
        value.write_json(&mut self.text, &Style::default());
        value.write_text(&mut self.text, &Style::default());
        self.size += self.text.len();
    }
    fn begin_array(&mut self, field: &Field, _: usize) {
        self.open(field, "array");
    }
    fn end_array(&mut self, _: &Field) {
        assert_eq!(self.open.pop(), Some("array"));
    }
    fn begin_struct(&mut self, field: &Field) {
        self.open(field, "struct");
    }
    fn end_struct(&mut self, _: &Field) {
        assert_eq!(self.open.pop(), Some("struct"));
    }
}

/// Two bytes that tell how the rest is cut in two.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (at, rest) = data.split_first_chunk::<2>()?;
    Some(rest.split_at(usize::from(u16::from_le_bytes(*at)).min(rest.len())))
}

fn decode(decoder: &mut Decoder, record: &EventRecord<'_>) {
    let decoded = decoder.decode(record);
    let mut writer = Writer::default();
    let whole = decoded.visit(record, &mut writer).is_ok();
    assert!(!whole || writer.open.is_empty());
    assert!(writer.size < 128 << 20, "{} bytes for one event", writer.size);
    let message = decoded.message(record, &Style::default()).unwrap_or_default();
    assert!(message.len() < 4 << 20, "{} bytes for one message", message.len());
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

/// `u16` length, TRACE_EVENT_INFO, `u16` length, a map of it, payload of the event that it describes.
pub fn event_info(data: &[u8]) {
    let Some((info, rest)) = split(data) else { return };
    let Some((map, payload)) = split(rest) else { return };
    let mut decoder = Decoder::new();
    for (opcode, payload) in [(33, map), (32, info)] {
        let mut schema = EventRecord::new(HeaderType::Full64, payload);
        schema.provider = Some(EVENT_METADATA);
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
