//! Links of the chain that belong to a process: its state, its descriptors, its environment, its namespaces.

use super::control_group::ControlGroup;
use super::{Report, user};
use etw_types::time_namespace_offset;
use etw_wire::runtime_directory as dir;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Descriptors that a program or host may need at any moment: a socket, memory, an event.
const SPARE_DESCRIPTORS: usize = 8;
/// The variable that keeps programs from waiting for a host.
const LISTENER: &str = "ETW_LISTENER";

/// Values of variables in a process's environment when it started.
fn environment(pid: u32) -> Option<Vec<(String, String)>> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let each = bytes.split(|byte| *byte == 0).filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    Some(each.collect())
}

pub fn check_process(report: &mut Report, pid: u32, directory: &Path) {
    const LINK: &str = "process";
    let Ok(metadata) = std::fs::metadata(format!("/proc/{pid}")) else {
        if is_hidden(pid) {
            let what = format!("process {pid} runs, and /proc hides it from you (hidepid)");
            return report.wrong(LINK, what, "run etw doctor as that process's user or as root");
        }
        return report.wrong(LINK, format!("there is no process {pid}"), "ps lists processes");
    };
    if metadata.uid() != user() && metadata.uid() != 0 && directory != Path::new(dir::SYSTEM) {
        let what = format!(
            "process {pid} belongs to user {}, whose programs use another host",
            metadata.uid()
        );
        let fix = "record it as that user, or with the machine's host (--system-host)";
        report.wrong(LINK, what, fix);
    }
    check_files_of_process(report, pid, directory);
    check_running_process(report, LINK, pid);
    check_clock_of_process(report, pid);
    ControlGroup::of(&pid.to_string()).check(report, &format!("process {pid}"));
    if dir::variable(dir::VARIABLE).is_some() && has_more_rights_than_its_user(pid) {
        let what = format!(
            "process {pid} has more rights than its user (setuid or file capabilities), so it ignores {}",
            dir::VARIABLE
        );
        let fix =
            format!("record it with the machine's host: etw daemon {}, --system-host", dir::SYSTEM);
        return report.wrong(LINK, what, fix);
    }
    let Some(environment) = environment(pid) else {
        return report.note(LINK, format!("the environment of process {pid} cannot be read"));
    };
    let value =
        |name: &str| environment.iter().find(|(n, _)| n == name).map(|(_, v)| PathBuf::from(v));
    match (value(dir::RECORD_VARIABLE), value(dir::VARIABLE)) {
        (Some(record), _) => {
            report.note(
                LINK,
                format!("etw record started process {pid} with a host in {}", record.display()),
            );
        }
        (None, Some(named)) if named != directory => {
            let what = format!(
                "{} of process {pid} is {}, not {}",
                dir::VARIABLE,
                named.display(),
                directory.display()
            );
            let fix = format!("start the program with {}={}", dir::VARIABLE, directory.display());
            report.wrong(LINK, what, fix);
        }
        (None, None) if dir::variable(dir::VARIABLE).is_some() => {
            let what = format!("process {pid} was started without {}", dir::VARIABLE);
            let fix = format!("start the program with {}={}", dir::VARIABLE, directory.display());
            report.wrong(LINK, what, fix);
        }
        _ => report.ok(LINK, format!("process {pid} looks for the same host")),
    }
}

/// Whether a process exists that this user may not see.
fn is_hidden(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: numbers; signal 0 only asks whether the process exists.
    let error = unsafe { libc::kill(pid, 0) };
    error != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// Checks that a process has the clock of this one: a time namespace may have another.
fn check_clock_of_process(report: &mut Report, pid: u32) {
    let of = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/time")).ok();
    if of(&pid.to_string()) == of("self") {
        return;
    }
    let text = std::fs::read_to_string(format!("/proc/{pid}/timens_offsets")).unwrap_or_default();
    let offset = time_namespace_offset(&text, "monotonic").unwrap_or(0);
    let seconds = offset / 1_000_000_000;
    if seconds == 0 {
        return;
    }
    let what = format!(
        "the clock of process {pid} differs from the host's by {seconds} s (a time namespace): its events have wrong times or are late"
    );
    report.wrong(
        "clock",
        what,
        "start the program without a time namespace (unshare --time), or run etw record in it",
    );
}

/// Whether a process contains the library of providers: libetw, or the crate in its program. `None`: it cannot be read.
pub fn contains_library(pid: u32) -> Option<bool> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    if maps.lines().any(|line| line.contains("/libetw")) {
        return Some(true);
    }
    let program = std::fs::File::open(format!("/proc/{pid}/exe")).ok()?;
    contains(program, dir::VARIABLE.as_bytes()).ok()
}

/// Whether a text occurs in a file.
fn contains(mut file: impl Read, text: &[u8]) -> std::io::Result<bool> {
    let (mut bytes, mut kept) = (vec![0; 1 << 20], 0);
    loop {
        let size = file.read(&mut bytes[kept..])?;
        let end = kept + size;
        if bytes[..end].windows(text.len()).any(|window| window == text) {
            return Ok(true);
        }
        if size == 0 {
            return Ok(false);
        }
        // The text may continue in the next part.
        kept = end.min(text.len() - 1);
        bytes.copy_within(end - kept..end, 0);
    }
}

/// Whether a seccomp filter decides which system calls a process may make.
pub fn has_filter_of_calls(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))
}

/// Checks that a process in a container or a chroot sees the runtime directory.
fn check_files_of_process(report: &mut Report, pid: u32, directory: &Path) {
    const LINK: &str = "container";
    let is_other = |namespace: &str| {
        let of = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/{namespace}")).ok();
        let theirs = of(&pid.to_string());
        theirs.is_some() && theirs != of("self")
    };
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let chroot = std::fs::read_link(&root).ok().filter(|root| root != Path::new("/"));
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let path = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let inside = identity(&root.join(path.strip_prefix("/").unwrap_or(&path)));
    let sees_directory = inside.is_some() && inside == identity(directory);
    let shown = directory.display();
    if let Some(chroot) = chroot.filter(|_| !sees_directory) {
        let chroot = chroot.display();
        let what = format!("process {pid} runs in the chroot {chroot}: it does not see {shown}");
        let fix =
            format!("mount --bind {shown} {chroot}{}, or run etw record in it", path.display());
        report.wrong(LINK, what, fix);
    } else if is_other("mnt") && !sees_directory && path.starts_with("/tmp") {
        let what = format!("process {pid} has a /tmp of its own, and does not see {shown}");
        let fix = format!(
            "set PrivateTmp=no in its service, or {} to a directory outside of /tmp",
            dir::VARIABLE
        );
        report.wrong(LINK, what, fix);
    } else if is_other("mnt") && !sees_directory {
        let what = format!("process {pid} runs in a container: it does not see {shown}");
        let fix = "mount the host's runtime directory into the container, or run etw record in it";
        report.wrong(LINK, what, fix);
    } else if is_other("mnt") || is_other("pid") || is_other("user") {
        report.ok(LINK, format!("process {pid} runs in a container, and sees {shown}"));
    }
}

/// Whether the kernel told the program that it has more rights than its user.
fn has_more_rights_than_its_user(pid: u32) -> bool {
    let Ok(bytes) = std::fs::read(format!("/proc/{pid}/auxv")) else { return false };
    is_secure(&bytes)
}

/// Whether an auxiliary vector has `AT_SECURE`.
fn is_secure(auxiliary: &[u8]) -> bool {
    const WORD: usize = size_of::<usize>();
    let words: Vec<usize> = auxiliary
        .chunks_exact(WORD)
        .map(|word| usize::from_ne_bytes(word.try_into().unwrap_or_default()))
        .collect();
    words.chunks_exact(2).any(|pair| pair[0] == libc::AT_SECURE as usize && pair[1] != 0)
}

/// Checks that a process runs, and may open more files.
pub fn check_running_process(report: &mut Report, link: &str, pid: u32) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    match read("stat").as_deref().and_then(state) {
        Some('T' | 't') => {
            let what = format!("process {pid} is stopped, so it does nothing");
            report.wrong(link, what, format!("kill -CONT {pid}, or leave the debugger"));
        }
        Some('Z' | 'X') => {
            let what = format!("process {pid} has ended, and its parent has not noticed");
            report.wrong(link, what, "start the program again");
        }
        _ => {}
    }
    let limits = read("limits").unwrap_or_default();
    if let Some(limit) = soft_limit(&limits, "Max file size") {
        let what = format!(
            "process {pid} may have files of at most {} KiB: traces and pools cannot grow beyond it",
            limit >> 10
        );
        report.wrong("limits", what, "ulimit -f unlimited or LimitFSIZE=infinity, and restart it");
    }
    let limit = soft_limit(&limits, "Max open files");
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count);
    let (Some(limit), Ok(open)) = (limit, open) else { return };
    if open + SPARE_DESCRIPTORS > limit {
        let what = format!(
            "process {pid} has {open} of at most {limit} files open: it cannot attach to a session"
        );
        report.wrong(
            "descriptors",
            what,
            "raise the limit (ulimit -n, LimitNOFILE=) and restart it",
        );
    }
}

/// Whether the program connects to no host that starts after it.
pub fn is_listener_off(pid: u32) -> bool {
    let is_off = |(name, value): &(String, String)| name == LISTENER && value == "off";
    environment(pid).is_some_and(|environment| environment.iter().any(is_off))
}

/// The state letter in `/proc/PID/stat`, behind the name, which may have any character.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// A soft limit in `/proc/PID/limits`; `None`: unlimited.
fn soft_limit(limits: &str, name: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_limits_are_read() {
        assert_eq!(state("7 (a) b) T 1 7"), Some('T'));
        assert_eq!(state("nonsense"), None);
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024     4096   files\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024));
        assert_eq!(soft_limit(limits, "Max file size"), None);
        assert_eq!(
            soft_limit("Max open files   unlimited unlimited files", "Max open files"),
            None
        );
    }

    #[test]
    fn a_text_is_found_wherever_it_is_in_a_program() {
        for at in [0, 7, (1 << 20) - 3, (1 << 20) + 5, (2 << 20) - 6] {
            let mut bytes = vec![b'x'; 2 << 20];
            bytes[at..at + 6].copy_from_slice(b"needle");
            assert!(contains(&bytes[..], b"needle").unwrap(), "{at}");
        }
        assert!(!contains(&vec![b'n'; 3 << 20][..], b"needle").unwrap());
    }

    #[test]
    fn an_auxiliary_vector_says_whether_a_program_is_secure() {
        let vector = |secure: usize| {
            let words = [6, 4096, libc::AT_SECURE as usize, secure, 0, 0];
            words.iter().flat_map(|word: &usize| word.to_ne_bytes()).collect::<Vec<u8>>()
        };
        assert!(is_secure(&vector(1)) && !is_secure(&vector(0)) && !is_secure(&[]));
    }
}
