//! TRACE_EVENT_INFO blobs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::decode::event_info(data));
