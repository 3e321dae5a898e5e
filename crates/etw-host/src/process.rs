//! What sessions may want to know of this process.

use etw_session::ProcessFacts;

/// The facts of this process.
///
/// | fact | here | on Windows |
/// |---|---|---|
/// | SID | `S-1-22-1-uid`, the form that Samba gives to Unix users | the user's SID |
/// | terminal session | the audit session (`/proc/self/sessionid`), 0 without one | the session number |
/// | start key | start time in clock ticks since boot, above 22 bits of process id | boot number, above a counter |
///
/// All but the name of the executable are empty where there is no `/proc`.
pub fn facts() -> ProcessFacts {
    let executable = std::env::current_exe().ok();
    let name = executable.as_deref().and_then(|path| path.file_name());
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    ProcessFacts::new(&sid(), terminal_session(), start_key(), &name)
}

fn sid() -> Vec<u8> {
    #[cfg(unix)]
    {
        // SAFETY: takes nothing, gives a number, never fails.
        let user = unsafe { libc::geteuid() };
        let mut sid = vec![1, 2, 0, 0, 0, 0, 0, 22];
        sid.extend(1u32.to_le_bytes());
        sid.extend(user.to_le_bytes());
        sid
    }
    #[cfg(not(unix))]
    Vec::new()
}

fn terminal_session() -> u32 {
    let text = std::fs::read_to_string("/proc/self/sessionid").unwrap_or_default();
    // All ones: never set.
    text.trim().parse().ok().filter(|session| *session != u32::MAX).unwrap_or(0)
}

fn start_key() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    start_time(&stat).map_or(0, |ticks| ticks << 22 | u64::from(std::process::id()) & 0x3f_ffff)
}

/// Field 22 of `/proc/PID/stat`; the second, the name, may hold anything.
fn start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn start_time() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(super::start_time(stat), Some(4711));
        assert_eq!(super::start_time("7 (a"), None);
    }
}
