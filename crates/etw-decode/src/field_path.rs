//! Paths to fields (`"Items[1].Sku"`): resolved against a schema, followed through a walk that decodes one field.

use crate::decoded::Decoded;
use crate::field::{Field, Kind};
use crate::fields::{Builder, FieldValue};
use crate::from_field::FromField;
use crate::reason::Reason;
use crate::schema::Schema;
use crate::value::Value;
use crate::visitor::Visitor;
use crate::walk::PayloadError;
use etw_types::EventRecord;
use std::fmt;

impl Decoded<'_> {
    /// Decodes one field as `T`; see [`Event::get`](crate::Event::get).
    ///
    /// # Errors
    /// [`FieldError`].
    pub fn get<T: FromField>(&self, record: &EventRecord<'_>, path: &str) -> Result<T, FieldError> {
        let value = self.field(record, path)?;
        T::from_field(value).map_err(|found| FieldError::Type {
            path: path.to_owned(),
            expected: T::EXPECTED,
            found,
        })
    }

    /// Decodes one field, whatever its type; see [`Event::get`](crate::Event::get).
    ///
    /// # Errors
    /// [`FieldError`], except `Type`.
    pub fn field(&self, record: &EventRecord<'_>, path: &str) -> Result<FieldValue, FieldError> {
        let Some(schema) = self.schema() else {
            return Err(FieldError::NotDecoded(self.reason().cloned()));
        };
        let steps = resolve(schema, path)?;
        let mut selector = Selector {
            steps: &steps,
            inside: Vec::new(),
            builder: Builder::new(),
            building: 0,
            state: State::Searching,
        };
        let walked = self.visit(record, &mut selector);
        if let State::NoElement { index, count } = selector.state {
            return Err(FieldError::NoElement { path: path.to_owned(), index, count });
        }
        // A value that the end of the payload cuts is closed, too.
        walked.map_err(FieldError::Payload)?;
        match selector.state {
            State::Found => Ok(selector.builder.into_value().unwrap_or(FieldValue::Null)),
            _ => Err(FieldError::NotInPayload { path: path.to_owned() }),
        }
    }
}

/// Why a field has no value of the requested type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldError {
    /// The record has no schema, for this reason.
    NotDecoded(Option<Reason>),
    /// The schema has no such field.
    NoField {
        /// The whole path.
        path: String,
        /// The part of it that names no field.
        name: String,
    },
    /// The path leads through an array without an index.
    NeedsIndex {
        /// The whole path.
        path: String,
        /// The array.
        array: String,
    },
    /// The path has an index behind a field that is not an array.
    NotAnArray {
        /// The whole path.
        path: String,
        /// The field.
        field: String,
    },
    /// The array of this event has fewer elements.
    NoElement {
        /// The whole path.
        path: String,
        /// The requested index.
        index: usize,
        /// How many elements there are.
        count: usize,
    },
    /// The schema lets the payload end early, and this one ends before the field.
    NotInPayload {
        /// The whole path.
        path: String,
    },
    /// The value is of another type, or outside the range of the requested type.
    Type {
        /// The whole path.
        path: String,
        /// The requested type.
        expected: &'static str,
        /// The value.
        found: FieldValue,
    },
    /// The payload ends before the field.
    Payload(PayloadError),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldError::NotDecoded(Some(_)) => f.write_str("the record is not decoded"),
            FieldError::NotDecoded(None) => f.write_str("the record has no schema"),
            FieldError::NoField { path, name } => {
                write!(f, "field {path:?}: the event has no field {name:?}")
            }
            FieldError::NeedsIndex { path, array } => {
                write!(f, "field {path:?}: {array:?} is an array, write {array}[0]")
            }
            FieldError::NotAnArray { path, field } => {
                write!(f, "field {path:?}: {field:?} is not an array")
            }
            FieldError::NoElement { path, index, count } => {
                write!(f, "field {path:?}: no element {index}, the array has {count}")
            }
            FieldError::NotInPayload { path } => {
                write!(f, "field {path:?}: the payload ends before it")
            }
            FieldError::Type { path, expected, found } => {
                write!(f, "field {path:?}: expected {expected}, found {found:?}")
            }
            FieldError::Payload(_) => f.write_str("the payload does not fit the schema"),
        }
    }
}

impl std::error::Error for FieldError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FieldError::NotDecoded(reason) => reason.as_ref().map(|reason| reason as _),
            FieldError::Payload(error) => Some(error),
            _ => None,
        }
    }
}

/// One field on the way to the wanted one, and the element of it if it is an array.
#[derive(Clone, Copy)]
struct Step<'s> {
    field: &'s Field,
    index: Option<usize>,
}

/// The fields of `schema` that `path` leads through.
fn resolve<'s>(schema: &'s Schema, path: &str) -> Result<Vec<Step<'s>>, FieldError> {
    let mut steps = Vec::new();
    let top = schema.fields.get(..schema.top_level).unwrap_or_default();
    find(schema, top, path, path, &mut steps)?;
    Ok(steps)
}

fn find<'s>(
    schema: &'s Schema,
    siblings: &'s [Field],
    path: &str,
    rest: &str,
    steps: &mut Vec<Step<'s>>,
) -> Result<(), FieldError> {
    // A name may contain a dot or a bracket: longer names first.
    let mut candidates: Vec<(&str, &Field)> = siblings
        .iter()
        .map(|field| (field.unique_name(), field))
        .filter(|(name, _)| {
            let behind = rest.strip_prefix(name);
            behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(['.', '[']))
        })
        .collect();
    candidates.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let mut failure = FieldError::NoField { path: path.to_owned(), name: rest[..end].to_owned() };
    let known = steps.len();
    for (name, field) in candidates {
        match follow(schema, field, path, &rest[name.len()..], steps) {
            Ok(()) => return Ok(()),
            Err(error) => failure = error,
        }
        steps.truncate(known);
    }
    Err(failure)
}

/// Adds the step to `field`, and those to what `behind` names inside it.
fn follow<'s>(
    schema: &'s Schema,
    field: &'s Field,
    path: &str,
    behind: &str,
    steps: &mut Vec<Step<'s>>,
) -> Result<(), FieldError> {
    let no_field =
        |name: &str| FieldError::NoField { path: path.to_owned(), name: name.to_owned() };
    let (index, behind) = match behind.strip_prefix('[') {
        None => (None, behind),
        Some(_) if !field.is_array() => {
            return Err(FieldError::NotAnArray {
                path: path.to_owned(),
                field: field.name.clone(),
            });
        }
        Some(rest) => {
            let (index, rest) = rest.split_once(']').ok_or_else(|| no_field(behind))?;
            (Some(index.parse().map_err(|_| no_field(behind))?), rest)
        }
    };
    steps.push(Step { field, index });
    if behind.is_empty() {
        return Ok(());
    }
    let inner = behind.strip_prefix('.').ok_or_else(|| no_field(behind))?;
    if field.is_array() && index.is_none() {
        return Err(FieldError::NeedsIndex { path: path.to_owned(), array: field.name.clone() });
    }
    let Kind::Struct { first, count } = field.kind else { return Err(no_field(inner)) };
    let members = schema.fields.get(first..first.saturating_add(count)).unwrap_or_default();
    find(schema, members, path, inner, steps)
}

enum State {
    Searching,
    Found,
    NoElement { index: usize, count: usize },
}

/// The position of a walk inside an open array or struct.
struct Inside<'s> {
    /// The step that the array or struct is, if the walk is on the way.
    step: Option<Step<'s>>,
    is_array: bool,
    /// The element that comes next.
    next: usize,
}

/// Builds the value that the steps lead to, and ends the walk behind it.
struct Selector<'s> {
    steps: &'s [Step<'s>],
    inside: Vec<Inside<'s>>,
    builder: Builder,
    /// Arrays and structs of the wanted value that are open, plus one; 0 outside of it.
    building: usize,
    state: State,
}

impl<'s> Selector<'s> {
    /// The step that a value, array or struct of `field` is, if it is on the way.
    fn enter(&mut self, field: &Field) -> Option<Step<'s>> {
        if let Some(Inside { step, is_array: true, next }) = self.inside.last_mut() {
            let element = *next;
            *next += 1;
            return step.filter(|step| step.index == Some(element));
        }
        let depth = self.inside.iter().filter(|inside| !inside.is_array).count();
        let is_on_the_way = self.inside.last().is_none_or(|inside| inside.step.is_some());
        let step = *self.steps.get(depth).filter(|_| is_on_the_way)?;
        std::ptr::eq(step.field, field).then_some(step)
    }

    fn is_last(&self, step: Step<'_>) -> bool {
        self.steps.last().is_some_and(|last| std::ptr::eq(last.field, step.field))
            && self.inside.iter().filter(|inside| !inside.is_array).count() + 1 == self.steps.len()
    }

    fn close(&mut self) {
        self.building = self.building.saturating_sub(1);
        if self.building == 1 && self.builder.has_whole_value() {
            self.building = 0;
            self.state = State::Found;
        }
    }
}

impl Visitor for Selector<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if self.building > 0 {
            return self.builder.value(field, value);
        }
        if let Some(step) = self.enter(field) {
            if self.is_last(step) {
                self.builder.value(field, value);
                self.state = State::Found;
            }
        }
    }

    fn begin_array(&mut self, field: &Field, count: usize) {
        if self.building > 0 {
            self.building += 1;
            return self.builder.begin_array(field, count);
        }
        let step = self.enter(field);
        match step {
            Some(step) if step.index.is_none() => {
                self.building = 2;
                self.builder.begin_array(field, count);
            }
            Some(Step { index: Some(index), .. }) if index >= count => {
                self.state = State::NoElement { index, count };
            }
            step => self.inside.push(Inside { step, is_array: true, next: 0 }),
        }
    }

    fn end_array(&mut self, field: &Field) {
        if self.building > 0 {
            self.builder.end_array(field);
            return self.close();
        }
        self.inside.pop();
    }

    fn begin_struct(&mut self, field: &Field) {
        if self.building > 0 {
            self.building += 1;
            return self.builder.begin_struct(field);
        }
        match self.enter(field) {
            Some(step) if self.is_last(step) => {
                self.building = 2;
                self.builder.begin_struct(field);
            }
            step => self.inside.push(Inside { step, is_array: false, next: 0 }),
        }
    }

    fn end_struct(&mut self, field: &Field) {
        if self.building > 0 {
            self.builder.end_struct(field);
            return self.close();
        }
        self.inside.pop();
    }

    fn is_done(&self) -> bool {
        !matches!(self.state, State::Searching)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Decoder, Event};
    use etw_types::HeaderType;
    use std::sync::Arc;

    const MANIFEST: &str = r#"<m><provider name="P" guid="{00000000-0000-0000-0000-000000000001}"><templates><template tid="T">
      <data name="Count" inType="win:UInt32"/><data name="Name" inType="win:UnicodeString"/><data name="List" inType="win:Int16" count="2"/>
      <struct name="At"><data name="X" inType="win:Double"/><data name="Raw" inType="win:Binary" length="2"/></struct>
      <struct name="Items" count="2"><data name="Sku" inType="win:UInt8"/><data name="Codes" inType="win:UInt8" count="2"/></struct>
      <data name="a.b" inType="win:UInt8"/><data name="Count" inType="win:UInt8"/></template></templates>
      <events><event value="1" template="T"/></events></provider></m>"#;

    fn payload() -> Vec<u8> {
        let x = 0.5f64.to_le_bytes();
        [
            &7u32.to_le_bytes()[..],
            b"h\0i\0\0\0",
            &[0xff, 0xff, 2, 0],
            &x,
            &[1, 2],
            b"abcdef",
            b"\x09\x0a",
        ]
        .concat()
    }

    /// Runs `check` on the event with the given payload.
    fn with_event<R>(payload: &[u8], check: impl FnOnce(&Event<'_>) -> R) -> R {
        let mut catalog = Catalog::default();
        catalog.add_manifest(MANIFEST.as_bytes()).unwrap();
        let mut decoder = Decoder::new();
        decoder.set_catalog(Arc::new(catalog));
        let mut record = EventRecord::new(HeaderType::Event64, payload);
        record.provider = "00000000-0000-0000-0000-000000000001".parse().ok();
        record.descriptor.id = 1;
        check(&decoder.decode_event(&record))
    }

    #[test]
    fn fields_are_found_by_path_and_converted_to_the_type_asked_for() {
        with_event(&payload(), |event| {
            assert_eq!(event.get::<u32>("Count"), Ok(7));
            assert_eq!(event.get::<u8>("Count"), Ok(7));
            assert_eq!(event.get::<u8>("Count#2"), Ok(10));
            assert_eq!(event.get::<String>("Name").as_deref(), Ok("hi"));
            assert_eq!(event.get::<Vec<i16>>("List"), Ok(vec![-1, 2]));
            assert_eq!(event.get::<i64>("List[0]"), Ok(-1));
            assert_eq!(event.get::<f64>("At.X"), Ok(0.5));
            assert_eq!(event.get::<Vec<u8>>("At.Raw"), Ok(vec![1, 2]));
            assert_eq!(event.get::<u8>("Items[1].Sku"), Ok(b'd'));
            assert_eq!(event.get::<u8>("Items[0].Codes[1]"), Ok(b'c'));
            assert_eq!(event.get::<Vec<u8>>("Items[1].Codes"), Ok(b"ef".to_vec()));
            assert_eq!(event.get::<u8>("a.b"), Ok(9));
            let items: Vec<FieldValue> = event.get("Items").unwrap();
            assert_eq!(items[1].get("Sku").unwrap().as_u64(), Some(b'd'.into()));
            let at: FieldValue = event.get("Items[1]").unwrap();
            assert_eq!(at.get("Sku").unwrap().as_u64(), Some(b'd'.into()));
            assert_eq!(event.fields().unwrap().unwrap().len(), 7);
        });
    }

    #[test]
    fn errors_name_the_path_and_what_was_found() {
        with_event(&payload(), |event| {
            let error = |path| event.get::<u8>(path).unwrap_err();
            for (path, expected) in [
                ("Nothing", "field \"Nothing\": the event has no field \"Nothing\""),
                ("At.Y", "field \"At.Y\": the event has no field \"Y\""),
                ("Name.X", "field \"Name.X\": the event has no field \"X\""),
                ("Count[0]", "field \"Count[0]\": \"Count\" is not an array"),
                ("Items.Sku", "field \"Items.Sku\": \"Items\" is an array, write Items[0]"),
                ("Items[2].Sku", "field \"Items[2].Sku\": no element 2, the array has 2"),
                ("List[9]", "field \"List[9]\": no element 9, the array has 2"),
                ("List[x]", "field \"List[x]\": the event has no field \"[x]\""),
                ("List[0", "field \"List[0\": the event has no field \"[0\""),
                ("", "field \"\": the event has no field \"\""),
                ("Name", "field \"Name\": expected u8, found Text(\"hi\")"),
                ("List[0]", "field \"List[0]\": expected u8, found Int(-1)"),
            ] {
                assert_eq!(error(path).to_string(), expected);
            }
        });
    }

    #[test]
    fn fields_before_the_end_of_a_short_payload_are_read() {
        with_event(&payload()[..13], |event| {
            assert_eq!(event.get::<u32>("Count"), Ok(7));
            assert!(event.get::<Vec<i16>>("List").is_err());
            assert_eq!(event.get::<i16>("List[0]"), Ok(-1));
            let error = event.get::<u8>("a.b").unwrap_err();
            assert!(
                matches!(&error, FieldError::Payload(PayloadError::Short { field, .. }) if field == "List")
            );
            assert!(std::error::Error::source(&error).is_some());
            assert!(event.fields().is_err());
        });
    }

    #[test]
    fn a_record_without_a_schema_says_why() {
        let record = EventRecord::new(HeaderType::Event64, &[1]);
        let mut decoder = Decoder::new();
        let event = decoder.decode_event(&record);
        let error = event.get::<u8>("Count").unwrap_err();
        assert_eq!(error, FieldError::NotDecoded(Some(Reason::NoManifest)));
    }
}
