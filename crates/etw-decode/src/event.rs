//! [`Event`]: a record with its schema.

use crate::decoded::Decoded;
use crate::field_path::FieldError;
use crate::fields::Fields;
use crate::from_field::FromField;
use crate::value::Style;
use crate::walk::PayloadError;
use etw_types::{Clock, EventRecord, FileTime};
use std::borrow::Cow;

/// A record and its schema.
///
/// ```
/// use etw_decode::Decoder;
/// use etw_types::{EventRecord, HeaderType, Hook};
///
/// let mut record = EventRecord::new(HeaderType::PerfInfo64, b"26100.1.amd64fre.ge_release\0");
/// record.hook = Some(Hook(0x0042));
/// let mut decoder = Decoder::new();
/// let event = decoder.decode_event(&record);
/// assert_eq!(event.name(), Some("EventTrace/BuildInfo"));
/// let build: String = event.get("BuildString")?;
/// assert!(build.starts_with("26100"));
/// # Ok::<(), etw_decode::FieldError>(())
/// ```
pub struct Event<'d> {
    record: EventRecord<'d>,
    decoded: Decoded<'d>,
    clock: Option<Clock>,
}

impl<'d> Event<'d> {
    /// Joins a record with its schema. `decoded` must come from the same record.
    pub fn new(record: EventRecord<'d>, decoded: Decoded<'d>) -> Event<'d> {
        Event { record, decoded, clock: None }
    }

    /// The same event, with the clock of its trace.
    pub fn with_clock(self, clock: Clock) -> Event<'d> {
        Event { clock: Some(clock), ..self }
    }

    /// Wall-clock time; `None` if the record has no time or the clock of its trace is unusable or unknown.
    pub fn timestamp(&self) -> Option<FileTime> {
        self.record.timestamp(self.clock.as_ref()?)
    }

    /// Header, extended items and payload.
    pub fn record(&self) -> &EventRecord<'d> {
        &self.record
    }

    /// The schema, or the reason why there is none.
    pub fn decoded(&self) -> &Decoded<'d> {
        &self.decoded
    }

    /// The provider's name.
    pub fn provider_name(&self) -> Option<Cow<'d, str>> {
        self.decoded.provider_name()
    }

    /// The event's name.
    pub fn name(&self) -> Option<&str> {
        self.decoded.event_name()
    }

    /// The formatted message, if the schema has one and the payload fits it.
    pub fn message(&self) -> Option<String> {
        let style = Style { clock: self.clock, ..Style::default() };
        self.decoded.message(&self.record, &style)
    }

    /// All fields as owned values; `None` if there is no schema.
    ///
    /// # Errors
    /// [`PayloadError`] if the payload does not fit the schema.
    pub fn fields(&self) -> Result<Option<Fields>, PayloadError> {
        self.decoded.fields(&self.record)
    }

    /// Decodes one field, without the fields behind it.
    ///
    /// `path` is the name of a field; `.` leads into a struct and `[n]` to an element of an array: `"Count"`,
    /// `"Customer.Id"`, `"Items[1].Sku"`. A second sibling of the same name is `Name#2`, as in JSON.
    ///
    /// # Errors
    /// [`FieldError`].
    pub fn get<T: FromField>(&self, path: &str) -> Result<T, FieldError> {
        self.decoded.get(&self.record, path)
    }
}
