//! Loaded modules, by which addresses get names later.

use std::ops::Range;
use std::path::PathBuf;

/// A mapping of executable code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Module {
    /// The file, as the loader names it: the program's path, or for the kernel's own object a name that is not a path.
    pub path: PathBuf,
    /// The addresses of the mapping, in whole pages.
    pub range: Range<u64>,
    /// The file offset of the mapping, in bytes: `address - range.start + file_offset` is the file offset of an address.
    pub file_offset: u64,
    /// The difference between addresses in memory and those in the file's headers and symbols.
    pub bias: u64,
    /// The GNU build id (usually 20 bytes), or empty.
    pub build_id: Vec<u8>,
}

/// The loaded modules. Allocates, and takes the loader's lock. Empty on any system but Linux.
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

/// Calls `f` with the descriptions of the ELF notes of an owner and a type in all loaded modules, while the loader's lock is held: `f`
/// must not load or unload. Nothing on any system but Linux.
pub fn notes(owner: &str, note_type: u32, f: &mut dyn FnMut(&[u8])) {
    #[cfg(not(target_os = "linux"))]
    let _ = (owner, note_type, f);
    #[cfg(target_os = "linux")]
    {
        let owner = [owner.as_bytes(), b"\0"].concat();
        crate::object::each(|object| object.notes(&owner, note_type, f));
    }
}

/// The smallest page size. With larger pages a mapping may start before its range and end behind it.
#[cfg(target_os = "linux")]
const PAGE: u64 = 4096;
