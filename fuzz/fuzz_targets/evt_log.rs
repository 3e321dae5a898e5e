//! A whole event log of Windows XP.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::evtx::evt_log(data));
