//! Folders where relative paths begin: which threads and processes have one together. OV-23.

use etw_system::neutral::Detail;
use etw_system::system_calls::{FileOperation, SystemCall};

use crate::file_names::{OPEN_PATH, OWN_FOLDER, call_in_folder, named, texts};
use crate::shaper::{Machinery, fork, number, thread_of};

const CLONE_FS: u64 = 0x200;
const CLONE_NEWNS: u64 = 0x2_0000;
const CLONE_NEWNET: u64 = 0x4000_0000;

struct Calls {
    machine: Machinery,
    time: u64,
}

impl Calls {
    fn call(&mut self, thread: u32, number: u64, arguments: [u64; 6], path: &str, result: i64) {
        let file = (!path.is_empty()).then(|| named([path, ""], None));
        let enter = Detail::SyscallEnter { number, arguments, file: file.as_ref() };
        self.machine.at(self.time, 0, thread, enter);
        self.machine.at(self.time + 1, 0, thread, Detail::SyscallExit { number, result });
        self.time += 10;
    }

    fn changes(&mut self, thread: u32, path: &str) {
        self.call(thread, number(|one| one == SystemCall::ChangeFolder), [0x100; 6], path, 0);
    }

    fn calls(&mut self, thread: u32, call: SystemCall, arguments: [u64; 2], result: i64) {
        let arguments = [arguments[0], arguments[1], 0, 0, 0, 0];
        self.call(thread, number(|one| one == call), arguments, "", result);
    }

    fn opens(&mut self, thread: u32) {
        let open = call_in_folder(FileOperation::Open);
        self.call(thread, open, [OWN_FOLDER, 0x100, 0, 0, 0, 0], "x", -2);
    }

    /// `flags`: those of `clone`; `None`: another call makes the thread or process.
    fn begins(&mut self, fork: Detail<'_>, parent: u32, flags: Option<u64>) {
        let clone = number(|one| one == SystemCall::Clone);
        if let Some(flags) = flags {
            let arguments = [flags, 0, 0, 0, 0, 0];
            let enter = Detail::SyscallEnter { number: clone, arguments, file: None };
            self.machine.at(self.time, 0, parent, enter);
        }
        self.machine.at(self.time + 1, 0, parent, fork);
        if flags.is_some() {
            let exit = Detail::SyscallExit { number: clone, result: 60 };
            self.machine.at(self.time + 2, 0, parent, exit);
        }
        self.time += 10;
    }
}

/// The flags of `clone3` are in memory, and the kernel tells them behind the beginning.
#[test]
fn a_thread_has_its_folder_by_the_flags_of_any_call() {
    const CLONE_THREAD: u64 = 0x1_0000;
    let mut calls = Calls { machine: Machinery::new(), time: 10 };
    calls.changes(50, "/first");
    let begins = |calls: &mut Calls, detail: Detail<'_>, flags| {
        calls.begins(detail, 50, None);
        calls.machine.at(calls.time - 5, 0, 50, Detail::Cloned { flags });
    };
    begins(&mut calls, thread_of(50, 51), CLONE_THREAD);
    begins(&mut calls, fork(60, 50), CLONE_FS);
    // Flags that are late belong to nobody.
    calls.begins(fork(70, 50), 50, None);
    calls.time += 5000;
    calls.machine.at(calls.time, 0, 50, Detail::Cloned { flags: CLONE_FS });
    calls.changes(50, "/second");
    [50, 51, 60, 70].into_iter().for_each(|thread| calls.opens(thread));
    let opened = texts(&calls.machine.end(), 0x0440, OPEN_PATH);
    assert_eq!(opened, ["/second/x", "/first/x", "/second/x", "/first/x"]);
}

#[test]
fn folders_are_those_of_the_threads_that_have_them_together() {
    let mut calls = Calls { machine: Machinery::new(), time: 10 };
    calls.begins(thread_of(50, 51), 50, None);
    calls.begins(thread_of(50, 52), 50, None);
    calls.changes(51, "/all");
    calls.opens(50);
    calls.calls(52, SystemCall::Unshare, [CLONE_FS, 0], -1);
    calls.changes(51, "one");
    calls.opens(52);
    calls.calls(52, SystemCall::Unshare, [CLONE_FS, 0], 0);
    calls.changes(52, "own");
    calls.opens(50);
    calls.opens(52);
    // Processes: one has the folder together with its maker, another one a copy.
    calls.begins(fork(60, 50), 50, Some(CLONE_FS));
    calls.begins(fork(70, 50), 50, Some(17));
    calls.changes(60, "/child");
    calls.opens(50);
    calls.opens(70);
    calls.changes(70, "/other");
    calls.opens(60);
    // Other namespaces: of mounts, of what the kernel alone knows, and of the network.
    calls.calls(70, SystemCall::EnterNamespace, [3, CLONE_NEWNET], 0);
    calls.opens(70);
    calls.calls(60, SystemCall::Unshare, [CLONE_NEWNS, 0], 0);
    calls.calls(60, SystemCall::EnterNamespace, [3, CLONE_NEWNS], 0);
    calls.opens(60);
    calls.calls(70, SystemCall::EnterNamespace, [3, 0], 0);
    calls.opens(70);
    calls.opens(50);
    let opened = texts(&calls.machine.end(), 0x0440, OPEN_PATH);
    let expected = [
        "/all/x",
        "/all/one/x",
        "/all/one/x",
        "/all/one/own/x",
        "/child/x",
        "/all/one/x",
        "/child/x",
        "/other/x",
        "/x",
        "x",
        "/child/x",
    ];
    assert_eq!(opened, expected);
}

/// A thread that executes a program takes its folder with it, and the id of the process.
#[test]
fn a_thread_that_executes_a_program_keeps_its_folder() {
    let mut calls = Calls { machine: Machinery::new(), time: 10 };
    calls.changes(50, "/process");
    calls.begins(thread_of(50, 51), 50, None);
    calls.calls(51, SystemCall::Unshare, [CLONE_FS, 0], 0);
    calls.changes(51, "/thread");
    let facts = etw_system::neutral::ExecFacts::default();
    let switch = crate::shaper::switch(50, etw_system::neutral::ThreadState::Sleeping, 51);
    calls.machine.at(calls.time, 0, 50, switch);
    calls.machine.at(calls.time + 5, 0, 50, Detail::Exec { process: 50, facts: &facts });
    calls.time += 10;
    calls.opens(50);
    assert_eq!(texts(&calls.machine.end(), 0x0440, OPEN_PATH), ["/thread/x"]);
}
