//! Points at which tests end the process as `kill -9` does, or hold it.

/// Kills this process if the environment variable `ETWD_FAULT` is `NAME:FILE` and FILE exists. The file is removed first, so
/// that the next worker survives. A word in the file asks for something else: `panic` for a panic of the thread, `panic always` for one
/// that leaves the file, `hold` for a wait until the file is removed.
/// Release builds do nothing.
#[doc(hidden)]
pub fn kill_point(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Ok(armed) = std::env::var("ETWD_FAULT") else { return };
    let Some((_, file)) = armed.split_once(':').filter(|(point, _)| *point == name) else {
        return;
    };
    let action = std::fs::read_to_string(file);
    if action.as_deref().ok() == Some("hold") {
        while std::path::Path::new(file).exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        return;
    }
    assert_ne!(action.as_deref().ok(), Some("panic always"), "a test asked for this panic");
    if std::fs::remove_file(file).is_ok() {
        assert_ne!(action.ok().as_deref(), Some("panic"), "a test asked for this panic");
        #[cfg(unix)]
        // SAFETY: the arguments are numbers; the signal goes to this process.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
    }
}
