//! Calls whose effects on files and memory are seldom seen, of a program of the machine.

use std::ffi::CString;

use crate::file_names::{NAME, OPEN_PATH, text};
use crate::ground_truth::helper;
use crate::invariants::Taken;
use crate::shaper::of;

const FOLDER: &str = "ETW_TEST_FOLDER";
const PAGE: usize = 4096;
/// Where the program maps a file.
const VIEW: usize = 0x6200_0000_0000;

/// The role of the program: it has the folder of the environment, empty.
pub fn call() {
    let folder = std::env::var(FOLDER).unwrap();
    let path = |name: &str| CString::new(format!("{folder}{name}")).unwrap();
    let [top, before, after, out, out_after, linked] =
        ["", "/tmp", "/build", "/tmp/out", "/build/out", "/linked"].map(path);
    let buffer = libc::iovec { iov_base: [7u8; 5].as_ptr().cast_mut().cast(), iov_len: 5 };
    let in_memory = |fd: i32| CString::new(format!("/proc/self/fd/{fd}")).unwrap();
    let view = std::ptr::with_exposed_provenance_mut::<libc::c_void>(VIEW);
    // SAFETY: system calls with paths and a buffer that live, and a mapping at an address where nothing else is, which nobody uses. The second
    // process does nothing but two system calls.
    unsafe {
        libc::mkdir(before.as_ptr(), 0o755);
        libc::chdir(before.as_ptr());
        let file = libc::open(out.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600);
        libc::pwritev2(file, &buffer, 1, -1, 0);
        libc::pwritev2(file, &buffer, 1, -1, libc::RWF_APPEND);
        libc::rename(before.as_ptr(), after.as_ptr());
        libc::ftruncate(file, 4 * PAGE as i64);
        let kind = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
        assert_eq!(libc::mmap(view, 4 * PAGE, libc::PROT_READ, kind, file, 0), view);
        libc::munmap(view.byte_add(PAGE), 1);
        libc::munmap(view, 4 * PAGE);
        libc::close(libc::open(c"inside".as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600));
        let again = libc::open(out_after.as_ptr(), libc::O_RDONLY);
        let unnamed = libc::open(top.as_ptr(), libc::O_TMPFILE | libc::O_RDWR, 0o600);
        let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
        libc::linkat(here, in_memory(unnamed).as_ptr(), here, linked.as_ptr(), follow);
        libc::pwritev2(unnamed, &buffer, 1, -1, 0);
        // As `fork`, but with the descriptors of both.
        let flags = libc::CLONE_FILES | libc::SIGCHLD;
        match libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) {
            0 => {
                libc::close(again);
                libc::_exit(0)
            }
            child => assert_eq!(libc::waitpid(child as i32, std::ptr::null_mut(), 0), child as i32),
        }
        libc::dup2(unnamed, file);
    }
    std::process::exit(0);
}

/// OV-23: files that are renamed, linked, appended to, unmapped in parts and had together with another process, on the machine.
#[test]
fn unusual_calls_are_seen_as_they_are() {
    let folder = std::env::temp_dir().join(format!("etw-unusual-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (mut has_paths, mut id, mut is_done) = (false, 0, false);
    let flags = "process,thread,file,fileio,fileiocompletion,vamap,virtalloc";
    let recording = crate::live::record_and_count(flags, None, |live: &mut crate::live::Live| {
        has_paths = live.has_call_paths();
        let mut child = helper("calls unusually").env(FOLDER, &folder).spawn().unwrap();
        id = child.id();
        is_done = child.wait().unwrap().success();
    });
    let has_linked = folder.join("linked").exists();
    std::fs::remove_dir_all(&folder).unwrap();
    let Some(recording) = recording else { return };
    assert!(is_done, "the program failed");
    if !has_paths || !has_linked || recording.losses.total() > 0 {
        return eprintln!("left out: needs programs in the kernel, no losses, and O_TMPFILE");
    }
    let records = recording.records;
    let top = folder.to_str().unwrap();
    let creates: Vec<(String, &Taken)> = of(&records, 0x0440)
        .into_iter()
        .filter_map(|one| Some((text(one, OPEN_PATH).strip_prefix(top)?.to_owned(), one)))
        .collect();
    let paths: Vec<&str> = creates.iter().map(|(path, _)| &path[..]).collect();
    assert_eq!(paths, ["/tmp", "/tmp/out", "/build/inside", "/build/out", ""]);
    let objects: Vec<u64> = creates.iter().map(|(_, one)| one.u64(8)).collect();
    let [_, out, inside, again, unnamed] = objects[..] else { panic!() };
    let writes = |object| {
        let all = of(&records, 0x0444).into_iter().filter(|one| one.u64(16) == object);
        all.map(|one| one.u64(0) as i64).collect::<Vec<_>>()
    };
    assert_eq!((writes(out), writes(unnamed)), (vec![0, -1], vec![0]));
    // The names before the end.
    let name_at = |key: u64, time: i64| {
        let is_before = |one: &&Taken| one.u64(0) == key && one.time <= time;
        let last = of(&records, 0x0400).into_iter().rfind(is_before);
        last.map(|one| text(one, NAME)).unwrap_or_default()
    };
    let closed: Vec<(u64, u32, String)> = of(&records, 0x0442)
        .into_iter()
        .filter(|one| objects.contains(&one.u64(8)))
        .map(|one| (one.u64(8), one.process, name_at(one.u64(16), one.time)))
        .map(|(object, process, name)| (object, process, name[top.len()..].to_owned()))
        .collect();
    let objects_closed: Vec<u64> = closed.iter().map(|one| one.0).collect();
    assert_eq!(objects_closed, [inside, again, out, unnamed], "{closed:?}");
    let names: Vec<&str> = closed.iter().map(|one| &one.2[..]).collect();
    assert_eq!(names, ["/build/inside", "/build/out", "/build/out", "/linked"]);
    let by: Vec<bool> = closed.iter().map(|one| one.1 == id).collect();
    assert_eq!(by, [true, false, true, true], "another process had the same descriptors");
    let views = of(&records, 0x0426).into_iter();
    let views = views.filter(|one| one.u32(32) == id && one.u64(0) >= VIEW as u64);
    let parts = views.map(|one| (one.u64(0) as usize - VIEW, one.u64(24) as usize));
    let parts: Vec<_> = parts.filter(|one| one.0 < 4 * PAGE).collect();
    assert_eq!(parts, [(PAGE, PAGE), (0, PAGE), (2 * PAGE, 2 * PAGE)]);
}

/// Milliseconds for which the program has its files open.
const OPEN_FOR: u64 = 300;

/// The role of a program that has a file open by the descriptor that a pipe had, and one by that of a memory file.
pub fn use_twice() {
    let folder = std::env::var(FOLDER).unwrap();
    let path = |name: &str| CString::new(format!("{folder}{name}")).unwrap();
    let [after_pipe, after_memory] = ["/after-pipe", "/after-memory"].map(path);
    let mut bytes = [7u8; 5];
    let [from, to] = [bytes.as_mut_ptr().cast(), bytes.as_mut_ptr().cast()];
    // SAFETY: system calls with paths and a buffer that live.
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        libc::write(ends[1], from, 5);
        libc::read(ends[0], to, 5);
        assert_eq!(ends.map(|end| libc::close(end)), [0; 2]);
        let file = libc::open(after_pipe.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600);
        assert_eq!(file, ends[0]);
        let memory = libc::memfd_create(c"memory".as_ptr(), 0);
        libc::write(memory, from, 4);
        libc::close(memory);
        let second = libc::open(after_memory.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600);
        assert_eq!(second, memory);
        libc::write(second, from, 3);
    }
    std::thread::sleep(std::time::Duration::from_millis(OPEN_FOR));
    std::process::exit(0);
}

/// OV-23: what a descriptor was used for before it became that of a file is nothing that was done to the file.
#[test]
fn operations_before_a_file_was_opened_are_none_of_it() {
    let folder = std::env::temp_dir().join(format!("etw-twice-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut is_done = false;
    let flags = "process,thread,file,fileio,fileiocompletion";
    let recording = crate::live::record_and_count(flags, None, |live: &mut crate::live::Live| {
        let mut child = helper("uses a descriptor twice").env(FOLDER, &folder).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(OPEN_FOR / 2));
        live.poll();
        is_done = child.wait().unwrap().success();
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let Some(recording) = recording else { return };
    assert!(is_done, "the program failed");
    let records = recording.records;
    let name = |key: u64| {
        let named = of(&records, 0x0400).into_iter().find(|one| one.u64(0) == key);
        named.map(|one| text(one, NAME)).unwrap_or_default()
    };
    let top = folder.to_str().unwrap();
    let transfers = [0x0443, 0x0444].map(|hook| {
        let all = of(&records, hook).into_iter().map(|one| (name(one.u64(24)), one.u32(36)));
        all.filter(|(name, _)| name.starts_with(top)).collect::<Vec<_>>()
    });
    let written = (format!("{top}/after-memory"), 3);
    assert_eq!(transfers, [vec![], vec![written]], "{:?}", recording.losses);
}

/// The role of a program that makes calls of 32 bits: 20 is getpid there, and writev among those of 64 bits.
pub fn call_with_32_bits() {
    #[cfg(target_arch = "x86_64")]
    for _ in 0..50 {
        let result: i64;
        // SAFETY: the call takes no arguments, and changes no other registers than these.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") 20i64 => result, out("r8") _, out("r9") _,
                out("r10") _, out("r11") _);
        }
        assert_eq!(result, i64::from(std::process::id()));
    }
    std::process::exit(0);
}

/// OV-23: calls of 32 bits in a program of 64 bits are counted, and not decoded as others.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_32_bits_are_not_taken_for_others() {
    let (mut has_paths, mut id, mut is_done, mut notes) = (false, 0, false, Vec::new());
    let flags = "process,thread,fileio";
    let recording = crate::live::record_and_count(flags, None, |live: &mut crate::live::Live| {
        has_paths = live.has_call_paths();
        let mut child = helper("calls as a program of 32 bits").spawn().unwrap();
        id = child.id();
        is_done = child.wait().unwrap().success();
        crate::ground_truth::settle(live);
        notes = live.notes();
    });
    let Some(recording) = recording else { return };
    if !has_paths || !is_done || recording.losses.total() > 0 {
        let lost = recording.losses.total();
        return eprintln!(
            "left out: programs in the kernel: {has_paths}, calls of 32 bits: {is_done}, lost: {lost}"
        );
    }
    let records = recording.records;
    let of_child = |hook| of(&records, hook).into_iter().filter(|one| one.process == id).count();
    assert_eq!(of_child(0x0444), 0, "getpid is no writev");
    let (count, is_missing) = (50, "missing system calls: ");
    let missing = notes
        .iter()
        .find_map(|note| note.strip_prefix(is_missing)?.split(',').next()?.parse().ok());
    assert!(missing.is_some_and(|all: u32| all >= count), "{notes:?}");
}
