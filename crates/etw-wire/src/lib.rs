//! Messages between programs, controllers, consumers and the host of global sessions, on Linux. Requests and responses alone are also
//! the form in which controllers on Windows ask for what the system then does.
//!
//! * [`runtime_directory`]: where programs find hosts, and how they wait for one without polling;
//! * [`user_namespace`]: how users appear in rootless containers;
//! * [`Channel`]: a `SOCK_SEQPACKET` Unix socket: one message a packet, with descriptors;
//! * [`message`]: messages of programs and hosts; a fixed binary form, versioned by the first message;
//! * `requests` (feature `requests`): requests of controllers and the host's responses; JSON;
//! * `host_client` (feature `requests`): a controller's connection, and hosts that programs start;
//! * `kept_logs` (feature `requests`): the event logs of running hosts;
//! * [`frames`], `live_stream` (feature `requests`): the stream of a real-time session, across restarts of the host's worker.
//!
//! ```text
//! program                              host
//!   Hello version ───────────────────►
//!                ◄─────────────────── Welcome version, pool sizes + control memory, bell
//!   Register number, GUID, traits ───►
//!                ◄─────────────────── NeedPool          when the first session enables one of its providers
//!   Pool + memory ───────────────────►
//!                ◄─────────────────── Set token, number, slot, level, masks …    for each session
//!                ◄─────────────────── Registered number
//!   Done token ──────────────────────►
//! ```
//!
//! Neither side trusts the other's bytes: an invalid message ends the connection.
//!
//! | feature | adds |
//! |---|---|
//! | `requests` | the requests of controllers, the host's responses, and live streams |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(target_os = "linux"), allow(unused))]

pub mod message;

#[cfg(target_os = "linux")]
mod channel;
#[cfg(feature = "requests")]
mod client_error;
pub mod frames;
#[cfg(all(target_os = "linux", feature = "requests"))]
pub mod host_client;
#[cfg(all(target_os = "linux", feature = "requests"))]
mod host_command;
#[cfg(target_os = "linux")]
mod host_failures;
#[cfg(all(target_os = "linux", feature = "requests"))]
mod host_process;
#[cfg(all(target_os = "linux", feature = "requests"))]
pub mod kept_logs;
#[cfg(all(target_os = "linux", feature = "requests"))]
pub mod live_stream;
#[cfg(feature = "requests")]
pub mod requests;
#[cfg(target_os = "linux")]
pub mod runtime_directory;
#[cfg(feature = "requests")]
mod start_request;
#[cfg(feature = "requests")]
mod status;
#[cfg(target_os = "linux")]
pub mod user_namespace;

#[cfg(feature = "requests")]
pub use client_error::ClientError;

#[cfg(target_os = "linux")]
pub use channel::{Channel, MAX_MESSAGE, Peer, Received};
