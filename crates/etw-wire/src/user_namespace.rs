//! User namespaces: in a rootless container other users' files appear to belong to one number, that of nobody.

use std::path::Path;

/// The mapping of this process's user ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserNamespace {
    ranges: Vec<Range>,
    /// The number under which users appear that are not mapped.
    overflow: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    inside: u32,
    outside: u32,
    count: u32,
}

impl UserNamespace {
    /// The namespace of this process; the machine's own, if the kernel does not tell.
    pub fn current() -> UserNamespace {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        UserNamespace::of(&read("/proc/self/uid_map"), &read("/proc/sys/kernel/overflowuid"))
    }

    fn of(map: &str, overflow: &str) -> UserNamespace {
        let range = |line: &str| {
            let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
            let mut next = || numbers.next().flatten();
            Some(Range { inside: next()?, outside: next()?, count: next()? })
        };
        UserNamespace {
            ranges: map.lines().filter_map(range).collect(),
            overflow: overflow.trim().parse().unwrap_or(65534),
        }
    }

    /// Whether some users of the machine have no number here.
    pub fn is_partial(&self) -> bool {
        // The machine's own namespace maps all numbers to themselves; the last one is no user.
        let is_own =
            |range: &Range| range.inside == 0 && range.outside == 0 && range.count == u32::MAX;
        !self.ranges.is_empty() && !self.ranges.iter().any(is_own)
    }

    /// Whether a number stands for users that are not mapped.
    pub fn is_unmapped(&self, user: u32) -> bool {
        self.is_partial() && user == self.overflow
    }

    /// The number outside of a user inside.
    pub fn outside(&self, user: u32) -> Option<u32> {
        let range = self.ranges.iter().find(|range| {
            user.checked_sub(range.inside).is_some_and(|offset| offset < range.count)
        })?;
        range.outside.checked_add(user - range.inside)
    }
}

/// Whether only a directory's owner may create entries in it.
pub(crate) fn is_closed(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| stat.st_mode & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_that_are_not_mapped_appear_as_nobody() {
        let machine = UserNamespace::of("         0          0 4294967295\n", "65534\n");
        assert!(!machine.is_partial() && !machine.is_unmapped(65534));
        assert_eq!(machine.outside(1000), Some(1000));
        let unshared = UserNamespace::of("0 1000 1\n", "65534\n");
        assert!(unshared.is_partial() && unshared.is_unmapped(65534) && !unshared.is_unmapped(0));
        assert_eq!((unshared.outside(0), unshared.outside(1)), (Some(1000), None));
        let podman = UserNamespace::of("0 1000 1\n1 100000 65536\n", "65534\n");
        assert_eq!(podman.outside(33), Some(100_032));
        assert!(!UserNamespace::of("", "").is_partial());
    }
}
