//! Names of functions for addresses.
//!
//! * [`Symbolizer`]: finds the file of a [`Module`], keeps it in memory, and answers addresses;
//! * [`SymbolFile`]: the symbols and debug information of one ELF file;
//! * [`Search`]: the folders and servers where files are searched;
//! * [`KernelSymbols`]: the running kernel's symbols;
//! * [`perf_map`], [`jit_dump`]: code that was compiled at run time.

mod bytes;
mod debug_data;
mod debuginfod;
pub mod jit_dump;
mod kernel;
mod mangling;
mod module;
mod module_file;
pub mod perf_map;
mod regular_file;
mod scopes;
mod search;
mod sections;
mod split;
mod stubs;
mod symbol_file;
mod symbolizer;
mod trampolines;
mod vdso;

pub use kernel::KernelSymbols;
pub use module::Module;
pub use search::Search;
pub use symbol_file::{DebugLink, SymbolFile};
pub use symbolizer::Symbolizer;

use std::sync::Arc;

/// A function and an address in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name, demangled.
    pub name: Arc<str>,
    /// Bytes between its start and the address.
    pub offset: u64,
}

/// A function of a call stack. Several of them have one address if the compiler inlined calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The name, demangled.
    pub name: Arc<str>,
    /// The source file, if debug information has it.
    pub file: Option<Arc<str>>,
    /// The line in that file.
    pub line: Option<u32>,
    /// Bytes between the function's first one and the address; `None`: it is inlined, or nothing says where it begins.
    pub offset: Option<u64>,
}

/// The functions at an address, the innermost inlined one first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    all: Vec<Frame>,
    /// The handler of a signal returns here, or would to the next byte: the caller is the interrupted instruction itself, and no call in front of it.
    pub is_signal_trampoline: bool,
}

impl std::ops::Deref for Frames {
    type Target = [Frame];

    fn deref(&self) -> &[Frame] {
        &self.all
    }
}

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
