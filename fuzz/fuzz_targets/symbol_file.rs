//! Symbols of ELF files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::symbols::symbol_file(data));
