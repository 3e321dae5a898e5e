//! The facts that the keeper holds for the next worker, as JSON. Their field names are a format: a newer worker may take over
//! from an older one.

use std::path::PathBuf;

use etw_host::engine::Slot;
use etw_session::{EnableInfo, SystemConfig};
use etw_types::Guid;
use etw_wire::requests::StartRequest;
use serde::{Deserialize, Serialize};

use crate::name_request::NameRequest;
use crate::refusals::Refusals;
use crate::system_classes::SystemClasses;

/// A session.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptSession {
    pub start: StartRequest,
    pub owner: u32,
    pub is_leased: bool,
    pub is_real_time: bool,
    /// Kept before the first step of the ending: the next worker completes it.
    pub ending: Ending,
    /// `SessionFacts::to_bytes`.
    pub facts: Vec<u8>,
    pub enabled: Vec<(Guid, EnableInfo)>,
    /// When each provider was enabled.
    pub since: Vec<(Guid, u64)>,
    /// Number of buffers in each memory.
    pub buffers: Vec<u32>,
    /// The number of its file, as in the positions of buffers.
    pub file_number: u32,
    /// Earlier files whose buffers are not all stored, the oldest first.
    pub before: Vec<KeptFile>,
    pub refusals: Refusals,
    /// Events in the circular files before.
    #[serde(default)]
    pub events_before: u64,
    /// Events in the files of a series.
    #[serde(default)]
    pub series: Vec<(u32, u64)>,
    /// Consumers, when the entry was last kept.
    #[serde(default)]
    pub consumers: usize,
    /// Enablements by name. Earlier workers have none.
    #[serde(default)]
    pub names: Vec<NameRequest>,
    /// The rings of its system events.
    #[serde(default)]
    pub ring_set: RingSet,
    /// Recordings of other system events before, whose last events are not final yet, the oldest first.
    #[serde(default)]
    pub recordings_before: Vec<KeptRecording>,
    /// The system's classes by those that asked for them. Earlier workers have none: all are the session's own.
    #[serde(default)]
    pub system_classes: SystemClasses,
}

/// The rings of one recording of system events. A session that changes what it records has two of them for a moment.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct RingSet {
    /// Its number in the names of the rings.
    pub number: u64,
    /// The session's events from this time on are in these rings, and those before in the set before.
    pub since: i64,
    /// Each CPU and its thread at that time, by the set before; `None`: that one has not ended, or an earlier worker kept none.
    #[serde(default)]
    pub follows: Option<Vec<(u16, Option<u32>)>>,
}

/// A recording of system events whose place another one took.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct KeptRecording {
    pub system: SystemConfig,
    pub ring_set: RingSet,
}

/// The part of a session that is being ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    #[default]
    Nothing,
    /// The enablement of a provider.
    Provider(Guid),
    /// The session.
    Session,
}

/// The stream of a session that has ended, until its consumers have read it.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptStream {
    /// The session's name.
    pub session: String,
    /// `SessionFacts::to_bytes`.
    pub facts: Vec<u8>,
    /// The position at the end.
    pub next_sequence: i64,
    /// Events that the session has handed out.
    pub events: u64,
    /// Consumers that had not read the stream to its end.
    pub consumers: usize,
}

/// A file of a session that has continued in another one.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct KeptFile {
    pub number: u32,
    pub path: PathBuf,
    /// `SessionFacts::to_bytes`.
    pub facts: Vec<u8>,
    /// Events in the file, if it is circular.
    #[serde(default)]
    pub events: u64,
}

/// A program.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptProgram {
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    pub slots: Vec<Option<Slot>>,
    pub token: u32,
}

/// A ring of system events. The first of its descriptors is the event from which it is mapped.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptRing {
    /// Bytes of its data.
    pub size: usize,
    pub is_side: bool,
    pub is_machine: bool,
    /// The CPU whose events it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u16>,
    /// The CPU has gone offline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_offline: bool,
    /// The tracepoints whose programs in the kernel fill it. Its map is then the first descriptor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// It is no ring, but memory with the losses that the ledger has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_told: bool,
}

/// A registration of a program.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptRegistration {
    pub id: Guid,
    pub traits: Vec<u8>,
    /// It was unregistered; its records may be on their way.
    pub is_gone: bool,
}
