//! `cargo xtask install`: the `etw` command with its manual pages and completions, and `libetw` for C and C++.

use crate::build::Build;
use crate::{Result, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(clap::Args)]
pub struct Arguments {
    /// The folder for bin, lib, include and share
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
    /// Folder to install into for a package: it stands before the prefix
    #[arg(long)]
    destdir: Option<PathBuf>,
    /// Cargo's profile
    #[arg(long, default_value = "release")]
    profile: String,
}

/// The part of the version that changes when programs break: of 0.x the first two numbers.
pub fn compatible() -> String {
    let mut numbers = VERSION.split('.');
    match (numbers.next(), numbers.next()) {
        (Some("0"), Some(minor)) => format!("0.{minor}"),
        (Some(major), _) => major.to_owned(),
        _ => VERSION.to_owned(),
    }
}

/// Installs the command and the library.
pub fn run(arguments: &Arguments) -> Result<()> {
    let prefix = std::path::absolute(&arguments.prefix)?;
    let to = match &arguments.destdir {
        Some(folder) => folder.join(prefix.strip_prefix("/").unwrap_or(&prefix)),
        None => prefix.clone(),
    };
    let build = Build::of_profile(&arguments.profile);
    let etw = build.etw()?;
    install_command(&etw, &etw, &to)?;
    install_library(&build, &prefix, &to)?;
    println!("etw and libetw {VERSION} are in {}", to.display());
    Ok(())
}

/// Installs `etw`, and the pages and completions that it writes itself; `runs`: the same command for this machine.
pub fn install_command(etw: &Path, runs: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.join("bin"))?;
    replace(etw, &to.join("bin/etw"))?;
    let status = Command::new(runs).arg("manual").arg(to.join("share/man/man1")).status()?;
    if !status.success() {
        return Err("etw manual has failed".into());
    }
    for (shell, file) in [
        ("bash", "share/bash-completion/completions/etw"),
        ("zsh", "share/zsh/site-functions/_etw"),
        ("fish", "share/fish/vendor_completions.d/etw.fish"),
    ] {
        let output = Command::new(runs).args(["completions", shell]).output()?;
        if !output.status.success() {
            return Err(format!("etw completions {shell} has failed").into());
        }
        let path = to.join(file);
        fs::create_dir_all(path.parent().ok_or("a file without a folder")?)?;
        fs::write(path, output.stdout)?;
    }
    Ok(())
}

/// Installs `libetw`: libraries, headers, files for pkg-config and CMake, the manual page.
pub fn install_library(build: &Build, prefix: &Path, to: &Path) -> Result<()> {
    let version = compatible();
    let shared = format!("libetw.so.{version}");
    let (archive, library) = build.libraries(&shared)?;

    let folder = to.join("lib");
    fs::create_dir_all(&folder)?;
    replace(&archive, &folder.join("libetw.a"))?;
    replace(&library, &folder.join(&shared))?;
    let link = folder.join("libetw.so");
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link)?;
    }
    std::os::unix::fs::symlink(&shared, &link)?;

    let home = root().join("crates/etw-capi");
    copy_headers(&home.join("include"), &to.join("include"))?;

    let prefix = prefix.to_str().ok_or("the prefix is not UTF-8")?;
    let mut numbers = VERSION.split('.');
    let values = [
        ("@prefix@", prefix),
        ("@version@", VERSION),
        ("@soversion@", &version),
        ("@major@", numbers.next().unwrap_or_default()),
        ("@minor@", numbers.next().unwrap_or_default()),
    ];
    for (template, place) in [
        ("etw.pc.in", "lib/pkgconfig/etw.pc"),
        ("etw-config.cmake.in", "lib/cmake/etw/etw-config.cmake"),
        ("etw-config-version.cmake.in", "lib/cmake/etw/etw-config-version.cmake"),
        ("libetw.3.in", "share/man/man3/libetw.3"),
    ] {
        let text = fs::read_to_string(home.join("packaging").join(template))?;
        let text = values.iter().fold(text, |text, (name, value)| text.replace(name, value));
        let path = to.join(place);
        fs::create_dir_all(path.parent().ok_or("a file without a folder")?)?;
        fs::write(path, text)?;
    }
    Ok(())
}

/// A C program with a provider and no session.
pub const PROVIDER: &str = r#"
#include <TraceLoggingProvider.h>
TRACELOGGING_DEFINE_PROVIDER(PROVIDER, "Shop",
    (0x1f2ce556, 0xc278, 0x54a7, 0x72, 0xf3, 0x18, 0xd7, 0x11, 0xbb, 0xa0, 0xcc));
int main(void) {
    TraceLoggingRegister(PROVIDER);
    TraceLoggingWrite(PROVIDER, "Sale", TraceLoggingInt32(3, "count"));
    TraceLoggingUnregister(PROVIDER);
    return 0;
}
"#;

/// The options that `etw.pc` adds for a static program.
pub const STATIC_FLAGS: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-Wl,--gc-sections"];

/// Replaces a file; a running program keeps the old one mapped.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let new = to.with_extension("new");
    fs::copy(from, &new)?;
    fs::rename(new, to)?;
    Ok(())
}

fn copy_headers(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_headers(&entry.path(), &place)?,
            false => {
                fs::copy(entry.path(), place)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_there(program: &str) -> bool {
        let found = Command::new(program).arg("--version").output().is_ok();
        if !found {
            eprintln!("skipped: {program} is not installed");
        }
        found
    }

    fn output(command: &mut Command) -> String {
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The program of the manual page.
    fn example() -> String {
        let page = root().join("crates/etw-capi/packaging/libetw.3.in");
        let page = fs::read_to_string(page).unwrap();
        let (_, example) = page.split_once(".SH EXAMPLE\n.nf\n").unwrap();
        example.split_once(".fi").unwrap().0.to_owned()
    }

    const MANIFEST: &str = r#"<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events">
      <instrumentation><events><provider name="My-Shop" guid="{00000001-0002-0003-0004-000000000005}" symbol="SHOP"
        resourceFileName="x" messageFileName="x"><templates><template tid="T"><data name="Count" inType="win:UInt32"/></template></templates>
        <events><event value="1" symbol="Sold" level="win:Informational" template="T"/></events></provider>
      </events></instrumentation></instrumentationManifest>"#;

    /// A program with events of a manifest and WPP messages.
    const GENERATED: &str = r#"
#define WPP_CONTROL_GUIDS WPP_DEFINE_CONTROL_GUID(Shop, (81b20fea,73a8,4b62,95bc,354477c97a6f), WPP_DEFINE_BIT(Sales))
#include <windows.h>
#include "goods.h"
#include "generated.tmh"
int main(void) {
    WPP_INIT_TRACING(L"generated");
    EventRegisterMy_Shop();
    EventWriteSold(3);
    DoTraceMessage(Sales, "sold %d", 3);
    EventUnregisterMy_Shop();
    WPP_CLEANUP();
    return 0;
}
"#;

    /// A static program with a provider has nothing of the library but what a provider calls.
    fn check_static_provider(folder: &Path, prefix: &Path) {
        if !is_there("nm") {
            return;
        }
        fs::write(folder.join("provider.c"), PROVIDER).unwrap();
        let mut command = Command::new("cc");
        command.arg("provider.c").arg("-I").arg(prefix.join("include"));
        command.arg(prefix.join("lib/libetw.a")).args(STATIC_FLAGS).args(["-o", "provider"]);
        output(command.current_dir(folder));
        let symbols = output(Command::new("nm").arg(folder.join("provider")));
        let linked = |name: &str| symbols.contains(name);
        assert!(linked("etw_ring") && !linked("etw_decode"), "a provider has the decoder");
    }

    #[test]
    fn programs_find_what_is_installed() {
        let folder = root().join("target/install/test");
        let _ = fs::remove_dir_all(&folder);
        let prefix = folder.join("prefix");
        let arguments =
            Arguments { prefix: prefix.clone(), destdir: None, profile: "dev".to_owned() };
        run(&arguments).unwrap();
        run(&arguments).unwrap();
        fs::write(folder.join("shop.c"), example()).unwrap();
        fs::write(folder.join("goods.man"), MANIFEST).unwrap();
        fs::write(folder.join("generated.c"), GENERATED).unwrap();
        let runs = |program: &str| {
            let mut command = Command::new(folder.join(program));
            output(command.current_dir(&folder).env("LD_LIBRARY_PATH", prefix.join("lib")));
            let trace = folder.join("shop.etl");
            assert!(trace.metadata().unwrap().len() > 0);
            fs::remove_file(trace).unwrap();
        };

        if is_there("pkg-config") && is_there("cc") {
            for (name, modes) in [("shared", &[][..]), ("static", &["--static"][..])] {
                let mut command = Command::new("pkg-config");
                command.args(["--cflags", "--libs"]).args(modes).arg("etw");
                let flags = output(command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
                let flags =
                    flags.replace("-letw", if modes.is_empty() { "-letw" } else { "-l:libetw.a" });
                let mut command = Command::new("cc");
                command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "shop.c", "-o", name]);
                output(command.args(flags.split_whitespace()).current_dir(&folder));
                runs(name);
            }
            for (variable, words) in [
                ("mc", &["-um", "-h", ".", "-r", ".", "goods.man"][..]),
                ("tracewpp", &["generated.c"]),
            ] {
                let mut command = Command::new("pkg-config");
                command.arg(format!("--variable={variable}")).arg("etw");
                let tool = output(command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
                let mut tool = tool.split_whitespace();
                let mut command = Command::new(tool.next().unwrap());
                output(command.args(tool).args(words).current_dir(&folder));
            }
            for made in ["goods.h", "generated.tmh"] {
                fs::remove_file(folder.join(made)).unwrap();
            }
            check_static_provider(&folder, &prefix);
            let needed = fs::read(folder.join("shared")).unwrap();
            let name = format!("libetw.so.{}\0", compatible());
            assert!(needed.windows(name.len()).any(|bytes| bytes == name.as_bytes()));
        }

        if is_there("cmake") {
            let script = "cmake_minimum_required(VERSION 3.13)\nproject(shop C)\n\
                          find_package(etw 0.1 REQUIRED)\n\
                          add_executable(cmake-shared shop.c)\n\
                          target_link_libraries(cmake-shared etw::etw)\n\
                          add_executable(cmake-static shop.c)\n\
                          target_link_libraries(cmake-static etw::static)\n\
                          add_executable(generated generated.c)\n\
                          target_compile_options(generated PRIVATE -fshort-wchar)\n\
                          target_include_directories(generated PRIVATE ${CMAKE_PREFIX_PATH}/include/windows)\n\
                          target_link_libraries(generated etw::static)\n\
                          etw_mc(generated goods.man)\n\
                          etw_tracewpp(generated)\n";
            fs::write(folder.join("CMakeLists.txt"), script).unwrap();
            let mut command = Command::new("cmake");
            let place = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
            output(command.args(["-S", ".", "-B", "."]).arg(place).current_dir(&folder));
            output(Command::new("cmake").args(["--build", "."]).current_dir(&folder));
            runs("cmake-shared");
            runs("cmake-static");
            output(&mut Command::new(folder.join("generated")));
        }

        let pages = fs::read_dir(prefix.join("share/man/man1")).unwrap().count();
        assert!(pages > 20, "{pages} pages");
        for file in ["bash-completion/completions/etw", "zsh/site-functions/_etw"] {
            let script = fs::read_to_string(prefix.join("share").join(file)).unwrap();
            assert!(script.contains("capture-state"), "{file}");
        }
        output(Command::new(prefix.join("bin/etw")).arg("--version"));

        if is_there("man") {
            let mut command = Command::new("man");
            command.args(["--warnings", "-l"]).arg(prefix.join("share/man/man3/libetw.3"));
            let output = command.env("MANPAGER", "cat").output().unwrap();
            // A machine without groff has a man that cannot show anything.
            if output.status.success() {
                assert!(
                    String::from_utf8_lossy(&output.stdout)
                        .contains("TRACELOGGING_DEFINE_PROVIDER")
                );
                assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            } else {
                eprintln!("skipped: man shows no page here");
            }
        }
    }
}
