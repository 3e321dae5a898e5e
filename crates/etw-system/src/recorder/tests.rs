//! Tests of recordings whose rings a test fills.

use super::*;
use crate::neutral::{ProcessFacts, Stack};
use crate::perf::FakeRing;
use crate::perf::bpf::fake::{
    FakeProgramRing, lose_switches, of_switches as programs_of_switches, switch as program_switch,
};
use crate::perf::tests::{of_switches, switch, with_programs};
use crate::system_calls::FileOperation;

fn recorder(fake: &FakeRing) -> Recorder {
    recorder_of(fake, "cswitch")
}

fn opened(fake: &FakeRing) -> Opened {
    Opened {
        perf: of_switches(&[fake]),
        target: Target::Tree(0),
        cpus: vec![0],
        side_events: 1,
        has_kernel: true,
        notes: Vec::new(),
    }
}

pub(super) fn recorder_of(fake: &FakeRing, flags: &str) -> Recorder {
    let masks = Masks::parse(flags).unwrap().masks;
    let options =
        Options { masks, stacks: Vec::new(), sample_interval: 10_000, ..Options::default() };
    let opened = opened(fake);
    // The machine that runs the test has other CPUs.
    Recorder { next_look: u64::MAX, ..Recorder::with(opened, options) }
}

/// A recorder that continues with the ring of another one.
fn resumed(fake: &FakeRing, stored_until: i64) -> Recorder {
    resumed_on(fake, stored_until, vec![(0, stored_until)])
}

fn resumed_on(fake: &FakeRing, stored_until: i64, stored_on: Vec<(u16, i64)>) -> Recorder {
    let stored_until = Some(stored_until);
    let mut one = Recorder { stored_until, stored_on, ..recorder(fake) }.behind_others();
    one.begin().unwrap();
    one
}

/// Times and hooks of what a recorder has now; 0: a classic record, which is a loss.
fn taken(recorder: &mut Recorder) -> Vec<(i64, u16)> {
    recorder.poll();
    let mut all = Vec::new();
    while let Some(record) = recorder.peek() {
        let hook = record.hook().unwrap_or(0);
        if matches!(hook, 0 | CSWITCH) {
            all.push((record.time, hook));
        }
        recorder.pop();
    }
    all
}

/// OV-23: a record that a program in the kernel is writing keeps those behind it from being read, and so it keeps back the records of
/// the other rings.
#[test]
fn nothing_overtakes_a_record_that_is_being_written() {
    let (fake, ring) = (FakeRing::new(), FakeProgramRing::new());
    let mut recorder = recorder(&fake);
    recorder.perf = with_programs(&fake, programs_of_switches(&ring));
    assert_eq!(taken(&mut recorder), []);
    let start = now();
    // Much earlier than the watermark's usual distance.
    let since = start - 10 * DELAY;
    let slow = ring.begin(&program_switch(start + 100, 1, 1, 2));
    ring.complete(ring.begin(&program_switch(start + 200, 1, 2, 3)));
    fake.write(&switch(start + 300, 5, 6));
    fake.write(&switch(since, 4, 5));
    std::thread::sleep(Duration::from_nanos(2 * DELAY));
    assert_eq!(taken(&mut recorder), [((since / TICK) as i64, CSWITCH)]);
    assert!(recorder.watermark <= start, "the records behind are not known");
    ring.complete(slow);
    let ticks = [100, 200, 300].map(|time| ((start + time) / TICK) as i64);
    assert_eq!(taken(&mut recorder), ticks.map(|time| (time, CSWITCH)));
}

/// OV-23: a switch that the kernel left out while nobody read the ring is marked.
#[test]
fn a_switch_that_is_missing_at_a_takeover_is_marked() {
    let fake = FakeRing::new();
    let mut first = recorder(&fake);
    fake.write(&switch(1000, 1, 2));
    fake.write(&switch(2000, 2, 3));
    assert_eq!(taken(&mut first), [(10, CSWITCH), (20, CSWITCH)]);
    // All of it is stored: its memory goes back to the kernel.
    assert_eq!(taken(&mut first), []);
    drop(first);
    fake.write(&switch(3000, 5, 6));
    fake.write(&switch(4000, 6, 3));
    let mut second = resumed(&fake, 20);
    assert_eq!(taken(&mut second), [(30, 0), (30, CSWITCH), (40, CSWITCH)]);
    assert_eq!(second.take_losses().total(), 1);
}

/// OV-23: if the session takes no records, the recorder leaves them in the kernel's rings, and gives all of them later, in order.
#[test]
fn records_wait_in_the_rings_while_the_session_takes_none() {
    const ROOM: usize = 4 << 10;
    const SWITCHES: u64 = 500;
    let fake = FakeRing::new();
    let mut recorder = Recorder { room: ROOM, ..recorder(&fake) };
    (0..SWITCHES).for_each(|number| {
        fake.write(&switch(1000 * (number + 1), number as u32 + 1, number as u32 + 2));
    });
    for _ in 0..10 {
        // Records behind the watermark may still come.
        assert!(recorder.poll() < 1000 * SWITCHES);
        assert!((ROOM..ROOM + 512).contains(&recorder.out.size()), "{}", recorder.out.size());
    }
    assert_eq!((recorder.released.len(), fake.map().read_until()), (1, 0));
    let mut all = Vec::new();
    for _ in 0..SWITCHES {
        all.append(&mut taken(&mut recorder));
    }
    let expected = (1..=SWITCHES as i64).map(|number| (number * 10, CSWITCH));
    assert_eq!(all, expected.collect::<Vec<_>>());
    assert!(fake.map().read_until() > 0, "the kernel has its memory again");
    assert_eq!(recorder.take_losses().total(), 0);
}

/// OV-23: a switch that the kernel left out without a word is marked, and counts as lost.
#[test]
fn a_switch_that_is_missing_counts_as_lost() {
    let fake = FakeRing::new();
    let mut recorder = recorder(&fake);
    fake.write(&switch(1000, 1, 2));
    fake.write(&switch(2000, 2, 3));
    assert_eq!(taken(&mut recorder), [(10, CSWITCH), (20, CSWITCH)]);
    assert_eq!(recorder.take_losses().total(), 0);
    fake.write(&switch(3000, 5, 6));
    assert_eq!(taken(&mut recorder), [(30, 0), (30, CSWITCH)]);
    let class = Hook(CSWITCH).class_guid().unwrap();
    assert_eq!(recorder.take_losses().iter().collect::<Vec<_>>(), [(class, 1)]);
    assert_eq!(recorder.take_losses().total(), 0);
}

/// Regression: switches that the kernel had counted as lost were counted again where the trace shows that they are missing.
#[test]
fn a_switch_that_the_kernel_has_counted_is_not_counted_again_where_it_is_missing() {
    let (fake, ring) = (FakeRing::new(), FakeProgramRing::new());
    let mut recorder = recorder(&fake);
    recorder.perf = with_programs(&fake, programs_of_switches(&ring));
    recorder.target = Target::Machine;
    let add = |time, old, new| ring.complete(ring.begin(&program_switch(time, 1, old, new)));
    let mut counted = |losses: u64| {
        lose_switches(recorder.perf.programs().unwrap(), losses);
        taken(&mut recorder);
        let all = recorder.take_losses();
        assert_eq!(all.total(), all.of(class_of(CSWITCH)));
        all.total()
    };
    add(1000, 1, 2);
    assert_eq!(counted(0), 0);
    add(2000, 5, 6);
    assert_eq!(counted(3), 3, "one of them was missing");
    add(3000, 7, 8);
    add(4000, 9, 10);
    assert_eq!(counted(0), 0, "the two others may be these");
    add(5000, 1, 2);
    assert_eq!(counted(0), 1, "a fourth one is missing");
    add(6000, 2, 3);
    assert_eq!(counted(2), 1, "the other one may be the fourth");
}

/// Gives the shaper an event of the test's own.
fn give(recorder: &mut Recorder, (process, thread): (u32, u32), detail: Detail<'_>) {
    let Recorder { shaper, out, .. } = recorder;
    let turn = Turn { time: now(), cpu: 0, process, thread };
    Giver { shaper, out, turn }.event(detail);
}

/// The process and its only thread are in the rundown.
fn find_process(recorder: &mut Recorder, id: u32) {
    let facts = ProcessFacts { id, ..ProcessFacts::default() };
    give(recorder, (id, id), Detail::ProcessFound(&facts));
    let (process, thread, name, priority, affinity) = (id, id, &b""[..], 120, 0);
    let found = Detail::ThreadFound { process, thread, name, priority, affinity };
    give(recorder, (id, id), found);
}

/// Ids of the records of one kind that a recorder has now.
fn ids(recorder: &mut Recorder, hook: u16, at: usize) -> Vec<u32> {
    let mut all = Vec::new();
    recorder.give(i64::MAX, |record| {
        let id = etw_types::le::u32(record.payload, at);
        all.extend(id.filter(|_| record.hook() == Some(hook)));
        true
    });
    all
}

/// Regression: a process that ended on a CPU which had come online, and was not recorded yet, was listed as living at the end.
#[test]
fn a_process_that_ended_on_a_cpu_that_was_not_recorded_has_an_end() {
    const PROCESS_END: u16 = 0x0302;
    let fake = FakeRing::new();
    let mut recorder = recorder_of(&fake, "process");
    let children = [0; 3].map(|_| std::process::Command::new("sleep").arg("60").spawn().unwrap());
    let [mut ended, mut other, mut said] = children;
    for id in [ended.id(), other.id(), said.id(), std::process::id()] {
        find_process(&mut recorder, id);
    }
    recorder.follow_cpus(vec![]);
    for child in [&mut ended, &mut other, &mut said] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    recorder.follow_cpus(vec![0]);
    // The end of the third one has a record, which comes a little later.
    let mut all = Vec::new();
    for round in 0..100 {
        recorder.poll();
        if round == 0 {
            let (process, thread) = (said.id(), said.id());
            give(&mut recorder, (process, thread), Detail::Exit { process, thread });
        }
        all.extend(ids(&mut recorder, PROCESS_END, 8));
        if all.len() == 3 && round > 10 {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    all[1..].sort_unstable();
    assert_eq!(all, [said.id(), ended.id(), other.id()]);
    // One of them may be what was missing for certain.
    let losses = recorder.take_losses();
    let expected = [(SYSTEM_TRACE, 1), (class_of(PROCESS_START), 1)];
    assert_eq!(losses.total(), 2, "{losses:?}");
    assert!(expected.iter().all(|(class, count)| losses.of(*class) == *count), "{losses:?}");
}

/// Regression: open files had numbers that other ones had already, in the records of the recorder before.
#[test]
fn a_recorder_that_follows_another_one_has_other_numbers() {
    const CREATE: u16 = 0x0440;
    let fake = FakeRing::new();
    let opened = |mut recorder: Recorder| {
        let is_open = |number: &u64| {
            let operations = SystemCall::of_number(*number)
                .map(|call| call.file_operations().any(|(kind, _)| kind == FileOperation::Open));
            operations == Some(true)
        };
        let number = (0..500).find(is_open).unwrap();
        let (arguments, file) = ([0; 6], None);
        for _ in 0..3 {
            give(&mut recorder, (1, 1), Detail::SyscallEnter { number, arguments, file });
        }
        let mut all = Vec::new();
        recorder.give(i64::MAX, |record| {
            let number = |at| etw_types::le::u64(record.payload, at).unwrap();
            if record.hook() == Some(CREATE) {
                all.extend([number(0), number(8)]);
            }
            true
        });
        assert_eq!(all.len(), 6);
        all
    };
    let first = || recorder_of(&fake, "fileio");
    let mut in_place = first();
    in_place.begin_in_place().unwrap();
    let mut all = [first(), first().behind_others(), in_place].map(opened).concat();
    all.extend(opened(first().behind_others()));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

/// Regression: a user who may record the kernel, but not see its symbols, got bare addresses of his own command without a note.
#[test]
fn a_recording_of_one_command_says_that_the_kernel_has_no_names() {
    for (has_kernel, flags, is_noted) in
        [(true, "loader", true), (true, "cswitch", false), (false, "loader", false)]
    {
        let fake = FakeRing::new();
        let masks = Masks::parse(flags).unwrap().masks;
        let options = Options { masks, sample_interval: 10_000, ..Options::default() };
        let opened = Opened { has_kernel, ..opened(&fake) };
        // The kernel's symbols are hidden.
        let notes = Recorder::on(Machine::default(), opened, options).notes();
        let has_note = notes.iter().any(|note| note.contains("kernel.kptr_restrict"));
        assert_eq!(has_note, is_noted, "{has_kernel} {flags}: {notes:?}");
    }
}

/// Regression: what was missing in the records of a worker was no longer known when the recording ended with another one.
#[test]
fn a_recording_says_what_all_its_recorders_lacked() {
    let fake = FakeRing::new();
    let ends = |recorder: &mut Recorder, process: u32| {
        find_process(recorder, process);
        let facts = ExecFacts::default();
        give(recorder, (process, process), Detail::Exec { process, facts: &facts });
        give(recorder, (process, process), Detail::Exit { process, thread: process });
    };
    let has = |recorder: &Recorder, count: u64| {
        let start = format!("missing command lines: {count},");
        recorder.notes().iter().any(|note| note.starts_with(&start))
    };
    let mut first = recorder_of(&fake, "process");
    first.told = Some(Told::new().unwrap());
    ends(&mut first, 70);
    assert!(has(&first, 1));
    for _ in 0..2 {
        first.poll();
        first.give(i64::MAX, |_| true);
        std::thread::sleep(Duration::from_nanos(2 * DELAY));
    }
    first.poll();
    // This one has not been stored.
    ends(&mut first, 71);
    first.poll();
    assert!(has(&first, 2));
    let told = first.told.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
    drop(first);
    let mut second = recorder_of(&fake, "process");
    (second.told, second.stored_until) = (Some(Told::map(told).unwrap()), Some(0));
    second.begin().unwrap();
    assert!(has(&second, 1));
    ends(&mut second, 71);
    let mut third = recorder_of(&fake, "process");
    third.take_over(second.take_known());
    ends(&mut third, 72);
    assert!(has(&third, 3));
}

/// OV-23: a CPU that comes online has an idle thread from then on, and its chain of switches starts again.
#[test]
fn a_cpu_that_comes_online_begins_a_chain() {
    let fake = FakeRing::new();
    let mut recorder = recorder(&fake);
    recorder.target = Target::Machine;
    fake.write(&switch(1000, 1, 2));
    assert_eq!(taken(&mut recorder), [(10, CSWITCH)]);
    recorder.follow_cpus(vec![]);
    recorder.follow_cpus(vec![0]);
    let is_loss = recorder.peek().is_some_and(|record| record.hook().is_none());
    assert!(is_loss, "the CPU that was offline has no loss");
    while recorder.peek().is_some() {
        recorder.pop();
    }
    // Thread 2 may have left it unseen.
    fake.write(&switch(now(), 7, 8));
    recorder.perf.read(now());
    recorder.read_until(u64::MAX);
    assert_eq!(recorder.peek().and_then(|record| record.hook()), Some(CSWITCH));
    assert_eq!(recorder.known_cpus, [0]);
    recorder.follow_cpus(vec![0, 3]);
    assert_eq!(recorder.known_cpus, [0, 3]);
}

#[test]
fn a_chain_that_is_whole_at_a_takeover_has_no_loss() {
    let fake = FakeRing::new();
    let mut first = recorder(&fake);
    fake.write(&switch(1000, 1, 2));
    fake.write(&switch(2000, 2, 3));
    taken(&mut first);
    taken(&mut first);
    drop(first);
    fake.write(&switch(3000, 3, 6));
    let second = resumed(&fake, 20);
    // It is killed before it has stored anything but its rundown.
    let rundown = second.peek().unwrap().time;
    assert_eq!(rundown, 20);
    drop(second);
    assert_eq!(taken(&mut resumed(&fake, rundown)), [(30, CSWITCH)]);
}

#[test]
fn a_takeover_without_the_last_switch_is_a_loss() {
    let fake = FakeRing::new();
    fake.write(&switch(3000, 3, 6));
    assert_eq!(taken(&mut resumed(&fake, 20)), [(30, 0), (30, CSWITCH)]);
}

/// P2: of records of several CPUs with one time, a killed worker may have stored the first ones only.
#[test]
fn a_switch_at_the_time_of_the_last_stored_record_is_stored_taken_or_a_loss() {
    let of = |stored_on: &[(u16, i64)]| {
        let fake = FakeRing::new();
        fake.write(&switch(2000, 1, 2));
        fake.write(&switch(3000, 2, 3));
        taken(&mut resumed_on(&fake, 20, stored_on.to_vec()))
    };
    let both = [(20, 0), (20, CSWITCH), (30, CSWITCH)];
    assert_eq!(of(&[(0, 20), (1, 19)]), both[2..]);
    // The switch before is an earlier one, which was not read here.
    assert_eq!(of(&[(0, 19), (1, 20)]), both);
    // It is not known whether the first one is stored.
    assert_eq!(of(&[(1, 20)]), [(30, 0), (30, CSWITCH)]);
}

/// OV-23: who may record frames of the kernel, but not the machine, has the kernel's image, too, if the kernel shows where it lies.
#[test]
fn a_recording_of_one_command_knows_the_kernel() {
    let masks = Masks::parse("profile+img").unwrap().masks;
    let bases = |images: Vec<std::sync::Arc<crate::neutral::Image>>| {
        images.iter().map(|one| one.base).collect::<Vec<_>>()
    };
    // Programs in the kernel, which others load and unload meanwhile, are in the list.
    let looks = (0..100).map(|_| {
        let shown = bases(KernelSymbols::read().images);
        (bases(machine(Target::Tree(1), &[0], &masks).images), shown)
    });
    let mut last = None;
    for (found, shown) in looks {
        if shown.is_empty() {
            return eprintln!("left out: the kernel does not show where it lies");
        }
        if found == shown {
            return;
        }
        last = Some((found, shown));
    }
    panic!("found and shown: {last:?}");
}

/// Regression: where one command is recorded, only its first process had counters, and that has mostly ended with the recording.
#[test]
fn each_process_that_lives_at_the_end_has_counters() {
    let fake = FakeRing::new();
    let mut recorder = recorder_of(&fake, "process,proccntr");
    let turn = this_turn();
    let facts = ProcessFacts { id: std::process::id(), ..ProcessFacts::default() };
    let Recorder { shaper, out, .. } = &mut recorder;
    Giver { shaper, out, turn }.event(Detail::ProcessFound(&facts));
    recorder.finish();
    let mut counted = Vec::new();
    recorder.give(i64::MAX, |record| {
        let process = record.payload.first_chunk().map(|id| u32::from_le_bytes(*id));
        counted.extend(process.filter(|_| record.hook() == Some(0x0321)));
        true
    });
    assert_eq!(counted, [facts.id]);
}

/// Regression: a process whose exit status came behind its end had the status 0, and nothing said so. `/proc` has it until somebody waits.
#[test]
fn an_end_has_the_exit_status_that_comes_late_or_the_recording_says_so() {
    const PROCESS_END: u16 = 0x0302;
    const STATUS: usize = 20;
    let fake = FakeRing::new();
    let mut recorder = recorder_of(&fake, "process");
    let mut child = std::process::Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
    let id = child.id();
    while process_files::exit_status(id).is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let missing = |recorder: &Recorder| {
        let notes = recorder.notes();
        notes.iter().filter(|note| note.starts_with("missing exit statuses: 1,")).count()
    };
    for (source, look, status, count) in [
        (StatusSource::Nowhere, false, 0, 0),
        (StatusSource::Connector, true, 7, 0),
        (StatusSource::Connector, false, 0, 1),
    ] {
        recorder.shaper.expect_exit_statuses(source);
        find_process(&mut recorder, id);
        let detail = Detail::Exit { process: id, thread: id };
        assert_eq!(recorder.shaper.lacks_exit_status(id, id, now()), count + status > 0);
        if look {
            let (stack, detail) = (Stack::default(), PerfDetail::Neutral(detail));
            let (time, cpu, process, thread) = (now(), 0, id, id);
            let said = Parsed { time, cpu, process, thread, stack, user: None, detail };
            let Recorder { shaper, out, exit_statuses, .. } = &mut recorder;
            find_exit_status(exit_statuses, &said, (id, id), shaper, out);
            assert!(!recorder.shaper.lacks_exit_status(id, id, time));
        }
        give(&mut recorder, (id, id), detail);
        assert_eq!(ids(&mut recorder, PROCESS_END, STATUS), [status], "{source:?}");
        assert_eq!(missing(&recorder) as u32, count);
    }
    child.wait().unwrap();
}
