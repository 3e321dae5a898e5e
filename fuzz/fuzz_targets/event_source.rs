//! Manifest chunks of an EventSource.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::decode::event_source(data));
