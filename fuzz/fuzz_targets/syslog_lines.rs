//! Lines of syslog.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::eventlog::syslog_lines(data));
