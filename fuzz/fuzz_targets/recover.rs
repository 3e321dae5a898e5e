//! Session buffers of a killed host.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::host::recover(data));
