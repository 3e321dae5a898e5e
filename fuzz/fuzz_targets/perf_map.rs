//! Perf maps and kernel symbols.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::symbols::perf_map(data));
