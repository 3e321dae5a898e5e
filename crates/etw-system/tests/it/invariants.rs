//! Invariants of every recording: the rules by which Windows' readers put records together.

use std::collections::{HashMap, HashSet};

use crate::schemas::check_schemas;
use etw_system::record::{RecordKind, Records, SystemRecord};
use etw_system::switch_chains::SwitchChains;
use etw_types::{ClassicHeader, le};

/// A record that has left the queue.
#[derive(Clone, Debug)]
pub struct Taken {
    pub time: i64,
    pub cpu: u16,
    pub process: u32,
    pub thread: u32,
    /// 0: a record without one.
    pub hook: u16,
    /// Its header, with the class and version, or its event.
    pub kind: RecordKind,
    /// Its header has a process and a thread.
    pub has_thread: bool,
    pub payload: Vec<u8>,
}

fn taken(record: &SystemRecord<'_>) -> Taken {
    Taken {
        time: record.time,
        cpu: record.cpu,
        process: record.process,
        thread: record.thread,
        hook: record.hook().unwrap_or(0),
        kind: *record.kind,
        has_thread: !record
            .class()
            .is_some_and(|class| matches!(class.header, ClassicHeader::PerfInfo(_))),
        payload: record.payload.to_vec(),
    }
}

impl Taken {
    pub fn u32(&self, at: usize) -> u32 {
        le::u32(&self.payload, at).unwrap()
    }

    pub fn u64(&self, at: usize) -> u64 {
        le::u64(&self.payload, at).unwrap()
    }
}

/// Takes all records out of a queue.
pub fn take_all(records: &mut Records) -> Vec<Taken> {
    let mut all = Vec::new();
    while let Some(record) = records.peek() {
        all.push(taken(&record));
        records.pop();
    }
    all
}

/// Checks a recording from its beginning to its end.
pub fn check(records: &[Taken]) {
    check_order(records);
    check_switches(records);
    check_run_times(records);
    check_lives(records);
    check_stacks(records);
    check_files(records);
    check_schemas(records);
}

pub fn check_order(records: &[Taken]) {
    for pair in records.windows(2) {
        assert!(pair[0].time <= pair[1].time, "{:?} before {:?}", pair[0], pair[1]);
    }
}

/// The id of every thread that has given its own up, and has yet to leave its CPU for the last time.
const NO_ID: u32 = u32::MAX;

/// `OldThreadWaitReason` of a switch whose state is not known.
const NO_REASON: u8 = 127;

/// Whether a record says that events are missing: the one classic record without fields.
pub fn is_loss(record: &Taken) -> bool {
    record.hook == 0 && record.payload.is_empty()
}

/// On each CPU the thread that a switch leaves is the one that the switch before brought, or a loss is recorded between them. A
/// thread that begins to run on another CPU has left the first one, or that CPU's next switch is behind a loss. A thread that has
/// ended still has to leave its CPU; by then, another one can have its id.
pub fn check_switches(records: &[Taken]) {
    let mut chains = SwitchChains::default();
    let mut ended_on: HashSet<u16> = HashSet::new();
    // Threads that were seen on another CPU, by the CPU that they did not leave.
    let mut left_unseen: HashMap<u16, u32> = HashMap::new();
    for record in records {
        if is_loss(record) {
            chains.lost(record.cpu);
            left_unseen.remove(&record.cpu);
        }
        if record.hook == 0x0502 {
            let thread = record.u32(4);
            ended_on.extend(chains.running().filter(|(_, one)| *one == thread).map(|(cpu, _)| cpu));
        }
        if record.hook != 0x0524 {
            continue;
        }
        let (new, old) = (record.u32(0), record.u32(4));
        ended_on.remove(&record.cpu);
        let unseen = left_unseen.remove(&record.cpu);
        assert_eq!(unseen, None, "a thread ran on two CPUs until {record:?}");
        let gap = chains.switched(record.cpu, old, new).filter(|gap| !gap.is_marked);
        assert_eq!(gap, None, "a switch is missing before {record:?}");
        let elsewhere = chains.running().filter(|(cpu, one)| *cpu != record.cpu && *one == new);
        let elsewhere = elsewhere.map(|(cpu, _)| cpu).filter(|cpu| !ended_on.contains(cpu));
        let elsewhere: Vec<u16> = elsewhere.filter(|_| new != 0 && new != NO_ID).collect();
        left_unseen.extend(elsewhere.into_iter().map(|cpu| (cpu, new)));
    }
}

/// The time of each CPU between its first and its last switch belongs to idle or to a thread that lives then, but for a thousandth. Time
/// around a loss belongs to nobody who is known, and does not count; each loss may hide the start of a thread that runs for 10 ms.
pub fn check_run_times(records: &[Taken]) {
    let early = ended_before_switches(records);
    let mut threads: HashSet<u32> = HashSet::from([0]);
    let mut running: HashMap<u16, (u32, i64, bool)> = HashMap::new();
    let (mut all, mut owned, mut hidden) = (0, 0, 0);
    let mut unknown: Vec<(u32, u16, i64, i64)> = Vec::new();
    for record in records {
        match record.hook {
            _ if is_loss(record) => {
                running.remove(&record.cpu);
                hidden += 100_000;
            }
            0x0501 | 0x0503 => drop(threads.insert(record.u32(4))),
            0x0502 | 0x0504 if record.u32(4) != 0 => drop(threads.remove(&record.u32(4))),
            0x0524 => {
                let new = record.u32(0);
                let is_known = threads.contains(&new) || new & FOREIGN != 0 || early.contains(&new);
                let run = (new, record.time, is_known);
                if let Some((thread, since, is_known)) = running.insert(record.cpu, run) {
                    all += record.time - since;
                    if is_known {
                        owned += record.time - since;
                    } else {
                        unknown.push((thread, record.cpu, since, record.time - since));
                    }
                }
            }
            _ => {}
        }
    }
    unknown.sort_by_key(|(.., ticks)| -ticks);
    unknown.truncate(3);
    let lives = |thread: u32| {
        let lives = records.iter().filter(|one| matches!(one.hook, 0x0501..=0x0504));
        let lives = lives.filter(move |one| one.u32(4) == thread);
        lives.map(|one| (one.hook, one.time)).collect::<Vec<_>>()
    };
    assert!(
        all - owned <= all / 1000 + hidden,
        "{owned} of {all} ticks belong to threads that live; others (thread, CPU, since, ticks; their records): {:?}",
        unknown.iter().map(|one| (one, lives(one.0))).collect::<Vec<_>>()
    );
}

/// Threads that ended before switches of their CPU were recorded, as the first rundown was not complete. Nobody knows whether they have run
/// for the last time.
fn ended_before_switches(records: &[Taken]) -> HashSet<u32> {
    let (mut cpus, mut ended) = (HashSet::new(), HashSet::new());
    for record in records {
        match record.hook {
            0x0524 => _ = cpus.insert(record.cpu),
            0x0502 | 0x0504 if !cpus.contains(&record.cpu) => _ = ended.insert(record.u32(4)),
            _ => {}
        }
    }
    ended
}

/// Ids of threads outside of the recorder's container have this bit.
const FOREIGN: u32 = 1 << 31;

/// A thread that waits becomes ready before it runs again: how many did not, if those are more than 2 %. A thread that was last seen
/// before a loss may have been woken unseen; and the kernel leaves out wake-ups by interrupts of idle CPUs: a thread that runs after idle
/// counts only if it was woken.
pub fn check_wakes(records: &[Taken]) -> Result<(), String> {
    let (mut seen, mut unseen) = (0, 0);
    let mut waiting = HashSet::new();
    // A thread that has just said that it waits may be woken before the switch from it.
    let mut woken = HashSet::new();
    for record in records {
        match record.hook {
            _ if is_loss(record) => waiting.clear(),
            0x0532 => {
                seen += usize::from(waiting.remove(&record.u32(0)));
                woken.insert(record.u32(0));
            }
            0x0524 => {
                let (new, old) = (record.u32(0), record.u32(4));
                unseen += usize::from(waiting.remove(&new) && old != 0);
                let is_waiting = record.payload[14] == 5;
                if is_waiting && old != 0 && !woken.contains(&old) {
                    waiting.insert(old);
                }
                woken.remove(&new);
            }
            _ => {}
        }
    }
    match unseen * 50 <= seen {
        true => Ok(()),
        false => Err(format!("{unseen} threads run without having been woken, {seen} were")),
    }
}

/// Each process, thread and image has one beginning and one end, and events of a thread lie between its own.
pub fn check_lives(records: &[Taken]) {
    let mut processes = HashSet::new();
    let mut threads: HashMap<u32, u32> = HashMap::new();
    let mut images = HashSet::new();
    // Without switches, their states, or some of them, nobody knows when a thread that has said its end runs for the last time.
    let is_switch = |one: &Taken| one.hook == 0x0524;
    let hides_last = |one: &Taken| is_loss(one) || is_switch(one) && one.payload[12] == NO_REASON;
    let has_switches = records.iter().any(is_switch) && !records.iter().any(hides_last);
    let mut ended = HashSet::new();
    let (mut switches, mut unknown) = (0, Vec::new());
    for record in records {
        match record.hook {
            0x0301 | 0x0303 => assert!(processes.insert(record.u32(8)), "begins twice: {record:?}"),
            0x0302 | 0x0304 => assert!(processes.remove(&record.u32(8)), "ends twice: {record:?}"),
            0x0501 | 0x0503 => {
                let (process, thread) = (record.u32(0), record.u32(4));
                assert!(processes.contains(&process), "a thread of no process: {record:?}");
                let before = threads.insert(thread, process);
                assert!(before.is_none() || thread == 0, "begins twice: {record:?}");
            }
            0x0502 | 0x0504 if record.u32(4) != 0 => {
                assert_eq!(threads.remove(&record.u32(4)), Some(record.u32(0)), "{record:?}");
                ended.insert(record.u32(4));
            }
            0x030a | 0x1403 => {
                let (base, process) = (record.u64(0), record.u32(16));
                assert!(processes.contains(&process), "an image of no process: {record:?}");
                assert!(images.insert((process, base)), "loaded twice: {record:?}");
            }
            0x1402 | 0x1404 => {
                let (base, process) = (record.u64(0), record.u32(16));
                assert!(images.remove(&(process, base)), "unloaded twice: {record:?}");
            }
            0x0f2e => {
                let thread = record.u32(8);
                // The kernel may have no id any more for a thread that ends.
                let is_known =
                    thread == u32::MAX || thread & FOREIGN != 0 || threads.contains_key(&thread);
                let is_known = is_known || !has_switches && ended.contains(&thread);
                let before = ended.contains(&thread);
                assert!(is_known, "a sample of no thread (ended before: {before}): {record:?}");
            }
            0x0524 => {
                for thread in [record.u32(0), record.u32(4)] {
                    let is_known =
                        thread & FOREIGN != 0 || thread == 0 || threads.contains_key(&thread);
                    if !is_known {
                        unknown.push((thread, record));
                    }
                }
                switches += 1;
            }
            0x0262 | 0x0263 => {
                let process = record.u32(16);
                let is_known = process & FOREIGN != 0 || processes.contains(&process);
                assert!(is_known, "memory of no process: {record:?}");
            }
            0x0321 => assert!(processes.contains(&record.u32(0)), "counters of none: {record:?}"),
            0x0440..=0x044b => {
                let is_known = record.process & FOREIGN != 0 || processes.contains(&record.process);
                assert!(is_known, "a file of no process: {record:?}");
            }
            _ => {}
        }
    }
    // Each beginning that nobody saw, and each missing switch, is marked.
    let losses = records.iter().filter(|one| is_loss(one)).count();
    // The last switch of a thread may come after its end was written, when records were lost.
    // A thread that has ended, and waits for its CPU when the recording begins, is not among those that were found.
    let nameless: HashSet<u32> =
        unknown.iter().map(|(thread, _)| *thread).filter(|one| !ended.contains(one)).collect();
    assert!(nameless.len() <= 2 + switches / 10_000 + losses, "never seen to begin: {nameless:?}");
    let early = ended_before_switches(records);
    unknown.retain(|(thread, _)| !nameless.contains(thread) && !early.contains(thread));
    let count = unknown.len();
    let shown = &unknown[..count.min(10)];
    let is_shown = |one: &u32| shown.iter().any(|(thread, _)| thread == one);
    let is_life = |one: &&Taken| (0x0501..=0x0504).contains(&one.hook) && is_shown(&one.u32(4));
    let lives = || records.iter().filter(is_life).map(|one| (one.hook, one.u32(4), one.time));
    assert!(
        count <= 1 + switches / 1000 + losses,
        "{count} threads of {switches} switches: {shown:?}; lives: {:x?}",
        lives().collect::<Vec<_>>()
    );
    threads.remove(&0);
    assert!(processes.is_empty(), "without an end: {processes:?}");
    assert!(threads.is_empty(), "without an end: {threads:?}");
    assert!(images.is_empty(), "without an end: {images:?}");
}

/// A stack lies directly behind its event, has its time and CPU, and names its thread; no two of one thread have one time.
pub fn check_stacks(records: &[Taken]) {
    let mut seen = HashSet::new();
    for (at, record) in records.iter().enumerate().filter(|(_, record)| record.hook == 0x1820) {
        let event = &records[at - 1];
        assert_eq!((record.u64(0) as i64, record.cpu), (event.time, event.cpu), "{record:?}");
        match event.hook {
            0x0524 => assert_eq!(record.u32(12), event.u32(0)),
            0x0f2e => assert_eq!(record.u32(12), event.u32(8)),
            _ => {}
        }
        assert!(seen.insert((record.u64(0), record.u32(12))), "two stacks: {record:?}");
        let frames = (record.payload.len() - 16) / 8;
        assert!((1..=192).contains(&frames));
    }
}

/// Each operation on a file begins before it ends, and a file has a name before its first record, and one at the end. A file that is named
/// again has another name. Each open file is closed once, and not used after that.
pub fn check_files(records: &[Taken]) {
    let mut names = HashMap::new();
    let mut operations = HashSet::new();
    let mut closed = HashSet::new();
    for record in records {
        let object = match record.hook {
            0x0443 | 0x0444 => record.u64(16),
            0x0440..=0x0442 | 0x0445..=0x044b => record.u64(8),
            _ => 0,
        };
        assert!(!closed.contains(&object), "it is closed: {record:?}");
        if record.hook == 0x0442 {
            closed.insert(object);
        }
        let (id, key) = match record.hook {
            0x0400 => {
                let before = names.insert(record.u64(0), &record.payload[8..]);
                assert_ne!(before, Some(&record.payload[8..]), "named twice: {record:?}");
                continue;
            }
            0x0424 => {
                let last = names.remove(&record.u64(0));
                assert_eq!(last, Some(&record.payload[8..]), "not its last name: {record:?}");
                continue;
            }
            0x044c => {
                assert!(operations.remove(&record.u64(0)), "ends twice: {record:?}");
                continue;
            }
            0x0425 | 0x0426 => (None, record.u64(8)),
            0x0440 => (Some(record.u64(0)), 0),
            0x0443 | 0x0444 => (Some(record.u64(8)), record.u64(24)),
            0x0442 | 0x0445..=0x044b => (Some(record.u64(0)), record.u64(16)),
            _ => continue,
        };
        assert!(key == 0 || names.contains_key(&key), "a file without a name: {record:?}");
        assert!(id.is_none_or(|id| operations.insert(id)), "begins twice: {record:?}");
    }
    assert!(names.is_empty(), "no name at the end: {names:?}");
}

/// Takes all records out of a recorder.
#[cfg(target_os = "linux")]
pub fn take_from(recorder: &mut etw_system::Recorder, all: &mut Vec<Taken>) {
    while let Some(record) = recorder.peek() {
        all.push(taken(&record));
        recorder.pop();
    }
}

/// Checks a recording of a machine that others use, too.
#[cfg(target_os = "linux")]
pub fn check_live(records: &[Taken]) {
    check_order(records);
    check_stacks(records);
    check_switches(records);
    check_run_times(records);
    check_lives(records);
    check_files(records);
    check_schemas(records);
}
