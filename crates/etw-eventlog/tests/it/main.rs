//! Event logs as traces.

mod trace;
