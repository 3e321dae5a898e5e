//! The host thread's mailbox: messages from the server and from threads that complete files, and the bell that wakes it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etw_ring::Bell;
use etw_wire::requests::{Request, SessionStatus};
use etw_wire::runtime_directory::Word;
use etw_wire::{Channel, Peer};

use crate::asker::{Asker, Connection};
use crate::ended_stream::EndedStream;

pub(crate) enum Message {
    /// A program has connected.
    Program { connection: Connection, channel: Arc<Channel>, peer: Peer },
    /// A message of a program.
    FromProgram { connection: Connection, bytes: Vec<u8>, descriptors: Vec<OwnedFd> },
    /// A connection or its process has ended.
    Disconnected { connection: Connection },
    /// A request of a controller.
    Ask { request: Request, from: Asker },
    /// A session's files are complete.
    Finished { slot: usize, finished: Box<Finished> },
    /// Ends the host.
    End,
}

/// A session whose files are complete.
pub(crate) struct Finished {
    pub status: SessionStatus,
    pub result: io::Result<()>,
    /// Its stream, if it has consumers.
    pub stream: Option<EndedStream>,
}

impl Message {
    /// Whether a program sent it, or has ended.
    pub fn is_of_program(&self) -> bool {
        matches!(
            self,
            Message::Program { .. } | Message::FromProgram { .. } | Message::Disconnected { .. }
        )
    }
}

/// Messages for the host thread.
pub(crate) struct Mailbox {
    messages: Mutex<VecDeque<Message>>,
    is_filled: AtomicBool,
    pub bell: Bell,
    /// Programs that wait for an answer see here that the host is at work.
    word: Option<Word>,
}

impl Mailbox {
    pub fn new(bell: Bell, word: Option<Word>) -> Mailbox {
        Mailbox { messages: Mutex::default(), is_filled: AtomicBool::new(false), bell, word }
    }

    /// A message has been processed.
    pub fn beat(&self) {
        if let Some(word) = &self.word {
            word.beat();
        }
    }

    pub fn post(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        self.is_filled.store(true, Ordering::SeqCst);
        self.set_at_work(true);
        self.bell.wake();
    }

    /// Sleeps until a message comes, `is_rung` says that there is other work, or the time is over.
    pub fn rest(&self, pause: Duration, is_rung: impl Fn() -> bool) {
        // `is_filled` finds a message that came just before this line.
        self.set_at_work(false);
        self.bell.sleep(pause, || self.is_filled() || is_rung());
        self.set_at_work(true);
    }

    /// Shows programs that wait for an answer whether this host is at work.
    fn set_at_work(&self, is_at_work: bool) {
        if let Some(word) = &self.word {
            word.set_at_work(is_at_work);
        }
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
