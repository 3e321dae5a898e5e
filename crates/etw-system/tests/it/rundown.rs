//! Processes and threads that begin and end while a recording begins and ends.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::invariants::{Taken, check_lives, take_from};
use crate::live::{is_first_namespace, left_by, now, record_and_count};
use etw_system::flags::Masks;
use etw_system::{Options, Recorder, Stored};

/// Something lived between these times at least.
#[derive(Clone, Copy, Debug)]
struct Life {
    id: u32,
    /// It did not live before this time, in 100 ns.
    not_before: i64,
    since: Instant,
    until: Instant,
}

/// Lives that have ended, of processes and of threads.
#[derive(Clone, Debug, Default)]
struct Lives {
    processes: Vec<Life>,
    threads: Vec<Life>,
}

/// Makes processes and threads until it ends.
struct Churn {
    is_over: Arc<AtomicBool>,
    lives: Arc<Mutex<Lives>>,
    makers: Vec<JoinHandle<()>>,
}

/// Lives for so long; some threads outlive a step of the rundown, others do not.
fn live_for(round: u64, not_before: i64) -> Life {
    // SAFETY: it takes nothing and returns a number.
    let id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let since = Instant::now();
    std::thread::sleep(Duration::from_micros(round % 7 * 500));
    Life { id, not_before, since, until: Instant::now() }
}

fn make_process(round: u64) -> Life {
    let not_before = now();
    // SAFETY: the child makes two system calls and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: they take numbers.
        unsafe {
            libc::usleep((round % 5 * 700) as u32);
            libc::_exit(0);
        }
    }
    let since = Instant::now();
    let until = Instant::now();
    let mut status = 0;
    // SAFETY: memory that outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    Life { id: child as u32, not_before, since, until }
}

impl Churn {
    fn new() -> Churn {
        let (is_over, lives) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Lives>>::default());
        let maker = |is_process: bool| {
            let (is_over, lives) = (is_over.clone(), lives.clone());
            std::thread::spawn(move || {
                for round in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let life = match is_process {
                        true => make_process(round),
                        false => {
                            let begin = now();
                            std::thread::spawn(move || live_for(round, begin)).join().unwrap()
                        }
                    };
                    let mut lives = lives.lock().unwrap();
                    let all = if is_process { &mut lives.processes } else { &mut lives.threads };
                    all.push(life);
                }
            })
        };
        let makers = [true, false, false].map(maker).into();
        Churn { is_over, lives, makers }
    }

    fn end(self) -> Lives {
        self.is_over.store(true, Ordering::Relaxed);
        self.makers.into_iter().for_each(|maker| maker.join().unwrap());
        self.lives.lock().unwrap().clone()
    }
}

/// How often each id has one of two hooks.
fn counts(records: &[Taken], hooks: [u16; 2], at: usize) -> HashMap<u32, u32> {
    let mut counts = HashMap::new();
    for record in records.iter().filter(|one| hooks.contains(&one.hook)) {
        *counts.entry(record.u32(at)).or_default() += 1;
    }
    counts
}

/// All that the rundown has was born before it, unless that was another life with the same id, which has ended.
fn check_births(records: &[Taken], lives: &[Life], [begin, end]: [u16; 2], at: usize) {
    for life in lives {
        let of_life = |hook| {
            let own = records.iter().filter(move |one| one.hook == hook && one.u32(at) == life.id);
            own.map(|one| one.time).filter(|time| *time < life.not_before)
        };
        let begins = of_life(begin).count();
        assert!(begins <= of_life(end).count(), "in the rundown before its birth: {life:?}");
    }
}

/// OV-23: nothing falls between the rundown and the live events, at both ends: a process or thread that lived while the recording ran has
/// one start, live or of the rundown, and one end.
#[test]
fn nothing_is_missing_between_rundown_and_live_events() {
    for _ in 0..5 {
        let churn = Churn::new();
        std::thread::sleep(Duration::from_millis(20));
        let (mut since, mut until) = (None, None);
        let recording = record_and_count("process,thread", None, |live| {
            since = Some(Instant::now());
            for _ in 0..30 {
                std::thread::sleep(Duration::from_millis(3));
                live.poll();
            }
            until = Some(Instant::now());
        });
        let lives = churn.end();
        let (Some(recording), Some(since), Some(until)) = (recording, since, until) else { return };
        if recording.losses.total() > 0 || !is_first_namespace() {
            eprintln!("left out: the rings were full, or a namespace");
            continue;
        }
        let records = &recording.records;
        let of = |lives: &[Life]| -> Vec<u32> {
            let ran = lives.iter().filter(|one| one.until >= since && one.since <= until);
            ran.map(|one| one.id).collect()
        };
        let (processes, threads) = (of(&lives.processes), of(&lives.threads));
        eprintln!("{} processes, {} threads", processes.len(), threads.len());
        if processes.is_empty() || threads.is_empty() {
            eprintln!("left out: the machine was too busy to make both");
            continue;
        }
        let kinds = [
            ("process", processes, 8, [0x0301, 0x0303], [0x0302, 0x0304]),
            ("thread", threads, 4, [0x0501, 0x0503], [0x0502, 0x0504]),
        ];
        for (kind, ids, at, starts, ends) in kinds {
            let all = if kind == "process" { &lives.processes } else { &lives.threads };
            check_births(records, all, [starts[1], ends[0]], at);
            let (starts, ends) = (counts(records, starts, at), counts(records, ends, at));
            for id in ids {
                let count = |of: &HashMap<u32, u32>| of.get(&id).copied().unwrap_or(0);
                assert_eq!((count(&starts), count(&ends)), (1, 1), "{kind} {id}");
            }
            // Those that ended before the recording had begun have one start and one end, or none.
            let all_lives = lives.processes.iter().chain(&lives.threads);
            for life in all_lives {
                let count = |of: &HashMap<u32, u32>| of.get(&life.id).copied().unwrap_or(0);
                assert!(count(&starts) <= 1, "{kind} {life:?}");
                assert_eq!(count(&starts), count(&ends), "{kind} {life:?}");
            }
        }
    }
}

/// OV-23: a process whose first thread has ended has its images and its command line in the rundown.
#[test]
fn a_process_without_its_first_thread_is_found_whole() {
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        extern "C" fn second(_: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: it takes a number.
            unsafe { libc::sleep(20) };
            std::ptr::null_mut()
        }
        // SAFETY: the thread uses no memory of the first one; the call ends that one alone.
        unsafe {
            let mut thread = std::mem::zeroed();
            let argument = std::ptr::null_mut();
            libc::pthread_create(&raw mut thread, std::ptr::null(), second, argument);
            libc::syscall(libc::SYS_exit, 0);
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    let recording = record_and_count("process,thread,img", None, |_| ());
    // SAFETY: numbers, and memory that outlives the call.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    let Some(recording) = recording else { return };
    if !is_first_namespace() {
        return eprintln!("left out: a namespace");
    }
    let id = child as u32;
    let starts: Vec<_> =
        recording.records.iter().filter(|one| one.hook == 0x0303 && one.u32(8) == id).collect();
    assert_eq!(starts.len(), 1);
    let own = std::env::args().next().unwrap();
    let line: Vec<u8> = own.bytes().flat_map(|byte| [byte, 0]).collect();
    assert!(starts[0].payload.windows(line.len()).any(|part| part == line), "the command line");
    let images = recording.records.iter().filter(|one| one.hook == 0x1403 && one.u32(16) == id);
    assert!(images.count() > 1);
}

/// Makes a process of several threads, which ends with a status after a while.
fn process_of_threads(status: i32, after: Duration) -> libc::pid_t {
    extern "C" fn wait(_: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: it takes nothing.
        unsafe { libc::pause() };
        std::ptr::null_mut()
    }
    // SAFETY: the child makes threads and system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the threads use no memory of the first one.
        unsafe {
            for _ in 0..5 {
                let mut thread = std::mem::zeroed();
                let argument = std::ptr::null_mut();
                libc::pthread_create(&raw mut thread, std::ptr::null(), wait, argument);
            }
            libc::usleep(after.as_micros() as u32);
            libc::_exit(status);
        }
    }
    child
}

fn wait_for(child: libc::pid_t) {
    // SAFETY: a number, and no memory.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
}

/// The hooks of a process's records.
fn hooks_of(records: &[Taken], process: libc::pid_t) -> Vec<u16> {
    let is_life = |one: &&Taken| matches!(one.hook, 0x0301..=0x0304 | 0x0327);
    let own = records.iter().filter(is_life).filter(|one| one.u32(8) == process as u32);
    own.map(|one| one.hook).collect()
}

fn options() -> Options {
    let masks = Masks::parse("process,thread").unwrap().masks;
    Options { masks, stacks: Vec::new(), sample_interval: 10_000, ..Options::default() }
}

/// OV-23: behind a kill, the rundown has what lived at its moment: what ended before the next recorder looked has one end, and what began has
/// a start.
#[test]
fn the_rundown_behind_a_kill_has_what_lived_at_its_moment() {
    let mut recorder = match Recorder::open(options(), None) {
        Ok(recorder) => recorder,
        Err(error) => return eprintln!("left out: {error}"),
    };
    recorder.begin().unwrap();
    let ending = process_of_threads(9, Duration::from_millis(60));
    std::thread::sleep(Duration::from_millis(30));
    let start = now();
    let (left, _held) = left_by(recorder);
    let churn = Churn::new();
    wait_for(ending);
    let new = process_of_threads(8, Duration::from_secs(20));
    std::thread::sleep(Duration::from_millis(30));
    let mut next =
        Recorder::resume(options(), None, left, Stored { until: start, on: Vec::new() }, 0)
            .unwrap();
    next.begin().unwrap();
    let lives = churn.end();
    let mut records = Vec::new();
    next.finish();
    take_from(&mut next, &mut records);
    // SAFETY: it takes numbers.
    unsafe { libc::kill(new, libc::SIGKILL) };
    wait_for(new);
    if next.take_losses().total() > 0 || !is_first_namespace() {
        return eprintln!("left out: the rings were full, or a namespace");
    }
    assert_eq!(hooks_of(&records, ending), [0x0303, 0x0302]);
    assert_eq!(hooks_of(&records, new), [0x0301, 0x0304]);
    check_births(&records, &lives.processes, [0x0303, 0x0302], 8);
    check_births(&records, &lives.threads, [0x0503, 0x0502], 4);
    check_lives(&records);
}

/// OV-23: a process that has ended, and whose parent does not know yet, has no life in a recording that begins or takes another one's
/// place, and its exit status.
#[test]
fn a_process_that_its_parent_has_not_waited_for_is_defunct() {
    let mut first = match Recorder::open(options(), None) {
        Ok(recorder) => recorder,
        Err(error) => return eprintln!("left out: {error}"),
    };
    first.begin().unwrap();
    let child = process_of_threads(84, Duration::from_millis(10));
    std::thread::sleep(Duration::from_millis(60));
    let mut second = Recorder::open(options(), None).unwrap();
    let since = second.begin_in_place().unwrap();
    first.finish_before(since);
    second.finish();
    let all = [&mut first, &mut second].map(|one| {
        let mut records = Vec::new();
        take_from(one, &mut records);
        records
    });
    wait_for(child);
    if !is_first_namespace() {
        return eprintln!("left out: a namespace");
    }
    assert_eq!(
        all.each_ref().map(|one| hooks_of(one, child)),
        [vec![0x0301, 0x0302], vec![0x0327]]
    );
    let is_defunct = |one: &&Taken| one.hook == 0x0327 && one.u32(8) == child as u32;
    let defunct = all[1].iter().find(is_defunct).unwrap();
    // SAFETY: it takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    assert!(defunct.u32(20) == 84 || !is_root);
}
