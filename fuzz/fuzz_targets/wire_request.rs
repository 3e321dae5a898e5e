//! Requests of controllers and answers of hosts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::wire::request(data));
