//! One chunk of an event log.
