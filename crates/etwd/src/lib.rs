//! The host of global sessions: programs of many processes are recorded by sessions that a controller starts.
//!
//! ```text
//!   programs ──registrations, memory──► server ──messages──► engine ──buffers──► storage threads ──► files
//!   controllers ──requests────────────►   (one thread)         (one thread)  └──► consumer threads ──► streams
//! ```
//!
//! * `server` accepts connections, reads whole messages and says who is at the other end; it decides nothing.
//! * `host_thread` owns all state: programs, sessions, pools. Between messages it drains the pools into the sessions. It waits for
//!   nobody: what a program, controller or consumer does not take is dropped with its connection.
//! * Storage and consumers have a thread each.
//!
//! [`Host`] is all of it in this process: `etw record` runs one. The daemon is two processes: a [keeper](keep()), which holds
//! sockets and memory and nothing else, and a worker with the host. A worker that is killed is replaced, and goes on.
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg(target_os = "linux")]

mod asker;
mod consumer;
mod global_host;
mod global_session;
mod host_thread;
mod keeper;
mod keeper_protocol;
mod kept_state;
mod log;
mod mailbox;
mod program;
mod refusals;
mod rights;
mod server;
mod session_memory;
mod session_status;
mod sessions_file;

pub use global_host::{Host, HostOptions};
pub use keeper::{end as end_keeper, keep};
pub use sessions_file::begin_work;
