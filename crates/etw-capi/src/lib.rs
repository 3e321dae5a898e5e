//! `libetw`: ETW's calls for C and C++ programs, to be linked instead of `advapi32` and `ntdll`.
//!
//! What a C caller promises of each pointer stands in the headers (`include/`), as Microsoft documents it: pointers lead to what
//! their types say or are NULL where that is allowed, and to memory that lives for the call. More cannot be checked here.

mod abi;
mod consumer;
mod decoding;
mod evntprov;
mod last_error;
mod loaded;
mod log_sink;
mod private;
mod status;
mod storport;
mod tdh;
