//! Global sessions: this process's connections to their hosts.
//!
//! The first registration looks for hosts, in the [directories](etw_wire::dir) that are there, and waits a moment for what
//! their sessions want: so the first event of a program is recorded. From then on one thread for each directory serves the
//! connection, or, where nobody listens, sleeps on a word in a file until a host begins: nothing is polled.
//!
//! A pool is made when a session wants something; until then a connection costs a descriptor and a sleeping thread.
//!
//! `ETW_LISTENER=off`: no thread waits for a host that is not there.
//!
//! A child made by `fork` has none of this. Its providers stay enabled, its first write is refused by the parent's pool, and
//! connects anew ([`renew`]): that takes a lock and memory, so the first write of a child in a signal handler may not be recorded.

use std::collections::HashSet;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use etw_ring::{Bell, Control, MAX_ATTACHMENTS, Memory, PoolOptions, Writer, process_generation};
use etw_types::Status;
use etw_wire::dir::{self, Directory, Word};
use etw_wire::message::{FromHost, FromProgram, Role, VERSION};
use etw_wire::{Channel, Received};

use crate::provider::Provider;
use crate::registry::{self, Enable, Host};
use crate::stacks;

/// How long a host may take for each of its messages. It takes well below a millisecond on an idle machine; on a busy one each of
/// the threads in between waits for its turn, and a program that began without its sessions would lose its first events.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long a host may take that is seen to deal with others meanwhile, or where all wait for a processor: hundreds of programs may have
/// begun at once.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);
/// More threads than so many for each processor that want to run: the host is one of them.
const CROWD: usize = 4;
/// Messages that a registration waits for: the pool is asked for, what each of eight sessions wants, the answer.
const MOST_MESSAGES: u32 = 10;
/// How often is looked what has been loaded, while a session wants call stacks.
const LOOK_FOR_MODULES: Duration = Duration::from_secs(1);
/// Bytes, and one module more.
const MODULES_OF_A_MESSAGE: usize = 32 << 10;
/// Our descriptors are above those that programs count on.
const LEAST_DESCRIPTOR: i32 = 200;

/// The directories that hosts are looked for in; set by the first registration.
static PLACES: OnceLock<Vec<PathBuf>> = OnceLock::new();
/// The generation of the process that is connected; 0: none is yet.
static CONNECTED: AtomicU64 = AtomicU64::new(0);
/// The connections' descriptors plus one, for a child to close.
static DESCRIPTORS: [AtomicI32; MAX_ATTACHMENTS] = [const { AtomicI32::new(0) }; MAX_ATTACHMENTS];

/// A connection to a host.
struct Link {
    channel: ManuallyDrop<Channel>,
    /// Tells the socket from whatever the program may put in its descriptor's place.
    inode: u64,
    next: AtomicUsize,
    /// Registrations that the host has not answered.
    unanswered: Mutex<HashSet<u32>>,
    /// Messages of the host so far.
    heard: AtomicU32,
    answered: Condvar,
    /// The host's memory, and the pool's size.
    control: Arc<Memory>,
    bell: Bell,
    pool_size: u32,
    word: Option<Arc<Word>>,
}

/// Do many more threads want to run than there are processors?
fn is_crowded() -> bool {
    // Three averages, then RUNNABLE/ALL.
    let Ok(load) = std::fs::read_to_string("/proc/loadavg") else { return false };
    let runnable = load.split(' ').nth(3).and_then(|threads| threads.split('/').next());
    let runnable = runnable.and_then(|threads| threads.parse::<usize>().ok()).unwrap_or(0);
    runnable > CROWD * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Is this the process's only thread? `false` where that cannot be told.
fn has_one_thread() -> bool {
    // A folder for each, and its own two names.
    std::fs::metadata("/proc/self/task")
        .is_ok_and(|tasks| std::os::unix::fs::MetadataExt::nlink(&tasks) == 3)
}

/// Whether a host is at work.
struct Busy<'w> {
    word: Option<&'w Word>,
    beats: u32,
    since: Instant,
}

impl<'w> Busy<'w> {
    fn new(word: Option<&'w Word>) -> Busy<'w> {
        Busy { word, beats: word.map_or(0, Word::beats), since: Instant::now() }
    }

    /// Has it dealt with something since the last time that this was asked, or may it wait for a processor?
    fn is_busy(&mut self) -> bool {
        let beats = self.word.map_or(0, Word::beats);
        let has_worked = std::mem::replace(&mut self.beats, beats) != beats;
        (has_worked || is_crowded()) && self.since.elapsed() < BUSY_PATIENCE
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    fn connect(directory: &Directory, word: Option<Arc<Word>>) -> io::Result<Link> {
        let mut busy = Busy::new(word.as_deref());
        let mut channel = directory.connect()?;
        // Where the process may not have so many, it stays where it is.
        let _ = channel.move_up(LEAST_DESCRIPTOR);
        let hello = FromProgram::Hello { version: VERSION, role: Role::Program as u8 };
        channel.send(&hello.to_bytes(), &[])?;
        let received = loop {
            match channel.receive_within(PATIENCE) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut && busy.is_busy() => {}
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
            // What is not to be had is told when a pool is made.
            let _ = Control::register_process(&control);
        }
        Ok(Link {
            inode: channel.inode()?,
            channel: ManuallyDrop::new(channel),
            next: AtomicUsize::new(1),
            unanswered: Mutex::default(),
            heard: AtomicU32::new(0),
            answered: Condvar::new(),
            control,
            bell: Bell::new(Arc::new(bell))?,
            pool_size,
            word,
        })
    }

    /// Is the socket still behind its descriptor? Programs close all descriptors from some number on, and open others.
    fn is_ours(&self) -> bool {
        self.channel.inode().is_ok_and(|inode| inode == self.inode)
    }

    /// Serves the connection until its end.
    fn serve(&self, attachment: usize) {
        let mut writer: Option<&'static Writer> = None;
        // Offered to the host, which may be replaced before it has taken it: then it is offered again.
        let mut pool = None;
        let mut growing = None;
        // The modules that the host knows of; 0: none.
        let mut modules = 0;
        while let Ok(received) = self.receive(attachment, &mut modules) {
            // What a program has put in the descriptor's place is not ours to read on.
            let message = FromHost::read(&received.bytes).filter(|_| self.is_ours());
            let Some(message) = message else { break };
            self.heard.fetch_add(1, Ordering::Relaxed);
            let done = match message {
                FromHost::Registered { number } => {
                    lock(&self.unanswered).remove(&number);
                    self.answered.notify_all();
                    Ok(())
                }
                FromHost::NeedPool => match &pool {
                    Some(pool) => self.offer_pool(pool),
                    None => self.make_pool(attachment).and_then(|(made, memory)| {
                        writer = Some(made);
                        self.offer_pool(pool.insert(memory))
                    }),
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
                    // Who wants something has the pool.
                    pool = None;
                    let told = match &stacks {
                        // All of them: another session may know of none.
                        Some(_) => {
                            modules = 0;
                            self.tell_modules(&mut modules)
                        }
                        None => Ok(()),
                    };
                    let wanted = Some((&wanted, stacks.as_ref(), since));
                    let set = registry::set(attachment, number, slot, wanted, source, filter_data);
                    told.and_then(|()| self.answer(token, set))
                }
                FromHost::Clear { token, number, slot, source } => {
                    let cleared = registry::set(attachment, number, slot, None, source, &[]);
                    self.answer(token, cleared)
                }
                FromHost::Capture { token, number, level, any, all, source } => {
                    registry::capture(attachment, number, (level, any, all), source);
                    self.answer(token, Ok(()))
                }
                FromHost::Grow { size } => {
                    growing = growing.or_else(|| segment(size));
                    self.offer_segment(growing.as_ref())
                }
                FromHost::Taken => {
                    if let (Some(writer), Some((memory, _))) = (writer, growing.take()) {
                        // A pool that cannot grow stays as it is.
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
        // Nobody waits for an answer any more.
        lock(&self.unanswered).clear();
        self.answered.notify_all();
        DESCRIPTORS[attachment].store(0, Ordering::Release);
        registry::detach(attachment);
        if let Some(writer) = writer {
            // Addresses stay, with zeros behind them; what the system cannot take back stays taken.
            let _ = writer.retire();
        }
    }

    /// Waits for a message; while a session wants call stacks, what has been loaded meanwhile is looked after.
    fn receive(&self, attachment: usize, modules: &mut u64) -> io::Result<Received> {
        while registry::wants_stacks(attachment) {
            self.tell_modules(modules)?;
            match self.channel.receive_within(LOOK_FOR_MODULES) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                received => return received,
            }
        }
        *modules = 0;
        self.channel.receive()
    }

    /// Says what is loaded now, where that is another set than `seen` tells of.
    fn tell_modules(&self, seen: &mut u64) -> io::Result<()> {
        let Some(modules) = stacks::modules(seen) else { return Ok(()) };
        let mut bytes = Vec::new();
        for module in &modules {
            if bytes.len() > MODULES_OF_A_MESSAGE {
                self.say(&FromProgram::Modules { modules: &std::mem::take(&mut bytes) }, &[])?;
            }
            module.put(&mut bytes);
        }
        self.say(&FromProgram::Modules { modules: &bytes }, &[])
    }

    fn say(
        &self,
        message: &FromProgram<'_>,
        descriptors: &[std::os::fd::BorrowedFd<'_>],
    ) -> io::Result<()> {
        // It may be a socket of the program's, whose peer would get this.
        if !self.is_ours() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.channel.send(&message.to_bytes(), descriptors)
    }

    /// A change is made, or is not.
    fn answer(&self, token: u32, made: Result<(), Status>) -> io::Result<()> {
        let status = made.err().map_or(0, |status| status.0);
        self.say(&FromProgram::Done { token, status }, &[])
    }

    /// What was said to a host that has been replaced meanwhile may not have been heard.
    fn introduce_again(&self, attachment: usize) -> io::Result<()> {
        for (number, id, traits) in registry::introduced(attachment) {
            self.say(&FromProgram::Register { number, id, traits: &traits }, &[])?;
        }
        Ok(())
    }

    /// A pool, and the descriptor of its memory.
    fn make_pool(&self, attachment: usize) -> io::Result<(&'static Writer, OwnedFd)> {
        // The rest is for bursts: hundreds of programs never have one.
        let options = PoolOptions { chunk_size: self.pool_size as usize, prefault: 1 << 20 };
        let mut memory = Memory::shared(options.memory_size())?;
        let fd = memory.take_fd().ok_or(io::ErrorKind::Unsupported)?;
        let writer = Writer::new(memory, self.control.clone(), options, attachment)?;
        let writer: &'static Writer = Box::leak(Box::new(writer.with_bell(self.bell.clone())));
        // Before the host answers with what is wanted, nothing is written.
        registry::set_writer(attachment, writer);
        Ok((writer, fd))
    }

    fn offer_pool(&self, memory: &OwnedFd) -> io::Result<()> {
        self.say(&FromProgram::Pool, &[memory.as_fd()])
    }

    /// `None`: there is no memory for it.
    fn offer_segment(&self, segment: Option<&(Memory, OwnedFd)>) -> io::Result<()> {
        let descriptors = segment.map(|(_, memory)| memory.as_fd());
        self.say(&FromProgram::Segment, descriptors.as_slice())
    }
}

/// More memory for a pool, and its descriptor.
fn segment(size: u32) -> Option<(Memory, OwnedFd)> {
    let mut memory = Memory::shared(size as usize).ok()?;
    let descriptor = memory.take_fd()?;
    Some((memory, descriptor))
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: once, and it is not used any more.
            unsafe { ManuallyDrop::drop(&mut self.channel) };
        }
    }
}

impl Host for Link {
    fn register(&self, provider: &Provider) -> (u32, Vec<Enable>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed) as u32;
        lock(&self.unanswered).insert(number);
        let (id, traits) = (provider.id(), provider.traits());
        if self.say(&FromProgram::Register { number, id, traits }, &[]).is_err() {
            lock(&self.unanswered).remove(&number);
        }
        (number, Vec::new())
    }

    fn unregister(&self, registration: u32) {
        // A connection that is gone has taken the registration with it.
        let _ = self.say(&FromProgram::Unregister { number: registration }, &[]);
    }

    fn settle(&self, registration: u32) {
        let mut unanswered = lock(&self.unanswered);
        let before = self.heard.load(Ordering::Relaxed);
        let mut heard = before;
        let mut busy = Busy::new(self.word.as_deref());
        while unanswered.contains(&registration) {
            let (left, waited) = self
                .answered
                .wait_timeout_while(unanswered, PATIENCE, |left| left.contains(&registration))
                .unwrap_or_else(PoisonError::into_inner);
            unanswered = left;
            let now = self.heard.load(Ordering::Relaxed);
            let is_silent = now == heard || now.wrapping_sub(before) > MOST_MESSAGES;
            if waited.timed_out() && is_silent && !busy.is_busy() {
                // A host that does not answer is waited for once; what it says later holds then.
                unanswered.clear();
            }
            heard = now;
        }
    }

    fn is_elsewhere(&self) -> bool {
        true
    }
}

/// Looks for hosts, once in a process.
pub(crate) fn begin() {
    if CONNECTED.load(Ordering::Acquire) == process_generation() {
        return;
    }
    static ONE: Mutex<()> = Mutex::new(());
    // In a child somebody who is not here may hold it for ever: then it stays without hosts.
    let Ok(_one) = ONE.try_lock() else {
        if CONNECTED.load(Ordering::Acquire) == 0 {
            // Another thread is at it: its hosts are this one's too.
            drop(lock(&ONE));
        }
        return;
    };
    let before = CONNECTED.swap(process_generation(), Ordering::AcqRel);
    if before == process_generation() || (before != 0 && !registry::begin_anew()) {
        return;
    }
    crate::fork::install();
    for place in PLACES.get_or_init(dir::of_program) {
        // Where nothing can be had, there is no host.
        let Ok(directory) = Directory::open_or_make(place) else { continue };
        let word = directory.word().ok().map(Arc::new);
        let attached = try_attach(&directory, word.as_ref());
        let word = match std::env::var_os("ETW_LISTENER") {
            Some(off) if off == "off" => None,
            _ => word,
        };
        if word.is_none() && attached.is_none() {
            continue;
        }
        let (link, numbers) = match attached {
            Some((link, attachment, numbers)) => (Some((link, attachment)), numbers),
            None => (None, Vec::new()),
        };
        let answering = link.as_ref().map(|(link, _)| link.clone());
        // Without a thread, what the host says is not heard: nothing is recorded.
        let heard = spawn("etw-attach", move || watch(directory, word.as_ref(), link)).is_ok();
        for number in numbers.into_iter().filter(|_| heard) {
            if let Some(link) = &answering {
                link.settle(number);
            }
        }
    }
}

/// In a child whose pools are its parent's: connects anew. `true`: who asked may look again who wants its event.
#[cold]
pub(crate) fn renew() -> bool {
    let before = CONNECTED.load(Ordering::Acquire);
    if before == 0 || before == process_generation() {
        return false;
    }
    begin();
    CONNECTED.load(Ordering::Acquire) == process_generation()
}

/// In the child of a fork: the connections are the parent's. Async-signal-safe.
pub(crate) fn forget_descriptors() {
    for descriptor in &DESCRIPTORS {
        let descriptor = descriptor.swap(0, Ordering::AcqRel);
        if descriptor > 0 {
            // SAFETY: a descriptor of a connection that nobody in this process uses any more.
            unsafe { libc::close(descriptor - 1) };
        }
    }
}

/// Connects, introduces the providers, and waits a moment for what is wanted of them.
fn try_attach(
    directory: &Directory,
    word: Option<&Arc<Word>>,
) -> Option<(Arc<Link>, usize, Vec<u32>)> {
    let link = Arc::new(Link::connect(directory, word.cloned()).ok()?);
    let (attachment, numbers) = registry::attach_elsewhere(link.clone())?;
    DESCRIPTORS[attachment].store(link.channel.as_fd().as_raw_fd() + 1, Ordering::Release);
    Some((link, attachment, numbers))
}

/// Serves one directory's host for ever; sleeps while there is none.
fn watch(mut directory: Directory, word: Option<&Arc<Word>>, link: Option<(Arc<Link>, usize)>) {
    let mut link = link;
    loop {
        if let Some((link, attachment)) = link.take() {
            link.serve(attachment);
        }
        let Some(word) = word else { return };
        let seen = word.value();
        // A host that began between the two is met here; one that begins later changes the word.
        let attached = directory.renew().ok().and_then(|()| try_attach(&directory, Some(word)));
        link = attached.map(|(link, attachment, _)| (link, attachment));
        if link.is_none() {
            word.wait(seen, None);
        }
    }
}

/// A thread of ours: all signals blocked from its first instruction on, so that no handler of the program runs on it.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // SAFETY: sets of this thread's own; a thread inherits its maker's mask.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    // SAFETY: the mask from before.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    thread.map(drop)
}
