//! The keeper: holds what a worker must not take with it, and starts another one when it does.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use etw_ring::{Bell, LastBatch, Memory};
use etw_wire::Channel;

use crate::global_host::{Claim, HostOptions, raise_descriptor_limit};
use crate::keeper_protocol::{ENDING, Entries, Entry, send, split};
use crate::log::log;

/// After so many workers in a row that did not come to serve, or panicked soon after, there are no more.
const MOST_IN_A_ROW: u32 = 20;
const SOON: Duration = Duration::from_secs(1);

/// The worker that runs now, for whoever ends it.
static WORKER: AtomicU32 = AtomicU32::new(0);
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Held while a worker is started or has been waited for: its number is its own meanwhile.
static ONE: Mutex<()> = Mutex::new(());

/// Runs workers until one ends by itself: `program` with `arguments`, whose standard input is the connection to the keeper. One that is killed
/// while it ends is replaced, too: its sessions have to be stored.
///
/// # Errors
/// A directory that another host has; workers that do not stay.
pub fn keep(options: &HostOptions, program: &Path, arguments: &[&str]) -> io::Result<()> {
    // It holds descriptors of every program, and so does a worker from its first moment, which inherits the limit.
    raise_descriptor_limit();
    let mut claim = Claim::take(&options.directory)?;
    let mut entries = Entries::new();
    let listener = claim.listen()?;
    entries.insert("listener".to_owned(), entry(vec![listener]));
    let memory = |size| -> io::Result<OwnedFd> {
        Memory::shared(size)?.take_fd().ok_or(io::ErrorKind::Unsupported.into())
    };
    let memories = vec![memory(Bell::SIZE)?, memory(LastBatch::SIZE)?];
    entries.insert("memory".to_owned(), entry(memories));
    let mut in_a_row = 0;
    let mut is_known_to_serve = false;
    loop {
        let mut has_served = false;
        let began = Instant::now();
        let (channel, mut worker) = start(program, arguments)?;
        if IS_ENDING.load(Ordering::SeqCst) {
            // Nobody has told this one.
            entries.insert(ENDING.to_owned(), entry(Vec::new()));
        }
        // A worker that ends meanwhile is noticed below.
        let _ = send(&channel, &entries);
        loop {
            let received = match channel.receive() {
                Ok(received) => received,
                // More than could be taken, of one thing. Not to listen any more would stop the worker, too.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    log!("a message of the worker could not be taken");
                    continue;
                }
                Err(_) => break,
            };
            let Some((name, facts)) = split(&received.bytes) else { break };
            match name {
                "ready" => {
                    has_served = true;
                    is_known_to_serve = true;
                    claim.announce()?;
                }
                name if facts.is_empty() => {
                    entries.remove(name);
                }
                name => {
                    let descriptors = received.descriptors;
                    entries.insert(name.to_owned(), Entry { facts: facts.to_vec(), descriptors });
                }
            }
        }
        // A worker that runs still hears that it has no keeper, and ends.
        drop(channel);
        let ended = {
            let _one = ONE.lock();
            let ended = worker.wait()?;
            WORKER.store(0, Ordering::SeqCst);
            ended
        };
        if ended.success() {
            return Ok(());
        }
        if !is_known_to_serve && ended.code().is_some() {
            // It has said why, and another one would say it again.
            return Err(io::Error::other("the worker does not begin"));
        }
        // One that somebody has killed has done nothing wrong.
        let is_sound = has_served && (ended.code().is_none() || began.elapsed() >= SOON);
        in_a_row = if is_sound { 0 } else { in_a_row + 1 };
        log!("the worker ended with {ended}; another one goes on");
        if in_a_row >= MOST_IN_A_ROW {
            return Err(io::Error::other("workers end as soon as they are started"));
        }
    }
}

/// Tells the worker to stop its sessions and end; async-signal-safe it is not.
pub fn end() {
    IS_ENDING.store(true, Ordering::SeqCst);
    let _one = ONE.lock();
    let worker = WORKER.load(Ordering::SeqCst);
    if worker != 0 {
        // SAFETY: numbers; a child that has not been waited for.
        unsafe { libc::kill(worker as libc::pid_t, libc::SIGTERM) };
    }
}

fn entry(descriptors: Vec<OwnedFd>) -> Entry {
    Entry { facts: b"null".to_vec(), descriptors }
}

fn start(program: &Path, arguments: &[&str]) -> io::Result<(Channel, Child)> {
    let (ours, theirs) = Channel::pair()?;
    let _one = ONE.lock();
    let worker = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()?;
    WORKER.store(worker.id(), Ordering::SeqCst);
    Ok((ours, worker))
}
