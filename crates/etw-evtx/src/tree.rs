//! Binary XML as trees: templates, their instances, elements.

use std::sync::Arc;

use etw_types::Guid;

use crate::facts::Facts;
use crate::value::{Value, ValueType};

/// Nodes that rendering one record may visit. Values may be substituted more than once, so a small record could
/// otherwise expand without bound.
pub const MAX_WORK: usize = 1 << 20;
/// Depth of elements in elements, and of fragments in values.
pub const MAX_DEPTH: usize = 64;

/// The name of an element, attribute or entity, shared within a chunk.
pub type Name = Arc<str>;

/// A definition with substitutions for values, identified by its GUID.
#[derive(Clone, Debug)]
pub struct Template {
    /// Its first four bytes stand in each instance.
    pub guid: Guid,
    /// Its content: one element, in every file seen.
    pub nodes: Arc<[Node]>,
    /// Computed once, and shared with the equal templates of other chunks.
    pub(crate) facts: Arc<Facts>,
}

impl Template {
    /// A template of these nodes.
    pub fn new(guid: Guid, nodes: Vec<Node>) -> Template {
        Template { guid, nodes: nodes.into(), facts: Arc::default() }
    }
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Node {
    /// An element.
    Element(Element),
    /// Constant text.
    Text(String),
    /// A value of the instance.
    Substitution(Substitution),
    /// A CDATA section.
    CData(String),
    /// A character by its number.
    CharacterReference(u16),
    /// An entity by its name: `amp`, `lt`, …
    EntityReference(Name),
    /// A processing instruction: target and data.
    Instruction(Name, String),
}

impl Node {
    /// An element that is always shown, with attributes of one piece each.
    pub fn element(name: &str, attributes: Vec<(&str, Node)>, children: Vec<Node>) -> Node {
        let attributes = attributes.into_iter().map(|(name, value)| Attribute::new(name, value));
        Node::Element(Element::new(name, attributes.collect(), children))
    }

    /// Constant text.
    pub fn text(text: &str) -> Node {
        Node::Text(text.to_owned())
    }

    /// A value of the instance.
    pub fn value(index: u16, value_type: ValueType) -> Node {
        Node::Substitution(Substitution { index, is_optional: false, value_type })
    }

    /// A value of the instance whose absence hides its attribute.
    pub fn optional_value(index: u16, value_type: ValueType) -> Node {
        Node::Substitution(Substitution { index, is_optional: true, value_type })
    }
}

/// An element with its attributes and content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its name.
    pub name: Name,
    /// The value whose absence hides the element.
    pub dependency: Option<u16>,
    /// In order.
    pub attributes: Vec<Attribute>,
    /// In order.
    pub children: Vec<Node>,
    /// Whether it was closed where it was opened: `<Security/>`.
    pub is_empty: bool,
}

impl Element {
    /// An element that is always shown. Without children, it is closed where it is opened.
    pub fn new(name: &str, attributes: Vec<Attribute>, children: Vec<Node>) -> Element {
        let is_empty = children.is_empty();
        Element { name: name.into(), dependency: None, attributes, children, is_empty }
    }
}

/// An attribute. Its value is text and substitutions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: Name,
    /// The pieces of its value.
    pub value: Vec<Node>,
}

impl Attribute {
    /// An attribute whose value is one piece.
    pub fn new(name: &str, value: Node) -> Attribute {
        Attribute { name: name.into(), value: vec![value] }
    }
}

/// A reference to a value of the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// The number of the value.
    pub index: u16,
    /// Whether an absent value hides its attribute.
    pub is_optional: bool,
    /// The type by the template. The value carries its own.
    pub value_type: ValueType,
}

/// Binary XML as it stands in a record or in a value.
#[derive(Clone, Debug)]
pub enum Fragment<'a> {
    /// A template with values: nearly always.
    Instance(Instance<'a>),
    /// Elements without a template.
    Nodes(Vec<Node>),
}

/// A template and the values for it.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    /// The template, shared by the records of a chunk.
    pub template: Arc<Template>,
    /// By number.
    pub arguments: Vec<Argument<'a>>,
    /// Whether a fragment header stands in front of it: always in a record; in values both forms are seen.
    pub has_header: bool,
}

/// A value, or a fragment, for a substitution.
#[derive(Clone, Debug)]
pub enum Argument<'a> {
    /// A value.
    Value(Value<'a>),
    /// Binary XML with a template of its own: the content of `EventData` or `UserData`.
    Fragment(Box<Fragment<'a>>),
}

impl Argument<'_> {
    /// Whether nothing was given.
    pub fn is_null(&self) -> bool {
        match self {
            Argument::Value(value) => value.is_null(),
            Argument::Fragment(_) => false,
        }
    }
}

impl<'a> Fragment<'a> {
    /// The elements and text at the top, and the values for them.
    pub fn content(&self) -> Content<'_, 'a> {
        match self {
            Fragment::Instance(instance) => {
                Content { nodes: &instance.template.nodes, arguments: &instance.arguments }
            }
            Fragment::Nodes(nodes) => Content { nodes, arguments: &[] },
        }
    }
}

/// Nodes and the values for them: what is walked to show or search a record.
#[derive(Clone, Copy, Debug)]
pub struct Content<'f, 'a> {
    /// The nodes.
    pub nodes: &'f [Node],
    /// The values for all substitutions in them.
    pub arguments: &'f [Argument<'a>],
}

impl<'f, 'a> Content<'f, 'a> {
    /// The value of a substitution; an absent one where the record has fewer.
    pub fn argument(&self, index: u16) -> Option<&'f Argument<'a>> {
        self.arguments.get(usize::from(index))
    }

    /// Whether an element is hidden because the value that it depends on is absent. The outermost element is never
    /// hidden: renderers do not ask for it.
    pub fn is_hidden(&self, element: &Element) -> bool {
        element
            .dependency
            .and_then(|index| self.argument(index))
            .is_some_and(|argument| argument.is_null())
    }

    /// The attributes to show: an optional value that is absent hides its attribute.
    pub fn attributes(&self, element: &'f Element) -> impl Iterator<Item = &'f Attribute> {
        let content = *self;
        element.attributes.iter().filter(move |attribute| {
            !attribute.value.iter().any(|node| match node {
                Node::Substitution(one) => {
                    one.is_optional
                        && content.argument(one.index).is_none_or(|argument| argument.is_null())
                }
                _ => false,
            })
        })
    }

    /// The one array that an element's content is: such an element is repeated for each item.
    pub fn repeated(&self, element: &Element) -> Option<Value<'a>> {
        let [Node::Substitution(one)] = &element.children[..] else { return None };
        match self.argument(one.index)? {
            Argument::Value(value) if value.value_type.is_array() => Some(*value),
            _ => None,
        }
    }
}

/// The character of a predefined entity.
pub(crate) fn entity(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => return None,
    })
}

/// The work that rendering may still do.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget(MAX_WORK)
    }

    /// The work that is left.
    pub(crate) fn left(&self) -> usize {
        self.0
    }

    pub(crate) fn spend(&mut self, work: usize) -> Result<(), crate::Error> {
        self.0 = self.0.checked_sub(work).ok_or(crate::Error::TooLarge)?;
        Ok(())
    }
}
