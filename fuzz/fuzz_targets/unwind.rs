//! Copies of programs' stacks, and the files whose rules walk them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::unwind::unwind(data));
