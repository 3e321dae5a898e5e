//! References to providers, static or shared.

use std::sync::Arc;

use super::Provider;

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
