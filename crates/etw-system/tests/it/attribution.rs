//! A model of the rules by which Windows' readers give samples to threads and stacks to events, run over recordings of hostile programs.
//! It shares no code with the shaper: it knows the layout of the records, and the rules of the readers.
#![cfg(target_os = "linux")]

use std::collections::{HashMap, HashSet, VecDeque};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use etw_system::Options;
use etw_system::flags::Masks;

use crate::ground_truth::helper;
use crate::invariants::{Taken, check_live};
use crate::live::{Live, record_with};

/// Readers look for the event of a stack among so many.
const REMEMBERED: usize = 2048;
/// Addresses from here on belong to the kernel.
const FIRST_OF_KERNEL: u64 = 0xffff_0000_0000_0000;
/// The processes whose stacks need no frames of a program.
const OF_KERNEL: [u32; 2] = [0, 4];

/// An event that may receive a stack.
struct Candidate {
    time: i64,
    cpu: u16,
    /// `None`: the event names no thread.
    thread: Option<u32>,
    hook: u16,
}

/// The result of a reader: counts of what it attributes.
#[derive(Debug, Default)]
struct Model {
    samples: u64,
    /// Samples of a thread whose process has a name.
    attributed: u64,
    stacks: u64,
    /// Stacks that have an event, and are complete.
    attached: u64,
    /// Frames in programs, and those in an image of their process.
    frames: u64,
    named_frames: u64,
}

/// A reader of Windows: it reads names of processes ahead, since the end of a process names it.
#[derive(Default)]
struct Reader {
    names: HashMap<u32, Vec<bool>>,
    processes: HashSet<u32>,
    threads: HashMap<u32, u32>,
    images: HashMap<u32, Vec<(u64, u64)>>,
    events: VecDeque<Candidate>,
    model: Model,
}

/// Whether a Process record names its program.
fn has_name(record: &Taken) -> bool {
    // Key, id, parent, session, status, table, flags; then no SID, or one of 28 bytes behind its pointers.
    let at = if record.u32(36) == 0 { 40 } else { 36 + 16 + 16 };
    record.payload.get(at).is_some_and(|byte| *byte != 0)
}

impl Reader {
    fn read(records: &[Taken]) -> Model {
        let mut reader = Reader::default();
        for record in records.iter().filter(|one| matches!(one.hook, 0x0302 | 0x0304)) {
            reader.names.entry(record.u32(8)).or_default().push(has_name(record));
        }
        for record in records {
            reader.take(record);
        }
        reader.model
    }

    fn take(&mut self, record: &Taken) {
        match record.hook {
            0x0301 | 0x0303 => {
                self.processes.insert(record.u32(8));
                self.images.remove(&record.u32(8));
            }
            0x0302 | 0x0304 => {
                self.processes.remove(&record.u32(8));
                let names = self.names.get_mut(&record.u32(8)).unwrap();
                names.remove(0);
            }
            0x0501 | 0x0503 => {
                self.threads.insert(record.u32(4), record.u32(0));
            }
            0x0502 | 0x0504 => {
                // The stack of this event comes behind it.
                self.remember(record, Some(record.thread));
                self.threads.remove(&record.u32(4));
                return;
            }
            0x030a | 0x1403 => {
                let image = (record.u64(0), record.u64(0) + record.u64(8));
                self.images.entry(record.u32(16)).or_default().push(image);
            }
            0x0f2e => self.sample(record),
            0x1820 => return self.stack(record),
            _ => {}
        }
        let thread = match record.hook {
            0x0524 => Some(record.u32(0)),
            0x0f2e => Some(record.u32(8)),
            _ => record.has_thread.then_some(record.thread),
        };
        self.remember(record, thread);
    }

    fn remember(&mut self, record: &Taken, thread: Option<u32>) {
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        let (time, cpu, hook) = (record.time, record.cpu, record.hook);
        self.events.push_back(Candidate { time, cpu, thread, hook });
    }

    fn sample(&mut self, record: &Taken) {
        self.model.samples += 1;
        let process = self.threads.get(&record.u32(8));
        let is_named = process.is_some_and(|id| {
            let name = self.names.get(id).and_then(|names| names.first());
            self.processes.contains(id) && name == Some(&true)
        });
        self.model.attributed += u64::from(is_named);
    }

    /// The event of a stack has its time, and its thread; or it names no thread, and has its CPU. Each event has one stack.
    fn stack(&mut self, record: &Taken) {
        self.model.stacks += 1;
        let (time, process, thread) = (record.u64(0) as i64, record.u32(8), record.u32(12));
        let is_its = |one: &Candidate| {
            one.time == time && one.thread.map_or(one.cpu == record.cpu, |id| id == thread)
        };
        let found = self.events.iter().rposition(is_its);
        let found = found.and_then(|at| self.events.remove(at));
        let frames = (16..record.payload.len()).step_by(8).map(|at| record.u64(at));
        let of_program: Vec<u64> = frames.filter(|frame| *frame < FIRST_OF_KERNEL).collect();
        // Without them, a reader waits for a second part.
        let is_complete = OF_KERNEL.contains(&process) || !of_program.is_empty();
        // Disk transfers never receive a stack.
        let is_possible = found.is_some_and(|one| !matches!(one.hook, 0x010a | 0x010b));
        self.model.attached += u64::from(is_possible && is_complete);
        let images = self.images.get(&process).map_or(&[][..], |images| images);
        self.model.frames += of_program.len() as u64;
        let is_named =
            |frame: &&u64| images.iter().any(|(start, end)| (start..end).contains(frame));
        self.model.named_frames += of_program.iter().filter(is_named).count() as u64;
    }
}

/// Loads that make readers err: processes of microseconds, threads with other names, programs that are executed by threads, processes that
/// share memory, namespaces, ids that are used again.
const LOADS: &[&str] = &[
    "makes short processes",
    "renames its threads",
    "executes in a thread",
    "shares its memory with processes",
    "ends its first thread first",
];

fn poll_until_end(live: &mut Live, command: &mut Command) {
    let Ok(mut child) = command.stdin(Stdio::null()).spawn() else { return };
    while child.try_wait().unwrap().is_none() {
        live.poll();
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// OV-23: of the samples of hostile programs, 99 % belong to a thread of a process with a name; of the stacks, 98 % have their event.
#[test]
fn readers_attribute_samples_and_attach_stacks_of_hostile_programs() {
    let run = |live: &mut Live| {
        for load in LOADS {
            poll_until_end(live, &mut helper(load));
        }
        // Processes whose memory is that of this one until they execute a program.
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            poll_until_end(live, Command::new("true").stdout(Stdio::null()));
        }
        let container = [
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "sh",
            "-c",
            "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done",
        ];
        poll_until_end(live, Command::new("unshare").args(container).stderr(Stdio::null()));
        for _ in 0..20 {
            let mut child = Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            // The next process has the same id.
            let _ = std::fs::write("/proc/sys/kernel/ns_last_pid", (child.id() - 1).to_string());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let options = Options {
        masks: Masks::parse("process,thread,img,profile,cswitch,dispatcher").unwrap().masks,
        stacks: vec![0x0f2e, 0x0524, 0x0532, 0x0301, 0x0302, 0x0501, 0x0502],
        sample_interval: 5000,
        ..Options::default()
    };
    let Some(recording) = record_with(options, None, run) else { return };
    let processes = etw_types::Hook(0x0301).class_guid().unwrap();
    if recording.losses.iter().any(|(class, _)| class == processes) {
        return eprintln!("left out: the machine was too busy, and processes were lost");
    }
    check_live(&recording.records);
    let model = Reader::read(&recording.records);
    let processes = recording.records.iter().filter(|one| one.hook == 0x0301).count();
    eprintln!("{processes} processes, {model:?}, losses {}", recording.losses.total());
    assert!(processes > 1000 && model.samples > 200 && model.stacks > 1000, "{model:?}");
    assert!(model.attributed * 100 >= model.samples * 99, "{model:?}");
    assert!(model.attached * 100 >= model.stacks * 98, "{model:?}");
}
