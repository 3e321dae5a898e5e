//! The crate from outside: published vectors, round trips, Microsoft's writer, and hostile blobs.

mod dynamic;
mod hostile;
mod random;
mod round_trip;
mod vectors;
