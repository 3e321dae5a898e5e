//! C programs, compiled with what compilers there are, linked with the library and run.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

mod classic;
mod consumer;
mod consumer_layouts;
mod controller;
mod event_sources;
mod expected;
mod guide;
mod hostile;
mod layouts;
mod linux_headers;
mod log_sink;
mod manifests;
mod mimalloc;
mod misuse;
mod msquic;
mod registrations;
mod storport;
mod support;
mod threads;
mod tracelogging;
mod tracelogging_macros;
mod tracelogging_values;
mod unsafe_clauses;
mod wide_strings;
mod windows_headers;
mod windows_samples;
mod winevt;
mod wpp;
mod write_calls;
