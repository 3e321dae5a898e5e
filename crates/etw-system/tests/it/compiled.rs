//! Programs in C for tests, compiled where there is a compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder of a test, which is deleted in the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("etw-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles a program or a library. `None`: there is no compiler.
pub fn compile(folder: &Path, text: &str, name: &str, options: &[&str]) -> Option<PathBuf> {
    let (source, to) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new("cc");
    command.arg("-O1").args(options).arg("-o").args([&to, &source]).arg("-ldl");
    let status = command.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success()).then_some(to)
}
