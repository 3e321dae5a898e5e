//! Loaded modules, for whoever gives names to addresses later.

use std::ops::Range;
use std::path::PathBuf;

/// A mapping of executable code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Module {
    /// The file, as the loader names it: the program by its path, the kernel's own object by a name that is no path.
    pub path: PathBuf,
    /// The addresses of the mapping, in whole pages.
    pub range: Range<u64>,
    /// Where the mapping begins in the file, in bytes: `address - range.start + file_offset` is the address's place there.
    pub file_offset: u64,
    /// What loading has added to the addresses in the file's headers and symbols.
    pub bias: u64,
    /// The GNU build id (20 bytes as a rule), or empty.
    pub build_id: Vec<u8>,
}

/// The modules that are loaded now. Allocates, and takes the loader's lock. Empty elsewhere than on Linux.
pub fn modules() -> Vec<Module> {
    #[cfg(not(target_os = "linux"))]
    {
        Vec::new()
    }
    #[cfg(target_os = "linux")]
    {
        let mut modules = Vec::new();
        crate::object::each(|object| {
            for segment in object.segments().filter(|s| s.executable) {
                // The loader maps whole pages of the file (gABI, "Program loading").
                let before = segment.range.start % PAGE;
                let end = segment.range.end.checked_next_multiple_of(PAGE);
                modules.push(Module {
                    path: object.path(),
                    range: segment.range.start - before..end.unwrap_or(u64::MAX),
                    file_offset: segment.file_offset.saturating_sub(before),
                    bias: object.bias,
                    build_id: object.build_id(),
                });
            }
        });
        modules
    }
}

/// The smallest page: with larger ones a mapping may begin before and end behind its range.
#[cfg(target_os = "linux")]
const PAGE: u64 = 4096;
