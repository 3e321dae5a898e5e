//! LZXPRESS streams.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::etl::lzxpress(data));
