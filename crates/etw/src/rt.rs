//! The items that expansions of the macros name. Not for direct use: they change with the macros.
//!
//! * `site`: an event's static bytes, which the compiler evaluates;
//! * `plain`, `text`, `field`: codecs of values, and fields of any shape;
//! * `manifest`: fields of events that a manifest describes;
//! * `ids`: types that can be an activity id.

mod field;
mod ids;
mod manifest;
mod plain;
mod site;
mod text;

pub use etw_macros::{define_provider, event_error, provider_enabled, provider_error, write_event};

pub use crate::write::{
    Described, Extras, Fill, LevelAndKeyword, Routes, Site, commit_described, commit_site,
    only_route, only_route_behind_gate, routes, try_begin_described, try_begin_described_usual,
    try_begin_site, try_begin_site_usual, try_write_described_inline, try_write_site_inline,
    write_described, write_site, write_site_of_bytes, write_site_with,
};
pub use etw_ring::{FillRoom, NotUsual, Piece, Room};
pub use field::{
    Field, Items, Opt, Out, Raw, array, items, opt, opt_text, raw, scalar, slice, text, text_array,
    text_slice,
};
pub use ids::Id;
pub use manifest::{Wide, checked, counted_wide, each, system_time, values, wide};
pub use plain::*;
pub use site::{Const, HEX_POINTER, INT_POINTER, Part, UINT_POINTER, name, site_bytes, site_size};
pub use text::{Bytes, Counted8, Counted16, Sid, Text, Units, Zero8, Zero16, has_nul};

use etw_types::{Keyword, Level};

use crate::Provider;

/// `provider_enabled!`
#[inline(always)]
pub fn enabled(provider: &Provider, level: Level, keyword: Keyword) -> bool {
    provider.is_enabled(level, keyword)
}
