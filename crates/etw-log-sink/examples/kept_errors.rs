//! A service whose errors are kept in an event log, without a session.
//!
//! ```sh
//! etw manifest install crates/etw-log-sink/examples/kept_errors.man
//! cargo run -p etw-log-sink --example kept_errors     # while a host runs, as `etw daemon`
//! etw log show OpenEtw.Shop/Admin
//! ```

use etw::{Channel, Guid};
use etw_log_sink::{EtwSink, LogLevel, logger_log};

static SINK: EtwSink = EtwSink::new();

/// The provider and the channel of `kept_errors.man`.
const PROVIDER: Guid = Guid::from_u128(0x6f4a2b1c_5d0e_4c57_9a3b_7e21d8f0c611);
const ADMIN: Channel = Channel(16);

fn main() {
    SINK.set_provider(PROVIDER, "OpenEtw.Shop");
    SINK.set_channel(ADMIN);
    logger_log!(SINK, LogLevel::INFO, None, "{} tills are open", 4);
    logger_log!(SINK, LogLevel::ERROR, None, "till {} is offline", 3);
}
