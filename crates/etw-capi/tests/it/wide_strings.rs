//! `std::wstring` with `-fshort-wchar`.

use std::process::Command;

use crate::support::*;

/// `windows.h` may stand in front of the C++ library's headers, behind them, or nowhere: `size`, `find` and `==` of `std::wstring` are right
/// with every compiler, standard and optimisation.
#[test]
fn wide_strings_are_right_however_windows_h_is_included() {
    let folder = Folder::new("wide-strings");
    let source = home().join("tests/c/windows/wide_strings.cpp");
    let mut ran = 0;
    for compiler in ["g++", "clang++"] {
        for standard in ["c++11", "c++14", "c++17", "c++20", "c++2b"] {
            for optimisation in ["-O0", "-O2"] {
                let compile = |windows_h: u32| {
                    let object = folder.0.join(format!("{windows_h}.o"));
                    let output = Command::new(compiler)
                        .arg(format!("-std={standard}"))
                        .args([optimisation, "-fshort-wchar", "-DUNICODE", "-c"])
                        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"])
                        .arg(format!("-DWINDOWS_H={windows_h}"))
                        .arg("-I")
                        .arg(home().join("include/windows"))
                        .arg(&source)
                        .arg("-o")
                        .arg(&object)
                        .output();
                    output.map(|output| (object, output))
                };
                let compiled: Result<Vec<_>, _> = (0..3).map(compile).collect();
                let Ok(compiled) = compiled else {
                    eprintln!("skipped: {compiler} is not installed");
                    continue;
                };
                for (_, output) in &compiled {
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success(), "{compiler} {standard}: {said}");
                }
                let program = folder.0.join("program");
                let objects = compiled.iter().map(|(object, _)| object);
                let linked = link_with_library(Command::new(compiler).args(objects), &program);
                assert!(linked, "{compiler} {standard} {optimisation}");
                let output = Command::new(&program).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success() && said.is_empty(),
                    "{compiler} {standard} {optimisation}: {said}"
                );
                ran += 1;
            }
        }
    }
    assert!(ran > 0, "no C++ compiler is installed");
}
