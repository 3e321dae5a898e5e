//! Headers of `.part` files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::host::part_header(data));
