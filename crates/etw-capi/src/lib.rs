//! `libetw`: ETW's calls for C and C++ programs, to be linked instead of `advapi32` and `ntdll`.
//!
//! The headers (`include/`) state the promises of a C caller, as Microsoft documents them: a pointer leads to memory of its type that
//! lives for the call, or is NULL where that is allowed. The library cannot check more.
//!
//! | header | calls | what is not supported |
//! |---|---|---|
//! | `evntprov.h` | providers and their writes | `EventAccessControl`, `EventAccessQuery`, `EventAccessRemove`: 50 |
//! | `evntrace.h` | `OpenTrace`, `OpenTraceFromFile`, `OpenTraceFromRealTimeLogger`, `ProcessTrace`, `CloseTrace` on `.etl` files and real-time sessions | a session beside files in one `ProcessTrace`: 87 |
//! | `evntrace.h` | `StartTrace`, `ControlTrace`, `QueryAllTraces`, `EnableTrace`, `EnableTraceEx`, `EnableTraceEx2`, `EnumerateTraceGuids`, `EnumerateTraceGuidsEx`, `TraceQueryInformation`, `TraceSetInformation` (classes 3, 4, 5): global sessions on Linux, those of the system's events too, private ones of this process | `EVENT_TRACE_CONTROL_INCREMENT_FILE`, `…_CONVERT_TO_REALTIME`, relogging, messages numbered over all sessions (`EVENT_TRACE_USE_GLOBAL_SEQUENCE`), filters of packages and containers, `PSM_KEY`, `EVENT_KEY` and containers, other classes of `TraceSetInformation`: 50; `SourceId` is the session's; other systems: 50 |
//! | `evntrace.h` | classic providers: `RegisterTraceGuids`, `TraceEvent`, `TraceEventInstance`, `TraceMessage`, … | events by handles of `StartTrace`: 6; events of the system's classes: 5; `WNODE_FLAG_LOG_WNODE`, `WNODE_FLAG_NO_HEADER`: 186; MOF resources of a registration are not read |
//! | `evntcons.h` | an event as a callback has it | |
//! | `tdh.h` | `TdhGetEventInformation`, `TdhGetProperty`, `TdhFormatProperty`, maps, manifests, WPP | `TdhEnumerateProviderFilters`: 50; payload filters of fields behind one whose length another field tells, and of texts of a length of the manifest's: 50; of WPP messages the sequence number: 1168 |
//! | `winternl.h` | `NtQuerySystemInformation`, `NtSetSystemInformation`: group masks of a session (class 31) | other classes: `STATUS_INVALID_INFO_CLASS` |
//! | `winevt.h` | queries, subscriptions, events, bookmarks, logs as files and by channel, settings of channels, publishers of manifests | `EvtOpenSession`, `EvtArchiveExportedLog`, exports of several logs: 50 |
//! | `winbase.h` | `ReportEvent`, and the classic calls on logs: `OpenEventLog`, `ReadEventLog`, `BackupEventLog`, `ClearEventLog`, `NotifyChangeEventLog` | |
//!
//! `StartTrace` starts a host of sessions where none runs: `ETW_DAEMON`, else `etwd` or `etw` of `PATH`, with `daemon --idle-exit 10` and
//! the runtime directory.
//!
//! Schemas that a trace contains are available on the thread of its `ProcessTrace`, until that returns.

mod abi;
mod classic;
mod consumer;
mod decoding;
mod event_sources;
mod evntprov;
#[cfg_attr(not(target_os = "linux"), path = "no_evntrace.rs")]
mod evntrace;
mod last_error;
mod loaded;
mod log_sink;
mod ntdll;
mod private;
mod procedures;
mod status;
mod storport;
mod tdh;
mod winevt;
mod write;
