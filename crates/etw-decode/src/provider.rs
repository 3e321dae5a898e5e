//! [`ManifestProvider`]: what a manifest, in text or compiled, says of a provider.

use crate::schema::Schema;
use etw_types::Guid;
use std::collections::HashMap;

/// A provider and its events.
#[derive(Clone, Debug, Default)]
pub struct ManifestProvider {
    /// Its GUID.
    pub guid: Guid,
    /// Another GUID by which sessions enable it.
    pub control_guid: Option<Guid>,
    /// Its name.
    pub name: String,
    /// By id and version.
    pub events: HashMap<(u16, u8), Schema>,
    /// What it can be enabled by: mask and name.
    pub keywords: Vec<(u64, String)>,
}
