//! A session that ends with this process, and not with a worker of its host.

use super::Client;
use etw_wire::ClientError;
use etw_wire::requests::Request;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The lease of a session that this process started. It ends with this process.
#[must_use]
pub struct Lease {
    _first: Arc<Client>,
}

/// Holds the lease of a session. `client` is the connection that started the session, and has the lease. If the host's worker is killed, the
/// next worker waits for a connection that asks for the lease: a thread makes it.
pub fn hold(client: Client, directory: PathBuf, session: String) -> Lease {
    let first = Arc::new(client);
    let mut client = first.clone();
    let holder = move || {
        while client.wait_for_end().is_ok() {
            // Without a host, or without the session, the request that stops the session says so.
            let Ok(next) = take(&directory, &session) else { return };
            eprintln!(
                "etw: warning: the host's worker was killed; the session goes on in another one"
            );
            client = Arc::new(next);
        }
    };
    let started = std::thread::Builder::new().name("lease".to_owned()).spawn(holder);
    if let Err(error) = started {
        eprintln!(
            "etw: warning: the session ends if the host's worker is killed: no thread can be started: {error}"
        );
    }
    Lease { _first: first }
}

/// Connects, and takes the lease.
fn take(directory: &Path, session: &str) -> Result<Client, ClientError> {
    loop {
        let client = Client::connect(directory)?;
        match client.ask(&Request::Lease { session: session.to_owned() }) {
            // This worker was killed, too.
            Err(error) if error.is_end() => {}
            taken => return taken.map(|_| client),
        }
    }
}
