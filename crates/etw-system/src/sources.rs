//! Facts about programs and files from `/proc`, until the watermark passes the records that need them.

use std::collections::{HashMap, VecDeque};

use crate::neutral::{CalledFile, ExecFacts, FileFacts};
use crate::perf::{Begun, CallPath, DescriptorChange, Executed, ProgramFound};
use crate::process_files::{Images, exec_facts, file_facts, is_closed};
use crate::process_root::has_other_files;

/// Execs and opened files that are remembered until the watermark passes them.
const LIMIT: usize = 1 << 16;

/// A process whose first program begins within so many nanoseconds starts with its name; with a later one, it starts with its parent's.
const SOON: u64 = 20_000_000;

/// Facts about programs and files that perf records do not have.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub images: Images,
    /// By process, with the times of the execs.
    execs: HashMap<u32, Vec<(u64, ExecFacts)>>,
    exec_count: usize,
    /// When processes with an id began.
    begun: HashMap<u32, VecDeque<u64>>,
    begun_count: usize,
    /// By thread, with the times at which the calls returned.
    opened: HashMap<u32, VecDeque<(u64, Option<FileFacts>)>>,
    opened_count: usize,
    /// By thread, in order of time.
    call_paths: HashMap<u32, VecDeque<CallPath>>,
    call_path_count: usize,
    /// Descriptors that were closed before their files were looked up.
    pub closed_descriptors: u64,
    /// Threads and times of the files that were looked up last, by process and descriptor.
    looked_up: HashMap<(u32, i32), (u32, u64)>,
}

impl Sources {
    /// Programs are executed. The kernel's records have names and arguments; `/proc` has the rest, which is read as early as possible:
    /// the process may have ended by the time that the watermark passes. Returns whether those that begin next should be read sooner.
    pub fn add_execs(&mut self, executed: Vec<Executed>, found: Vec<ProgramFound>) -> bool {
        let mut has_looks = false;
        for one in executed {
            let is_own =
                |found: &&ProgramFound| found.process == one.process && found.time >= one.time;
            let own = || found.iter().filter(is_own);
            let needs_arguments = !own().any(|found| found.arguments.is_some());
            let user = own().find_map(|found| found.user);
            has_looks |= needs_arguments || user.is_none() || has_other_files(one.process);
            self.add_exec(one, needs_arguments, user);
        }
        for one in found {
            let mut all = self.execs.get_mut(&one.process).into_iter().flatten();
            if let Some((_, facts)) = all.rfind(|(time, _)| *time <= one.time) {
                add_found(facts, one);
            }
        }
        has_looks
    }

    fn add_exec(&mut self, one: Executed, needs_arguments: bool, user: Option<u32>) {
        if self.exec_count >= LIMIT {
            self.execs.clear();
            self.exec_count = 0;
        }
        self.exec_count += 1;
        let facts = exec_facts(one.process, &one.name, needs_arguments, user);
        self.execs.entry(one.process).or_default().push((one.time, facts));
    }

    /// Processes have begun.
    pub fn add_begun(&mut self, begun: Vec<Begun>) {
        for one in begun {
            if self.begun_count >= LIMIT {
                self.begun.clear();
                self.begun_count = 0;
            }
            self.begun_count += 1;
            self.begun.entry(one.process).or_default().push_back(one.time);
        }
    }

    /// The first program that the process which begins at a time executes soon behind it.
    pub fn next_exec(&self, process: u32, begin: u64) -> Option<&ExecFacts> {
        let all = self.execs.get(&process)?;
        let (time, facts) = all.iter().find(|(time, _)| *time >= begin)?;
        // The next process with the same id may have begun meanwhile.
        let begun = self.begun.get(&process);
        let is_others = begun.into_iter().flatten().any(|next| begin < *next && next <= time);
        (!is_others && time - begin <= SOON).then_some(facts)
    }

    pub fn take_exec(&mut self, process: u32, at: u64) -> Option<ExecFacts> {
        let all = self.execs.get_mut(&process)?;
        let index = all.iter().position(|(time, _)| *time == at)?;
        let (_, facts) = all.remove(index);
        self.exec_count -= 1;
        if all.is_empty() {
            self.execs.remove(&process);
        }
        Some(facts)
    }

    /// The records before this time have been released: what was found for them is not needed any more.
    pub fn forget(&mut self, until: u64) {
        self.execs.retain(|_, all| {
            all.retain(|(time, _)| *time >= until);
            !all.is_empty()
        });
        self.exec_count = self.execs.values().map(Vec::len).sum();
        self.begun.retain(|_, all| {
            all.retain(|time| *time >= until);
            !all.is_empty()
        });
        self.begun_count = self.begun.values().map(VecDeque::len).sum();
        self.opened.retain(|_, all| {
            all.retain(|(time, _)| *time >= until);
            !all.is_empty()
        });
        self.opened_count = self.opened.values().map(VecDeque::len).sum();
        self.call_paths.retain(|_, all| {
            all.retain(|one| one.time >= until);
            !all.is_empty()
        });
        self.call_path_count = self.call_paths.values().map(VecDeque::len).sum();
    }

    /// The file of a descriptor, as long as that is open.
    pub fn file_of(&mut self, process: u32, descriptor: i32) -> Option<FileFacts> {
        let file = file_facts(process, descriptor);
        self.closed_descriptors += u64::from(file.is_none() && is_closed(process, descriptor));
        file
    }

    /// Descriptors have changed. A file that was opened is looked up with `find`, unless its descriptor has changed again: it
    /// would be that of another file.
    pub fn add_opened(
        &mut self,
        changes: &[DescriptorChange],
        find: impl Fn(u32, i32) -> Option<FileFacts>,
    ) {
        let mut last = HashMap::new();
        for one in changes {
            let time = last.entry((one.process, one.descriptor)).or_insert(0);
            *time = one.time.max(*time);
        }
        self.looked_up.clear();
        for one in changes.iter().filter(|one| one.is_open) {
            if self.opened_count >= LIMIT {
                self.opened.clear();
                self.opened_count = 0;
            }
            self.opened_count += 1;
            let is_last = last.get(&(one.process, one.descriptor)) == Some(&one.time);
            let is_valid = is_last && one.descriptor >= 0;
            let file = is_valid.then(|| find(one.process, one.descriptor)).flatten();
            if file.is_some() {
                self.looked_up.insert((one.process, one.descriptor), (one.thread, one.time));
            }
            self.opened.entry(one.thread).or_default().push_back((one.time, file));
        }
    }

    /// Descriptors have changed, perhaps before their files were looked up: those files may be others.
    pub fn reject_changed(&mut self, changes: &[DescriptorChange]) {
        for one in changes {
            let looked_up = self.looked_up.get(&(one.process, one.descriptor));
            let Some((thread, at)) = looked_up else { continue };
            let opened = self.opened.get_mut(thread);
            let found = opened.and_then(|all| all.iter_mut().find(|(time, _)| time == at));
            if let Some((_, file)) = found {
                *file = None;
            }
        }
    }

    /// Paths of calls that have returned.
    pub fn add_call_paths(&mut self, paths: Vec<CallPath>) {
        for one in paths {
            if self.call_path_count >= LIMIT {
                self.call_paths.clear();
                self.call_path_count = 0;
            }
            self.call_path_count += 1;
            self.call_paths.entry(one.thread).or_default().push_back(one);
        }
    }

    /// The paths of the call that a thread began at a time. `None`: it has not returned, or it has none.
    pub fn take_call_paths(
        &mut self,
        thread: u32,
        after: u64,
        number: u64,
        arguments: &[u64; 6],
    ) -> Option<CalledFile> {
        let all = self.call_paths.get_mut(&thread)?;
        while all.front().is_some_and(|one| one.time < after) {
            all.pop_front();
            self.call_path_count -= 1;
        }
        let mut file = None;
        while let Some(one) =
            all.front().filter(|one| one.call == number && arguments.contains(&one.address))
        {
            let is_again = file.is_some() && !one.is_second;
            if is_again {
                break;
            }
            let file = file.get_or_insert_with(CalledFile::default);
            file.id = one.file;
            file.buffer_bytes = one.buffer_bytes;
            let Some(one) = all.pop_front() else { break };
            self.call_path_count -= 1;
            file.paths[usize::from(one.is_second)] = one.path;
        }
        if all.is_empty() {
            self.call_paths.remove(&thread);
        }
        file
    }

    /// The file that the call opens which a thread began at a time.
    pub fn file_opened_after(&mut self, thread: u32, after: u64) -> Option<FileFacts> {
        let all = self.opened.get_mut(&thread)?;
        while all.front().is_some_and(|(time, _)| *time < after) {
            all.pop_front();
            self.opened_count -= 1;
        }
        let file = all.front().and_then(|(_, file)| file.clone());
        if all.is_empty() {
            self.opened.remove(&thread);
        }
        file
    }
}

/// Adds the name, arguments and user that the kernel recorded. They are better than those of `/proc`, which a program may change.
pub(crate) fn add_found(facts: &mut ExecFacts, found: ProgramFound) {
    // Programs without a path are executed by their descriptor.
    let has_path = !found.file.is_empty() && !found.file.starts_with(b"/dev/fd/");
    if has_path || facts.path.is_empty() && !found.file.is_empty() {
        facts.path = found.file;
    }
    if let Some(arguments) = found.arguments {
        facts.arguments = arguments;
    }
    facts.user = found.user.or(facts.user);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_used_again_does_not_name_the_file_before() {
        let change = |time, descriptor, is_open| DescriptorChange {
            time,
            process: 50,
            thread: 50,
            descriptor,
            is_open,
        };
        let find = |_, descriptor: i32| {
            let path = descriptor.to_string().into_bytes();
            Some(FileFacts { path, ..FileFacts::default() })
        };
        let mut sources = Sources::default();
        let changes = [
            change(10, 3, true),
            change(20, 3, false),
            change(30, 3, true),
            change(40, 4, true),
            change(50, 4, false),
            change(60, -2, true),
            change(70, 5, true),
        ];
        sources.add_opened(&changes, find);
        sources.reject_changed(&[change(80, 5, false)]);
        let mut path_after = |time| sources.file_opened_after(50, time).map(|file| file.path);
        assert_eq!([5, 25, 35].map(&mut path_after), [None, Some(b"3".to_vec()), None]);
        assert_eq!([45, 55].map(&mut path_after), [None, None], "the call that failed");
        assert_eq!(path_after(65), None, "it may have been looked up too late");
        assert_eq!(path_after(75), None);
        assert_eq!((sources.opened_count, sources.opened.len()), (0, 0));
        // A thread that opens no other file keeps none.
        sources.add_opened(&[change(90, 6, true), change(95, 7, true)], find);
        sources.forget(95);
        assert_eq!((sources.opened_count, sources.opened.len()), (1, 1));
        assert_eq!(sources.file_opened_after(50, 91).map(|file| file.path), Some(b"7".to_vec()));
        sources.forget(96);
        assert_eq!((sources.opened_count, sources.opened.len()), (0, 0));
    }

    #[test]
    fn a_program_is_that_of_the_process_which_began_last() {
        let mut sources = Sources::default();
        for time in [30, 40] {
            let facts = ExecFacts { name: time.to_string().into_bytes(), ..ExecFacts::default() };
            sources.execs.entry(50).or_default().push((time, facts));
        }
        sources.add_begun([10, 20, 35].map(|time| Begun { time, process: 50 }).to_vec());
        let name = |sources: &Sources, begin| {
            sources.next_exec(50, begin).map(|facts| String::from_utf8(facts.name.clone()).unwrap())
        };
        assert_eq!(name(&sources, 10), None, "it ended, and the next one began at 20");
        assert_eq!(name(&sources, 20).as_deref(), Some("30"));
        assert_eq!(name(&sources, 35).as_deref(), Some("40"));
        let late = ExecFacts::default();
        sources.execs.entry(51).or_default().push((100 + SOON, late));
        assert!(sources.next_exec(51, 100).is_some());
        assert!(sources.next_exec(51, 99).is_none(), "its process ran its parent's program");
        sources.forget(36);
        assert_eq!((sources.begun_count, sources.begun.len()), (0, 0));
    }

    #[test]
    fn paths_are_those_of_their_call() {
        let path = |time, call, address, is_second, path: &[u8]| CallPath {
            thread: 50,
            time,
            call,
            is_second,
            file: None,
            address,
            path: path.to_vec(),
            buffer_bytes: None,
        };
        let mut sources = Sources::default();
        sources.add_call_paths(vec![
            path(5, 1, 0x10, false, b"before the recording"),
            path(15, 1, 0x10, false, b"/a"),
            path(25, 2, 0x10, false, b"/old"),
            path(25, 2, 0x20, true, b"/new"),
            path(35, 2, 0x10, false, b"/next"),
        ]);
        let mut take = |after, number, arguments| {
            let found = sources.take_call_paths(50, after, number, &arguments);
            found.map(|file| file.paths.map(|path| String::from_utf8(path).unwrap()))
        };
        let both = |first: &str, second: &str| Some([first.to_owned(), second.to_owned()]);
        assert_eq!(take(8, 3, [0x10; 6]), None, "its record was lost");
        assert_eq!(take(10, 1, [0x30; 6]), None, "another address");
        assert_eq!(take(10, 1, [0x10; 6]), both("/a", ""));
        assert_eq!(take(20, 2, [0x10, 0x20, 0, 0, 0, 0]), both("/old", "/new"));
        assert_eq!(take(30, 2, [0x10, 0x20, 0, 0, 0, 0]), both("/next", ""));
        assert_eq!((sources.call_path_count, sources.call_paths.len()), (0, 0));
    }
}
