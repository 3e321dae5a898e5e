//! Entries of systemd's journal.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::eventlog::journal(data));
