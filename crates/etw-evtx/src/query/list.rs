//! Structured queries: `QueryList`, as the Event Viewer exports it.
//!
//! ```xml
//! <QueryList>
//!   <Query Id="0" Path="System">
//!     <Select Path="System">*[System[Level=2]]</Select>
//!     <Suppress Path="System">*[System[EventID=7]]</Suppress>
//!   </Query>
//! </QueryList>
//! ```

use std::fmt;

use etw_types::FileTime;
use quick_xml::events::{BytesStart, Event};

use super::{Query, QueryError};
use crate::{Error, Record};

/// Queries over channels and files. A record is in the result if a query selects it and the same query does not
/// suppress it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryList {
    /// In order.
    pub queries: Vec<Selection>,
}

/// One `Query` element.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Records that it selects.
    pub select: Vec<Select>,
    /// Records that it removes from the selection.
    pub suppress: Vec<Select>,
}

/// A channel, or `file://` and a path, and what is taken from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// The channel or file.
    pub path: String,
    /// The selected records.
    pub query: Query,
}

/// A `QueryList` that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListError {
    /// The XML is not well-formed.
    Xml {
        /// Byte of the text.
        offset: u64,
        /// The XML parser's error.
        source: quick_xml::Error,
    },
    /// An element that does not belong there, or one without a path.
    Structure {
        /// Byte of the text.
        offset: u64,
        /// The expectation that was not met.
        expected: &'static str,
    },
    /// A query in it.
    Query {
        /// Byte of the text.
        offset: u64,
        /// The position and the reason.
        source: QueryError,
    },
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListError::Xml { offset, source } => write!(f, "query list, byte {offset}: {source}"),
            ListError::Structure { offset, expected } => {
                write!(f, "query list, byte {offset}: expected {expected}")
            }
            ListError::Query { offset, source } => {
                write!(f, "query list, query at byte {offset}: {source}")
            }
        }
    }
}

impl std::error::Error for ListError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ListError::Xml { source, .. } => Some(source),
            ListError::Query { source, .. } => Some(source),
            ListError::Structure { .. } => None,
        }
    }
}

impl QueryList {
    /// A list with one query on one path.
    pub fn of(path: impl Into<String>, query: Query) -> QueryList {
        let select = vec![Select { path: path.into(), query }];
        QueryList { queries: vec![Selection { select, suppress: Vec::new() }] }
    }

    /// Reads a `QueryList`.
    ///
    /// # Errors
    /// [`ListError`], with the byte at which it was found.
    pub fn parse(text: &str) -> Result<QueryList, ListError> {
        let mut reader = quick_xml::Reader::from_str(text);
        let mut list = QueryList::default();
        let (mut is_in_list, mut is_in_query, mut is_closed) = (false, false, false);
        let mut default_path = String::new();
        loop {
            let offset = reader.buffer_position();
            let structure = |expected| ListError::Structure { offset, expected };
            let event = reader.read_event().map_err(|source| ListError::Xml { offset, source })?;
            match event {
                Event::Start(start) => match start.name().as_ref() {
                    b"QueryList" if !is_in_list => is_in_list = true,
                    b"Query" if is_in_list && !is_in_query => {
                        is_in_query = true;
                        default_path = path_of(&start).unwrap_or_default();
                        list.queries.push(Selection::default());
                    }
                    name @ (b"Select" | b"Suppress") if is_in_query => {
                        let is_select = name == b"Select";
                        let path = path_of(&start).unwrap_or_else(|| default_path.clone());
                        if path.is_empty() {
                            return Err(structure("a Path attribute"));
                        }
                        let inner = reader
                            .read_text(start.name())
                            .map_err(|source| ListError::Xml { offset, source })?;
                        let inner = quick_xml::escape::unescape(&inner)
                            .map_err(|_| structure("known entities"))?
                            .into_owned();
                        let query = inner
                            .trim()
                            .parse()
                            .map_err(|source| ListError::Query { offset, source })?;
                        let Some(last) = list.queries.last_mut() else {
                            return Err(structure("Query around Select"));
                        };
                        let into = if is_select { &mut last.select } else { &mut last.suppress };
                        into.push(Select { path, query });
                    }
                    _ => return Err(structure("QueryList, Query, Select or Suppress")),
                },
                Event::End(end) if end.name().as_ref() == b"Query" => is_in_query = false,
                Event::Empty(_) => return Err(structure("an element with a query in it")),
                Event::Text(text) if !text.iter().all(u8::is_ascii_whitespace) => {
                    return Err(structure("Select or Suppress around a query"));
                }
                Event::End(end) if end.name().as_ref() == b"QueryList" => is_closed = true,
                Event::Eof if is_closed => return Ok(list),
                Event::Eof if is_in_list => return Err(structure("the end of QueryList")),
                Event::Eof => return Err(structure("QueryList")),
                _ => {}
            }
        }
    }

    /// Whether a record of a channel or file is in the result.
    ///
    /// # Errors
    /// As [`Query::matches`].
    pub fn matches(&self, path: &str, record: &Record<'_>, now: FileTime) -> Result<bool, Error> {
        for one in &self.queries {
            if any(&one.select, path, record, now)? && !any(&one.suppress, path, record, now)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The channels and files that the list selects from, each once.
    pub fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = Vec::new();
        for select in self.queries.iter().flat_map(|one| &one.select) {
            if !paths.iter().any(|known| is_same(known, &select.path)) {
                paths.push(&select.path);
            }
        }
        paths
    }

    /// The file that a path of a list names: what follows `file://`. `None`: the path names a channel.
    pub fn file_of(path: &str) -> Option<&str> {
        let (scheme, file) = path.split_at_checked(FILE.len())?;
        scheme.eq_ignore_ascii_case(FILE).then_some(file)
    }
}

const FILE: &str = "file://";

/// Whether two paths of a list name the same channel, or the same file: names of channels have no case, those of files may.
fn is_same(one: &str, other: &str) -> bool {
    match (QueryList::file_of(one), QueryList::file_of(other)) {
        (Some(one), Some(other)) if !cfg!(windows) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}

fn any(selects: &[Select], path: &str, record: &Record<'_>, now: FileTime) -> Result<bool, Error> {
    for select in selects.iter().filter(|select| is_same(&select.path, path)) {
        if select.query.matches(record, now)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn path_of(start: &BytesStart<'_>) -> Option<String> {
    let attribute = start.try_get_attribute("Path").ok()??;
    Some(attribute.unescape_value().ok()?.into_owned())
}
