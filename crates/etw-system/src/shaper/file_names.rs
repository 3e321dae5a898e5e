//! Names of files: those that calls give them, and what becomes of them when files and folders have other names.

use super::descriptors::OpenFile;
use super::names::is_nameless;
use super::paths::{below, joined};
use super::{KEY, Shaper};
use crate::neutral::{CalledFile, NeutralEvent};
use crate::record::{Head, Payload, Records};
use crate::system_calls::{PathArgument, SystemCall};

const NAME: u16 = 0x0400;
const RUNDOWN: u16 = 0x0424;
/// Keys of files that no call has opened: those of opened files lack a bit of these.
const UNOPENED: u64 = KEY | 3 << 46;

impl Shaper {
    /// Adds the name of a file that has none. It keeps the first one if others lead to it, too.
    pub(super) fn name_file(
        &mut self,
        event: &NeutralEvent<'_>,
        key: u64,
        path: &[u8],
        out: &mut Records,
    ) {
        if !self.has_files() {
            return;
        }
        if self.files.names.is_used(key) {
            return self.tell_name(event, key, out);
        }
        // A file that was made again may have the number of the one before.
        let has_record = self.files.names.has_told(key, path);
        self.files.names.add(key, path);
        if has_record {
            return;
        }
        out.perf_info(self.head(event), NAME, 2, &Payload::new().u64(key).wide(path));
    }

    /// Adds the name of a file that is used, if a folder above it has another name since the last one was added.
    pub(super) fn tell_name(&mut self, event: &NeutralEvent<'_>, key: u64, out: &mut Records) {
        if let Some(path) = self.files.names.untold(key) {
            out.perf_info(self.head(event), NAME, 2, &Payload::new().u64(key).wide(&path));
        }
    }

    /// The file of a path that a call names without opening it.
    pub(super) fn named_file(
        &mut self,
        event: &NeutralEvent<'_>,
        path: &[u8],
        out: &mut Records,
    ) -> OpenFile {
        let key = self.files.names.key(path).unwrap_or_else(|| UNOPENED | self.files.keys.next());
        self.name_file(event, key, path, out);
        OpenFile::new(0, key, None)
    }

    /// The absolute path that an argument of a call names; relative, if the folder where it begins is not known.
    pub(super) fn named_path(
        &mut self,
        event: &NeutralEvent<'_>,
        argument: PathArgument,
        values: &[u64; 6],
        path: &[u8],
    ) -> Vec<u8> {
        let descriptor = argument.folder.map(|at| values[at] as i32).filter(|one| *one >= 0);
        let owner = self.owner_of_files(event);
        if let Some(folder) = self.file_of(owner, descriptor) {
            self.files.names.is_used(folder.key);
        }
        let folder = match descriptor {
            Some(_) => self.file_of(owner, descriptor).and_then(|one| self.name_of(&one)),
            None if path.is_empty() => None,
            None => self.folders.get(event.thread),
        };
        joined(folder.unwrap_or_default(), path)
    }

    pub(super) fn name_of(&self, file: &OpenFile) -> Option<&[u8]> {
        self.files.names.path(file.key)
    }

    /// The folder to which a call changes, if it is known.
    pub(super) fn next_folder(
        &self,
        event: &NeutralEvent<'_>,
        call: SystemCall,
        values: &[u64; 6],
        file: Option<&CalledFile>,
    ) -> Option<Vec<u8>> {
        match call {
            SystemCall::ChangeFolder => {
                let path = file.map(|file| &file.paths[0]).filter(|path| !path.is_empty())?;
                Some(joined(self.folders.get(event.thread).unwrap_or_default(), path))
            }
            SystemCall::ChangeFolderTo => {
                let folder =
                    self.file_of(self.owner_of_files(event), call.descriptors(values).next())?;
                self.name_of(&folder).map(<[u8]>::to_vec)
            }
            _ => None,
        }
    }

    /// Adds the names of the files that were used last.
    pub(super) fn run_files_down(&mut self, head: Head, out: &mut Records) {
        for (key, path) in self.files.names.take_untold() {
            out.perf_info(head, NAME, 2, &Payload::new().u64(key).wide(&path));
        }
        for (key, path) in self.files.names.take() {
            out.perf_info(head, RUNDOWN, 2, &Payload::new().u64(key).wide(&path));
        }
    }

    /// A file or folder has another name; `is_exchange`: and the one that had that name has the old one. `keys`: the files of both names at the
    /// beginning of the call.
    pub(super) fn file_renamed(
        &mut self,
        event: &NeutralEvent<'_>,
        ([old, new], keys): (&[Vec<u8>; 2], [Option<u64>; 2]),
        is_exchange: bool,
        out: &mut Records,
    ) {
        if old == new {
            return;
        }
        let names = &mut self.files.names;
        let files =
            [names.take_name(new, keys[1].filter(|_| is_exchange)), names.take_name(old, keys[0])];
        let folders = [names.take_below(new), names.take_below(old)];
        // The file and folder that the new name had before are no more.
        let is_known = |path: &&Vec<u8>| path.starts_with(b"/");
        let [first, second] = [Some(old).filter(|_| is_exchange), Some(new)];
        for ((file, folder), path) in files.into_iter().zip(folders).zip([first, second]) {
            let Some(path) = path.filter(is_known) else { continue };
            self.files.names.put_below(path, folder);
            if let Some(key) = file {
                self.name_file(event, key, path, out);
            }
        }
        if old.starts_with(b"/") {
            self.folder_renamed([old, new], is_exchange);
        }
    }

    /// Processes in a folder, or below it, are in it when it has another name.
    fn folder_renamed(&mut self, [old, new]: [&[u8]; 2], is_exchange: bool) {
        let is_known = new.starts_with(b"/");
        self.folders.rename(|folder| match (below(folder, old), below(folder, new)) {
            (Some(rest), _) if is_known => Some([new, rest].concat()),
            (Some(_), _) => Some(Vec::new()),
            (None, Some(rest)) if is_exchange => Some([old, rest].concat()),
            _ => None,
        });
    }

    /// A file has one more name. It keeps the first one, unless that was none.
    pub(super) fn file_linked(
        &mut self,
        event: &NeutralEvent<'_>,
        [old, new]: &[Vec<u8>; 2],
        out: &mut Records,
    ) {
        let names = &mut self.files.names;
        let Some(key) = names.key(old).filter(|_| new.starts_with(b"/")) else { return };
        let inode = names.inode(key);
        if names.path(key).is_some_and(|path| is_nameless(inode, path)) {
            names.remove(old);
            self.name_file(event, key, new, out);
        }
    }
}
