//! TraceLogging metadata and a payload.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::decode::event_metadata(data));
