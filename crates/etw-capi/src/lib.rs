//! `libetw`: ETW's calls for C and C++ programs, to be linked instead of `advapi32` and `ntdll`.
//!
//! What a C caller promises of each pointer stands in the headers (`include/`), as Microsoft documents it: pointers lead to what
//! their types say or are NULL where that is allowed, and to memory that lives for the call. More cannot be checked here.
//!
//! | header | calls | what is not supported |
//! |---|---|---|
//! | `evntprov.h` | providers and their writes | `EventAccessControl`, `EventAccessQuery`, `EventAccessRemove`: 50 |
//! | `evntrace.h` | `OpenTrace`, `ProcessTrace`, `CloseTrace` on `.etl` files | `PROCESS_TRACE_MODE_REAL_TIME`: 4201; controllers and classic providers are declared and not yet there |
//! | `evntcons.h` | an event as a callback has it | |
//! | `tdh.h` | `TdhGetEventInformation`, `TdhGetProperty`, `TdhFormatProperty`, maps, manifests, WPP | `TdhEnumerateManifestProviderEvents`, `TdhEnumerateProviderFilters`, payload filters: 50; `TdhEnumerateProviderFieldInformation` and `TdhQueryProviderFieldInformation` of anything but keywords: 50; of WPP messages the sequence number: 1168 |
//!
//! What a trace teaches about its events is known on the thread that is in its `ProcessTrace`, and until that returns.

mod abi;
mod consumer;
mod decoding;
mod evntprov;
#[cfg_attr(not(target_os = "linux"), path = "no_evntrace.rs")]
mod evntrace;
mod last_error;
mod loaded;
mod log_sink;
mod private;
mod status;
mod storport;
mod tdh;
