//! The file of a registry's changes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::eventlog::channel_changes(data));
