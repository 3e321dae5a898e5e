//! Files of recording profiles.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::recording_profile::profiles(data));
