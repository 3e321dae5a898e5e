//! Which events of the system this process may record, as a host tells its controllers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use etw_system::availability::{Availability, availability};
use etw_types::Status;
use etw_wire::requests::{Response, SystemClassStatus};

use crate::asker::Asker;
use crate::rights::refused;

/// The classes of the system, each with the mechanism by which this process may record it.
pub fn system_events() -> Vec<SystemClassStatus> {
    let row = |Availability { class, mechanism, missing, remedy }| SystemClassStatus {
        class: class.to_owned(),
        mechanism,
        missing,
        remedy,
    };
    availability().into_iter().map(row).collect()
}

/// Looks at the host's rights for controllers, one look at a time: each loads programs into the kernel.
#[derive(Debug, Default)]
pub(crate) struct SystemEventsCheck {
    is_running: Arc<AtomicBool>,
}

/// A look that is under way.
struct Look(Arc<AtomicBool>);

impl Drop for Look {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl SystemEventsCheck {
    /// Answers from a thread of its own: programs wait for none of this.
    pub fn answer(&self, from: &Asker) {
        let Some(look) = self.begin() else {
            let what = "the host looks at its rights for another controller already; ask again";
            return from.answer(&refused(Status::ERROR_NO_SYSTEM_RESOURCES, what));
        };
        let asker = from.clone();
        let spawned = etw_host::spawn("etwd-rights", move || {
            let classes = system_events();
            drop(look);
            asker.answer(&Response::SystemEvents { classes });
        });
        if let Err(error) = spawned {
            let what = format!("the host has no thread for this: {error}");
            from.answer(&refused(Status::ERROR_NO_SYSTEM_RESOURCES, what));
        }
    }

    fn begin(&self) -> Option<Look> {
        let is_running = self.is_running.swap(true, Ordering::AcqRel);
        (!is_running).then(|| Look(Arc::clone(&self.is_running)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Controllers that ask all the time have one thread of the host.
    #[test]
    fn one_look_at_a_time() {
        let check = SystemEventsCheck::default();
        let look = check.begin().unwrap();
        assert!(check.begin().is_none());
        drop(look);
        assert!(check.begin().is_some());
    }
}
