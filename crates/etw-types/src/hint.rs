//! Hints to the compiler.

/// The path to this call is seldom taken. From Rust 1.95 on, `std::hint::cold_path` says so.
#[doc(hidden)]
#[cold]
#[inline]
pub fn cold_path() {}
