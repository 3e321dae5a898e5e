//! Tests of the `.evtx` container.

mod corpus;
mod hostile;
mod log_writer;
mod query;
mod reencode;
mod replay;
mod xpath;
