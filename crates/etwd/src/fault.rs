//! Places in which tests kill the worker.

/// Ends this process as `kill -9` does, where `ETWD_FAULT` is `point:file` and the file is there: it is removed first, so that the next
/// worker lives. Only in builds with debug assertions.
pub(crate) fn point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Ok(wanted) = std::env::var("ETWD_FAULT") else { return };
    if let Some((point, file)) = wanted.split_once(':')
        && point == name
        && std::fs::remove_file(file).is_ok()
    {
        // SAFETY: numbers; this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
