//! Records decoded by TraceLogging metadata, TRACE_EVENT_INFO, manifests and the table of the EventTrace group.

mod compiled_manifests;
mod corpus;
mod event_info;
mod event_trace;
mod hostile;
mod replay;
mod support;
mod tracelogging;
