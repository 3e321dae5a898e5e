//! Requests of controllers and the host's responses. Each message is one JSON object.

use std::path::PathBuf;

use etw_session::{EnableInfo, ProviderKey, SystemConfig};
use etw_types::{Guid, Keyword, Level};
use serde::{Deserialize, Serialize};

pub use crate::start_request::{StartJson, StartRequest, milliseconds};
pub use crate::status::{
    LogStatus, MAX_LOSSES, MAX_REFUSALS, ProviderStatus, RefusalStatus, SessionStatus,
    SystemClassStatus,
};

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Request {
    /// Starts a session.
    Start(Box<StartRequest>),
    /// Stops a session. Events that were written before are stored.
    Stop {
        /// The session's name, compared without case.
        session: String,
    },
    /// Makes this connection the owner of a leased session that the same user started: the session ends with it. After the host's worker was
    /// replaced, a leased session waits [`REPLACEMENT_PATIENCE`](crate::live_stream::REPLACEMENT_PATIENCE) for its owner, and ends without one.
    Lease {
        /// The session's name.
        session: String,
    },
    /// Requests a session's state and ledger.
    Query {
        /// The session's name.
        session: String,
    },
    /// Requests all sessions.
    List,
    /// Flushes: events that were written before are in the file, or delivered to the consumers.
    Flush {
        /// The session's name.
        session: String,
    },
    /// Changes a running session.
    Update {
        /// The session's name.
        session: String,
        /// The changes.
        #[serde(flatten)]
        update: Update,
    },
    /// Enables a provider or provider group, or changes its enablement.
    Enable {
        /// The session's name.
        session: String,
        /// The provider or group.
        provider: ProviderKey,
        /// The enablement.
        info: EnableInfo,
        /// The timeout of `EnableTraceEx2`: milliseconds to wait for the programs' callbacks; 0 does not wait.
        timeout_ms: u32,
    },
    /// Changes the events of the system that a session records. The session must have been started with some, or with none of them.
    System {
        /// The session's name.
        session: String,
        /// All that it records from now on.
        system: SystemConfig,
    },
    /// Disables a provider or provider group.
    Disable {
        /// The session's name.
        session: String,
        /// The provider or group.
        provider: ProviderKey,
    },
    /// Asks the provider for rundown events.
    CaptureState {
        /// The session's name.
        session: String,
        /// GUID of the provider or group.
        provider: Guid,
        /// Passed to the provider's callback.
        level: Level,
        /// Passed to the provider's callback.
        any: Keyword,
        /// Passed to the provider's callback.
        all: Keyword,
    },
    /// Requests the providers that are registered or enabled now.
    Providers,
    /// Subscribes to a real-time session. The response contains the socket of a stream of buffers.
    Consume {
        /// The session's name.
        session: String,
        /// When the session started, from its header, if this consumer has read its stream before. The stream of a session that has
        /// ended goes only to such consumers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_time: Option<i64>,
    },
    /// Ends the streams of this connection's [`Consume`](Request::Consume): they receive everything that was written before,
    /// and then their end.
    Detach {
        /// The session's name.
        session: String,
    },
    /// Writes the events of a session in memory to a file.
    Snapshot {
        /// The session's name.
        session: String,
        /// The file, absolute.
        file: PathBuf,
    },
    /// Requests the providers that programs have registered since the host started, ended programs included: `pids` has the last
    /// process of each, and `sessions` is empty.
    RecentProviders,
    /// Requests which events of the system the host can record, by its own rights.
    SystemEvents,
    /// Reads the registry of event logs again: manifests were installed or uninstalled, or settings of logs changed.
    RefreshLogs,
    /// Requests the states of the event logs that the host keeps.
    Logs,
    /// Clears an event log that the host keeps.
    ClearLog {
        /// Name of the log, compared without case.
        log: String,
        /// An event log that receives the records first; an absolute path.
        backup: Option<PathBuf>,
    },
    /// Ends the host, after it has stopped all sessions.
    Shutdown,
}

impl Request {
    /// A request to start a session.
    pub fn start(request: impl Into<StartRequest>) -> Request {
        Request::Start(Box::new(request.into()))
    }
}

/// The settings that `ControlTrace` can change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Update {
    /// A larger number of buffers.
    pub buffers: Option<u32>,
    /// The flush timer in ms; 0 switches it off.
    pub flush_timer_ms: Option<u32>,
    /// The file to continue in; an absolute path.
    pub file: Option<PathBuf>,
    /// Switches real-time delivery on or off.
    pub real_time: Option<bool>,
    /// `EnableFlags` of a session of the system's events, in place of those so far. Classes of system providers that it enables stay; without
    /// any flag, it records these alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_flags: Option<u32>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Response {
    /// The host has executed the request.
    Done {
        /// Warnings, in sentences.
        #[serde(default)]
        warnings: Vec<String>,
    },
    /// A session.
    Session(Box<SessionStatus>),
    /// All sessions.
    Sessions {
        /// Sorted by name.
        sessions: Vec<SessionStatus>,
    },
    /// All providers.
    Providers {
        /// Sorted by GUID.
        providers: Vec<ProviderStatus>,
    },
    /// The classes of the system's events.
    SystemEvents {
        /// Those that hosts record, each with what the host can do.
        classes: Vec<SystemClassStatus>,
    },
    /// The event logs that the host keeps.
    Logs {
        /// Sorted by name.
        logs: Vec<LogStatus>,
    },
    /// The host rejected the request.
    Error {
        /// The status of ETW, a Win32 value.
        status: u32,
        /// The reason, and what to do next.
        message: String,
    },
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
            of: EventKey::Id { id: 7, version: None },
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
            Request::SystemEvents,
            Request::Update {
                session: "x".to_owned(),
                update: Update { buffers: Some(3), ..Update::default() },
            },
        ] {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request, "{text}");
        }
        assert!(serde_json::from_str::<Request>(r#"{"do":"stop"}"#).is_err());
        // Members that a later version adds are ignored.
        let text = r#"{"do":"query","session":"a","detail":3}"#;
        assert!(serde_json::from_str::<Request>(text).is_ok());
    }
}
