//! Configurations, sources and templates for the WPP preprocessor.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::tracewpp::wpp_source(data));
