//! Labels of modules: their file names, with more of the path where files of a trace share one.

use std::collections::{BTreeMap, BTreeSet};

/// The file of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleFile {
    /// The whole path, of Linux or of Windows.
    pub path: String,
    /// The start of its build id, or its time stamp, where the trace has one.
    pub id: Option<[u8; 4]>,
}

impl ModuleFile {
    pub fn new(path: &str, build_id: &[u8]) -> ModuleFile {
        ModuleFile { path: path.to_owned(), id: build_id.first_chunk().copied() }
    }
}

/// Modules are the same if this is: a copy of a file is the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Identity<'f> {
    Id([u8; 4]),
    Path(&'f str),
}

/// The last part of a path. A name on Linux may have a backslash.
pub fn file_name(path: &str) -> &str {
    path.rsplit(separator(path)).next().unwrap_or(path)
}

fn separator(path: &str) -> char {
    let is_of_windows = path.starts_with('\\') || path.get(1..3) == Some(":\\");
    if is_of_windows { '\\' } else { '/' }
}

/// The folder and the name in a path.
fn with_folder(path: &str) -> &str {
    let separator = separator(path);
    let folder = path.rfind(separator).and_then(|end| path[..end].rfind(separator));
    folder.map_or(path, |before| &path[before + separator.len_utf8()..])
}

fn with_id(file: &ModuleFile) -> String {
    let digits: String = file.id.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
    format!("{} ({digits})", file.path)
}

/// A record without an id is of the one file that others of its group know at its path.
fn identity<'f>(group: &[&'f ModuleFile], file: &'f ModuleFile) -> Identity<'f> {
    let mut ids = group.iter().filter(|one| one.path == file.path).filter_map(|one| one.id);
    match file.id.or_else(|| ids.next().filter(|id| ids.all(|other| other == *id))) {
        Some(id) => Identity::Id(id),
        None => Identity::Path(&file.path),
    }
}

/// The labels of files whose names other files have, too.
pub fn labels(files: &BTreeSet<&ModuleFile>) -> BTreeMap<ModuleFile, String> {
    let mut groups: BTreeMap<&str, Vec<&ModuleFile>> = BTreeMap::new();
    // The kernel and code without a file have no folder.
    for file in files.iter().filter(|file| file_name(&file.path) != file.path) {
        groups.entry(file_name(&file.path)).or_default().push(file);
    }
    let mut all = BTreeMap::new();
    for group in groups.values() {
        let mut distinct = BTreeMap::new();
        for file in group {
            distinct.entry(identity(group, file)).or_insert(*file);
        }
        if distinct.len() == 1 {
            continue;
        }
        let is_unique = |label: fn(&ModuleFile) -> String| {
            let labels: BTreeSet<String> = distinct.values().map(|file| label(file)).collect();
            labels.len() == distinct.len()
        };
        let folder: fn(&ModuleFile) -> String = |file| with_folder(&file.path).to_owned();
        let path: fn(&ModuleFile) -> String = |file| file.path.clone();
        let label = [folder, path].into_iter().find(|label| is_unique(*label)).unwrap_or(with_id);
        for file in group {
            all.insert((*file).clone(), label(distinct[&identity(group, file)]));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(files: &[(&str, &[u8])]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, id)| ModuleFile::new(path, id)).collect();
        let labels = labels(&files.iter().collect());
        let name = |file: &ModuleFile| file_name(&file.path).to_owned();
        files.iter().map(|file| labels.get(file).cloned().unwrap_or_else(|| name(file))).collect()
    }

    #[test]
    fn different_files_of_one_name_have_more_of_their_paths() {
        let (one, two) = (&[1, 2, 3, 4, 5][..], &[9, 2, 3, 4][..]);
        assert_eq!(labelled(&[("/x/A/app", &[]), ("/x/B/app", &[])]), ["A/app", "B/app"]);
        assert_eq!(labelled(&[("/x/A/app", one), ("/y/A/app", two)]), ["/x/A/app", "/y/A/app"]);
        assert_eq!(
            labelled(&[("/app", one), ("/app", two)]),
            ["/app (01020304)", "/app (09020304)"]
        );
        assert_eq!(
            labelled(&[(r"\W\System32\x.dll", one), (r"C:\W\SysWOW64\x.dll", two)]),
            [r"System32\x.dll", r"SysWOW64\x.dll"]
        );
    }

    #[test]
    fn the_kernel_and_code_without_a_file_have_their_names() {
        let (one, two) = (&[1, 2, 3, 4][..], &[9, 2, 3, 4][..]);
        for name in ["vmlinux", "[vdso]"] {
            assert_eq!(labelled(&[(name, one), (name, two)]), [name, name]);
        }
    }

    #[test]
    fn a_file_at_two_places_or_with_and_without_its_id_is_one() {
        let id = &[1, 2, 3, 4][..];
        assert_eq!(labelled(&[("/lib/c.so", id), ("/usr/lib/c.so", id)]), ["c.so", "c.so"]);
        assert_eq!(labelled(&[("/lib/c.so", id), ("/lib/c.so", &[])]), ["c.so", "c.so"]);
        assert_eq!(labelled(&[("/a/one", &[]), ("/b/two", &[])]), ["one", "two"]);
    }

    #[test]
    fn a_backslash_is_part_of_a_name_on_linux() {
        assert_eq!(file_name(r#"/a/q"\x"#), r#"q"\x"#);
        assert_eq!((file_name(r#"q"\x"#), file_name(r"C:\W\x.dll")), (r#"q"\x"#, "x.dll"));
        assert_eq!(file_name(r"\Device\HarddiskVolume3\x.exe"), "x.exe");
    }
}
