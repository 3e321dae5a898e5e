//! [`ValuePath`]: the value of one node of an event, by its path.

use std::str::FromStr;

use super::{Path, QueryError, eval, parser};
use crate::value::Value;
use crate::{Error, Record};

/// A path to a value, as render contexts of Windows name it: `Event/System/Provider/@Name`,
/// `Event/EventData/Data[@Name='User']`.
#[derive(Clone, Debug, PartialEq)]
pub struct ValuePath(Path);

/// The content of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeValue<'a> {
    /// One typed value.
    Value(Value<'a>),
    /// Text.
    Text(String),
}

impl FromStr for ValuePath {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<ValuePath, QueryError> {
        Ok(ValuePath(parser::parse(text)?))
    }
}

impl ValuePath {
    /// The content of the first node that the path leads to; `None`: there is no such node.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: finding it would take more work than is allowed.
    pub fn value<'a>(&self, record: &Record<'a>) -> Result<Option<NodeValue<'a>>, Error> {
        eval::first_value(&self.0, record.fragment())
    }
}
