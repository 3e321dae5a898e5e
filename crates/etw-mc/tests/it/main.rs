//! Tests of the message compiler.

mod corpus;
mod diagnostics;
mod header;
mod replay;
mod review;
mod rust;
mod speed;
