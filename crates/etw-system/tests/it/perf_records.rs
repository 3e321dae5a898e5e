//! Records of perf rings: damage is refused, and nothing that is read goes beyond the record.
#![cfg(target_os = "linux")]

use etw_system::neutral::{Detail, ThreadState};
use etw_system::perf::{Kind, Layout, PerfDetail, RecordRing, Scratch, Tracepoint, parse};

const RING: RecordRing = RecordRing::OfCpu(1);

pub fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(kind.to_le_bytes());
    bytes.extend(misc.to_le_bytes());
    bytes.extend(((8 + body.len()) as u16).to_le_bytes());
    bytes.extend(body);
    bytes
}

pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_fork_is_read_with_its_trailer() {
    // pid, ppid, tid, ptid, time; trailer: pid, tid, time, identifier
    let body = words(&[60, 50, 61, 51, 0, 0, 50, 51, 999, 0, 7, 0]);
    let bytes = record(7, 0, &body);
    let mut scratch = Scratch::default();
    let parsed = parse(RING, &bytes, |_| None, &mut scratch).unwrap();
    assert_eq!((parsed.time, parsed.cpu, parsed.process, parsed.thread), (999, 1, 50, 51));
    let PerfDetail::Neutral(Detail::Fork { process: 60, parent_process: 50, thread: 61, .. }) =
        parsed.detail
    else {
        panic!("{parsed:?}");
    };
}

#[test]
fn a_call_chain_is_divided_at_its_markers() {
    const KERNEL: u64 = 0xffff_ffff_8100_0000;
    let [in_kernel, in_program] = [-128i64, -512].map(|marker| marker as u64);
    let kinds = Kind::Sample { has_stack: true };
    let stack = |frames: &[u64]| {
        // identifier, pid and tid, time, chain
        let head = [7u64, 50 | 51 << 32, 999, frames.len() as u64];
        let words = head.iter().chain(frames).flat_map(|word| word.to_le_bytes());
        let bytes = record(9, 0, &words.collect::<Vec<u8>>());
        let mut scratch = Scratch::default();
        let stack = parse(RING, &bytes, |_| Some(&kinds), &mut scratch).unwrap().stack;
        (stack.kernel.to_vec(), stack.user.to_vec())
    };
    let whole = stack(&[in_kernel, KERNEL, in_program, 0x4010, 0x4020]);
    assert_eq!(whole, (vec![KERNEL], vec![0x4010, 0x4020]));
    // Words of the program's stack that are no addresses of its own code.
    for word in [KERNEL, in_kernel, in_program, 0x6c65_6e72_656b_2f73, 0xffff_207a_0044_ffff, 7] {
        let cut = stack(&[in_kernel, KERNEL, in_program, 0x4010, 0x4020, word, KERNEL, 0x4030]);
        assert_eq!(cut, whole, "{word:#x}");
    }
}

/// The address of a sample or a fault is the first frame, also where stacks are not wanted.
#[test]
fn an_address_is_the_first_frame() {
    const KERNEL: u64 = 0xffff_ffff_8100_0000;
    let [in_kernel, in_program] = [-128i64, -512].map(|marker| marker as u64);
    let parsed = |has_stack: bool, frames: &[u64]| {
        let mut scratch = Scratch::default();
        let mut of = |kind: Kind, before: &[u64]| {
            let head = [&[7, 50 | 51 << 32, 999], before, &[frames.len() as u64], frames].concat();
            let bytes = head.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
            let record = record(9, 0, &bytes);
            let parsed = parse(RING, &record, |_| Some(&kind), &mut scratch).unwrap();
            assert_eq!((parsed.time, parsed.cpu, parsed.thread), (999, 1, 51));
            let count = parsed.stack.kernel.len() + parsed.stack.user.len();
            let PerfDetail::Neutral(detail) = parsed.detail else { panic!("{parsed:?}") };
            match detail {
                Detail::Sample { address } => (address, None, count),
                Detail::Fault { address, program_counter, .. } => {
                    (program_counter, Some(address), count)
                }
                other => panic!("{other:?}"),
            }
        };
        let sample = of(Kind::Sample { has_stack }, &[]);
        let fault = of(Kind::Fault { is_hard: false, has_stack }, &[0x7000]);
        assert_eq!((fault.0, fault.1, fault.2), (sample.0, Some(0x7000), sample.2));
        (sample.0, sample.2)
    };
    assert_eq!(parsed(false, &[in_program, 0x4010]), (0x4010, 0));
    assert_eq!(parsed(false, &[in_kernel, KERNEL]), (KERNEL, 0));
    assert_eq!(parsed(true, &[in_kernel, KERNEL, in_program, 0x4010]), (KERNEL, 2));
    assert_eq!(parsed(true, &[in_program, 0x4010, 0x4020]), (0x4010, 2));
    // A guest of a virtual machine.
    assert_eq!(parsed(false, &[]), (0, 0));
}

/// OV-23: switches of a CPU without tracepoints name the threads of both sides, in each of their two records.
#[test]
fn a_switch_of_a_cpu_names_both_threads() {
    const OUT: u16 = 0x2000;
    const PREEMPTED: u16 = 0x4000;
    // The other side's process and thread; process, thread, time, identifier.
    let body = words(&[70, 71, 50, 51, 1000, 0, 0, 0]);
    let mut scratch = Scratch::default();
    let bytes = record(15, 0, &body);
    let into = parse(RING, &bytes, |_| None, &mut scratch).unwrap();
    let PerfDetail::Neutral(Detail::SwitchedFrom { thread }) = into.detail else { panic!() };
    assert_eq!((into.thread, thread), (51, 71));
    for (misc, expected) in [(OUT, ThreadState::Waiting), (OUT | PREEMPTED, ThreadState::Preempted)]
    {
        let bytes = record(15, misc, &body);
        let parsed = parse(RING, &bytes, |_| None, &mut scratch).unwrap();
        let PerfDetail::Neutral(Detail::Switch { old, new }) = parsed.detail else {
            panic!("{parsed:?}")
        };
        assert_eq!((old.thread, old.state, new.thread, parsed.cpu), (51, expected, 71, 1));
    }
}

#[test]
fn a_record_may_be_cut_anywhere() {
    let layout = Layout::parse(
        "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n",
        Tracepoint::Waking.fields(),
    );
    let kinds = [
        Kind::Side,
        Kind::Sample { has_stack: true },
        Kind::Fault { is_hard: true, has_stack: true },
        Kind::Tracepoint { point: Tracepoint::Waking, layout, has_stack: true },
    ];
    let mut seed = 1u64;
    for round in 0..20_000u32 {
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as u32
        };
        let size = (next() % 200) as usize;
        let body: Vec<u8> =
            (0..size).map(|_| if next() % 3 == 0 { next() as u8 } else { 0 }).collect();
        let bytes = record(1 + round % 16, (next() % 4 * 0x2000) as u16, &body);
        let kind = &kinds[next() as usize % kinds.len()];
        let mut scratch = Scratch::default();
        // It may say anything, but must not panic.
        let _ = parse(RING, &bytes, |_| Some(kind), &mut scratch);
    }
}
