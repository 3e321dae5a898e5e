//! Windows trees made here: hives by another implementation of the format, programs byte by byte.

mod gathering;
mod hive_writer;
mod hives;
mod pe;
mod tree;
