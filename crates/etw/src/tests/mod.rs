//! Tests of the macros that look at what a host receives.

mod fields;
