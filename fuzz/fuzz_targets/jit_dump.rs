//! jitdump files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::symbols::jit_dump(data));
