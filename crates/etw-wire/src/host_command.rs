//! The command that starts a host of sessions.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The command that starts a host. The host shares no terminal job, working directory or descriptors with the program that starts it.
pub(crate) fn command(program: &Path, arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .current_dir("/");
    // SAFETY: one system call, which is all that a child of a program with threads may do.
    unsafe {
        command.pre_exec(|| {
            // A kernel that does not know it leaves them open.
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        })
    };
    command
}
