//! The host of global sessions: it records the programs of many processes for sessions that controllers start.
//!
//! ```text
//!   programs ────── registrations, pools ──► server ──messages──► host thread ──buffers──► storage threads ──► files
//!   controllers ─── requests ──────────────► (one thread)         (one thread) └─────────► consumer threads ─► streams
//! ```
//!
//! * `server` accepts connections, reads whole messages and identifies their senders. It decides nothing.
//! * `host_thread` owns all state: the engine ([`etw_host::engine`]) with sessions and pools, and the programs. It waits for
//!   nobody: a program, controller or consumer that does not read is disconnected.
//! * Storage and consumers have a thread each.
//!
//! [`Host`] is all of this in one process. The daemon and `etw record` have two: a [keeper](keep()), which only holds sockets and
//! memory, and a worker with the host. A new worker replaces one that is killed, and takes over.
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg(target_os = "linux")]

mod asker;
mod consumer;
mod controllers;
mod ended_stream;
mod event_log;
mod global_host;
mod global_session;
mod haste;
mod host_options;
mod host_thread;
mod keeper;
mod keeper_protocol;
mod kept_state;
mod log;
mod mailbox;
mod name_request;
mod program;
mod refusals;
mod registered_names;
mod rights;
mod runtime_claim;
mod server;
mod session_memory;
mod session_status;
mod sessions_file;
mod shared_rings;
mod system_classes;
mod system_events;
mod system_source;

pub use global_host::Host;
pub use host_options::HostOptions;
pub use host_thread::system_providers::take_system_providers;
pub use keeper::{REFUSED_WORKER, end as end_keeper, is_refusal, keep};
pub use sessions_file::{begin_work, check_sessions_file, default_sessions_file};
pub use system_events::system_events;
