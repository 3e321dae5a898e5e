//! Limits of a process's control group: of a service, a container, a slice.

use super::Report;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// Bytes that a host, or a program with a session of its own, needs at least.
const NEEDED_MEMORY: u64 = 64 << 20;
/// Threads that a host starts.
const NEEDED_THREADS: u64 = 8;

/// The control group of a process.
#[derive(Debug)]
pub struct ControlGroup {
    mount: PathBuf,
    /// The path below the mount; `None`: unknown.
    path: Option<PathBuf>,
}

impl ControlGroup {
    /// The group of a process: a number, or `self`.
    pub fn of(process: &str) -> ControlGroup {
        let text = std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
        ControlGroup { mount: MOUNT.into(), path: path(&text) }
    }

    /// Checks what it and the groups around it permit. `who`: the process in messages.
    pub fn check(&self, report: &mut Report, who: &str) {
        const LINK: &str = "control group";
        let Some(path) = &self.path else { return };
        for group in path.ancestors() {
            let number = |file: &str| number(&self.mount.join(group).join(file));
            let shown = format!("/{}", group.display());
            if let Some(memory) = number("memory.max").filter(|memory| *memory < NEEDED_MEMORY) {
                let what = format!(
                    "{shown}, the control group of {who}, permits {} MiB of memory: a pool has 16 MiB",
                    memory >> 20
                );
                report.wrong(
                    LINK,
                    what,
                    "raise memory.max (MemoryMax= of a service, --memory of a container)",
                );
            }
            let (most, present) = (number("pids.max"), number("pids.current"));
            if let (Some(most), Some(present)) = (most, present)
                && present + NEEDED_THREADS > most
            {
                let what = format!(
                    "{shown}, the control group of {who}, has {present} of at most {most} threads: no host can start its own"
                );
                report.wrong(
                    LINK,
                    what,
                    "raise pids.max (TasksMax= of a service, --pids-limit of a container)",
                );
            }
        }
    }
}

/// The path of a process in the unified hierarchy.
fn path(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // A group outside of this namespace has no path in it.
    (!path.starts_with("..")).then(|| path.into())
}

/// The number in a file; `None`: `max`, or no such file.
fn number(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_groups_around_a_process_are_found() {
        assert_eq!(path("1:cpu:/a\n0::/b/c\n"), Some("b/c".into()));
        assert_eq!(path("0::/../../x\n"), None);
        let mount = std::env::temp_dir().join(format!("etw-control-group-{}", std::process::id()));
        std::fs::create_dir_all(mount.join("shop/web")).unwrap();
        let set = |file: &str, text: &str| std::fs::write(mount.join(file), text).unwrap();
        let group = ControlGroup { mount: mount.clone(), path: Some("shop/web".into()) };
        let check = || {
            let mut report = Report::default();
            group.check(&mut report, "process 7");
            report
        };
        assert_eq!(check().wrong, 0);
        set("shop/web/memory.max", "max\n");
        set("shop/memory.max", "33554432\n");
        let report = check();
        assert!(report.text.contains("/shop, the control group of process 7, permits 32 MiB"));
        assert!(report.wrong == 1 && report.text.contains("fix: raise memory.max"));
        set("shop/memory.max", "1073741824\n");
        set("shop/web/pids.max", "20\n");
        set("shop/web/pids.current", "9\n");
        assert_eq!(check().wrong, 0);
        set("shop/web/pids.current", "15\n");
        let report = check();
        assert!(
            report.text.contains("/shop/web, the control group of process 7, has 15 of at most 20")
        );
        assert!(report.text.contains("fix: raise pids.max"));
        std::fs::remove_dir_all(mount).unwrap();
    }
}
