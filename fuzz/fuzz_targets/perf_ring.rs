//! Records of the kernel's perf rings.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::system::ring(data));
