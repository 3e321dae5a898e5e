//! Global sessions: what is asked of the host of sessions, and what it gives back. On Linux.

mod daemon;
pub mod frontends;
mod host;
mod options;
mod provider;
mod record;
mod session;
mod signals;
mod tail;

pub use daemon::Arguments as DaemonArguments;
pub use provider::Arguments as ProviderArguments;
pub use record::Arguments as RecordArguments;
pub use session::Arguments as SessionArguments;
pub use tail::Arguments as TailArguments;

pub use daemon::run as daemon;
pub use provider::run as provider;
pub use record::run as record;
pub use session::run as session;
pub use tail::run as tail;
