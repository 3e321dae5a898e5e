//! What records decode to: by TraceLogging metadata, by TRACE_EVENT_INFO, by what is known of the EventTrace group.

mod compiled_manifests;
mod corpus;
mod event_info;
mod event_trace;
mod hostile;
mod replay;
mod support;
mod tracelogging;
