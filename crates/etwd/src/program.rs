//! A program: its connection, its control page, and the providers that it registered.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use etw_host::registrations::{Provider, Registrations};
use etw_ring::Control;
use etw_ring::layout::SESSIONS;
use etw_session::{EnableInfo, ProcessFacts};
use etw_types::{EVENT_INFO, Guid, MAP_INFO, SchemaRecord, schema_records};
use etw_wire::message::{FromHost, TAKES_SCHEMAS};
use etw_wire::{Channel, Peer};

/// Registrations that one program may have.
pub(crate) const MAX_REGISTRATIONS: usize = 2048;
/// Numbers that one connection may assign. Numbers of unregistered providers stay known: records may be on their way.
const MAX_NUMBER: u32 = 1 << 16;
/// Bytes of traits of all providers that a program ever registered.
const MAX_TRAITS: usize = 4 << 20;
/// Bytes of schemas of one program.
const MAX_SCHEMAS: usize = 8 << 20;

/// A connected program. Its pool is attached to the engine under the number of its connection.
pub(crate) struct Program {
    pub channel: Arc<Channel>,
    pub peer: Peer,
    /// Facts of its process, read while it certainly runs.
    pub facts: ProcessFacts,
    pub control: Control,
    pub providers: BTreeMap<u32, Registered>,
    traits_size: usize,
    /// Schemas of its events, by provider, and their bytes.
    schemas: BTreeMap<Guid, Vec<SchemaRecord>>,
    /// Those of all providers, to keep each once.
    known_schemas: HashSet<SchemaRecord>,
    schema_size: usize,
    /// All numbers that were ever registered.
    pub numbers: Vec<u32>,
    /// The host has asked for a pool.
    pub is_pool_requested: bool,
    /// Registrations whose answer waits for the pool.
    pub waiting: Vec<u32>,
    /// Number of its pool's segments.
    pub segments: usize,
    /// The inode of the last segment's memory, and whether this worker has acknowledged it.
    pub last_segment: Option<u64>,
    pub is_acknowledged: bool,
    /// The worker before was killed: messages for it arrive here unasked, and a pool maybe twice; a segment once.
    pub may_repeat: bool,
    pub may_offer: bool,
    pub has_ended: bool,
    /// The last change that was sent, and the last one that the program has answered.
    pub token: u32,
    pub answered: u32,
}

/// A provider that a program has registered.
pub(crate) struct Registered {
    pub provider: Provider,
    pub group: Guid,
    pub name: String,
    /// The change by which each slot's session last enabled the provider; 0: not enabled.
    enabled_by: [u32; SESSIONS],
    /// The slots whose sessions the program has refused, a bit each.
    refused: u8,
}

impl Registered {
    /// Whether the provider, or its group, has this GUID.
    pub fn matches(&self, id: &Guid) -> bool {
        self.provider.id == *id || self.group == *id
    }

    /// Whether the program has refused to enable the provider for a slot's session.
    pub fn is_refused(&self, slot: usize) -> bool {
        self.refused & 1 << slot != 0
    }

    /// A change was sent; its answer is not there yet. `token` 0: the slot's session disables the provider.
    fn set_enabled_by(&mut self, slot: usize, token: u32) {
        self.enabled_by[slot] = token;
        self.refused &= !(1 << slot);
    }
}

/// An enablement as a program receives it.
pub(crate) struct SentEnablement<'a> {
    /// Number of the registration.
    pub number: u32,
    /// The slot of the session.
    pub slot: usize,
    /// The session's GUID.
    pub source: Guid,
    /// `None` disables.
    pub enablement: Option<&'a EnableInfo>,
    /// When it was requested.
    pub since: u64,
}

/// A slot whose enablement a program has refused.
pub(crate) struct RefusedSlot {
    /// Number of the registration.
    pub number: u32,
    pub slot: usize,
}

impl Program {
    /// A program that has connected, or whose connection an earlier worker kept.
    pub fn new(channel: Arc<Channel>, peer: Peer, control: Control) -> Program {
        control.set_capabilities(TAKES_SCHEMAS);
        Program {
            facts: etw_host::process::facts_of(peer.pid, peer.uid),
            channel,
            peer,
            control,
            providers: BTreeMap::new(),
            traits_size: 0,
            schemas: BTreeMap::new(),
            known_schemas: HashSet::new(),
            schema_size: 0,
            numbers: Vec::new(),
            is_pool_requested: false,
            waiting: Vec::new(),
            segments: 0,
            last_segment: None,
            is_acknowledged: false,
            may_repeat: false,
            may_offer: false,
            has_ended: false,
            token: 0,
            answered: 0,
        }
    }

    /// Sends a message. A program that does not read is disconnected, however much waits for it: the server notices the end of
    /// its connection.
    pub fn send(&self, message: &FromHost<'_>) {
        if self.channel.send(&message.to_bytes(), &[]).is_err() {
            disconnect(&self.channel);
        }
    }

    /// The number of the next change.
    pub fn next_token(&mut self) -> u32 {
        self.token += 1;
        self.token
    }

    /// Asks the program for a pool, once.
    pub fn request_pool(&mut self) {
        if !std::mem::replace(&mut self.is_pool_requested, true) {
            self.send(&FromHost::NeedPool);
            etw_host::kill_point::kill_point("pool asked");
        }
    }

    /// Adds a registration; `false` if it breaks a limit, or assigns a number to another provider. The same registration may
    /// arrive again.
    pub fn register(&mut self, number: u32, id: Guid, traits: &[u8]) -> bool {
        if let Some(known) = self.providers.get(&number) {
            return known.provider.id == id && known.provider.traits == traits;
        }
        if number == 0
            || number > MAX_NUMBER
            || self.providers.len() >= MAX_REGISTRATIONS
            || self.traits_size + traits.len() > MAX_TRAITS
        {
            return false;
        }
        self.traits_size += traits.len();
        self.numbers.push(number);
        let provider = Provider { id, traits: traits.to_vec() };
        let parsed = etw_tracelogging::ProviderTraits::parse(traits).ok();
        let name = parsed.map(|traits| String::from_utf8_lossy(traits.name()).into_owned());
        let registered = Registered {
            group: provider.group(),
            provider,
            name: name.unwrap_or_default(),
            enabled_by: [0; SESSIONS],
            refused: 0,
        };
        self.providers.insert(number, registered);
        true
    }

    pub fn unregister(&mut self, number: u32) -> Option<Registered> {
        self.providers.remove(&number)
    }

    /// The providers that records of its pool name.
    pub fn registrations(&self) -> Registrations {
        let mut registrations = Registrations::default();
        for (number, registered) in &self.providers {
            registrations.set(*number, registered.provider.clone());
        }
        registrations
    }

    /// Numbers of the registrations of a provider or provider group.
    pub fn numbers_of(&self, id: &Guid) -> Vec<u32> {
        let matching = self.providers.iter().filter(|(_, registered)| registered.matches(id));
        matching.map(|(number, _)| *number).collect()
    }

    /// The program has refused a change. `None` if a later change followed, so that the
    /// answer decides nothing.
    pub fn refuse(&mut self, token: u32) -> Option<RefusedSlot> {
        let slot_of =
            |by: &[u32; SESSIONS]| by.iter().position(|last| token != 0 && *last == token);
        self.providers.iter_mut().find_map(|(number, registered)| {
            let slot = slot_of(&registered.enabled_by)?;
            registered.set_enabled_by(slot, 0);
            registered.refused |= 1 << slot;
            Some(RefusedSlot { number: *number, slot })
        })
    }

    /// Whether the program still has to answer an enablement of a slot's session.
    pub fn owes_answer(&self, slot: usize) -> bool {
        self.providers.values().any(|registered| registered.enabled_by[slot] > self.answered)
    }

    /// Keeps schemas of a provider's events, for the traces of sessions that enable it. Readers check them, as they do events. Those past
    /// the limit are dropped.
    pub fn receive_schemas(&mut self, provider: Guid, bytes: &[u8]) {
        for record in schema_records(bytes) {
            let schema = record.to_record();
            // Each is kept twice.
            let size = 2 * (record.payload.len() + 64);
            let is_wanted = matches!(record.kind, EVENT_INFO | MAP_INFO)
                && self.schema_size + size <= MAX_SCHEMAS
                && self.known_schemas.insert(schema.clone());
            if is_wanted {
                self.schema_size += size;
                self.schemas.entry(provider).or_default().push(schema);
            }
        }
    }

    /// The schemas of a provider's events.
    pub fn schemas_of(&self, provider: &Guid) -> &[SchemaRecord] {
        self.schemas.get(provider).map_or(&[], Vec::as_slice)
    }

    /// Sends an enablement of one registration; the number of the change.
    pub fn send_enablement(&mut self, sent: &SentEnablement<'_>) -> u32 {
        let token = self.next_token();
        let SentEnablement { number, slot, source, enablement, since } = *sent;
        if let Some(registered) = self.providers.get_mut(&number) {
            registered.set_enabled_by(slot, if enablement.is_some() { token } else { 0 });
        }
        let slot = slot as u8;
        match enablement {
            Some(info) => self.send(&FromHost::Set {
                token,
                number,
                slot,
                wanted: info.wanted,
                source,
                filter_data: info.filters.as_ref().map_or(&[], |filters| &filters.schematized),
                stacks: info.stacks(),
                since,
            }),
            None => self.send(&FromHost::Clear { token, number, slot, source }),
        }
        token
    }
}

/// Ends a connection for both sides; the server notices it.
pub(crate) fn disconnect(channel: &Channel) {
    let _ = rustix::net::shutdown(channel, rustix::net::Shutdown::Both);
}

/// A segment that a program sent, checked before it is used.
pub(crate) fn received_segment(descriptors: Vec<OwnedFd>) -> Result<etw_ring::Source, String> {
    let [memory] = <[OwnedFd; 1]>::try_from(descriptors)
        .map_err(|all| format!("{} descriptors instead of one", all.len()))?;
    // Memory beyond the layout's limit would only cost.
    let size = rustix::fs::fstat(&memory).map_err(|error| error.to_string())?.st_size;
    let most = etw_ring::layout::DATA_OFFSET
        + etw_ring::layout::MAX_SEGMENT_UNITS * etw_ring::layout::UNIT_SIZE;
    if !(0..=most as i64).contains(&size) {
        return Err(format!("a segment of {size} bytes"));
    }
    etw_ring::Source::received(memory).map_err(|error| error.to_string())
}

/// The identity of a segment's memory.
pub(crate) struct SegmentIdentity {
    pub inode: u64,
    pub size: u32,
}

/// The identity of a segment that a program sent.
pub(crate) fn segment_identity(memory: Option<&OwnedFd>) -> Option<SegmentIdentity> {
    let memory = rustix::fs::fstat(memory?).ok()?;
    let size = u32::try_from(memory.st_size).unwrap_or(u32::MAX);
    Some(SegmentIdentity { inode: memory.st_ino, size })
}
