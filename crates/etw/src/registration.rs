//! Registrations: a provider that sessions can enable, for as long as one of them lives.

use std::sync::Arc;

use etw_types::Wanted;

use crate::provider::{EnableCallback, EnableChange, Following, Provider, ProviderRef};
use crate::registry;

/// Keeps a provider registered; dropping it unregisters the provider.
///
/// Several parts of a program may register the same provider: it stays registered until the last registration is dropped.
///
/// `let _ = PROVIDER.register();` unregisters at once, since `_` keeps nothing. rustc's lint `let_underscore_drop` finds this:
///
/// ```compile_fail
/// #![deny(let_underscore_drop)]
/// etw::define_provider!(SHOP, "MyCompany.Shop");
/// let _ = SHOP.register();
/// ```
///
/// At run time `ETW_DIAGNOSE=1` reports it.
#[derive(Debug)]
#[must_use = "the provider is unregistered when this is dropped: keep it in a variable like `_registration` (`let _ =` drops it at once), or call `forever()`"]
pub struct Registration {
    provider: ProviderRef,
    listener: Option<u64>,
}

/// Registers a provider, and connects to the hosts of global sessions if this is the process's first registration.
/// `known`: the enable state that the callback knows, by another registration.
pub(crate) fn register(
    provider: ProviderRef,
    following: Following,
    known: Option<Wanted>,
) -> Registration {
    #[cfg(target_os = "linux")]
    crate::attach::begin();
    #[cfg(windows)]
    crate::system::begin();
    let listener = registry::register(&provider, following, known);
    Registration { provider, listener }
}

impl Registration {
    /// The provider.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Keeps the provider registered for as long as the process lives.
    pub fn forever(self) {
        std::mem::forget(self);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        registry::unregister(&self.provider, self.listener);
    }
}

impl Provider {
    /// Registers the provider, so that sessions can enable it. Several parts of a program may do so.
    pub fn register(&'static self) -> Registration {
        register(ProviderRef::Static(self), Following::default(), None)
    }

    /// [`register`](Self::register) with a callback for every change of the enable state. If sessions have enabled the provider
    /// already, the callback runs once before this returns, with what they ask for together (OV-15). In the child of a fork,
    /// it is called for the child's changes, and not for the fork itself.
    ///
    /// The callback may write events. Other threads may write at the same time. The callback must not register or unregister
    /// its own provider.
    pub fn register_with(
        &'static self,
        callback: impl Fn(&EnableChange<'_>) + Send + Sync + 'static,
    ) -> Registration {
        register(ProviderRef::Static(self), Following::callback(Some(Arc::new(callback))), None)
    }

    /// Registers a provider made at run time.
    pub fn register_shared(
        self: &Arc<Self>,
        callback: Option<Arc<EnableCallback>>,
    ) -> Registration {
        register(ProviderRef::Shared(self.clone()), Following::callback(callback), None)
    }
}
