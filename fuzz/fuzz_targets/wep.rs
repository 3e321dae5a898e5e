//! WEPExplorer's XML.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::decode::wep(data));
