//! From a record of the ring to an event of a session: provider and metadata come from the registration and the site table,
//! everything else is the writer's claim and is checked for shape.

use std::collections::HashMap;

use etw_ring::Record;
use etw_ring::prefix::Prefix;
use etw_session::Event;
use etw_tracelogging::ProviderTraits;
use etw_types::{EventDescriptor, ExtType, Guid, le};

/// A provider as a process registered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its GUID.
    pub id: Guid,
    /// Name and group, as TraceLogging events carry them; may be empty.
    pub traits: Vec<u8>,
}

impl Provider {
    /// The group that its traits name; zero without one.
    pub fn group(&self) -> Guid {
        let traits = ProviderTraits::parse(&self.traits).ok();
        traits.and_then(|traits| traits.group()).unwrap_or(Guid::ZERO)
    }
}

/// The registrations of one pool, and the on-disk form of each static event.
#[derive(Debug, Default)]
pub struct Registrations {
    by_number: Vec<Option<Provider>>,
    /// By site and registration: a site is nearly always written through one provider.
    templates: HashMap<(u32, u32), Option<Template>>,
    last: Option<((u32, u32), Template)>,
    chain: Vec<u8>,
}

/// What is the same in every event of a site.
#[derive(Clone, Debug)]
struct Template {
    provider: Guid,
    group: Guid,
    descriptor: EventDescriptor,
    /// Extended items in on-disk form.
    chain: Vec<u8>,
}

/// Templates kept at a time; beyond, all are made anew.
const MAX_TEMPLATES: usize = 65_536;

impl Registrations {
    /// Adds a provider; the number by which records name it.
    pub fn add(&mut self, provider: Provider) -> u32 {
        // 0 is never given: a record of zeros names nobody.
        if self.by_number.is_empty() {
            self.by_number.push(None);
        }
        self.by_number.push(Some(provider));
        self.by_number.len() as u32 - 1
    }

    /// Sets a number that was given elsewhere.
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

    /// The event that a record tells, with `time` as its time; `None` where the record cannot be what a writer of ours makes.
    ///
    /// `sites`: the pool's site table.
    #[inline]
    pub fn event<'a>(
        &'a mut self,
        record: &Record<'a>,
        time: i64,
        process_id: u32,
        sites: &mut dyn FnMut(u32) -> Option<Vec<u8>>,
    ) -> Option<Event<'a>> {
        let key = (record.site, record.registration);
        if record.site == 0 || record.kind != 0 {
            return self.unusual(record, time, process_id, sites);
        }
        if self.last.as_ref().is_none_or(|(last, _)| *last != key) {
            let template = self.template(key, sites)?.clone();
            self.last = Some((key, template));
        }
        let (_, template) = self.last.as_ref()?;
        if record.metadata_size != 0 {
            return None;
        }
        Some(Event {
            time,
            cpu: record.cpu,
            process_id,
            thread_id: record.tid,
            provider: template.provider,
            group: template.group,
            descriptor: template.descriptor,
            flags: (record.user >> 16) as u16,
            property: record.user as u16,
            activity_id: Guid::ZERO,
            chain: &template.chain,
            payload: record.payload,
            process: None,
        })
    }

    fn template(
        &mut self,
        key: (u32, u32),
        sites: &mut dyn FnMut(u32) -> Option<Vec<u8>>,
    ) -> Option<&Template> {
        if self.templates.len() >= MAX_TEMPLATES {
            self.templates.clear();
        }
        if !self.templates.contains_key(&key) {
            let template = self.make(key, sites);
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
        let mut chain = Vec::new();
        put_schema(&mut chain, &provider.traits, site.get(16..)?);
        Some(Template { provider: provider.id, group: provider.group(), descriptor, chain })
    }

    /// Events with a prefix, or without a site.
    #[inline(never)]
    fn unusual<'a>(
        &'a mut self,
        record: &Record<'a>,
        time: i64,
        process_id: u32,
        sites: &mut dyn FnMut(u32) -> Option<Vec<u8>>,
    ) -> Option<Event<'a>> {
        let (bytes, payload) =
            record.payload.split_at_checked(usize::from(record.metadata_size))?;
        let prefix = Prefix::parse(record.kind, bytes)?;
        self.chain.clear();
        if let Some(related) = &prefix.related_activity_id {
            put_item(&mut self.chain, ExtType::RELATED_ACTIVITYID, &related.0);
        }
        let provider = self.get(record.registration)?;
        let (id, group) = (provider.id, provider.group());
        let (descriptor, chain_of_site);
        if record.site != 0 && prefix.traits.is_empty() && prefix.metadata.is_empty() {
            let template = self.template((record.site, record.registration), sites)?;
            descriptor = template.descriptor;
            chain_of_site = template.chain.clone();
        } else {
            descriptor = prefix.descriptor?;
            let traits =
                if prefix.traits.is_empty() { &provider.traits[..] } else { prefix.traits };
            let mut chain = Vec::new();
            put_schema(&mut chain, traits, prefix.metadata);
            chain_of_site = chain;
        }
        join(&mut self.chain, &chain_of_site);
        Some(Event {
            time: prefix.time.unwrap_or(time),
            cpu: record.cpu,
            process_id,
            thread_id: record.tid,
            provider: id,
            group,
            descriptor: prefix.descriptor.unwrap_or(descriptor),
            flags: (record.user >> 16) as u16,
            property: record.user as u16,
            activity_id: prefix.activity_id.unwrap_or(Guid::ZERO),
            chain: &self.chain,
            payload,
            process: None,
        })
    }
}

/// Provider traits and event metadata, as TraceLogging events carry them (in this order in Windows' traces).
fn put_schema(chain: &mut Vec<u8>, traits: &[u8], metadata: &[u8]) {
    if metadata.is_empty() {
        return;
    }
    let mut schema = Vec::new();
    if !traits.is_empty() {
        put_item(&mut schema, ExtType::PROV_TRAITS, traits);
    }
    let mut metadata_item = Vec::new();
    put_item(&mut metadata_item, ExtType::EVENT_SCHEMA_TL, metadata);
    join(&mut schema, &metadata_item);
    join(chain, &schema);
}

/// One item, without a successor. What is too long for its size field was refused by the writer; a hostile one's is left out.
fn put_item(chain: &mut Vec<u8>, ext_type: ExtType, data: &[u8]) {
    if let Ok(item) = etw_etl::write::extended_chain(&[(ext_type, data)]) {
        chain.extend(item);
    }
}

/// Appends a chain to a chain.
fn join(chain: &mut Vec<u8>, more: &[u8]) {
    if !chain.is_empty() && !more.is_empty() {
        let mut at = 0;
        while let Some(size) =
            le::u16(chain, at).map(usize::from).filter(|size| at + size < chain.len())
        {
            at += size;
        }
        // Linkage: another one follows.
        chain[at + 4] |= 1;
    }
    chain.extend(more);
}
