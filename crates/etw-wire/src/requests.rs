//! What controllers ask of a host and are answered: one JSON object a message.

use std::path::PathBuf;

use etw_session::{EnableInfo, ProviderKey};
use etw_types::{Guid, Keyword, Level};
use serde::{Deserialize, Serialize};

pub use crate::start_request::{StartJson, StartRequest, milliseconds};
pub use crate::status::{MAX_LOSSES, MAX_REFUSALS, ProviderStatus, RefusalStatus, SessionStatus};

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
        /// The provider or group.
        provider: ProviderKey,
        /// What is wanted.
        info: EnableInfo,
        /// `EnableTraceEx2`'s: milliseconds to wait for the programs' callbacks; 0: not.
        timeout_ms: u32,
    },
    /// Wants none any more.
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
        /// As requested.
        level: Level,
        /// As requested.
        any: Keyword,
        /// As requested.
        all: Keyword,
    },
    /// The providers that are registered now, and those that are enabled.
    Providers,
    /// Events of a real-time session: the answer comes with a stream of buffers.
    Consume {
        /// Its name.
        session: String,
    },
    /// Ends the streams of this connection's [`Consume`](Request::Consume): they receive everything that was written before,
    /// and then their end.
    Detach {
        /// The session's name.
        session: String,
    },
    /// Writes what a session in memory holds to a file.
    Snapshot {
        /// Its name.
        session: String,
        /// The file, absolute.
        file: PathBuf,
    },
    /// The providers that programs have registered since the host started, ended programs included: `pids` has the last
    /// process of each, and `sessions` is empty.
    RecentProviders,
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
