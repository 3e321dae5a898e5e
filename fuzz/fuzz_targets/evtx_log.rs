//! A whole event log.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::evtx::evtx_log(data));
