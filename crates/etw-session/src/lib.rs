//! ETW sessions as a state machine, without files, clocks or threads: bytes, time and results come in as arguments.
//!
//! Layers, from the bottom:
//!
//! * [`Event`]: one event as a host hands it over, and its on-disk form;
//! * [`EnableInfo`], [`Filters`]: what a session wants of a provider;
//! * [`SessionConfig`]: the description of a session, with the rules of ETW; [`LogMode`]: how it uses its output;
//! * [`Session`]: buffers filled per CPU, handed out when full, in memory that the host gives;
//! * [`Router`]: up to 64 sessions behind one stream of events, all or none by default;
//! * [`Ledger`]: where every event went;
//! * [`recover`]: the buffers of a host that was killed.
//!
//! A host's round: [`Router::route`] each drained event; [`Session::seal`]; make the drain final elsewhere, under the same
//! batch number; [`Session::take_full`], store, [`Session::stored`].
//!
//! ```
//! use etw_session::*;
//! use etw_types::Guid;
//!
//! let provider = Guid::from_u128(1);
//! let config = SessionConfig { buffer_size: 4096, ..SessionConfig::default() };
//! let mut session = Session::new(&config, HostFacts::default(), vec![vec![0; 4096]; 4])?;
//! session.enable(provider, EnableInfo::default());
//! let mut router = Router::default();
//! router.insert(0, session);
//!
//! let event = Event { time: 10, provider, payload: b"hello", ..Event::default() };
//! assert_eq!(router.route(1, &event).stored, 1);
//!
//! let session = router.session_mut(0).unwrap();
//! session.stop(20);
//! session.seal(1);
//! let full = session.take_full().unwrap();
//! assert_eq!(full.bytes().len(), 4096);
//! session.stored(full);
//! assert_eq!(session.ledger().stored, 1);
//! # Ok::<(), SessionError>(())
//! ```
//!
//! A [`PayloadFilter`] reads a payload by TraceLogging metadata: the event's own or, for an event that carries none, the filter's.
//!
//! | feature | adds |
//! |---|---|
//! | `serde` | enablements as data, for messages and files of settings |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod buffer;
mod classic;
mod compression;
mod config;
mod config_error;
mod copy;
mod enable;
mod event;
mod event_record;
mod extra_items;
mod file_contents;
mod file_mode;
mod filter_error;
mod host_facts;
mod ledger;
mod log_file_mode;
mod log_mode;
mod loss_mark;

mod payload;
mod provider_key;
pub mod recover;
mod route;
mod session;
mod shape;
mod slice;
pub mod state;
mod trim;

pub use buffer::{FullBuffer, Place};
pub use compression::Compression;
pub use config::{
    Enablement, MAX_BUFFER_MEMORY, SessionClock, SessionConfig, SystemConfig, is_event_log,
};
pub use config_error::{ConfigError, ConfigOption};
pub use enable::{EnableInfo, EnableProperties, Filters};
pub use etw_types::{IdFilter, LevelKeywordFilter, NameFilter, StackFilter};
pub use event::{Event, MAX_EVENT_SIZE, ProcessFacts, stack_item};
pub use file_contents::{Cut, FileSlot, OLDEST_FILES};
pub use file_mode::FileMode;
pub use filter_error::FilterError;
pub use host_facts::{EventClock, FileEnd, HostFacts, SessionError};
pub use ledger::{Cause, Ledger, Loss};
pub use log_file_mode::{ModeError, SETTABLE_BITS, check_log_file_mode};
pub use log_mode::{AtMaxSize, LogMode, LogPolicy, WhenNoBufferIsFree};
pub use loss_mark::{LOSS_MARK_SIZE, LossMark};
pub use payload::{Condition, EventKey, PayloadFilter, PayloadOp};
pub use provider_key::ProviderKey;
pub use route::{Routed, Router, SLOTS};
pub use session::{
    Facts, HandOverPosition, KernelEvent, KernelRun, RunStage, Session, ShapedRun, State,
};
pub use shape::{Shape, Shaped};
pub use slice::Slice;
