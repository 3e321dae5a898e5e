//! Notes of ELF files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::stack::elf_notes(data));
