//! Message text files for the message compiler.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::mc::mc_message_text(data));
