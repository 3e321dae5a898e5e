//! The status of a write.

use etw_ring::Refused;
use etw_types::Status;

use crate::provider::Provider;

#[inline(always)]
pub(super) fn status(provider: &Provider, written: Result<(), Refused>) -> Status {
    match written {
        Ok(()) => Status::ERROR_SUCCESS,
        Err(refused) => refused_status(provider, refused),
    }
}

/// The status of a write that was begun: its payload is whole, or it has not the announced size.
#[inline(always)]
pub(super) fn status_of_begun(written: Result<(), Refused>) -> Status {
    match written {
        Ok(()) => Status::ERROR_SUCCESS,
        Err(refused) => Status(refused.status()),
    }
}

#[cold]
#[inline(never)]
pub(super) fn refused_status(provider: &Provider, refused: Refused) -> Status {
    if refused == Refused::Detached {
        // This process is a child of the one that attached, or the session has ended: the host's sessions want nothing more.
        // Lock-free, since in the child of a fork the registry's lock may be held for ever.
        provider.forget_detached();
        crate::registry::try_set_program_gates(provider);
    }
    match Status(refused.status()) {
        // A classic write names its session, so a session that has ended is an error.
        Status::ERROR_SUCCESS if provider.is_classic() => Status::ERROR_INVALID_HANDLE,
        status => status,
    }
}

/// The first failure of two writes.
pub(super) fn first_failure(a: Status, b: Status) -> Status {
    if a.is_success() { b } else { a }
}
