//! Tests of the wire from outside.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

mod replay;
