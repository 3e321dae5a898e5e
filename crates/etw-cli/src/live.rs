//! Commands that control global sessions: through a host on Linux, of the system on Windows.

#[cfg(target_os = "linux")]
mod daemon;
mod diagnosis;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(target_os = "linux")]
pub mod frontends;
pub mod host;
mod lookup;
mod options;
mod payload_option;
mod provider;
mod record;
mod session;
mod signals;
#[cfg(target_os = "linux")]
mod spawn_gate;
mod system_options;
mod tail;
mod wanted;

#[cfg(target_os = "linux")]
pub use host::announce_manifests;
pub use host::{registered_names, session_names};

#[cfg(target_os = "linux")]
pub use daemon::Arguments as DaemonArguments;
#[cfg(target_os = "linux")]
pub use doctor::Arguments as DoctorArguments;
pub use provider::Arguments as ProviderArguments;
pub use record::Arguments as RecordArguments;
pub use session::Arguments as SessionArguments;
pub use tail::Arguments as TailArguments;

#[cfg(target_os = "linux")]
pub use daemon::run as daemon;
#[cfg(target_os = "linux")]
pub use doctor::run as doctor;
pub use provider::run as provider;
pub use record::run as record;
pub use session::run as session;
pub use tail::run as tail;
