//! Options that private and global sessions share, as methods of both builders.

/// Expands to methods that change a `SessionConfig` through the builder's `with()`.
macro_rules! session_options {
    () => {
        /// Records to this file. An existing file is replaced, unless the session [appends](Self::append). `%d` in the name becomes
        /// the number in a [series](Self::new_file).
        pub fn file(self, path: impl AsRef<std::path::Path>) -> Self {
            self.with(|config| config.file = Some(path.as_ref().to_owned()))
        }

        /// Stops recording when the file has `size` bytes. Later events are lost and counted.
        pub fn max_size(self, size: u64) -> Self {
            self.with(|config| config.mode = LogMode::Sequential { max_size: Some(size) })
        }

        /// Overwrites the oldest buffers of a file of `size` bytes.
        pub fn circular(self, size: u64) -> Self {
            self.with(|config| config.mode = LogMode::Circular { max_size: size })
        }

        /// Starts a new file whenever the current one has `size` bytes.
        pub fn new_file(self, size: u64) -> Self {
            self.with(|config| config.mode = LogMode::NewFile { max_size: size })
        }

        /// Appends to the file if it exists. It must have the same buffer size. Timestamps are system time.
        pub fn append(self) -> Self {
            self.with(|config| {
                (config.mode, config.clock) = (LogMode::Append, SessionClock::System)
            })
        }

        /// Reserves the maximum size of the file at the start.
        pub fn preallocate(self) -> Self {
            self.with(|config| config.preallocate = true)
        }

        /// Compresses each buffer of a file without a maximum size (LZ77, as Windows' own compressed traces). The file has a third
        /// to a tenth of the bytes, and the session's host needs some processor time for it.
        pub fn compressed(self) -> Self {
            self.with(|config| config.compression = Compression::On)
        }

        /// As [`compressed`](Self::compressed), or only the buffers that the disk does not take fast enough.
        pub fn compression(self, compression: Compression) -> Self {
            self.with(|config| config.compression = compression)
        }

        /// Size of a buffer in KiB: 4 to 16384; 64 unless set.
        pub fn buffer_size_kb(self, size: u32) -> Self {
            self.with(|config| config.buffer_size = size.saturating_mul(1024))
        }

        /// Number of buffers; 64 unless set.
        pub fn buffers(self, count: u32) -> Self {
            self.with(|config| config.buffer_count = count)
        }

        /// Stores and delivers partly filled buffers after this time.
        pub fn flush_timer(self, timer: std::time::Duration) -> Self {
            self.with(|config| config.flush_timer = Some(timer))
        }

        /// Uses one stream of buffers for all CPUs.
        pub fn no_per_processor_buffering(self) -> Self {
            self.with(|config| config.per_processor = false)
        }
    };
}

pub(crate) use session_options;
