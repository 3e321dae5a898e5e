//! Images of a process: which ones its mappings add, and which ones they take the place of. OV-23.

use std::ops::Range;
use std::sync::Arc;

use etw_system::neutral::{Detail, ExecFacts, Image, ProcessFacts};
use etw_system::record::RecordKind;
use etw_system::system_calls::SystemCall;
use etw_types::{Classic, ClassicHeader};

use crate::invariants::Taken;
use crate::shaper::{Machinery, fork, number, of};

const BASE: u64 = 0x40_0000;
/// The code of [`program`].
const CODE: Range<u64> = BASE + 0x1000..BASE + 0x3000;

/// A file that was loaded, with variables behind its code.
fn loaded(base: u64, path: &str) -> Image {
    let (size, path) = (0x8000, path.as_bytes().to_vec());
    let code = base + 0x1000..base + 0x3000;
    Image { base, size, path, build_id: vec![1; 20], code, ..Image::default() }
}

/// A mapping alone.
fn mapping(range: Range<u64>, path: &str) -> Image {
    let (base, size) = (range.start, range.end - range.start);
    let is_part = !path.starts_with("//");
    let (default_base, path) = (if is_part { 0x7000 } else { 0 }, path.as_bytes().to_vec());
    Image { base, size, default_base, path, is_part, code: range, ..Image::default() }
}

/// Maps images in process 50, one every ten microseconds. Returns the ranges and names of loads (`true`) and unloads before the end.
fn changes(images: impl IntoIterator<Item = Image>) -> Vec<(bool, Range<u64>, String)> {
    let mut machine = Machinery::new();
    for (step, image) in images.into_iter().enumerate() {
        let time = 10 * (step as u64 + 1);
        machine.at(time, 0, 50, Detail::Map { process: 50, image: &Arc::new(image) });
    }
    let records = machine.end();
    records.iter().filter(|one| [0x030a, 0x1402].contains(&one.hook)).map(change).collect()
}

fn change(one: &Taken) -> (bool, Range<u64>, String) {
    let units =
        one.payload[56..].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let name = char::decode_utf16(units.take_while(|unit| *unit != 0)).map(|one| one.unwrap());
    (one.hook == 0x030a, one.u64(0)..one.u64(0) + one.u64(8), name.collect())
}

fn load(range: Range<u64>, name: &str) -> (bool, Range<u64>, String) {
    (true, range, name.to_owned())
}

fn unload(range: Range<u64>, name: &str) -> (bool, Range<u64>, String) {
    (false, range, name.to_owned())
}

/// Code in a program's own variables, or over a part of its code, leaves the program.
#[test]
fn memory_inside_of_an_image_that_becomes_executable_is_that_image_s() {
    let program = loaded(BASE, "/program");
    let whole = program.range();
    let variables = whole.end - 0x2000..whole.end - 0x1000;
    let code = CODE.start..CODE.start + 0x1000;
    let both = whole.end - 0x1000..whole.end + 0x2000;
    let all = [
        program,
        mapping(variables.clone(), "//anon"),
        mapping(code, "//anon"),
        mapping(variables, "//anon"),
        // The memory behind the program has become executable together with its own.
        mapping(both.clone(), "//anon"),
        // The last of its code is covered.
        mapping(CODE.start + 0x1000..CODE.end, "/data"),
    ];
    let expected = [
        load(whole.clone(), "/program"),
        load(whole.end..both.end, "//anon"),
        unload(whole, "/program"),
        load(CODE.start + 0x1000..CODE.end, "/data"),
    ];
    assert_eq!(changes(all), expected);
}

/// A file that is loaded takes the place of all that was there; of memory without a file, only what it covers.
#[test]
fn a_file_that_is_loaded_takes_the_place_of_others() {
    let first = loaded(BASE, "/lib/first.so");
    let second = loaded(BASE + 0x4000, "/lib/second.so");
    let heap = mapping(second.range().end - 0x1000..second.range().end + 0x1000, "//anon");
    let [one, two, rest] =
        [first.range(), second.range(), second.range().end..second.range().end + 0x1000];
    let heap_range = heap.range();
    let expected = [
        load(one.clone(), "/lib/first.so"),
        load(heap_range.clone(), "//anon"),
        unload(heap_range, "//anon"),
        unload(one, "/lib/first.so"),
        load(rest, "//anon"),
        load(two, "/lib/second.so"),
    ];
    assert_eq!(changes([first, heap, second]), expected);
}

/// More of the code of a file that is known, such as a page whose access changes, adds nothing.
#[test]
fn further_code_of_an_image_is_known_with_it() {
    let first = loaded(BASE, "/lib/first.so");
    let behind = BASE + 0x5000..BASE + 0x6000;
    let further = Image { code: behind.clone(), ..first.clone() };
    let whole = first.range();
    // Its first code is covered, and it still has some.
    let rest = CODE.end..behind.end;
    let all = [first, further, mapping(CODE, "//anon"), mapping(rest.clone(), "//anon")];
    let expected = [
        load(whole.clone(), "/lib/first.so"),
        unload(whole, "/lib/first.so"),
        load(rest, "//anon"),
    ];
    assert_eq!(changes(all), expected);
}

/// Code that is compiled at run time comes page by page, and its access changes again and again.
#[test]
fn memory_that_grows_keeps_its_images() {
    let at = |range: Range<u64>| mapping(BASE + range.start..BASE + range.end, "//anon");
    let all = [at(0..0x2000), at(0x1000..0x2000), at(0..0x4000), at(0x1000..0x3000)];
    let expected =
        [load(BASE..BASE + 0x2000, "//anon"), load(BASE + 0x2000..BASE + 0x4000, "//anon")];
    assert_eq!(changes(all), expected);
}

/// A part of a file has its place in the file, and no build id by which debuggers would take its base for the file's.
#[test]
fn a_part_of_a_file_has_its_place_there() {
    let mut machine = Machinery::new();
    let part = Image { build_id: vec![1; 20], ..mapping(CODE, "/lib/first.so") };
    machine.at(10, 0, 50, Detail::Map { process: 50, image: &Arc::new(part) });
    let over = loaded(CODE.start + 0x1000, "/lib/second.so");
    machine.at(20, 0, 50, Detail::Map { process: 50, image: &Arc::new(over.clone()) });
    machine.at(30, 0, 50, Detail::Unmap { process: 50, base: over.base });
    machine.at(40, 0, 50, Detail::Unmap { process: 50, base: over.base });
    let records = machine.end();
    let found: Vec<_> = of(&records, 0x030a).iter().map(|one| (one.u64(0), one.u64(32))).collect();
    assert_eq!(found, [(CODE.start, 0x7000), (CODE.start, 0x7000), (over.base, 0)]);
    let build_ids = records.iter().filter(|one| match one.kind {
        RecordKind::Kernel(Classic { header: ClassicHeader::Trace(class), .. }) => class.kind == 36,
        _ => false,
    });
    assert_eq!(build_ids.map(|one| one.u64(0)).collect::<Vec<_>>(), [over.base]);
    let ends: Vec<u64> = of(&records, 0x1402).iter().map(|one| one.u64(0)).collect();
    assert_eq!(ends, [CODE.start, over.base]);
}

/// The name of a process's program at its end, if nobody could read it. `is_executed`: it executes the program while it is recorded.
fn name_at_end(is_executed: bool, is_behind_loss: bool) -> String {
    let mut machine = Machinery::new();
    machine.at(10, 0, 50, fork(60, 50));
    let exec = ExecFacts { name: b"short".to_vec(), ..ExecFacts::default() };
    let found = ProcessFacts { id: 61, ..ProcessFacts::default() };
    machine.at(20, 0, 50, Detail::ProcessFound(&found));
    machine.at(20, 0, 60, Detail::Exec { process: 60, facts: &exec });
    if is_behind_loss {
        machine.at(25, 0, 0, Detail::Lost { count: 1 });
    }
    let process = if is_executed { 60 } else { 61 };
    for (time, name) in [(30, "/usr/bin/some"), (40, "/lib/libsome.so")] {
        let image = Arc::new(loaded(BASE * time, name));
        machine.at(time, 0, process, Detail::Map { process, image: &image });
    }
    let records = machine.end();
    let end = of(&records, 0x0304).into_iter().find(|one| one.u32(8) == process).unwrap();
    // Behind the user, whom nobody knows.
    let name = &end.payload[36 + 4..];
    let name = name.split(|byte| *byte == 0).next().unwrap();
    String::from_utf8(name.to_vec()).unwrap()
}

/// The first image after an exec is the program. Any other one may be a library.
#[test]
fn only_the_first_image_of_a_program_names_its_process() {
    assert_eq!(name_at_end(true, false), "some");
    assert_eq!(name_at_end(true, true), "short");
    assert_eq!(name_at_end(false, false), "");
}

/// Processes that `clone` made with CLONE_VM have what any of them maps, until one executes a program.
#[test]
fn processes_in_one_memory_have_the_same_images() {
    const CLONE_VM: u64 = 0x100;
    let mut machine = Machinery::new();
    let map = |machine: &mut Machinery, time, process, path: &str| {
        let image = Arc::new(loaded(BASE + time * 0x1_0000, path));
        machine.at(time, 0, process, Detail::Map { process, image: &image });
    };
    map(&mut machine, 10, 50, "/a");
    for (time, child, flags) in [(20, 60, Some(CLONE_VM)), (30, 70, None)] {
        machine.at(time, 0, 50, fork(child, 50));
        let cloned = flags.map(|flags| Detail::Cloned { flags });
        cloned.into_iter().for_each(|cloned| machine.at(time + 1, 0, 50, cloned));
    }
    map(&mut machine, 40, 50, "/b");
    map(&mut machine, 50, 60, "/c");
    machine.at(60, 0, 60, Detail::Unmap { process: 60, base: BASE + 10 * 0x1_0000 });
    machine.at(70, 0, 60, Detail::Exec { process: 60, facts: &ExecFacts::default() });
    map(&mut machine, 80, 50, "/d");
    map(&mut machine, 90, 60, "/e");
    let records = machine.end();
    let of_process = |hook: u16, process: u32| {
        let all = of(&records, hook).into_iter().filter(|one| one.u32(16) == process);
        all.map(|one| change(one).2).collect::<Vec<_>>().concat()
    };
    let loads = [50, 60, 70].map(|process| of_process(0x030a, process));
    assert_eq!(loads, ["/a/b/c/d", "/a/b/c/e", "/a"]);
    let unloads = [50, 60, 70].map(|process| of_process(0x1402, process));
    assert_eq!(unloads, ["/a", "/a/b/c", ""]);
}

/// A library that is closed is no image any more from the call on that unmaps its code.
#[test]
fn an_image_ends_with_its_code() {
    let library = loaded(BASE, "/lib/first.so");
    let heap = mapping(BASE + 0x10_0000..BASE + 0x10_4000, "//anon");
    let covered = loaded(BASE + 0x20_0000, "/lib/second.so");
    let [whole, heap_range, second] = [&library, &heap, &covered].map(Image::range);
    let mut machine = Machinery::new();
    for image in [library, heap, covered] {
        machine.at(10, 0, 50, Detail::Map { process: 50, image: &Arc::new(image) });
    }
    let [unmap, map] = [SystemCall::Unmap, SystemCall::Map].map(|call| number(|one| one == call));
    let mut time = 20;
    let mut call = |number, arguments: &[u64], result| {
        machine.call(time, number, arguments, result);
        time += 10;
    };
    let mut unmaps = |range: Range<u64>, result| {
        call(unmap, &[range.start, range.end - range.start], result);
    };
    // Its variables, a part of its code, and a call that fails.
    unmaps(BASE + 0x4000..whole.end, 0);
    unmaps(CODE.start..CODE.start + 0x1000, 0);
    unmaps(whole.clone(), -22);
    unmaps(whole.clone(), 0);
    unmaps(whole.clone(), 0);
    unmaps(heap_range.start + 0x1000..heap_range.start + 0x2000, 0);
    // Memory without code takes its place.
    let size = second.end - second.start;
    call(map, &[second.start, size, 3, 0x32, u64::MAX, 0], second.start as i64);
    let left = machine.shaper.images_of(50).unwrap();
    let left: Vec<u64> = left.by_base.keys().copied().collect();
    let rest =
        [heap_range.start..heap_range.start + 0x1000, heap_range.start + 0x2000..heap_range.end];
    assert_eq!(left, rest.clone().map(|one| one.start));
    let records = machine.end();
    let is_change = |one: &&Taken| [0x030a, 0x1402].contains(&one.hook);
    let changes: Vec<_> = records.iter().filter(is_change).map(change).collect();
    let [first, last] = rest;
    let expected = [
        load(whole.clone(), "/lib/first.so"),
        load(heap_range.clone(), "//anon"),
        load(second.clone(), "/lib/second.so"),
        unload(whole, "/lib/first.so"),
        unload(heap_range, "//anon"),
        load(first, "//anon"),
        load(last, "//anon"),
        unload(second, "/lib/second.so"),
    ];
    assert_eq!(changes, expected);
}
