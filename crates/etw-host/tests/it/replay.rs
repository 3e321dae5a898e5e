//! The seeds of the fuzz targets, replayed on stable, and thousands of mutants of them. `ETW_BLESS=1` rewrites them. P5

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/host.rs"]
mod targets;

/// Runs a target over its seeds and over 2000 mutants for each.
fn replay(target: &str, seeds: &[(&str, Vec<u8>)], run: fn(&[u8])) {
    replaying::replay(target, seeds, 2000 * seeds.len(), run);
}

#[test]
fn headers_of_part_files_cause_no_panic() {
    let mut whole = vec![0; 0x10100];
    let mut put = |at: usize, bytes: &[u8]| whole[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"ETWPART1");
    put(8, &1u32.to_le_bytes());
    put(0xc, &1u32.to_le_bytes());
    put(0x14, &4096u32.to_le_bytes());
    put(0x18, &16u32.to_le_bytes());
    put(0x1c, &100u32.to_le_bytes());
    put(0x20, &0x100000u64.to_le_bytes());
    put(0x28, &0x800000u64.to_le_bytes());
    put(0x30, &1u32.to_le_bytes());
    put(0x80, &0x400000u64.to_le_bytes());
    put(0x88, &0x680000u64.to_le_bytes());
    put(0x10000, &30u32.to_le_bytes());
    put(0x10004, &1u32.to_le_bytes());
    assert!(etw_host::part::check_header(&whole, 1 << 30).is_ok());
    assert!(etw_host::part::check_header(&whole, 1 << 20).is_err());
    replay("part_header", &[("whole", whole[..0x200].to_vec())], targets::part_header);
}

#[test]
fn recovered_buffers_cause_no_panic() {
    let mut buffer = vec![0; 1024];
    let mut put = |at: usize, bytes: &[u8]| buffer[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &1024u32.to_le_bytes());
    put(0x18, &7i64.to_le_bytes());
    put(0x2c, &1u32.to_le_bytes());
    put(0x38, &((3u64 << 24) | (200 / 8)).to_le_bytes());
    put(0x40, &((4u64 << 24) | (304 / 8)).to_le_bytes());
    put(72, &[0x50, 0]);
    let mut full = buffer.clone();
    full[0x20..0x28].copy_from_slice(&((1u64 << 40) | 5).to_le_bytes());
    full[0x2c] = 3;
    full[0x30..0x34].copy_from_slice(&304u32.to_le_bytes());
    let with =
        |batch: u64, buffers: &[&[u8]]| [&batch.to_le_bytes()[..], &buffers.concat()].concat();
    let seeds = [
        ("in_use", with(3, &[&buffer])),
        ("full", with(4, &[&full, &buffer])),
        ("cut", with(4, &[&full[..500]])),
    ];
    replay("recover", &seeds, targets::recover);
}

#[test]
fn records_of_pools_cause_no_panic() {
    let descriptor = [7, 0, 1, 11, 4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    let metadata = b"\x0c\0\0Hello\0n\0\x04";
    let all = [
        &[63, 1, 16 * 3 + 8 + 6 + 12, 0][..],
        &descriptor,
        &[1; 16],
        &[2; 16],
        &[3; 8],
        b"\x06\0Abc\0",
        metadata,
        b"payload",
    ]
    .concat();
    let seeds = [
        ("all", all),
        ("site", [&[0, 1 | 1 << 6, 0, 0][..], &descriptor, b"more"].concat()),
        ("related", [&[4, 1 | 2 << 6, 16, 0][..], &descriptor, metadata, b"more"].concat()),
    ];
    // OV-12: an event, an instance, a message, of classic providers.
    let class = |form: u8, size: u8, rest: &[u8]| {
        let head = [128 | 32, 1, size, 0, size, 0, form, 1, 2, 0, 3, 4];
        [&head[..], &[7; 16], rest, b"more"].concat()
    };
    let mut message = class(3, 0x18, &[]);
    message[7..12].copy_from_slice(&[1, 0x29, 0, 10, 0]);
    let timed = [&[128 | 32 | 8, 1, 0x20, 0][..], &[9; 8], &class(0x81, 0x18, &[])[4..]].concat();
    let seeds = [
        &seeds[..],
        &[
            ("classic", class(1, 0x18, &[])),
            ("classic_timed", timed),
            ("instance", class(2, 0x30, &[8; 24])),
            ("message", message),
        ],
    ]
    .concat();
    replay("record", &seeds, targets::record);
}
