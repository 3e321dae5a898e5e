//! Options and statistics of a private session.

use etw_session::{Facts, Ledger, LogMode, SessionConfig};
use etw_types::LoadedModule;

use crate::storage::Consumer;

/// A private session to start.
pub struct PrivateOptions {
    /// The session.
    pub config: SessionConfig,
    /// Receives the events of a session with real-time delivery.
    pub consumer: Option<Consumer>,
    /// The memory that threads write to.
    pub pool: PoolSize,
    /// Lists what is loaded in this process; called while some provider is enabled with call stacks.
    pub modules: LoadedModules,
}

/// Bytes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// At the start.
    pub initial: usize,
    /// The pool grows up to this size.
    pub limit: usize,
}

impl Default for PoolSize {
    fn default() -> PoolSize {
        PoolSize { initial: 1 << 20, limit: 16 << 20 }
    }
}

/// The loaded modules, if they have changed since the answer with this number; the number then becomes the new answer's.
pub type LoadedModules = fn(&mut u64) -> Option<Vec<LoadedModule>>;

impl Default for PrivateOptions {
    fn default() -> PrivateOptions {
        PrivateOptions {
            config: SessionConfig { mode: LogMode::Buffering, ..SessionConfig::default() },
            consumer: None,
            pool: PoolSize::default(),
            modules: |_| None,
        }
    }
}

/// A session that has stopped.
#[derive(Debug)]
pub struct Stopped<E = std::io::Error> {
    /// Its last counts.
    pub statistics: SessionStatistics,
    /// Whether its file is complete.
    pub result: Result<(), E>,
}

/// Counts of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionStatistics {
    /// The counts of the session's events; exact once the session has stopped.
    pub ledger: Ledger,
    /// Buffers and bytes.
    pub facts: Facts,
    /// Bytes of the pool.
    pub pool_size: usize,
    /// The last error of the file, if there was one.
    pub error: Option<String>,
}
