//! What the engine is told, and what wakes it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use etw_ring::Bell;
use etw_types::Status;
use etw_wire::control::{Request, Response};
use etw_wire::dir::Word;
use etw_wire::{Channel, MAX_MESSAGE, Peer};

use crate::rights::refused;

/// Number of a connection; never used twice.
pub(crate) type Connection = u64;

pub(crate) enum Message {
    /// A program has said hello.
    Program { connection: Connection, channel: Arc<Channel>, peer: Peer },
    /// And this.
    FromProgram { connection: Connection, bytes: Vec<u8>, descriptors: Vec<OwnedFd> },
    /// The connection or the process is gone.
    Gone { connection: Connection },
    /// A controller asks.
    Ask { request: Request, from: Asker },
    /// A session's files are complete.
    Finished { slot: usize, answer: Box<crate::global_session::Finished> },
    /// Ends the engine.
    End,
}

impl Message {
    /// From a program, or of its end.
    pub fn is_of_program(&self) -> bool {
        matches!(self, Message::Program { .. } | Message::FromProgram { .. } | Message::Gone { .. })
    }
}

/// Who asks.
#[derive(Clone)]
pub(crate) enum Asker {
    /// By its connection.
    Remote { connection: Connection, channel: Arc<Channel>, peer: Peer },
    /// In this process.
    Local { answer: Sender<Response> },
}

impl Asker {
    pub fn user(&self) -> u32 {
        match self {
            Asker::Remote { peer, .. } => peer.uid,
            Asker::Local { .. } => rustix::process::geteuid().as_raw(),
        }
    }

    pub fn connection(&self) -> Option<Connection> {
        match self {
            Asker::Remote { connection, .. } => Some(*connection),
            Asker::Local { .. } => None,
        }
    }

    /// Answers. Who asked may be gone, or not read: that is its own loss.
    pub fn answer(&self, response: &Response) {
        self.answer_with(response, &[]);
    }

    pub fn answer_with(&self, response: &Response, descriptors: &[std::os::fd::BorrowedFd<'_>]) {
        match self {
            Asker::Remote { channel, .. } => {
                let _ = channel.send(&fitting(response), descriptors);
            }
            Asker::Local { answer } => {
                let _ = answer.send(response.clone());
            }
        }
    }
}

/// A response as one message. One that is too long goes without the filters of what is enabled, which can be as long as they like;
/// no answer at all would be waited for.
fn fitting(response: &Response) -> Vec<u8> {
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
    let what = "the answer is longer than a message can be (128 KiB)";
    serde_json::to_vec(&refused(Status::ERROR_MORE_DATA, what)).unwrap_or_default()
}

/// The engine's letter box.
pub(crate) struct Mailbox {
    messages: Mutex<VecDeque<Message>>,
    is_filled: AtomicBool,
    pub bell: Bell,
    /// Where programs that wait for an answer see that others get theirs.
    word: Option<Word>,
}

impl Mailbox {
    pub fn new(bell: Bell, word: Option<Word>) -> Mailbox {
        Mailbox { messages: Mutex::default(), is_filled: AtomicBool::new(false), bell, word }
    }

    /// A message has been dealt with.
    pub fn beat(&self) {
        if let Some(word) = &self.word {
            word.beat();
        }
    }

    pub fn post(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        self.is_filled.store(true, Ordering::SeqCst);
        self.bell.wake();
    }

    pub fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::SeqCst)
    }

    pub fn take(&self) -> VecDeque<Message> {
        self.is_filled.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Messages that wait.
    pub fn len(&self) -> usize {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
