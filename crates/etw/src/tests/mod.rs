//! Tests of the macros and of the builder that look at what a host receives.

mod builder;
mod events;
mod fields;
mod shapes;
mod theirs;
