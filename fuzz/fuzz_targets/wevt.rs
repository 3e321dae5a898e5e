//! WEVT_TEMPLATE resources.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::decode::wevt(data));
