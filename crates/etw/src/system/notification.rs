//! Changes of a provider's enable state, as the system reports them.

use etw_types::{Guid, Keyword, Level, LevelKeyword};

use crate::diagnose::report;
use crate::registry::{self, Enable, Providers};
use etw_types::raw::RawFilterDescriptor;

/// The largest filter that is copied. The system allows 64 KiB at most.
const MAX_FILTER_SIZE: u32 = 1 << 16;

/// One call of the system's callback.
#[derive(Debug)]
pub(super) enum Notification {
    Disable { source: Guid },
    Enable { source: Guid, enable: Enable },
    CaptureState { source: Guid, wanted: LevelKeyword },
}

impl Notification {
    /// `None` for a control code that is not known.
    ///
    /// # Safety
    /// `source` and `filter` are null or readable, and so are the bytes that `filter` names.
    pub unsafe fn read(
        source: *const Guid,
        code: u32,
        (level, any, all): (u8, u64, u64),
        filter: *const RawFilterDescriptor,
    ) -> Option<Notification> {
        // SAFETY: the caller promises it.
        let (source, filter_data) = unsafe {
            let source = source.as_ref().copied().unwrap_or(Guid::ZERO);
            let filter = filter.as_ref().filter(|filter| {
                filter.kind == RawFilterDescriptor::SCHEMATIZED
                    && filter.address != 0
                    && filter.size <= MAX_FILTER_SIZE
            });
            let data = filter.map(|filter| {
                let start: *const u8 = std::ptr::with_exposed_provenance(filter.address as usize);
                std::slice::from_raw_parts(start, filter.size as usize).to_vec()
            });
            (source, data.unwrap_or_default())
        };
        let wanted = LevelKeyword {
            level: Level(level),
            any: Keyword(any),
            all: Keyword(all),
            ignore_keyword_0: false,
        };
        match code {
            0 => Some(Notification::Disable { source }),
            1 => {
                let enable = Enable { slot: 0, wanted, stacks: None, since: now(), filter_data };
                Some(Notification::Enable { source, enable })
            }
            2 => Some(Notification::CaptureState { source, wanted }),
            _ => None,
        }
    }

    /// Keeps the state for a registration that is being made. Its callback gets the state then; a capture state request in that
    /// moment adds nothing to it.
    pub fn keep(self, kept: &mut Option<Enable>) {
        match self {
            Notification::Disable { .. } => *kept = None,
            Notification::Enable { enable, .. } => *kept = Some(enable),
            Notification::CaptureState { .. } => {}
        }
    }

    /// Changes the provider's enable state, and runs its callbacks.
    pub fn apply(self, number: u32) {
        let providers = Providers::Number(number);
        match self {
            Notification::Disable { source } => change(providers, None, source),
            Notification::Enable { source, enable } => change(providers, Some(&enable), source),
            Notification::CaptureState { source, wanted } => {
                registry::capture_state(super::ATTACHMENT, providers, &wanted, source);
            }
        }
    }
}

fn change(providers: Providers, enable: Option<&Enable>, source: Guid) {
    if let Err(status) = registry::set(super::ATTACHMENT, 0, providers, enable, source) {
        // The provider has eight private sessions already.
        report(|| format!("the system's sessions get no events of a provider: {status}"));
    }
}

/// The order of requests, which decides between those of a classic provider.
fn now() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static REQUESTS: AtomicU64 = AtomicU64::new(0);
    REQUESTS.fetch_add(1, Ordering::Relaxed) + 1
}
