//! The rundown at the start: everything that exists already.

use std::sync::Arc;

use super::lives::{Listed, Lives};
use super::{Recorder, TICK};
use crate::clocks::now;
use crate::mapped_images::{Images, MappingList};
use crate::neutral::{Detail, Image, NeutralEvent, ProcessFacts, Stack};
use crate::perf::Target;
use crate::process_files::{self, DELETED, ListedThread};
use crate::record::Records;
use crate::shaper::{Shaper, Turn};

impl Recorder {
    /// Gives the shaper everything that exists at the moment of the turn, which is that of the rundown's records. What the rings show later
    /// is not in it.
    pub(super) fn run_down(&mut self, turn: Turn) {
        self.shaper.begin(turn, &mut self.out);
        let processes = match self.target {
            Target::Tree(process) => vec![process],
            Target::Machine => process_files::numbered("/proc"),
        };
        let images = &mut self.sources.images;
        let listed = processes.iter().filter_map(|id| listed(*id, self.command, images)).collect();
        let listeners = match self.has_network && self.target == Target::Machine {
            true => process_files::listeners(),
            false => Vec::new(),
        };
        // Whatever is missing in the list has a record by now.
        self.perf.read(now());
        let stored_until = self.stored_until.unwrap_or(i64::MIN);
        let is_shown = |time: u64| (time / TICK) as i64 > stored_until;
        let lives = Lives::of(&self.perf.lives(), is_shown);
        let (living, defunct) = lives.living(listed);
        let mut give = Giver { shaper: &mut self.shaper, out: &mut self.out, turn };
        match self.target {
            // The kernel shows where it lies to those who may record its frames, unless `kernel.kptr_restrict` hides it.
            Target::Tree(_) if give.shaper.kernel_images().is_empty() => {}
            Target::Tree(_) => give.kernel(&[]),
            Target::Machine => give.kernel(&self.cpus),
        }
        living.iter().for_each(|one| give.process(one));
        for Listed { facts, status, .. } in &defunct {
            give.event(Detail::DefunctFound { facts, status: status.unwrap_or(0) });
        }
        for (process, at) in listeners {
            give.event(Detail::ListenerFound { process, at });
        }
        give.event(Detail::AllFound);
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
    Some(Listed { facts, threads, images: found, status })
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

    fn process(&mut self, Listed { facts, threads, images, .. }: &Listed) {
        let process = facts.id;
        self.event(Detail::ProcessFound(facts));
        for ListedThread { id: thread, name, priority, affinity, .. } in threads {
            let (thread, priority, affinity) = (*thread, *priority, *affinity);
            self.event(Detail::ThreadFound { process, thread, name, priority, affinity });
        }
        for image in images {
            self.event(Detail::Map { process, image });
        }
    }
}
