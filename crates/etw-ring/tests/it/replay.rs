//! The seeds of the fuzz target, replayed on stable, and 400 mutants of them. `ETW_BLESS=1` rewrites them. P5

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/ring.rs"]
mod targets;

/// A step of the target: a word at a place of one of the pool's tables.
fn put(area: u8, word: u16, value: u64) -> Vec<u8> {
    [&[area][..], &word.to_le_bytes(), &value.to_le_bytes()].concat()
}

/// Every place is one that the layout's table names. P4
#[test]
fn changed_pools_cause_no_panic() {
    let drain = || put(0xff, 0, 0);
    let join = |how: u8, steps: &[Vec<u8>]| [&[how][..], &steps.concat()].concat();
    // A unit that is closed, 128 KiB long and full.
    let unit = 2 << 56 | 3 << 60 | 1 << 32 | 16384;
    let seeds = [
        ("whole", join(0, &[drain()])),
        ("ended", join(3, &[drain()])),
        ("magic", join(4, &[put(0, 0, 7), put(0, 0, 7)])),
        ("segments", join(4, &[put(0, 3, 99 << 32), put(0, 8, 1 << 40), drain()])),
        ("slots", join(1, &[put(0, 6, u64::MAX), drain(), put(0, 4, u64::MAX)])),
        ("overflow", join(1, &[put(1, 0, u64::MAX), put(1, 8, 0x3fff << 26)])),
        ("blocks", join(8, &[put(2, 0, u64::MAX), drain(), put(2, 0, 0)])),
        ("units", join(1, &[put(3, 0, unit), put(3, 1, unit), drain(), put(3, 32, unit)])),
        ("heads", join(2, &[drain(), put(4, 0, 1 << 56 | 1 << 15 | 0x7fff), put(4, 8, 0)])),
        ("counters", join(0, &[put(5, 0, u64::MAX), put(5, 1, u64::MAX), drain()])),
        ("sites", join(1, &[put(6, 1, 1 << 63 | 65535 << 32), put(6, 2, u64::MAX)])),
        ("sizes", join(1, &[put(7, 0, 131_024), put(7, 512, u64::MAX), drain()])),
        ("future", join(10, &[put(7, 1, u64::MAX), drain(), put(7, 4, u64::MAX)])),
    ];
    replaying::replay("pool", &seeds, 400, targets::pool);
}
