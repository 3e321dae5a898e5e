//! Records of the kernel's perf rings, and the shaper behind them.

use std::sync::Arc;

use etw_system::flags::{Flag, Masks};
use etw_system::neutral::{
    CalledFile, Detail, ExecFacts, FileId, Image, NeutralEvent, ProcessFacts, Stack,
};
use etw_system::perf::{Kind, Layout, PerfDetail, RecordRing, Scratch, Tracepoint, parse};
use etw_system::record::Records;
use etw_system::{Machine, Options, Shaper, Turn};

/// The description of a tracepoint whose fields follow each other, eight bytes each.
fn layout(point: Tracepoint) -> Layout {
    let line = |(number, name): (usize, &&str)| {
        format!("\tfield:long {name};\toffset:{};\tsize:8;\tsigned:1;\n", 8 + number * 8)
    };
    let fields: String = point.fields().iter().enumerate().map(line).collect();
    let states = "print fmt: \"x\", { 0x0001, \"S\" }, { 0x0010, \"X\" }\n";
    Layout::parse(&(fields + states), point.fields())
}

fn shaper() -> Shaper {
    let mut masks = Masks::default();
    Flag::ALL.iter().for_each(|flag| masks.set(*flag));
    let stacks = vec![0x0f2e, 0x0524, 0x0532, 0x0220, 0x010c, 0x0f33];
    Shaper::new(
        Options { masks, stacks, sample_interval: 1, ..Options::default() },
        Machine::default(),
    )
}

/// A ring of records, as the kernel fills it. Times of the output never go back, and each beginning has an end.
pub fn ring(data: &[u8]) {
    let mut kinds = vec![
        Kind::Side,
        Kind::Sample { has_stack: true },
        Kind::Fault { is_hard: true, has_stack: false },
    ];
    // The events of tracepoints have the numbers from 3 on.
    kinds.extend(Tracepoint::ALL.iter().map(|point| {
        if *point == Tracepoint::Exec {
            return Kind::Exec { layout: layout(*point) };
        }
        let has_stack = *point == Tracepoint::Switch;
        Kind::Tracepoint { point: *point, layout: layout(*point), has_stack }
    }));
    kinds.push(Kind::Leaving);
    let (mut shaper, mut out) = (shaper(), Records::default());
    let mut scratch = Scratch::default();
    let mut last = 0;
    let idle = ProcessFacts::default();
    let first = NeutralEvent {
        time: 0,
        cpu: 0,
        process: 0,
        thread: 0,
        stack: Stack::default(),
        detail: Detail::ProcessFound(&idle),
    };
    shaper.take(&first, &mut out);
    shaper.take(&NeutralEvent { detail: Detail::AllFound, ..first }, &mut out);
    let mut rest = data;
    while rest.len() >= 8 {
        let size = usize::from(u16::from_le_bytes([rest[6], rest[7]]));
        if size < 8 || size > rest.len() {
            break;
        }
        let record;
        (record, rest) = rest.split_at(size);
        let kind_of = |id: u64| kinds.get(usize::try_from(id).ok()?);
        // The kernel does not use these bits of `misc`.
        let ring = match u16::from(record[5] & 0xf) {
            0xf => RecordRing::OfPrograms,
            cpu => RecordRing::OfCpu(cpu),
        };
        let Some(parsed) = parse(ring, record, kind_of, &mut scratch) else { continue };
        // A source gives events in order of time.
        last = parsed.time.max(last);
        let give = |detail, shaper: &mut Shaper, out: &mut Records| {
            shaper.take(&NeutralEvent { time: last, ..parsed.event(detail) }, out);
        };
        match parsed.detail {
            PerfDetail::Neutral(Detail::SyscallEnter { number, arguments, .. }) => {
                // Any bytes are paths.
                let (first, second) = record.split_at(record.len() / 2);
                let id = (record.len() % 2 == 0).then(FileId::default);
                let paths = [first.to_vec(), second.to_vec()];
                let file = CalledFile {
                    paths,
                    id,
                    buffer_bytes: Some(number),
                    flags: Some(number),
                    is_made: number & 1 == 1,
                };
                let detail = Detail::SyscallEnter { number, arguments, file: Some(&file) };
                give(detail, &mut shaper, &mut out);
            }
            PerfDetail::Neutral(detail) => give(detail, &mut shaper, &mut out),
            PerfDetail::Exec { process, name } => {
                let facts = ExecFacts { name: name.to_vec(), ..ExecFacts::default() };
                give(Detail::Exec { process, facts: &facts }, &mut shaper, &mut out);
            }
            PerfDetail::Program(program) => {
                let arguments = program.arguments().unwrap_or_default();
                let exec = ExecFacts { arguments, ..ExecFacts::default() };
                let detail = Detail::ProgramFound { process: program.process, facts: &exec };
                give(detail, &mut shaper, &mut out);
            }
            PerfDetail::Map(mapping) => {
                let image = Arc::new(Image {
                    base: mapping.address,
                    size: mapping.size,
                    default_base: mapping.offset,
                    path: mapping.path.to_vec(),
                    build_id: mapping.build_id.to_vec(),
                    file: mapping.file,
                    entry: 0,
                    is_32_bit: mapping.offset == 1,
                    is_part: mapping.offset == 2,
                    code: mapping.address..mapping.address.saturating_add(mapping.size),
                });
                let detail = Detail::Map { process: mapping.process, image: &image };
                give(detail, &mut shaper, &mut out);
            }
        }
    }
    shaper.finish(Turn { time: last, cpu: 0, process: 1, thread: 1 }, &mut out);
    check(&mut out);
}

fn check(out: &mut Records) {
    let (mut time, mut processes, mut images) = (0, 0i64, 0i64);
    while let Some(record) = out.peek() {
        assert!(record.time >= time, "time goes back");
        time = record.time;
        match record.hook() {
            Some(0x0301 | 0x0303) => processes += 1,
            Some(0x0302 | 0x0304) => processes -= 1,
            Some(0x030a | 0x1403) => images += 1,
            Some(0x1402 | 0x1404) => images -= 1,
            _ => {}
        }
        out.pop();
    }
    assert_eq!((processes, images), (0, 0), "a beginning without an end");
}
