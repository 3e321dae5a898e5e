//! A pool that its program has overwritten.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::ring::pool(data));
