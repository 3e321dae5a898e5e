//! Replaying a fuzz target on stable: its corpus, and mutants of its seeds. Included by the tests of each crate.

use std::path::Path;

/// Runs a target over `fuzz/corpus/TARGET/` and over 400 mutants of its seeds. With `ETW_BLESS=1` it writes the seeds
/// first.
///
/// # Panics
/// If a seed in the corpus is not the one given here.
pub fn replay(target: &str, seeds: &[(&str, Vec<u8>)], run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    if std::env::var_os("ETW_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in seeds {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in seeds {
        let stored = std::fs::read(folder.join(name)).unwrap();
        assert!(stored == *bytes, "{target}/{name} is out of date; ETW_BLESS=1 rewrites it");
    }
    // The corpus also holds the inputs that a fuzzer found.
    for entry in std::fs::read_dir(&folder).unwrap() {
        run(&std::fs::read(entry.unwrap().path()).unwrap());
    }
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below.max(1)
    };
    for _ in 0..400 {
        let (_, seed) = &seeds[random(seeds.len())];
        let mut mutant = seed.clone();
        for _ in 0..=random(4) {
            let at = random(mutant.len());
            match random(5) {
                0 | 1 if at < mutant.len() => mutant[at] = random(256) as u8,
                2 => mutant.truncate(at),
                3 => drop(mutant.drain(at..(at + random(8)).min(mutant.len()))),
                _ => mutant.extend_from_within(at..(at + random(64)).min(mutant.len())),
            }
        }
        run(&mutant);
    }
}
