//! Events as JSON and other helpers of the tests.

use etw_decode::{Decoded, Decoder, Field, PayloadError, Style, Value, Visitor};
use etw_types::{EventRecord, ExtType, ExtendedItemsBuf, Guid, HeaderType};

pub const PROVIDER: Guid = Guid::from_u128(0xaaaaaaaa_bbbb_cccc_dddd_eeeeeeeeeeee);

/// Fields as JSON, the way the command nests them.
#[derive(Default)]
pub struct Json {
    pub text: Vec<u8>,
    arrays: Vec<bool>,
    pub style: Style,
}

impl Json {
    fn key(&mut self, field: &Field) {
        if !matches!(self.text.last(), None | Some(b'{' | b'[')) {
            self.text.push(b',');
        }
        if self.arrays.last() != Some(&true) {
            self.text.extend(field.json_key());
        }
    }

    /// The object of all fields.
    pub fn finish(self) -> String {
        format!("{{{}}}", String::from_utf8(self.text).unwrap())
    }

    fn open(&mut self, field: &Field, array: bool) {
        self.key(field);
        self.text.push(if array { b'[' } else { b'{' });
        self.arrays.push(array);
    }
}

impl Visitor for Json {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if !field.is_custom_length {
            self.key(field);
            value.write_json(&mut self.text, &self.style);
        }
    }
    fn begin_array(&mut self, field: &Field, _count: usize) {
        self.open(field, true);
    }
    fn end_array(&mut self, _field: &Field) {
        self.text.push(b']');
        self.arrays.pop();
    }
    fn begin_struct(&mut self, field: &Field) {
        self.open(field, false);
    }
    fn end_struct(&mut self, _field: &Field) {
        self.text.push(b'}');
        self.arrays.pop();
    }
}

pub fn json_of(decoded: &Decoded<'_>, record: &EventRecord<'_>) -> Result<String, PayloadError> {
    let mut json = Json::default();
    decoded.visit(record, &mut json)?;
    Ok(json.finish())
}

/// Gives a record with this metadata, its decoder's answer and the record itself.
pub fn with_tracelogging<R>(
    blob: &[u8],
    payload: &[u8],
    then: impl FnOnce(&Decoded<'_>, &EventRecord<'_>) -> R,
) -> R {
    let items = ExtendedItemsBuf::from_items(&[(ExtType::EVENT_SCHEMA_TL, blob)]).unwrap();
    let mut record = EventRecord::new(HeaderType::Event64, payload);
    record.provider = Some(PROVIDER);
    record.descriptor.channel.0 = 11;
    record.extended = items.as_items();
    let mut decoder = Decoder::new();
    let decoded = decoder.decode(&record);
    then(&decoded, &record)
}

/// The text of field `f`, the only one, in a style.
pub fn tracelogging_text(blob: &[u8], payload: &[u8], style: &Style) -> String {
    with_tracelogging(blob, payload, |decoded, record| {
        let mut fields = decoded.fields_text(record, style).unwrap();
        assert_eq!(fields.len(), 1);
        fields.remove(0).1
    })
}

pub fn tracelogging_json(blob: &[u8], payload: &[u8]) -> Result<String, PayloadError> {
    with_tracelogging(blob, payload, json_of)
}

/// Numbers that look random and come again with the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}
