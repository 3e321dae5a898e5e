//! Settings of a channel as XML.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::eventlog::channel_settings(data));
