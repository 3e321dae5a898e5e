//! Events rendered by plans, and plans made of events.

use std::ops::Range;

use crate::facts::Facts;
use crate::json::{push_item, push_items};
use crate::json_plan::{Expected, Form, Frame, Gap, PADDING, Plan, Plans, Repeated, Within};
use crate::outline::Outline;
use crate::parse::Cache;
use crate::tree::{Argument, Content, Fragment, Instance, MAX_WORK};
use crate::value::{
    Value, ValueType, push_decimal, push_file_time, push_guid, push_hex_number, push_sid,
};

use super::utf16::{push_plain_utf16, push_utf16_content};

/// Fragments inside of values, with the event itself.
const MAX_FRAMES: usize = 4;
/// Stands for a value while a plan is made. No JSON has it.
pub(crate) const GAP: char = '\0';

type Arguments<'f, 'a> = &'f [Argument<'a>];

/// The template that has the plans of an event: that of its last value with one, else its own.
pub(super) fn home<'f>(event: &'f Instance<'_>) -> &'f Facts {
    let inner = event.arguments.iter().rev().find_map(|argument| match argument {
        Argument::Fragment(fragment) => match &**fragment {
            Fragment::Instance(instance) => Some(instance),
            Fragment::Nodes(_) => None,
        },
        Argument::Value(_) => None,
    });
    &inner.unwrap_or(event).template.facts
}

/// The JSON of an event, if there is a plan for its shape.
pub(super) fn render(plans: &Plans, event: &Instance<'_>) -> Option<String> {
    let (plan, frames) = plans.iter().find_map(|plan| Some((plan, plan.frames(event)?)))?;
    let value = |gap: &Gap| match frames[gap.frame].get(usize::from(gap.index)) {
        Some(Argument::Value(value)) => value.bytes,
        _ => &[],
    };
    if !plan.is_allowed(value) {
        return None;
    }
    let mut out = Vec::with_capacity(plan.size());
    plan.write(&mut out, |gap| Bytes { value: value(gap), onwards: value(gap) });
    String::from_utf8(out).ok()
}

/// Appends the JSON of the record whose fragment is a range of a chunk. False: there is no plan for its shape, and nothing was appended.
///
/// `ends` is memory for the offsets of its values.
pub(crate) fn push_record(
    out: &mut Vec<u8>,
    chunk: &[u8],
    record: Range<usize>,
    cache: &mut Cache,
    ends: &mut Vec<usize>,
) -> bool {
    let Some(event) = Outline::read(chunk, record.start, record.end, true) else { return false };
    let inner = event.last_fragment(chunk).unwrap_or(event);
    let (Some(of_event), Some(of_inner)) =
        (cache.find(chunk, event.template), cache.find(chunk, inner.template))
    else {
        return false;
    };
    let home = cache.facts(of_inner);
    let number = |template: u32| match template {
        template if template == inner.template => Some(home.number),
        template if template == event.template => Some(cache.facts(of_event).number),
        template => cache.known(template).map(|facts| facts.number),
    };
    for plan in home.json.iter() {
        if plan.locate(chunk, event, number, ends).is_none() {
            continue;
        }
        let value = |gap: &Gap| {
            let onwards = chunk.get(ends[gap.slot]..).unwrap_or_default();
            let size = ends[gap.slot + 1] - ends[gap.slot];
            Bytes { value: onwards.get(..size).unwrap_or_default(), onwards }
        };
        if !plan.is_always_allowed() && !plan.is_allowed(|gap| value(gap).value) {
            return false;
        }
        out.reserve(plan.size());
        plan.write(out, value);
        return true;
    }
    false
}

/// The bytes of a value, and those of the memory from its first one on.
struct Bytes<'a> {
    value: &'a [u8],
    onwards: &'a [u8],
}

impl Expected {
    const TYPE: u32 = 0x00ff_0000;
    const TYPE_AND_SIZE: u32 = 0x00ff_ffff;

    /// `None`: the JSON depends on more than the shape.
    fn of(argument: &Argument<'_>) -> Option<Expected> {
        let descriptor = descriptor(argument);
        let mask = match argument {
            Argument::Fragment(_) => Expected::TYPE,
            Argument::Value(value) if value.value_type.is_array() => match value.bytes.is_empty() {
                true => Expected::TYPE_AND_SIZE,
                false => Expected::TYPE,
            },
            Argument::Value(value) if value.value_type == ValueType::FRAGMENT => {
                match value.bytes.is_empty() {
                    true => Expected::TYPE_AND_SIZE,
                    false => return None,
                }
            }
            Argument::Value(value) => match value.value_type.fixed_size() {
                Some(_) => Expected::TYPE_AND_SIZE,
                None => Expected::TYPE,
            },
        };
        Some(Expected { descriptor, mask })
    }

    #[inline]
    fn difference(self, descriptor: u32) -> u32 {
        (self.descriptor ^ descriptor) & self.mask
    }
}

/// The descriptor of an argument. That of a fragment has a size that no other value of its type has.
fn descriptor(argument: &Argument<'_>) -> u32 {
    match argument {
        Argument::Fragment(_) => u32::from(ValueType::FRAGMENT.0) << 16 | 1,
        Argument::Value(value) => {
            let size = u16::try_from(value.bytes.len()).unwrap_or(u16::MAX);
            u32::from(value.value_type.0) << 16 | u32::from(size)
        }
    }
}

impl Form {
    fn of(value: Value<'_>) -> Form {
        match (value.value_type, value.bytes.len()) {
            (ValueType::UINT8, 1) | (ValueType::UINT16, 2) => Form::Number,
            (ValueType::UINT32, 4) | (ValueType::UINT64, 8) => Form::Number,
            (ValueType::HEX32, 4) | (ValueType::HEX64, 8) => Form::Hex,
            (ValueType::GUID, 16) => Form::Guid,
            (ValueType::FILETIME, 8) => Form::FileTime,
            (ValueType::SID, _) => Form::Sid,
            (ValueType::STRING, _) => Form::Utf16,
            (other, _) if other.is_array() => Form::Array(other),
            (other, _) => Form::Any(other),
        }
    }

    fn is_quoted(self) -> bool {
        !matches!(self, Form::Number | Form::Any(_) | Form::Array(_) | Form::Members(_))
    }
}

impl Repeated {
    /// Appends a member for each item.
    fn push(&self, out: &mut Vec<u8>, Bytes { value, onwards }: Bytes<'_>) {
        let items = Value { value_type: self.value_type, bytes: value }.items();
        let mut at = 0;
        for (index, item) in items.enumerate() {
            if index > 0 || !self.is_first {
                out.push(b',');
            }
            out.push(b'"');
            out.extend_from_slice(&self.name);
            let number = self.known + index + 1;
            if number > 1 {
                out.push(b'#');
                push_decimal(out, number as u64);
            }
            out.extend_from_slice(b"\":");
            if item.value_type != ValueType::STRING {
                push_item(out, item);
                continue;
            }
            out.push(b'"');
            let rest = push_plain_utf16(out, item.bytes, onwards.get(at..).unwrap_or_default());
            if !rest.is_empty() {
                push_utf16_content(out, rest);
            }
            out.push(b'"');
            // A NUL follows each text.
            at += item.bytes.len() + 2;
        }
    }

    /// Work for the items beside the bytes of the array.
    fn work(&self, bytes: &[u8]) -> usize {
        let items = Value { value_type: self.value_type, bytes }.items();
        items.map(|item| 2 + item.bytes.len() / 16).sum()
    }
}

/// An unsigned number of 1, 2, 4 or 8 bytes.
#[inline]
fn unsigned(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        _ => bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
    }
}

/// Appends a part of a plan's text, which has [`PADDING`] behind it.
#[inline]
fn push_piece(out: &mut Vec<u8>, text: &[u8], range: Range<usize>) {
    let end = out.len() + range.len();
    let mut rest = text.get(range.start..).unwrap_or_default();
    while out.len() < end {
        let Some((block, after)) = rest.split_first_chunk::<PADDING>() else { break };
        out.extend_from_slice(block);
        rest = after;
    }
    out.truncate(end);
}

impl Plan {
    /// The arguments of all frames, if an event has this shape.
    fn frames<'f, 'a>(&self, event: &'f Instance<'a>) -> Option<[Arguments<'f, 'a>; MAX_FRAMES]> {
        let mut all: [Arguments<'f, 'a>; MAX_FRAMES] = [&[]; MAX_FRAMES];
        for (number, frame) in self.frames.iter().enumerate() {
            let instance = match &frame.within {
                None => event,
                Some(within) => match all[within.frame].get(usize::from(within.index))? {
                    Argument::Fragment(fragment) => match &**fragment {
                        Fragment::Instance(instance) => instance,
                        Fragment::Nodes(_) => return None,
                    },
                    Argument::Value(_) => return None,
                },
            };
            let arguments = &instance.arguments;
            let mut pairs = arguments.iter().zip(&frame.values);
            if instance.template.facts.number != frame.template
                || arguments.len() != frame.values.len()
                || !pairs.all(|(argument, value)| value.difference(descriptor(argument)) == 0)
                || frame.arrays.iter().any(|index| descriptor(&arguments[*index]) & 0xffff == 0)
            {
                return None;
            }
            all[number] = arguments;
        }
        Some(all)
    }

    /// Finds the values of an event in a chunk, if it has this shape: their offsets, and those behind the last value of each frame.
    /// `number` has the numbers of the templates at offsets of the chunk.
    #[inline]
    fn locate(
        &self,
        chunk: &[u8],
        event: Outline,
        number: impl Fn(u32) -> Option<u64>,
        ends: &mut Vec<usize>,
    ) -> Option<()> {
        ends.clear();
        for frame in &self.frames {
            let instance = match &frame.within {
                None => event,
                Some(within) => {
                    let slot = self.frames[within.frame].first + usize::from(within.index);
                    Outline::read(chunk, *ends.get(slot)?, *ends.get(slot + 1)?, false)?
                }
            };
            let descriptors = instance.descriptors(chunk);
            if descriptors.len() != frame.values.len() * 4
                || number(instance.template) != Some(frame.template)
            {
                return None;
            }
            let mut at = instance.values;
            let mut difference = 0;
            ends.push(at);
            let pairs = descriptors.chunks_exact(4).zip(&frame.values);
            ends.extend(pairs.map(|(bytes, value)| {
                let descriptor = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                difference |= value.difference(descriptor);
                at += (descriptor & 0xffff) as usize;
                at
            }));
            if difference != 0 || at > instance.end {
                return None;
            }
            let is_empty =
                |index: &usize| ends[frame.first + index] == ends[frame.first + index + 1];
            if frame.arrays.iter().any(is_empty) {
                return None;
            }
        }
        Some(())
    }

    /// Whether the work for an event of this shape is allowed, whatever the sizes of its values in a chunk are.
    fn is_always_allowed(&self) -> bool {
        const OF_BYTES: usize = u16::MAX as usize / 16;
        // An item has at least one byte.
        const OF_ITEMS: usize = u16::MAX as usize * 2;
        self.work + self.gaps.len() * OF_BYTES + self.repeated.len() * OF_ITEMS <= MAX_WORK
    }

    /// Whether the work for an event of this shape is allowed.
    fn is_allowed<'a>(&self, value: impl Fn(&Gap) -> &'a [u8]) -> bool {
        let values = self.gaps.iter().map(|gap| match gap.form {
            Form::Members(number) => self.repeated[number].work(value(gap)),
            _ => value(gap).len() / 16,
        });
        self.work + values.sum::<usize>() <= MAX_WORK
    }

    /// Bytes that the JSON of an event mostly has at most.
    fn size(&self) -> usize {
        self.text.len() + 48 * self.gaps.len()
    }

    #[inline]
    fn write<'a>(&self, out: &mut Vec<u8>, bytes: impl Fn(&Gap) -> Bytes<'a>) {
        let mut done = 0;
        for gap in &self.gaps {
            push_piece(out, &self.text, done..gap.at);
            done = gap.at;
            let Bytes { value, onwards } = bytes(gap);
            match gap.form {
                Form::Number => push_decimal(out, unsigned(value)),
                Form::Hex => push_hex_number(out, unsigned(value)),
                Form::Guid => push_guid(out, value),
                Form::FileTime => push_file_time(out, unsigned(value)),
                Form::Sid => push_sid(out, value),
                Form::Utf16 => {
                    let rest = push_plain_utf16(out, value, onwards);
                    if !rest.is_empty() {
                        push_utf16_content(out, rest);
                    }
                }
                Form::Any(value_type) => push_item(out, Value { value_type, bytes: value }),
                Form::Array(value_type) => push_items(out, Value { value_type, bytes: value }),
                Form::Members(number) => {
                    self.repeated[number].push(out, Bytes { value, onwards });
                }
            }
        }
        push_piece(out, &self.text, done..self.text.len() - PADDING);
    }
}

/// A plan in the making: rendering leaves gaps, and reports here whose they are.
#[derive(Debug)]
pub(super) struct Recording<'f, 'a> {
    frames: Vec<Frame>,
    arguments: Vec<Arguments<'f, 'a>>,
    gaps: Vec<Gap>,
    repeated: Vec<Repeated>,
    /// The event has a part that depends on more than its shape.
    is_impossible: bool,
}

impl<'f, 'a> Recording<'f, 'a> {
    /// Starts the plan for an event's shape.
    pub(super) fn new(event: &'f Instance<'a>) -> Recording<'f, 'a> {
        let mut recording = Recording {
            frames: Vec::new(),
            arguments: Vec::new(),
            gaps: Vec::new(),
            repeated: Vec::new(),
            is_impossible: false,
        };
        recording.push(None, event);
        recording
    }

    fn push(&mut self, within: Option<Within>, instance: &'f Instance<'a>) {
        let values: Option<Vec<Expected>> = instance.arguments.iter().map(Expected::of).collect();
        let Some(values) = values.filter(|_| self.frames.len() < MAX_FRAMES) else {
            self.is_impossible = true;
            return;
        };
        let first = self.frames.last().map_or(0, |frame| frame.first + frame.values.len() + 1);
        let template = instance.template.facts.number;
        let arguments = instance.arguments.iter().enumerate();
        let arrays = arguments.filter(|(_, argument)| match argument {
            Argument::Value(value) => value.value_type.is_array() && !value.bytes.is_empty(),
            Argument::Fragment(_) => false,
        });
        let arrays = arrays.map(|(index, _)| index).collect();
        self.frames.push(Frame { within, template, values, arrays, first });
        self.arguments.push(&instance.arguments);
    }

    fn frame_of(&self, content: Content<'_, '_>) -> Option<usize> {
        let of = content.arguments.as_ptr_range();
        self.arguments.iter().position(|arguments| {
            let own = arguments.as_ptr_range();
            own.start.addr() == of.start.addr() && own.end.addr() == of.end.addr()
        })
    }

    /// A fragment in a value is rendered from now on.
    pub(super) fn enter(
        &mut self,
        content: Content<'_, '_>,
        index: u16,
        fragment: &'f Fragment<'a>,
    ) {
        let outer = self.frame_of(content);
        match (fragment, outer) {
            (Fragment::Instance(instance), Some(frame)) => {
                self.push(Some(Within { frame, index }), instance);
            }
            _ => self.is_impossible = true,
        }
    }

    /// A gap for a value.
    pub(super) fn gap(&mut self, content: Content<'_, '_>, index: u16, at: usize) {
        let Some(frame) = self.frame_of(content) else {
            self.is_impossible = true;
            return;
        };
        if let Some(Argument::Value(value)) = self.arguments[frame].get(usize::from(index)) {
            let slot = self.frames[frame].first + usize::from(index);
            self.gaps.push(Gap { at, frame, index, slot, form: Form::of(*value) });
        }
    }

    /// A gap for the members that an element makes of the items of an array, which is its only content.
    pub(super) fn members(
        &mut self,
        content: Content<'_, '_>,
        index: u16,
        at: usize,
        repeated: Repeated,
    ) {
        let before = self.gaps.len();
        self.gap(content, index, at);
        if let Some(gap) = self.gaps.get_mut(before) {
            gap.form = Form::Members(self.repeated.len());
            self.repeated.push(repeated);
        }
    }

    /// Values are rendered in a way that is no gap.
    pub(super) fn give_up(&mut self) {
        self.is_impossible = true;
    }

    /// Whether each fragment in a value is a frame: only then all of the event is read by its plan.
    fn has_all_frames(&self) -> bool {
        self.arguments.iter().enumerate().all(|(frame, arguments)| {
            arguments.iter().enumerate().all(|(index, argument)| {
                let is_here =
                    |within: Within| within.frame == frame && usize::from(within.index) == index;
                matches!(argument, Argument::Value(_))
                    || self.frames.iter().filter_map(|one| one.within).any(is_here)
            })
        })
    }

    /// Keeps the plan. `text`: the JSON with its gaps. `work`: what it took.
    pub(super) fn finish(mut self, plans: &Plans, text: &str, work: usize) {
        let pieces = text.split(GAP);
        if self.is_impossible
            || !self.has_all_frames()
            || pieces.clone().count() != self.gaps.len() + 1
        {
            return;
        }
        let mut text = Vec::new();
        let mut is_quoted = false;
        for (number, piece) in pieces.enumerate() {
            text.extend(is_quoted.then_some(b'"'));
            text.extend_from_slice(piece.as_bytes());
            if let Some(gap) = self.gaps.get_mut(number) {
                is_quoted = gap.form.is_quoted();
                text.extend(is_quoted.then_some(b'"'));
                gap.at = text.len();
            }
        }
        text.extend_from_slice(&[0; PADDING]);
        let Recording { frames, gaps, repeated, .. } = self;
        plans.add(Plan { frames, text, gaps, repeated, work });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use etw_types::Guid;

    use crate::json::push;
    use crate::json_plan::MAX_PLANS;
    use crate::tree::{Attribute, Element, Node, Substitution, Template};
    use crate::value::ValueType;

    use super::*;

    fn element(name: &str, dependency: Option<u16>, children: Vec<Node>) -> Node {
        let (name, attributes) = (name.into(), Vec::new());
        Node::Element(Element { name, dependency, attributes, children, is_empty: false })
    }

    fn value(index: u16) -> Node {
        let value_type = ValueType::STRING;
        Node::Substitution(Substitution { index, is_optional: true, value_type })
    }

    fn data(name: Vec<Node>, children: Vec<Node>) -> Node {
        let attributes = vec![Attribute { name: "Name".into(), value: name }];
        Node::Element(Element {
            name: "Data".into(),
            dependency: None,
            attributes,
            children,
            is_empty: false,
        })
    }

    /// An event with three values, the last of them a fragment with two of its own.
    fn templates(name: Vec<Node>) -> [Arc<Template>; 2] {
        let text = Node::Text("a\"b\u{1}".to_owned());
        let outer = vec![element(
            "Event",
            None,
            vec![
                element("System", None, vec![element("Id", Some(0), vec![value(0)])]),
                element("Mixed", None, vec![text, Node::EntityReference("amp".into())]),
                element("Id", None, vec![value(1)]),
                value(2),
            ],
        )];
        let inner = vec![element(
            "EventData",
            None,
            vec![data(name, vec![value(0)]), data(vec![Node::Text("x".into())], vec![value(1)])],
        )];
        [outer, inner].map(|nodes| Arc::new(Template::new(Guid::default(), nodes)))
    }

    fn argument(value_type: ValueType, bytes: &[u8]) -> Argument<'_> {
        Argument::Value(Value { value_type, bytes })
    }

    fn event<'a>(templates: &[Arc<Template>; 2], values: [Argument<'a>; 4]) -> Fragment<'a> {
        let [first, second, third, fourth] = values;
        let of = |template: &Arc<Template>, arguments| {
            Fragment::Instance(Instance { template: template.clone(), arguments, has_header: true })
        };
        let inner = of(&templates[1], vec![third, fourth]);
        of(&templates[0], vec![first, second, Argument::Fragment(Box::new(inner))])
    }

    fn json(fragment: &Fragment<'_>) -> String {
        let mut out = String::from("before ");
        push(&mut out, fragment).unwrap();
        out
    }

    fn plans(template: &Template) -> usize {
        template.facts.json.iter().count()
    }

    /// Events of all shapes have the same JSON with a plan as without one, whatever events were before them.
    #[test]
    fn a_plan_gives_the_same_json() {
        let utf16 =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let (text, texts) = (utf16("a\"\0"), utf16("one\0\0\u{e9}\"\0a text of some length"));
        let kinds = [
            (ValueType::NULL, &[][..]),
            (ValueType::UINT16, &[1, 2]),
            (ValueType::STRING, &text),
            (ValueType::HEX64, &[0x1f, 0, 0, 0, 0, 0, 0, 0]),
            (ValueType::BINARY, &[1, 0xab]),
            (ValueType::UINT64, &[1]),
            (ValueType(0x81), &text),
            (ValueType(0x81), &texts),
            (ValueType(0x81), &[]),
            (ValueType(0x86), &[1, 0, 2, 0, 3]),
            (ValueType(0x82), b"a\0b\n"),
            (ValueType(0x84), &[]),
        ];
        let names = ["x", "y", "quo\"te"].map(|name| vec![Node::Text(name.into())]);
        for name in names.into_iter().chain([vec![value(0)], vec![]]) {
            let shared = templates(name.clone());
            for round in 0..3 {
                for (number, (value_type, bytes)) in kinds.iter().enumerate() {
                    let values = [0, 1, 2, 3].map(|place: usize| {
                        let (other_type, other) = kinds[(number * place + round) % kinds.len()];
                        match place.is_multiple_of(2) {
                            true => argument(*value_type, bytes),
                            false => argument(other_type, other),
                        }
                    });
                    // A template of its own has no plan yet.
                    let alone = json(&event(&templates(name.clone()), values.clone()));
                    for _ in 0..3 {
                        assert_eq!(json(&event(&shared, values.clone())), alone);
                    }
                }
            }
            assert!(plans(&shared[1]) <= MAX_PLANS);
        }
    }

    #[test]
    fn events_of_one_shape_share_a_plan() {
        let shared = templates(vec![Node::Text("y".into())]);
        for number in 0..100u16 {
            let bytes = number.to_le_bytes();
            let values = [0, 1, 2, 3].map(|_| argument(ValueType::UINT16, &bytes));
            let text = json(&event(&shared, values));
            assert!(text.contains(&format!("\"y\":{number},\"x\":{number}")), "{text}");
        }
        assert_eq!(plans(&shared[1]), 1);
        // The number of an array's items belongs to no shape.
        let repeated = templates(vec![Node::Text("y".into())]);
        for number in 1..100usize {
            let bytes = [b'a', 0, 0, 0].repeat(number);
            let values = [0, 1, 2, 3].map(|_| argument(ValueType(0x81), &bytes));
            let text = json(&event(&repeated, values));
            let last = match number {
                1 => r#""y":"a","x":"a"}"#.to_owned(),
                _ => format!(r##""y#{number}":"a","x":"a","x#2":"a""##),
            };
            assert!(text.contains(&last), "{text}");
        }
        assert_eq!(plans(&repeated[1]), 1);
        // Without items, it is another shape.
        let values = [0, 1, 2, 3].map(|_| argument(ValueType(0x81), &[]));
        assert!(json(&event(&repeated, values)).ends_with(r#""EventData":{}}}"#));
        // A name that is a value is none of a shape.
        let named = templates(vec![value(0)]);
        for _ in 0..10 {
            json(&event(&named, [0, 1, 2, 3].map(|_| argument(ValueType::UINT16, &[1, 0]))));
        }
        assert_eq!(plans(&named[1]), 0);
    }

    /// Work is bounded with a plan, too.
    #[test]
    fn a_large_event_is_refused_with_a_plan() {
        let inner = vec![element(
            "E",
            None,
            (0..1000).map(|_| element("x", None, vec![value(0)])).collect(),
        )];
        let template = Arc::new(Template::new(Guid::default(), inner));
        let of = |bytes| {
            let arguments = vec![argument(ValueType::BINARY, bytes)];
            Fragment::Instance(Instance { template: template.clone(), arguments, has_header: true })
        };
        for _ in 0..3 {
            json(&of(&[1]));
        }
        assert_eq!(plans(&template), 1);
        let large = vec![0; 60_000];
        let mut out = String::new();
        assert!(push(&mut out, &of(&large)).is_err());
    }
}
