//! One buffer of a trace, from its bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::etl::buffer(data));
