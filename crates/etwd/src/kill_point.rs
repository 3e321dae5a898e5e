//! Places in which tests end the worker.

/// Ends this process as `kill -9` does, where `ETWD_FAULT` is `point:file` and the file is there: it is removed first, so that the next
/// worker lives. Where the file says `panic`, the thread panics instead. Only in builds with debug assertions.
pub(crate) fn kill_point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Ok(wanted) = std::env::var("ETWD_FAULT") else { return };
    let Some((_, file)) = wanted.split_once(':').filter(|(point, _)| *point == name) else {
        return;
    };
    let what = std::fs::read_to_string(file);
    if std::fs::remove_file(file).is_ok() {
        assert_ne!(what.ok().as_deref(), Some("panic"), "as a test wants it");
        // SAFETY: numbers; this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
