//! What outlives a worker: descriptors and a few facts, held by the keeper under names.
//!
//! The keeper knows nothing of sessions: it holds what it is given, and gives it to the next worker. A message is a name, a
//! newline, and JSON; without JSON the name is forgotten. Descriptors come with it. JSON that is longer than a message can be
//! lies in a memory, the last of the descriptors, and `@` stands in its place.
//!
//! | name | facts | descriptors |
//! |---|---|---|
//! | `listener` | | the socket |
//! | `memory` | | bell, last batch |
//! | `session/S` | [`KeptSession`] | memory of the session's numbers, then of its buffers |
//! | `program/C` | [`KeptProgram`] | its socket, its control |
//! | `registration/C/N` | GUID, traits | |
//! | `pool/C/N` | | a segment of its pool |
//! | `begun` | | (the sessions that begin with a daemon have begun) |
//! | `ending` | | (the daemon was asked to end) |
//! | `ready` | | (from the worker: it serves) |

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use etw_session::EnableInfo;
use etw_types::Guid;
use etw_wire::control::StartRequest;
use etw_wire::{Channel, MAX_MESSAGE};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::global_session::Refusals;
use crate::program::Slot;

#[derive(Serialize, Deserialize)]
pub(crate) struct KeptSession {
    pub start: StartRequest,
    pub owner: u32,
    pub is_leased: bool,
    pub is_real_time: bool,
    /// Kept before anything of it is done: a worker that takes the session up goes on with it.
    pub ending: Ending,
    /// `SessionFacts::to_bytes`.
    pub facts: Vec<u8>,
    pub enabled: Vec<(Guid, EnableInfo)>,
    /// When each was asked for.
    pub since: Vec<(Guid, u64)>,
    /// How many buffers lie in each memory.
    pub buffers: Vec<u32>,
    /// By which number places name its file.
    pub file_number: u32,
    /// Files that it had before, with buffers on their way; the oldest first.
    pub before: Vec<KeptFile>,
    pub refusals: Refusals,
}

/// What a session is in the middle of giving up.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    #[default]
    Nothing,
    /// A provider, which it wants no more.
    Provider(Guid),
    /// Itself.
    Session,
}

/// A file of a session that goes on in another one.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct KeptFile {
    pub number: u32,
    pub path: PathBuf,
    /// `SessionFacts::to_bytes`.
    pub facts: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct KeptProgram {
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    pub slots: Vec<Option<Slot>>,
    pub token: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct KeptRegistration {
    pub id: Guid,
    pub traits: Vec<u8>,
    /// It was unregistered; its records may be on their way.
    pub is_gone: bool,
}

pub(crate) const BEGUN: &str = "begun";
pub(crate) const ENDING: &str = "ending";

/// In the place of facts that lie in a memory; no JSON begins so.
const IN_MEMORY: &[u8] = b"@";

/// One thing that is kept.
pub(crate) struct Entry {
    pub facts: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

pub(crate) type Entries = BTreeMap<String, Entry>;

/// The worker's end; a host without a keeper keeps nothing.
#[derive(Default)]
pub(crate) struct Keep(Option<Channel>);

impl Keep {
    pub fn new(channel: Channel) -> Keep {
        Keep(Some(channel))
    }

    /// A keeper that is gone is heard of elsewhere: what is not kept then is lost with the worker.
    pub fn put<T: Serialize>(&self, name: &str, facts: &T, descriptors: &[BorrowedFd<'_>]) {
        let Some(channel) = &self.0 else { return };
        let sent = message(name, facts).and_then(|(bytes, memory)| {
            let mut all = descriptors.to_vec();
            all.extend(memory.as_ref().map(AsFd::as_fd));
            channel.send(&bytes, &all)
        });
        if let Err(error) = sent
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            crate::tell!("etwd: {name} could not be handed to the keeper: {error}");
        }
    }

    pub fn remove(&self, name: &str) {
        if let Some(channel) = &self.0 {
            let _ = channel.send(format!("{name}\n").as_bytes(), &[]);
        }
    }
}

/// A message's bytes, and the memory of facts that do not fit in it.
fn message<T: Serialize>(name: &str, facts: &T) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = format!("{name}\n").into_bytes();
    let head = bytes.len();
    serde_json::to_writer(&mut bytes, facts)?;
    if bytes.len() <= MAX_MESSAGE {
        return Ok((bytes, None));
    }
    let flags = MemfdFlags::CLOEXEC;
    let mut memory = std::fs::File::from(memfd_create("etwd-facts", flags)?);
    memory.write_all(&bytes[head..])?;
    bytes.truncate(head);
    bytes.extend(IN_MEMORY);
    Ok((bytes, Some(memory.into())))
}

/// A message's parts. `None`: it is none.
pub(crate) fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 1..]))
}

/// Sends all entries to a worker, and `go`.
pub(crate) fn send(channel: &Channel, entries: &Entries) -> io::Result<()> {
    for (name, entry) in entries {
        let mut bytes = format!("{name}\n").into_bytes();
        bytes.extend(&entry.facts);
        let descriptors: Vec<_> = entry.descriptors.iter().map(AsFd::as_fd).collect();
        channel.send(&bytes, &descriptors)?;
    }
    channel.send(b"go\n", &[])
}

/// Receives what [`send`] sends.
pub(crate) fn receive(channel: &Channel) -> io::Result<Entries> {
    let mut entries = Entries::new();
    loop {
        let received = channel.receive()?;
        let Some((name, facts)) = split(&received.bytes) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if name == "go" {
            return Ok(entries);
        }
        let mut entry = Entry { facts: facts.to_vec(), descriptors: received.descriptors };
        if facts == IN_MEMORY
            && let Some(memory) = entry.descriptors.pop()
        {
            // The keeper's descriptor is the same open file: its position is anywhere.
            let mut memory = std::fs::File::from(memory);
            memory.seek(SeekFrom::Start(0))?;
            entry.facts.clear();
            memory.read_to_end(&mut entry.facts)?;
        }
        entries.insert(name.to_owned(), entry);
    }
}

/// The numbers in `kind/A/B` and the like.
pub(crate) fn numbers<'n>(name: &'n str, kind: &str) -> Option<Vec<u64>> {
    let rest: &'n str = name.strip_prefix(kind)?.strip_prefix('/')?;
    rest.split('/').map(|number| number.parse().ok()).collect()
}
