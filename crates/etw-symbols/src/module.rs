//! [`Module`]: a file with code, as a trace names it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The name of the kernel's image.
const KERNEL: &str = "vmlinux";
/// The name of the functions that the kernel maps into each process.
const VDSO: &str = "[vdso]";

/// Linux writes this behind the path of a file that has been removed or replaced.
const DELETED: &str = " (deleted)";

/// A file with code, as a trace names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Module {
    /// The path where it was loaded; `vmlinux`: the kernel; `[vdso]`: what it maps into each process.
    pub path: PathBuf,
    /// The first bytes of its build id; empty: it has none.
    pub build_id: Vec<u8>,
    /// The bytes from its first address to its last one, in whole pages; 0: not known.
    pub size: u64,
    /// A moment when it was loaded. A file without a build id that was written later is another one.
    pub loaded: Option<SystemTime>,
    /// A process that loaded it. While it lives, its path may be that of a file in another mount namespace.
    pub process: Option<u32>,
}

impl Module {
    /// The path without Linux' mark of a file that has been removed or replaced. Without a build id it stays, because the file that is at the
    /// path now is another one.
    pub fn unmarked_path(&self) -> &Path {
        let unmarked = self.path.to_str().and_then(|path| path.strip_suffix(DELETED));
        let unmarked = unmarked.filter(|_| !self.build_id.is_empty());
        unmarked.map_or(&self.path, Path::new)
    }

    /// Whether it is the kernel without its modules.
    pub fn is_kernel(&self) -> bool {
        self.path == Path::new(KERNEL)
    }

    /// Whether the kernel maps it into each process, without a file. Without a build id, it is one of the running kernel.
    pub fn is_vdso(&self) -> bool {
        self.path == Path::new(VDSO)
    }
}
