//! TraceLogging metadata of programs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::decode::program_metadata(data));
