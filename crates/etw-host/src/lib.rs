//! The host of ETW sessions: it drains pools, routes events into sessions, and stores their buffers.
//!
//! Layers, from the bottom:
//!
//! * [`clock`]: raw time to session time; [`registrations`]: records to events; [`process`], [`thread_ids`]: facts about
//!   programs;
//! * [`facts`], [`setup`], [`files`]: headers of a session's files, and the files; [`storage`]: the thread that writes them;
//! * [`report`], [`modules`]: reports about a session in its own trace;
//! * [`engine`]: the loop of every host: drain, merge, route, seal, store; [`part`], [`leftover`], [`file_recovery`]: recovery
//!   after a crash;
//! * [`PrivateSession`]: a session of one process: an engine with one pool and one session. `etwd` has an engine with many.
//!
//! | feature | adds |
//! |---|---|
//! | `serde` | the slots of pools as data, for a host that keeps them across crashes |
#![deny(unsafe_op_in_unsafe_fn)]

mod append_error;
mod auto_compression;
pub mod buffer_log;
pub mod clock;
pub mod engine;
mod event_count;
pub mod facts;
pub mod file_recovery;
pub mod files;
mod holes;
pub mod kill_point;
mod ledger_report;
pub mod leftover;
mod lost_buffers;
pub mod modules;
mod output_file;
pub mod part;
mod private;
pub mod process;
pub mod registrations;
pub mod report;
pub mod setup;
mod start_error;
pub mod storage;
pub mod thread_ids;
mod way;

pub use append_error::AppendError;
pub use etw_session::{
    Cause, Compression, Condition, ConfigError, ConfigOption, EnableInfo, EnableProperties,
    Enablement, EventKey, FileMode, FilterError, Filters, IdFilter, Ledger, LevelKeywordFilter,
    LogMode, Loss, NameFilter, PayloadFilter, PayloadOp, ProviderKey, SessionClock, SessionConfig,
    StackFilter, SystemConfig,
};
pub use files::{CUT, MOVED, REMOVED};
pub use private::{
    LoadedModules, NewRegistration, PoolSize, PrivateOptions, PrivateSession, SessionStatistics,
    Stopped, TimedEnablement, provider_of,
};
pub use report::{LEDGER_PROVIDER, LEDGER_PROVIDER_NAME};
pub use start_error::StartError;
pub use storage::Consumer;

/// Starts a thread with all signals blocked from its first instruction on, so that no signal handler of the program runs on it.
///
/// # Errors
/// The system refused a thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    #[cfg(unix)]
    // SAFETY: sets of this thread's own; a thread inherits its maker's mask.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    #[cfg(unix)]
    // SAFETY: the mask from before.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    thread
}
