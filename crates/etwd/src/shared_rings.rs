//! Rings that the worker and its keeper have mapped, and their end.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use etw_system::FinishedRings;

use crate::keeper_protocol::{KeeperLink, RELEASED};
use crate::log::log;

/// The keeper unmaps its rings in some milliseconds. A keeper that is held up for longer leaves the worker with less memory that it may lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// The rings of one recording.
#[derive(Debug, Default)]
pub(crate) struct SharedRings {
    /// Number of entries that the keeper has.
    count: AtomicUsize,
    /// Those of a recording that has ended. They stay mapped until the keeper has unmapped them.
    finished: Mutex<FinishedRings>,
}

impl SharedRings {
    pub fn with_count(count: usize) -> SharedRings {
        SharedRings { count: count.into(), ..SharedRings::default() }
    }

    /// Returns the number before.
    pub fn set_count(&self, count: usize) -> usize {
        self.count.swap(count, Ordering::Relaxed)
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The recording has ended.
    pub fn finish(&self, rings: FinishedRings) {
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = rings;
    }

    fn take_finished(&self) -> FinishedRings {
        std::mem::take(&mut *self.finished.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The end of rings.
pub(crate) struct Closing(Receiver<()>);

impl Closing {
    /// The keeper was asked to remove these rings. When it has unmapped them, a thread unmaps them here: in the other order, the kernel would give
    /// their memory back to the keeper, which it was not charged to, and this process could lock less and less.
    pub fn begin(keeper: &KeeperLink, rings: Vec<Arc<SharedRings>>) -> Closing {
        let (closed, receiver) = channel();
        let released = released(keeper);
        let closing = std::thread::Builder::new().name("etwd-close".to_owned());
        // Without a thread they are closed here.
        drop(closing.spawn(move || close(released, &rings, closed)));
        Closing(receiver)
    }

    /// Waits until the memory of the rings is free, but not for long.
    pub fn wait(self) {
        // The thread never sends: it drops its end.
        let _ = self.0.recv_timeout(2 * PATIENCE);
    }
}

/// A stream that ends when the keeper has unmapped the rings that it was asked to remove before.
fn released(keeper: &KeeperLink) -> Option<UnixStream> {
    let (ours, theirs) = UnixStream::pair().ok()?;
    ours.set_read_timeout(Some(PATIENCE)).ok()?;
    keeper.put(RELEASED, &(), &[theirs.as_fd()]);
    Some(ours)
}

fn close(released: Option<UnixStream>, rings: &[Arc<SharedRings>], closed: Sender<()>) {
    let began = Instant::now();
    // The end, also that of the keeper, or the time is over.
    let _ = released.map(|mut released| released.read(&mut [0]));
    if began.elapsed() >= PATIENCE {
        log!("the keeper does not unmap its rings; this daemon may lock less memory for others");
    }
    let mut finished: Vec<FinishedRings> = rings.iter().map(|one| one.take_finished()).collect();
    finished.iter_mut().for_each(FinishedRings::unmap);
    drop(closed);
}
