//! The rundown at the start: everything that exists already.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::lives::{Listed, Lives};
use super::{Recorder, TICK, this_turn};
use crate::clocks::now;
use crate::mapped_images::{Images, MappingList};
use crate::neutral::{Detail, Image, Listening, NeutralEvent, ProcessFacts, Stack};
use crate::perf::{Missing, Target};
use crate::process_files::{self, DELETED, ListedThread, ListedView, ListedViews};
use crate::record::Records;
use crate::shaper::{Disk, KnownProcess, Shaper, Turn};

/// Processes and disks as a recorder knew them at its end, for the one that takes its place, and what the trace lacks up to there.
#[derive(Debug, Default)]
pub struct KnownProcesses {
    processes: Vec<KnownProcess>,
    /// In the order of their numbers.
    disks: Vec<Disk>,
    missing: Missing,
}

/// A rundown whose records are still to be made.
#[derive(Debug)]
pub(super) struct DueRundown {
    turn: Turn,
    listed: Vec<Listed>,
    listeners: Vec<(u32, Listening)>,
}

/// Facts that recorders hand over.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// The rundown at the beginning, until it is known what the recorder before knew.
    pub due: Option<DueRundown>,
    /// Processes that lived at the end of this recorder, or of the one before it.
    pub known: Vec<KnownProcess>,
}

impl Recorder {
    /// Begins to record while another recorder still records, whose place it takes. Returns the moment, in 100 ns, from which the records are
    /// this recorder's. The other one ends with [`finish_before`](Recorder::finish_before) there: no event is in neither, and none in both.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn begin_in_place(&mut self) -> io::Result<i64> {
        self.begin_count();
        self.perf.enable_arguments();
        self.perf.enable(..self.side_events)?;
        self.perf.enable_programs();
        self.perf.enable(self.side_events..)?;
        let turn = this_turn();
        let moment = (turn.time / TICK) as i64;
        (self.stored_until, self.since) = (Some(moment - 1), moment);
        self.shaper.number_from(turn.time / TICK);
        self.handover.due = Some(self.list(turn));
        // Those that began since that moment and are in the list have records, too.
        self.shaper.found_until(now());
        Ok(moment)
    }

    /// The processes that lived at the end of this recorder.
    pub fn take_known(&mut self) -> KnownProcesses {
        let processes = std::mem::take(&mut self.handover.known);
        let disks = self.shaper.disks().to_vec();
        KnownProcesses { processes, disks, missing: self.missing() }
    }

    /// Takes over from a recorder that has [ended](Recorder::finish_before) where this one [began](Recorder::begin_in_place): the rundown at the
    /// beginning has its names of processes that end before anybody else can read them. Without this, the first poll makes the rundown.
    pub fn take_over(&mut self, known: KnownProcesses) {
        self.missing_before = known.missing;
        if self.handover.due.is_some() {
            self.handover.known = known.processes;
            self.keep_disk_numbers(known.disks);
            self.complete_rundown();
        }
    }

    /// Gives the shaper everything that exists at the moment of the turn, which is that of the rundown's records. What the rings show later
    /// is not in it.
    pub(super) fn run_down(&mut self, turn: Turn) {
        self.handover.due = Some(self.list(turn));
        self.complete_rundown();
    }

    /// Everything that exists now, for a rundown at the moment of the turn.
    pub(super) fn list(&mut self, turn: Turn) -> DueRundown {
        let processes = match self.target {
            Target::Tree(process) => vec![process],
            Target::Machine => process_files::numbered("/proc"),
        };
        let images = &mut self.sources.images;
        let mut views = self.shaper.has_views().then(ListedViews::default);
        let listed = processes.iter().filter_map(|id| {
            let one = listed(*id, self.command, images)?;
            let views = views.as_mut().map(|views| views.of_process(*id)).unwrap_or_default();
            Some(Listed { views, ..one })
        });
        let listed = listed.collect();
        let listeners = match self.has_network && self.target == Target::Machine {
            true => process_files::listeners(),
            false => Vec::new(),
        };
        DueRundown { turn, listed, listeners }
    }

    /// Makes the records of the rundown, if they are still to be made.
    pub(super) fn complete_rundown(&mut self) {
        let Some(DueRundown { turn, listed, listeners }) = self.handover.due.take() else { return };
        let before = self.out.size();
        self.shaper.begin(turn, &mut self.out);
        // Whatever is missing in the list has a record by now.
        self.perf.read(now());
        let stored_until = self.stored_until.unwrap_or(i64::MIN);
        let is_shown = |time: u64| (time / TICK) as i64 > stored_until;
        let lives = Lives::of(&self.perf.lives(), is_shown);
        let (mut living, defunct) = lives.living(listed);
        complete(&mut living, std::mem::take(&mut self.handover.known));
        let mut give = Giver { shaper: &mut self.shaper, out: &mut self.out, turn };
        match self.target {
            // The kernel shows where it lies to those who may record its frames, unless `kernel.kptr_restrict` hides it.
            Target::Tree(_) if give.shaper.kernel_images().is_empty() => {}
            Target::Tree(_) => give.kernel(&[]),
            Target::Machine => give.kernel(&self.cpus),
        }
        living.iter().for_each(|one| give.process(one));
        for Listed { facts, .. } in living.iter().filter(|one| !one.facts.is_kernel) {
            let (process, other) = (facts.id, facts.parent);
            if process_files::have_one_memory(process, other) {
                give.event(Detail::SharedMemory { process, other });
            }
        }
        for Listed { facts, status, .. } in &defunct {
            give.event(Detail::DefunctFound { facts, status: status.unwrap_or(0) });
        }
        for (process, at) in listeners {
            give.event(Detail::ListenerFound { process, at });
        }
        give.event(Detail::AllFound);
        self.rundown_size = self.out.size() - before;
    }

    /// Bytes of the rundown at the beginning, in memory; in a file they are somewhat fewer. That at the end is mostly as large.
    pub fn rundown_size(&self) -> usize {
        self.rundown_size
    }
}

/// Adds what was known of processes before, as far as the list lacks it.
fn complete(living: &mut [Listed], known: Vec<KnownProcess>) {
    let mut known: HashMap<u32, KnownProcess> =
        known.into_iter().map(|one| (one.facts.id, one)).collect();
    for one in living {
        let Some(KnownProcess { facts, images, threads }) = known.remove(&one.facts.id) else {
            continue;
        };
        if one.facts.start == 0 {
            one.facts = facts;
        } else {
            // The kernel's records and `/proc` have different ones, and the key of a process follows from it.
            one.facts.start = facts.start;
            if one.facts.exec.path.is_empty() && !facts.exec.path.is_empty() {
                one.facts.exec = facts.exec;
            }
        }
        if one.images.is_empty() {
            one.images = images;
        }
        for (id, name) in threads {
            let unnamed = |thread: &&mut ListedThread| thread.id == id && thread.name.is_empty();
            if let Some(thread) = one.threads.iter_mut().find(unnamed) {
                thread.name = name;
            }
        }
    }
}

/// A process with its threads and images; `None`: it has ended.
fn listed(process: u32, command: Option<u32>, images: &mut Images) -> Option<Listed> {
    let mut facts = facts_of(process, command)?;
    let mut found: Vec<Arc<Image>> = Vec::new();
    if !facts.is_kernel {
        let list = MappingList::of(process);
        facts.stack = list.stack;
        found = images.of_list(process, &list);
        // The path of a deleted file has a remark in the list of mappings.
        let is_program = |image: &&Arc<Image>| {
            let rest = image.path.strip_prefix(&facts.exec.path[..]);
            rest.is_some_and(|rest| rest.is_empty() || rest == DELETED)
        };
        let program = found.iter().find(is_program);
        facts.entry = program.map_or(0, |image| image.entry);
    }
    let threads = process_files::threads(process);
    let has_ended = threads.iter().all(|one| one.has_ended);
    let status = if has_ended { process_files::exit_status(process) } else { None };
    Some(Listed { facts, threads, images: found, status, views: Vec::new() })
}

/// Facts about a process. The recorded command has the arguments of the program that started it until it executes its own: it has none.
/// Readers then use those of its end.
fn facts_of(process: u32, command: Option<u32>) -> Option<ProcessFacts> {
    let mut facts = process_files::process_facts(process)?;
    if command == Some(process)
        && let Some(parent) = process_files::process_facts(facts.parent)
        && parent.exec.arguments == facts.exec.arguments
    {
        facts.exec.arguments.clear();
    }
    Some(facts)
}

/// Gives the shaper the events of a rundown.
pub(super) struct Giver<'a> {
    pub shaper: &'a mut Shaper,
    pub out: &'a mut Records,
    pub turn: Turn,
}

impl Giver<'_> {
    pub fn event(&mut self, detail: Detail<'_>) {
        let Turn { time, cpu, process, thread } = self.turn;
        let event = NeutralEvent { time, cpu, process, thread, stack: Stack::default(), detail };
        self.shaper.take(&event, self.out);
    }

    /// The kernel's images, and its idle threads on these CPUs.
    fn kernel(&mut self, cpus: &[u16]) {
        self.event(Detail::ProcessFound(&ProcessFacts {
            session: u32::MAX,
            ..ProcessFacts::default()
        }));
        let turn = self.turn;
        for cpu in cpus {
            self.turn.cpu = *cpu;
            self.idle_thread();
        }
        self.turn = turn;
        for image in self.shaper.kernel_images() {
            self.event(Detail::Map { process: 0, image: &image });
        }
    }

    /// The idle thread of the turn's CPU.
    pub fn idle_thread(&mut self) {
        let (process, thread, name) = (0, 0, &b""[..]);
        self.event(Detail::ThreadFound { process, thread, name, priority: 0, affinity: 0 });
    }

    fn process(&mut self, Listed { facts, threads, images, views, .. }: &Listed) {
        let process = facts.id;
        self.event(Detail::ProcessFound(facts));
        for ListedThread { id: thread, name, priority, affinity, .. } in threads {
            let (thread, priority, affinity) = (*thread, *priority, *affinity);
            self.event(Detail::ThreadFound { process, thread, name, priority, affinity });
        }
        for image in images {
            self.event(Detail::Map { process, image });
        }
        for ListedView { base, size, file } in views {
            self.event(Detail::ViewFound { process, base: *base, size: *size, file });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neutral::ExecFacts;

    fn listed(id: u32, start: u64, program: &[u8], thread: &[u8]) -> Listed {
        let exec = ExecFacts { path: program.to_vec(), ..ExecFacts::default() };
        let facts = ProcessFacts { id, start, exec, ..ProcessFacts::default() };
        let threads = vec![ListedThread { id, name: thread.to_vec(), ..ListedThread::default() }];
        Listed { facts, threads, ..Listed::default() }
    }

    fn known(id: u32, parent: u32) -> KnownProcess {
        let exec = ExecFacts { path: b"/known".to_vec(), ..ExecFacts::default() };
        let facts = ProcessFacts { id, parent, start: 5, exec, ..ProcessFacts::default() };
        let images = vec![Arc::new(Image { size: 7, ..Image::default() })];
        KnownProcess { facts, images, threads: vec![(id, b"known".to_vec())] }
    }

    /// Processes that have ended before anybody listed them, or before their programs were read, have the names that a recorder before knew.
    #[test]
    fn a_rundown_has_what_a_recorder_before_knew() {
        let mut living = vec![
            listed(10, 0, b"", b""),
            listed(11, 9, b"", b"zombie"),
            listed(12, 9, b"/own", b"own"),
            listed(13, 0, b"", b""),
        ];
        complete(&mut living, (10..13).map(|id| known(id, 4)).collect());
        let shown = living.iter().map(|one| {
            let Listed { facts, threads, images, .. } = one;
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let names = (text(&facts.exec.path), text(&threads[0].name));
            (names, facts.parent, facts.start, images.len())
        });
        let names = |path: &str, thread: &str| (path.to_owned(), thread.to_owned());
        let expected = [
            (names("/known", "known"), 4, 5, 1),
            (names("/known", "zombie"), 0, 5, 1),
            (names("/own", "own"), 0, 5, 1),
            (names("", ""), 0, 0, 0),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }
}
