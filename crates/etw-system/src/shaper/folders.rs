//! The folders in which relative paths begin. As in the kernel, a thread has one together with the thread that made it, or one of its own.

use super::Shaper;
use super::paths::PATH_MAX;
use super::shared::Shared;
use crate::system_calls::SystemCall;

/// CLONE_FS
pub(super) const CLONE_FOLDER: u64 = 0x200;
/// CLONE_NEWNS and CLONE_NEWUSER
const CLONE_MOUNTS: u64 = 0x2_0000;
const CLONE_USERS: u64 = 0x1000_0000;

/// The folders of all threads. An empty path: it is not known.
#[derive(Clone, Debug, Default)]
pub(super) struct Folders(Shared<u32, Vec<u8>>);

impl Folders {
    #[cfg(test)]
    pub fn remembered(&self) -> [(&'static str, usize); 2] {
        let [threads, folders] = self.0.counts();
        [("threads with folders", threads), ("folders", folders)]
    }

    /// The folder of a thread, if it is known.
    pub fn get(&self, thread: u32) -> Option<&[u8]> {
        self.0.get(thread).map(Vec::as_slice).filter(|path| !path.is_empty())
    }

    /// A thread has a folder of its own from now on.
    pub fn add(&mut self, thread: u32, path: Vec<u8>) {
        self.0.add(thread, path);
    }

    /// A thread has its folder together with another one from now on.
    pub fn share(&mut self, thread: u32, with: u32) {
        self.0.share(thread, with);
    }

    /// A thread goes to another folder, and all that have it together with it; `None`: it is not known. A program can go deeper and
    /// deeper, so a folder whose path no call takes is not kept.
    pub fn change(&mut self, thread: u32, path: Option<Vec<u8>>) {
        let is_known = |path: &Vec<u8>| path.starts_with(b"/") && path.len() < PATH_MAX;
        let path = path.filter(is_known).unwrap_or_default();
        match self.0.get_mut(thread) {
            Some(folder) => *folder = path,
            None => self.add(thread, path),
        }
    }

    /// Folders have other paths, where there are ones.
    pub fn rename(&mut self, renamed: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        for folder in self.0.values_mut() {
            if let Some(path) = renamed(folder) {
                *folder = if path.len() < PATH_MAX { path } else { Vec::new() };
            }
        }
    }

    /// A thread has ended.
    pub fn end(&mut self, thread: u32) {
        self.0.end(thread);
    }
}

impl Shaper {
    /// A thread begins in the folder of the one that made it; `is_shared`: which both have together.
    pub(super) fn begin_in_folder(&mut self, thread: u32, parent: u32, is_shared: bool) {
        if is_shared {
            return self.folders.share(thread, parent);
        }
        let path = self.folders.get(parent).unwrap_or_default().to_vec();
        self.folders.add(thread, path);
    }

    /// A call gave a thread a folder of its own, or another one.
    pub(super) fn folder_changed(
        &mut self,
        thread: u32,
        kind: SystemCall,
        arguments: &[u64; 6],
        to: Option<Vec<u8>>,
    ) {
        let own = self.folders.get(thread).unwrap_or_default().to_vec();
        match (kind, arguments) {
            (SystemCall::ChangeFolder | SystemCall::ChangeFolderTo, _) => {
                self.folders.change(thread, to);
            }
            (SystemCall::Unshare, [flags, ..])
                if flags & (CLONE_FOLDER | CLONE_MOUNTS | CLONE_USERS) != 0 =>
            {
                self.folders.add(thread, own);
            }
            // The descriptor may be that of any kind of namespace.
            (SystemCall::EnterNamespace, [_, 0, ..]) => self.folders.add(thread, Vec::new()),
            (SystemCall::EnterNamespace, [_, kinds, ..]) if kinds & CLONE_MOUNTS != 0 => {
                self.folders.add(thread, b"/".to_vec());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_live_as_long_as_their_threads() {
        let mut folders = Folders::default();
        folders.add(1, b"/a".to_vec());
        folders.share(2, 1);
        folders.share(1, 1);
        folders.share(3, 9);
        assert_eq!([1, 2, 3].map(|one| folders.get(one)), [Some(&b"/a"[..]), Some(b"/a"), None]);
        folders.end(1);
        folders.change(2, Some(b"/b".to_vec()));
        folders.rename(|path| (path == b"/b").then(|| b"/c".to_vec()));
        assert_eq!([1, 2].map(|one| folders.get(one)), [None, Some(&b"/c"[..])]);
        folders.rename(|_| Some(vec![b'/'; PATH_MAX]));
        assert_eq!(folders.get(2), None);
        folders.add(2, Vec::new());
        folders.end(2);
        folders.change(3, Some(b"/d".to_vec()));
        assert_eq!(folders.get(3), Some(&b"/d"[..]));
        folders.change(3, Some(b"relative".to_vec()));
        assert_eq!(folders.get(3), None);
        folders.end(3);
        assert_eq!(folders.remembered().map(|one| one.1), [0, 0]);
    }
}
