//! Queries on event logs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::evtx::evtx_query(data));
