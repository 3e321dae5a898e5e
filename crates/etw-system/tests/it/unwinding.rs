//! Stacks of a program with and without frame pointers are the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiled::{self, Folder};
use crate::invariants::{Taken, check_live};
use crate::live::{Live, record_and_count};

const PROGRAM: &str = r"
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) static void inner(void) {
    for (unsigned long n = 0; n < 200000; n++) sink += n;
}
__attribute__((noinline)) static unsigned long deep(unsigned long n) {
    if (n == 0) inner(); else sink += deep(n - 1);
    return sink;
}
int main(void) {
    struct timespec start, now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    do {
        deep(20);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < 400000000L);
    return 0;
}
";
/// The frames of `inner`, 21 of `deep`, and that of `main`.
const FRAMES: usize = 23;

/// Stacks of three depths in turn, the last one larger than any copy, and those of a thread of its own that ends soon, in memory that the
/// next one has, too.
const DEPTHS: &str = r"
#include <pthread.h>
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) static void inner(void) {
    for (unsigned long n = 0; n < 3000000; n++) sink += n;
}
__attribute__((noinline)) static unsigned long deep(unsigned long n) {
    volatile char room[200];
    room[0] = n;
    if (n == 0) inner(); else sink += deep(n - 1);
    return sink + room[0];
}
static void *thread(void *none) { deep(60); return none; }
int main(void) {
    for (int n = 0; n < 30; n++) {
        pthread_t other;
        deep(5);
        deep(20);
        deep(400);
        pthread_create(&other, 0, thread, 0);
        pthread_join(other, 0);
    }
    return 0;
}
";

/// `worker` has more on its stack than is copied, and without frame pointers that register has the address of a list whose elements look
/// like frames: `unused` would be their function.
const LARGE: &str = r#"
#include <string.h>
#include <time.h>
struct list { struct list *next; void (*callback)(void); long value; };
volatile long sink;
__attribute__((noinline)) static void unused(void) { sink += 1; }
__attribute__((noinline)) static double passed(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
__attribute__((noinline)) static void leaf(struct list *list, double seconds) {
    double end = passed() + seconds;
    while (passed() < end) for (int n = 0; n < 100000; n++) sink += list->value;
}
__attribute__((noinline)) static void worker(struct list *list) {
    char large[100000];
    memset(large, 1, sizeof large);
#ifdef NO_POINTERS
    __asm__ volatile("mov %0, %%rbp" : : "r"(list) : "rbp");
#endif
    leaf(list, 0.3);
    list->value += large[5];
    if (sink == 12345) list->callback();
    leaf(list, 0.01);
    sink += list->value;
}
int main(void) {
    struct list list[4];
    for (int n = 0; n < 4; n++) list[n] = (struct list){n < 3 ? list + n + 1 : 0, unused, n};
    sink = list[2].value;
    worker(list);
    return 0;
}
"#;

fn compile(folder: &Path, text: &str, name: &str, flag: &str) -> Option<PathBuf> {
    let mut options = vec!["-fno-optimize-sibling-calls", "-fasynchronous-unwind-tables"];
    options.extend(flag.split(' '));
    if cfg!(target_arch = "x86_64") && flag == "-fomit-frame-pointer" {
        options.push("-DNO_POINTERS");
    }
    compiled::compile(folder, text, name, &options)
}

const FRAME_POINTERS: [(&str, &str); 2] =
    [("with", "-fno-omit-frame-pointer"), ("without", "-fomit-frame-pointer")];

/// Records a program; the [`depths`] of its stacks. `None`: no compiler, or no rights.
fn recorded(text: &str, name: &str, flag: &str) -> Option<Vec<usize>> {
    let folder = Folder::new(&format!("unwinding-{name}"));
    let Some(program) = compile(&folder.0, text, name, flag) else {
        eprintln!("left out: no C compiler");
        return None;
    };
    let mut id = 0;
    let recording = |live: &mut Live| {
        let mut child = Command::new(&program).spawn().unwrap();
        id = child.id();
        while child.try_wait().unwrap().is_none() {
            live.poll();
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
    };
    let flags = "process,thread,img,profile";
    let recording = record_and_count(flags, Some(std::process::id()), recording)?;
    check_live(&recording.records);
    Some(depths(&recording.records, id, &program))
}

/// The numbers of frames in the program's own image, of each sample's stack that begins there.
fn depths(records: &[Taken], process: u32, program: &Path) -> Vec<usize> {
    let name: Vec<u8> =
        program.to_str().unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let is_image = |one: &&Taken| {
        one.hook == 0x030a && one.u32(16) == process && one.payload[56..].starts_with(&name)
    };
    let image = records.iter().find(is_image).expect("the program has an image");
    let range = image.u64(0)..image.u64(0) + image.u64(8);
    let stacks = records.iter().enumerate().filter(|(at, one)| {
        one.hook == 0x1820 && one.u32(8) == process && records[at - 1].hook == 0x0f2e
    });
    let frames = stacks.map(|(_, one)| {
        (16..one.payload.len()).step_by(8).map(|at| one.u64(at)).collect::<Vec<u64>>()
    });
    let own = frames.filter(|frames| range.contains(&frames[0]));
    own.map(|frames| frames.iter().filter(|frame| range.contains(*frame)).count()).collect()
}

/// OV-23: stacks of a program without frame pointers have the frames of the same program with them, also by the rules in its debug
/// information alone, which may be compressed.
#[test]
fn stacks_do_not_need_frame_pointers() {
    const WITHOUT_EH_FRAME: &str = "-fomit-frame-pointer -g -fno-asynchronous-unwind-tables";
    let compressed = format!("{WITHOUT_EH_FRAME} -gz");
    let by_debug = [("debug", WITHOUT_EH_FRAME), ("compressed", &*compressed)];
    for (name, flag) in FRAME_POINTERS.into_iter().chain(by_debug) {
        let Some(depths) = recorded(PROGRAM, name, flag) else { return };
        let whole = depths.iter().filter(|depth| (FRAMES..=FRAMES + 1).contains(*depth)).count();
        eprintln!("{name} frame pointers: {whole} of {} stacks have {FRAMES} frames", depths.len());
        // Some samples lie between the calls.
        assert!(depths.len() >= 20 && whole * 10 >= depths.len() * 9, "{name}: {depths:?}");
    }
}

/// OV-24: stacks are whole for which the largest copy has room, whatever the thread had on its stack before.
#[test]
fn small_stacks_of_a_thread_with_large_ones_are_whole() {
    let Some(depths) = recorded(DEPTHS, "depths", "-fomit-frame-pointer") else { return };
    // `inner`, a `deep` more than its number, and `main` and `_start`, or `thread`.
    for own in [9, 24, 63] {
        let whole = depths.iter().filter(|depth| **depth == own).count();
        eprintln!("{whole} of {} stacks have {own} frames", depths.len());
        assert!(whole * 6 >= depths.len(), "{own}: {depths:?}");
    }
    let others = depths.iter().filter(|depth| ![9, 24, 63].contains(*depth));
    assert!(others.count() * 3 <= depths.len(), "{depths:?}");
}

/// OV-23: beyond the copied bytes, callers are those of functions with frame pointers. Without them, a stack ends there, and has no
/// functions that never ran.
#[test]
fn callers_beyond_the_copied_stack_need_frame_pointers() {
    for ((name, flag), frames) in FRAME_POINTERS.into_iter().zip([3, 2]) {
        let Some(depths) = recorded(LARGE, &format!("large-{name}"), flag) else { return };
        // Few samples lie in `passed`, or between the calls.
        let right = depths.iter().filter(|depth| **depth == frames).count();
        assert!(depths.len() >= 20 && right * 10 >= depths.len() * 9, "{name}: {depths:?}");
    }
}
