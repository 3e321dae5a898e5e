//! `LogFileMode`: how a session uses its output, as the bits that controllers pass and file headers store.

flags! {
    /// The logging mode of a session (`EVENT_TRACE_PROPERTIES.LogFileMode`), also stored in the header of its file.
    ///
    /// Values as in Microsoft's "Logging Mode Constants".
    ///
    /// ```
    /// use etw_types::LogFileMode;
    ///
    /// let mode = LogFileMode::CIRCULAR | LogFileMode::USE_KBYTES_FOR_SIZE;
    /// assert!(mode.contains(LogFileMode::CIRCULAR));
    /// assert_eq!(mode.to_string(), "EVENT_TRACE_FILE_MODE_CIRCULAR | EVENT_TRACE_USE_KBYTES_FOR_SIZE");
    /// assert_eq!(LogFileMode(0x0020_0000).to_string(), "0x200000");
    /// ```
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    LogFileMode(u32) {
        /// Stop at the maximum size.
        SEQUENTIAL = 0x0000_0001, "EVENT_TRACE_FILE_MODE_SEQUENTIAL";
        /// Overwrite the oldest buffers at the maximum size.
        CIRCULAR = 0x0000_0002, "EVENT_TRACE_FILE_MODE_CIRCULAR";
        /// Append to an existing file.
        APPEND = 0x0000_0004, "EVENT_TRACE_FILE_MODE_APPEND";
        /// Start a new file at the maximum size. The file's name contains `%d`.
        NEWFILE = 0x0000_0008, "EVENT_TRACE_FILE_MODE_NEWFILE";
        /// The flush timer is in milliseconds.
        USE_MS_FLUSH_TIMER = 0x0000_0010, "EVENT_TRACE_USE_MS_FLUSH_TIMER";
        /// Reserve the maximum size when the session starts.
        PREALLOCATE = 0x0000_0020, "EVENT_TRACE_FILE_MODE_PREALLOCATE";
        /// The session cannot be stopped.
        NONSTOPPABLE = 0x0000_0040, "EVENT_TRACE_NONSTOPPABLE_MODE";
        /// Only events of privileged users and of the session's owner are recorded.
        SECURE = 0x0000_0080, "EVENT_TRACE_SECURE_MODE";
        /// Consumers receive the events.
        REAL_TIME = 0x0000_0100, "EVENT_TRACE_REAL_TIME_MODE";
        /// Open the file when the first event arrives.
        DELAY_OPEN_FILE = 0x0000_0200, "EVENT_TRACE_DELAY_OPEN_FILE_MODE";
        /// Keep events in memory only.
        BUFFERING = 0x0000_0400, "EVENT_TRACE_BUFFERING_MODE";
        /// A private session.
        PRIVATE_LOGGER = 0x0000_0800, "EVENT_TRACE_PRIVATE_LOGGER_MODE";
        /// Add a header to a file of a private session.
        ADD_HEADER = 0x0000_1000, "EVENT_TRACE_ADD_HEADER_MODE";
        /// The maximum size is in KiB.
        USE_KBYTES_FOR_SIZE = 0x0000_2000, "EVENT_TRACE_USE_KBYTES_FOR_SIZE";
        /// Trace messages carry sequence numbers that are unique across sessions.
        USE_GLOBAL_SEQUENCE = 0x0000_4000, "EVENT_TRACE_USE_GLOBAL_SEQUENCE";
        /// Trace messages carry sequence numbers of this session.
        USE_LOCAL_SEQUENCE = 0x0000_8000, "EVENT_TRACE_USE_LOCAL_SEQUENCE";
        /// Records keep headers and times of other sessions: a relogger wrote the file.
        RELOG = 0x0001_0000, "EVENT_TRACE_RELOG_MODE";
        /// A private session whose process starts it.
        PRIVATE_IN_PROC = 0x0002_0000, "EVENT_TRACE_PRIVATE_IN_PROC";
        /// Reserved by Microsoft.
        RESERVED = 0x0010_0000, "EVENT_TRACE_MODE_RESERVED";
        /// Stop at a hybrid shutdown.
        STOP_ON_HYBRID_SHUTDOWN = 0x0040_0000, "EVENT_TRACE_STOP_ON_HYBRID_SHUTDOWN";
        /// Continue over a hybrid shutdown.
        PERSIST_ON_HYBRID_SHUTDOWN = 0x0080_0000, "EVENT_TRACE_PERSIST_ON_HYBRID_SHUTDOWN";
        /// Buffers are in pageable memory.
        USE_PAGED_MEMORY = 0x0100_0000, "EVENT_TRACE_USE_PAGED_MEMORY";
        /// The session records system events.
        SYSTEM_LOGGER = 0x0200_0000, "EVENT_TRACE_SYSTEM_LOGGER_MODE";
        /// Buffers are compressed.
        COMPRESSED = 0x0400_0000, "EVENT_TRACE_COMPRESSED_MODE";
        /// The session neither blocks other sessions nor is blocked by them.
        INDEPENDENT_SESSION = 0x0800_0000, "EVENT_TRACE_INDEPENDENT_SESSION_MODE";
        /// One stream for all CPUs.
        NO_PER_PROCESSOR_BUFFERING = 0x1000_0000, "EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING";
        /// Writers wait for free buffers.
        BLOCKING = 0x2000_0000, "EVENT_TRACE_BLOCKING_MODE";
        /// Buffers are added to triage dumps.
        ADDTO_TRIAGE_DUMP = 0x8000_0000, "EVENT_TRACE_ADDTO_TRIAGE_DUMP";
    }
}

#[cfg(test)]
mod tests {
    use super::LogFileMode;

    #[test]
    fn modes_print_microsofts_names_and_the_rest_in_hexadecimal() {
        assert_eq!(LogFileMode::NONE.to_string(), "0");
        let mode = LogFileMode::SEQUENTIAL | LogFileMode::COMPRESSED | LogFileMode(0x0008_0000);
        assert_eq!(
            mode.to_string(),
            "EVENT_TRACE_FILE_MODE_SEQUENTIAL | EVENT_TRACE_COMPRESSED_MODE | 0x80000"
        );
        assert_eq!(format!("{:?}", LogFileMode(0)), "LogFileMode(0)");
    }

    #[test]
    fn contains_asks_for_all_flags_and_intersects_for_one() {
        let mode = LogFileMode::PRIVATE_LOGGER;
        let both = LogFileMode::PRIVATE_LOGGER.union(LogFileMode::PRIVATE_IN_PROC);
        assert!(!mode.contains(both) && mode.intersects(both));
        assert_eq!(both.without(mode), LogFileMode::PRIVATE_IN_PROC);
        assert_eq!(mode.when(false), LogFileMode::NONE);
    }
}
