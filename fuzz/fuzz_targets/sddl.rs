//! Rights of a log as SDDL.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::eventlog::sddl(data));
