//! Symbols of this test program, of copies without symbols, and of separate debug files.
#![cfg(target_os = "linux")]

mod parts;
mod replay;

use etw_symbols::{Module, Search, SymbolFile, Symbolizer};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// A function whose name the tests look for.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn etw_symbols_known_function(value: u32) -> u32 {
    std::hint::black_box(value).wrapping_mul(3)
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("etw-symbols-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The test has its result already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// OV-23: a call of another file's function goes by a stub without a symbol, which is named as `objdump` names it.
#[test]
fn stubs_have_the_names_of_their_functions() {
    let folder = Folder::new("stubs");
    let source = folder.0.join("calls.c");
    let text = "#include <stdlib.h>\n#include <stdio.h>\nint main(int c, char **v) { void *p = malloc(c); puts(v[0]); return p == (void *)calloc; }\n";
    std::fs::write(&source, text).unwrap();
    for (name, options) in [
        ("lazy", &["-O1", "-fplt", "-Wl,-z,lazy"][..]),
        ("now", &["-O1", "-fplt", "-Wl,-z,now"]),
        ("marked", &["-O1", "-fplt", "-Wl,-z,lazy", "-fcf-protection=full"]),
        ("fixed", &["-O1", "-no-pie", "-Wl,-z,lazy"]),
    ] {
        if name == "marked" && cfg!(not(target_arch = "x86_64")) {
            continue;
        }
        let program = folder.0.join(name);
        let output = Path::new("-o");
        if !tool("cc", options, &[&source, output, &program]) {
            return;
        }
        let Ok(listing) = Command::new("objdump").arg("-d").arg(&program).output() else {
            return eprintln!("left out: objdump is not installed");
        };
        let file = SymbolFile::parse(&std::fs::read(&program).unwrap()).unwrap();
        let listing = String::from_utf8(listing.stdout).unwrap();
        // `0000000000001030 <puts@plt>:`
        let stubs =
            listing.lines().filter_map(|line| line.strip_suffix("@plt>:")?.split_once(" <"));
        let mut count = 0;
        for (address, function) in stubs {
            let address = u64::from_str_radix(address, 16).unwrap();
            let found = file.function(address).unwrap_or_else(|| panic!("{name}: {function}"));
            assert_eq!((&*found.name, found.offset), (&*format!("{function}@plt"), 0), "{name}");
            count += 1;
        }
        assert!(count >= 2, "{name}: {listing}");
    }
}

/// The address of the known function in the file's headers: this program is position-independent.
fn known_address() -> u64 {
    let runtime = etw_symbols_known_function as *const () as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let program = std::env::current_exe().unwrap();
    let line = maps.lines().find(|line| line.ends_with(program.to_str().unwrap())).unwrap();
    runtime - u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()
}

fn nowhere() -> Search {
    Search { debug_folders: Vec::new(), with_debuginfod: false, ..Search::default() }
}

/// Runs a tool of binutils; `false`: it is not installed.
fn tool(program: &str, arguments: &[&str], paths: &[&Path]) -> bool {
    match Command::new(program).args(arguments).args(paths).status() {
        Ok(status) => {
            assert!(status.success(), "{program} {arguments:?}");
            true
        }
        Err(error) => {
            eprintln!("left out: {program}: {error}");
            false
        }
    }
}

/// OV-23: names of functions in a program that may have no debug information.
#[test]
fn functions_of_a_program_have_names_and_offsets() {
    let path = std::env::current_exe().unwrap();
    let build_id = SymbolFile::parse(&std::fs::read(&path).unwrap()).unwrap().build_id;
    let module = Module { path, build_id, ..Module::default() };
    let symbolizer = Symbolizer::new(nowhere());
    let address = known_address();
    let frames = symbolizer.frames(&module, address + 1);
    let outermost = frames.last().unwrap();
    assert_eq!((&*outermost.name, outermost.offset), ("etw_symbols_known_function", Some(1)));
    assert!(symbolizer.frames(&module, u64::MAX).is_empty());
}

/// OV-23: inlined functions and lines of the source.
#[test]
fn debug_information_gives_inlined_functions_and_lines() {
    const SOURCE: &str = "static inline __attribute__((always_inline)) int inlined(volatile int *n) {\n\
        return *n * 3;\n}\nint known(volatile int *n) {\nreturn inlined(n);\n}\n\
        int main(void) { int n = 2; return known(&n); }\n";
    let folder = Folder::new("lines");
    let (source, program) = (folder.0.join("lines.c"), folder.0.join("lines"));
    std::fs::write(&source, SOURCE).unwrap();
    if !tool("cc", &["-g", "-O1", "-o"], &[&program, &source]) {
        return;
    }
    let file = SymbolFile::parse(&std::fs::read(&program).unwrap()).unwrap();
    let start = (0..0x1_0000)
        .find(|address| file.function(*address).is_some_and(|f| &*f.name == "known"))
        .unwrap();
    let has_inlined = |address: &u64| file.frames(*address).len() == 2;
    let address = (start..start + 0x20).find(has_inlined).unwrap();
    let frames = file.frames(address);
    let shown: Vec<_> =
        frames.iter().map(|frame| (&*frame.name, frame.line, frame.offset)).collect();
    let offset = Some(address - start);
    assert_eq!(shown, [("inlined", Some(2), None), ("known", Some(5), offset)]);
    assert!(frames[0].file.as_deref().unwrap().ends_with("lines.c"));
    assert!(file.frames(u64::MAX).is_empty(), "the last address has no function");
}

/// OV-23: a stripped program takes its names from the file of its build id, and from that of its debug link.
#[test]
fn a_stripped_program_takes_its_names_from_its_debug_file() {
    let folder = Folder::new("strip");
    let original = std::env::current_exe().unwrap();
    let (program, debug) = (folder.0.join("program"), folder.0.join("program.debug"));
    let is_made = tool("objcopy", &["--only-keep-debug"], &[&original, &debug])
        && tool("strip", &["-o"], &[&program, &original]);
    if !is_made {
        return;
    }
    let id = SymbolFile::parse(&std::fs::read(&program).unwrap()).unwrap().build_id;
    let module = Module { path: program.clone(), build_id: id.clone(), ..Module::default() };
    let name = |search: Search| {
        let frames = Symbolizer::new(search).frames(&module, known_address());
        frames.last().map(|function| function.name.to_string())
    };
    assert_eq!(name(nowhere()), None, "nothing is known of a stripped program");
    if id.len() < 2 {
        return eprintln!("left out: this linker writes no build id");
    }
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let by_id = folder.0.join(".build-id").join(&hex[..2]);
    std::fs::create_dir_all(&by_id).unwrap();
    std::fs::rename(&debug, by_id.join(format!("{}.debug", &hex[2..]))).unwrap();
    let named = Search { folders: vec![folder.0.clone()], ..nowhere() };
    assert_eq!(name(named.clone()).as_deref(), Some("etw_symbols_known_function"));
    // The trace knows 16 bytes of it, and the program is gone.
    let known = Module {
        path: "/nowhere/program".into(),
        build_id: id[..id.len().min(16)].into(),
        ..Module::default()
    };
    let frames = Symbolizer::new(named.clone()).frames(&known, known_address());
    assert_eq!(&*frames.last().unwrap().name, "etw_symbols_known_function");
    let other = Module { path: original, build_id: vec![0xaa; 20], ..Module::default() };
    assert!(Symbolizer::new(named).frames(&other, known_address()).is_empty(), "another build");
}

/// OV-23: assembly code often gives its functions no type.
#[test]
fn functions_without_a_type_have_names() {
    const SOURCE: &str = ".macro bytes\n.fill 4,1,0\n.endm\n.section .code,\"ax\",%progbits\n.fill 16,1,0\n\
        untyped: bytes\n.type typed,%function\ntyped: bytes\ninner: bytes\n.size typed,.-typed\nbytes\n\
        .type open,%function\nopen: bytes\nlast: bytes\n.globl end\nend:\n\
        .data\nvariable: .quad 0\n";
    let folder = Folder::new("untyped");
    let (source, program) = (folder.0.join("untyped.S"), folder.0.join("untyped.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let options = ["-shared", "-nostdlib", "-Wl,--build-id=none", "-o"];
    if !tool("cc", &options, &[&program, &source]) {
        return;
    }
    let file = SymbolFile::parse(&std::fs::read(&program).unwrap()).unwrap();
    let name = |address| file.function(address).map(|one| format!("{}+{}", one.name, one.offset));
    let first = (0..0x1_0000).find(|address| name(*address).is_some()).unwrap();
    let names: Vec<_> = (0..7).map(|number| name(first + 4 * number + 1)).collect();
    let shown: Vec<_> = names.iter().map(Option::as_deref).collect();
    let expected = ["untyped+1", "typed+1", "typed+5", "", "open+1", "last+1", ""];
    let expected = expected.map(|name| Some(name).filter(|name| !name.is_empty()));
    assert_eq!(shown, expected);
}

#[test]
fn the_running_kernels_symbols_need_its_build_id() {
    let symbolizer = Symbolizer::new(nowhere());
    let unknown = Module { path: "vmlinux".into(), build_id: vec![1; 16], ..Module::default() };
    assert!(symbolizer.frames(&unknown, 0x1000).is_empty());
}

/// OV-23: functions of one name in different scopes are different ones, inlined or not.
#[test]
fn functions_of_one_name_have_their_scopes() {
    const SOURCE: &str = "volatile int sink;\n\
        #define WORK(n) for (int i = 0; i < n; i++) sink += i * sink\n\
        #define OWN __attribute__((noinline))\n\
        namespace alpha { static OWN void work() { WORK(11); } static inline void both() { WORK(12); } }\n\
        namespace beta { static OWN void work() { WORK(13); } }\n\
        namespace { struct Part { static inline __attribute__((always_inline)) void work() { WORK(14); } }; }\n\
        template <class F> static inline __attribute__((always_inline)) void call(F f) { f(); }\n\
        OWN void render() { call([] { WORK(15); }); call([] { WORK(16); \n }); }\n\
        OWN void hold(void (*f)()) { f(); }\n\
        int main() { alpha::work(); beta::work(); Part::work(); render(); alpha::both(); hold(alpha::both); }\n";
    let folder = Folder::new("scopes");
    let (source, program) = (folder.0.join("scopes.cpp"), folder.0.join("scopes"));
    std::fs::write(&source, SOURCE).unwrap();
    for options in [&["-g", "-O2", "-o"][..], &["-g", "-O2", "-flto", "-o"]] {
        if !tool("g++", options, &[&program, &source]) {
            return;
        }
        let file = SymbolFile::parse(&std::fs::read(&program).unwrap()).unwrap();
        let mut names = std::collections::BTreeSet::new();
        for address in 0..0x1_0000 {
            names.extend(file.frames(address).iter().map(|frame| frame.name.to_string()));
        }
        for name in ["alpha::work()", "beta::work()", "(anonymous namespace)::Part::work"] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        let of_lambdas = |name: &&String| name.starts_with("render()::{lambda at ");
        assert_eq!(names.iter().filter(of_lambdas).count(), 2, "{names:?}");
        let bare = |name: &String| matches!(&**name, "work" | "both" | "operator()");
        assert!(!names.iter().any(bare), "{names:?}");
        let has = |name: &str| names.contains(name);
        assert!(has("alpha::both()") != has("alpha::both"), "{names:?}");
    }
}

/// A small program without a build id, whose function has the name; `false`: there is no compiler.
fn program_without_id(program: &Path, function: &str, options: &[&str]) -> bool {
    let source = program.with_extension("c");
    let text =
        format!("int {function}(void) {{ return 7; }} int main(void) {{ return {function}(); }}\n");
    std::fs::write(&source, text).unwrap();
    let own = ["-g", "-O0", "-Wl,--build-id=none"];
    tool("cc", &[&own[..], options, &["-o"]].concat(), &[program, &source])
}

fn address_of(program: &Path, function: &str) -> u64 {
    address_at(program, function, 0)
}

/// The address of a function that is within 64 KiB of another address.
fn address_at(program: &Path, function: &str, near: u64) -> u64 {
    let file = SymbolFile::parse(&std::fs::read(program).unwrap()).unwrap();
    let is_it = |address: &u64| file.function(*address).is_some_and(|one| &*one.name == function);
    (near..near + 0x1_0000).find(is_it).unwrap()
}

/// OV-23: a program without a build id may have been replaced by another one of its name.
#[test]
fn another_program_of_a_recorded_name_gives_no_names() {
    let folder = Folder::new("replaced");
    let program = folder.0.join("program");
    if !program_without_id(&program, "known", &[]) {
        return;
    }
    let address = address_of(&program, "known");
    let hour = Duration::from_secs(3600);
    let names = |module: &Module| {
        let symbolizer = Symbolizer::new(nowhere());
        let names: Vec<_> =
            symbolizer.frames(module, address).iter().map(|frame| frame.name.to_string()).collect();
        (names.concat(), symbolizer.notes().concat())
    };
    let module = Module {
        path: program.clone(),
        loaded: Some(SystemTime::now() + hour),
        ..Module::default()
    };
    assert_eq!(names(&module), ("known".to_owned(), String::new()));
    let (name, note) = names(&Module { loaded: None, ..module.clone() });
    assert!(name == "known" && note.contains("may have been changed"), "{name}: {note}");
    let (name, note) = names(&Module { size: 0x7000_0000, ..module.clone() });
    assert!(name.is_empty() && note.contains("program (another size)"), "{note}");
    let (name, note) = names(&Module { loaded: Some(SystemTime::now() - hour), ..module.clone() });
    assert!(name.is_empty() && note.contains("program (written later)"), "{note}");
    assert!(program_without_id(&program, "known", &["-Wl,--build-id=sha1"]));
    let (name, note) = names(&module);
    assert!(name.is_empty() && note.contains("program (another build id)"), "{note}");
}

/// OV-23: an image of a program whose segments are far apart is one part of it.
#[test]
fn a_part_of_a_program_between_gaps_has_its_names() {
    let folder = Folder::new("apart");
    let (source, path) = (folder.0.join("apart.c"), folder.0.join("apart"));
    let text = "__attribute__((section(\".far\"))) int main(void) { return 0; }";
    std::fs::write(&source, text).unwrap();
    let far = "-Wl,--section-start=.far=0x20000000";
    if !tool("cc", &["-no-pie", "-Wl,--build-id=none", far, "-o"], &[&path, &source]) {
        return;
    }
    let address = address_at(&path, "main", 0x2000_0000);
    for (size, is_known) in [(0x1000, true), (0x70_0000, false)] {
        let module = Module { path: path.clone(), size, ..Module::default() };
        let frames = Symbolizer::new(nowhere()).frames(&module, address);
        assert_eq!(!frames.is_empty(), is_known, "{size:#x}");
    }
}

/// OV-23: the debug file that a program names is that of its checksum.
#[test]
fn a_linked_debug_file_has_its_checksum() {
    let folder = Folder::new("checksum");
    let (program, debug) = (folder.0.join("program"), folder.0.join("program.debug"));
    if !program_without_id(&program, "known", &[]) {
        return;
    }
    let address = address_of(&program, "known");
    let link = format!("--add-gnu-debuglink={}", debug.display());
    let is_made = tool("objcopy", &["--only-keep-debug"], &[&program, &debug])
        && tool("strip", &[], &[&program])
        && tool("objcopy", &[&link], &[&program]);
    if !is_made {
        return;
    }
    let module = Module { path: program.clone(), ..Module::default() };
    let names = || {
        let symbolizer = Symbolizer::new(nowhere());
        let names = symbolizer
            .frames(&module, address)
            .iter()
            .map(|one| one.name.to_string())
            .collect::<String>();
        (names, symbolizer.notes().concat())
    };
    assert_eq!(names().0, "known");
    let other = folder.0.join("other");
    assert!(program_without_id(&other, "other", &[]));
    std::fs::rename(&other, &debug).unwrap();
    let (name, note) = names();
    assert!(name.is_empty() && note.contains("another checksum"), "{name}: {note}");
}

/// OV-23: Linux marks the path of a program that was replaced while it ran; its build id shows which file is the right one.
#[test]
fn a_program_that_was_replaced_has_the_names_of_the_file_with_its_build_id() {
    let folder = Folder::new("marked");
    let (program, build) = (folder.0.join("program"), folder.0.join("build"));
    std::fs::create_dir(&build).unwrap();
    let original = build.join("program");
    if !program_without_id(&original, "known", &["-Wl,--build-id=sha1"]) {
        return;
    }
    let address = address_of(&original, "known");
    let build_id = SymbolFile::parse(&std::fs::read(&original).unwrap()).unwrap().build_id;
    let marked = format!("{} (deleted)", program.display());
    let module = Module { path: marked.into(), build_id, ..Module::default() };
    let names = |module: &Module, folders: &[&Path]| {
        let folders = folders.iter().map(|folder| folder.to_path_buf()).collect();
        let symbolizer = Symbolizer::new(Search { folders, ..nowhere() });
        let frames = symbolizer.frames(module, address);
        let name = frames.first().map(|frame| frame.name.to_string());
        (name.unwrap_or_default(), symbolizer.notes().concat())
    };
    assert_eq!(names(&module, &[&build]), ("known".to_owned(), String::new()));
    let (name, note) = names(&module, &[]);
    assert!(name.is_empty() && note.contains("program (no file)"), "{note}");
    std::fs::copy(&original, &program).unwrap();
    assert_eq!(names(&module, &[]).0, "known");
    // Nothing shows that the file is that of a program without a build id.
    assert!(program_without_id(&program, "known", &[]));
    assert!(names(&Module { build_id: Vec::new(), ..module }, &[]).0.is_empty());
}

/// A program that is linked dynamically still has the stubs of the functions that it calls.
#[test]
fn a_file_without_symbols_is_named_in_a_note() {
    for link in [&["-static", "-Wl,--build-id=sha1"][..], &["-Wl,--build-id=sha1"]] {
        let folder = Folder::new("bare");
        let program = folder.0.join("program");
        if !program_without_id(&program, "known", link) || !tool("strip", &[], &[&program]) {
            return;
        }
        let build_id = SymbolFile::parse(&std::fs::read(&program).unwrap()).unwrap().build_id;
        let symbolizer = Symbolizer::new(nowhere());
        let module = Module { path: program, build_id, ..Module::default() };
        assert!(symbolizer.frames(&module, 0x40_0000).is_empty());
        let notes = symbolizer.notes().concat();
        assert!(notes.contains("program (no symbols)"), "{link:?}: {notes}");
    }
}

/// OV-23: a pipe that bears the name of a program or of its debug file is passed over.
#[test]
fn pipes_are_no_files_with_symbols() {
    let folder = Folder::new("pipes");
    let (program, named) = (folder.0.join("program"), folder.0.join("named"));
    std::fs::create_dir(&named).unwrap();
    if !program_without_id(&program, "known", &["-Wl,--build-id=sha1"]) {
        return;
    }
    let debug = folder.0.join("program.debug");
    std::fs::write(&debug, "any").unwrap();
    let link = format!("--add-gnu-debuglink={}", debug.display());
    if !tool("objcopy", &["--strip-debug", &link], &[&program]) {
        return;
    }
    std::fs::remove_file(&debug).unwrap();
    let address = address_of(&program, "known");
    assert!(tool("mkfifo", &[], &[&debug, &named.join("program")]));
    let build_id = SymbolFile::parse(&std::fs::read(&program).unwrap()).unwrap().build_id;
    let module = Module { path: program, build_id, ..Module::default() };
    let search = Search { folders: vec![named], ..nowhere() };
    let (give, found) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let frames = Symbolizer::new(search).frames(&module, address);
        give.send(frames.first().map(|frame| frame.name.to_string()))
    });
    let name = found.recv_timeout(Duration::from_secs(60)).expect("it waits for a pipe");
    assert_eq!(name.as_deref(), Some("known"));
}

/// OV-23: the user's folders have names for a program that was stripped where it is.
#[test]
fn files_of_the_users_folders_complete_a_stripped_program() {
    let folder = Folder::new("folders");
    let (program, build) = (folder.0.join("program"), folder.0.join("build"));
    std::fs::create_dir(&build).unwrap();
    let original = build.join("program");
    for (options, only_debug) in [("sha1", false), ("sha1", true), ("none", false), ("none", true)]
    {
        let id = format!("-Wl,--build-id={options}");
        if !program_without_id(&original, "known", &[&id]) {
            return;
        }
        let address = address_of(&original, "known");
        let build_id = SymbolFile::parse(&std::fs::read(&original).unwrap()).unwrap().build_id;
        let debug = build.join("program.debug");
        let is_made = tool("strip", &["-o"], &[&program, &original])
            && (!only_debug || tool("objcopy", &["--only-keep-debug"], &[&original, &debug]));
        if !is_made {
            return;
        }
        if only_debug {
            std::fs::remove_file(&original).unwrap();
        }
        let module = Module { path: program.clone(), build_id, ..Module::default() };
        let search = Search { folders: vec![build.clone()], ..nowhere() };
        let frames = Symbolizer::new(search).frames(&module, address);
        let shown: Vec<_> = frames.iter().map(|frame| (&*frame.name, frame.line)).collect();
        assert_eq!(shown, [("known", Some(1))], "{options} {only_debug}");
        let _ = std::fs::remove_file(debug);
    }
}
