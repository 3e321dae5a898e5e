//! Facts about processes, for extended items of events.

use etw_session::ProcessFacts;

/// The facts of this process.
///
/// | fact | here | on Windows |
/// |---|---|---|
/// | SID | `S-1-22-1-uid`, the form that Samba gives to Unix users | the user's SID |
/// | terminal session | the audit session (`/proc/self/sessionid`), 0 without one | the session number |
/// | start key | start time in clock ticks since boot, above 22 bits of process id | boot number, above a counter |
///
/// All facts but the name of the executable are empty on systems without `/proc`.
pub fn facts() -> ProcessFacts {
    let executable = std::env::current_exe().ok();
    let name = executable.as_deref().and_then(|path| path.file_name());
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    #[cfg(unix)]
    // SAFETY: takes nothing, gives a number, never fails.
    let user = sid(unsafe { libc::geteuid() });
    #[cfg(not(unix))]
    let user = Vec::new();
    let process = std::process::id();
    ProcessFacts::new(&user, terminal_session("self"), start_key("self", process), &name)
}

/// The facts of another process, as far as this one may read them; `user` is its effective user.
#[cfg(unix)]
pub fn facts_of(process: u32, user: u32) -> ProcessFacts {
    let executable = std::fs::read_link(format!("/proc/{process}/exe")).ok();
    let name = executable.as_deref().and_then(|path| path.file_name());
    let name = match name {
        Some(name) => name.to_string_lossy().into_owned(),
        // The executable of another user's process is hidden; the first 15 bytes of its name are not.
        None => std::fs::read_to_string(format!("/proc/{process}/comm"))
            .map_or(String::new(), |name| name.trim_end().to_owned()),
    };
    let of = process.to_string();
    ProcessFacts::new(&sid(user), terminal_session(&of), start_key(&of, process), &name)
}

#[cfg(unix)]
fn sid(user: u32) -> Vec<u8> {
    let mut sid = vec![1, 2, 0, 0, 0, 0, 0, 22];
    sid.extend(1u32.to_le_bytes());
    sid.extend(user.to_le_bytes());
    sid
}

fn terminal_session(of: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{of}/sessionid")).unwrap_or_default();
    // All ones: no audit session.
    text.trim().parse().ok().filter(|session| *session != u32::MAX).unwrap_or(0)
}

fn start_key(of: &str, process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{of}/stat")).unwrap_or_default();
    start_time(&stat).map_or(0, |ticks| ticks << 22 | u64::from(process) & 0x3f_ffff)
}

/// Field 22 of `/proc/PID/stat`. The second field, the name, may contain anything.
fn start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_with_parentheses_does_not_move_the_start_time() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(super::start_time(stat), Some(4711));
        assert_eq!(super::start_time("7 (a"), None);
    }
}
