//! A session that ends with this process, and not with a worker of its host.

use super::Client;
use etw_wire::ClientError;
use etw_wire::requests::Request;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Holds the lease of a session that this process started, until this process ends. If the host's worker is killed, the next worker waits for
/// a connection that asks for the lease: a thread makes it.
pub fn hold(directory: PathBuf, session: String) {
    // Without a host, or without the session, there is nothing to hold; the request that stops the session says so.
    let Ok(first) = take(&directory, &session) else { return };
    let first = Arc::new(first);
    let mut client = first.clone();
    let holder = move || {
        while client.wait_for_end().is_ok()
            && let Ok(next) = take(&directory, &session)
        {
            eprintln!(
                "etw: warning: the host's worker was killed; the recording goes on in another one"
            );
            client = Arc::new(next);
        }
    };
    let started = std::thread::Builder::new().name("lease".to_owned()).spawn(holder);
    if let Err(error) = started {
        eprintln!(
            "etw: warning: the recording ends if the host's worker is killed: no thread can be started: {error}"
        );
        // Its connection stays until this process ends, and with it the session.
        std::mem::forget(first);
    }
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
