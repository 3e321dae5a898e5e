//! Registrations, and references to providers.

use std::sync::Arc;

use super::Provider;
use crate::registry;

/// Keeps a provider registered; dropping it unregisters.
///
/// A provider may be registered from several places: it stays registered until the last of them is dropped.
#[derive(Debug)]
#[must_use = "the provider is unregistered when this is dropped"]
pub struct Registration {
    provider: ProviderRef,
    callback: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum ProviderRef {
    Static(&'static Provider),
    Shared(Arc<Provider>),
}

impl std::ops::Deref for ProviderRef {
    type Target = Provider;
    fn deref(&self) -> &Provider {
        match self {
            ProviderRef::Static(provider) => provider,
            ProviderRef::Shared(provider) => provider,
        }
    }
}

impl Registration {
    pub(crate) fn new(provider: ProviderRef, callback: Option<u64>) -> Registration {
        Registration { provider, callback }
    }

    /// The provider.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Keeps it registered for as long as the process lives.
    pub fn forever(self) {
        std::mem::forget(self);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        registry::unregister(&self.provider, self.callback);
    }
}
