//! The data of a record as named fields: the values beside `System`, in the order of the template.

use crate::json::push_plain;
use crate::tree::{Argument, Attribute, Budget, Content, Element, MAX_DEPTH, Node};
use crate::value::Value;
use crate::{Error, Record};

/// A field of a record: a `Data` or `ComplexData` element by its `Name`, any other element by its own name.
///
/// A name that occurs again among the same siblings is numbered: `Data`, `Data#2`.
#[derive(Clone, Debug, PartialEq)]
pub struct DataField<'a> {
    /// The name.
    pub name: String,
    /// The content.
    pub content: FieldContent<'a>,
}

/// The content of a [`DataField`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldContent<'a> {
    /// A typed value; [`Value::NULL`] for an element without content.
    Value(Value<'a>),
    /// Text with values in it.
    Text(String),
    /// Attributes (`#attributes`), elements and text (`#text`) of an element that has more than a value.
    Fields(Vec<DataField<'a>>),
}

impl<'a> Record<'a> {
    /// The fields of `EventData`, `UserData` or whatever stands beside `System`.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the record expands beyond [`MAX_WORK`](crate::tree::MAX_WORK).
    pub fn fields(&self) -> Result<Vec<DataField<'a>>, Error> {
        let mut list = List::default();
        let data = self.data();
        let data = data.iter().find(|(element, _)| &*element.name != RENDERING);
        if let Some((element, content)) = data {
            list.members(&element.children, *content, &mut Budget::new(), 0)?;
        }
        Ok(list.fields)
    }

    /// The `Name` of its `EventData`: the name of an event without an id.
    pub fn data_name(&self) -> Option<String> {
        let data = self.data();
        let (element, content) = data.iter().find(|(element, _)| &*element.name == "EventData")?;
        let attribute = content.attributes(element).find(|one| &*one.name == "Name")?;
        let mut name = String::new();
        push_plain(&mut name, &attribute.value, *content, &mut Budget::new()).ok()?;
        Some(name).filter(|name| !name.is_empty())
    }

    /// The message that was stored with the record, as a forwarded event has it.
    pub fn rendered_message(&self) -> Option<String> {
        let data = self.data();
        let (rendering, content) = data.iter().find(|(element, _)| &*element.name == RENDERING)?;
        let message = rendering.children.iter().find_map(|node| match node {
            Node::Element(element) if &*element.name == "Message" => Some(element),
            _ => None,
        })?;
        let mut text = String::new();
        push_plain(&mut text, &message.children, *content, &mut Budget::new()).ok()?;
        Some(text).filter(|text| !text.is_empty())
    }
}

const RENDERING: &str = "RenderingInfo";

/// Fields of the same parent.
#[derive(Default)]
struct List<'a> {
    fields: Vec<DataField<'a>>,
    names: Vec<(String, usize)>,
}

impl<'a> List<'a> {
    fn push(&mut self, name: &str, content: FieldContent<'a>) {
        let name = match self.names.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => {
                *count += 1;
                format!("{name}#{count}")
            }
            None => {
                self.names.push((name.to_owned(), 1));
                name.to_owned()
            }
        };
        self.fields.push(DataField { name, content });
    }

    fn members(
        &mut self,
        nodes: &[Node],
        content: Content<'_, 'a>,
        budget: &mut Budget,
        depth: usize,
    ) -> Result<(), Error> {
        // Looking a name up costs as much as there are names.
        budget.spend(1 + self.names.len() / 8)?;
        if depth > MAX_DEPTH {
            return Err(Error::TooLarge);
        }
        for node in nodes {
            budget.spend(1)?;
            match node {
                Node::Element(element) if !content.is_hidden(element) => {
                    self.element(element, content, budget, depth)?;
                }
                Node::Substitution(one) => {
                    if let Some(Argument::Fragment(inner)) = content.argument(one.index) {
                        let inner = inner.content();
                        self.members(inner.nodes, inner, budget, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn element(
        &mut self,
        element: &Element,
        content: Content<'_, 'a>,
        budget: &mut Budget,
        depth: usize,
    ) -> Result<(), Error> {
        let attributes: Vec<&Attribute> = content.attributes(element).collect();
        let is_named = matches!(&*element.name, "Data" | "ComplexData")
            && attributes.len() == 1
            && &*attributes[0].name == "Name";
        let mut name = String::new();
        match is_named {
            true => push_plain(&mut name, &attributes[0].value, content, budget)?,
            false => name.push_str(&element.name),
        }
        let attributes = if is_named { Vec::new() } else { attributes };
        let Some(array) = content.repeated(element) else {
            let one = inner(element, &attributes, None, content, budget, depth)?;
            self.push(&name, one);
            return Ok(());
        };
        for item in array.items() {
            budget.spend(1 + self.names.len() / 8)?;
            let one = inner(element, &attributes, Some(item), content, budget, depth)?;
            self.push(&name, one);
        }
        Ok(())
    }
}

/// The content of an element; `item` stands for it in an element that is repeated.
fn inner<'a>(
    element: &Element,
    attributes: &[&Attribute],
    item: Option<Value<'a>>,
    content: Content<'_, 'a>,
    budget: &mut Budget,
    depth: usize,
) -> Result<FieldContent<'a>, Error> {
    let has_elements = item.is_none()
        && element.children.iter().any(|node| match node {
            Node::Element(_) => true,
            Node::Substitution(one) => {
                matches!(content.argument(one.index), Some(Argument::Fragment(_)))
            }
            _ => false,
        });
    let text = |budget: &mut Budget| match item {
        Some(item) => Ok(FieldContent::Value(item)),
        None => pieces(&element.children, content, budget),
    };
    if attributes.is_empty() && !has_elements {
        return text(budget);
    }
    let mut list = List::default();
    if !attributes.is_empty() {
        let mut values = List::default();
        for attribute in attributes {
            values.push(&attribute.name, pieces(&attribute.value, content, budget)?);
        }
        list.push("#attributes", FieldContent::Fields(values.fields));
    }
    if has_elements {
        list.members(&element.children, content, budget, depth + 1)?;
    } else if !element.children.is_empty() {
        list.push("#text", text(budget)?);
    }
    Ok(FieldContent::Fields(list.fields))
}

/// One value alone keeps its type; anything else is text.
fn pieces<'a>(
    nodes: &[Node],
    content: Content<'_, 'a>,
    budget: &mut Budget,
) -> Result<FieldContent<'a>, Error> {
    budget.spend(1)?;
    Ok(match nodes {
        [] => FieldContent::Value(Value::NULL),
        [Node::Substitution(one)] => match content.argument(one.index) {
            Some(Argument::Value(value)) => FieldContent::Value(*value),
            _ => FieldContent::Value(Value::NULL),
        },
        _ => {
            let mut text = String::new();
            push_plain(&mut text, nodes, content, budget)?;
            FieldContent::Text(text)
        }
    })
}
