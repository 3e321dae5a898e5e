//! The fields of an event's `System` element.

use std::borrow::Cow;
use std::fmt::Write;

use etw_types::{FileTime, Guid};

use crate::query::parse_time;
use crate::system_plan::{FIELDS, Field, Plan, Source};
use crate::tree::{Argument, Content, Element, Fragment, Node, Template, entity};
use crate::value::{Scalar, Value, sid_of};

/// Element, attribute (empty: its content), field.
const NAMES: [(&str, &str, Field); FIELDS] = [
    ("Provider", "Name", Field::ProviderName),
    ("Provider", "Guid", Field::ProviderGuid),
    ("Provider", "EventSourceName", Field::EventSourceName),
    ("EventID", "", Field::EventId),
    ("EventID", "Qualifiers", Field::Qualifiers),
    ("Version", "", Field::Version),
    ("Level", "", Field::Level),
    ("Task", "", Field::Task),
    ("Opcode", "", Field::Opcode),
    ("Keywords", "", Field::Keywords),
    ("TimeCreated", "SystemTime", Field::TimeCreated),
    ("EventRecordID", "", Field::RecordId),
    ("Correlation", "ActivityID", Field::ActivityId),
    ("Correlation", "RelatedActivityID", Field::RelatedActivityId),
    ("Execution", "ProcessID", Field::ProcessId),
    ("Execution", "ThreadID", Field::ThreadId),
    ("Channel", "", Field::Channel),
    ("Computer", "", Field::Computer),
    ("Security", "UserID", Field::UserId),
];

/// The field of an element of `System`, or of an attribute of it.
pub(crate) fn field_of(element: &str, attribute: &str) -> Option<Field> {
    let mut names = NAMES.iter();
    names.find(|(name, of, _)| *name == element && *of == attribute).map(|(_, _, field)| *field)
}

impl Template {
    /// The sources of the fields of `System`.
    pub(crate) fn plan(&self) -> &Plan {
        self.facts.system.get_or_init(|| Plan::of(&self.nodes))
    }
}

impl Plan {
    fn of(nodes: &[Node]) -> Plan {
        let mut plan = Plan::default();
        let event = nodes.iter().find_map(element);
        let Some(system) = system_of(nodes) else { return plan };
        let is_one = |parent: &[Node], name: &str| {
            parent.iter().filter_map(element).filter(|one| &*one.name == name).count() == 1
        };
        plan.is_plain = nodes.iter().filter_map(element).count() == 1
            && event.is_some_and(|event| is_one(&event.children, "System"))
            && system.children.iter().all(|node| match node {
                Node::Element(element) => is_one(&system.children, &element.name),
                _ => false,
            });
        for (name, attribute, field) in NAMES {
            let value = value_of(system, name, attribute);
            plan.sources[field as usize] = value.and_then(source_of);
        }
        plan
    }
}

/// The content of an element of `System`, or of an attribute of it.
fn value_of<'e>(system: &'e Element, name: &str, attribute: &str) -> Option<&'e [Node]> {
    let element = child(system, name)?;
    if attribute.is_empty() {
        return Some(&element.children);
    }
    let attribute = element.attributes.iter().find(|one| &*one.name == attribute)?;
    Some(&attribute.value)
}

/// The source of a field with this content: constant text, or a value of the record.
fn source_of(nodes: &[Node]) -> Option<Source> {
    match nodes {
        [] => None,
        [Node::Substitution(one)] => Some(Source::Argument(one.index)),
        _ => {
            let mut text = String::new();
            for node in nodes {
                match node {
                    Node::Text(part) | Node::CData(part) => text.push_str(part),
                    Node::CharacterReference(code) => {
                        text.extend(char::from_u32(u32::from(*code)));
                    }
                    Node::EntityReference(name) => text.extend(entity(name)),
                    _ => return None,
                }
            }
            Some(Source::Constant(text))
        }
    }
}

fn system_of(nodes: &[Node]) -> Option<&Element> {
    child(nodes.iter().find_map(element)?, "System")
}

fn element(node: &Node) -> Option<&Element> {
    match node {
        Node::Element(element) => Some(element),
        _ => None,
    }
}

fn child<'e>(parent: &'e Element, name: &str) -> Option<&'e Element> {
    parent.children.iter().filter_map(element).find(|element| &*element.name == name)
}

/// The fields of an event's `System` element, read when asked for. A field is `None` where the event does not have it
/// or it has no such form.
#[derive(Clone, Copy, Debug)]
pub struct System<'f> {
    content: Content<'f, 'f>,
    form: Form<'f>,
}

/// The form of an event.
#[derive(Clone, Copy, Debug)]
enum Form<'f> {
    /// A template with values.
    Planned(&'f Plan),
    /// Elements without a template: the `System` among them.
    Inline(Option<&'f Element>),
}

/// A field: text of the template or of the event, or a value of the record.
enum Found<'f> {
    Text(Cow<'f, str>),
    Value(Value<'f>),
}

impl<'f> System<'f> {
    pub(crate) fn of<'a: 'f>(fragment: &'f Fragment<'a>) -> System<'f> {
        let form = match fragment {
            Fragment::Instance(instance) => {
                let template = &*instance.template;
                Form::Planned(template.plan())
            }
            Fragment::Nodes(nodes) => Form::Inline(system_of(nodes)),
        };
        System { content: fragment.content(), form }
    }

    fn find(&self, field: Field) -> Option<Found<'f>> {
        match self.form {
            Form::Planned(plan) => match plan.get(field)? {
                Source::Constant(text) => Some(Found::Text(Cow::Borrowed(text))),
                Source::Argument(index) => match self.content.argument(*index)? {
                    Argument::Value(value) if !value.is_null() => Some(Found::Value(*value)),
                    _ => None,
                },
            },
            Form::Inline(system) => {
                let (name, attribute, _) = NAMES.iter().find(|(_, _, of)| *of == field)?;
                match source_of(value_of(system?, name, attribute)?)? {
                    Source::Constant(text) => Some(Found::Text(Cow::Owned(text))),
                    Source::Argument(_) => None,
                }
            }
        }
    }

    fn number(&self, field: Field) -> Option<u64> {
        match self.find(field)? {
            Found::Text(text) => match text.trim().strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => text.trim().parse().ok(),
            },
            Found::Value(value) => match value.scalar()? {
                Scalar::Unsigned(number) | Scalar::Hex(number) => Some(number),
                Scalar::Signed(number) => u64::try_from(number).ok(),
                other => text_of(&other).parse().ok(),
            },
        }
    }

    fn text(&self, field: Field) -> Option<String> {
        match self.find(field)? {
            Found::Text(text) => Some(text.into_owned()),
            Found::Value(value) => Some(text_of(&value.scalar()?)),
        }
    }

    fn guid(&self, field: Field) -> Option<Guid> {
        match self.find(field)? {
            Found::Text(text) => text.trim().parse().ok(),
            Found::Value(value) => match value.scalar()? {
                Scalar::Guid(guid) => Some(guid),
                other => text_of(&other).parse().ok(),
            },
        }
    }

    /// The provider's name.
    pub fn provider_name(&self) -> Option<String> {
        self.text(Field::ProviderName)
    }

    /// The provider's GUID.
    pub fn provider(&self) -> Option<Guid> {
        self.guid(Field::ProviderGuid)
    }

    /// The name by which a classic source registered.
    pub fn event_source_name(&self) -> Option<String> {
        self.text(Field::EventSourceName)
    }

    /// The event's id: of a classic event its low sixteen bits.
    pub fn event_id(&self) -> Option<u16> {
        u16::try_from(self.number(Field::EventId)?).ok()
    }

    /// The high sixteen bits of a classic event's id.
    pub fn qualifiers(&self) -> Option<u16> {
        u16::try_from(self.number(Field::Qualifiers)?).ok()
    }

    /// The event's version.
    pub fn version(&self) -> Option<u8> {
        u8::try_from(self.number(Field::Version)?).ok()
    }

    /// The event's level.
    pub fn level(&self) -> Option<u8> {
        u8::try_from(self.number(Field::Level)?).ok()
    }

    /// The event's task; of a classic event its category.
    pub fn task(&self) -> Option<u16> {
        u16::try_from(self.number(Field::Task)?).ok()
    }

    /// The event's opcode.
    pub fn opcode(&self) -> Option<u8> {
        u8::try_from(self.number(Field::Opcode)?).ok()
    }

    /// The event's keywords.
    pub fn keywords(&self) -> Option<u64> {
        self.number(Field::Keywords)
    }

    /// When the event was written.
    pub fn time(&self) -> Option<FileTime> {
        match self.find(Field::TimeCreated)? {
            Found::Value(value) => match value.scalar()? {
                Scalar::FileTime(time) => Some(time),
                Scalar::SystemTime(time) => FileTime::from_system_time(&time),
                _ => None,
            },
            Found::Text(text) => parse_time(&text),
        }
    }

    /// The number that the event itself carries: in exported logs that of the log it came from.
    pub fn record_id(&self) -> Option<u64> {
        self.number(Field::RecordId)
    }

    /// The activity that the event belongs to.
    pub fn activity(&self) -> Option<Guid> {
        self.guid(Field::ActivityId)
    }

    /// The activity that it was begun from.
    pub fn related_activity(&self) -> Option<Guid> {
        self.guid(Field::RelatedActivityId)
    }

    /// The process that wrote it.
    pub fn process_id(&self) -> Option<u32> {
        u32::try_from(self.number(Field::ProcessId)?).ok()
    }

    /// The thread that wrote it.
    pub fn thread_id(&self) -> Option<u32> {
        u32::try_from(self.number(Field::ThreadId)?).ok()
    }

    /// The channel.
    pub fn channel(&self) -> Option<String> {
        self.text(Field::Channel)
    }

    /// The computer.
    pub fn computer(&self) -> Option<String> {
        self.text(Field::Computer)
    }

    /// The bytes of the user's SID.
    pub fn user_sid(&self) -> Option<Cow<'f, [u8]>> {
        match self.find(Field::UserId)? {
            Found::Value(value) => match value.scalar()? {
                Scalar::Sid(bytes) => Some(Cow::Borrowed(bytes)),
                _ => None,
            },
            Found::Text(text) => sid_of(&text).map(Cow::Owned),
        }
    }

    /// The user's SID, as text.
    pub fn user(&self) -> Option<String> {
        self.text(Field::UserId)
    }
}

fn text_of(scalar: &Scalar<'_>) -> String {
    let mut out = String::new();
    match scalar {
        Scalar::Guid(guid) => {
            let _ = write!(out, "{guid}");
        }
        other => other.push_text(&mut out),
    }
    out
}
