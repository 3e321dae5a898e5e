//! Tests of the `.evtx` container.

mod corpus;
mod damage;
mod evt;
mod hostile;
mod inline;
mod library;
mod log_writer;
mod query;
mod reencode;
mod replay;
mod xpath;
