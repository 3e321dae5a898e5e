//! Outputs of the preprocessor.

mod formats;
mod outputs;
mod replay;
