//! Commands that control global sessions through a host, on Linux.

mod daemon;
mod diagnosis;
mod doctor;
pub mod frontends;
mod host;
mod lookup;
mod options;
mod provider;
mod record;
mod session;
mod signals;
mod spawn_gate;
mod system_options;
mod tail;
mod wanted;

pub use host::{registered_names, session_names};

pub use daemon::Arguments as DaemonArguments;
pub use doctor::Arguments as DoctorArguments;
pub use provider::Arguments as ProviderArguments;
pub use record::Arguments as RecordArguments;
pub use session::Arguments as SessionArguments;
pub use tail::Arguments as TailArguments;

pub use daemon::run as daemon;
pub use doctor::run as doctor;
pub use provider::run as provider;
pub use record::run as record;
pub use session::run as session;
pub use tail::run as tail;
