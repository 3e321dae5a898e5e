//! [`Module`]: a file with code, as a trace names it.

use std::path::{Path, PathBuf};

/// The name of the kernel's image.
const KERNEL: &str = "vmlinux";

/// A file with code, as a trace names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Module {
    /// The path where it was loaded; `vmlinux`: the kernel.
    pub path: PathBuf,
    /// The first bytes of its build id; empty: not known.
    pub build_id: Vec<u8>,
}

impl Module {
    /// Whether it is the kernel without its modules.
    pub fn is_kernel(&self) -> bool {
        self.path == Path::new(KERNEL)
    }
}
