//! Converts records of a pool into events: provider and metadata come from the registration and the site table; everything else
//! is the writer's claim, and its form is checked.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use etw_ring::prefix::{self, Prefix};
use etw_ring::{Record, RecordBytes, classic};
use etw_session::{Event, ProcessFacts, Router, Shape, Shaped, ShapedRun};
use etw_tracelogging::ProviderTraits;
use etw_types::{
    Classic, ClassicHeader, EventDescriptor, ExtType, ExtendedItemsBuf, Guid, is_system_class,
};

/// A provider as a process registered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its GUID.
    pub id: Guid,
    /// Name and group, as TraceLogging events carry them; may be empty.
    pub traits: Vec<u8>,
}

impl Provider {
    /// The group in the traits; zero without one.
    pub fn group(&self) -> Guid {
        let traits = ProviderTraits::parse(&self.traits).ok();
        traits.and_then(|traits| traits.group()).unwrap_or(Guid::ZERO)
    }
}

/// Facts about a record that the host knows and the record does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// Time on the session clock, unless the writer has set one.
    pub time: i64,
    /// Raw time, for sessions on cycles. If the writer has set the time, the event has no raw time.
    pub raw: Option<i64>,
    /// Process id in the host's namespace.
    pub process_id: u32,
    /// Thread id in the host's namespace.
    pub thread_id: u32,
    /// Facts of the process, for extended items.
    pub process: Option<&'a ProcessFacts>,
}

/// The sessions that a record goes to, a bit each.
#[derive(Clone, Copy, Debug)]
pub struct Recipients {
    /// The sessions that admitted it.
    pub sessions: u64,
    /// Those that the drain waits for if they have no free buffer.
    pub patient: u64,
}

/// The result of routing a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Each session has stored, filtered or lost it, and counted it.
    Routed,
    /// A session that the drain waits for has no free buffer now. Nothing is counted.
    NoRoom,
    /// No writer of ours can have written it.
    Hostile,
}

/// The registrations of one pool, and the on-disk form of each static event.
#[derive(Debug, Default)]
pub struct Registrations {
    by_number: Vec<Option<Provider>>,
    directory: Option<Directory>,
    /// Templates by site and registration: nearly every site is written through one provider.
    templates: HashMap<(u32, u32), Option<Arc<Template>>, BuildHasherDefault<NumberHasher>>,
    /// The template that each site last had, by the site's number.
    by_site: Vec<Option<SiteTemplate>>,
    items: ExtendedItemsBuf,
    classic: Option<Classic>,
    stack: ExtendedItemsBuf,
}

/// Looks up the providers of numbers that were not set.
struct Directory(Box<dyn Fn(u32) -> Option<Provider> + Send>);

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Directory")
    }
}

/// Hashes small numbers: sites and registrations are counted from 1.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// The part that all events of a site have in common.
#[derive(Debug)]
struct Template {
    shape: Shape,
    /// Its extended items, as in the shape.
    items: ExtendedItemsBuf,
}

/// A template, for records of one registration.
#[derive(Debug)]
struct SiteTemplate {
    template: Arc<Template>,
    registration: u32,
}

/// The writer's word and processor of a record, and its payload: what the events of a template differ in.
struct Body<'a> {
    user: u32,
    cpu: u16,
    payload: &'a [u8],
}

impl Template {
    #[inline(always)]
    fn event<'a>(&'a self, body: Body<'a>, origin: &Origin<'a>) -> Shaped<'a> {
        Shaped {
            shape: &self.shape,
            time: origin.time,
            raw: origin.raw,
            cpu: body.cpu,
            process_id: origin.process_id,
            thread_id: origin.thread_id,
            flags: ((body.user & !prefix::IN_PRIVATE) >> 16) as u16,
            property: body.user as u16,
            in_private: body.user & prefix::IN_PRIVATE != 0,
            payload: body.payload,
            process: origin.process,
        }
    }
}

/// Whether a record has a static site and no prefix.
fn is_usual(record: &Record<'_>) -> bool {
    record.site != 0 && u32::from(record.kind) | u32::from(record.metadata_size) == 0
}

/// Templates that are kept; beyond, all are made again.
const MAX_TEMPLATES: usize = 65_536;

impl Registrations {
    /// Registrations that are looked up when a record first names them.
    pub fn from_directory(
        directory: impl Fn(u32) -> Option<Provider> + Send + 'static,
    ) -> Registrations {
        Registrations {
            directory: Some(Directory(Box::new(directory))),
            ..Registrations::default()
        }
    }

    /// Looks a number up that was not set.
    fn look_up(&mut self, number: u32) {
        if self.get(number).is_none() {
            if let Some(provider) = self.directory.as_ref().and_then(|known| (known.0)(number)) {
                self.set(number, provider);
            }
        }
    }

    /// The provider of a number, from the directory if it was not set.
    pub fn provider_of(&self, number: u32) -> Option<Provider> {
        let directory = || (self.directory.as_ref()?.0)(number);
        self.get(number).cloned().or_else(directory)
    }

    /// Adds a provider; its number in records.
    pub fn add(&mut self, provider: Provider) -> u32 {
        // Number 0 is never assigned: a record of zeros names no provider.
        if self.by_number.is_empty() {
            self.by_number.push(None);
        }
        self.by_number.push(Some(provider));
        self.by_number.len() as u32 - 1
    }

    /// Sets the provider of a number that was assigned elsewhere.
    pub fn set(&mut self, number: u32, provider: Provider) {
        let index = number as usize;
        if self.by_number.len() <= index {
            self.by_number.resize_with(index + 1, || None);
        }
        self.by_number[index] = Some(provider);
    }

    /// The provider of a number.
    pub fn get(&self, number: u32) -> Option<&Provider> {
        self.by_number.get(number as usize)?.as_ref()
    }

    /// The event of a record; `None` if no writer of ours can have written it.
    ///
    /// `sites`: the pool's site table.
    pub fn event<'a>(
        &'a mut self,
        record: &Record<'a>,
        origin: &Origin<'a>,
        sites: &mut dyn FnMut(u32) -> Option<Vec<u8>>,
    ) -> Option<Event<'a>> {
        match is_usual(record) {
            true => {
                let body = Body { user: record.user, cpu: record.cpu, payload: record.payload };
                Some(self.find(record, sites)?.event(body, origin).event())
            }
            false => self.unusual(record, origin, sites),
        }
    }

    /// Stores the event of a record whose site is known, if its only session asks for nothing unusual and has space. Nearly all
    /// records are such. Returns whether it did; otherwise nothing has happened, and [`route`](Self::route) decides.
    #[inline(always)]
    pub fn put_usual<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        record: &RecordBytes<'_>,
        origin: &Origin<'_>,
        router: &mut Router<B>,
        sessions: u64,
    ) -> bool {
        let Some(template) = self.known(record).filter(|_| record.is_plain()) else { return false };
        let body = Body { user: record.user(), cpu: record.cpu(), payload: record.payload() };
        router.put_shaped(sessions, &template.event(body, origin))
    }

    /// Puts a [plain](RecordBytes::is_plain) record whose site is known into a run. Returns whether it did, as
    /// [`put_usual`](Self::put_usual).
    #[inline(always)]
    pub fn put_in_run(
        &self,
        record: &RecordBytes<'_>,
        origin: &Origin<'_>,
        run: &mut ShapedRun<'_>,
    ) -> bool {
        self.known(record).is_some_and(|template| {
            let body = Body { user: record.user(), cpu: record.cpu(), payload: record.payload() };
            run.put(&template.event(body, origin))
        })
    }

    /// The template of a record whose site is known.
    #[inline(always)]
    fn known(&self, record: &RecordBytes<'_>) -> Option<&Template> {
        // Number 0 is no site and has no template.
        let known = self.by_site.get(record.site() as usize)?.as_ref()?;
        (known.registration == record.registration()).then_some(&known.template)
    }

    /// Routes an [`event`](Self::event) to sessions.
    #[inline(never)]
    pub fn route<B: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        record: &Record<'_>,
        origin: &Origin<'_>,
        sites: &mut dyn FnMut(u32) -> Option<Vec<u8>>,
        router: &mut Router<B>,
        to: Recipients,
    ) -> Given {
        match self.event(record, origin, sites) {
            Some(event) => match router.route_or_wait(to.sessions, to.patient, &event) {
                Some(_) => Given::Routed,
                None => Given::NoRoom,
            },
            None => Given::Hostile,
        }
    }

    /// The template of a record with a site; the site then has it.
    fn find(
        &mut self,
        record: &Record<'_>,
        sites: &mut dyn FnMut(u32) -> Option<Vec<u8>>,
    ) -> Option<&Template> {
        let (index, registration) = (record.site as usize, record.registration);
        let is_known = |known: &SiteTemplate| known.registration == registration;
        if !self.by_site.get(index).is_some_and(|known| known.as_ref().is_some_and(is_known)) {
            let template = self.template((record.site, registration), sites)?.clone();
            if self.by_site.len() <= index {
                self.by_site.resize_with(index + 1, || None);
            }
            self.by_site[index] = Some(SiteTemplate { template, registration });
        }
        Some(&self.by_site.get(index)?.as_ref()?.template)
    }

    #[inline(never)]
    fn template(
        &mut self,
        key: (u32, u32),
        sites: &mut dyn FnMut(u32) -> Option<Vec<u8>>,
    ) -> Option<&Arc<Template>> {
        if self.templates.len() >= MAX_TEMPLATES {
            self.templates.clear();
        }
        if !self.templates.contains_key(&key) {
            self.look_up(key.1);
            let template = self.make(key, sites).map(Arc::new);
            self.templates.insert(key, template);
        }
        self.templates.get(&key)?.as_ref()
    }

    fn make(
        &self,
        (site, registration): (u32, u32),
        sites: &mut dyn FnMut(u32) -> Option<Vec<u8>>,
    ) -> Option<Template> {
        let provider = self.get(registration)?;
        let site = sites(site)?;
        let descriptor = EventDescriptor::read(&site, 0)?;
        let mut items = ExtendedItemsBuf::new();
        push_schema(&mut items, &provider.traits, site.get(16..)?);
        let shape = Shape::new(provider.id, provider.group(), descriptor, items.as_bytes());
        Some(Template { shape, items })
    }

    /// The event of a record with a prefix, or without a site.
    #[inline(never)]
    fn unusual<'a>(
        &'a mut self,
        record: &Record<'a>,
        origin: &Origin<'a>,
        sites: &mut dyn FnMut(u32) -> Option<Vec<u8>>,
    ) -> Option<Event<'a>> {
        let (bytes, payload) =
            record.payload.split_at_checked(usize::from(record.metadata_size))?;
        let found = Prefix::parse(record.kind, bytes)?;
        self.look_up(record.registration);
        if found.is_classic {
            return self.classic_event(record, &found, payload, origin);
        }
        if record.site != 0 {
            self.find(record, sites)?;
        }
        match found.stack {
            [] => self.stack.clear(),
            addresses => etw_session::stack_item(addresses, &mut self.stack),
        }
        let items = &mut self.items;
        items.clear();
        if let Some(related) = &found.related_activity_id {
            let _ = items.push(ExtType::RELATED_ACTIVITYID, &related.0);
        }
        let (id, group, descriptor);
        if record.site != 0 && found.traits.is_empty() && found.metadata.is_empty() {
            let template = &self.by_site.get(record.site as usize)?.as_ref()?.template;
            let shape = &template.shape;
            (id, group, descriptor) = (shape.provider(), shape.group(), shape.descriptor());
            items.append(&template.items);
        } else {
            let provider = self.by_number.get(record.registration as usize)?.as_ref()?;
            (id, group, descriptor) = (provider.id, provider.group(), found.descriptor?);
            let traits = if found.traits.is_empty() { &provider.traits[..] } else { found.traits };
            push_schema(items, traits, found.metadata);
        }
        Some(Event {
            time: found.time.unwrap_or(origin.time),
            raw: origin.raw.filter(|_| found.time.is_none()),
            cpu: record.cpu,
            process_id: origin.process_id,
            thread_id: origin.thread_id,
            provider: id,
            group,
            descriptor: found.descriptor.unwrap_or(descriptor),
            flags: ((record.user & !prefix::IN_PRIVATE) >> 16) as u16,
            property: record.user as u16,
            in_private: record.user & prefix::IN_PRIVATE != 0,
            activity_id: found.activity_id.unwrap_or(Guid::ZERO),
            chain: self.items.as_bytes(),
            payload,
            stack: self.stack.as_bytes(),
            process: origin.process,
            classic: None,
        })
    }

    /// The event of a classic provider. Its header is shown as it is; provider and group are the registration's.
    fn classic_event<'a>(
        &'a mut self,
        record: &Record<'a>,
        found: &Prefix<'a>,
        payload: &'a [u8],
        origin: &Origin<'a>,
    ) -> Option<Event<'a>> {
        if record.site != 0 || record.user != 0 {
            return None;
        }
        let provider = self.by_number.get(record.registration as usize)?.as_ref()?;
        let (id, group) = (provider.id, provider.group());
        let classic = classic::parse(found.metadata)?;
        if let ClassicHeader::Trace(class) | ClassicHeader::Instance { class, .. } = &classic.header
        {
            if is_system_class(&class.guid) {
                return None;
            }
        }
        self.classic = Some(classic);
        Some(Event {
            time: found.time.unwrap_or(origin.time),
            raw: origin.raw.filter(|_| found.time.is_none()),
            cpu: record.cpu,
            process_id: origin.process_id,
            thread_id: origin.thread_id,
            process: origin.process,
            provider: id,
            group,
            payload,
            classic: self.classic.as_ref(),
            ..Event::default()
        })
    }
}

/// Appends provider traits and event metadata, as TraceLogging events carry them (in this order in Windows' traces).
///
/// A writer rejects an item that is too long for its size field; a hostile writer's item is left out.
fn push_schema(items: &mut ExtendedItemsBuf, traits: &[u8], metadata: &[u8]) {
    if metadata.is_empty() {
        return;
    }
    if !traits.is_empty() {
        let _ = items.push(ExtType::PROV_TRAITS, traits);
    }
    let _ = items.push(ExtType::EVENT_SCHEMA_TL, metadata);
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_ring::classic::ClassicBytes;
    use etw_types::{EVENT_METADATA, EventClass, Level};

    /// OV-12, P4: a classic event has its class from the record and its provider from the registration. Records that no writer
    /// of ours can have written are rejected.
    #[test]
    fn classic_records_have_the_provider_of_their_registration() {
        let class = EventClass {
            guid: Guid::from_u128(2),
            kind: 3,
            level: Level(4),
            ..EventClass::default()
        };
        let header = Classic { header: ClassicHeader::Trace(class), is_32_bit: false };
        let bytes = ClassicBytes::new(&header);
        let payload = [&7i64.to_le_bytes()[..], bytes.as_slice(), b"data"].concat();
        let record = Record {
            time: 1,
            kind: prefix::CLASSIC | prefix::METADATA | prefix::TIME,
            sessions: 1,
            cpu: 5,
            tid: 6,
            registration: 1,
            site: 0,
            seq: 0,
            user: 0,
            epoch: 0,
            metadata_size: 8 + bytes.as_slice().len() as u16,
            overflow: false,
            payload: &payload,
        };
        let mut registrations = Registrations::default();
        registrations.add(Provider { id: Guid::from_u128(9), traits: Vec::new() });
        let mut sites = |_: u32| Some(vec![0; 16]);
        let origin = Origin { time: 10, process_id: 8, thread_id: 6, ..Origin::default() };
        let event = registrations.event(&record, &origin, &mut sites).unwrap();
        assert_eq!((event.classic, event.provider), (Some(&header), Guid::from_u128(9)));
        assert_eq!((event.time, event.cpu, event.process_id, event.thread_id), (7, 5, 8, 6));
        assert_eq!((event.payload, event.chain), (&b"data"[..], &[][..]));
        let kind = prefix::METADATA | prefix::TIME;
        for wrong in [
            Record { registration: 2, ..record },
            Record { site: 1, ..record },
            Record { user: 1, ..record },
            Record { kind: prefix::CLASSIC | kind | prefix::ACTIVITY, ..record },
            Record { metadata_size: record.metadata_size + 1, ..record },
            Record { metadata_size: record.metadata_size - 1, ..record },
            Record { metadata_size: u16::MAX, ..record },
            // TraceLogging metadata is not a classic header.
            Record { kind, ..record },
        ] {
            assert!(registrations.event(&wrong, &origin, &mut sites).is_none(), "{wrong:?}");
        }
        // A class whose events would describe other events to a decoder.
        let mut system = payload.clone();
        system[16..32].copy_from_slice(&EVENT_METADATA.0);
        let system = Record { payload: &system, ..record };
        assert!(registrations.event(&system, &origin, &mut sites).is_none());
    }
}
