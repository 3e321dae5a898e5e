//! Facts about programs and files from `/proc`, until the watermark passes the records that need them.

use std::collections::{HashMap, VecDeque};

use crate::mapped_images::Images;
use crate::neutral::{CalledFile, ExecFacts, FileFacts};
use crate::perf::{Begun, CallPath, DescriptorChange, Executed, Gap, ProgramFound};
use crate::process_files::{exec_facts, file_facts, has_name, is_closed};
use crate::process_root::has_other_files;

/// Execs and opened files that are remembered until the watermark passes them.
const LIMIT: usize = 1 << 16;

/// A process whose first program begins within so many nanoseconds starts with its name; with a later one, it starts with its parent's.
const SOON: u64 = 20_000_000;

/// Facts about programs and files that perf records do not have.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub images: Images,
    /// By process, with the times of the execs, in their order.
    execs: HashMap<u32, Vec<(u64, ExecFacts)>>,
    exec_count: usize,
    /// Programs by the kernel's records, by process, in order of time. The record of an exec may be read behind them.
    found: HashMap<u32, VecDeque<ProgramFound>>,
    found_count: usize,
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
    /// When each descriptor of a process was opened, closed or replaced last, among the records that have not been released.
    changed: HashMap<(u32, i32), u64>,
    /// Threads and times of the files that were looked up last, by process and descriptor.
    looked_up: HashMap<(u32, i32), (u32, u64)>,
    /// Times between which records may be missing, among those that have not been released.
    pub gaps: Vec<Gap>,
}

impl Sources {
    /// Programs are executed. The kernel's records have names and arguments; `/proc` has the rest, which is read as early as possible:
    /// the process may have ended by the time that the watermark passes. Returns whether those that begin next should be read sooner.
    pub fn add_execs(&mut self, mut executed: Vec<Executed>, found: Vec<ProgramFound>) -> bool {
        let mut has_looks = false;
        found.into_iter().for_each(|one| self.add_program_found(one));
        executed.sort_by_key(|one| one.time);
        let mut last: HashMap<u32, u64> = HashMap::new();
        executed.iter().for_each(|one| _ = last.insert(one.process, one.time));
        for one in executed {
            let (process, time) = (one.process, one.time);
            // `/proc` has the last program of a process.
            let is_last = last.get(&process) == Some(&time);
            let found = || self.found_after(process, time, u64::MAX);
            let needs_arguments = !found().any(|found| found.arguments.is_some());
            let (user, is_found) = (found().find_map(|found| found.user), found().next().is_some());
            has_looks |= needs_arguments || user.is_none() || has_other_files(process);
            let facts = match is_last {
                true => exec_facts(process, &one.name, needs_arguments, user),
                false => ExecFacts { name: one.name.clone(), ..ExecFacts::default() },
            };
            // Or of one that the process executes just now.
            let is_its = is_found || has_name(process, &one.name);
            // The kernel's records are added when the next exec is known.
            let own_user = facts.user.filter(|_| user.is_none());
            let facts = match is_its {
                true => ExecFacts { user: own_user, ..facts },
                false => ExecFacts { name: one.name, unit: facts.unit, ..ExecFacts::default() },
            };
            self.add_exec(process, time, facts);
        }
        has_looks
    }

    fn add_exec(&mut self, process: u32, time: u64, facts: ExecFacts) {
        if self.exec_count >= LIMIT {
            self.execs.clear();
            self.exec_count = 0;
        }
        self.exec_count += 1;
        let all = self.execs.entry(process).or_default();
        let at = all.partition_point(|(one, _)| *one <= time);
        all.insert(at, (time, facts));
    }

    fn add_program_found(&mut self, one: ProgramFound) {
        if self.found_count >= LIMIT {
            self.found.clear();
            self.found_count = 0;
        }
        self.found_count += 1;
        let all = self.found.entry(one.process).or_default();
        let at = all.partition_point(|known| known.time <= one.time);
        all.insert(at, one);
    }

    /// The kernel's records of the program that a process executes at a time, before its next exec: one of perf and one of a program
    /// in the kernel, which alone has the user. They come behind that of the exec. The record of the next exec may not have been read yet.
    fn found_after(
        &self,
        process: u32,
        time: u64,
        next: u64,
    ) -> impl Iterator<Item = &ProgramFound> {
        let of_process = self.found.get(&process).into_iter().flatten();
        let mut own = of_process.filter(move |found| (time..next).contains(&found.time));
        let first = own.next();
        let has_user = first.map(|found| found.user.is_some());
        let second = own.next().filter(|found| Some(found.user.is_some()) != has_user);
        first.into_iter().chain(second)
    }

    /// The facts about one of the execs of a process.
    fn exec_at(&self, process: u32, at: usize) -> Option<ExecFacts> {
        let all = self.execs.get(&process)?;
        let (time, facts) = all.get(at)?;
        let next = all.get(at + 1).map_or(u64::MAX, |(next, _)| *next);
        let mut facts = facts.clone();
        for found in self.found_after(process, *time, next) {
            add_found(&mut facts, found.clone());
        }
        Some(facts)
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
    pub fn next_exec(&self, process: u32, begin: u64) -> Option<ExecFacts> {
        let all = self.execs.get(&process)?;
        let at = all.iter().position(|(time, _)| *time >= begin)?;
        let time = &all[at].0;
        // The next process with the same id may have begun meanwhile.
        let begun = self.begun.get(&process);
        let is_others = begun.into_iter().flatten().any(|next| begin < *next && next <= time);
        if is_others || time - begin > SOON {
            return None;
        }
        self.exec_at(process, at)
    }

    pub fn take_exec(&mut self, process: u32, at: u64) -> Option<ExecFacts> {
        let index = self.execs.get(&process)?.iter().position(|(time, _)| *time == at)?;
        let facts = self.exec_at(process, index);
        let all = self.execs.get_mut(&process)?;
        all.remove(index);
        self.exec_count -= 1;
        if all.is_empty() {
            self.execs.remove(&process);
        }
        facts
    }

    /// The records before this time have been released: what was found for them is not needed any more.
    pub fn forget(&mut self, until: u64) {
        self.execs.retain(|_, all| {
            all.retain(|(time, _)| *time >= until);
            !all.is_empty()
        });
        self.exec_count = self.execs.values().map(Vec::len).sum();
        self.found.retain(|_, all| {
            all.retain(|one| one.time >= until);
            !all.is_empty()
        });
        self.found_count = self.found.values().map(VecDeque::len).sum();
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
        self.changed.retain(|_, time| *time >= until);
        self.gaps.retain(|gap| gap.until >= until);
    }

    /// Descriptors have changed: what is looked up now is not what they were before.
    pub fn add_changed(&mut self, changes: &[DescriptorChange]) {
        for one in changes {
            if self.changed.len() >= LIMIT {
                self.changed.clear();
            }
            let time = self.changed.entry((one.process, one.descriptor)).or_default();
            *time = one.time.max(*time);
        }
    }

    /// The file that a descriptor is of at a time, as long as it is open; inside, `None`: of no file. Outside, `None`: its changes since may be
    /// missing. `own`: the id of the process, or of a thread that has its descriptors alone.
    pub fn file_of(
        &mut self,
        (process, own): (u32, u32),
        descriptor: i32,
        time: u64,
    ) -> Option<Option<FileFacts>> {
        if has_gap(&self.gaps, time, u64::MAX) {
            return None;
        }
        if self.changed.get(&(process, descriptor)).is_some_and(|changed| *changed > time) {
            self.closed_descriptors += 1;
            return Some(None);
        }
        let file = file_facts(own, descriptor);
        self.closed_descriptors += u64::from(file.is_none() && is_closed(own, descriptor));
        Some(file)
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
            // The thread may have its descriptors alone, or may have ended.
            let find = |id| find(id, one.descriptor);
            let find = || find(one.thread).or_else(|| find(one.process));
            let file = is_valid.then(find).flatten();
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
        // It may be the path of a later call that is like this one.
        let first = all.front().map_or(after, |one| one.time);
        if has_gap(&self.gaps, after, first) {
            return None;
        }
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
            file.flags = one.flags.or(file.flags);
            file.is_made = one.is_made;
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
        // It may be that of a later call, or was looked up too late.
        let file = file.filter(|_| !has_gap(&self.gaps, after, u64::MAX));
        if all.is_empty() {
            self.opened.remove(&thread);
        }
        file
    }
}

/// Whether records between two times may be missing.
fn has_gap(gaps: &[Gap], from: u64, until: u64) -> bool {
    gaps.iter().any(|gap| gap.is_between(from, until))
}

/// Adds the name, arguments and user that the kernel recorded. They are better than those of `/proc`, which a program may change.
pub(crate) fn add_found(facts: &mut ExecFacts, found: ProgramFound) {
    // A program that is executed by its descriptor has no path: `/dev/fd/5`. Below a folder's descriptor, the last part is its name.
    let below = found.file.strip_prefix(b"/dev/fd/");
    let is_known = match below {
        Some(below) => facts.path.is_empty() && below.contains(&b'/'),
        None => !found.file.is_empty(),
    };
    if is_known {
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
    fn a_descriptor_names_no_file_that_it_was_opened_for_later() {
        let process = std::process::id();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        let change = DescriptorChange { time: 20, process, thread: 1, descriptor, is_open: true };
        let mut sources = Sources::default();
        sources.add_changed(&[change, DescriptorChange { time: 10, ..change }]);
        assert_eq!(sources.file_of((process, process), descriptor, 19), Some(None));
        assert!(sources.file_of((process, process), descriptor, 21).flatten().is_some());
        assert_eq!(sources.closed_descriptors, 1);
        sources.gaps.push(Gap { from: 22, until: 30 });
        assert_eq!(sources.file_of((process, process), descriptor, 21), None);
        assert!(sources.file_of((process, process), descriptor, 31).flatten().is_some());
        sources.forget(21);
        assert!(sources.changed.is_empty() && sources.gaps.len() == 1);
        sources.forget(31);
        assert!(sources.gaps.is_empty());
    }

    /// OV-23: the kernel's record of a program may be read before or behind that of its exec, and the next exec may follow at once.
    #[test]
    fn each_exec_has_the_arguments_of_its_own_program() {
        // No process has this id.
        const PROCESS: u32 = u32::MAX - 7;
        let executed = |time| Executed { time, process: PROCESS, name: time.to_string().into() };
        let found = |time: u64, arguments: &str| ProgramFound {
            time,
            process: PROCESS,
            file: format!("/bin/{arguments}").into(),
            arguments: Some(arguments.into()),
            user: Some(7),
        };
        let mut sources = Sources::default();
        let of_perf = ProgramFound { user: None, arguments: None, ..found(11, "first") };
        sources
            .add_execs(vec![executed(10)], vec![of_perf, found(12, "first"), found(22, "second")]);
        // The record of the exec at 20 was read behind that of its program.
        sources.add_execs(vec![executed(30), executed(20)], vec![found(43, "fourth")]);
        sources.add_execs(vec![executed(40)], vec![]);
        let next = sources.next_exec(PROCESS, 15).unwrap();
        assert_eq!(next.arguments, b"second");
        let mut take = |time| {
            let facts = sources.take_exec(PROCESS, time).unwrap();
            assert_eq!(facts.user, Some(7).filter(|_| !facts.path.is_empty()));
            (String::from_utf8(facts.path).unwrap(), String::from_utf8(facts.arguments).unwrap())
        };
        let of = |name: &str| (format!("/bin/{name}"), name.to_owned());
        assert_eq!(take(10), of("first"));
        assert_eq!(take(20), of("second"));
        assert_eq!(take(30), Default::default(), "its record was lost");
        assert_eq!(take(40), of("fourth"));
        sources.forget(100);
        assert_eq!((sources.exec_count, sources.found_count), (0, 0));
        assert!(sources.execs.is_empty() && sources.found.is_empty());
    }

    /// A program that is executed by a descriptor has the name that its process or its first image has.
    #[test]
    fn a_descriptor_is_no_name_of_a_program() {
        let path = |known: &[u8], file: &[u8]| {
            let mut facts = ExecFacts { path: known.to_vec(), ..ExecFacts::default() };
            let (file, arguments) = (file.to_vec(), None);
            add_found(
                &mut facts,
                ProgramFound { time: 1, process: 2, file, arguments, user: None },
            );
            String::from_utf8(facts.path).unwrap()
        };
        assert_eq!(path(b"", b"/dev/fd/5"), "");
        assert_eq!(path(b"/bin/x", b"/dev/fd/5"), "/bin/x");
        assert_eq!(path(b"", b"/dev/fd/5/some"), "/dev/fd/5/some");
        assert_eq!(path(b"/bin/some", b"/dev/fd/5/some"), "/bin/some");
        assert_eq!(path(b"/bin/some", b"/bin/other"), "/bin/other");
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
            sources.next_exec(50, begin).map(|facts| String::from_utf8(facts.name).unwrap())
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
            flags: None,
            is_made: false,
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

    /// OV-23: behind a gap, a path may be that of a later call.
    #[test]
    fn a_path_behind_a_gap_is_none_of_an_earlier_call() {
        let mut sources = Sources::default();
        sources.gaps.push(Gap { from: 25, until: 30 });
        for time in [24, 27, 45] {
            let path = time.to_string().into_bytes();
            let (thread, call, address) = (50, 1, 0x10);
            let (process, descriptor, is_open) = (50, 3, true);
            let change = DescriptorChange { time, process, thread, descriptor, is_open };
            let facts = FileFacts { path: path.clone(), ..FileFacts::default() };
            sources.add_opened(&[change], |_, _| Some(facts.clone()));
            let (is_second, file, buffer_bytes) = (false, None, None);
            sources.add_call_paths(vec![CallPath {
                thread,
                time,
                call,
                is_second,
                file,
                address,
                path,
                buffer_bytes,
                flags: None,
                is_made: false,
            }]);
        }
        let mut take = |after| {
            let named = sources.take_call_paths(50, after, 1, &[0x10; 6]);
            let named = named.map(|file| file.paths[0].clone());
            (named, sources.file_opened_after(50, after).map(|file| file.path))
        };
        assert_eq!(take(20), (Some(b"24".to_vec()), None));
        assert_eq!(take(24), (None, None));
        assert_eq!(take(40), (Some(b"45".to_vec()), Some(b"45".to_vec())));
    }
}
