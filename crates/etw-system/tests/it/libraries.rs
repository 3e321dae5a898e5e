//! Libraries that a program loads and closes, as the recorder of this machine shows them. OV-23.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::compiled::{Folder, compile};
use crate::invariants::{Taken, check_live};
use crate::live::{Live, record_and_count};

const LIBRARY: &str = "volatile int sink;\n\
    int work(int n) { for (int i = 0; i < n; i++) sink += i; return sink; }\n";

/// Makes a process in its own memory, which executes code of a library that is loaded later. Then it closes the library.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*volatile work)(int);
static char stack[1 << 16] __attribute__((aligned(16)));

static int child(void *unused) {
    while (!work) {}
    for (int n = 0; n < 200; n++) work(1000000);
    return unused != 0;
}
int main(int count, char **arguments) {
    int id = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
    void *library = dlopen(arguments[count - 1], RTLD_NOW);
    if (id < 0 || !library) return 1;
    work = (int (*)(int))dlsym(library, "work");
    waitpid(id, 0, 0);
    dlclose(library);
    usleep(20000);
    return 0;
}
"#;

/// Closes a library, says so, and lives until its input ends.
const CLOSER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments) {
    void *library = dlopen(arguments[count - 1], RTLD_NOW);
    if (!library || dlclose(library)) return 1;
    puts("closed");
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) != 0;
}
"#;

/// Whether an Image record is one of a process and file.
fn is_image(one: &Taken, process: u32, file: &Path) -> bool {
    let name: Vec<u8> = file.to_str().unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect();
    one.u32(16) == process && one.payload[56..].starts_with(&name)
}

/// The processes in one memory both have the library, and it ends with the call that closes it.
#[test]
fn a_library_is_an_image_of_all_processes_that_have_it_as_long_as_they_do() {
    let folder = Folder::new("libraries");
    let library = compile(&folder.0, LIBRARY, "library.so", &["-shared", "-fPIC"]);
    let program = compile(&folder.0, PROGRAM, "program", &[]);
    let (Some(library), Some(program)) = (library, program) else {
        return eprintln!("left out: no C compiler");
    };
    // It begins with the recording, which is that of this process and its children without rights for more.
    let mut command = Command::new("sh");
    command.args(["-c", "read go; exec \"$0\" \"$1\""]).args([&program, &library]);
    let mut started = command.stdin(Stdio::piped()).spawn().unwrap();
    let parent = started.id();
    let recording = |live: &mut Live| {
        drop(started.stdin.take());
        while started.try_wait().unwrap().is_none() {
            live.poll();
            std::thread::sleep(Duration::from_millis(3));
        }
        assert!(started.wait().unwrap().success());
    };
    let flags = "process,thread,img,profile,virtalloc";
    let Some(recording) = record_and_count(flags, Some(parent), recording) else {
        drop(started.stdin.take());
        started.wait().unwrap();
        return;
    };
    let records = &recording.records;
    check_live(records);
    let is_child = |one: &&Taken| one.hook == 0x0301 && one.u32(12) == parent;
    let child = records.iter().find(is_child).expect("the program makes a process").u32(8);
    let place = |hook: u16, process: u32| {
        let is_it = |one: &Taken| one.hook == hook && is_image(one, process, &library);
        let at = records.iter().position(is_it)?;
        Some((at, records[at].u64(0)..records[at].u64(0) + records[at].u64(8)))
    };
    let (_, range) = place(0x030a, parent).expect("the program loads the library");
    assert_eq!(place(0x030a, child).map(|one| one.1), Some(range.clone()));
    let is_sample = |at: &usize| {
        let one = &records[*at];
        one.hook == 0x1820 && one.u32(8) == child && range.contains(&one.u64(16))
    };
    let samples = (1..records.len()).filter(is_sample).count();
    assert!(samples >= 20, "{samples} samples of the process lie in the library");
    let end = records.iter().position(|one| one.hook == 0x0302 && one.u32(8) == parent).unwrap();
    let (unload, gone) = place(0x1402, parent).expect("the library is closed");
    assert_eq!(gone, range);
    let lacks_calls = recording.notes.iter().any(|note| note.contains("virtalloc"));
    if lacks_calls || recording.losses.total() > 0 {
        return eprintln!("left out: no right to system calls, or losses");
    }
    assert!(records[end].time - records[unload].time > 100_000, "it ends with the process");
}

/// Regression: without records of calls, a library that was closed was an image of its process at the end of the recording.
#[test]
fn a_library_that_was_closed_unseen_is_no_image_at_the_end() {
    let folder = Folder::new("closed-libraries");
    let library = compile(&folder.0, LIBRARY, "library.so", &["-shared", "-fPIC"]);
    let program = compile(&folder.0, CLOSER, "closer", &[]);
    let (Some(library), Some(program)) = (library, program) else {
        return eprintln!("left out: no C compiler");
    };
    let mut command = Command::new("sh");
    command.args(["-c", "read go; exec \"$0\" \"$1\""]).args([&program, &library]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut started = command.spawn().unwrap();
    let id = started.id();
    let recording = |live: &mut Live| {
        started.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut line = String::new();
        BufReader::new(started.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "closed\n");
        live.poll();
    };
    let recording = record_and_count("process,thread,img", Some(id), recording);
    drop(started.stdin.take());
    started.wait().unwrap();
    let Some(recording) = recording else { return };
    check_live(&recording.records);
    let hooks_of = |file: &Path| -> Vec<u16> {
        let all =
            recording.records.iter().filter(|one| matches!(one.hook, 0x030a | 0x1402 | 0x1404));
        all.filter(|one| is_image(one, id, file)).map(|one| one.hook).collect()
    };
    assert_eq!(hooks_of(&library), [0x030a, 0x1402]);
    assert_eq!(hooks_of(&program), [0x030a, 0x1404]);
}
