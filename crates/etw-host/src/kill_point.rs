//! Points at which tests end the process as `kill -9` does, or hold it.

/// Kills this process if the environment variable `ETWD_FAULT` is `NAME:FILE` and FILE exists. The file is removed first: the next
/// process goes on past this point. Release builds do nothing.
///
/// | content of the file | what happens instead |
/// |---|---|
/// | `panic` | the thread panics |
/// | `panic always` | the thread panics, and the file stays |
/// | `hold` | the thread waits until the file is removed; meanwhile the content is `held` |
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
    if matches!(action.as_deref(), Ok("hold" | "held")) {
        // Not created again: the test may have removed it meanwhile.
        let held = std::fs::OpenOptions::new().write(true).truncate(true).open(file);
        let _ = held.and_then(|mut file| std::io::Write::write_all(&mut file, b"held"));
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
