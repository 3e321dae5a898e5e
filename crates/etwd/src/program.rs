//! A program with providers: who it is, what it has registered, its pool, and which of the host's sessions its eight slots
//! are.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use etw_host::registrations::{Provider, Registrations};
use etw_ring::layout::SESSIONS;
use etw_ring::{
    Admission, Control, Ledger as RingLedger, Reader, Record, RegistrationLosses, SiteTable,
};
use etw_session::{EnableInfo, ProcessFacts};
use etw_types::Guid;
use etw_wire::message::FromHost;
use etw_wire::{Channel, Peer};
use serde::{Deserialize, Serialize};

/// Registrations that one program may have (formats/07, section 1).
pub(crate) const MAX_REGISTRATIONS: usize = 2048;
/// Numbers that one connection may give: those of registrations that are gone stay known, since records may be on their way.
const MAX_NUMBER: u32 = 1 << 16;
/// Bytes of traits of all that it ever registered.
const MAX_TRAITS: usize = 4 << 20;

pub(crate) struct Program {
    pub channel: Arc<Channel>,
    pub peer: Peer,
    /// Wakes the server when the process ends, whoever has inherited its socket.
    pub facts: ProcessFacts,
    pub control: Control,
    pub providers: BTreeMap<u32, Registered>,
    traits_size: usize,
    /// All that were ever registered.
    pub numbers: Vec<u32>,
    /// Its place among the engine's pools.
    pub lane: Option<usize>,
    /// It has been asked for a pool.
    pub pool_is_asked: bool,
    pub slots: [Option<Slot>; SESSIONS],
    /// Those that were given up last: they are kept until their batch is final.
    pub settled: [Option<Slot>; SESSIONS],
    /// Registrations to be answered when the pool is there.
    pub waiting: Vec<u32>,
    /// Growth: what has been asked for, what it has.
    pub growing: Option<u32>,
    pub pool_size: u32,
    /// Segments of its pool.
    pub segments: usize,
    /// The number of the last one's memory; whether this worker has said that it has it.
    pub last_segment: Option<u64>,
    pub is_taken: bool,
    /// Of a worker that was killed: what the program had for it comes here, unasked, and maybe once more; a segment once.
    pub may_repeat: bool,
    pub may_offer: bool,
    pub has_ended: bool,
    /// The last change that it has made.
    pub done: u32,
}

/// A provider that a program has registered.
pub(crate) struct Registered {
    pub provider: Provider,
    pub group: Guid,
    pub name: String,
    /// The change by which each slot's session was last told to want something of it; 0: none.
    told: [u32; SESSIONS],
    /// The slots whose sessions it has refused, a bit each.
    refused: u8,
}

impl Registered {
    /// A change was sent, of this number; 0: the slot's session wants nothing of it any more. The answer is not there yet.
    pub fn set_told(&mut self, slot: usize, token: u32) {
        self.told[slot] = token;
        self.refused &= !(1 << slot);
    }

    /// Has the slot's session nothing of it, whatever it wants?
    pub fn is_refused(&self, slot: usize) -> bool {
        self.refused & 1 << slot != 0
    }
}

/// A slot's session.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Slot {
    /// The router's number of it.
    pub session: usize,
    /// Records of an earlier epoch are another session's.
    pub since: u16,
    /// What the program's counters said when it began.
    pub base: Base,
    /// It has ended, and with this batch what its writers have lost is in the session's own ledger: once it is final, a worker that
    /// takes the program up counts nothing of it again.
    #[serde(default)]
    pub counted_in: Option<u64>,
}

/// The counters of one slot.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Base {
    pub attempted: u64,
    pub lost: [u64; 6],
    /// The same by registration, as far as that is known.
    pub by_registration: Vec<(u32, [u32; 6])>,
    pub late: u64,
    pub drained: u64,
}

impl Base {
    pub fn of(reader: Option<&Reader>, slot: usize) -> Base {
        let Some(reader) = reader else { return Base::default() };
        let ring: RingLedger = reader.ledger();
        let lost = etw_ring::Cause::ALL.map(|cause| ring.lost(cause, slot));
        let rows = match lost {
            [0, 0, 0, 0, 0, 0] => Vec::new(),
            _ => reader.losses_by_registration(),
        };
        let of_slot = |row: RegistrationLosses| (row.registration, row.lost.map(|by| by[slot]));
        Base {
            attempted: ring.attempted[slot],
            lost,
            by_registration: rows.into_iter().map(of_slot).collect(),
            late: reader.late()[slot],
            drained: reader.drained()[slot],
        }
    }
}

impl Program {
    pub fn new(channel: Arc<Channel>, peer: Peer, control: Control) -> Program {
        Program {
            facts: etw_host::process::facts_of(peer.pid, peer.uid),
            channel,
            peer,
            control,
            providers: BTreeMap::new(),
            traits_size: 0,
            numbers: Vec::new(),
            lane: None,
            pool_is_asked: false,
            slots: [const { None }; SESSIONS],
            settled: [const { None }; SESSIONS],
            waiting: Vec::new(),
            growing: None,
            pool_size: 0,
            segments: 0,
            last_segment: None,
            is_taken: false,
            may_repeat: false,
            may_offer: false,
            has_ended: false,
            done: 0,
        }
    }

    /// Says something to the program. One that does not listen, however much waits for it, is shown out: the server hears of the
    /// connection's end, as it does of one that has ended by itself.
    pub fn say(&self, message: &FromHost<'_>) {
        if self.channel.send(&message.to_bytes(), &[]).is_err() {
            crate::host_thread::end(&self.channel);
        }
    }

    /// A registration; `false` where it breaks a limit, or gives a number to another provider. The same one may be said again.
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
        let group = provider.group();
        self.providers.insert(
            number,
            Registered {
                provider,
                group,
                name: name.unwrap_or_default(),
                told: [0; SESSIONS],
                refused: 0,
            },
        );
        true
    }

    pub fn unregister(&mut self, number: u32) -> Option<Registered> {
        self.providers.remove(&number)
    }

    /// The program has not made that change: of which registration, and in which slot. `None`: it is not the last one of any, so its
    /// answer decides nothing.
    pub fn refuse(&mut self, token: u32) -> Option<(u32, usize)> {
        let of = |told: &[u32; SESSIONS]| told.iter().position(|last| token != 0 && *last == token);
        let (number, registered, slot) =
            self.providers.iter_mut().find_map(|(number, registered)| {
                Some((*number, of(&registered.told)?)).map(|(n, slot)| (n, registered, slot))
            })?;
        registered.set_told(slot, 0);
        registered.refused |= 1 << slot;
        Some((number, slot))
    }

    /// Has it not answered yet what a slot's session wants?
    pub fn is_unheard(&self, slot: usize) -> bool {
        self.providers.values().any(|registered| registered.told[slot] > self.done)
    }

    /// What the next worker has to know of the slots; `last`: the last batch that is final.
    pub fn kept_slots(&self, last: u64) -> Vec<Option<Slot>> {
        let is_open = |slot: &&Slot| slot.counted_in.is_some_and(|batch| batch > last);
        let both = self.slots.iter().zip(&self.settled);
        both.map(|(slot, settled)| slot.as_ref().or(settled.as_ref().filter(is_open)).cloned())
            .collect()
    }

    /// The slot of a session.
    pub fn slot_of(&self, session: usize) -> Option<usize> {
        self.slots.iter().position(|slot| slot.as_ref().is_some_and(|s| s.session == session))
    }

    /// Gives the session a slot, if there is one; records admitted from now on may be its.
    pub fn take_slot(
        &mut self,
        session: usize,
        reader: Option<&Reader>,
        admission: Admission,
    ) -> Option<usize> {
        if let Some(slot) = self.slot_of(session) {
            return Some(slot);
        }
        let free = self.slots.iter().position(Option::is_none)?;
        let since = self.control.bump_epoch();
        let base = Base::of(reader, free);
        self.slots[free] = Some(Slot { session, since, base, counted_in: None });
        self.control.set_admission(free, admission);
        Some(free)
    }

    /// Which of the engine's sessions a mask of slots names, for a record of that epoch.
    #[inline]
    pub fn sessions_of(slots: &[Option<Slot>; SESSIONS], mask: u8, epoch: u16) -> u64 {
        let mut sessions = 0;
        let mut left = mask;
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            left &= left - 1;
            if let Some(slot) = &slots[slot]
                && epoch.wrapping_sub(slot.since) < 1 << 15
            {
                sessions |= 1 << slot.session;
            }
        }
        sessions
    }

    /// Asks the program to change what a session wants of one registration, and since when.
    pub fn tell(
        &mut self,
        token: u32,
        number: u32,
        slot: usize,
        wanted: Option<(&EnableInfo, u64)>,
        source: Guid,
    ) {
        if let Some(registered) = self.providers.get_mut(&number) {
            registered.set_told(slot, if wanted.is_some() { token } else { 0 });
        }
        let slot = slot as u8;
        match wanted {
            Some((info, since)) => self.say(&FromHost::Set {
                token,
                number,
                slot,
                wanted: info.wanted,
                source,
                filter_data: info.filters.as_ref().map_or(&[], |filters| &filters.schematized),
                stacks: info.stacks(),
                since,
            }),
            None => self.say(&FromHost::Clear { token, number, slot, source }),
        }
    }
}

/// What the engine drains: one for each program that has a pool, beside its reader.
pub(crate) struct Lane {
    pub connection: u64,
    pub process_id: u32,
    pub facts: ProcessFacts,
    pub registrations: Registrations,
    pub sites: SiteTable,
    /// As the program's, for the records' masks.
    pub slots: [Option<Slot>; SESSIONS],
    /// Everything of one mask is the same sessions', as long as nothing changes.
    last: Option<(u8, u16, u64)>,
    /// Bytes that no writer of ours makes.
    pub hostile: u64,
    pub pressure: u32,
    /// Bytes of its pool that the last round drained.
    pub drained: u64,
    pub has_ended: bool,
    /// Raw time at which that was known.
    pub ended_at: u64,
    /// When something was last drained.
    pub active: Instant,
    /// Thread ids as this namespace sees them, where the program is in another one.
    pub threads: Option<HashMap<u32, u32>>,
}

impl Lane {
    pub fn new(connection: u64, program: &Program, reader: &Reader) -> Lane {
        let mut registrations = Registrations::default();
        for (number, registered) in &program.providers {
            registrations.set(*number, registered.provider.clone());
        }
        let process_id = program.peer.pid;
        let threads = is_elsewhere(process_id).then(|| {
            // While it is certainly there: it may have ended when its records come.
            let mut threads = HashMap::new();
            learn_threads(process_id, &mut threads);
            threads
        });
        Lane {
            connection,
            process_id,
            facts: program.facts.clone(),
            registrations,
            sites: reader.site_table(),
            slots: program.slots.clone(),
            last: None,
            hostile: 0,
            pressure: reader.pressure(),
            drained: 0,
            has_ended: program.has_ended,
            ended_at: 0,
            active: Instant::now(),
            threads,
        }
    }

    pub fn set_slots(&mut self, slots: &[Option<Slot>; SESSIONS]) {
        self.slots = slots.clone();
        self.last = None;
    }

    #[inline]
    pub fn sessions_of(&mut self, record: &Record<'_>) -> u64 {
        match self.last {
            Some((mask, epoch, sessions)) if (mask, epoch) == (record.sessions, record.epoch) => {
                sessions
            }
            _ => self.find_sessions(record.sessions, record.epoch),
        }
    }

    #[inline(never)]
    fn find_sessions(&mut self, mask: u8, epoch: u16) -> u64 {
        let sessions = Program::sessions_of(&self.slots, mask, epoch);
        self.last = Some((mask, epoch, sessions));
        sessions
    }

    /// The thread as this namespace sees it; one that cannot be translated is as claimed.
    #[inline]
    pub fn thread(&mut self, claimed: u32) -> u32 {
        if self.threads.is_none() { claimed } else { self.find_thread(claimed) }
    }

    #[inline(never)]
    fn find_thread(&mut self, claimed: u32) -> u32 {
        let Some(threads) = &mut self.threads else { return claimed };
        if !threads.contains_key(&claimed) && threads.len() < 65_536 {
            learn_threads(self.process_id, threads);
            threads.entry(claimed).or_insert(claimed);
        }
        threads.get(&claimed).copied().unwrap_or(claimed)
    }
}

/// Is the process in another PID namespace than we are?
fn is_elsewhere(process: u32) -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    match (of(&process.to_string()), of("self")) {
        (Some(theirs), Some(ours)) => theirs != ours,
        _ => false,
    }
}

/// `NSpid:` lists a thread's ids from our namespace inward.
fn learn_threads(process: u32, threads: &mut HashMap<u32, u32>) {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else { return };
    for task in tasks.flatten() {
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        let Some(ids) = status.lines().find_map(|line| line.strip_prefix("NSpid:")) else {
            continue;
        };
        let mut ids = ids.split_ascii_whitespace().filter_map(|id| id.parse().ok());
        if let (Some(ours), Some(theirs)) = (ids.next(), ids.next_back()) {
            threads.insert(theirs, ours);
        }
    }
}

/// A segment as it comes from a program: checked before it is used.
pub(crate) fn segment(descriptors: Vec<OwnedFd>) -> Result<etw_ring::Source, String> {
    let [memory] = <[OwnedFd; 1]>::try_from(descriptors)
        .map_err(|all| format!("{} descriptors instead of one", all.len()))?;
    // More than the layout knows of would only cost.
    let size = rustix::fs::fstat(&memory).map_err(|error| error.to_string())?.st_size;
    let most = etw_ring::layout::DATA_OFFSET
        + etw_ring::layout::MAX_SEGMENT_UNITS * etw_ring::layout::UNIT_SIZE;
    if !(0..=most as i64).contains(&size) {
        return Err(format!("a segment of {size} bytes"));
    }
    etw_ring::Source::received(memory).map_err(|error| error.to_string())
}
