//! Manifests for the message compiler.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::mc::carried_schemas(data));
