//! LZNT1 streams.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::decode::lznt1(data));
