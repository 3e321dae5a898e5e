//! A session's enablement of a provider by name.

use etw_session::EnableInfo;
use etw_types::Guid;
use serde::{Deserialize, Serialize};

use crate::program::Registered;

/// GUIDs that one name may stand for. A program could register any number of them.
const MAX_GUIDS: usize = 16;

/// A session's enablement of a provider by name.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct NameRequest {
    pub name: String,
    pub info: EnableInfo,
    /// The providers that were enabled for it: the name's hash, then those that programs registered.
    pub ids: Vec<Guid>,
}

impl NameRequest {
    pub fn is_for(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Whether a registration is one more provider of this name.
    pub fn lacks(&self, registered: &Registered) -> bool {
        self.is_for(&registered.name) && self.lacks_id(&registered.provider.id)
    }

    /// Whether a provider can be added.
    pub fn lacks_id(&self, id: &Guid) -> bool {
        self.ids.len() < MAX_GUIDS && !self.ids.contains(id)
    }
}
