//! Files at paths of a process: what a path names may differ from what it names here.

use std::ffi::{CString, OsStr};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastLink {
    /// A symbolic link, which is followed.
    Followed,
    /// No symbolic link.
    Refused,
}

impl LastLink {
    /// Flags of `open`. The path may be that of a pipe or terminal.
    fn flags(self) -> libc::c_int {
        let link = if self == LastLink::Refused { libc::O_NOFOLLOW } else { 0 };
        libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY | link
    }
}

/// Opens a regular file to read, by its path in the root directory of a process. The process may write the links on the way: they lead
/// to places in that directory only.
///
/// # Errors
/// Those of the system; there is no such file, or no regular one; a kernel before Linux 5.6, which cannot follow links like that.
pub fn open_in_root(process: u32, path: &Path, last: LastLink) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC);
    let root = options.open(format!("/proc/{process}/root"))?;
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all fields are numbers, for which 0 is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_RDONLY | last.flags()) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: the text ends with a NUL, and the structure has the size that is passed; both outlive the call.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &raw mut how,
            size_of::<libc::open_how>(),
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which nobody else has.
    regular(unsafe { File::from_raw_fd(opened as libc::c_int) })
}

/// Opens a regular file to read, by its path here.
///
/// # Errors
/// Those of the system; there is no such file, or no regular one.
pub fn open_here(path: &Path, last: LastLink) -> io::Result<File> {
    regular(File::options().read(true).custom_flags(last.flags()).open(path)?)
}

fn regular(file: File) -> io::Result<File> {
    let is_regular = file.metadata()?.is_file();
    is_regular.then_some(file).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Whether a process that runs has another root directory than this one: its files can be found only while it runs.
pub(crate) fn has_other_files(process: u32) -> bool {
    let root = |process: &dyn Display| {
        let data = std::fs::metadata(format!("/proc/{process}/root/")).ok()?;
        Some((data.dev(), data.ino()))
    };
    root(&process).is_some_and(|other| root(&"self") != Some(other))
}

/// A path of bytes.
pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};
    use std::os::unix::fs::symlink;

    use super::*;

    /// A process with this root directory; `None`: this user may not make one.
    fn start_in_root(folder: &Path) -> Option<libc::pid_t> {
        let root = CString::new(folder.as_os_str().as_bytes()).unwrap();
        let (mut ready, telling) = pipe().unwrap();
        // SAFETY: the child makes system calls only.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::chroot(root.as_ptr()) != 0 {
                    libc::_exit(1);
                }
                libc::write(telling.as_raw_fd(), root.as_ptr().cast(), 1);
                loop {
                    libc::pause();
                }
            }
            child
        };
        drop(telling);
        let is_ready = ready.read(&mut [0]).unwrap() == 1;
        if !is_ready {
            end(child);
        }
        is_ready.then_some(child)
    }

    fn end(child: libc::pid_t) {
        // SAFETY: a child of this test that has not been reaped.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }

    #[test]
    fn a_process_in_another_root_has_other_files() {
        let folder = std::env::temp_dir().join(format!("etw-other-root-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let Some(child) = start_in_root(&folder) else {
            std::fs::remove_dir(&folder).unwrap();
            return eprintln!("left out: no right to change the root directory");
        };
        let found = [std::process::id(), child as u32, u32::MAX].map(has_other_files);
        end(child);
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(found, [false, true, false]);
    }

    fn text(file: io::Result<File>) -> Option<String> {
        let mut text = String::new();
        file.ok()?.read_to_string(&mut text).ok()?;
        Some(text)
    }

    #[test]
    fn links_of_a_process_lead_to_places_in_its_root() {
        let folder = std::env::temp_dir().join(format!("etw-root-{}", std::process::id()));
        let root = folder.join("root");
        std::fs::create_dir_all(root.join("real")).unwrap();
        std::fs::write(root.join("real/code.map"), "theirs").unwrap();
        // The same path here is that of another file.
        let outside = folder.join("outside");
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("code.map"), "ours").unwrap();
        symlink("/real", root.join("tmp")).unwrap();
        symlink(&outside, root.join("absolute")).unwrap();
        symlink("../../outside", root.join("real/up")).unwrap();
        symlink("code.map", root.join("real/last")).unwrap();
        let child = start_in_root(&root);
        let Some(process) = child else {
            eprintln!("skipped: this user may not change the root directory of a process");
            std::fs::remove_dir_all(folder).unwrap();
            return;
        };
        let open = |path: &str, last| open_in_root(process as u32, Path::new(path), last);
        let found = open("/tmp/code.map", LastLink::Refused);
        let is_unknown = found.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::ENOSYS));
        let found = text(found);
        let escapes = ["/absolute/code.map", "/real/up/code.map"]
            .map(|path| text(open(path, LastLink::Followed)));
        let links =
            [LastLink::Followed, LastLink::Refused].map(|last| text(open("/real/last", last)));
        let is_folder_refused = open("/real", LastLink::Followed).is_err();
        end(process);
        std::fs::remove_dir_all(folder).unwrap();
        if is_unknown {
            eprintln!("skipped: this kernel has no openat2");
            return;
        }
        assert_eq!(found.as_deref(), Some("theirs"));
        assert_eq!(escapes, [None, None]);
        assert_eq!(links, [Some("theirs".to_owned()), None]);
        assert!(is_folder_refused);
    }

    #[test]
    fn devices_are_no_files() {
        assert!(open_here(Path::new("/dev/null"), LastLink::Followed).is_err());
    }
}
