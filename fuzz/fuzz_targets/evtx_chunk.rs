//! One chunk of an event log.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::evtx::evtx_chunk(data));
