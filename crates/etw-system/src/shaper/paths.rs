//! Paths that programs name, as absolute ones.

use crate::neutral::CalledFile;

/// Bytes of a path that a system call takes, its NUL included.
pub(super) const PATH_MAX: usize = 4096;

impl CalledFile {
    /// Whether a path of it begins in some folder.
    pub fn is_relative(&self) -> bool {
        self.paths.iter().any(|path| !path.starts_with(b"/"))
    }
}

/// A path that begins in a folder, without `.`, `..` and doubled slashes. Links are not followed: behind one, `..` may name another folder.
/// `folder`: empty, if it is not known; a relative path then stays as it is.
pub(super) fn joined(folder: &[u8], path: &[u8]) -> Vec<u8> {
    let folder = match path {
        [b'/', ..] => &[],
        _ if folder.is_empty() => return path.to_vec(),
        _ => folder,
    };
    let mut all = Vec::with_capacity(folder.len() + 1 + path.len());
    let parts = folder.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/'));
    for part in parts {
        match part {
            b"" | b"." => {}
            b".." => all.truncate(all.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
            part => {
                all.push(b'/');
                all.extend_from_slice(part);
            }
        }
    }
    if all.is_empty() { b"/".to_vec() } else { all }
}

/// The rest of a path that is that of a folder or of something below it.
pub(super) fn below<'p>(path: &'p [u8], folder: &[u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(folder)?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

/// The descriptor that a path of `/proc` names to the process.
pub(super) fn descriptor_of_path(process: u32, path: &[u8]) -> Option<i32> {
    let path = std::str::from_utf8(path).ok()?;
    let own = || path.strip_prefix("/proc/")?.strip_prefix(&process.to_string());
    let ways = ["/dev", "/proc/self", "/proc/thread-self"];
    let rest = ways.iter().find_map(|way| path.strip_prefix(way)).or_else(own)?;
    rest.strip_prefix("/fd/")?.parse().ok().filter(|descriptor| *descriptor >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_in_their_folder() {
        let join = |folder: &str, path: &str| {
            String::from_utf8(joined(folder.as_bytes(), path.as_bytes())).unwrap()
        };
        for (folder, path, whole) in [
            ("/a/b", "c", "/a/b/c"),
            ("/a/b", "../c//./d", "/a/c/d"),
            ("/a/b", "../../../c", "/c"),
            ("/a/b", "/x/../y", "/y"),
            ("/a/b", "..", "/a"),
            ("/", "c", "/c"),
            ("/a", "..", "/"),
            ("/a", "", "/a"),
            ("", "c/../d", "c/../d"),
            ("", "", ""),
        ] {
            assert_eq!(join(folder, path), whole, "{folder} {path}");
        }
    }

    #[test]
    fn paths_below_a_folder_and_of_descriptors_are_found() {
        assert_eq!(below(b"/a/b", b"/a"), Some(&b"/b"[..]));
        assert_eq!((below(b"/a", b"/a"), below(b"/ab", b"/a")), (Some(&b""[..]), None));
        for path in ["/proc/self/fd/7", "/proc/50/fd/7", "/proc/thread-self/fd/7", "/dev/fd/7"] {
            assert_eq!(descriptor_of_path(50, path.as_bytes()), Some(7), "{path}");
        }
        for path in ["/proc/51/fd/7", "/proc/50/fd/", "/proc/self/fd/-7", "/dev/fd/7/x", "/fd/7"] {
            assert_eq!(descriptor_of_path(50, path.as_bytes()), None, "{path}");
        }
    }
}
