//! Schemas from TraceLogging metadata, which travels with each event.

pub mod program;

use crate::field::{Count, Field, Kind, Length};
use crate::schema::{Names, Schema};
use etw_tracelogging::{self as tl, EventMetadata, FieldType, InType, Show, Wire, tdh};
use std::collections::VecDeque;
use std::fmt;

/// Why metadata gives no schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The blob itself is bad.
    Metadata(tl::MetadataError),
    /// A field's type cannot be decoded.
    Type {
        /// The name of the field.
        field: String,
        /// The in-type.
        in_type: u8,
    },
    /// The blob ends before a struct has all of its fields.
    StructFields {
        /// The name of the struct.
        field: String,
    },
    /// Structs nested deeper than any encoder writes.
    Depth,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaError::Metadata(error) => write!(f, "{error}"),
            SchemaError::Type { field, in_type } => {
                write!(f, "field {field:?} has the in-type {in_type}, which has no known encoding")
            }
            SchemaError::StructFields { field } => {
                write!(f, "struct {field:?} has fewer fields than it says")
            }
            SchemaError::Depth => f.write_str("structs nested too deeply"),
        }
    }
}

impl std::error::Error for SchemaError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SchemaError::Metadata(error) => Some(error),
            _ => None,
        }
    }
}

/// Deeper than any encoder nests, shallow enough for the stack.
const DEPTH: usize = 60;

/// Compiles the metadata blob of an event (extended item 11).
///
/// # Errors
/// Bad metadata. A type without a known encoding makes the schema [incomplete](Schema::incomplete).
pub fn schema(blob: &[u8]) -> Result<Schema, SchemaError> {
    let metadata = EventMetadata::parse(blob).map_err(SchemaError::Metadata)?;
    let mut source = metadata.fields();
    let mut nodes = Vec::new();
    let mut incomplete = None;
    loop {
        match read_node(&mut source, 0) {
            Ok(Some(node)) => nodes.push(node),
            Ok(None) => break,
            // A field of an unknown type costs the fields behind it.
            Err(error @ SchemaError::Type { .. }) => {
                incomplete = Some(error.to_string().into_boxed_str());
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let names = Names {
        event: Some(String::from_utf8_lossy(metadata.name()).into_owned()),
        ..Names::default()
    };
    let (fields, top_level) = flatten(nodes);
    let mut schema = Schema::new(names, fields, top_level);
    schema.tag = metadata.tag();
    schema.incomplete = incomplete;
    Ok(schema)
}

struct Node {
    field: Field,
    members: Vec<Node>,
}

fn read_node(source: &mut tl::Fields<'_>, depth: usize) -> Result<Option<Node>, SchemaError> {
    let Some(field) = source.next() else { return Ok(None) };
    let field = field.map_err(SchemaError::Metadata)?;
    let name = String::from_utf8_lossy(field.name).into_owned();
    let count = match field.count {
        tl::Count::Scalar => Count::One,
        tl::Count::Fixed(count) => Count::Fixed(count),
        tl::Count::Variable => Count::Prefixed,
    };
    let mut compiled = Field::new(name, Wire::Nothing, Show::Plain);
    compiled.count = count;
    compiled.tag = field.tag;
    let mut members = Vec::new();
    if let Some(custom) = field.custom {
        compiled.kind = Kind::Custom { protocol: custom.protocol, schema: custom.schema.into() };
        compiled.types = (tdh::InType::BINARY, tdh::OutType::HEXBINARY);
    } else if field.in_type == InType::STRUCT {
        if depth >= DEPTH {
            return Err(SchemaError::Depth);
        }
        for _ in 0..field.struct_field_count {
            let Some(member) = read_node(source, depth + 1)? else {
                return Err(SchemaError::StructFields { field: compiled.name });
            };
            members.push(member);
        }
        // The range is filled in when the members have their indices.
        compiled.kind = Kind::Struct { first: 0, count: 0 };
    } else {
        let Some(known) = FieldType::new(field.in_type, field.out_type) else {
            return Err(SchemaError::Type { field: compiled.name, in_type: field.in_type.0 });
        };
        compiled.kind = Kind::Scalar { wire: known.wire, show: known.show };
        compiled.types = known.tdh;
        compiled.no_print = known.no_print;
    }
    Ok(Some(Node { field: compiled, members }))
}

/// Members whose struct has its index.
type Pending = VecDeque<(usize, Vec<Node>)>;

/// Lays the tree out: siblings side by side, members behind their struct.
fn flatten(nodes: Vec<Node>) -> (Vec<Field>, usize) {
    let mut fields = Vec::new();
    let mut pending = Pending::new();
    lay_out(nodes, &mut fields, &mut pending);
    let top_level = fields.len();
    while let Some((owner, members)) = pending.pop_front() {
        let first = fields.len();
        lay_out(members, &mut fields, &mut pending);
        fields[owner].kind = Kind::Struct { first, count: fields.len() - first };
    }
    (fields, top_level)
}

/// A custom field becomes two, as TDH has it: `<name>.Length` and the value whose length that is.
fn lay_out(nodes: Vec<Node>, fields: &mut Vec<Field>, pending: &mut Pending) {
    for Node { mut field, members } in nodes {
        if matches!(field.kind, Kind::Custom { .. }) {
            let mut length = Field::new(format!("{}.Length", field.name), Wire::U16, Show::Plain);
            length.is_custom_length = true;
            field.length = Length::Field(fields.len());
            fields.push(length);
        }
        if matches!(field.kind, Kind::Struct { .. }) {
            pending.push_back((fields.len(), members));
        }
        fields.push(field);
    }
}
