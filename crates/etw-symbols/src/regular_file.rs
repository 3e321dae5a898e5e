//! Opening a file, unless it is something else or too large.

use std::fs::File;
use std::path::Path;

/// The largest file that is read.
pub(crate) const MAX_FILE: u64 = 4 << 30;

/// Opens a regular file; `None`: it does not exist, or is too large.
pub(crate) fn open(path: &Path) -> Option<File> {
    let mut options = File::options();
    // A pipe without a writer would block.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NONBLOCK | libc::O_NOCTTY,
    );
    let file = options.read(true).open(path).ok()?;
    let data = file.metadata().ok()?;
    (data.is_file() && data.len() <= MAX_FILE).then_some(file)
}
