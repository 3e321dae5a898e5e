//! Messages between worker and keeper: the entries that outlive a worker.
//!
//! The keeper does not interpret entries: it holds what a worker sends, and sends it to the next worker. A message is a name,
//! a newline, and JSON; without JSON, the entry is removed. Descriptors come with the message. JSON that is too long for a
//! message is in a memory, the last of the descriptors, and `@` replaces it.
//!
//! | name | facts ([`kept_state`](crate::kept_state)) | descriptors |
//! |---|---|---|
//! | `listener` | | the socket |
//! | `memory` | | bell, last batch |
//! | `session/S` | `KeptSession` | memory of the session's state, then of its buffers |
//! | `ended/N` | `KeptStream` of a session that has ended | |
//! | `ring/S/N`, `ring/S/N/R` | `KeptRing` | the events of a ring of session S, in its ring set 0 or R; the keeper maps it |
//! | `program/C` | `KeptProgram` | its socket, its control page |
//! | `registration/C/N` | `KeptRegistration` | |
//! | `pool/C/N` | | a segment of its pool |
//! | `starts` | the sessions that start with the daemon and have not started | |
//! | `ending` | | (the daemon was asked to end) |
//! | `engine` | | (from the worker) a descriptor that is readable when the thread that drains the pools has ended |
//! | `released` | | a stream, which the keeper closes when the rings that were removed before are unmapped |
//! | `ready` | | (from the worker: it serves) |

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use etw_wire::{Channel, MAX_MESSAGE};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{PidfdFlags, pidfd_open};
use rustix::thread::gettid;
use serde::Serialize;

use crate::log::log;

/// Begins the names of rings.
pub(crate) const RING: &str = "ring";
/// Begins the names of streams of sessions that have ended.
pub(crate) const ENDED: &str = "ended";
/// The sessions that start with the daemon and have not started.
pub(crate) const STARTS: &str = "starts";
/// The daemon was asked to end.
pub(crate) const ENDING: &str = "ending";

/// The thread of the worker's engine.
pub(crate) const ENGINE: &str = "engine";
/// The worker waits until the keeper has unmapped rings.
pub(crate) const RELEASED: &str = "released";

/// Stands for facts that are in a memory. No JSON begins with it.
const IN_MEMORY: &[u8] = b"@";

/// One entry: JSON and descriptors.
pub(crate) struct Entry {
    pub facts: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

pub(crate) type Entries = BTreeMap<String, Entry>;

/// The worker's connection to the keeper. A host without a keeper keeps nothing.
#[derive(Default)]
pub(crate) struct KeeperLink(Option<Channel>);

impl KeeperLink {
    pub fn new(channel: Channel) -> KeeperLink {
        KeeperLink(Some(channel))
    }

    /// Adds or replaces an entry. Another thread notices the end of the keeper; the entry is then lost with the worker.
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
            log!("entry {name} could not be sent to the keeper: {error}");
        }
    }

    /// Shows the keeper the end of the calling thread. Returns whether the system can.
    pub fn put_engine(&self) -> bool {
        // `PIDFD_THREAD`, since Linux 6.9.
        let flags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
        let thread = pidfd_open(gettid(), flags);
        thread.is_ok_and(|thread| {
            self.put(ENGINE, &(), &[thread.as_fd()]);
            true
        })
    }

    /// Removes an entry.
    pub fn remove(&self, name: &str) {
        if let Some(channel) = &self.0 {
            let _ = channel.send(format!("{name}\n").as_bytes(), &[]);
        }
    }
}

/// The bytes of a message, and the memory with facts that do not fit in it.
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

/// The name and the facts of a message; `None` for invalid bytes.
pub(crate) fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 1..]))
}

/// Whether an entry is a ring.
pub(crate) fn is_ring(name: &str) -> bool {
    numbers(name, RING).is_some()
}

/// The name of a ring of a session.
pub(crate) fn ring_name(session: usize, set: u64, number: usize) -> String {
    match set {
        0 => format!("{RING}/{session}/{number}"),
        set => format!("{RING}/{session}/{number}/{set}"),
    }
}

/// Sends all entries to a worker, then `go`.
pub(crate) fn send(channel: &Channel, entries: &Entries) -> io::Result<()> {
    for (name, entry) in entries {
        let mut bytes = format!("{name}\n").into_bytes();
        bytes.extend(&entry.facts);
        let descriptors: Vec<_> = entry.descriptors.iter().map(AsFd::as_fd).collect();
        channel.send(&bytes, &descriptors)?;
    }
    channel.send(b"go\n", &[])
}

/// Receives the entries that [`send`] sends.
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
            // The keeper shares the open file, and so its position.
            let mut memory = std::fs::File::from(memory);
            memory.seek(SeekFrom::Start(0))?;
            entry.facts.clear();
            memory.read_to_end(&mut entry.facts)?;
        }
        entries.insert(name.to_owned(), entry);
    }
}

/// The numbers in a name like `kind/A/B`.
pub(crate) fn numbers<'n>(name: &'n str, kind: &str) -> Option<Vec<u64>> {
    let rest: &'n str = name.strip_prefix(kind)?.strip_prefix('/')?;
    rest.split('/').map(|number| number.parse().ok()).collect()
}
