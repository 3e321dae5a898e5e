//! Publishers and their events: the providers of the manifests that are loaded or registered.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use etw_api::{EventDescriptor, Guid};
use etw_decode::manifest::{ManifestChannel, NamedValueKind};
use etw_decode::{Catalog, Schema};
use etw_evtx::value::ValueType;
use etw_types::message_id;

use super::variant::Variants;
use super::{
    ERROR_EVT_PUBLISHER_METADATA_NOT_FOUND, ERROR_NO_MORE_ITEMS, Failure, NameKind, Object,
    boolean, handle, insert, local, lock, object, optional, put_next, wrong_kind,
};
use crate::abi::store;
use crate::loaded;

/// The number of a message that there is not.
const NO_MESSAGE: u32 = u32::MAX;

/// The number of a publisher's own message.
const PROVIDER_MESSAGE: u32 = message_id::CHANNEL + 1;

/// A provider of a catalog.
pub struct Publisher {
    guid: Guid,
    catalog: Arc<Catalog>,
}

/// An event of a publisher.
#[derive(Clone)]
pub struct EventMetadata {
    descriptor: EventDescriptor,
    message_id: Option<u32>,
    template: String,
}

/// A level, task, opcode, keyword or channel.
#[derive(Clone, Default)]
pub struct Element {
    name: String,
    value: u64,
    kind: Kind,
    /// The task of an opcode; 0: all.
    task: u16,
    event_guid: Guid,
    message_id: Option<u32>,
    is_imported: bool,
}

/// The list of a publisher to which an element belongs, as the property that has it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Channel = 6,
    Level = 12,
    Task = 16,
    Opcode = 21,
    Keyword = 25,
}

/// The catalogs, the one first whose providers hide the others'.
fn catalogs() -> [Arc<Catalog>; 2] {
    [loaded::catalog().1, loaded::registered()]
}

impl Publisher {
    /// The publisher of a name or a GUID in braces.
    fn find(id: &str) -> Option<Publisher> {
        let by_guid: Option<Guid> = id.trim_matches(['{', '}']).parse().ok();
        catalogs().into_iter().find_map(|catalog| {
            let named = catalog.providers_named(id).first().copied();
            let guid = named.or(by_guid.filter(|guid| catalog.provider_name(guid).is_some()))?;
            Some(Publisher { guid, catalog })
        })
    }

    fn schemas(&self) -> Vec<(EventDescriptor, &Schema)> {
        let events = self.catalog.events_of(&self.guid).into_iter();
        let schema = |id, version| self.catalog.event(self.guid, id, version);
        let found = events.filter_map(|event| {
            let schema = schema(event.id, event.version)?;
            let mut descriptor = schema.descriptor.unwrap_or_default();
            (descriptor.id, descriptor.version) = (event.id, event.version);
            Some((descriptor, schema))
        });
        found.collect()
    }

    /// The levels, tasks, … of the manifest, by value; of schemas without a manifest, those that events use.
    fn elements(&self, kind: Kind) -> Vec<Element> {
        let declared = self.declared(kind);
        if !declared.is_empty() {
            return declared;
        }
        let mut all = BTreeMap::new();
        if kind == Kind::Keyword {
            let keywords = self.catalog.keywords_of(&self.guid).into_iter();
            all.extend(keywords.map(|keyword| (keyword.mask.0, keyword.name)));
        }
        for (descriptor, schema) in self.schemas() {
            let names = &schema.names;
            let (value, name) = match kind {
                Kind::Channel => (u64::from(descriptor.channel.0), &names.channel),
                Kind::Level => (u64::from(descriptor.level.0), &names.level),
                Kind::Task => (u64::from(descriptor.task), &names.task),
                Kind::Opcode => (u64::from(descriptor.opcode.0), &names.opcode),
                Kind::Keyword => continue,
            };
            if let Some(name) = name {
                all.insert(value, name.clone());
            }
        }
        let element = |(value, name)| Element { name, value, kind, ..Element::default() };
        all.into_iter().map(element).collect()
    }

    fn declared(&self, kind: Kind) -> Vec<Element> {
        let Some(description) = self.catalog.description_of(&self.guid) else { return Vec::new() };
        let values = description.named_values.iter();
        let of_kind = values.filter(|one| kind_of(one.kind) == kind).map(|one| Element {
            name: one.name.clone(),
            value: one.value,
            kind,
            task: one.task,
            event_guid: one.event_guid,
            message_id: one.message_id(),
            is_imported: false,
        });
        match kind {
            Kind::Channel => description.channels.iter().map(channel).collect(),
            _ => of_kind.collect(),
        }
    }

    /// The text of a message; `None` if the publisher has none of that number.
    pub fn message(&self, id: u32) -> Option<String> {
        let description = self.catalog.description_of(&self.guid);
        if let Some(description) = description {
            if id == PROVIDER_MESSAGE && !description.texts.message.is_empty() {
                return Some(description.texts.message.clone());
            }
            let mut named = description.named_values.iter();
            if let Some(found) = named.find(|one| one.message_id() == Some(id)) {
                return Some(found.message.clone());
            }
            let mut channels = description.channels.iter();
            if let Some(found) = channels.find(|one| one.message_id == Some(id)) {
                return Some(found.message.clone());
            }
        }
        let schemas = self.schemas().into_iter();
        let mut events = schemas.filter(|(descriptor, _)| event_message(descriptor) == id);
        events.find_map(|(_, schema)| Some(schema.message.as_ref()?.template().to_owned()))
    }
}

fn kind_of(kind: NamedValueKind) -> Kind {
    match kind {
        NamedValueKind::Level => Kind::Level,
        NamedValueKind::Opcode => Kind::Opcode,
        NamedValueKind::Task => Kind::Task,
        NamedValueKind::Keyword => Kind::Keyword,
    }
}

fn channel(channel: &ManifestChannel) -> Element {
    Element {
        name: channel.name.clone(),
        value: channel.value.into(),
        kind: Kind::Channel,
        message_id: channel.message_id,
        is_imported: channel.config.is_imported,
        ..Element::default()
    }
}

/// The number of an event's message.
fn event_message(descriptor: &EventDescriptor) -> u32 {
    message_id::EVENT | u32::from(descriptor.version) << 16 | u32::from(descriptor.id)
}

/// The template of an event, as in a manifest; empty for an event without fields.
fn template(schema: &Schema) -> String {
    let fields = &schema.fields[..schema.top_level];
    if fields.is_empty() {
        return String::new();
    }
    let mut xml =
        String::from("<template xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">\r\n");
    for field in fields {
        let name = field.name.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        match field.types.0.manifest_name() {
            Some(kind) => xml += &format!("  <data name=\"{name}\" inType=\"{kind}\"/>\r\n"),
            None => xml += &format!("  <data name=\"{name}\"/>\r\n"),
        }
    }
    xml + "</template>\r\n"
}

#[unsafe(no_mangle)]
pub extern "C" fn EvtOpenPublisherEnum(session: *mut c_void, _flags: u32) -> *mut c_void {
    handle(|| {
        local(session)?;
        let mut names: Vec<String> = Vec::new();
        for catalog in catalogs() {
            names.extend(catalog.providers().map(|(_, name)| name.to_owned()));
            names.extend(catalog.pack_providers().map(str::to_owned));
        }
        names.sort_by_key(|name| name.to_lowercase());
        names.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
        Ok(Object::Names(NameKind::Publisher, Mutex::new(names.into_iter())))
    })
}

/// # Safety
/// HANDLE `names`; OUT `buffer`, `size` units; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtNextPublisherId(
    names: *mut c_void,
    size: u32,
    buffer: *mut u16,
    used: *mut u32,
) -> i32 {
    // SAFETY: HANDLE, OUT.
    unsafe { put_next(names, NameKind::Publisher, buffer, size, used) }
}

/// # Safety
/// TEXT `publisher`; `log` is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtOpenPublisherMetadata(
    session: *mut c_void,
    publisher: *const u16,
    _log: *const u16,
    _locale: u32,
    _flags: u32,
) -> *mut c_void {
    handle(|| {
        local(session)?;
        // SAFETY: TEXT.
        let id = unsafe { optional(publisher) };
        let id = id.ok_or_else(|| Failure::invalid("the publisher is NULL"))?;
        Publisher::find(&id).map(Object::Publisher).ok_or_else(|| {
            let text = format!("{id}: no manifest of this publisher is loaded or registered");
            Failure::new(ERROR_EVT_PUBLISHER_METADATA_NOT_FOUND, text)
        })
    })
}

/// # Safety
/// HANDLE `publisher`; OUT `buffer`, `size` bytes; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtGetPublisherMetadataProperty(
    publisher: *mut c_void,
    property: i32,
    _flags: u32,
    size: u32,
    buffer: *mut u8,
    used: *mut u32,
) -> i32 {
    boolean(|| {
        let found = object(publisher)?;
        let Object::Publisher(publisher) = &*found else { return wrong_kind() };
        let kind = match property {
            6 => Some(Kind::Channel),
            12 => Some(Kind::Level),
            16 => Some(Kind::Task),
            21 => Some(Kind::Opcode),
            25 => Some(Kind::Keyword),
            _ => None,
        };
        let mut out = Variants::default();
        let mut array = None;
        match (property, kind) {
            (_, Some(kind)) => {
                // Asked for the size only, no handle is made.
                let is_large_enough = !buffer.is_null() && size >= 16;
                array = is_large_enough.then(|| insert(Object::Array(publisher.elements(kind))));
                out.handle(array.unwrap_or(std::ptr::null_mut()));
            }
            (0, _) => out.guid(Some(publisher.guid)),
            (1 | 3 | 4, _) => {
                let description = publisher.catalog.description_of(&publisher.guid);
                let text = description.map_or("", |one| match property {
                    1 => &one.texts.resource_file,
                    3 => &one.texts.message_file,
                    _ => &one.texts.help_link,
                });
                match text {
                    "" => out.null(),
                    text => out.text(Some(text)),
                }
            }
            // The file of parameters.
            (2, _) => out.null(),
            (5, _) => {
                // A channel has the first number, if the publisher has no message.
                let description = publisher.catalog.description_of(&publisher.guid);
                let has_message = description.is_some_and(|one| !one.texts.message.is_empty());
                let id = if has_message { PROVIDER_MESSAGE } else { NO_MESSAGE };
                out.number(ValueType::UINT32, Some(id));
            }
            _ => return Err(Failure::invalid("there is no such property of a publisher")),
        }
        // SAFETY: OUT.
        let put = unsafe { out.put_into(buffer, size, used) };
        if let (Err(_), Some(array)) = (&put, array) {
            super::remove(array)?;
        }
        put
    })
}

/// # Safety
/// HANDLE `array`; OUT `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtGetObjectArraySize(array: *mut c_void, size: *mut u32) -> i32 {
    boolean(|| {
        let found = object(array)?;
        let Object::Array(elements) = &*found else { return wrong_kind() };
        if size.is_null() {
            return Err(Failure::invalid("the size has no variable"));
        }
        // SAFETY: OUT.
        unsafe { store(size, elements.len() as u32) };
        Ok(())
    })
}

/// # Safety
/// HANDLE `array`; OUT `buffer`, `size` bytes; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtGetObjectArrayProperty(
    array: *mut c_void,
    property: u32,
    index: u32,
    _flags: u32,
    size: u32,
    buffer: *mut u8,
    used: *mut u32,
) -> i32 {
    boolean(|| {
        let found = object(array)?;
        let Object::Array(elements) = &*found else { return wrong_kind() };
        let element = elements.get(index as usize);
        let element = element.ok_or_else(|| Failure::invalid("the array has no such index"))?;
        let number = u32::try_from(element.value).unwrap_or(u32::MAX);
        let mut out = Variants::default();
        match (element.kind, property) {
            (Kind::Channel, 7)
            | (Kind::Level, 13)
            | (Kind::Task, 17)
            | (Kind::Opcode, 22)
            | (Kind::Keyword, 26) => out.text(Some(&element.name)),
            (Kind::Channel, 8) => out.number(ValueType::UINT32, Some(index)),
            (Kind::Channel, 9) | (Kind::Level, 14) | (Kind::Task, 19) => {
                out.number(ValueType::UINT32, Some(number));
            }
            // The opcode is in the upper half; the lower one has its task, 0 for opcodes of all tasks.
            (Kind::Opcode, 23) => {
                let value = number << 16 | u32::from(element.task);
                out.number(ValueType::UINT32, Some(value));
            }
            (Kind::Keyword, 27) => out.number(ValueType::UINT64, Some(element.value)),
            // 1: another publisher's channel.
            (Kind::Channel, 10) => {
                out.number(ValueType::UINT32, Some(u32::from(element.is_imported)));
            }
            (Kind::Task, 18) => out.guid(Some(element.event_guid)),
            (Kind::Channel, 11)
            | (Kind::Level, 15)
            | (Kind::Task, 20)
            | (Kind::Opcode, 24)
            | (Kind::Keyword, 28) => {
                out.number(ValueType::UINT32, Some(element.message_id.unwrap_or(NO_MESSAGE)));
            }
            _ => return Err(Failure::invalid("the objects of the array have no such property")),
        }
        // SAFETY: OUT.
        unsafe { out.put_into(buffer, size, used) }
    })
}

/// # Safety
/// HANDLE `publisher`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtOpenEventMetadataEnum(
    publisher: *mut c_void,
    _flags: u32,
) -> *mut c_void {
    handle(|| {
        let found = object(publisher)?;
        let Object::Publisher(publisher) = &*found else { return wrong_kind() };
        let event = |(descriptor, schema): (EventDescriptor, &Schema)| {
            let message_id = schema.message.is_some().then(|| event_message(&descriptor));
            EventMetadata { descriptor, message_id, template: template(schema) }
        };
        let events: Vec<EventMetadata> = publisher.schemas().into_iter().map(event).collect();
        Ok(Object::Events(Mutex::new(events.into_iter())))
    })
}

/// # Safety
/// HANDLE `events`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtNextEventMetadata(events: *mut c_void, _flags: u32) -> *mut c_void {
    handle(|| {
        let found = object(events)?;
        let Object::Events(events) = &*found else { return wrong_kind() };
        let next = lock(events).next();
        next.map(Object::EventMetadata).ok_or(Failure::from(ERROR_NO_MORE_ITEMS))
    })
}

/// # Safety
/// HANDLE `event`; OUT `buffer`, `size` bytes; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtGetEventMetadataProperty(
    event: *mut c_void,
    property: i32,
    _flags: u32,
    size: u32,
    buffer: *mut u8,
    used: *mut u32,
) -> i32 {
    boolean(|| {
        let found = object(event)?;
        let Object::EventMetadata(EventMetadata { descriptor, message_id, template }) = &*found
        else {
            return wrong_kind();
        };
        let mut out = Variants::default();
        let number = match property {
            0 => u32::from(descriptor.id),
            1 => u32::from(descriptor.version),
            2 => u32::from(descriptor.channel.0),
            3 => u32::from(descriptor.level.0),
            4 => u32::from(descriptor.opcode.0),
            5 => u32::from(descriptor.task),
            7 => message_id.unwrap_or(NO_MESSAGE),
            6 | 8 => 0,
            _ => return Err(Failure::invalid("there is no such property of an event")),
        };
        match property {
            6 => out.number(ValueType::UINT64, Some(descriptor.keyword.0)),
            8 => out.text(Some(template)),
            _ => out.number(ValueType::UINT32, Some(number)),
        }
        // SAFETY: OUT.
        unsafe { out.put_into(buffer, size, used) }
    })
}
