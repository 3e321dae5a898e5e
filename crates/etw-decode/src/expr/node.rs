//! The tree of an expression, and its evaluation.

use super::comparison::{Literal, Operator, Subject, Test};
use super::{FieldTest, Owned};
use crate::decoded::Decoded;
use crate::field::{Field, Kind};
use crate::value::{Style, Value};
use crate::visitor::Visitor;
use etw_tracelogging::{ProviderTraits, Wire};
use etw_types::{EventRecord, ExtType, FileTime, Guid, HeaderType};
use std::borrow::Cow;
use std::sync::atomic::Ordering;

#[derive(Debug)]
pub(super) enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Number(NumberName, Test),
    Process(Test),
    Time(Test),
    Provider(Test),
    Guid(GuidName, Test),
    Header(Test),
    Text(TextName, Test),
    Field(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NumberName {
    Pid,
    Tid,
    /// The ids that the header stores, where `Pid` and `Tid` are those of the event's owner.
    HeaderPid,
    HeaderTid,
    Cpu,
    Id,
    Version,
    Level,
    Opcode,
    Channel,
    Task,
    Keyword,
    RawTimestamp,
    Size,
    /// The number of an event log's record.
    RecordId,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum GuidName {
    Activity,
    Related,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TextName {
    ProviderName,
    Event,
    Decoded,
    Message,
    /// Name of the channel of an event log's record.
    ChannelName,
}

/// The number of a header; `None` where the record has none.
#[inline(always)]
fn number(name: NumberName, owned: Owned<'_>) -> Option<i128> {
    let Owned { record, stored, .. } = owned;
    let descriptor = &record.descriptor;
    let is_event = record.header.is_event();
    let is_message = record.header == HeaderType::Message;
    Some(match name {
        NumberName::Pid => owned.process_id()?.into(),
        NumberName::Tid => owned.thread_id()?.into(),
        NumberName::HeaderPid => stored.process_id?.into(),
        NumberName::HeaderTid => stored.thread_id?.into(),
        NumberName::Cpu => record.known_cpu()?.into(),
        NumberName::Id => (is_event || is_message).then_some(descriptor.id)?.into(),
        NumberName::Version => (!is_message).then_some(descriptor.version)?.into(),
        NumberName::Level => {
            (is_event || record.header.is_classic()).then_some(descriptor.level.0)?.into()
        }
        NumberName::Opcode => (!is_message).then_some(descriptor.opcode.0)?.into(),
        NumberName::Channel => record.channel_number()?.into(),
        NumberName::Task => is_event.then_some(descriptor.task)?.into(),
        NumberName::Keyword => is_event.then_some(descriptor.keyword.0)?.into(),
        NumberName::RawTimestamp => record.raw_timestamp()?.into(),
        NumberName::Size => record.payload.len() as i128,
        NumberName::RecordId => record.log_item()?.record_id.into(),
    })
}

pub(super) struct Context<'c> {
    pub owned: Owned<'c>,
    pub decoded: &'c Decoded<'c>,
    pub time: Option<FileTime>,
    pub style: &'c Style,
    pub found: &'c [bool],
}

impl Node {
    /// Collects the names that providers are compared with.
    pub fn put_providers(&self, names: &mut Vec<String>) {
        let mut put = |literal: &Literal| {
            if let Literal::Text(name) = literal {
                names.push(name.clone());
            }
        };
        match self {
            Node::And(parts) | Node::Or(parts) => {
                parts.iter().for_each(|part| part.put_providers(names));
            }
            Node::Not(inner) => inner.put_providers(names),
            Node::Provider(Test::Compare(_, literal))
            | Node::Text(TextName::ProviderName, Test::Compare(_, literal)) => put(literal),
            Node::Provider(Test::In(members)) => members.iter().for_each(|(first, _)| put(first)),
            _ => {}
        }
    }

    pub fn any(&self, is: &impl Fn(&Node) -> bool) -> bool {
        is(self)
            || match self {
                Node::And(parts) | Node::Or(parts) => parts.iter().any(|part| part.any(is)),
                Node::Not(inner) => inner.any(is),
                _ => false,
            }
    }

    /// [`by_header`](Node::by_header) of the usual test, which compares a number of the header; `None` for all others. It needs no call
    /// for each part of an expression.
    #[inline(always)]
    fn by_number(&self, owned: Owned<'_>) -> Option<bool> {
        let Node::Number(name, Test::Compare(operator, Literal::Number(wanted))) = self else {
            return None;
        };
        let ordering = number(*name, owned).map(|number| number.cmp(wanted));
        Some(ordering.is_some() && operator.holds(ordering))
    }

    pub fn by_header(&self, owned: Owned<'_>, time: Option<FileTime>) -> Option<bool> {
        let record = owned.record;
        match self {
            Node::And(parts) => {
                let mut all = Some(true);
                for part in parts {
                    match part.by_number(owned).or_else(|| part.by_header(owned, time)) {
                        Some(false) => return Some(false),
                        None => all = None,
                        Some(true) => {}
                    }
                }
                all
            }
            Node::Or(parts) => {
                let mut any = Some(false);
                for part in parts {
                    match part.by_number(owned).or_else(|| part.by_header(owned, time)) {
                        Some(true) => return Some(true),
                        None => any = None,
                        Some(false) => {}
                    }
                }
                any
            }
            Node::Not(inner) => inner.by_header(owned, time).map(|known| !known),
            Node::Number(name, test) => self.by_number(owned).or_else(|| {
                Some(number(*name, owned).is_some_and(|number| test.holds(Subject::Number(number))))
            }),
            Node::Process(test) => Some(owned.process_id().is_some_and(|id| {
                test.holds(match owned.process_name {
                    Some(name) => Subject::Named(id.into(), name),
                    None => Subject::Number(id.into()),
                })
            })),
            Node::Time(test) => {
                Some(time.is_some_and(|time| test.holds(Subject::Number(time.0.into()))))
            }
            Node::Guid(name, test) => {
                let id = match name {
                    GuidName::Activity => Some(record.activity_id).filter(|id| !id.is_zero()),
                    GuidName::Related => record.related_activity_id(),
                };
                Some(id.is_some_and(|id| test.holds(Subject::Guid(id))))
            }
            Node::Header(test) => Some(test.holds(Subject::Text(record.header_name()))),
            Node::Provider(test) => match test {
                // A GUID needs no schema; a name does, unless the record has it.
                Test::Compare(_, Literal::Guid(_)) | Test::Is => {
                    Some(provider(record).is_some_and(|guid| test.holds(Subject::Guid(guid))))
                }
                _ => own_provider_name(record)
                    .map(|name| is_provider(test, provider(record), Some(&name))),
            },
            Node::Text(TextName::ProviderName, test) => {
                own_provider_name(record).map(|name| test.holds(Subject::Text(&name)))
            }
            Node::Text(..) | Node::Field(_) => None,
        }
    }

    pub fn holds(&self, context: &Context<'_>) -> bool {
        match self {
            Node::And(parts) => parts.iter().all(|part| part.holds(context)),
            Node::Or(parts) => parts.iter().any(|part| part.holds(context)),
            Node::Not(inner) => !inner.holds(context),
            Node::Field(number) => context.found[*number],
            Node::Provider(test) => {
                let name = context.decoded.provider_name();
                is_provider(test, provider(context.owned.record), name.as_deref())
            }
            Node::Text(name, test) => {
                let text = match name {
                    TextName::ProviderName => context.decoded.provider_name(),
                    TextName::Event => context.decoded.event_name().map(Into::into),
                    TextName::Decoded => {
                        context.decoded.source().map(|source| source.name().into())
                    }
                    TextName::ChannelName => {
                        context.owned.record.log_item().map(|item| item.channel.into())
                    }
                    TextName::Message => {
                        let record = context.owned.record;
                        let message =
                            context.decoded.message_at(record, || context.time, context.style);
                        message.map(Into::into)
                    }
                };
                text.is_some_and(|text| test.holds(Subject::Text(&text)))
            }
            known => known.by_header(context.owned, context.time).unwrap_or(false),
        }
    }
}

/// The provider as shown: of kernel records their class.
fn provider(record: &EventRecord<'_>) -> Option<Guid> {
    record.provider.or_else(|| record.hook?.class_guid())
}

/// The name of the provider that the record itself has. It is the name of the decoded record, too.
fn own_provider_name<'r>(record: &EventRecord<'r>) -> Option<Cow<'r, str>> {
    if !record.header.is_event() || record.extended.is_empty() {
        return None;
    }
    let traits = ProviderTraits::parse(record.extended.find(ExtType::PROV_TRAITS)?).ok()?;
    Some(traits.name()).filter(|name| !name.is_empty()).map(String::from_utf8_lossy)
}

/// Whether a test of a provider holds for one of this GUID and name.
fn is_provider(test: &Test, guid: Option<Guid>, name: Option<&str>) -> bool {
    let by_guid = guid.map(|guid| test.holds(Subject::Guid(guid)));
    let by_name = name.map(|name| test.holds(Subject::Text(name)));
    match test {
        // A name is other if every name of it is.
        Test::Compare(Operator::NotEqual, _) => by_guid.unwrap_or(true) && by_name.unwrap_or(true),
        _ => by_guid == Some(true) || by_name == Some(true),
    }
}

/// The integer of a field.
fn number_of<'s>(field: &Field, integer: i128) -> Subject<'s> {
    let Kind::Scalar { wire, .. } = field.kind else { return Subject::Number(integer) };
    let signed = match wire {
        Wire::U8 => (integer as i8).into(),
        Wire::U16 => (integer as i16).into(),
        Wire::U32 => (integer as i32).into(),
        Wire::U64 => (integer as i64).into(),
        _ => return Subject::Number(integer),
    };
    Subject::Unsigned(integer, signed)
}

/// Looks for the fields that are asked about.
pub(super) struct Finder<'f> {
    pub fields: &'f [FieldTest],
    pub found: &'f mut [bool],
    /// Names of the structs that are open, in lower case.
    pub path: Vec<String>,
    pub style: &'f Style,
}

impl Finder<'_> {
    fn asks(&self, number: usize, field: &Field) -> bool {
        let FieldTest { path, is_numbered, .. } = &self.fields[number];
        let Some((last, above)) = path.split_last() else { return false };
        let is_named = field.name.eq_ignore_ascii_case(last)
            || *is_numbered && field.unique_name().eq_ignore_ascii_case(last);
        is_named && self.path.ends_with(above)
    }
}

impl Visitor for Finder<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        for number in 0..self.fields.len() {
            if self.found[number] || !self.asks(number, field) {
                continue;
            }
            let FieldTest { test, was_found, .. } = &self.fields[number];
            if !was_found.load(Ordering::Relaxed) {
                was_found.store(true, Ordering::Relaxed);
            }
            let holds = match value {
                Value::F32(value) => test.holds(Subject::Single(value)),
                Value::F64(value) => test.holds(Subject::Float(value)),
                Value::Guid(guid) => test.holds(Subject::Guid(guid)),
                Value::Mapped { value, map } => match map.name_of(value) {
                    Some(name) => test.holds(Subject::Named(value.into(), &name)),
                    None => test.holds(Subject::Number(value.into())),
                },
                value => match value.as_integer() {
                    Some(integer) => test.holds(number_of(field, integer)),
                    None => {
                        let mut text = Vec::new();
                        value.write_text(&mut text, self.style);
                        test.holds(Subject::Text(&String::from_utf8_lossy(&text)))
                    }
                },
            };
            self.found[number] = holds;
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}

    fn begin_struct(&mut self, field: &Field) {
        self.path.push(field.name.to_ascii_lowercase());
    }

    fn end_struct(&mut self, _: &Field) {
        self.path.pop();
    }
}
