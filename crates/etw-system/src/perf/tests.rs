//! Tests of rings that a test fills.

use std::ops::ControlFlow;

use super::release::LARGEST_TAIL;
use super::*;
use crate::neutral::{Detail, NeutralEvent};

fn release(perf: &mut Perf, until: u64, mut give: impl FnMut(&Parsed<'_>)) {
    perf.release(until, |given| {
        match given {
            Given::Other(parsed) => give(parsed),
            Given::Switch(&NeutralEvent { time, cpu, process, thread, stack, detail }) => {
                let detail = PerfDetail::Neutral(detail);
                give(&Parsed { time, cpu, process, thread, stack, user: None, detail });
            }
        }
        ControlFlow::Continue(())
    });
}

/// The number of the event of [`of_switches`].
const SWITCHES: u64 = 7;

/// Rings of files in memory, with switches only.
pub(crate) fn of_switches(fakes: &[&FakeRing]) -> Perf {
    let description = "\tfield:int prev_pid;\toffset:0;\tsize:4;\tsigned:1;\n\tfield:int next_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
    let layout = Layout::parse(description, Tracepoint::Switch.fields());
    let kind = Kind::Tracepoint { point: Tracepoint::Switch, layout, has_stack: false };
    Perf {
        rings: fakes.iter().map(|fake| fake.map()).collect(),
        kinds: HashMap::from_iter([(SWITCHES, kind)]),
        ..Perf::default()
    }
}

/// The sample of a switch on CPU 0.
pub(crate) fn switch(time: u64, old: u32, new: u32) -> Vec<u8> {
    let mut record = Vec::new();
    for word in [sample::SAMPLE, 64 << 16] {
        record.extend(u32::to_le_bytes(word));
    }
    for word in [SWITCHES, u64::from(old) << 32 | u64::from(old), time] {
        record.extend(u64::to_le_bytes(word));
    }
    for word in [8, old, new, 0, 0, 0, 0, 0] {
        record.extend(u32::to_le_bytes(word));
    }
    record
}

/// Rings of programs and of perf, with switches only.
pub(crate) fn with_programs(fake: &FakeRing, programs: Programs) -> Perf {
    Perf { programs: Some(programs), ..of_switches(&[fake]) }
}

/// OV-23: a recording that ends while threads begin has the beginning of each one that it shows.
#[test]
fn the_records_of_processes_and_threads_end_last() {
    let events = (0..7).map(|_| {
        let file = std::fs::File::open("/dev/null").unwrap();
        Event::from(OwnedFd::from(file))
    });
    let events: Vec<Event> = events.collect();
    let numbers: Vec<_> = events.iter().map(Event::raw).collect();
    // Two CPUs, and one that came later.
    let ring_uses = [(0..1, true), (1..2, true), (2..4, false), (4..5, false)];
    let later = [(5..6, true), (6..7, false)];
    let ring_uses = ring_uses.into_iter().chain(later).map(|(events, is_side)| RingUse {
        events,
        place: RingPlace { cpu: 0, is_offline: false, is_side },
    });
    let perf = Perf { ring_uses: ring_uses.collect(), events, ..Perf::default() };
    let (before, behind) = perf.in_order_of_end();
    let order = |events: &mut dyn Iterator<Item = &Event>| {
        let at = |one: &Event| numbers.iter().position(|raw| *raw == one.raw()).unwrap();
        events.map(at).collect::<Vec<usize>>()
    };
    assert_eq!(order(&mut { before }), [2, 3, 4, 6]);
    assert_eq!(order(&mut { behind }), [0, 1, 5]);
}

#[test]
fn the_last_switch_stays_in_its_ring() {
    let fake = FakeRing::new();
    let mut perf = of_switches(&[&fake]);
    for (time, old, new) in [(100, 1, 2), (200, 2, 3), (300, 3, 4)] {
        fake.write(&switch(time, old, new));
    }
    perf.read(0);
    release(&mut perf, 250, |_| {});
    assert_eq!(
        perf.released().rings,
        [64],
        "the third one waits, the second one is the last switch"
    );
    release(&mut perf, u64::MAX, |_| {});
    assert_eq!(perf.released().rings, [128]);
    perf.commit(&perf.released());
    assert_eq!(fake.map().read_until(), 128);
}

/// Events of samples that differ only in the bytes of stacks: those with the chosen size record.
#[cfg(feature = "unwind")]
#[test]
fn samples_come_from_the_event_with_the_chosen_size() {
    let sample = |size| {
        let attribute = Attribute::samples(1_000_000).with_stack(true).with_user_state(size);
        let one = Wanted::from((attribute, Kind::Sample { has_stack: true }));
        Wanted { has_sizes: true, ..one }
    };
    let mut perf = Perf::default();
    let wanted = [sample(2048), sample(4096)];
    if let Err(error) = perf.open(&wanted, Target::Machine, &[0], RingSize(64 << 10)) {
        return eprintln!("left out: the kernel gives no samples of the machine ({error})");
    }
    perf.begin_with_stack_size(4096);
    perf.enable(..).unwrap();
    // The count of such an event is the time for which it recorded.
    let times = |perf: &Perf| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        [0, 1].map(|event: usize| perf.events[event].counts().map_or(0, |counts| counts.all))
    };
    let [small, large] = times(&perf);
    assert!(small == 0 && large > 0, "{small} {large}");
    perf.choose_stack_size(2048).unwrap();
    let (before, after) = (times(&perf), times(&perf));
    assert!(after[0] > before[0] && after[1] == before[1], "{before:?} {after:?}");
    perf.disable();
    perf.enable(1..).unwrap();
    assert_eq!(times(&perf)[1], after[1], "one that is not chosen does not begin");
}

#[test]
fn a_record_that_wraps_around_the_end_of_its_ring_is_whole() {
    let fake = FakeRing::new();
    let mut perf = of_switches(&[&fake]);
    // Records of no event, until eight bytes are left.
    let filler = |size: usize| {
        let header = [9u32.to_le_bytes(), ((size as u32) << 16).to_le_bytes()].concat();
        [header, vec![0; size - 8]].concat()
    };
    for _ in 0..FakeRing::SIZE / 1024 - 1 {
        fake.write(&filler(1024));
    }
    fake.write(&filler(1016));
    perf.read(0);
    release(&mut perf, u64::MAX, |_| {});
    perf.commit(&perf.released());
    fake.write(&switch(100, 1, 2));
    fake.write(&switch(200, 2, 3));
    perf.read(0);
    let mut found = Vec::new();
    release(&mut perf, u64::MAX, |parsed| {
        if let PerfDetail::Neutral(Detail::Switch { old, new }) = parsed.detail {
            found.push((parsed.time, old.thread, new.thread));
        }
    });
    assert_eq!(found, [(100, 1, 2), (200, 2, 3)]);
}

/// OV-23: positions that were released before a CPU came are those of the rings from before.
#[test]
fn a_ring_that_is_added_later_moves_no_position() {
    let (first, second) = (FakeRing::new(), FakeRing::new());
    let mut perf = of_switches(&[&first]);
    first.write(&switch(100, 1, 2));
    first.write(&switch(200, 2, 3));
    perf.read(0);
    release(&mut perf, u64::MAX, |_| {});
    let released = perf.released();
    perf.rings.push(second.map());
    second.write(&switch(300, 1, 2));
    perf.read(0);
    perf.commit(&released);
    assert_eq!((first.map().read_until(), second.map().read_until()), (64, 0));
    let mut times = Vec::new();
    release(&mut perf, u64::MAX, |parsed| times.push(parsed.time));
    assert_eq!(times, [300]);
}

#[test]
fn a_cpu_that_does_not_switch_does_not_fill_its_ring() {
    let fake = FakeRing::new();
    let mut perf = of_switches(&[&fake]);
    fake.write(&switch(100, 1, 2));
    // Records of no event.
    let other =
        [&[9u32.to_le_bytes(), (64u32 << 16).to_le_bytes()].concat()[..], &[0; 56]].concat();
    for _ in 0..FakeRing::SIZE / LARGEST_TAIL / 64 {
        fake.write(&other);
    }
    perf.read(0);
    release(&mut perf, u64::MAX, |_| {});
    assert_eq!(perf.released().rings, [(FakeRing::SIZE / LARGEST_TAIL + 64) as u64]);
}

/// The record of a loss on CPU 0.
fn loss(time: u64, count: u64) -> Vec<u8> {
    let mut record = [2u32, 48 << 16].map(u32::to_le_bytes).concat();
    for word in [SWITCHES, count, 0, time, SWITCHES] {
        record.extend(u64::to_le_bytes(word));
    }
    record
}

/// OV-23: records are missing between a loss and the record before it in its ring.
#[test]
fn gaps_lie_among_the_records_of_all_rings() {
    let (fake, other) = (FakeRing::new(), FakeRing::new());
    let mut perf = of_switches(&[&fake, &other]);
    fake.write(&switch(100, 1, 2));
    perf.read(0);
    fake.write(&loss(200, 3));
    fake.write(&switch(250, 1, 2));
    other.write(&switch(99, 5, 6));
    other.write(&switch(150, 6, 5));
    perf.read(0);
    let mut found = Vec::new();
    release(&mut perf, u64::MAX, |parsed| {
        let what = match parsed.detail {
            PerfDetail::Neutral(Detail::GapBegin) => "begin",
            PerfDetail::Neutral(Detail::GapEnd) => "end",
            PerfDetail::Neutral(Detail::Lost { .. }) => "lost",
            _ => "switch",
        };
        found.push((parsed.time, what));
    });
    let expected = [
        (99, "switch"),
        (100, "switch"),
        (100, "begin"),
        (150, "switch"),
        (200, "lost"),
        (200, "end"),
        (250, "switch"),
    ];
    assert_eq!(found, expected);
    assert_eq!(perf.take_gaps(), [Gap { from: 100, until: 200 }]);
    assert!(perf.take_gaps().is_empty());
}
