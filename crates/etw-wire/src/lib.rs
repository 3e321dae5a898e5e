//! What programs, controllers and the host of global sessions say to each other on Linux.
//!
//! * [`dir`]: where hosts are found, and how programs wait for one without polling;
//! * [`Channel`]: a `SOCK_SEQPACKET` Unix socket: one message a packet, with descriptors;
//! * [`message`]: what programs and hosts say; a fixed binary form, versioned by the first message;
//! * `control` (feature `control`): what controllers ask and are answered; JSON;
//! * `live` (feature `control`): the stream of a real-time session, over the host's workers.
//!
//! ```text
//! program                              host
//!   Hello version ───────────────────►
//!                ◄─────────────────── Welcome version, pool sizes + control memory, bell
//!   Register number, GUID, traits ───►
//!                ◄─────────────────── NeedPool          the first time that a session wants something of it
//!   Pool + memory ───────────────────►
//!                ◄─────────────────── Set token, number, slot, level, masks …    for each session
//!                ◄─────────────────── Registered number
//!   Done token ──────────────────────►
//! ```
//!
//! Neither side trusts the other's bytes: what is no message of this version ends the connection.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(target_os = "linux"), allow(unused))]

pub mod message;

#[cfg(target_os = "linux")]
mod channel;
#[cfg(all(target_os = "linux", feature = "control"))]
pub mod client;
#[cfg(all(target_os = "linux", feature = "control"))]
pub mod control;
#[cfg(target_os = "linux")]
pub mod dir;
#[cfg(all(target_os = "linux", feature = "control"))]
pub mod live;
#[cfg(all(target_os = "linux", feature = "control"))]
mod start;
#[cfg(all(target_os = "linux", feature = "control"))]
mod start_request;

#[cfg(target_os = "linux")]
pub use channel::{Channel, MAX_MESSAGE, Peer, Received};
