//! One connection to a host: its messages, and the pool that it needs.

use std::collections::HashSet;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use etw_ring::{Bell, Control, Memory, PoolOptions, Writer};
use etw_types::{LevelKeyword, Status, put_schema_record};
use etw_wire::message::{FromHost, FromProgram, Role, TAKES_SCHEMAS, VERSION};
use etw_wire::runtime_directory::{Directory, Word};
use etw_wire::{Channel, Received};

use super::DESCRIPTORS;
use super::patience::{Patience, TURN};
use crate::diagnose::report;
use crate::lock::lock;
use crate::pools;
use crate::provider::Provider;
use crate::registry::{self, Enable, Host, HostRegistration, Providers};
use crate::stacks;

/// The interval at which new modules are looked for while a session wants call stacks.
const LOOK_FOR_MODULES: Duration = Duration::from_secs(1);

/// Bytes of schema records in a message; a blob has 64 KiB.
const SCHEMAS_OF_A_MESSAGE: usize = 0xffff;
/// Bytes of a schema record in a message besides its payload: header and padding.
const SCHEMA_HEADER: usize = 8 + 3;
/// A message of modules is sent when it has more bytes than this.
const MODULES_OF_A_MESSAGE: usize = 32 << 10;

/// Descriptors of connections are moved up to here, above those that programs use by number.
const LEAST_DESCRIPTOR: i32 = 200;

/// A connection to a host.
pub(super) struct Link {
    pub(super) channel: ManuallyDrop<Channel>,
    /// Identifies the socket: the program may close its descriptor and open another file under its number.
    pub(super) inode: u64,
    pub(super) next: AtomicUsize,
    /// Registrations that the host has not answered.
    pub(super) unanswered: Mutex<HashSet<u32>>,
    /// The number of messages from the host so far.
    pub(super) received: AtomicU32,
    /// One more than that number when the program last gave up waiting; 0: it never did.
    pub(super) given_up: AtomicU32,
    pub(super) answered: Condvar,
    /// The host's control page.
    pub(super) control: Arc<Memory>,
    pub(super) bell: Bell,
    /// The size that the host asks of the pool.
    pub(super) pool_size: u32,
    pub(super) word: Option<Arc<Word>>,
}

/// Whether this is the process's only thread; `false` if that is unknown.
fn has_one_thread() -> bool {
    // The link count is one for each thread's folder, and two for the folder itself.
    std::fs::metadata("/proc/self/task")
        .is_ok_and(|tasks| std::os::unix::fs::MetadataExt::nlink(&tasks) == 3)
}

/// How long a connection waits for a host that has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// As long as the program's [`Patience`] lasts: it waits for its registration.
    Briefly,
    /// Until the host answers or ends: only a thread of this library waits.
    UntilAnswered,
}

impl Link {
    pub(super) fn connect(
        directory: &Directory,
        word: Option<Arc<Word>>,
        wait: Wait,
    ) -> io::Result<Link> {
        let mut patience = Patience::new(word.as_deref(), false);
        let mut channel = directory.connect()?;
        // If the process's limit is lower, the descriptor stays where it is.
        let _ = channel.move_up(LEAST_DESCRIPTOR);
        let hello = FromProgram::Hello { version: VERSION, role: Role::Program as u8 };
        channel.send(&hello.to_bytes(), &[])?;
        let received = loop {
            match channel.receive_within(TURN) {
                Err(error)
                    if error.kind() == io::ErrorKind::TimedOut
                        && (wait == Wait::UntilAnswered || patience.is_left(false)) => {}
                other => break other?,
            }
        };
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let Some(FromHost::Welcome { version: VERSION, pool_size }) =
            FromHost::read(&received.bytes)
        else {
            return Err(refused());
        };
        let [control, bell] =
            <[OwnedFd; 2]>::try_from(received.descriptors).map_err(|_| refused())?;
        let control = Memory::map_file(control.as_fd(), 0, Control::SIZE, false)?;
        let bell = Memory::map_file(bell.as_fd(), 0, Bell::SIZE, false)?;
        let control = Arc::new(control);
        if has_one_thread() {
            // A missing membarrier is reported when a pool is made.
            let _ = Control::register_process(&control);
        }
        Ok(Link {
            inode: channel.inode()?,
            channel: ManuallyDrop::new(channel),
            next: AtomicUsize::new(1),
            unanswered: Mutex::default(),
            received: AtomicU32::new(0),
            given_up: AtomicU32::new(0),
            answered: Condvar::new(),
            control,
            bell: Bell::new(Arc::new(bell))?,
            pool_size,
            word,
        })
    }

    /// Whether the descriptor still names the socket. Programs close all descriptors from some number on, and open others.
    fn is_ours(&self) -> bool {
        self.channel.inode().is_ok_and(|inode| inode == self.inode)
    }

    /// Serves the connection until it ends.
    pub(super) fn serve(&self, attachment: usize) {
        let mut writer: Option<&'static Writer> = None;
        // Kept until the host has taken it: if the host is replaced before, the pool is offered again.
        let mut pool = None;
        let mut growing = None;
        // The set of modules that the host knows; 0: none.
        let mut modules = 0;
        while let Ok(received) = self.receive(attachment, &mut modules) {
            // If the program has put another file under the descriptor's number, reading stops.
            let message = FromHost::read(&received.bytes).filter(|_| self.is_ours());
            let Some(message) = message else { break };
            self.received.fetch_add(1, Ordering::Relaxed);
            let done = match message {
                FromHost::Registered { number } => {
                    lock(&self.unanswered).remove(&number);
                    self.answered.notify_all();
                    Ok(())
                }
                FromHost::NeedPool => match &pool {
                    Some(pool) => self.offer_pool(pool),
                    None => self.make_pool(attachment).inspect_err(report_pool).and_then(
                        |(made, memory)| {
                            writer = Some(made);
                            self.offer_pool(pool.insert(memory))
                        },
                    ),
                },
                FromHost::Set {
                    token,
                    number,
                    slot,
                    wanted,
                    source,
                    filter_data,
                    stacks,
                    since,
                } => {
                    // A host that enables a provider has the pool.
                    pool = None;
                    let sent = match &stacks {
                        // All modules again: this session may know none.
                        Some(_) => {
                            modules = 0;
                            self.send_modules(&mut modules)
                        }
                        None => Ok(()),
                    };
                    let filter_data = filter_data.to_vec();
                    let enable = Enable { slot, wanted, stacks, since, filter_data };
                    let provider = Providers::Number(number);
                    let set = registry::set(attachment, slot, provider, Some(&enable), source);
                    sent.and_then(|()| self.answer(token, set))
                }
                FromHost::Clear { token, number, slot, source } => {
                    let provider = Providers::Number(number);
                    let cleared = registry::set(attachment, slot, provider, None, source);
                    self.answer(token, cleared)
                }
                FromHost::Capture { token, number, level, any, all, source } => {
                    let wanted = LevelKeyword { level, any, all, ..LevelKeyword::ALL };
                    let provider = Providers::Number(number);
                    registry::capture_state(attachment, provider, &wanted, source);
                    self.answer(token, Ok(()))
                }
                FromHost::Grow { size } => {
                    growing = growing.or_else(|| segment(size));
                    self.offer_segment(growing.as_ref())
                }
                FromHost::Taken => {
                    if let (Some(writer), Some((memory, _))) = (writer, growing.take()) {
                        // A pool that cannot grow keeps its size.
                        let _ = writer.grow(memory);
                    }
                    Ok(())
                }
                FromHost::Again => {
                    modules = 0;
                    self.introduce_again(attachment).and_then(|()| match &growing {
                        Some(_) => self.offer_segment(growing.as_ref()),
                        None => Ok(()),
                    })
                }
                FromHost::Welcome { .. } | FromHost::Refused { .. } => break,
            };
            if done.is_err() {
                break;
            }
        }
        // No answer will come any more.
        lock(&self.unanswered).clear();
        self.answered.notify_all();
        DESCRIPTORS[attachment].store(0, Ordering::Release);
        registry::detach(attachment);
        if let Some(writer) = writer {
            // The addresses stay, with zeros behind them. If the system cannot take the memory back, it stays allocated.
            let _ = writer.retire();
        }
    }

    /// Waits for a message. While a session wants call stacks, newly loaded modules are sent meanwhile.
    fn receive(&self, attachment: usize, modules: &mut u64) -> io::Result<Received> {
        while registry::wants_stacks(attachment) {
            self.send_modules(modules)?;
            match self.channel.receive_within(LOOK_FOR_MODULES) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                received => return received,
            }
        }
        *modules = 0;
        self.channel.receive()
    }

    /// Sends the loaded modules, if they have changed since `seen`.
    fn send_modules(&self, seen: &mut u64) -> io::Result<()> {
        let Some(modules) = stacks::modules(seen) else { return Ok(()) };
        let mut bytes = Vec::new();
        for module in &modules {
            if bytes.len() > MODULES_OF_A_MESSAGE {
                self.send(&FromProgram::Modules { modules: &std::mem::take(&mut bytes) }, &[])?;
            }
            module.put(&mut bytes);
        }
        self.send(&FromProgram::Modules { modules: &bytes }, &[])
    }

    /// Sends a registration, and before it the schemas that this program carries of the provider's events, if the host takes them.
    fn send_registration(&self, it: &registry::Introduced) -> io::Result<()> {
        let takes_schemas = Control::capabilities(&self.control) & TAKES_SCHEMAS != 0;
        let mut bytes = Vec::new();
        for schema in it.schemas.iter().filter(|_| takes_schemas) {
            if bytes.len() + schema.payload.len() + SCHEMA_HEADER > SCHEMAS_OF_A_MESSAGE {
                let records = std::mem::take(&mut bytes);
                self.send(&FromProgram::Schemas { id: it.id, records: &records }, &[])?;
            }
            put_schema_record(schema.kind, &schema.payload, &mut bytes);
        }
        if !bytes.is_empty() {
            self.send(&FromProgram::Schemas { id: it.id, records: &bytes }, &[])?;
        }
        let (number, id, traits) = (it.number, it.id, &it.traits[..]);
        self.send(&FromProgram::Register { number, id, traits }, &[])
    }

    fn send(
        &self,
        message: &FromProgram<'_>,
        descriptors: &[std::os::fd::BorrowedFd<'_>],
    ) -> io::Result<()> {
        // Under the descriptor's number may be a socket of the program, whose peer would get the message.
        if !self.is_ours() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.channel.send(&message.to_bytes(), descriptors)
    }

    /// Answers a change: made, or refused with a status.
    fn answer(&self, token: u32, made: Result<(), Status>) -> io::Result<()> {
        let status = made.err().map_or(0, |status| status.0);
        self.send(&FromProgram::Done { token, status }, &[])
    }

    /// Registers all providers again: a host that was replaced may not have read the messages.
    fn introduce_again(&self, attachment: usize) -> io::Result<()> {
        registry::introduced(attachment).iter().try_for_each(|it| self.send_registration(it))
    }

    /// Makes a pool; its writer, and the descriptor of its memory.
    fn make_pool(&self, attachment: usize) -> io::Result<(&'static Writer, OwnedFd)> {
        // The rest of the pool is for bursts; most programs never touch it.
        let options = PoolOptions { chunk_size: self.pool_size as usize, prefault: 1 << 20 };
        let mut memory = Memory::shared(options.memory_size())?;
        let fd = memory.take_fd().ok_or(io::ErrorKind::Unsupported)?;
        let writer = Writer::new(memory, self.control.clone(), options, attachment)?;
        let writer: &'static Writer = Box::leak(Box::new(writer.with_bell(self.bell.clone())));
        // Nothing is written before the host answers with an enablement.
        pools::set_writer(attachment, writer);
        Ok((writer, fd))
    }

    fn offer_pool(&self, memory: &OwnedFd) -> io::Result<()> {
        self.send(&FromProgram::Pool, &[memory.as_fd()])
    }

    /// `None`: the program has no memory for a segment.
    fn offer_segment(&self, segment: Option<&(Memory, OwnedFd)>) -> io::Result<()> {
        let descriptors = segment.map(|(_, memory)| memory.as_fd());
        self.send(&FromProgram::Segment, descriptors.as_slice())
    }
}

/// Reports why a session that enabled a provider gets no events of this program.
fn report_pool(error: &io::Error) {
    let cause = || match error.raw_os_error() {
        Some(libc::EFBIG) => "the limit of file sizes is too low for its pool; \
                              ulimit -f unlimited or LimitFSIZE=infinity raises it"
            .to_owned(),
        _ => format!("its pool cannot be created: {error}"),
    };
    report(|| {
        format!("a session enabled a provider, but gets no events of this program: {}", cause())
    });
}

/// A segment for a pool, and the descriptor of its memory.
fn segment(size: u32) -> Option<(Memory, OwnedFd)> {
    let mut memory = Memory::shared(size as usize).ok()?;
    let descriptor = memory.take_fd()?;
    Some((memory, descriptor))
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped once, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.channel) };
        }
    }
}

impl Link {
    /// Waits for the answer to a registration as long as the program has [`Patience`].
    pub(super) fn wait_for_answer(&self, registration: u32) {
        let mut unanswered = lock(&self.unanswered);
        let mut received = self.received.load(Ordering::Relaxed);
        let is_spent = self.given_up.load(Ordering::Relaxed) == received.wrapping_add(1);
        let mut patience = Patience::new(self.word.as_deref(), is_spent);
        while unanswered.contains(&registration) {
            let (left, waited) = self
                .answered
                .wait_timeout_while(unanswered, TURN, |left| left.contains(&registration))
                .unwrap_or_else(PoisonError::into_inner);
            unanswered = left;
            let now = self.received.load(Ordering::Relaxed);
            if waited.timed_out() && !patience.is_left(now != received) {
                // A host that does not answer is waited for once. Its later messages still count.
                unanswered.clear();
                self.given_up.store(now.wrapping_add(1), Ordering::Relaxed);
                report(|| {
                    format!(
                        "the host has not answered within {:.1} s: until it does, it records no events of this program",
                        patience.waited().as_secs_f64()
                    )
                });
            }
            received = now;
        }
    }
}

impl Host for Link {
    fn register(&self, provider: &Provider) -> HostRegistration {
        let number = self.next.fetch_add(1, Ordering::Relaxed) as u32;
        lock(&self.unanswered).insert(number);
        let introduced = registry::Introduced::of(provider, number);
        if self.send_registration(&introduced).is_err() {
            lock(&self.unanswered).remove(&number);
        }
        HostRegistration { number, enables: Vec::new() }
    }

    fn unregister(&self, registration: u32) {
        // If the connection has ended, the host has dropped the registration.
        let _ = self.send(&FromProgram::Unregister { number: registration }, &[]);
    }

    fn settle(&self, _provider: &Provider, registration: u32) -> Vec<Enable> {
        self.wait_for_answer(registration);
        // The connection's thread has applied what came.
        Vec::new()
    }

    fn is_elsewhere(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use etw_ring::{Barrier, RawClock};
    use etw_types::{EVENT_INFO, Guid, SchemaRecord};

    use super::*;

    /// The kinds of messages by which a program registers a provider with schemas. `capabilities`: of its host; `None` for an older
    /// host, whose control page has no such word.
    fn kinds_sent_to(capabilities: Option<u32>) -> Vec<u8> {
        let memory = Memory::shared(Control::SIZE).unwrap();
        let control = Control::create(memory, RawClock::Monotonic, Barrier::WriterFences).unwrap();
        if let Some(capabilities) = capabilities {
            control.set_capabilities(capabilities);
        }
        let (channel, host) = Channel::pair().unwrap();
        let bell = Arc::new(Memory::shared(Bell::SIZE).unwrap());
        let link = Link {
            inode: channel.inode().unwrap(),
            channel: ManuallyDrop::new(channel),
            next: AtomicUsize::new(1),
            unanswered: Mutex::default(),
            received: AtomicU32::new(0),
            given_up: AtomicU32::new(0),
            answered: Condvar::new(),
            control: control.memory().clone(),
            bell: Bell::new(bell).unwrap(),
            pool_size: 1 << 20,
            word: None,
        };
        let schema = |size| SchemaRecord { kind: EVENT_INFO, payload: vec![0; size] };
        let introduced = registry::Introduced {
            number: 5,
            id: Guid::from_u128(7),
            traits: Vec::new(),
            // A message holds one of them.
            schemas: vec![schema(0x8000), schema(0x8000), schema(0x8000)],
        };
        link.send_registration(&introduced).unwrap();
        drop(link);
        let messages = std::iter::from_fn(|| host.receive().ok())
            .take_while(|message| !message.bytes.is_empty());
        messages.map(|message| message.bytes[0]).collect()
    }

    #[test]
    fn a_program_sends_schemas_only_to_hosts_that_take_them() {
        assert_eq!(kinds_sent_to(Some(TAKES_SCHEMAS)), [8, 8, 8, 2]);
        assert_eq!(kinds_sent_to(Some(!TAKES_SCHEMAS)), [2]);
        assert_eq!(kinds_sent_to(None), [2]);
    }
}
