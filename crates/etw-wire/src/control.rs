//! What controllers ask of a host and are answered: one JSON object a message.

use std::collections::BTreeMap;
use std::path::PathBuf;

use etw_session::EnableInfo;
use etw_types::{Guid, LogFileMode};
use serde::{Deserialize, Serialize};

pub use crate::start_request::{StartJson, StartRequest, milliseconds};

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Request {
    /// Starts a session.
    Start(Box<StartRequest>),
    /// Stops one: everything written before is stored.
    Stop {
        /// Its name, compared without case.
        session: String,
    },
    /// One session's state and ledger.
    Query {
        /// Its name.
        session: String,
    },
    /// All sessions.
    List,
    /// Everything written before is in the file, or with the consumers.
    Flush {
        /// Its name.
        session: String,
    },
    /// Changes a running session.
    Update {
        /// Its name.
        session: String,
        /// What to change.
        #[serde(flatten)]
        update: Update,
    },
    /// Wants events of a provider or provider group, or others than before.
    Enable {
        /// The session's name.
        session: String,
        /// GUID of the provider or group.
        provider: Guid,
        /// What is wanted.
        info: EnableInfo,
        /// `EnableTraceEx2`'s: milliseconds to wait for the programs' callbacks; 0: not.
        timeout_ms: u32,
    },
    /// Wants none any more.
    Disable {
        /// The session's name.
        session: String,
        /// GUID of the provider or group.
        provider: Guid,
    },
    /// Asks the provider for rundown events.
    CaptureState {
        /// The session's name.
        session: String,
        /// GUID of the provider or group.
        provider: Guid,
        /// As requested.
        level: u8,
        /// As requested.
        any: u64,
        /// As requested.
        all: u64,
    },
    /// The providers that are registered now, and those that are enabled.
    Providers,
    /// Events of a real-time session: the answer comes with a stream of buffers.
    Consume {
        /// Its name.
        session: String,
    },
    /// Writes what a session in memory holds to a file.
    Snapshot {
        /// Its name.
        session: String,
        /// The file, absolute.
        file: PathBuf,
    },
    /// Ends the host: sessions are stopped first.
    Shutdown,
}

impl Request {
    /// A request to start a session.
    pub fn start(request: impl Into<StartRequest>) -> Request {
        Request::Start(Box::new(request.into()))
    }
}

/// What `ControlTrace` may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Update {
    /// More buffers.
    pub buffers: Option<u32>,
    /// Another flush timer, ms; 0: none.
    pub flush_timer_ms: Option<u32>,
    /// Goes on in another file, absolute.
    pub file: Option<PathBuf>,
    /// Real-time delivery on or off.
    pub real_time: Option<bool>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Response {
    /// Done; there is nothing more to say.
    Done {
        /// What did not go as asked, in sentences.
        #[serde(default)]
        warnings: Vec<String>,
    },
    /// A session.
    Session(Box<SessionStatus>),
    /// All sessions.
    Sessions {
        /// By name.
        sessions: Vec<SessionStatus>,
    },
    /// All providers.
    Providers {
        /// By GUID.
        providers: Vec<ProviderStatus>,
    },
    /// Not done.
    Error {
        /// ETW's status, a Win32 value.
        status: u32,
        /// Why, and what to do.
        message: String,
    },
}

/// A session's state.
#[doc(alias = "EVENT_TRACE_PROPERTIES")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SessionStatus {
    pub name: String,
    pub guid: Guid,
    pub id: u32,
    /// `running`, `file-full`, `stopping`, `stopped`.
    pub state: String,
    pub file: Option<PathBuf>,
    /// `LogFileMode` bits.
    pub mode: LogFileMode,
    pub max_size: u64,
    pub buffer_size: u32,
    pub buffers: u32,
    pub free_buffers: u32,
    pub flush_timer_ms: u32,
    pub clock: u32,
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
    /// Of those stored, without the call stack that was wanted: it found no room, or their program captures none.
    pub without_stack: u64,
    /// By cause, provider and process, the largest first; at most [`MAX_LOSSES`], and what is beyond by cause.
    pub losses: Vec<LossStatus>,
    /// Registrations of which the session has nothing, or had nothing for a time, since it is their program's or their provider's ninth.
    /// Those beyond the rows below are counted each time that they are enabled.
    pub refused: u64,
    /// The first of them; at most [`MAX_REFUSALS`].
    pub refusals: Vec<RefusalStatus>,
    /// What is enabled.
    pub enabled: BTreeMap<String, EnableInfo>,
    /// The last error of its file.
    pub error: Option<String>,
}

/// Rows of [`SessionStatus::losses`].
pub const MAX_LOSSES: usize = 200;

/// Rows of [`SessionStatus::refusals`].
pub const MAX_REFUSALS: usize = 50;

/// A provider of a process, of which a session has nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct RefusalStatus {
    pub pid: u32,
    pub provider: Guid,
    /// ETW's status, a Win32 value: 1450 (`ERROR_NO_SYSTEM_RESOURCES`) for a ninth session.
    pub status: u32,
    /// A sentence that says so.
    pub message: String,
}

/// A loss.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct LossStatus {
    pub cause: String,
    pub provider: Option<Guid>,
    pub pid: Option<u32>,
    pub count: u64,
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

/// Frames of a consumer's stream: u32 kind, u32 size, then so many bytes.
pub mod stream {
    /// The first buffer of an `.etl` file: what the session is.
    pub const START: u32 = 1;
    /// A buffer, as it lies in files, up to its filled length.
    pub const BUFFER: u32 = 2;
    /// u64 time: no event before it, on the session's clock, will come any more.
    pub const WATERMARK: u32 = 3;
    /// u64 buffers, u64 events: what this consumer has lost because it did not read, since the last such frame.
    pub const LOST: u32 = 4;
    /// The session has ended.
    pub const END: u32 = 5;
    /// i64, u64: the sequence number of the first buffer that will come, and how many events the session has handed out before it,
    /// since it began. Behind [`START`].
    pub const POSITION: u32 = 6;
    /// Largest frame.
    pub const MAX_FRAME: usize = 16 << 20;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back() {
        use etw_session::{
            Condition, Enablement, EventKey, Filters, PayloadFilter, PayloadOp, SessionConfig,
        };
        let filter = PayloadFilter {
            of: EventKey::Id(7, None),
            conditions: vec![Condition::new("a.b", PayloadOp::Between, &["1", "0x20"]).unwrap()],
            any: true,
            match_all: false,
            metadata: None,
        };
        let filters = Filters { payload: vec![filter], ..Filters::default() };
        let info = EnableInfo { filters: Some(Box::new(filters)), ..EnableInfo::default() };
        let config = SessionConfig {
            name: "a".to_owned(),
            enable: vec![Enablement::new(Guid::from_u128(3), info)],
            ..SessionConfig::default()
        };
        for request in [
            Request::Start(Box::new(config.into())),
            Request::List,
            Request::Update {
                session: "x".to_owned(),
                update: Update { buffers: Some(3), ..Update::default() },
            },
        ] {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request, "{text}");
        }
        assert!(serde_json::from_str::<Request>(r#"{"do":"stop"}"#).is_err());
        // What a later version adds is not an error.
        let text = r#"{"do":"query","session":"a","detail":3}"#;
        assert!(serde_json::from_str::<Request>(text).is_ok());
    }
}
