//! Programs whose symbols and debug information are packed, or in further files.

use crate::{Folder, nowhere, tool};
use etw_symbols::{Module, Search, SymbolFile, Symbolizer};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const INLINED: &str = "static inline __attribute__((always_inline)) int inlined(volatile int *n) {\n\
    return *n * 3;\n}\nint known(volatile int *n) {\nreturn inlined(n);\n}\n\
    int main(void) { int n = 2; return known(&n); }\n";

/// The names and lines of all stacks of functions in a program.
fn stacks(program: &Path, search: Search) -> BTreeSet<Vec<String>> {
    let bytes = std::fs::read(program).unwrap();
    let build_id = SymbolFile::parse(&bytes).unwrap().build_id;
    let module = Module { path: program.to_owned(), build_id, ..Module::default() };
    let symbolizer = Symbolizer::new(search);
    let stack = |address| {
        let frames = symbolizer.frames(&module, address);
        let shown = |line: Option<u32>| line.map_or(String::new(), |line| format!(":{line}"));
        frames.iter().map(|one| format!("{}{}", one.name, shown(one.line))).collect()
    };
    (0x1000..0x1800).map(stack).collect()
}

fn has_inlined(program: &Path, search: Search) -> bool {
    stacks(program, search).contains(&vec!["inlined:2".to_owned(), "known:5".to_owned()])
}

/// The tool's help has the word.
fn knows(program: &str, word: &str) -> bool {
    let help = Command::new(program).arg("--help").output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(word))
}

/// OV-23: debug information may be compressed, as Go and some distributions have it.
#[test]
fn compressed_debug_information_gives_inlined_functions_and_lines() {
    let folder = Folder::new("compressed");
    let (source, program) = (folder.0.join("lines.c"), folder.0.join("lines"));
    std::fs::write(&source, INLINED).unwrap();
    if !tool("cc", &["-g", "-O1", "-o"], &[&program, &source]) {
        return;
    }
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        if !knows("objcopy", kind) {
            eprintln!("left out: objcopy does not know {kind}");
            continue;
        }
        let option = format!("--compress-debug-sections={kind}");
        let compressed = folder.0.join(kind);
        assert!(tool("objcopy", &[&option], &[&program, &compressed]));
        assert!(has_inlined(&compressed, nowhere()), "{kind}");
    }
}

/// Says that the compressed sections of a program of 64 bits unpack to so many bytes.
fn claim(program: &mut [u8], bytes: u64) {
    const COMPRESSED: u64 = 0x800;
    let number = |program: &[u8], at: usize| {
        u64::from_le_bytes(*program[at..].first_chunk::<8>().unwrap()) as usize
    };
    let (table, count) = (number(program, 0x28), usize::from(program[0x3c]));
    for header in (0..count).map(|at| table + at * 64) {
        if number(program, header + 8) as u64 & COMPRESSED != 0 {
            let size = number(program, header + 24) + 8;
            program[size..size + 8].copy_from_slice(&bytes.to_le_bytes());
        }
    }
}

/// A few megabytes unpack to any number of bytes. Names then come from the symbols.
#[test]
#[cfg(target_pointer_width = "64")]
fn debug_information_that_unpacks_to_too_much_is_left_out_with_a_note() {
    let folder = Folder::new("excess");
    let (source, program) = (folder.0.join("lines.c"), folder.0.join("lines"));
    std::fs::write(&source, INLINED).unwrap();
    let packed = folder.0.join("packed");
    let is_made = tool("cc", &["-g", "-O1", "-o"], &[&program, &source])
        && tool("objcopy", &["--compress-debug-sections=zlib"], &[&program, &packed]);
    if !is_made {
        return;
    }
    let mut bytes = std::fs::read(&packed).unwrap();
    let file = SymbolFile::parse(&bytes).unwrap();
    let address = (0x1000..0x1800)
        .find(|at| file.function(*at).is_some_and(|one| &*one.name == "known"))
        .unwrap();
    let build_id = file.build_id;
    for (claimed, is_left_out) in [(None, false), (Some(1 << 31), true), (Some(1 << 40), true)] {
        if let Some(claimed) = claimed {
            claim(&mut bytes, claimed);
            std::fs::write(&packed, &bytes).unwrap();
        }
        let module =
            Module { path: packed.clone(), build_id: build_id.clone(), ..Module::default() };
        let symbolizer = Symbolizer::new(nowhere());
        let frames = symbolizer.frames(&module, address);
        let outermost = frames.last().unwrap();
        assert_eq!((&*outermost.name, outermost.line.is_none()), ("known", is_left_out));
        let notes = symbolizer.notes().join("\n");
        let named = format!("they take more than 1 GiB: {}", packed.display());
        assert_eq!(notes.contains(&named), is_left_out, "{claimed:?}: {notes}");
    }
}

/// OV-23: a stripped program may have a packed table with the symbols of its functions, as those of Fedora have.
#[test]
fn a_packed_symbol_table_names_functions() {
    let folder = Folder::new("packed");
    let [source, program, table] = ["one.c", "one", "table"].map(|name| folder.0.join(name));
    let text = "static __attribute__((noinline)) int hidden(int n) { return n * 7; }\n\
        int main(int n, char **v) { return hidden(n) + !v; }\n";
    std::fs::write(&source, text).unwrap();
    let is_made = tool("cc", &["-O1", "-o"], &[&program, &source])
        && tool("objcopy", &["--only-keep-debug"], &[&program, &table])
        && tool("strip", &[], &[&program])
        && tool("xz", &[], &[&table]);
    if !is_made {
        return;
    }
    let names = || stacks(&program, nowhere()).into_iter().flatten().collect::<BTreeSet<_>>();
    assert!(!names().contains("hidden"));
    let packed = table.with_extension("xz");
    let add = format!("--add-section=.gnu_debugdata={}", packed.display());
    assert!(tool("objcopy", &[&add], &[&program]));
    assert!(names().contains("hidden"), "{:?}", names());
}

/// OV-23: the debug information of several programs may have a part in a common file.
#[test]
fn debug_information_that_programs_share_is_found() {
    let folder = Folder::new("common");
    // Only what is large enough is shared. Functions have no linkage names.
    let text = "typedef struct first { int a, b, c; struct first *next; char name[16]; } first;\n\
        typedef struct second { first one, two; long sum; void (*call)(first *, struct second *); } second;\n\
        enum colour { RED, GREEN, BLUE, YELLOW };\n\
        static inline __attribute__((always_inline)) int inlined(volatile int *n, second *s, enum colour c) {\n\
        return *n * 3 + (s != 0) + c;\n}\n\
        int known(volatile int *n) { second s; enum colour c = GREEN;\n\
        return inlined(n, &s, c);\n}\n";
    let common = folder.0.join("inlined.h");
    std::fs::write(&common, text).unwrap();
    let programs: Vec<PathBuf> = (1..=3)
        .filter_map(|number| {
            let [source, program] =
                ["c", "out"].map(|end| folder.0.join(format!("program{number}.{end}")));
            let text = format!(
                "#include \"inlined.h\"\nint main(void) {{ int n = {number}; return known(&n); }}\n"
            );
            std::fs::write(&source, text).unwrap();
            tool("cc", &["-g", "-O1", "-Wl,--build-id", "-o"], &[&program, &source])
                .then_some(program)
        })
        .collect();
    let [first, second, third] = &*programs else { return };
    let shared = folder.0.join("shared");
    let named = ["-M", "shared", "-m", shared.to_str().unwrap()];
    if !tool("dwz", &named, &[first, second, third]) {
        return;
    }
    let expected = vec!["inlined:5".to_owned(), "known:8".to_owned()];
    let has_inlined = |search: Search| stacks(first, search).contains(&expected);
    assert!(has_inlined(nowhere()), "beside the program");
    let elsewhere = folder.0.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::rename(&shared, elsewhere.join("shared")).unwrap();
    assert!(!has_inlined(nowhere()));
    let search = Search { folders: vec![elsewhere.clone()], ..nowhere() };
    assert!(has_inlined(search.clone()), "in a folder of the user");
    assert!(tool("objcopy", &["--only-keep-debug"], &[second, &elsewhere.join("shared")]));
    assert!(!has_inlined(search), "another build id");
}

/// OV-23: the compiler may put debug information into files of its own.
#[test]
fn split_debug_information_gives_inlined_functions_and_lines() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let folder = Folder::new(&format!("split{version}"));
        let [source, object, split, program] =
            ["lines.c", "lines.o", "lines.dwo", "lines"].map(|name| folder.0.join(name));
        std::fs::write(&source, INLINED).unwrap();
        let options = ["-gsplit-dwarf", version, "-O1", "-c", "-o"];
        let is_made = tool("cc", &options, &[&object, &source])
            && tool("cc", &["-g", "-o"], &[&program, &object]);
        if !is_made {
            return;
        }
        assert!(has_inlined(&program, nowhere()), "{version}: at its path");
        // A file of another unit is at that path.
        let kept = folder.0.join("kept");
        std::fs::create_dir(&kept).unwrap();
        std::fs::rename(&split, kept.join("lines.dwo")).unwrap();
        let other = folder.0.join("other.c");
        std::fs::write(&other, "int other(int n) { return n; }\n").unwrap();
        assert!(tool("cc", &options, &[&object, &other]));
        assert!(split.is_file());
        assert!(!has_inlined(&program, nowhere()), "{version}: another unit's");
        let search = Search { folders: vec![kept.clone()], ..nowhere() };
        assert!(has_inlined(&program, search), "{version}: in a folder of the user");
        let package = folder.0.join("lines.dwp");
        // The one of binutils drops version 5.
        if version == "-gdwarf-4"
            && tool("dwp", &[], &[&kept.join("lines.dwo"), Path::new("-o"), &package])
        {
            assert!(has_inlined(&program, nowhere()), "{version}: in a package");
        }
    }
}

/// OV-23: units of two files have entries at the same offsets.
#[test]
fn functions_in_split_units_have_their_own_scopes() {
    let folder = Folder::new("split-scopes");
    let mut objects = Vec::new();
    for (name, other) in [("alpha", "beta"), ("beta", "alpha")] {
        let [source, object] = ["cpp", "o"].map(|end| folder.0.join(format!("{name}.{end}")));
        let main = if name == "beta" { "int main() { alpha_call(); beta_call(); }\n" } else { "" };
        let text = format!(
            "volatile int {name}_sink; void {other}_call();\n\
            namespace {name} {{ static inline __attribute__((always_inline)) void work() {{ {name}_sink += 1; }} }}\n\
            void {name}_call() {{ {name}::work(); }}\n{main}"
        );
        std::fs::write(&source, text).unwrap();
        if !tool("g++", &["-g", "-gsplit-dwarf", "-O1", "-c", "-o"], &[&object, &source]) {
            return;
        }
        objects.push(object);
    }
    let program = folder.0.join("program");
    assert!(tool("g++", &["-o"], &[&program, &objects[0], &objects[1]]));
    let stacks = stacks(&program, nowhere());
    for name in ["alpha", "beta"] {
        let is_it = |stack: &Vec<String>| {
            stack.len() == 2
                && stack[0].starts_with(&format!("{name}::work"))
                && stack[1].starts_with(&format!("{name}_call"))
        };
        assert!(stacks.iter().any(is_it), "{name}: {stacks:?}");
    }
}
