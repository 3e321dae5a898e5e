//! Memory that killed programs left and whose traces were removed.

use crate::format::safe;
use etw_host::part::remove_orphaned_memory;

/// Removes the memory that no recovery can find any more, and reports it.
pub fn remove() {
    for memory in remove_orphaned_memory() {
        let what = format!(
            "removed {} ({} KiB): the memory of a killed program, whose trace {} has no .part any more",
            memory.path.display(),
            memory.size / 1024,
            memory.trace().display()
        );
        eprintln!("etw: note: {}", safe(&what));
    }
}
