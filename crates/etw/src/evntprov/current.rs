//! The provider of a registration that its owner starts and ends at run time.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::handle::{RegHandle, provider_of_handle};
use crate::Provider;

/// The provider while there is no registration: its gate lets every level pass, so that the caller looks closer, and no session has it.
static NONE: Provider = Provider::with_open_gate();

/// Leads to the provider of a registration, so that an event that no session wants costs two loads and a compare.
#[derive(Debug)]
pub struct CurrentProvider(AtomicPtr<Provider>);

impl Default for CurrentProvider {
    fn default() -> CurrentProvider {
        CurrentProvider::new()
    }
}

impl CurrentProvider {
    /// Without a registration.
    pub const fn new() -> CurrentProvider {
        CurrentProvider(AtomicPtr::new(std::ptr::from_ref(&NONE).cast_mut()))
    }

    /// Takes the provider of a registration, whose traits are set already.
    pub fn set(&self, handle: Option<RegHandle>) {
        let provider = handle.and_then(provider_of_handle).unwrap_or(&NONE);
        self.0.store(std::ptr::from_ref(provider).cast_mut(), Ordering::Release);
    }

    /// The provider. It is never freed, but it is no longer the registration's once that has ended. Without a registration, a provider
    /// with an [open gate](Provider::has_level) that no session has enabled.
    #[inline(always)]
    pub fn get(&self) -> &'static Provider {
        // SAFETY: `new` and `set` store pointers from `&'static` references only.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evntprov::{event_register, event_unregister};
    use etw_types::{Guid, Keyword, Level};

    #[test]
    fn without_a_registration_the_gate_is_open_and_no_session_wants_the_event() {
        let current = CurrentProvider::new();
        let is_open = || current.get().has_level(Level(255));
        assert!(is_open() && current.get().routes(Level(0), Keyword(0)) == 0);
        let handle = event_register(&Guid::from_u128(0x005d_1e5b_6a77), None).unwrap();
        current.set(Some(handle));
        assert!(!current.get().has_level(Level(0)));
        current.set(None);
        assert!(is_open());
        event_unregister(handle);
        current.set(Some(handle));
        assert!(is_open());
    }
}
