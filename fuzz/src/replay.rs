//! Replaying a fuzz target on stable: its corpus, and mutants of it. Included by the tests of each crate.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs a target over each input of `fuzz/corpus/TARGET/` and over `mutants` mutants of them, the same in every run. With
/// `ETW_BLESS=1` it writes the seeds first.
///
/// # Panics
/// If a seed in the corpus is not the one given here, or if the target panics: the message names the input.
pub fn replay(target: &str, seeds: &[(&str, Vec<u8>)], mutants: usize, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    if std::env::var_os("ETW_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in seeds {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in seeds {
        let stored = std::fs::read(folder.join(name)).unwrap_or_default();
        assert!(stored == *bytes, "{target}/{name} is out of date; ETW_BLESS=1 rewrites it");
    }
    // The corpus also holds the inputs that a fuzzer found.
    let mut inputs: Vec<(String, Vec<u8>)> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(file.path()).unwrap())
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{target} has no inputs");
    for (name, bytes) in &inputs {
        let result = catch_unwind(AssertUnwindSafe(|| run(bytes)));
        assert!(result.is_ok(), "{target}/{name} panics");
    }
    let mut random = Random(1);
    for number in 0..mutants {
        let (name, bytes) = &inputs[random.below(inputs.len())];
        let mutant = random.mutant(bytes);
        let result = catch_unwind(AssertUnwindSafe(|| run(&mutant)));
        assert!(result.is_ok(), "mutant {number} of {target}/{name} panics: {mutant:02x?}");
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end.max(1)
    }

    /// The input with up to five changes: bits flipped, bytes changed, filled, cut out and doubled.
    fn mutant(&mut self, input: &[u8]) -> Vec<u8> {
        let mut mutant = input.to_vec();
        for _ in 0..=self.below(4) {
            let start = self.below(mutant.len());
            let end = (start + self.below(8)).min(mutant.len());
            match self.below(7) {
                0 | 1 if start < mutant.len() => mutant[start] = self.below(256) as u8,
                2 if start < mutant.len() => mutant[start] ^= 1 << self.below(8),
                3 => {
                    let byte = self.below(256) as u8;
                    mutant[start..end].fill(byte);
                }
                4 => mutant.truncate(start),
                5 => drop(mutant.drain(start..end)),
                _ => {
                    let end = (start + self.below(64)).min(mutant.len());
                    mutant.extend_from_within(start..end);
                }
            }
        }
        mutant
    }
}
