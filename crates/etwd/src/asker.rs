//! Controllers that wait for a response.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use etw_types::Status;
use etw_wire::requests::Response;
use etw_wire::{Channel, MAX_MESSAGE, Peer};

use crate::rights::refused;

/// Number of a connection; never used twice.
pub(crate) type Connection = u64;

/// The response to a request that succeeded.
pub(crate) fn done() -> Response {
    Response::Done { warnings: Vec::new() }
}

/// The sender of a request.
#[derive(Clone)]
pub(crate) enum Asker {
    /// A controller with a connection.
    Remote { connection: Connection, channel: Arc<Channel>, peer: Peer },
    /// This process.
    Local { answer: Sender<Response> },
}

impl Asker {
    pub fn user(&self) -> u32 {
        match self {
            Asker::Remote { peer, .. } => peer.uid,
            Asker::Local { .. } => rustix::process::geteuid().as_raw(),
        }
    }

    /// Groups of the user.
    pub fn groups(&self) -> Vec<u32> {
        match self {
            Asker::Remote { channel, peer, .. } => {
                let mut groups = channel.peer_groups().unwrap_or_default();
                groups.push(peer.gid);
                groups
            }
            Asker::Local { .. } => vec![rustix::process::getegid().as_raw()],
        }
    }

    pub fn connection(&self) -> Option<Connection> {
        match self {
            Asker::Remote { connection, .. } => Some(*connection),
            Asker::Local { .. } => None,
        }
    }

    /// Sends the response. A controller that has disconnected, or does not read, loses it.
    pub fn answer(&self, response: &Response) {
        self.answer_with(response, &[]);
    }

    pub fn answer_with(&self, response: &Response, descriptors: &[BorrowedFd<'_>]) {
        match self {
            Asker::Remote { channel, .. } => {
                let _ = channel.send(&to_message(response), descriptors);
            }
            Asker::Local { answer } => {
                let _ = answer.send(response.clone());
            }
        }
    }
}

/// A response as one message. A response that is too long for a message is sent without the enablements, whose filters have no limit:
/// without any answer, the controller would wait forever.
fn to_message(response: &Response) -> Vec<u8> {
    let bytes = serde_json::to_vec(response).unwrap_or_default();
    if bytes.len() <= MAX_MESSAGE {
        return bytes;
    }
    let mut shorter = response.clone();
    match &mut shorter {
        Response::Session(status) => status.enabled.clear(),
        Response::Sessions { sessions } => {
            sessions.iter_mut().for_each(|status| status.enabled.clear());
        }
        _ => {}
    }
    let bytes = serde_json::to_vec(&shorter).unwrap_or_default();
    if bytes.len() <= MAX_MESSAGE {
        return bytes;
    }
    let what = "the response is longer than a message can be (128 KiB)";
    serde_json::to_vec(&refused(Status::ERROR_MORE_DATA, what)).unwrap_or_default()
}
