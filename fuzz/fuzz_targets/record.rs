//! A record of a pool.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::host::record(data));
