//! [`Decoded`]: a record's schema, or the reason why it has none.

use crate::field_texts::FieldTexts;
use crate::lznt1;
use crate::measure::measure;
use crate::message::Message;
use crate::reason::{Reason, Source};
use crate::schema::{Names, Schema};
use crate::text::Text;
use crate::value::{Style, Value};
use crate::visitor::Visitor;
use crate::walk::{PayloadError, walk, walk_part};
use crate::wpp::PrefixFacts;
use etw_tracelogging::ProviderTraits;
use etw_types::{EventRecord, FileTime, Guid, le};
use std::borrow::Cow;
use std::num::NonZeroU64;

/// Bytes of a compressed text; Windows writes less than 64 KiB.
const COMPRESSED_LIMIT: usize = 1 << 20;

/// The result of [`Decoded::visit_part`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visited<'p> {
    /// The payload's bytes behind the last field that was visited.
    pub rest: &'p [u8],
    /// Why fields are missing.
    pub reason: Option<Reason>,
    /// Bytes of the payload that the visited fields take.
    pub used: usize,
}

impl Visited<'_> {
    /// Why the record is shown undecoded: not even its first field could be read.
    pub fn failure(&self) -> Option<&Reason> {
        self.reason.as_ref().filter(|_| self.used == 0)
    }
}

/// How well a schema fits a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Bytes follow the last field.
    pub has_rest: bool,
    /// Fields are missing: the payload ends early, or the schema is not complete.
    pub is_cut: bool,
}

impl Fit {
    /// Whether the fields take the whole payload.
    pub fn is_exact(self) -> bool {
        !self.has_rest && !self.is_cut
    }
}

/// A record's schema, or the reason why it has none.
pub struct Decoded<'d> {
    /// The number of the answer; 0: it has none.
    pub(crate) answer: u64,
    pub(crate) schema: Option<&'d Schema>,
    /// The schema that another source has for a record that brought its own fields: names and message.
    pub(crate) described: Option<&'d Schema>,
    pub(crate) source: Option<Source>,
    pub(crate) reason: Option<Reason>,
    /// The text of `reason`, if it is kept with the event's schemas.
    pub(crate) reason_text: Option<&'d str>,
    pub(crate) traits: Option<ProviderTraits<'d>>,
    pub(crate) event_name: Option<Cow<'d, str>>,
    /// The name if no schema of the event has one.
    pub(crate) provider_name: Option<&'d str>,
    /// Differs from the record's own.
    pub(crate) pointer_size: Option<u8>,
    pub(crate) event_info: Option<&'d [u8]>,
    pub(crate) passed_over: usize,
}

impl<'d> Decoded<'d> {
    pub(crate) fn with(schema: &'d Schema, source: Source) -> Decoded<'d> {
        Decoded {
            answer: 0,
            schema: Some(schema),
            described: None,
            source: Some(source),
            reason: None,
            reason_text: None,
            traits: None,
            event_name: None,
            provider_name: None,
            pointer_size: None,
            event_info: None,
            passed_over: 0,
        }
    }

    pub(crate) fn undecoded(reason: Reason) -> Decoded<'d> {
        Decoded {
            answer: 0,
            schema: None,
            described: None,
            source: None,
            reason: Some(reason),
            reason_text: None,
            traits: None,
            event_name: None,
            provider_name: None,
            pointer_size: None,
            event_info: None,
            passed_over: 0,
        }
    }

    /// A number of the answer, if it is kept for other records. Two answers of one decoder with the same number have the same schema and source,
    /// or reason and text of it, the same event's name, and the same provider's name where no traits have it.
    #[inline]
    pub fn answer(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.answer)
    }

    /// The schema.
    pub fn schema(&self) -> Option<&'d Schema> {
        self.schema
    }

    /// The source of the schema.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// The TRACE_EVENT_INFO of the trace that the schema comes from.
    pub fn event_info(&self) -> Option<&'d [u8]> {
        self.event_info
    }

    /// How many schemas of higher precedence describe the event but do not fit its payload.
    pub fn passed_over(&self) -> usize {
        self.passed_over
    }

    /// The width of the record's pointers: its header's, unless its payload has the other.
    pub fn pointer_size(&self, record: &EventRecord<'_>) -> u8 {
        self.pointer_size.unwrap_or(record.pointer_size)
    }

    /// Why there is no schema.
    pub fn reason(&self) -> Option<&Reason> {
        self.reason.as_ref()
    }

    /// The text of [`reason`](Decoded::reason). It is built once for all events of one id, so it is cheaper than to format
    /// the reason of each.
    pub fn reason_text(&self) -> Option<Cow<'d, str>> {
        match self.reason_text {
            Some(text) => Some(Cow::Borrowed(text)),
            None => self.reason.as_ref().map(Reason::text),
        }
    }

    /// The provider's name: from the event's traits, else from the schema.
    #[inline]
    pub fn provider_name(&self) -> Option<Cow<'d, str>> {
        if let Some(traits) = &self.traits {
            let name = traits.name();
            if !name.is_empty() {
                return Some(String::from_utf8_lossy(name));
            }
        }
        let name = self.schema.and_then(|schema| schema.names.provider.as_deref());
        name.or(self.provider_name).map(Cow::Borrowed)
    }

    /// The event's provider traits.
    #[inline]
    pub fn provider_traits(&self) -> Option<&ProviderTraits<'d>> {
        self.traits.as_ref()
    }

    /// The provider group in the event's traits.
    pub fn provider_group(&self) -> Option<Guid> {
        self.traits.as_ref()?.group()
    }

    /// The event's name.
    pub fn event_name(&self) -> Option<&str> {
        match &self.event_name {
            Some(name) => Some(name),
            None if self.source == Some(Source::EventLog) => {
                let described = self.described.and_then(|schema| schema.names.event.as_deref());
                let own = || self.schema?.names.event.as_deref().filter(|name| !name.is_empty());
                described.or_else(own)
            }
            None => self.schema?.names.event.as_deref(),
        }
    }

    /// Visits the fields; returns false if there is no schema.
    ///
    /// # Errors
    /// [`PayloadError`] if the payload does not fit the schema. `visitor` has received the fields before the error.
    pub fn visit(
        &self,
        record: &EventRecord<'_>,
        visitor: &mut impl Visitor,
    ) -> Result<bool, PayloadError> {
        let Some(schema) = self.schema else { return Ok(false) };
        let used = walk(schema, record.payload, self.pointer_size(record), visitor)?;
        if schema.ends_compressed {
            visit_compressed(schema, record.payload, used, visitor);
        }
        Ok(true)
    }

    /// Visits the fields as far as the payload goes; `None` if there is no schema. No byte is lost: what the fields leave is the
    /// rest.
    pub fn visit_part<'p>(
        &self,
        record: &EventRecord<'p>,
        visitor: &mut impl Visitor,
    ) -> Option<Visited<'p>> {
        let schema = self.schema?;
        let mut walked = walk_part(schema, record.payload, self.pointer_size(record), visitor);
        if schema.ends_compressed && walked.error.is_none() {
            walked.used = visit_compressed(schema, record.payload, walked.used, visitor);
        }
        let incomplete = || schema.incomplete.clone().map(Reason::Incomplete);
        let missing = walked.missing.and_then(|index| schema.fields.get(index)).map(|field| {
            PayloadError::Missing { field: field.name.clone(), offset: record.payload.len() }
        });
        Some(Visited {
            rest: record.payload.get(walked.used..).unwrap_or_default(),
            reason: walked.error.or(missing).map(Reason::Payload).or_else(incomplete),
            used: walked.used,
        })
    }

    /// How well the schema fits the record's payload; `None` if there is no schema. Cheaper than a visit.
    pub fn fit(&self, record: &EventRecord<'_>) -> Option<Fit> {
        let schema = self.schema?;
        if schema.ends_compressed {
            let visited = self.visit_part(record, &mut ())?;
            return Some(Fit {
                has_rest: !visited.rest.is_empty(),
                is_cut: visited.reason.is_some(),
            });
        }
        let measured = measure(schema, record.payload, self.pointer_size(record));
        Some(Fit {
            has_rest: measured.used < record.payload.len(),
            is_cut: measured.is_cut || schema.incomplete.is_some(),
        })
    }

    /// The top-level fields and their texts; arrays and structs in brackets.
    ///
    /// # Errors
    /// As [`visit`](Decoded::visit).
    pub fn fields_text(
        &self,
        record: &EventRecord<'_>,
        style: &Style,
    ) -> Result<Vec<(String, String)>, PayloadError> {
        let mut texts = FieldTexts::new(style);
        self.visit(record, &mut texts)?;
        let names = self.schema.map_or(&[][..], |schema| &schema.fields[..schema.top_level]);
        let pairs = names.iter().enumerate().map(|(number, field)| {
            (field.name.clone(), texts.get(number).unwrap_or_default().into_owned())
        });
        Ok(pairs.collect())
    }

    /// The language of the event's message and names, as in `en-US`: `und` if their source does not say. `None`: they are not translated.
    pub fn language(&self) -> Option<&'d str> {
        self.described.or(self.schema)?.language.as_deref()
    }

    /// Names of the event's level, task, keywords and channel.
    pub fn names(&self) -> Option<&'d Names> {
        self.described.or(self.schema).map(|schema| &schema.names)
    }

    /// The text of the message, if it is made of the record's fields alone and is no WPP message.
    pub(crate) fn template(&self, record: &EventRecord<'_>) -> Option<&'d Message> {
        let schema = self.schema?;
        if self.source != Some(Source::EventLog) {
            return schema.message.as_ref().filter(|_| schema.wpp.is_none());
        }
        let described = self.described?;
        let is_own = record.log_item().is_some_and(|item| item.message.is_some());
        described.message.as_ref().filter(|_| described.wpp.is_none() && !is_own)
    }

    /// The message with its inserts, if the schema has one and the payload fits it. The record of an event log may bring its
    /// own.
    pub fn message(&self, record: &EventRecord<'_>, style: &Style) -> Option<String> {
        let time = || record.timestamp(style.clock.as_ref()?);
        self.message_at(record, time, style)
    }

    /// [`message`](Decoded::message) of a record whose wall-clock time the caller knows.
    pub(crate) fn message_at(
        &self,
        record: &EventRecord<'_>,
        time: impl FnOnce() -> Option<FileTime>,
        style: &Style,
    ) -> Option<String> {
        let mut schema = self.schema?;
        if self.source == Some(Source::EventLog) {
            if let Some(message) = record.log_item().and_then(|item| item.message) {
                return Some(message.to_owned());
            }
            schema = self.described?;
        }
        if let Some(format) = &schema.wpp {
            let facts = PrefixFacts::of(record, time());
            let mut text = format.writer(style, self.pointer_size(record), facts);
            self.visit(record, &mut text).ok()?;
            return Some(text.finish());
        }
        let message = schema.message.as_ref()?;
        let mut texts = FieldTexts::inserts(style, message.inserts());
        if message.has_inserts() {
            self.visit(record, &mut texts).ok()?;
        }
        Some(message.format_sized(texts.len(), |number| texts.get(number)))
    }
}

/// Visits the compressed text behind the walked fields; returns how many bytes are used, which are all if it is sound.
#[cold]
fn visit_compressed(
    schema: &Schema,
    payload: &[u8],
    used: usize,
    visitor: &mut impl Visitor,
) -> usize {
    let size = used.checked_sub(4).and_then(|at| le::u32(payload, at)).unwrap_or(0) as usize;
    let stream = payload.get(used..).unwrap_or_default();
    let (Some(field), true) = (schema.fields.get(schema.top_level), size <= COMPRESSED_LIMIT)
    else {
        return used;
    };
    let Some(text) = lznt1::decompress(stream, size) else { return used };
    let end = text.chunks_exact(2).position(|unit| unit == [0, 0]).map_or(size & !1, |end| 2 * end);
    visitor.value(field, Value::Text(Text::Utf16(&text[..end])));
    payload.len()
}
