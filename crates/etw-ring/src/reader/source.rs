//! The memory of a pool's segments, as the host reads it.

#[cfg(target_os = "linux")]
use std::io;
use std::sync::Arc;

use crate::sys::Memory;

/// A segment's memory, as the host reads it.
#[derive(Debug)]
pub enum Source {
    /// Mapped memory: a private session's pool, or a file that was a pool.
    Mapped(Arc<Memory>),
    /// A descriptor, read with `pread`: holes in the file cost nothing, and no access raises SIGBUS.
    #[cfg(unix)]
    File(std::fs::File),
}

impl Source {
    /// A segment received from another process.
    ///
    /// # Errors
    /// See [`check_pool_fd`](crate::check_pool_fd).
    #[cfg(target_os = "linux")]
    pub fn received(fd: std::os::fd::OwnedFd) -> io::Result<Source> {
        use std::os::fd::AsFd;
        crate::sys::check_pool_fd(fd.as_fd())?;
        Ok(Source::File(fd.into()))
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Source::Mapped(memory) => memory.len() as u64,
            #[cfg(unix)]
            Source::File(file) => file.metadata().map_or(0, |m| m.len()),
        }
    }

    /// Reads bytes; zeros if they cannot be read.
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) {
        match self {
            Source::Mapped(memory) => {
                if offset.checked_add(out.len()).is_some_and(|end| end <= memory.len()) {
                    memory.read(offset, out);
                } else {
                    out.fill(0);
                }
            }
            #[cfg(unix)]
            Source::File(file) => {
                use std::os::unix::fs::FileExt;
                if file.read_exact_at(out, offset as u64).is_err() {
                    out.fill(0);
                }
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) source: Arc<Source>,
    pub(super) base: usize,
    pub(super) units: usize,
}
