//! Event logs as traces, events in event logs.

mod kept_log;
mod reading;
mod replay;
mod trace;
