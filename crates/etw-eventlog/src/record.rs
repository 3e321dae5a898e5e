//! [`RecordBuilder`]: a decoded event as a record of an event log.
//!
//! The record has Windows' `System` element and, by the event's schema, an `EventData` element whose template is made
//! once for each shape of fields. An event without a schema has its payload in `ProcessingErrorData`, as in Windows.

use crate::report::Report;
use crate::shape::{Leaf, Shape, Values};
use etw_decode::Decoded;
use etw_evtx::tree::{Argument, Attribute, Element, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_types::{EventRecord, ExtType, FileTime, Guid};
use std::collections::HashMap;
use std::sync::Arc;

/// Templates that are kept; only a hostile trace has more shapes of events.
const TEMPLATE_LIMIT: usize = 4096;

/// Windows' code for an event whose template was not found.
const ERROR_NO_TEMPLATE: u32 = 15_003;

/// The facts of a record that its event does not have.
#[derive(Clone, Copy, Debug)]
pub struct RecordFacts<'a> {
    /// The number that the log gives the record.
    pub id: u64,
    /// When the event was written.
    pub time: FileTime,
    /// Name of the channel, if the event's schema has none.
    pub channel: &'a str,
    /// Name of the computer.
    pub computer: &'a str,
}

/// Makes records of events.
#[derive(Debug, Default)]
pub struct RecordBuilder {
    systems: HashMap<String, Arc<Template>>,
    data: HashMap<Vec<u8>, Arc<Template>>,
    /// Bytes of the record's values.
    values: Values,
}

impl RecordBuilder {
    /// A builder without templates.
    pub fn new() -> RecordBuilder {
        RecordBuilder::default()
    }

    /// Makes the record of an event and gives it to `then`.
    pub fn build<R>(
        &mut self,
        event: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        facts: RecordFacts<'_>,
        then: impl FnOnce(&Fragment<'_>) -> R,
    ) -> R {
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        let shape = Shape::of(event, decoded, &mut values);
        let data = self.data_template(event, &shape);
        let body = Body { template: &data, values: &values };
        let result = self.finish(event, decoded, facts, body, then);
        self.values = values;
        result
    }

    /// As [`build`](RecordBuilder::build), for an event whose fields do not fit a record: with as much of its payload as
    /// fits, and without its fields.
    pub fn build_cut<R>(
        &mut self,
        event: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        facts: RecordFacts<'_>,
        then: impl FnOnce(&Fragment<'_>) -> R,
    ) -> R {
        let mut cut = *event;
        cut.payload = &event.payload[..event.payload.len().min(0x7000)];
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        let reason = decoded.reason_text();
        let reason = reason.as_deref().unwrap_or("the fields do not fit a record");
        let shape = Shape::undecoded(reason, cut.payload, &mut values);
        let data = self.data_template(event, &shape);
        let body = Body { template: &data, values: &values };
        let result = self.finish(&cut, decoded, facts, body, then);
        self.values = values;
        result
    }

    /// Makes the record of a program's report in the form of Windows' `ReportEvent`, and gives it to `then`. `event` contains the
    /// report.
    pub fn build_report<R>(
        &mut self,
        event: &EventRecord<'_>,
        report: &Report,
        facts: RecordFacts<'_>,
        then: impl FnOnce(&Fragment<'_>) -> R,
    ) -> R {
        let mut system = Values::default();
        system.push_bytes(ValueType::UINT8, &[report.level()]);
        system.push_bytes(ValueType::UINT8, &[0]);
        system.push_bytes(ValueType::UINT16, &report.category.to_le_bytes());
        system.push_bytes(ValueType::UINT16, &(report.id as u16).to_le_bytes());
        system.push_bytes(ValueType::UINT16, &((report.id >> 16) as u16).to_le_bytes());
        system.push_bytes(ValueType::HEX64, &report.keywords().to_le_bytes());
        system.push_bytes(ValueType::FILETIME, &facts.time.0.to_le_bytes());
        system.push_null();
        system.push_bytes(ValueType::UINT32, &event.process_id.unwrap_or(0).to_le_bytes());
        system.push_bytes(ValueType::UINT32, &event.thread_id.unwrap_or(0).to_le_bytes());
        system.push_bytes(ValueType::UINT64, &facts.id.to_le_bytes());
        system.push_bytes(ValueType::UINT8, &[0]);
        match report.user.len() >= 8 {
            true => system.push_bytes(ValueType::SID, &report.user),
            false => system.push_null(),
        }
        system.push_null();
        system.push_text(&report.source);
        system.push_null();
        system.push_text(facts.channel);
        let mut values = Values::default();
        match report.strings.is_empty() {
            true => values.push_null(),
            false => {
                let units =
                    report.strings.iter().flat_map(|string| string.encode_utf16().chain([0]));
                let bytes: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
                values.push_bytes(ValueType(ValueType::STRING.0 | ValueType::ARRAY), &bytes);
            }
        }
        values.push_null();
        match report.data.is_empty() {
            true => values.push_null(),
            false => values.push_bytes(ValueType::BINARY, &report.data),
        }
        let instance = Instance {
            template: self.report_template(),
            arguments: values.arguments().collect(),
            has_header: true,
        };
        let mut arguments: Vec<Argument<'_>> = system.arguments().collect();
        arguments.push(Argument::Fragment(Box::new(Fragment::Instance(instance))));
        let template = self.system_template(facts.computer);
        then(&Fragment::Instance(Instance { template, arguments, has_header: true }))
    }

    fn report_template(&mut self) -> Arc<Template> {
        const KEY: &[u8] = b"openetw/report";
        let made = self.data.entry(KEY.to_vec());
        made.or_insert_with(|| Arc::new(Template::new(guid_of(KEY), vec![report_element()])))
            .clone()
    }

    fn finish<R>(
        &mut self,
        event: &EventRecord<'_>,
        decoded: &Decoded<'_>,
        facts: RecordFacts<'_>,
        body: Body<'_>,
        then: impl FnOnce(&Fragment<'_>) -> R,
    ) -> R {
        let log = event.log_item();
        let computer = log.map_or(facts.computer, |log| log.computer);
        let schema_channel = decoded.names().and_then(|names| names.channel.as_deref());
        let channel = log.map(|log| log.channel).or(schema_channel).unwrap_or(facts.channel);
        let provider_name = provider_name(event, decoded);
        let mut system = Values::default();
        let descriptor = &event.descriptor;
        system.push_bytes(ValueType::UINT8, &[descriptor.level.0]);
        system.push_bytes(ValueType::UINT8, &[descriptor.opcode.0]);
        system.push_bytes(ValueType::UINT16, &descriptor.task.to_le_bytes());
        system.push_bytes(ValueType::UINT16, &descriptor.id.to_le_bytes());
        system.push_null();
        system.push_bytes(ValueType::HEX64, &descriptor.keyword.0.to_le_bytes());
        system.push_bytes(ValueType::FILETIME, &facts.time.0.to_le_bytes());
        system.push_guid(Some(event.activity_id).filter(|id| !id.is_zero()));
        system.push_bytes(ValueType::UINT32, &event.process_id.unwrap_or(0).to_le_bytes());
        system.push_bytes(ValueType::UINT32, &event.thread_id.unwrap_or(0).to_le_bytes());
        // A record of another log keeps its number, as in logs that Windows exports.
        let id = log.map_or(facts.id, |log| log.record_id);
        system.push_bytes(ValueType::UINT64, &id.to_le_bytes());
        system.push_bytes(ValueType::UINT8, &[descriptor.version]);
        match event.extended.find(ExtType::SID) {
            Some(sid) if sid.len() >= 8 => system.push_bytes(ValueType::SID, sid),
            _ => system.push_null(),
        }
        system.push_guid(event.related_activity_id());
        system.push_text(&provider_name);
        system.push_guid(event.provider.filter(|guid| !guid.is_zero()));
        system.push_text(channel);
        let instance = Instance {
            template: body.template.clone(),
            arguments: body.values.arguments().collect(),
            has_header: true,
        };
        let mut arguments: Vec<Argument<'_>> = system.arguments().collect();
        arguments.push(Argument::Fragment(Box::new(Fragment::Instance(instance))));
        let template = self.system_template(computer);
        then(&Fragment::Instance(Instance { template, arguments, has_header: true }))
    }

    fn system_template(&mut self, computer: &str) -> Arc<Template> {
        if let Some(known) = self.systems.get(computer) {
            return known.clone();
        }
        if self.systems.len() >= TEMPLATE_LIMIT {
            self.systems.clear();
        }
        let guid = Guid::from_name(&format!("openetw/System/{computer}"));
        let template = Arc::new(Template::new(guid, vec![event_element(computer)]));
        self.systems.insert(computer.to_owned(), template.clone());
        template
    }

    fn data_template(&mut self, event: &EventRecord<'_>, shape: &Shape) -> Arc<Template> {
        let mut key = shape.key().to_vec();
        key.extend_from_slice(&event.provider.unwrap_or_default().0);
        if let Some(known) = self.data.get(&key) {
            return known.clone();
        }
        if self.data.len() >= TEMPLATE_LIMIT {
            self.data.clear();
        }
        let nodes = match shape.is_undecoded() {
            true => vec![error_element()],
            false => vec![data_element(shape)],
        };
        let template = Arc::new(Template::new(guid_of(&key), nodes));
        self.data.insert(key, template.clone());
        template
    }
}

/// The data of a record.
struct Body<'b> {
    template: &'b Arc<Template>,
    values: &'b Values,
}

/// The provider's name, or what stands for it.
fn provider_name(event: &EventRecord<'_>, decoded: &Decoded<'_>) -> String {
    let class = || event.hook.and_then(|hook| hook.class_name()).map(str::to_owned);
    let name = decoded.provider_name().map(|name| name.into_owned());
    name.or_else(class)
        .or_else(|| event.provider.map(|guid| format!("{{{guid}}}")))
        .unwrap_or_else(|| event.header.name().to_owned())
}

/// Two different hashes of the shape: equal templates have equal GUIDs in every file.
fn guid_of(key: &[u8]) -> Guid {
    let hash = |seed: u64| {
        key.iter().fold(seed, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5)
        })
    };
    let (one, other) = (hash(0xcbf2_9ce4_8422_2325), hash(0x6c62_272e_07bb_0142));
    Guid::from_u128(u128::from(one) << 64 | u128::from(other))
}

/// Windows' `Event` element: the substitutions of its `System` have Windows' numbers, and the last is the data.
fn event_element(computer: &str) -> Node {
    let optional = Node::optional_value;
    let leaf = |name: &str, index, value_type| {
        let mut leaf = Element::new(name, Vec::new(), vec![optional(index, value_type)]);
        leaf.dependency = Some(index);
        Node::Element(leaf)
    };
    let with = |name: &str, attributes| Node::Element(Element::new(name, attributes, Vec::new()));
    let qualifiers = Attribute::new("Qualifiers", optional(4, ValueType::UINT16));
    let mut event_id =
        Element::new("EventID", vec![qualifiers], vec![optional(3, ValueType::UINT16)]);
    event_id.dependency = Some(3);
    let name = Attribute::new("Name", optional(14, ValueType::STRING));
    let guid = Attribute::new("Guid", optional(15, ValueType::GUID));
    let created = Attribute::new("SystemTime", optional(6, ValueType::FILETIME));
    let activity = Attribute::new("ActivityID", optional(7, ValueType::GUID));
    let related = Attribute::new("RelatedActivityID", optional(13, ValueType::GUID));
    let process = Attribute::new("ProcessID", optional(8, ValueType::UINT32));
    let thread = Attribute::new("ThreadID", optional(9, ValueType::UINT32));
    let user = Attribute::new("UserID", optional(12, ValueType::SID));
    let system = vec![
        with("Provider", vec![name, guid]),
        Node::Element(event_id),
        leaf("Version", 11, ValueType::UINT8),
        leaf("Level", 0, ValueType::UINT8),
        leaf("Task", 2, ValueType::UINT16),
        leaf("Opcode", 1, ValueType::UINT8),
        leaf("Keywords", 5, ValueType::HEX64),
        with("TimeCreated", vec![created]),
        leaf("EventRecordID", 10, ValueType::UINT64),
        with("Correlation", vec![activity, related]),
        with("Execution", vec![process, thread]),
        leaf("Channel", 16, ValueType::STRING),
        Node::Element(Element::new("Computer", Vec::new(), vec![Node::Text(computer.to_owned())])),
        with("Security", vec![user]),
    ];
    let namespace = Node::Text("http://schemas.microsoft.com/win/2004/08/events/event".to_owned());
    let children = vec![
        Node::Element(Element::new("System", Vec::new(), system)),
        optional(17, ValueType::FRAGMENT),
    ];
    Node::Element(Element::new("Event", vec![Attribute::new("xmlns", namespace)], children))
}

fn data_element(shape: &Shape) -> Node {
    let mut index = 0;
    let children = shape.leaves().iter().map(|leaf| leaf_node(leaf, &mut index)).collect();
    let name = shape.name().map(|name| Attribute::new("Name", Node::Text(name.to_owned())));
    let mut data = Element::new("EventData", name.into_iter().collect(), children);
    data.is_empty = false;
    Node::Element(data)
}

/// Windows' `EventData` of reports: substitution 0 has the strings, 2 the raw data.
fn report_element() -> Node {
    let strings = ValueType(ValueType::STRING.0 | ValueType::ARRAY);
    let optional = |name: &str, index, value_type| {
        let mut one = Element::new(name, Vec::new(), vec![Node::optional_value(index, value_type)]);
        one.dependency = Some(index);
        Node::Element(one)
    };
    let children = vec![optional("Data", 0, strings), optional("Binary", 2, ValueType::BINARY)];
    let mut data = Element::new("EventData", Vec::new(), children);
    data.is_empty = false;
    Node::Element(data)
}

fn leaf_node(leaf: &Leaf, index: &mut u16) -> Node {
    let name = Attribute::new("Name", Node::Text(leaf.name().to_owned()));
    match leaf {
        Leaf::Value { value_type, .. } => {
            let value = Node::value(*index, *value_type);
            *index += 1;
            Node::Element(Element::new("Data", vec![name], vec![value]))
        }
        Leaf::Struct { members, .. } => {
            let members = members.iter().map(|member| leaf_node(member, index)).collect();
            Node::Element(Element::new("ComplexData", vec![name], members))
        }
    }
}

/// The payload of an event without a schema. Substitution 0 is the reason, 1 the payload.
fn error_element() -> Node {
    let code = Node::Text(ERROR_NO_TEMPLATE.to_string());
    let element = |name: &str, node| Node::Element(Element::new(name, Vec::new(), vec![node]));
    let children = vec![
        element("ErrorCode", code),
        element("DataItemName", Node::value(0, ValueType::STRING)),
        element("EventPayload", Node::value(1, ValueType::BINARY)),
    ];
    Node::Element(Element::new("ProcessingErrorData", Vec::new(), children))
}

impl Values {
    fn arguments(&self) -> impl Iterator<Item = Argument<'_>> {
        self.iter().map(|(value_type, bytes)| Argument::Value(Value { value_type, bytes }))
    }
}
