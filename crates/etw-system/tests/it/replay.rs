//! The seeds of the fuzz target, replayed on stable, and 400 mutants of them. `ETW_BLESS=1` rewrites them.
#![cfg(target_os = "linux")]

use crate::perf_records::{record, words};

#[path = "../../../../fuzz/src/replay.rs"]
pub mod replaying;
#[path = "../../../../fuzz/src/system.rs"]
mod target;

/// A record of the kernel with the trailer that each one but samples has.
fn side(kind: u32, misc: u16, body: &[u32], time: u32) -> Vec<u8> {
    let mut body = body.to_vec();
    body.extend([50, 50, time, 0, 0, 0]);
    record(kind, misc, &words(&body))
}

/// Identifier, process and thread, time; then `rest`.
fn sample(kind: u32, time: u32, rest: &[u32]) -> Vec<u8> {
    let mut body = vec![kind, 0, 50, 50, time, 0];
    body.extend(rest);
    record(9, 0, &words(&body))
}

/// Raw data of a tracepoint: eight bytes in common, then eight for each field.
fn raw(fields: &[u32]) -> Vec<u32> {
    let mut all = vec![(8 + fields.len() * 8) as u32, 0, 0];
    all.extend(fields.iter().flat_map(|field| [*field, 0]));
    all
}

#[test]
fn rings_of_perf_cause_no_panic() {
    let mapping = [50, 50, 0x1000, 0, 0x2000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 2, u32::from(b'x'), 0];
    let lives = [
        side(7, 0, &[60, 50, 60, 50, 100, 0], 100),
        side(3, 0x2000, &[60, 60, u32::from_le_bytes(*b"prog"), 0], 200),
        side(10, 0, &mapping, 300),
        side(7, 0, &[60, 60, 61, 60, 400, 0], 400),
        side(4, 0, &[60, 50, 60, 50, 500, 0], 500),
        side(4, 0, &[60, 50, 61, 60, 600, 0], 600),
        side(2, 0, &[0, 0, 9, 0], 700),
    ];
    // Two frames of the program behind their marker.
    let chain = [3, 0, -512i32 as u32, u32::MAX, 0x4010, 0, 0x4020, 0];
    let mut switch = chain.to_vec();
    switch.extend(raw(&[50, 120, 1, 0, 120, 0]));
    let schedule = [
        sample(1, 100, &chain),
        sample(3, 200, &switch),
        sample(4, 300, &raw(&[50, 0])),
        side(14, 0, &[], 400),
        side(14, 0x2000, &[], 500),
    ];
    let devices = [
        sample(6, 100, &raw(&[9])),
        sample(7, 200, &raw(&[9, 1])),
        sample(10, 300, &raw(&[8, 100, 8, u32::from(b'R'), 4096])),
        sample(11, 400, &raw(&[8, 100, 8, u32::from(b'R')])),
        sample(12, 500, &raw(&[7, 7, 2, 80, 5000, 2, 1, 2, 3, 4, 6])),
        sample(13, 600, &raw(&[7, 6, 99, 2])),
        sample(16, 700, &raw(&[9, 0])),
        sample(17, 800, &raw(&[9, 1])),
    ];
    // The numbers of openat, write and close on both architectures.
    let [open, write, close] =
        if cfg!(target_arch = "aarch64") { [56, 64, 57] } else { [257, 1, 3] };
    let files = [
        sample(16, 100, &raw(&[open, 0, 0])),
        sample(17, 200, &raw(&[open, 3])),
        sample(16, 300, &raw(&[write, 3, 0])),
        sample(17, 400, &raw(&[write, 9])),
        sample(16, 500, &raw(&[close, 3])),
        sample(17, 600, &raw(&[close, 0])),
        sample(18, 700, &raw(&[50, 120, 98])),
        sample(19, 800, &raw(&[3])),
        sample(20, 900, &raw(&[7, 8, 9])),
    ];
    let seeds = [
        ("lives", lives.concat()),
        ("schedule", schedule.concat()),
        ("devices", devices.concat()),
        ("files", files.concat()),
    ];
    replaying::replay("perf_ring", &seeds, 400, target::ring);
}
