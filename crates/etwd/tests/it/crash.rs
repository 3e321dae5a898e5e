//! Programs that are killed, stopped, or end in the middle.

use std::time::Duration;

use crate::support::*;

/// P2, P3: everything that a killed program had committed is recorded, once, and the ledger is exact but for the write in flight.
#[test]
fn kill_9_of_programs_loses_nothing_committed() {
    let rig = Rig::new();
    let kills = std::env::var("ETW_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let file = rig.start("killed");
    let mut seed = 7u64;
    let mut said = Vec::new();
    for _ in 0..kills {
        let mut program = rig.program("endless", &[seed % 3 * 40]);
        program.expect("ready");
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_micros(500 + (seed >> 33) % 20_000));
        let id = program.id();
        said.push((id, program.kill()));
    }
    let status = rig.stop("killed");
    let by_thread = contiguous(&events(&file));
    for (id, said) in said {
        let seen = by_thread.get(&(id, 0)).copied().unwrap_or(0);
        assert!(seen >= said, "process {id} said {said}, {seen} were recorded");
    }
    assert_eq!(by_thread.values().sum::<u64>(), status.stored);
    // What was in flight is counted as late, one write at most for each program.
    let late: u64 =
        status.losses.iter().filter(|loss| loss.cause == "late").map(|loss| loss.count).sum();
    assert!(late <= kills, "{status:?}");
    assert_eq!(status.attempted, status.stored + status.lost);
}

/// A program that is stopped in the middle of whatever it does holds nobody up, and goes on.
#[test]
fn a_stopped_program_holds_nobody_up() {
    let rig = Rig::new();
    let file = rig.start("stopped");
    let mut frozen: Vec<_> = (0..3).map(|_| rig.program("endless", &[0])).collect();
    for program in &mut frozen {
        program.expect("ready");
    }
    let signal = |program: &Program, signal| {
        // SAFETY: numbers; a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(program.id() as libc::pid_t, signal) }, 0);
    };
    std::thread::sleep(Duration::from_millis(20));
    frozen.iter().for_each(|program| signal(program, libc::SIGSTOP));
    let other = rig.program("threads", &[1, 1000]);
    let id = other.id();
    other.end();
    // Both end although those programs stand still.
    rig.done(etw_wire::control::Request::Flush { session: "stopped".to_owned() });
    assert!(rig.query("stopped").stored > 1000);
    frozen.iter().for_each(|program| signal(program, libc::SIGCONT));
    std::thread::sleep(Duration::from_millis(20));
    for program in frozen {
        program.kill();
    }
    let status = rig.stop("stopped");
    let events = events(&file);
    assert_eq!(events.iter().filter(|event| event.process == id).count(), 1000);
    assert_eq!(events.len() as u64, status.stored);
}
