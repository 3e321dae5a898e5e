//! Tests of the message compiler.

mod corpus;
mod diagnostics;
mod header;
mod large_manifest;
mod message_text;
mod replay;
mod review;
mod rules;
mod rust;
mod speed;
