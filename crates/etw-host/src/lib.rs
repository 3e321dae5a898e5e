//! The host of ETW sessions: drains pools, routes events into sessions, stores their buffers.
//!
//! Layers, from the bottom:
//!
//! * [`clock`]: from the pool's raw clock to a session's; [`registrations`]: from a record to an event;
//! * [`facts`], [`setup`], [`files`]: what a session's files say, and the files;
//! * [`part`]: what would be lost with the process, in a file beside the output; [`leftover`]: read and brought to its place;
//! * [`process`]: what sessions may want to know of a process; [`storage`]: the thread that writes; [`report`]: the ledger in the trace;
//! * [`PrivateSession`]: a session of one process, with a thread that drains and one that writes.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod clock;
pub mod engine;
pub mod facts;
pub mod file_recovery;
pub mod files;
pub mod kill_point;
pub mod leftover;
pub mod modules;
mod output_file;
pub mod part;
mod private;
pub mod process;
pub mod registrations;
pub mod report;
pub mod setup;
pub mod storage;
pub mod thread_ids;

pub use etw_session::{
    Cause, Condition, ConfigError, ConfigOption, EnableInfo, EnableProperties, Enablement,
    EventKey, FileMode, FilterError, Filters, IdFilter, Ledger, LevelKeywordFilter, LogMode, Loss,
    NameFilter, PayloadFilter, PayloadOp, SessionClock, SessionConfig, StackFilter,
};
pub use private::{
    Consumer, LoadedModules, PoolSize, PrivateOptions, PrivateSession, SessionStatistics,
    StartError, provider_of,
};
pub use report::{LEDGER_PROVIDER, LEDGER_PROVIDER_NAME};
pub use setup::AppendError;

/// A thread of ours: all signals blocked from its first instruction on, so that no handler of the program runs on it.
///
/// # Errors
/// No thread could be made.
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
