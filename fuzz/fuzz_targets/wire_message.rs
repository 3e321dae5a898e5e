//! Messages of programs and hosts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::wire::message(data));
