//! One record of a log.

use etw_types::FileTime;

use crate::system::System;
use crate::tree::{Argument, Content, Element, Fragment, Node};
use crate::{Error, json, xml};

/// A record: one event, as binary XML, with the number and time that the log gave it.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    pub(crate) id: u64,
    pub(crate) time: FileTime,
    pub(crate) offset: u64,
    pub(crate) fragment: Fragment<'a>,
}

impl<'a> Record<'a> {
    /// Its number. Numbers rise for ever, over wraps and clears.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// When the log received it. The event's own time is [`System::time`].
    pub fn time(&self) -> FileTime {
        self.time
    }

    /// Offset of the record in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The event as a tree.
    pub fn fragment(&self) -> &Fragment<'a> {
        &self.fragment
    }

    /// The fields of the event's `System` element.
    pub fn system(&self) -> System<'_> {
        System::of(&self.fragment)
    }

    /// The event as XML, in the form of Windows: one line, attributes in single quotes.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn to_xml(&self) -> Result<String, Error> {
        let mut out = String::with_capacity(1024);
        xml::push(&mut out, &self.fragment)?;
        Ok(out)
    }

    /// The event as one JSON object.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn to_json(&self) -> Result<String, Error> {
        let mut out = String::new();
        json::push(&mut out, &self.fragment)?;
        Ok(out)
    }

    /// `EventData`, `UserData` or whatever stands beside `System`, with the values for it.
    pub fn data(&self) -> Vec<(&Element, Content<'_, 'a>)> {
        let mut found = Vec::new();
        let outer = self.fragment.content();
        for node in outer.nodes {
            let Node::Element(event) = node else { continue };
            for child in &event.children {
                match child {
                    Node::Element(element) if &*element.name != "System" => {
                        found.push((element, outer));
                    }
                    Node::Substitution(one) => {
                        let Some(Argument::Fragment(inner)) = outer.argument(one.index) else {
                            continue;
                        };
                        let content = inner.content();
                        found.extend(content.nodes.iter().filter_map(|node| match node {
                            Node::Element(element) => Some((element, content)),
                            _ => None,
                        }));
                    }
                    _ => {}
                }
            }
        }
        found
    }
}
