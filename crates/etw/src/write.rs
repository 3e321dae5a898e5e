//! The path of an event, from the sessions that want it to the pools of their hosts.
//!
//! ```text
//!  static site                        descriptor alone                 anything else
//!  write_event!, C's TraceLogging     EventWrite of C and evntprov     evntrace, EventBuilder, metadata of evntprov
//!       │                                  │                                │
//!  write_site, or (C)                 try_write_described_inline            │
//!  try_write_site_inline                   │                                │
//!       │ None                             │ None                           │
//!  write_site_routed                  write_described                       │
//!       │ try_write_site_in_activity       │ try_write_described_to         │
//!       │ None                             │ None                           │
//!  write_site_elsewhere                    │                                │
//!       │ try_write_site_to                │                                │
//!       │ None                             │                                │
//!  write_site_with ───────────────────► write_any ◄─────────────────────────┘
//!                                          │ a session wants call stacks: write_any_with_stack
//!                                     write_any_routed
//!                                          │ one host                │ several hosts
//!                                     Writer::try_write,         write_any_to_hosts: reserve in each pool,
//!                                     then Writer::write         one timestamp, commit
//! ```
//!
//! `write_event!` and C's macros put values by themselves, between `begin_…` and `commit_…`: the first paths in two calls each.
//!
//! TraceMessage tries `try_write_message` before `write_any`, if its message has a GUID: its header travels in the record, and it
//! belongs to no activity.
//!
//! # Names
//!
//! * `write_…` writes the event or counts its loss, and returns the status.
//! * `try_write_…` does so only if that is simple; `None` means that nothing happened, and the caller takes the next path
//!   of the diagram.
//! * `…_site`: the descriptor and metadata are static, and the pool's site table holds them. `…_described`: the descriptor
//!   travels in the record, and there is no metadata. `…_any`: an [`Event`] says what stands in the site and what travels.
//! * `…_inline` is compiled into its caller, `…_to` writes to one given host, `…_elsewhere` writes to other hosts than the
//!   first. `…_fast` needs the usual machine, a site that the pool knows, and a chunk with space.
//!
//! # Why there are several paths
//!
//! An event for one session of the first host, in no activity, costs about a third of one on the general path: its request
//! stays in registers, its header is written before its payload, and one compare decides its admission. So the first path
//! accepts only that event, and calls nothing: whatever needs a call is left to the next path. What fills the payload is compiled
//! into the site, between the path's two halves, so that values need not go through memory. Whatever it refuses ([`MAX_PAYLOAD_SIZE`], activities, other hosts, full chunks, sites that are
//! not interned yet, call stacks) falls down the diagram to a path that accepts more and costs more. No path writes what
//! another path could not: all of them put the same record into the pool.

mod any;
mod described;
mod message;
mod site;
mod site_event;
mod status;

#[cfg(windows)]
pub(crate) use any::write_any_excluding;
pub(crate) use any::{Event, TOO_LARGE, size_on_disk, write_any};
pub(crate) use described::try_write_described_fast;
pub use described::{
    Described, commit_described, try_begin_described, try_begin_described_usual,
    try_write_described_inline, write_described,
};
pub(crate) use message::{Message, try_write_message};
pub use site::{LevelAndKeyword, Site, descriptor_bytes};
pub use site_event::{
    Extras, commit_site, try_begin_site, try_begin_site_usual, try_write_site_inline, write_site,
    write_site_of_bytes, write_site_with,
};

use etw_ring::Room;
#[cfg(doc)]
use etw_ring::layout::MAX_PAYLOAD_SIZE;

use etw_types::{Keyword, Level};

use crate::provider::Provider;

/// An extended item with a GUID.
const GUID_ITEM_SIZE: u32 = 24;

/// Puts an event's values into its record. A value that does not fit spoils the event: the write is refused and counted.
pub type Fill<'a> = dyn for<'r> Fn(Room<'r>) -> Room<'r> + 'a;

/// The sessions that want an event: a bit for each, attachment × 8 + session slot.
#[derive(Clone, Copy, Debug)]
pub struct Routes(pub(crate) u64);

impl Routes {
    /// Whether any session wants the event.
    #[inline(always)]
    pub fn any(self) -> bool {
        self.0 != 0
    }
}

/// The sessions that want events of this level and keyword. `write_event!` asks behind its gate, before it evaluates the
/// event's values.
#[inline(always)]
pub fn routes(provider: &Provider, level: Level, keyword: Keyword) -> Routes {
    Routes(provider.routes(level, keyword))
}

/// [`routes`] as a number, if at most one session has the provider enabled: 0 for none, 1 for the first session of the first
/// host. `None`: several sessions may want the event.
#[inline(always)]
pub fn only_route(provider: &Provider, level: Level, keyword: Keyword) -> Option<u64> {
    provider.only_route(level, keyword)
}

/// [`only_route`] of a site whose event passed a gate of the caller's with the level and masks that enable callbacks get: the same question
/// is not asked twice. While a session changes what it wants, the gate may be that of a moment before.
#[inline(always)]
pub fn only_route_behind_gate(provider: &Provider, site: &Site) -> Option<u64> {
    match provider.route_behind_gate() {
        None => {
            etw_types::cold_path();
            let LevelAndKeyword { level, keyword } = site.level_and_keyword();
            provider.only_route(level, keyword)
        }
        route => route,
    }
}
