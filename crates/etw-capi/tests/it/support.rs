//! Compilers, the library and folders for tests with C programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A folder of this test's own, removed in the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("etw-capi-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `libetw.a`, built; `libetw.so` is beside it.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("etw-capi", "/libetw.a"))
}

/// The command `etw`, built.
pub fn command_line() -> &'static Path {
    static COMMAND: OnceLock<PathBuf> = OnceLock::new();
    COMMAND.get_or_init(|| build("etw-cli", "/etw"))
}

/// Builds a package. Returns the path of the built file whose name ends with `name`.
fn build(package: &str, name: &str) -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked", "-p", package, "--message-format=json"])
        .current_dir(home().join("../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let end = text.find(&format!("{name}\"")).expect("it is among what was built");
    let start = text[..end].rfind('"').unwrap() + 1;
    PathBuf::from(&text[start..end + name.len()])
}

/// A compiler, a language and flags.
#[derive(Clone, Copy, Debug)]
pub struct Compiler(pub &'static str, pub &'static [&'static str]);

pub const COMPILERS: [Compiler; 7] = [
    Compiler("gcc", &["-std=c11"]),
    Compiler("gcc", &["-std=gnu11", "-O2", "-fshort-wchar", "-DSHORT_WCHAR"]),
    Compiler("gcc", &["-std=c11", "-g", "-fsanitize=address,undefined"]),
    Compiler("g++", &["-std=c++17", "-x", "c++"]),
    Compiler("clang", &["-std=c11"]),
    Compiler("clang++", &["-std=c++17", "-x", "c++"]),
    Compiler("clang", &["-std=c11", "-O2", "-g", "-fsanitize=address,undefined"]),
];

/// The flag for the headers with Windows' names.
pub const WINDOWS: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include/windows");

/// They see what the program does, what the headers put into it, and what callbacks do on the library's threads. What the library does
/// itself is not instrumented, and its locks are not C's: so it is one of its own, a shared one, whose calls are not looked at
/// (`ignore_noninstrumented_modules`, in [`run`]); its accesses are modelled with `loom`.
pub const THREAD_SANITIZERS: [Compiler; 3] = [
    Compiler("gcc", &["-std=c11", "-g", "-fsanitize=thread"]),
    Compiler("clang", &["-std=c11", "-O2", "-g", "-fsanitize=thread"]),
    Compiler("clang++", &["-std=c++17", "-x", "c++", "-g", "-fsanitize=thread"]),
];

fn is_of_threads(compiler: Compiler) -> bool {
    compiler.1.contains(&"-fsanitize=thread")
}

/// The command that runs a program of this compiler.
pub fn run(program: &Path, compiler: Compiler) -> Command {
    let mut command = Command::new(program);
    if is_of_threads(compiler) {
        command.env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1");
    }
    command
}

/// Compiles a program of `tests/c`. Prints a note and returns `None` if the compiler is not installed.
pub fn compile(folder: &Folder, source: &str, compiler: Compiler) -> Option<PathBuf> {
    compile_file(folder, &home().join("tests/c").join(source), compiler)
}

/// As [`compile`], with the static library, whatever the compiler.
pub fn compile_static(folder: &Folder, source: &str, compiler: Compiler) -> Option<PathBuf> {
    link(folder, &home().join("tests/c").join(source), compiler, library(), &[])
}

/// As [`compile`], with the shared library.
pub fn compile_shared(folder: &Folder, source: &str, compiler: Compiler) -> Option<PathBuf> {
    let library = library().with_file_name("libetw.so");
    link(folder, &home().join("tests/c").join(source), compiler, &library, &[])
}

/// As [`compile`], any file.
pub fn compile_file(folder: &Folder, source: &Path, compiler: Compiler) -> Option<PathBuf> {
    // The first compiler links the static library. The others link the shared one, in a tenth of the time.
    let is_static = compiler.0 == COMPILERS[0].0 && compiler.1 == COMPILERS[0].1;
    let library = if is_static { library().to_owned() } else { library().with_extension("so") };
    link(folder, source, compiler, &library, &[])
}

/// As [`compile_file`], linked with an object.
pub fn compile_with_object(
    folder: &Folder,
    source: &Path,
    compiler: Compiler,
    object: &Path,
) -> Option<PathBuf> {
    link(folder, source, compiler, library(), &[object.as_os_str()])
}

/// As [`compile_file`], with a build id in hex.
pub fn compile_with_build_id(
    folder: &Folder,
    source: &Path,
    compiler: Compiler,
    id: &str,
) -> Option<PathBuf> {
    let option = format!("-Wl,--build-id=0x{id}");
    link(folder, source, compiler, library(), &[OsStr::new(&option)])
}

/// Links a program of objects with the static library; whether that worked.
pub fn link_with_library(linker: &mut Command, program: &Path) -> bool {
    let linker = linker.arg(library()).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(program);
    linker.status().is_ok_and(|status| status.success())
}

fn link(
    folder: &Folder,
    source: &Path,
    compiler: Compiler,
    library: &Path,
    more: &[&OsStr],
) -> Option<PathBuf> {
    let program = folder.0.join("program");
    let output = Command::new(compiler.0)
        .args(compiler.1)
        .args(["-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(home().join("include"))
        .arg(source)
        // The library is neither C nor C++.
        .args(["-x", "none"])
        .args(more)
        .arg(library)
        .arg(format!("-Wl,-rpath,{}", library.parent()?.display()))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: {} is not installed", compiler.0);
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cannot find -lasan")
        || said.contains("cannot find -ltsan")
        || said.contains("libclang_rt")
    {
        eprintln!("skipped: {compiler:?} has no sanitizers");
        return None;
    }
    assert!(output.status.success(), "{compiler:?}: {said}");
    Some(program)
}

/// The compiler's messages for a program with one of its mistakes; empty if it compiles.
pub fn try_compile(
    folder: &Folder,
    source: &str,
    compiler: Compiler,
    mistake: u32,
) -> Option<String> {
    try_compile_file(folder, &home().join("tests/c").join(source), compiler, mistake)
}

/// As [`try_compile`], any file.
pub fn try_compile_file(
    folder: &Folder,
    source: &Path,
    compiler: Compiler,
    mistake: u32,
) -> Option<String> {
    let output = Command::new(compiler.0)
        .args(compiler.1)
        .args(["-Wall", "-Wextra", "-Werror", "-c"])
        .arg(format!("-DMISTAKE={mistake}"))
        .arg("-I")
        .arg(home().join("include"))
        .arg(source)
        .arg("-o")
        .arg(folder.0.join("object"))
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: {} is not installed", compiler.0);
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { String::new() } else { said })
}
