//! Headers: the names that Microsoft's `mc` gives, and C and C++ compilers that accept them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use etw_mc::header::{self, Code, Options};
use serde_json::Value;

use crate::corpus::{folder, manifest, names};

/// The definitions of a header, in the form of the corpus' `NAME.header.json`.
#[derive(Default)]
struct Definitions {
    constants: BTreeMap<String, String>,
    macros: BTreeMap<String, Vec<String>>,
    data: BTreeMap<String, String>,
}

fn definitions(header: &str) -> Definitions {
    let mut found = Definitions::default();
    for line in header.lines() {
        if let Some(define) = line.strip_prefix("#define ") {
            let end = define.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, rest) = define.split_at(end.unwrap_or(define.len()));
            if let Some(rest) = rest.strip_prefix('(') {
                let parameters = rest.split(')').next().unwrap_or_default().split(',');
                let parameters = parameters.map(|one| one.trim().to_owned());
                let parameters = parameters.filter(|one| !one.is_empty()).collect();
                found.macros.insert(name.to_owned(), parameters);
            } else {
                found.constants.insert(name.to_owned(), rest.trim().to_owned());
            }
        } else if let Some((before, value)) = line.split_once(" = ") {
            let name = before.rsplit(' ').next().unwrap_or_default();
            found.data.insert(name.to_owned(), value.trim_end_matches(';').to_owned());
        }
    }
    found
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
}

#[test]
fn names_parameters_and_values_are_those_of_mc() {
    let Some(folder) = folder() else { return };
    let mut compared = 0;
    for name in names() {
        let Ok(theirs) = fs::read(folder.join(format!("{name}.header.json"))) else { continue };
        let theirs: Value = serde_json::from_slice(&theirs).unwrap();
        let manifest = manifest(&folder.join(format!("{name}.man")));
        let ours = definitions(&header::write(&manifest, &Options::default()));
        for (constant, value) in theirs["constants"].as_object().unwrap() {
            let our_value = ours.constants.get(constant).map(String::as_str);
            assert_eq!(our_value, value.as_str(), "{name}: constant {constant}");
            compared += 1;
        }
        for (macro_name, parameters) in theirs["macros"].as_object().unwrap() {
            let our_parameters = ours
                .macros
                .get(macro_name)
                .map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(our_parameters, Some(strings(parameters)), "{name}: macro {macro_name}");
            compared += 1;
        }
        for (event, numbers) in theirs["descriptors"].as_object().unwrap() {
            let numbers = format!("{{{}}}", strings(numbers).join(", "));
            assert_eq!(ours.data.get(event), Some(&numbers), "{name}: descriptor {event}");
            compared += 1;
        }
        for (guid, value) in theirs["guids"].as_object().unwrap() {
            assert_eq!(
                ours.data.get(guid).map(String::as_str),
                value.as_str(),
                "{name}: GUID {guid}"
            );
            compared += 1;
        }
    }
    assert!(compared > 2000, "{compared}");
}

/// Headers of mc that stand before ours may define functions of the same templates, or call ours: under a name that depends on
/// the version of mc.
#[test]
fn a_header_meets_those_of_any_mc_in_one_source() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let manifest = etw_mc::Manifest::parse(ALL_TYPES.as_bytes()).unwrap();
    let text = header::write(&manifest, &Options::default());
    fs::write(folder.join("meets.h"), &text).unwrap();
    let guards: Vec<String> = definitions(&text)
        .constants
        .into_keys()
        .filter(|name| name.starts_with("McTemplate") && name.ends_with("_def"))
        .collect();
    let before: String = guards
        .iter()
        .filter(|name| !name.ends_with("_etw_def"))
        .map(|name| format!("#define {name}\n"))
        .collect();
    let call = "unsigned long call(void)\n{\n    return EventWriteEmpty()";
    let (before, behind) = (
        format!("{before}#include \"meets.h\"\n{call};\n}}\n"),
        format!(
            "#include \"meets.h\"\n{call} + McTemplateU0(&ALL_TYPES_Context, &Empty) +\n    \
             McTemplateU0_EventWriteTransfer(&ALL_TYPES_Context, &Empty);\n}}\n"
        ),
    );
    for (name, source) in [("before", before), ("behind", behind)] {
        let file = folder.join(format!("meets_{name}.c"));
        fs::write(&file, source).unwrap();
        for compiler in ["gcc", "clang"] {
            if Command::new(compiler).arg("--version").output().is_err() {
                continue;
            }
            let output = Command::new(compiler)
                .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
                .arg(include())
                .arg(&file)
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler} {name}:\n{errors}");
        }
    }
}

/// A manifest with every type of field, alone, in arrays of fixed and given counts, and in structs.
const ALL_TYPES: &str = include_str!("all_types.man");

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../etw-capi/include")
}

#[test]
fn headers_compile_without_warnings_in_c_and_cpp() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let manifest = etw_mc::Manifest::parse(ALL_TYPES.as_bytes()).unwrap();
    let mut compiled = 0;
    for (code, name) in [(Code::None, "none"), (Code::User, "user"), (Code::Kernel, "kernel")] {
        let options = Options { code, ..Options::default() };
        let text = header::write(&manifest, &options);
        let file = folder.join(format!("{name}.h"));
        fs::write(&file, &text).unwrap();
        // Every macro that writes, called with zeros, in a file that includes the header twice.
        let mut source = format!(
            "#define MCGEN_ENABLE_FORCONTEXT_CODE_GENERATION 1\n\
             #include \"{name}.h\"\n#include \"{name}.h\"\nunsigned long calls(void);\nunsigned long calls(void)\n{{\n    unsigned long sum = 0;\n"
        );
        for (macro_name, parameters) in definitions(&text).macros {
            if macro_name.starts_with("EventWrite") {
                let zeros = vec!["0"; parameters.len()].join(", ");
                source.push_str(&format!("    sum += {macro_name}({zeros});\n"));
            }
        }
        source.push_str("    return sum;\n}\n");
        for (compiler, standard, ending) in [
            ("gcc", "c11", "c"),
            ("gcc", "gnu11", "c"),
            ("g++", "c++17", "cpp"),
            ("clang", "c11", "c"),
            ("clang++", "c++17", "cpp"),
        ] {
            if Command::new(compiler).arg("--version").output().is_err() {
                eprintln!("skipped: no {compiler}");
                continue;
            }
            let path = folder.join(format!("{name}.{ending}"));
            fs::write(&path, &source).unwrap();
            let output = Command::new(compiler)
                .args([
                    &format!("-std={standard}"),
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    "-fsyntax-only",
                    "-I",
                ])
                .arg(include())
                .arg(&path)
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler} -std={standard} {name}:\n{errors}");
            compiled += 1;
        }
    }
    eprintln!("{compiled} compilations");
}
