//! Events rendered by plans, and plans made of events.

use crate::json::push_item;
use crate::json_plan::{Frame, Gap, Kind, Plan, Plans, Within};
use crate::tree::{Argument, Content, Fragment, Instance, MAX_WORK};
use crate::value::Value;

/// Fragments inside of values, with the event itself.
const MAX_FRAMES: usize = 4;
/// Stands for a value while a plan is made. No JSON has it.
pub(crate) const GAP: char = '\0';

type Arguments<'f, 'a> = &'f [Argument<'a>];

/// The arguments of an event of a plan's shape.
struct Frames<'f, 'a> {
    arguments: [Arguments<'f, 'a>; MAX_FRAMES],
    /// Bytes of all values, and of the longest.
    total: usize,
    longest: usize,
}

#[inline]
fn kind_of(argument: &Argument<'_>) -> Kind {
    match argument {
        Argument::Fragment(_) => Kind::Fragment,
        Argument::Value(value) if value.value_type.is_array() => Kind::Array,
        Argument::Value(value) if value.is_null() => Kind::Null,
        Argument::Value(_) => Kind::Value,
    }
}

/// The JSON of an event, if there is a plan for its shape.
pub(super) fn render(plans: &Plans, event: &Instance<'_>) -> Option<String> {
    plans
        .iter()
        .find_map(|plan| Some((plan, plan.frames(event)?)))
        .and_then(|(plan, frames)| plan.render(&frames))
}

impl Plan {
    /// The arguments of all frames, if an event has this shape.
    #[inline]
    fn frames<'f, 'a>(&self, event: &'f Instance<'a>) -> Option<Frames<'f, 'a>> {
        let mut all = Frames { arguments: [&[]; MAX_FRAMES], total: 0, longest: 0 };
        for (number, frame) in self.frames.iter().enumerate() {
            let arguments: Arguments<'f, 'a> = match &frame.within {
                None => &event.arguments,
                Some(within) => {
                    let argument = all.arguments[within.frame].get(usize::from(within.index))?;
                    let Argument::Fragment(fragment) = argument else { return None };
                    let Fragment::Instance(instance) = &**fragment else { return None };
                    if instance.template.number != within.template {
                        return None;
                    }
                    &instance.arguments
                }
            };
            if arguments.len() != frame.kinds.len() {
                return None;
            }
            for (argument, kind) in arguments.iter().zip(&frame.kinds) {
                if kind_of(argument) != *kind {
                    return None;
                }
                if let Argument::Value(value) = argument {
                    all.total += value.bytes.len();
                    all.longest = all.longest.max(value.bytes.len());
                }
            }
            all.arguments[number] = arguments;
        }
        Some(all)
    }

    /// The JSON of an event of this shape; `None`: the event is too large for a plan.
    fn render(&self, frames: &Frames<'_, '_>) -> Option<String> {
        if self.work + self.gaps.len() * (frames.longest / 16) > MAX_WORK {
            return None;
        }
        // Text is half as long as its UTF-16, numbers are longer than their bytes.
        let size = self.text.len() + frames.total + 16 * self.gaps.len();
        let mut out = Vec::with_capacity(size);
        let text = self.text.as_bytes();
        let mut done = 0;
        for gap in &self.gaps {
            out.extend_from_slice(&text[done..gap.at]);
            done = gap.at;
            let argument = frames.arguments[gap.frame].get(usize::from(gap.index));
            let value = match argument {
                Some(Argument::Value(value)) => *value,
                _ => Value::NULL,
            };
            push_item(&mut out, value);
        }
        out.extend_from_slice(&text[done..]);
        String::from_utf8(out).ok()
    }
}

/// A plan in the making: rendering leaves gaps, and reports here whose they are.
#[derive(Debug)]
pub(super) struct Recording<'f, 'a> {
    frames: Vec<Frame>,
    arguments: Vec<Arguments<'f, 'a>>,
    gaps: Vec<Gap>,
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
            is_impossible: false,
        };
        recording.push(None, &event.arguments);
        recording
    }

    fn push(&mut self, within: Option<Within>, arguments: Arguments<'f, 'a>) {
        let kinds: Vec<Kind> = arguments.iter().map(kind_of).collect();
        self.is_impossible |= kinds.contains(&Kind::Array) || self.frames.len() == MAX_FRAMES;
        if !self.is_impossible {
            self.frames.push(Frame { within, kinds });
            self.arguments.push(arguments);
        }
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
                let template = instance.template.number;
                self.push(Some(Within { frame, index, template }), &instance.arguments);
            }
            _ => self.is_impossible = true,
        }
    }

    /// A gap for a value.
    pub(super) fn gap(&mut self, content: Content<'_, '_>, index: u16, at: usize) {
        match self.frame_of(content) {
            Some(frame) => self.gaps.push(Gap { at, frame, index }),
            None => self.is_impossible = true,
        }
    }

    /// Values are rendered in a way that is no gap.
    pub(super) fn give_up(&mut self) {
        self.is_impossible = true;
    }

    /// Keeps the plan. `text`: the JSON with its gaps. `work`: what it took.
    pub(super) fn finish(self, plans: &Plans, text: &str, work: usize) {
        if self.is_impossible {
            return;
        }
        let mut gaps = self.gaps;
        // Each gap has one byte in the text so far.
        for (number, gap) in gaps.iter_mut().enumerate() {
            gap.at -= number;
        }
        let text = text.replace(GAP, "");
        plans.add(Plan { frames: self.frames, text, gaps, work });
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
        template.json.iter().count()
    }

    /// Events of all shapes have the same JSON with a plan as without one, whatever events were before them.
    #[test]
    fn a_plan_gives_the_same_json() {
        let text: Vec<u8> = "a\"\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let kinds = [
            (ValueType::NULL, &[][..]),
            (ValueType::UINT16, &[1, 2]),
            (ValueType::STRING, &text),
            (ValueType::HEX64, &[0x1f, 0, 0, 0, 0, 0, 0, 0]),
            (ValueType::BINARY, &[1, 0xab]),
            (ValueType::UINT64, &[1]),
            (ValueType(0x81), &text),
        ];
        for name in [vec![Node::Text("y".into())], vec![value(0)], vec![]] {
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
            assert!(plans(&shared[0]) <= MAX_PLANS);
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
        assert_eq!(plans(&shared[0]), 1);
        // A name that is a value is none of a shape.
        let named = templates(vec![value(0)]);
        for _ in 0..10 {
            json(&event(&named, [0, 1, 2, 3].map(|_| argument(ValueType::UINT16, &[1, 0]))));
        }
        assert_eq!(plans(&named[0]), 0);
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
