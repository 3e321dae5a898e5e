//! [`Translator`]: a record of an event log as an event.
//!
//! The event has the record's provider, descriptor, ids and times. Its fields travel as TraceLogging metadata, so it needs no
//! manifest. The facts that an event has no field for are in an [`ExtType::EVENT_LOG`] item.

use etw_etl::write::encode;
use etw_evtx::fields::{DataField, FieldContent};
use etw_evtx::value::{Scalar, Value, ValueType};
use etw_evtx::{Error, Record};
use etw_tracelogging::{
    Count, InType, MetadataBuilder, OutType, PayloadBuilder, ProviderTraits, provider_traits,
};
use etw_types::{
    Channel, EventRecord, ExtType, ExtendedItemsBuf, HeaderType, Keyword, Level, LogItem, Opcode,
};

/// Bytes of XML that a record keeps whose fields do not fit an event.
const XML_LIMIT: usize = 16 << 10;

/// Makes events of records.
#[derive(Debug, Default)]
pub struct Translator {
    bytes: Vec<u8>,
    /// Time of the last record that had one.
    time: i64,
}

impl Translator {
    /// A translator.
    pub fn new() -> Translator {
        Translator::default()
    }

    /// The event in its stored form, and its time as a FILETIME. A record whose fields do not fit an event has one field,
    /// `EventXml`, with the start of its XML.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: the record expands beyond all bounds.
    pub fn stored(&mut self, record: &Record<'_>) -> Result<(&[u8], i64), Error> {
        let fields = record.fields()?;
        let time = self.time_of(record);
        self.bytes.clear();
        if !put_event(record, &fields, time, &mut self.bytes) {
            let mut xml = record.to_xml()?;
            let end = (0..=XML_LIMIT.min(xml.len())).rev().find(|end| xml.is_char_boundary(*end));
            xml.truncate(end.unwrap_or(0));
            let content = FieldContent::Text(xml);
            let field = DataField { name: "EventXml".to_owned(), content };
            if !put_event(record, &[field], time, &mut self.bytes) {
                return Err(Error::TooLarge);
            }
        }
        Ok((&self.bytes, time))
    }

    /// The header of the event in its stored form, with the number and the related activity of the record but without its fields, and
    /// its time. `with_provider_name`: with the name of its provider. `None`: only the whole event has a header.
    pub(crate) fn header(
        &mut self,
        record: &Record<'_>,
        with_provider_name: bool,
    ) -> Option<(&[u8], i64)> {
        let time = self.time_of(record);
        let system = record.system();
        let item = log_item(record);
        let related = system.related_activity().map(|id| id.0);
        let mut items = ExtendedItemsBuf::new();
        items.push(ExtType::EVENT_LOG, &item.to_bytes()).ok()?;
        if let Some(related) = related {
            items.push(ExtType::RELATED_ACTIVITYID, &related).ok()?;
        }
        if with_provider_name && let Some(traits) = traits_of(record) {
            items.push(ExtType::PROV_TRAITS, &traits).ok()?;
        }
        let mut event = event_of(record, time, &[]);
        event.extended = items.as_items();
        self.bytes.clear();
        encode(&event, &mut self.bytes).ok()?;
        Some((&self.bytes, time))
    }

    /// The time of a record; a damaged record that lost its time has that of the record before it.
    fn time_of(&mut self, record: &Record<'_>) -> i64 {
        let time = record.system().time().unwrap_or(record.time()).0;
        if time > 0 {
            self.time = time;
        }
        self.time
    }
}

/// The facts of a record that have no field in an event, but for its texts.
fn log_item<'t>(record: &Record<'_>) -> LogItem<'t> {
    let record_id = record.system().record_id().unwrap_or(record.id());
    LogItem { record_id, channel: "", computer: "", message: None }
}

/// The name of the record's provider, as the traits of an event.
fn traits_of(record: &Record<'_>) -> Option<Vec<u8>> {
    let name = record.system().provider_name()?.replace('\0', "");
    let traits = provider_traits(name, None).ok()?;
    ProviderTraits::parse(&traits).is_ok().then_some(traits)
}

/// The event of a record without extended items.
fn event_of<'p>(record: &Record<'_>, time: i64, payload: &'p [u8]) -> EventRecord<'p> {
    let system = record.system();
    let mut event = EventRecord::new(HeaderType::Event64, payload);
    event.order_time = time;
    event.provider = Some(system.provider().unwrap_or_default());
    event.process_id = system.process_id();
    event.thread_id = system.thread_id();
    event.descriptor.id = system.event_id().unwrap_or(0);
    event.descriptor.version = system.version().unwrap_or(0);
    event.descriptor.channel = Channel(0);
    event.descriptor.level = Level(system.level().unwrap_or(0));
    event.descriptor.opcode = Opcode(system.opcode().unwrap_or(0));
    event.descriptor.task = system.task().unwrap_or(0);
    event.descriptor.keyword = Keyword(system.keywords().unwrap_or(0));
    event.activity_id = system.activity().unwrap_or_default();
    event
}

/// Appends the event; `false` if it does not fit, and `out` is as it was.
fn put_event(record: &Record<'_>, fields: &[DataField<'_>], time: i64, out: &mut Vec<u8>) -> bool {
    let system = record.system();
    // An id says more than the name.
    let has_id = system.event_id().is_some_and(|id| id != 0);
    let name = if has_id { None } else { record.data_name() };
    let name = name.unwrap_or_default().replace('\0', "\u{fffd}");
    let mut builder =
        Builder { metadata: MetadataBuilder::new(name, 0), payload: PayloadBuilder::new() };
    for field in fields {
        builder = builder.field(field);
    }
    let (Ok(metadata), Ok(payload)) = (builder.metadata.finish(), builder.payload.finish()) else {
        return false;
    };
    let (channel, computer) = (system.channel(), system.computer());
    let message = record.rendered_message();
    let item = LogItem {
        channel: channel.as_deref().unwrap_or_default(),
        computer: computer.as_deref().unwrap_or_default(),
        message: message.as_deref(),
        ..log_item(record)
    };
    let mut items = ExtendedItemsBuf::new();
    let traits = traits_of(record);
    let related = system.related_activity().map(|id| id.0);
    let sid = system.user_sid();
    let parts: [(ExtType, Option<&[u8]>); 5] = [
        (ExtType::EVENT_LOG, Some(&item.to_bytes())),
        (ExtType::RELATED_ACTIVITYID, related.as_ref().map(|id| &id[..])),
        (ExtType::SID, sid.as_deref()),
        (ExtType::PROV_TRAITS, traits.as_deref()),
        (ExtType::EVENT_SCHEMA_TL, Some(&metadata)),
    ];
    for (ext_type, data) in parts {
        if let Some(data) = data
            && items.push(ext_type, data).is_err()
        {
            return false;
        }
    }
    let mut event = event_of(record, time, &payload);
    event.extended = items.as_items();
    encode(&event, out).is_ok()
}

struct Builder {
    metadata: MetadataBuilder,
    payload: PayloadBuilder,
}

impl Builder {
    fn field(self, field: &DataField<'_>) -> Builder {
        // A name ends at its first NUL.
        let name = field.name.replace('\0', "\u{fffd}");
        match &field.content {
            FieldContent::Fields(members) if members.is_empty() => {
                self.value(&name, InType::NULL, OutType::NULL, &[])
            }
            FieldContent::Fields(members) => {
                // More members than a struct can have: 0 is refused.
                let count = u8::try_from(members.len()).unwrap_or(0);
                let metadata = self.metadata.structure(&name, count, Count::Scalar, 0);
                members.iter().fold(Builder { metadata, ..self }, Builder::field)
            }
            FieldContent::Text(text) => {
                self.value(&name, InType::COUNTEDANSISTRING, OutType::UTF8, text.as_bytes())
            }
            FieldContent::Value(value) => self.typed(&name, *value),
            _ => self,
        }
    }

    fn value(self, name: &str, in_type: InType, out_type: OutType, bytes: &[u8]) -> Builder {
        Builder {
            metadata: self.metadata.field(name, in_type, out_type, Count::Scalar, 0),
            payload: self.payload.value(in_type, bytes),
        }
    }

    fn typed(self, name: &str, value: Value<'_>) -> Builder {
        let plain = OutType::NULL;
        if value.is_null() {
            return self.value(name, InType::NULL, plain, &[]);
        }
        let Some(scalar) = value.scalar() else {
            return self.value(name, InType::BINARY, plain, value.bytes);
        };
        match scalar {
            Scalar::Utf16(units) => self.value(name, InType::COUNTEDSTRING, plain, units),
            Scalar::Ansi(text) => match std::str::from_utf8(text) {
                Ok(_) => self.value(name, InType::COUNTEDANSISTRING, OutType::UTF8, text),
                Err(_) => self.value(name, InType::COUNTEDANSISTRING, plain, text),
            },
            Scalar::Binary(bytes) => self.value(name, InType::BINARY, plain, bytes),
            Scalar::Bool(value) => {
                self.value(name, InType::BOOL32, plain, &u32::from(value).to_le_bytes())
            }
            Scalar::Sid(bytes) if !is_sid(bytes) => self.value(name, InType::BINARY, plain, bytes),
            _ => {
                let in_type = in_type(value);
                let size = value.value_type.fixed_size().unwrap_or(value.bytes.len());
                let bytes = value.bytes.get(..size).unwrap_or(value.bytes);
                self.value(name, in_type, plain, bytes)
            }
        }
    }
}

/// The TraceLogging type of a value that has the same bytes there.
fn in_type(value: Value<'_>) -> InType {
    match value.value_type {
        ValueType::INT8 => InType::INT8,
        ValueType::UINT8 => InType::UINT8,
        ValueType::INT16 => InType::INT16,
        ValueType::UINT16 => InType::UINT16,
        ValueType::INT32 => InType::INT32,
        ValueType::UINT32 => InType::UINT32,
        ValueType::INT64 => InType::INT64,
        ValueType::UINT64 => InType::UINT64,
        ValueType::FLOAT => InType::FLOAT,
        ValueType::DOUBLE => InType::DOUBLE,
        ValueType::GUID => InType::GUID,
        ValueType::FILETIME => InType::FILETIME,
        ValueType::SYSTEMTIME => InType::SYSTEMTIME,
        ValueType::SID => InType::SID,
        ValueType::HEX32 => InType::HEXINT32,
        ValueType::HEX64 => InType::HEXINT64,
        _ if value.bytes.len() == 4 => InType::HEXINT32,
        _ if value.bytes.len() == 8 => InType::HEXINT64,
        _ => InType::BINARY,
    }
}

/// Whether the bytes are one SID.
fn is_sid(bytes: &[u8]) -> bool {
    bytes.len() >= 8 && bytes[1] <= 15 && bytes.len() == 8 + 4 * usize::from(bytes[1])
}
