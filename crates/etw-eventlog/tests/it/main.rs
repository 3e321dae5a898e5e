//! Event logs as traces, events in event logs.

mod export;
mod kept_log;
mod reading;
mod replay;
mod trace;
