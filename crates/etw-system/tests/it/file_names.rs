//! Names of files: those that calls name by path, from neutral events and from the machine.

use etw_system::neutral::*;
use etw_system::system_calls::{FileOperation, SystemCall};

use crate::invariants::Taken;
use crate::shaper::{Machinery, number, of, operation};

/// `AT_FDCWD`
pub const OWN_FOLDER: u64 = -100i64 as u64;

pub fn named(paths: [&str; 2], id: Option<FileId>) -> CalledFile {
    let paths = paths.map(|path| path.as_bytes().to_vec());
    CalledFile { paths, id, ..CalledFile::default() }
}

pub fn file(inode: u64) -> Option<FileId> {
    Some(FileId { device: 0xfd << 20 | 1, inode, address: 0 })
}

/// The number of the call that has its path behind the descriptor of a folder.
pub fn call_in_folder(wanted: FileOperation) -> u64 {
    number(|call| match call {
        SystemCall::File(one, arguments) => {
            one == wanted && arguments.paths[0].is_some_and(|path| path.folder.is_some())
        }
        _ => false,
    })
}

/// The text at the end of a record, behind so many bytes.
pub fn text(record: &Taken, at: usize) -> String {
    let units =
        record.payload[at..].chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    let text = String::from_utf16(&units.collect::<Vec<u16>>()).unwrap();
    text.trim_end_matches('\0').to_owned()
}

pub fn texts(records: &[Taken], hook: u16, at: usize) -> Vec<String> {
    of(records, hook).into_iter().map(|one| text(one, at)).collect()
}

/// Where the records of opened and of otherwise named files have their names.
pub const OPEN_PATH: usize = 32;
pub const PATH: usize = 40;
pub const NAME: usize = 8;

/// OV-23: files have the names that calls give them, in the folder where the process is.
#[test]
fn relative_paths_begin_in_the_folder_of_their_process() {
    let mut machine = Machinery::new();
    let open = call_in_folder(FileOperation::Open);
    let change = number(|call| call == SystemCall::ChangeFolder);
    let change_to = number(|call| call == SystemCall::ChangeFolderTo);
    let mut call = |time, number, arguments: &[u64], path: &str, id, result| {
        let file = named([path, ""], id);
        machine.call_with(time, (number, arguments), Some(&file), result);
    };
    call(10, change, &[0x100], "/data", None, 0);
    call(20, change, &[0x100], "gone", None, -2);
    call(30, open, &[OWN_FOLDER, 0x100], "../data/./missing", None, -2);
    call(40, open, &[OWN_FOLDER, 0x100], "sub", file(7), 5);
    call(50, open, &[5, 0x100], "x", file(8), 6);
    call(60, open, &[5, 0x100], "/etc/hosts", file(9), 7);
    call(70, change_to, &[5], "", None, 0);
    call(80, open, &[OWN_FOLDER, 0x100], "y", None, -13);
    // A child begins where its parent is.
    machine.at(90, 0, 50, crate::shaper::fork(60, 50));
    let child = named(["z", ""], None);
    let arguments = [OWN_FOLDER, 0x100, 0, 0, 0, 0];
    let enter = Detail::SyscallEnter { number: open, arguments, file: Some(&child) };
    machine.at(100, 0, 60, enter);
    machine.at(101, 0, 60, Detail::SyscallExit { number: open, result: -2 });
    let records = machine.end();
    let opened =
        ["/data/missing", "/data/sub", "/data/sub/x", "/etc/hosts", "/data/sub/y", "/data/sub/z"];
    assert_eq!(texts(&records, 0x0440, OPEN_PATH), opened);
    assert_eq!(texts(&records, 0x0400, NAME), ["/data/sub", "/data/sub/x", "/etc/hosts"]);
}

/// OV-23: a program that goes into deeper and deeper folders costs no more memory than one path.
#[test]
fn a_folder_that_is_too_deep_is_not_known() {
    const LEVELS: u64 = 100;
    let mut machine = Machinery::new();
    let open = call_in_folder(FileOperation::Open);
    let change = number(|call| call == SystemCall::ChangeFolder);
    let mut call = |time, number, arguments: &[u64], path: &str, result| {
        machine.call_with(time, (number, arguments), Some(&named([path, ""], None)), result);
    };
    call(10, change, &[0x100], "/", 0);
    for level in 1..=LEVELS {
        call(10 + level * 10, change, &[0x100], &"d".repeat(200), 0);
        call(15 + level * 10, open, &[OWN_FOLDER, 0x100], "x", -2);
    }
    let opened = texts(&machine.end(), 0x0440, OPEN_PATH);
    let lengths: Vec<usize> = opened.iter().map(String::len).collect();
    assert_eq!(lengths[..3], [203, 404, 605]);
    assert!(lengths.iter().all(|length| *length < 2 * 4096), "{lengths:?}");
    assert_eq!(opened.last().map(String::as_str), Some("x"), "its folder is not known");
}

/// OV-23: files that calls name without opening them have names, too; a new file is not mistaken for the one before.
#[test]
fn deleted_and_renamed_files_have_names() {
    let mut machine = Machinery::new();
    let open = call_in_folder(FileOperation::Open);
    let delete = call_in_folder(FileOperation::Delete);
    let rename = call_in_folder(FileOperation::Rename);
    let link = call_in_folder(FileOperation::Link);
    let query = call_in_folder(FileOperation::Query);
    let read = operation(FileOperation::Read);
    let mut call = |time, number, arguments: &[u64], paths, id, result| {
        let file = named(paths, id);
        machine.call_with(time, (number, arguments), Some(&file), result);
    };
    call(10, open, &[OWN_FOLDER, 0x100], ["/a", ""], file(7), 5);
    call(20, query, &[OWN_FOLDER, 0x100], ["/a", ""], None, 0);
    call(30, rename, &[OWN_FOLDER, 0x100, OWN_FOLDER, 0x200], ["/a", "/b"], None, 0);
    call(40, delete, &[OWN_FOLDER, 0x100], ["/b", ""], None, 0);
    // The file system gives its number to the next file.
    call(50, open, &[OWN_FOLDER, 0x100], ["/c", ""], file(7), 6);
    call(60, link, &[OWN_FOLDER, 0x100, OWN_FOLDER, 0x200], ["/c", "/d"], None, 0);
    call(70, query, &[OWN_FOLDER, 0x100], ["/never", ""], None, -2);
    call(80, query, &[OWN_FOLDER, 0x100], ["/never", ""], None, -2);
    machine.call(90, read, &[6, 0, 10], 10);
    // Nobody saw that the file was deleted, but this call makes a new one.
    let plain = named(["/e", ""], file(7));
    machine.call_with(100, (open, &[OWN_FOLDER, 0x100, 0]), Some(&plain), 8);
    machine.call_with(110, (open, &[OWN_FOLDER, 0x100, 0o300]), Some(&plain), 9);
    // It is deleted, and made again with the same number: its records have named it already.
    let gone = named(["/e", ""], None);
    machine.call_with(120, (delete, &[OWN_FOLDER, 0x100]), Some(&gone), 0);
    machine.call_with(130, (open, &[OWN_FOLDER, 0x100, 0o300]), Some(&plain), 10);
    let records = machine.end();
    assert_eq!(texts(&records, 0x044f, PATH), ["/b", "/e"]);
    assert_eq!(texts(&records, 0x0450, PATH), ["/b"]);
    assert_eq!(texts(&records, 0x0451, PATH), ["/d"]);
    assert_eq!(texts(&records, 0x0400, NAME), ["/a", "/b", "/c", "/never", "/e"]);
    let key = |hook, index: usize| of(&records, hook)[index].u64(16);
    let name_key = |index: usize| of(&records, 0x0400)[index].u64(0);
    assert_eq!([key(0x044a, 0), key(0x0447, 0), key(0x0446, 0)], [name_key(0); 3]);
    assert_eq!(key(0x0446, 0), key(0x044f, 0), "both records of a request name one file");
    let request = |hook: u16| of(&records, hook)[0].u64(0);
    assert_eq!(request(0x0446), request(0x044f));
    assert_eq!((key(0x044a, 1), key(0x044a, 2)), (name_key(3), name_key(3)));
    assert_eq!(of(&records, 0x0443)[0].u64(24), name_key(2));
}

/// OV-23: what a call makes without opening it is a new file, a folder as Windows has it, and is no descriptor of its process.
#[test]
fn what_is_made_without_being_opened_is_a_new_file() {
    let mut machine = Machinery::new();
    let make = call_in_folder(FileOperation::Make);
    let path = named(["/data", ""], None);
    machine.call_with(10, (make, &[OWN_FOLDER, 0x100, 0o755]), Some(&path), 0);
    machine.call_with(20, (make, &[OWN_FOLDER, 0x100, 0o755]), Some(&path), -17);
    machine.call(30, operation(FileOperation::Write), &[0, 0x100, 5], 5);
    let records = machine.end();
    let made = of(&records, 0x0440);
    assert_eq!(made.iter().map(|one| text(one, OPEN_PATH)).collect::<Vec<_>>(), ["/data"; 2]);
    // FILE_CREATE and FILE_DIRECTORY_FILE, FILE_ATTRIBUTE_DIRECTORY, shared by all.
    let options = |one: &Taken| [20, 24, 28].map(|at| one.u32(at));
    assert_eq!(made.iter().map(|one| options(one)).collect::<Vec<_>>(), [[0x200_0001, 0x10, 7]; 2]);
    assert_ne!(made[0].u64(8), made[1].u64(8), "each has an object of its own");
    let ends: Vec<_> = of(&records, 0x044c).iter().map(|one| (one.u64(0), one.u32(16))).collect();
    assert_eq!(ends, [(made[0].u64(0), 0), (made[1].u64(0), -17i32 as u32)]);
    assert!(of(&records, 0x0444).is_empty(), "a result of 0 is no descriptor");
}

/// OV-23: programs in the kernel record the paths of files that are gone before the host looks at them.
#[cfg(target_os = "linux")]
#[test]
fn files_that_live_shortly_have_names() {
    use std::process::{Command, Stdio};

    const FILES: usize = 200;
    let folder = std::env::temp_dir().join(format!("etw-names-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let script = format!(
        "cd {} && for i in $(seq {FILES}); do : > short$i; : < absent$i; done 2>/dev/null; \
         mv short1 moved; ln moved linked; rm -f short* moved linked; cd / && rmdir {}",
        folder.display(),
        folder.display(),
    );
    let mut has_paths = false;
    let run = |live: &mut crate::live::Live| {
        has_paths = live.has_call_paths();
        let mut command = Command::new("bash");
        command.args(["-c", &script]).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    };
    let flags = "process,thread,file,fileio,fileiocompletion";
    let Some(recording) = crate::live::record_and_count(flags, None, run) else { return };
    if !has_paths {
        return eprintln!("left out: paths need programs in the kernel");
    }
    if recording.losses.total() > 0 {
        return eprintln!(
            "left out: the machine was too busy, and the kernel had no room for records"
        );
    }
    let records = recording.records;
    let own = |all: Vec<String>| {
        let own = all.into_iter().filter_map(|path| {
            let path = path.strip_prefix(folder.to_str().unwrap())?;
            path.strip_prefix('/').map(str::to_owned)
        });
        own.collect::<Vec<String>>()
    };
    let opened = own(texts(&records, 0x0440, OPEN_PATH));
    let expected: Vec<String> =
        (1..=FILES).flat_map(|index| [format!("short{index}"), format!("absent{index}")]).collect();
    let opened: Vec<String> = opened.into_iter().filter(|path| expected.contains(path)).collect();
    assert_eq!(opened, expected);
    // Each has the key under which the system knows it, not one of its path.
    let files = of(&records, 0x0400).into_iter().filter(|one| one.u64(0) >> 32 != 0xffff_ffff);
    let names = own(files.map(|one| text(one, NAME)).collect());
    assert!((1..=FILES).all(|index| names.contains(&format!("short{index}"))), "{names:?}");
    let mut deleted = own(texts(&records, 0x044f, PATH));
    deleted.sort();
    let mut gone: Vec<String> = (2..=FILES).map(|index| format!("short{index}")).collect();
    gone.extend(["moved".to_owned(), "linked".to_owned()]);
    gone.sort();
    assert_eq!(deleted, gone);
    assert!(own(texts(&records, 0x0450, PATH)).contains(&"moved".to_owned()));
    assert!(own(texts(&records, 0x0451, PATH)).contains(&"linked".to_owned()));
    let folders = texts(&records, 0x044f, PATH);
    assert!(folders.iter().any(|path| path == folder.to_str().unwrap()), "rmdir");
}

/// OV-23: a tree of folders, links and files that are written from several buffers, as archives are unpacked.
#[cfg(target_os = "linux")]
#[test]
fn an_unpacked_tree_is_seen_whole() {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;

    let folder = std::env::temp_dir().join(format!("etw-tree-{}", std::process::id()));
    let [top, link, pipe, data] = ["", "link", "pipe", "data"]
        .map(|name| CString::new(folder.join(name).as_os_str().as_bytes()).unwrap());
    let buffer = Box::leak(vec![0u8; 300].into_boxed_slice()).as_mut_ptr().expose_provenance();
    let sizes = [3, 0, 300];
    // The layout of `iovec`. The second list is longer than what is recorded of one.
    let of_size = |size: usize| [buffer, size];
    let lists = [sizes.map(of_size).to_vec(), vec![of_size(1); 257], vec![of_size(2); 256]];
    let run = |live: &mut crate::live::Live| {
        let has_paths = live.has_call_paths();
        let mut command = std::process::Command::new("true");
        let (lists, paths) = (lists.clone(), [&top, &link, &pipe, &data].map(Clone::clone));
        let calls = move || {
            let [top, link, pipe, data] = paths.each_ref().map(|path| path.as_ptr());
            // SAFETY: system calls alone, with memory that was made before.
            unsafe {
                libc::mkdir(top, 0o755);
                libc::symlink(data, link);
                libc::mkfifo(pipe, 0o600);
                let file = libc::open(data, libc::O_CREAT | libc::O_RDWR, 0o600);
                for list in &lists {
                    libc::writev(file, list.as_ptr().cast(), list.len() as i32);
                }
                libc::preadv(file, lists[0].as_ptr().cast(), 3, 5);
                // As `cat` and `cp` ask.
                let mut from = 1000;
                let to = libc::memfd_create(c"copy".as_ptr(), 0);
                libc::sendfile(to, file, &raw mut from, 1 << 40);
            }
            Ok(())
        };
        // SAFETY: as above; the vectors and paths are only read.
        unsafe { command.pre_exec(calls) };
        assert!(command.status().unwrap().success());
        has_paths
    };
    let mut has_paths = false;
    let flags = "process,thread,file,fileio,fileiocompletion";
    let recording = crate::live::record_and_count(flags, None, |live: &mut crate::live::Live| {
        has_paths = run(live)
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let Some(recording) = recording else { return };
    if !has_paths || recording.losses.total() > 0 {
        return eprintln!("left out: paths need programs in the kernel, which were not lost");
    }
    let records = recording.records;
    let of_tree = |hook: u16, path: usize| {
        let all = of(&records, hook).into_iter();
        all.filter_map(|one| {
            Some((text(one, path).strip_prefix(folder.to_str()?)?.to_owned(), one))
        })
        .collect::<Vec<_>>()
    };
    let opened = of_tree(0x0440, OPEN_PATH);
    let attributes: Vec<_> = opened.iter().map(|(path, one)| (&path[..], one.u32(24))).collect();
    assert_eq!(attributes, [("", 0x10), ("/link", 0x400), ("/pipe", 0x40), ("/data", 0)]);
    let object = opened[3].1.u64(8);
    let transfers = |hook| {
        let all = of(&records, hook).into_iter().filter(|one| one.u64(16) == object);
        all.map(|one| (one.u64(0), one.u32(36))).collect::<Vec<_>>()
    };
    assert_eq!(transfers(0x0444), [(0, 303), (303, 0), (560, 512)]);
    let unknown = u64::MAX - 1;
    assert_eq!(transfers(0x0443), [(5, 303), (unknown, 72)]);
}

/// OV-23: names of files are recorded without their operations.
#[cfg(target_os = "linux")]
#[test]
fn names_are_recorded_alone() {
    let path = std::env::temp_dir().join(format!("etw-name-{}", std::process::id()));
    std::fs::write(&path, "x").unwrap();
    let mut has_paths = false;
    let recording = crate::live::record_and_count("file", None, |live: &mut crate::live::Live| {
        has_paths = live.has_call_paths();
        assert!(std::process::Command::new("cat").arg(&path).output().unwrap().status.success());
    });
    std::fs::remove_file(&path).unwrap();
    let Some(recording) = recording else { return };
    if !has_paths || recording.losses.total() > 0 {
        return eprintln!("left out: paths need programs in the kernel, which were not lost");
    }
    let path = path.to_str().unwrap().to_owned();
    for hook in [0x0400, 0x0424] {
        let names = texts(&recording.records, hook, NAME);
        assert_eq!(names.iter().filter(|name| **name == path).count(), 1, "{hook:#x}");
    }
    assert!(of(&recording.records, 0x0440).is_empty());
}

/// OV-23: a file whose inode another one had, which was deleted by a path through a link, has its own name: the kernel says that it was made.
#[cfg(target_os = "linux")]
#[test]
fn a_new_file_has_no_name_of_one_that_was_deleted_unseen() {
    const SCRIPT: &str = "mkdir real && ln -s real link && for i in 1 2 3 4 5 6 7 8 9; do
        echo old > $PWD/real/before$i; rm $PWD/link/before$i; echo other > $PWD/real/next$i; done";
    let folder = std::env::temp_dir().join(format!("etw-made-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut has_paths = false;
    let flags = "process,thread,file,fileio";
    let recording = crate::live::record_and_count(flags, None, |live: &mut crate::live::Live| {
        has_paths = live.has_call_paths();
        let mut shell = std::process::Command::new("sh");
        assert!(shell.args(["-c", SCRIPT]).current_dir(&folder).status().unwrap().success());
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let Some(recording) = recording else { return };
    if !has_paths || recording.losses.total() > 0 {
        return eprintln!("left out: paths need programs in the kernel, which were not lost");
    }
    let (mut names, mut written) = (std::collections::HashMap::new(), Vec::new());
    for record in &recording.records {
        match record.hook {
            0x0400 => _ = names.insert(record.u64(0), text(record, NAME)),
            0x0444 => written
                .extend(names.get(&record.u64(24)).map(|name| (name.clone(), record.u32(36)))),
            _ => {}
        }
    }
    let folder = folder.join("real");
    let expected: Vec<_> = (1..=9)
        .flat_map(|number| [(format!("before{number}"), 4), (format!("next{number}"), 6)])
        .map(|(name, size)| (folder.join(name).to_str().unwrap().to_owned(), size))
        .collect();
    written.retain(|(name, _)| name.starts_with(folder.to_str().unwrap()));
    assert_eq!(written, expected);
}
