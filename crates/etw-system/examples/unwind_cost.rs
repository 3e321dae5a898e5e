//! The cost of a stack that is walked without frame pointers: a function with six saved registers calls itself, between others of another
//! file, and all rules are known. One JSON object a figure.
//!
//! `cargo run --release -p etw-system --features unwind --example unwind_cost`

#[cfg(all(target_os = "linux", target_arch = "x86_64", feature = "unwind"))]
fn main() {
    made::main();
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", feature = "unwind")))]
fn main() {
    println!("the stacks of this example are those of Linux on x86-64, with the feature `unwind`");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64", feature = "unwind"))]
mod made {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Instant;

    use etw_system::neutral::Image;
    use etw_system::perf::{UNWOUND_REGISTERS, UserState};
    use etw_system::unwind::{End, ProcessImages, Unwinder};

    const WALKS: u32 = 2_000;
    const ROUNDS: u32 = 15;
    /// Frames of a stack, bytes of one, and those in the same file one after the other.
    const FRAMES: usize = 32;
    const FRAME_SIZE: usize = 64;
    const IN_ONE_FILE: usize = 8;
    /// Images of the process, and bytes from one to the next.
    const IMAGES: u64 = 24;
    const DISTANCE: u64 = 1 << 20;
    const BASE: u64 = 0x7f00_0000_0000;
    /// Offsets in the file, which are its addresses.
    const TABLE: u32 = 0xb0;
    const COMMON: u32 = 0xd0;
    const CODE: u32 = 0x1000;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn entry(mut body: Vec<u8>) -> Vec<u8> {
        body.resize(body.len().next_multiple_of(4), 0);
        [words(&[body.len() as u32]), body].concat()
    }

    fn program_header(kind: u32, offset: u64, size: u64) -> Vec<u8> {
        let numbers = [offset, offset, offset, size, size, 4096];
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        words(&[kind, 5]).into_iter().chain(numbers).collect()
    }

    /// A file with one function, whose frame has 64 bytes and the registers 3, 6 and 12 to 15 of its caller.
    fn file() -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(64, 0);
        (file[0x20], file[0x36], file[0x38]) = (64, 56, 2);
        file.extend(program_header(1, 0, 0x4000));
        file.extend(program_header(0x6474_e550, TABLE.into(), 20));
        let common =
            [&words(&[0])[..], b"\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01"].concat();
        let mut entries = entry(common);
        let at = COMMON + entries.len() as u32;
        let head = words(&[at + 4 - COMMON, CODE.wrapping_sub(at + 8), 0x1000]);
        let rules = [0x0e, 64, 0x86, 2, 0x83, 3, 0x8c, 4, 0x8d, 5, 0x8e, 6, 0x8f, 7];
        entries.extend(entry([&head, &[0][..], &rules].concat()));
        file.extend([1, 0x1b, 3, 0x3b]);
        file.extend(words(&[COMMON.wrapping_sub(TABLE + 4), 1, CODE - TABLE, at - TABLE]));
        file.resize(COMMON as usize, 0);
        file.extend(entries);
        file.extend([0; 4]);
        file
    }

    /// The address of a frame, from the innermost one.
    fn address(frame: usize) -> u64 {
        let image = (frame / IN_ONE_FILE) as u64 * 5 % IMAGES;
        BASE + image * DISTANCE + u64::from(CODE) + 16 + frame as u64 * 8
    }

    pub fn main() {
        let images: BTreeMap<u64, Arc<Image>> = (0..IMAGES)
            .map(|number| {
                let (base, path) = (BASE + number * DISTANCE, vec![b'a' + number as u8]);
                (base, Arc::new(Image { base, size: 0x4000, path, ..Image::default() }))
            })
            .collect();
        let mut stack = vec![0; FRAMES * FRAME_SIZE];
        for (frame, bytes) in stack.chunks_exact_mut(FRAME_SIZE).enumerate().take(FRAMES - 1) {
            bytes[FRAME_SIZE - 8..].copy_from_slice(&address(frame + 1).to_le_bytes());
        }
        // rbx, rdi, rbp, rsp, rip, r12 to r15
        let mut registers = [0; 8 * UNWOUND_REGISTERS.count_ones() as usize];
        registers[24..32].copy_from_slice(&0x7000u64.to_le_bytes());
        registers[32..40].copy_from_slice(&address(0).to_le_bytes());
        let user = UserState { registers: &registers, stack: &stack };
        let file = file();
        let read = |_: &[u8], at: u64, size: usize| {
            let rest = file.get(usize::try_from(at).ok()?..)?;
            Some(rest[..size.min(rest.len())].to_vec())
        };
        // The frames of the last walk are only remembered for known images.
        for (version, name) in [(0, "an unwound frame"), (1, "a frame that the last walk had")] {
            let images = ProcessImages { by_base: &images, version };
            let (mut unwinder, mut frames) = (Unwinder::default(), Vec::new());
            let mut best = f64::MAX;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                for _ in 0..WALKS {
                    frames.clear();
                    let end = unwinder.walk(1, images, &user, &read, &mut frames);
                    assert!(frames.len() == FRAMES && end == End::Whole, "{frames:x?} {end:?}");
                }
                let count = f64::from(WALKS) * FRAMES as f64;
                best = best.min(start.elapsed().as_nanos() as f64 / count);
            }
            println!("{{\"name\":\"{name}\",\"value\":{best:.3},\"unit\":\"ns\"}}");
        }
    }
}
