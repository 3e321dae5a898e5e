//! The rundown at the start: everything that exists already.

use std::sync::Arc;

use super::Recorder;
use crate::neutral::{Detail, Image, NeutralEvent, ProcessFacts, Stack};
use crate::perf::Target;
use crate::process_files::{self, DELETED, Images, ListedThread, each_mapping};
use crate::record::Records;
use crate::shaper::{Shaper, Turn};

impl Recorder {
    /// Gives the shaper everything that exists now.
    pub(super) fn run_down(&mut self, turn: Turn) {
        self.shaper.begin(turn, &mut self.out);
        let mut give = Giver { shaper: &mut self.shaper, out: &mut self.out, turn };
        if let Target::Tree(process) = self.target {
            // The kernel shows where it lies to those who may record its frames, unless `kernel.kptr_restrict` hides it.
            if !give.shaper.kernel_images().is_empty() {
                give.kernel(&[]);
            }
            if let Some(facts) = facts_of(process, self.command) {
                give.process(facts, &mut self.sources.images);
            }
            return give.event(Detail::AllFound);
        }
        give.kernel(&self.cpus);
        for process in process_files::numbered("/proc") {
            if let Some(facts) = facts_of(process, self.command) {
                give.process(facts, &mut self.sources.images);
            }
        }
        if self.has_network {
            for (process, at) in process_files::listeners() {
                give.event(Detail::ListenerFound { process, at });
            }
        }
        give.event(Detail::AllFound);
    }
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

    fn process(&mut self, mut facts: ProcessFacts, images: &mut Images) {
        let process = facts.id;
        let mut found: Vec<Arc<Image>> = Vec::new();
        if !facts.is_kernel {
            facts.stack = each_mapping(process, |mapping| found.push(images.image(mapping)));
            // The path of a deleted file has a remark in the list of mappings.
            let is_program = |image: &&Arc<Image>| {
                image.path.strip_suffix(DELETED).unwrap_or(&image.path) == facts.exec.path
            };
            let program = found.iter().find(is_program);
            facts.entry = program.map_or(0, |image| image.entry);
        }
        self.event(Detail::ProcessFound(&facts));
        for one in process_files::threads(process) {
            let ListedThread { id: thread, name, priority, affinity } = one;
            self.event(Detail::ThreadFound { process, thread, name: &name, priority, affinity });
        }
        for image in &found {
            self.event(Detail::Map { process, image });
        }
    }
}
