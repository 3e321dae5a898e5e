//! A controller's connection to a host.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{Request, Response};
use etw_wire::runtime_directory;

use crate::registry;

/// A controller's connection to a host. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    client: Arc<Mutex<Client>>,
    /// The runtime directory, for the connections of consumers.
    #[cfg_attr(not(feature = "consumer"), allow(dead_code))]
    directory: PathBuf,
}

impl Connection {
    fn new(client: Client, directory: PathBuf) -> Connection {
        Connection { client: Arc::new(Mutex::new(client)), directory }
    }

    pub fn to_user() -> Result<Connection, ClientError> {
        Connection::to_directory(&runtime_directory::of_user())
    }

    pub fn to_system() -> Result<Connection, ClientError> {
        Connection::to_directory(runtime_directory::SYSTEM.as_ref())
    }

    pub fn to_directory(directory: &Path) -> Result<Connection, ClientError> {
        Ok(Connection::new(Client::connect(directory)?, directory.to_owned()))
    }

    pub fn to_user_or_start() -> Result<Connection, ClientError> {
        let directory = runtime_directory::of_user();
        let client = match Client::connect(&directory) {
            Err(ClientError::NoHost(_)) => {
                let client = Client::connect_or_start_host(&directory)?;
                if registry::has_providers() {
                    client.wait_for_own_providers();
                }
                client
            }
            other => other?,
        };
        Ok(Connection::new(client, directory))
    }

    pub fn ask(&self, request: &Request) -> Result<Response, ClientError> {
        // Sends one request at a time; responses come in order.
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.ask(request)
    }

    #[cfg(feature = "consumer")]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens another connection for a consumer, so that consumers do not delay controllers.
    #[cfg(feature = "consumer")]
    pub fn connect_once_more(&self) -> Result<Client, ClientError> {
        Client::connect(&self.directory)
    }
}
