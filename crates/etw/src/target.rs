use etw_types::Guid;

use crate::provider::Provider;

/// What can be enabled: a provider of this program, or the GUID of one, or of a provider group.
pub trait EnableTarget {
    /// The GUID.
    fn guid(&self) -> Guid;
}

impl EnableTarget for Provider {
    fn guid(&self) -> Guid {
        self.id()
    }
}

impl EnableTarget for Guid {
    fn guid(&self) -> Guid {
        *self
    }
}
