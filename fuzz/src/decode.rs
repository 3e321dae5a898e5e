//! The bodies of the fuzz targets for decoding; the stable tests of `etw-decode` replay them.

use etw_decode::manifest::ManifestProvider;
use etw_decode::wevt::Messages;
use etw_decode::{Catalog, Decoder, Field, Style, Value, Visitor};
use etw_types::{EVENT_METADATA, EventRecord, ExtType, ExtendedItemsBuf, Guid, HeaderType, Opcode};

/// Formats every value and counts the bytes of all.
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

/// Splits the input: a `u16` length, that many bytes, the rest.
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
    let Ok(items) = ExtendedItemsBuf::from_items(&[(ExtType::EVENT_SCHEMA_TL, blob)]) else {
        return;
    };
    let mut record = EventRecord::new(HeaderType::Event64, payload);
    record.extended = items.as_items();
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

fn with(catalog: Catalog) -> Decoder {
    let mut decoder = Decoder::new();
    decoder.set_catalog(std::sync::Arc::new(catalog));
    decoder
}

/// Decodes the payload as the first events of the providers.
fn events(providers: Vec<ManifestProvider>, payload: &[u8]) {
    let mut catalog = Catalog::default();
    let mut keys = Vec::new();
    for provider in providers {
        let mut ids: Vec<_> = provider.events.keys().copied().collect();
        ids.sort_unstable();
        keys.extend(ids.into_iter().take(8).map(|(id, version)| (provider.guid, id, version)));
        catalog.add_provider(provider);
    }
    let mut decoder = with(catalog);
    for (guid, id, version) in keys.into_iter().take(16) {
        let mut record = EventRecord::new(HeaderType::Event64, payload);
        record.provider = Some(guid);
        (record.descriptor.id, record.descriptor.version) = (id, version);
        decode(&mut decoder, &record);
    }
}

/// `u16` length, a manifest in XML, payload.
pub fn manifest(data: &[u8]) {
    let Some((text, payload)) = split(data) else { return };
    if let Ok(manifest) = etw_decode::manifest::parse(text) {
        events(manifest.providers, payload);
    }
}

/// `u16` length, WEPExplorer's XML, payload.
pub fn wep(data: &[u8]) {
    manifest(data);
}

/// `u16` length, WEVT_TEMPLATE, `u16` length, a message table, payload.
pub fn wevt(data: &[u8]) {
    let Some((blob, rest)) = split(data) else { return };
    let Some((table, payload)) = split(rest) else { return };
    let mut messages = Messages::default();
    messages.add_table(table);
    if let Ok(manifest) = etw_decode::wevt::parse(blob, &messages) {
        events(manifest.providers, payload);
    }
}

/// A program with TraceLogging metadata.
pub fn program_metadata(data: &[u8]) {
    let found = etw_decode::tracelogging::program::ProgramMetadata::find(data);
    for event in found.events.iter().take(64) {
        let _ = event.schema();
    }
    assert!(found.warnings.len() <= 20);
}

/// A PE file.
pub fn pe(data: &[u8]) {
    if let Ok(manifest) = etw_decode::wevt::parse_pe(data, &Messages::default()) {
        events(manifest.providers, &data[..data.len().min(100)]);
    }
}

/// `u16` length, MOF, payload.
pub fn mof(data: &[u8]) {
    let Some((text, payload)) = split(data) else { return };
    let classes = etw_decode::mof::parse(text).value;
    let mut catalog = Catalog::default();
    catalog.add_mof(text);
    let mut decoder = with(catalog);
    for class in classes.into_iter().take(16) {
        let mut record = EventRecord::new(HeaderType::Full32, payload);
        record.provider = Some(class.class);
        record.descriptor.opcode = Opcode(class.kind);
        record.descriptor.version = class.version.unwrap_or(0);
        decode(&mut decoder, &record);
    }
}

/// `u16` length, TMF, payload.
pub fn tmf(data: &[u8]) {
    let Some((text, payload)) = split(data) else { return };
    let messages = etw_decode::wpp::parse_tmf(&String::from_utf8_lossy(text)).value;
    let mut catalog = Catalog::default();
    catalog.add_tmf(text);
    let mut decoder = with(catalog);
    for message in messages.into_iter().take(16) {
        let mut record = EventRecord::new(HeaderType::Message, payload);
        record.provider = Some(message.guid);
        record.descriptor.id = message.number;
        decode(&mut decoder, &record);
    }
}

/// A schema pack.
pub fn pack(data: &[u8]) {
    let Ok(pack) = etw_decode::pack::Pack::open(data.into()) else { return };
    let guids: Vec<Guid> =
        pack.sources().flat_map(|source| source.guids.to_vec()).take(16).collect();
    let mut catalog = Catalog::default();
    catalog.add_pack(std::sync::Arc::new(pack));
    catalog.providers_named("Maker");
    let mut decoder = with(catalog);
    for guid in guids {
        let mut record = EventRecord::new(HeaderType::Event64, b"payload\0");
        record.provider = Some(guid);
        record.descriptor.id = 7;
        decode(&mut decoder, &record);
    }
}

/// An expression, and an event that it is applied to.
pub fn expr(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let time =
        |text: &str| text.len().try_into().map(etw_types::FileTime).map_err(|_| String::new());
    let Ok(expr) = etw_decode::expr::Expr::parse(&text, time) else { return };
    let record = EventRecord::new(HeaderType::Event64, b"h\0i\0\0\0");
    let mut decoder = Decoder::new();
    expr.matches(&record, &decoder.decode(&record), None, &Style::default());
}

/// `u16` length, a part of an EventSource's manifest, one more, the payload of an event.
pub fn event_source(data: &[u8]) {
    let Some((first, rest)) = split(data) else { return };
    let Some((second, payload)) = split(rest) else { return };
    let mut decoder = Decoder::new();
    for (id, opcode, payload) in [(0xfffe, 0xfe, first), (0xfffe, 0xfe, second), (7, 0, payload)] {
        let mut record = EventRecord::new(HeaderType::Event64, payload);
        record.provider = Some(Guid::from_u128(1));
        record.descriptor.id = id;
        record.descriptor.opcode = Opcode(opcode);
        decode(&mut decoder, &record);
    }
}

/// Decompresses an LZNT1 stream; its first two bytes are the size that it says.
pub fn lznt1(data: &[u8]) {
    let Some((size, stream)) = data.split_first_chunk::<2>() else { return };
    let size = usize::from(u16::from_le_bytes(*size));
    if let Some(output) = etw_decode::lznt1::decompress(stream, size) {
        assert_eq!(output.len(), size);
    }
}
