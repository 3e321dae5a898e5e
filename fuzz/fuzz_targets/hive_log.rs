//! Transaction logs of registry hives.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::windows::hive_log(data));
