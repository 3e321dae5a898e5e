//! `Target`: a provider that a session can enable.

use etw_types::Guid;

use crate::provider::Provider;

/// The target of an enablement: a provider of this program, or the GUID of a provider or of a provider group.
///
/// Sealed: [`Provider`] and [`Guid`] implement it.
pub trait EnableTarget: sealed::Sealed {
    /// The GUID of the provider or provider group.
    fn guid(&self) -> Guid;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Provider {}
    impl Sealed for super::Guid {}
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
