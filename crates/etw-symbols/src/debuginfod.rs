//! Debug files of `debuginfod` servers.
//!
//! The servers, their protocol and the cache are those of elfutils: `debuginfod-find` asks the servers that `DEBUGINFOD_URLS`
//! names and keeps what it received in its own folder. Without that program only its folder is searched.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The debug file of a whole build id.
pub(crate) fn find(build_id: &[u8]) -> Option<PathBuf> {
    if build_id.is_empty() {
        return None;
    }
    let id = hex(build_id);
    let cached = cache_folder().map(|folder| folder.join(&id).join("debuginfo"));
    // A server that does not have the file leaves an empty one.
    let is_cached = |path: &PathBuf| path.metadata().is_ok_and(|data| data.len() > 0);
    if let Some(path) = cached.filter(is_cached) {
        return Some(path);
    }
    let mut command = Command::new("debuginfod-find");
    command.args(["debuginfo", &id]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let path = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(path.trim_end())).filter(is_cached)
}

/// The folder in which `debuginfod-find` keeps files.
fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let inside = |folder: OsString| PathBuf::from(folder).join("debuginfod_client");
    if let Some(folder) = set("DEBUGINFOD_CACHE_PATH") {
        return Some(PathBuf::from(folder));
    }
    let home = || Some(PathBuf::from(set("HOME")?).join(".cache").into_os_string());
    set("XDG_CACHE_HOME").or_else(home).map(inside)
}

/// Lowercase hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
