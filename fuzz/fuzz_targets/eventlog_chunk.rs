//! Records of an event log as events, and back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::eventlog::eventlog_chunk(data));
