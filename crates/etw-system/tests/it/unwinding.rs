//! Stacks of a program with and without frame pointers are the same.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// A folder that is deleted in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compile(folder: &Path, name: &str, flag: &str) -> Option<PathBuf> {
    let (source, program) = (folder.join("deep.c"), folder.join(name));
    std::fs::write(&source, PROGRAM).unwrap();
    let mut command = Command::new("cc");
    command.args(["-O1", "-fno-optimize-sibling-calls", "-fasynchronous-unwind-tables", flag]);
    let status = command.arg("-o").args([&program, &source]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success()).then_some(program)
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

/// OV-23: stacks of a program without frame pointers have the frames of the same program with them.
#[test]
fn stacks_do_not_need_frame_pointers() {
    let folder = std::env::temp_dir().join(format!("etw-unwinding-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = Folder(folder);
    for (name, flag) in [("with", "-fno-omit-frame-pointer"), ("without", "-fomit-frame-pointer")] {
        let Some(program) = compile(&folder.0, name, flag) else {
            return eprintln!("left out: no C compiler");
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
        let own = Some(std::process::id());
        let flags = "process,thread,img,profile";
        let Some(recording) = record_and_count(flags, own, recording) else { return };
        check_live(&recording.records);
        let depths = depths(&recording.records, id, &program);
        let whole = depths.iter().filter(|depth| (FRAMES..=FRAMES + 1).contains(*depth)).count();
        eprintln!("{name} frame pointers: {whole} of {} stacks have {FRAMES} frames", depths.len());
        // Some samples lie between the calls.
        assert!(depths.len() >= 20 && whole * 10 >= depths.len() * 9, "{name}: {depths:?}");
    }
}
