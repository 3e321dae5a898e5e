//! Reports of a host about its sessions and providers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use etw_session::{Compression, EnableInfo, Loss, SessionClock, SystemConfig};
use etw_types::{Guid, LogFileMode};
use serde::{Deserialize, Serialize};

/// A session's state.
#[doc(alias = "EVENT_TRACE_PROPERTIES")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SessionStatus {
    pub name: String,
    pub guid: Guid,
    pub id: u32,
    /// `running`, `failing: WHY`, `file-full`, `stopped`. A session without a free buffer is `full`. The state of a `full` or
    /// `file-full` session also says whether other sessions lose the same events.
    pub state: String,
    pub file: Option<PathBuf>,
    /// `LogFileMode` bits.
    pub mode: LogFileMode,
    pub compressed: Compression,
    pub max_size: u64,
    /// An event was lost because a file had its maximum size.
    pub file_full: bool,
    pub buffer_size: u32,
    pub buffers: u32,
    pub free_buffers: u32,
    pub flush_timer_ms: u32,
    /// ETW's number in JSON.
    #[serde(with = "clock_number")]
    pub clock: SessionClock,
    /// User who started it.
    pub owner: u32,
    pub leased: bool,
    pub consumers: u32,
    pub buffers_written: u64,
    pub buffers_lost: u64,
    pub real_time_buffers_lost: u64,
    pub attempted: u64,
    pub stored: u64,
    pub overwritten: u64,
    pub filtered: u64,
    pub lost: u64,
    /// Stored events that lack a requested call stack: it did not fit, or their program captures none.
    pub without_stack: u64,
    /// Losses by cause, provider and process, the largest first. At most [`MAX_LOSSES`] rows; the rest are summed by cause.
    pub losses: Vec<Loss>,
    /// Registrations that refused the session, now or earlier, because eight sessions of their program or provider exist. Beyond the
    /// rows of `refusals`, each refusal counts again.
    pub refused: u64,
    /// The first refusals; at most [`MAX_REFUSALS`].
    pub refusals: Vec<RefusalStatus>,
    /// Enabled providers, by GUID.
    pub enabled: BTreeMap<String, EnableInfo>,
    /// Providers that are enabled by name: the GUIDs in `enabled` that each name stands for, its hash first.
    pub names: BTreeMap<String, Vec<Guid>>,
    /// The last error of its file.
    pub error: Option<String>,
    /// The events of the system that it records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemConfig>,
    /// Sentences that say what their recording leaves out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Rows of [`SessionStatus::losses`].
pub const MAX_LOSSES: usize = 200;

/// Rows of [`SessionStatus::refusals`].
pub const MAX_REFUSALS: usize = 50;

/// A provider of one process that refused a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct RefusalStatus {
    pub pid: u32,
    pub provider: Guid,
    /// ETW's status, a Win32 value: 1450 (`ERROR_NO_SYSTEM_RESOURCES`) for a ninth session.
    pub status: u32,
    /// The status as a sentence.
    pub message: String,
}

/// A provider's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct ProviderStatus {
    pub id: Guid,
    pub name: String,
    pub group: Option<Guid>,
    /// Processes that have it registered.
    pub pids: Vec<u32>,
    /// Sessions that have it enabled.
    pub sessions: Vec<String>,
}

/// Whether a host can record a class of the system's events, and by which mechanism.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemClassStatus {
    /// logman's word for the class, or xperf's.
    pub class: String,
    /// The mechanism, or `None`: the class cannot be recorded.
    pub mechanism: Option<String>,
    /// The missing part, and the right that gives it.
    pub missing: Option<String>,
    /// The remedy if it cannot be recorded.
    pub remedy: String,
}

/// A clock as ETW's number. A number that only a later host knows is read as the performance counter.
mod clock_number {
    use etw_session::SessionClock;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(clock: &SessionClock, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(clock.number())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SessionClock, D::Error> {
        Ok(SessionClock::of_number(u32::deserialize(from)?).unwrap_or_default())
    }
}

/// The state of an event log that a host keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogStatus {
    /// Name of the channel.
    pub name: String,
    /// The number that the next record gets; `None` for a log that could not be opened.
    pub next_id: Option<u64>,
    /// Records that could not be stored since the host's start, or that their program may not write.
    pub lost: u64,
    /// Why the last records could not be stored; `None`: they were.
    pub failure: Option<String>,
}
