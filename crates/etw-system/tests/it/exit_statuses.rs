//! The exit statuses of processes, which the kernel reports apart from their ends. OV-23.

use etw_system::neutral::*;

use crate::shaper::{Machinery, fork, of};

#[test]
fn the_last_exit_status_is_that_of_the_process() {
    let mut machine = Machinery::new();
    // The status of a short life comes before the records of its beginning.
    for status in [137, 7] {
        machine.at(10, 0, 0, Detail::ExitStatus { process: 60, thread: 60, status });
    }
    machine.at(5, 0, 50, fork(60, 50));
    machine.at(20, 0, 60, Detail::Exit { process: 60, thread: 60 });
    machine.at(30, 0, 50, fork(61, 50));
    machine.at(40, 0, 61, Detail::Exit { process: 61, thread: 61 });
    let records = machine.end();
    let status = |hook: u16, id: u32| {
        of(&records, hook).iter().find(|one| one.u32(8) == id).map(|one| one.u32(20))
    };
    assert_eq!((status(0x0301, 60), status(0x0302, 60)), (Some(259), Some(7)));
    assert_eq!(status(0x0302, 61), Some(0), "not known");
}

/// OV-23: the statuses of many processes are read before the records of their ends.
#[test]
fn processes_that_have_one_id_soon_after_another_have_their_own_exit_statuses() {
    const COUNT: u32 = 200;
    let mut machine = Machinery::new();
    let times = |status: u32| u64::from(100 * status);
    for status in 1..=COUNT {
        let detail = Detail::ExitStatus { process: 60, thread: 60, status };
        machine.at(times(status) + 51, 0, 0, detail);
    }
    for status in 1..=COUNT {
        machine.at(times(status), 0, 50, fork(60, 50));
        machine.at(times(status) + 50, 0, 60, Detail::Exit { process: 60, thread: 60 });
    }
    let records = machine.end();
    let ends = of(&records, 0x0302).into_iter().filter(|one| one.u32(8) == 60);
    let statuses: Vec<u32> = ends.map(|one| one.u32(20)).collect();
    assert_eq!(statuses, (1..=COUNT).collect::<Vec<_>>());
}

/// OV-23: the kernel reports the statuses of all processes, also where one command is recorded: those of others take no memory for long, and
/// do not displace its own.
#[test]
fn exit_statuses_of_others_do_not_displace_those_of_the_command() {
    let mut machine = Machinery::new();
    let second = 1_000_000;
    machine.at(5, 0, 50, fork(60, 50));
    let status = |process, status| Detail::ExitStatus { process, thread: process, status };
    for other in 0..40_000 {
        machine.at(10 + u64::from(other) * 100, 0, 0, status(1000 + other, 1));
    }
    machine.at(4 * second, 0, 0, status(60, 7));
    for other in 0..0x8000 {
        machine.at(4 * second, 0, 0, status(0x4_0000 + other, 1));
    }
    machine.at(4 * second + 10, 0, 60, Detail::Exit { process: 60, thread: 60 });
    let records = machine.end();
    let ended = of(&records, 0x0302).into_iter().find(|one| one.u32(8) == 60);
    assert_eq!(ended.map(|one| one.u32(20)), Some(7));
}
