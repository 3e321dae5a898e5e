//! Descriptors of processes, and the files that are open by them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::shared::Shared;

/// Processes that are remembered; only damage makes more.
const LIMIT: usize = 1 << 16;
/// Writes do not append, as it is assumed of files that were open before; they do; or it is not known.
const NOT: u8 = 0;
const DOES: u8 = 1;
const UNSURE: u8 = 2;
/// Descriptors of a process that are remembered. Those of a process with more are looked up again.
const MAX_DESCRIPTORS: usize = 1 << 12;
/// A new process has those of its parent if these are not more.
const MAX_INHERITED: usize = 1 << 10;
/// The offset of an operation at the position of its descriptor, if that is not known.
pub(super) const CURRENT_POSITION: u64 = u64::MAX - 1;

/// A descriptor of a process.
#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    /// `None`: it is that of no file.
    pub file: Option<OpenFile>,
    /// Whether it is closed when the process executes a program; `None`: not known.
    pub closes_on_exec: Option<bool>,
}

/// A file that processes have open.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub object: u64,
    pub key: u64,
    state: Arc<OpenState>,
}

/// The same for all descriptors of an open file, also in processes that inherited them.
#[derive(Debug)]
struct OpenState {
    /// Where the next operation without an offset begins; [`CURRENT_POSITION`]: not known.
    position: AtomicU64,
    /// Running calls that move it, and whether any two have overlapped since the last time that none ran. Their order is that in which they get the
    /// kernel's lock, which no record has.
    moves: AtomicUsize,
    have_overlapped: AtomicBool,
    /// Whether writes append, as one of [`NOT`] and its kin.
    appends: AtomicU8,
    /// Descriptors that are remembered, and those that were forgotten: such a file is never seen to be closed.
    descriptors: AtomicUsize,
}

impl OpenFile {
    pub fn new(object: u64, key: u64, position: Option<u64>) -> OpenFile {
        let state = OpenState {
            position: AtomicU64::new(position.unwrap_or(CURRENT_POSITION)),
            moves: AtomicUsize::default(),
            have_overlapped: AtomicBool::default(),
            appends: AtomicU8::new(NOT),
            descriptors: AtomicUsize::default(),
        };
        OpenFile { object, key, state: Arc::new(state) }
    }

    /// A call begins that moves the position.
    pub fn begin_move(&self) -> Move {
        let state = &self.state;
        let start = match state.moves.fetch_add(1, Ordering::Relaxed) {
            0 => state.position.load(Ordering::Relaxed),
            _ => {
                state.have_overlapped.store(true, Ordering::Relaxed);
                CURRENT_POSITION
            }
        };
        Move { state: state.clone(), start, has_ended: false }
    }

    /// Whether writes append; `None`: not known.
    pub fn appends(&self) -> Option<bool> {
        let appends = self.state.appends.load(Ordering::Relaxed);
        (appends != UNSURE).then_some(appends == DOES)
    }

    pub fn set_appends(&self, to: Option<bool>) {
        let to = to.map_or(UNSURE, |to| if to { DOES } else { NOT });
        self.state.appends.store(to, Ordering::Relaxed);
    }

    /// Calls may have changed it unseen.
    fn forget_state(&self) {
        self.state.position.store(CURRENT_POSITION, Ordering::Relaxed);
        if self.appends() == Some(true) {
            self.set_appends(None);
        }
    }

    fn add_descriptor(&self) {
        self.state.descriptors.fetch_add(1, Ordering::Relaxed);
    }

    /// A descriptor is closed. Returns the file if it was the last one.
    fn without_descriptor(self) -> Option<OpenFile> {
        let less = |count: usize| count.checked_sub(1);
        let before =
            self.state.descriptors.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        (before == Ok(1)).then_some(self)
    }
}

/// A running call that moves the position of an open file. One that never ends has moved it somewhere.
#[derive(Debug)]
pub(super) struct Move {
    state: Arc<OpenState>,
    start: u64,
    has_ended: bool,
}

impl Move {
    /// Where the call begins; [`CURRENT_POSITION`]: not known.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The call has moved the position by so many bytes.
    pub fn advance(mut self, bytes: u64) {
        self.has_ended = true;
        let position = self.state.position.load(Ordering::Relaxed);
        if position != CURRENT_POSITION {
            let to = position.saturating_add(bytes).min(CURRENT_POSITION);
            self.state.position.store(to, Ordering::Relaxed);
        }
    }

    /// The call has moved the position there, unless another one moved it further.
    pub fn end_at(mut self, to: u64) {
        self.has_ended = !self.state.have_overlapped.load(Ordering::Relaxed);
        if self.has_ended {
            self.state.position.store(to, Ordering::Relaxed);
        }
    }
}

impl Clone for Move {
    fn clone(&self) -> Move {
        self.state.moves.fetch_add(1, Ordering::Relaxed);
        Move { state: self.state.clone(), ..*self }
    }
}

impl Drop for Move {
    fn drop(&mut self) {
        if !self.has_ended {
            self.state.position.store(CURRENT_POSITION, Ordering::Relaxed);
        }
        if self.state.moves.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.state.have_overlapped.store(false, Ordering::Relaxed);
        }
    }
}

/// Files whose last descriptors were closed.
pub(super) type Closed = Vec<OpenFile>;

/// The owner of descriptors: a process, or one of its threads that has them alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Process(u32),
    Thread(u32),
}

/// Descriptors of one process, or of several that have them together.
#[derive(Clone, Debug, Default)]
struct Table {
    descriptors: BTreeMap<i32, Descriptor>,
    /// Files of descriptors that may have been closed: when a program was executed, or unseen.
    doubtful: BTreeMap<i32, OpenFile>,
}

impl Table {
    fn files(&self) -> impl Iterator<Item = &OpenFile> {
        let files = self.descriptors.values().filter_map(|one| one.file.as_ref());
        files.chain(self.doubtful.values())
    }

    /// Another one with the same files.
    fn copied(&self) -> Table {
        self.files().for_each(OpenFile::add_descriptor);
        self.clone()
    }

    fn closed(self) -> Closed {
        let files = self.descriptors.into_values().filter_map(|one| one.file);
        files.chain(self.doubtful.into_values()).filter_map(OpenFile::without_descriptor).collect()
    }
}

/// The descriptors of all processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables(Shared<Owner, Table>);

impl Tables {
    #[cfg(test)]
    pub fn remembered(&self) -> [(&'static str, usize); 2] {
        let [processes, tables] = self.0.counts();
        [("processes with descriptors", processes), ("descriptors", tables)]
    }

    /// The owner of a thread's descriptors.
    pub fn owner(&self, process: u32, thread: u32) -> Owner {
        let own = Owner::Thread(thread);
        if self.0.get(own).is_some() { own } else { Owner::Process(process) }
    }

    /// A thread has its descriptors alone from now on.
    pub fn detach(&mut self, process: u32, thread: u32) {
        match self.owner(process, thread) {
            own @ Owner::Thread(_) => self.unshare(own),
            of_process => {
                let own = Owner::Thread(thread);
                self.inherit(own, of_process, false);
                if self.0.get(own).is_none() {
                    self.add(own, Table::default());
                }
            }
        }
    }

    /// A thread that has descriptors of its own is the only one of its process from now on.
    pub fn take_over(&mut self, process: u32, thread: u32) -> Closed {
        let (own, of_process) = (Owner::Thread(thread), Owner::Process(process));
        if self.0.get(own).is_none() {
            return Closed::new();
        }
        let closed = self.end(of_process);
        self.0.share(of_process, own);
        self.0.end(own);
        closed
    }

    fn is_full(&self) -> bool {
        let [owners, _] = self.0.counts();
        owners >= LIMIT
    }

    fn add(&mut self, owner: Owner, table: Table) {
        if self.is_full() {
            self.0 = Shared::default();
        }
        self.0.add(owner, table);
    }

    pub fn get(&self, owner: Owner, descriptor: i32) -> Option<&Descriptor> {
        self.0.get(owner)?.descriptors.get(&descriptor)
    }

    /// A descriptor is that of a file from now on.
    pub fn set(&mut self, owner: Owner, descriptor: i32, to: Descriptor) -> Closed {
        if self.0.get(owner).is_none() {
            self.add(owner, Table::default());
        }
        let Some(table) = self.0.get_mut(owner) else { return Closed::new() };
        if table.descriptors.len() >= MAX_DESCRIPTORS {
            table.descriptors.clear();
        }
        if let Some(file) = &to.file {
            file.add_descriptor();
        }
        let before = table.descriptors.insert(descriptor, to).and_then(|one| one.file);
        let before = before.into_iter().chain(table.doubtful.remove(&descriptor));
        before.filter_map(OpenFile::without_descriptor).collect()
    }

    /// A descriptor of which nothing is known is that of a file: one that it had before a program was executed, if it is the same.
    pub fn known_before(&self, owner: Owner, descriptor: i32, key: u64) -> Option<OpenFile> {
        let before = self.0.get(owner)?.doubtful.get(&descriptor);
        before.filter(|file| file.key == key).cloned()
    }

    pub fn remove(&mut self, owner: Owner, descriptor: i32) -> Closed {
        self.remove_all(owner, descriptor..=descriptor)
    }

    /// These descriptors are closed.
    pub fn remove_all(&mut self, owner: Owner, range: RangeInclusive<i32>) -> Closed {
        let mut closed = Closed::new();
        let table = self.0.get_mut(owner).filter(|_| !range.is_empty());
        let Some(table) = table else { return closed };
        let numbers: Vec<i32> = table.descriptors.range(range.clone()).map(|one| *one.0).collect();
        for number in numbers {
            let file = table.descriptors.remove(&number).and_then(|one| one.file);
            closed.extend(file.and_then(OpenFile::without_descriptor));
        }
        let numbers: Vec<i32> = table.doubtful.range(range).map(|one| *one.0).collect();
        for number in numbers {
            let file = table.doubtful.remove(&number);
            closed.extend(file.and_then(OpenFile::without_descriptor));
        }
        closed
    }

    /// These descriptors are closed, or not, when the process executes a program.
    pub fn mark(&mut self, owner: Owner, range: RangeInclusive<i32>, closes_on_exec: bool) {
        let table = self.0.get_mut(owner).filter(|_| !range.is_empty());
        let Some(table) = table else { return };
        for (_, one) in table.descriptors.range_mut(range) {
            one.closes_on_exec = Some(closes_on_exec);
        }
    }

    /// A process begins with the descriptors of its parent; `is_shared`: which both have together from then on.
    pub fn inherit(&mut self, owner: Owner, parent: Owner, is_shared: bool) {
        self.end(owner);
        if is_shared {
            return self.share(owner, parent);
        }
        let Some(of_parent) = self.0.get(parent) else { return };
        if of_parent.descriptors.len() + of_parent.doubtful.len() > MAX_INHERITED {
            // Nobody sees when the process closes them.
            return of_parent.files().for_each(OpenFile::add_descriptor);
        }
        let table = of_parent.copied();
        self.add(owner, table);
    }

    fn share(&mut self, owner: Owner, parent: Owner) {
        if self.is_full() || self.0.get(parent).is_none() {
            self.add(parent, Table::default());
        }
        self.0.share(owner, parent);
    }

    /// A process has its descriptors alone from now on.
    pub fn unshare(&mut self, owner: Owner) {
        let Some(table) = self.0.get(owner).filter(|_| self.0.is_shared(owner)) else { return };
        let own = table.copied();
        self.add(owner, own);
    }

    /// A process executes a program, which has the descriptors that are not closed then. Others are looked up again.
    pub fn executed(&mut self, owner: Owner) -> Closed {
        self.unshare(owner);
        let Some(table) = self.0.get_mut(owner) else { return Closed::new() };
        let mut closed = Closed::new();
        for (number, one) in std::mem::take(&mut table.descriptors) {
            match (one.closes_on_exec, one.file) {
                (Some(false), file) => {
                    let closes_on_exec = Some(false);
                    table.descriptors.insert(number, Descriptor { file, closes_on_exec });
                }
                (_, None) => {}
                (Some(true), Some(file)) => closed.extend(file.without_descriptor()),
                // Without a key, it would not be known again.
                (None, Some(file)) if file.key == 0 || table.doubtful.len() >= MAX_DESCRIPTORS => {}
                (None, Some(file)) => {
                    let before = table.doubtful.insert(number, file);
                    closed.extend(before.and_then(OpenFile::without_descriptor));
                }
            }
        }
        closed
    }

    /// All descriptors may have changed unseen: they are looked up again, and a file that is found has its object, at an unknown position.
    pub fn doubt(&mut self) {
        for table in self.0.values_mut() {
            table.files().for_each(OpenFile::forget_state);
            for (number, one) in std::mem::take(&mut table.descriptors) {
                // Without a key, it would not be known again.
                if let Some(file) = one.file.filter(|file| file.key != 0)
                    && table.doubtful.len() < MAX_DESCRIPTORS
                {
                    table.doubtful.insert(number, file);
                }
            }
        }
    }

    /// A process has ended.
    pub fn end(&mut self, owner: Owner) -> Closed {
        self.0.end(owner).map(Table::closed).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner::Process(1);

    fn of_file(object: u64) -> Descriptor {
        Descriptor { file: Some(OpenFile::new(object, 7, None)), closes_on_exec: None }
    }

    fn objects(closed: Closed) -> Vec<u64> {
        closed.into_iter().map(|file| file.object).collect()
    }

    /// A file with a descriptor that was forgotten is not seen to be closed, however often another one is.
    #[test]
    fn files_of_forgotten_descriptors_stay_open() {
        let mut tables = Tables::default();
        for number in 0..MAX_DESCRIPTORS as i32 {
            tables.set(OWNER, number, of_file(1));
        }
        let first = tables.get(OWNER, 0).cloned().unwrap();
        tables.set(OWNER, -1, first.clone());
        assert!(objects(tables.remove(OWNER, -1)).is_empty());
        assert!(tables.get(OWNER, 0).is_none(), "all were forgotten");
        assert!(objects(tables.end(OWNER)).is_empty());
        for process in (1..=LIMIT as u32 + 1).map(Owner::Process) {
            tables.set(process, 3, first.clone());
        }
        assert_eq!(tables.0.counts(), [1, 1]);
        assert!(objects(tables.end(Owner::Process(LIMIT as u32 + 1))).is_empty());
        assert!(first.file.unwrap().without_descriptor().is_none());
    }

    #[test]
    fn a_process_with_many_descriptors_has_children_that_nobody_follows() {
        let mut tables = Tables::default();
        for number in 0..=MAX_INHERITED as i32 {
            tables.set(OWNER, number, of_file(number as u64));
        }
        tables.inherit(Owner::Process(2), OWNER, false);
        assert!(tables.get(Owner::Process(2), 0).is_none());
        assert!(objects(tables.end(OWNER)).is_empty(), "the child has them still");
    }

    #[test]
    fn descriptors_that_processes_have_together_are_forgotten_together() {
        let mut tables = Tables::default();
        tables.set(OWNER, 3, of_file(1));
        for process in (2..=LIMIT as u32 + 1).map(Owner::Process) {
            tables.inherit(process, OWNER, true);
        }
        let [owners, count] = tables.0.counts();
        assert!(owners <= LIMIT && count == 1);
        for process in (1..=LIMIT as u32 + 1).map(Owner::Process) {
            tables.unshare(process);
            assert!(objects(tables.end(process)).is_empty());
        }
        assert_eq!(tables.0.counts(), [0, 0]);
    }

    #[test]
    fn a_file_is_closed_no_more_often_than_it_was_opened() {
        let file = OpenFile::new(1, 7, None);
        assert!(file.clone().without_descriptor().is_none());
        file.add_descriptor();
        assert!(file.clone().without_descriptor().is_some());
        assert!(file.without_descriptor().is_none());
    }
}
