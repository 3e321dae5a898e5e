//! Names and types of an event's fields, in one form for every source.

use crate::extent::LazyExtent;
use crate::field::{Count, Field, Kind, Length, name_siblings};
use crate::layout::lost_struct;
use crate::message::Message;
use crate::wpp::format::WppFormat;
use etw_types::EventDescriptor;
use std::sync::Arc;

/// The names and fields of an event.
///
/// Fields have the layout of TRACE_EVENT_INFO: the fields of the event come first, members of structs behind them, and each struct
/// names a range further back. So no struct can contain itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// Names of the provider, the event and its parts.
    pub names: Names,
    /// All fields, members of structs included.
    pub fields: Vec<Field>,
    /// How many of them are the event's own.
    pub top_level: usize,
    /// The message of the event.
    pub message: Option<Message>,
    /// The language of the message, or of the names if there is none: `en-US`. `und`: its source does not say. `None`: it has no
    /// texts that are translated.
    pub language: Option<Arc<str>>,
    /// 28 bits whose meaning the provider and its consumers define.
    pub tag: u32,
    /// The numbers that the manifest gives the event.
    pub descriptor: Option<EventDescriptor>,
    /// Why fields at the end are unknown, if they are: the payload's bytes behind the last known field are its rest.
    pub incomplete: Option<Box<str>>,
    /// The name of the file or of the pack's source that it comes from, if that is known.
    pub origin: Option<Arc<str>>,
    /// Whether lengths or counts of fields are values of other fields.
    pub(crate) has_references: bool,
    /// Fields at the end may be missing: the walk ends where the payload does.
    pub(crate) ends_early: bool,
    /// The first field that builds of one version may lack. A record that lacks a field before it was cut.
    pub(crate) optional_from: usize,
    /// It describes only payloads that its fields fill: its layout is known from one source, or differs between builds.
    pub(crate) needs_exact_fit: bool,
    /// The bytes behind the walked fields are text, compressed with LZNT1: the field behind them, and its size is the last number.
    pub(crate) ends_compressed: bool,
    /// The text of a WPP message, which replaces `message`.
    pub(crate) wpp: Option<Box<WppFormat>>,
    /// The known bounds of the size of its payloads.
    pub(crate) extent: LazyExtent,
}

/// Names from a schema, as far as it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Names {
    pub provider: Option<String>,
    pub event: Option<String>,
    pub level: Option<String>,
    pub channel: Option<String>,
    pub task: Option<String>,
    pub opcode: Option<String>,
    pub keywords: Vec<String>,
}

impl Names {
    /// The event's name; else its task, plus `/` and its opcode unless that is Info.
    pub fn resolve_event(&mut self) {
        if self.event.is_some() {
            return;
        }
        let plain = |name: &Option<String>| {
            name.as_deref().map(|name| name.strip_prefix("win:").unwrap_or(name).to_string())
        };
        let opcode = plain(&self.opcode).filter(|name| name != "Info");
        self.event = match (plain(&self.task), opcode) {
            (Some(task), Some(opcode)) => Some(format!("{task}/{opcode}")),
            (task, _) => task,
        };
    }
}

impl Names {
    /// The names without that of an event that [`resolve_event`](Names::resolve_event) made of its task and opcode.
    pub fn without_made_event(&self) -> Names {
        let mut names = Names { event: None, ..self.clone() };
        let mut made = names.clone();
        made.resolve_event();
        if made.event != self.event {
            names.event.clone_from(&self.event);
        }
        names
    }
}

impl Schema {
    /// Creates a schema; the first `top_level` fields are those of the event.
    pub fn new(names: Names, mut fields: Vec<Field>, top_level: usize) -> Schema {
        let top_level = top_level.min(fields.len());
        name_siblings(&mut fields[..top_level]);
        for index in 0..fields.len() {
            if let Kind::Struct { first, count } = fields[index].kind {
                // Members behind their struct; a range that several structs share gets the same names again.
                let range = first..first.saturating_add(count);
                if first > index {
                    if let Some(members) = fields.get_mut(range) {
                        name_siblings(members);
                    }
                }
            }
        }
        let refers = |field: &Field| {
            matches!(field.count, Count::Field(_)) || matches!(field.length, Length::Field(_))
        };
        Schema {
            has_references: fields.iter().any(refers),
            names,
            fields,
            top_level,
            message: None,
            language: None,
            tag: 0,
            descriptor: None,
            incomplete: None,
            origin: None,
            ends_early: false,
            optional_from: usize::MAX,
            needs_exact_fit: false,
            ends_compressed: false,
            wpp: None,
            extent: LazyExtent::default(),
        }
    }

    /// The schema up to the field that may be a struct without its members, if it is one that needs an exact fit for that reason.
    pub(crate) fn without_lost_struct(&self) -> Option<Schema> {
        let lost = lost_struct(&self.fields, self.top_level).filter(|_| self.needs_exact_fit)?;
        let name = &self.fields[lost].name;
        let what = format!(
            "{name:?} is an array of structs, not of simple values, and the manifest lacks their members"
        );
        let mut cut = self.clone();
        cut.fields.truncate(lost);
        cut.top_level = lost;
        cut.needs_exact_fit = false;
        cut.incomplete = Some(what.into());
        Some(cut)
    }

    /// The approximate size in memory.
    pub(crate) fn size(&self) -> usize {
        let fields = self.fields.iter().map(|field| {
            let custom = match &field.kind {
                Kind::Custom { schema, .. } => schema.len(),
                Kind::Constant(text) => text.len(),
                _ => 0,
            };
            size_of::<Field>() + field.name.len() * 2 + custom
        });
        let names = &self.names;
        let single = [
            &names.provider,
            &names.event,
            &names.level,
            &names.channel,
            &names.task,
            &names.opcode,
        ];
        let names = names.keywords.iter().chain(single.into_iter().flatten()).map(String::len);
        let message = self.message.as_ref().map_or(0, Message::size)
            + self.wpp.as_ref().map_or(0, |wpp| wpp.size());
        size_of::<Schema>() + fields.sum::<usize>() + names.sum::<usize>() + message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_from_task_and_opcode() {
        let name = |event: Option<&str>, task: Option<&str>, opcode: Option<&str>| {
            let mut names = Names {
                event: event.map(String::from),
                task: task.map(String::from),
                opcode: opcode.map(String::from),
                ..Names::default()
            };
            names.resolve_event();
            names.event
        };
        assert_eq!(name(Some("E"), Some("T"), Some("O")).as_deref(), Some("E"));
        assert_eq!(name(None, Some("T"), Some("win:Start")).as_deref(), Some("T/Start"));
        assert_eq!(name(None, Some("T"), Some("win:Info")).as_deref(), Some("T"));
        assert_eq!(name(None, Some("T"), None).as_deref(), Some("T"));
        assert_eq!(name(None, None, Some("Start")), None);
    }
}
