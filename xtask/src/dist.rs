//! `cargo xtask dist`: what a release publishes. The same commit gives the same bytes.

mod components;
mod packages;

use crate::build::Build;
use crate::install::{self, VERSION};
use crate::{Result, root};
use packages::{has, run as run_command};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// A target to build for; repeatable [default: all for which this machine has a standard library and a linker]
    #[arg(long = "target", value_name = "TRIPLE")]
    targets: Vec<String>,
    /// The folder for what is made
    #[arg(long, default_value = "target/dist")]
    out: PathBuf,
    /// Cargo's profile
    #[arg(long, default_value = "release")]
    profile: String,
    /// Make everything twice, in two folders, and compare
    #[arg(long)]
    twice: bool,
}

/// The targets of a release: with the C library of the system, and static.
const TARGETS: [&str; 4] = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
];

/// The most bytes that `libetw.a` adds to a C program with a provider.
const STATIC_LIMIT: u64 = 2 << 20;

/// One making of everything.
pub struct Release {
    /// The files that are published.
    pub out: PathBuf,
    /// Intermediate files.
    pub work: PathBuf,
    /// The commit's time, in seconds since 1970: of all files in packages.
    pub time: u64,
    /// The option of dpkg-deb.
    pub compression: &'static str,
    profile: String,
}

impl Release {
    fn new(out: &Path, profile: &str) -> Result<Release> {
        let work = out.with_file_name(format!(
            "{}.work",
            out.file_name().and_then(|name| name.to_str()).ok_or("a folder without a name")?
        ));
        let _ = fs::remove_dir_all(out);
        fs::create_dir_all(out)?;
        fs::create_dir_all(&work)?;
        let log =
            Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()).output();
        let time = log.ok().and_then(|log| String::from_utf8(log.stdout).ok()?.trim().parse().ok());
        // Without a repository the files have the time at which ZIP archives begin: 1980.
        let time = time.unwrap_or(315_532_800);
        Ok(Release {
            out: std::path::absolute(out)?,
            work: std::path::absolute(work)?,
            time,
            compression: if profile == "dev" { "-Zgzip" } else { "-Zxz" },
            profile: profile.to_owned(),
        })
    }

    fn checksum(&self, file: &Path) -> Result<String> {
        let digest = Sha256::digest(fs::read(file)?);
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The linker of a target that is not the usual one.
    fn linker(&self, target: &str) -> Option<String> {
        match linker(target)?? {
            ZIG => Some(self.work.join(format!("zig-{target}")).display().to_string()),
            linker => Some(linker.to_owned()),
        }
    }

    /// Writes the script by which zig is the compiler and linker of a target with the C library of Debian 11.
    fn write_zig_script(&self, target: &str) -> Result<()> {
        let file = self.work.join(format!("zig-{target}"));
        let triple = target.replace("-unknown", "");
        // zig has an unwinder under another name, and a target of its own.
        let script = format!(
            "#!/bin/bash\nwords=()\nfor word in \"$@\"; do\n  case \"$word\" in\n    --target=*) ;;\n    \
             -lgcc_s) words+=(-lunwind) ;;\n    *) words+=(\"$word\") ;;\n  esac\ndone\n\
             exec zig cc -target {triple}.2.31 \"${{words[@]}}\"\n"
        );
        fs::write(&file, script)?;
        run_command(Command::new("chmod").arg("755").arg(&file))
    }

    fn build(&self, target: &str) -> Build {
        let home = std::env::var("CARGO_HOME")
            .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
            .unwrap_or_default();
        // Paths of this machine stay out of the programs.
        let flags = format!(
            "--remap-path-prefix={}=openetw --remap-path-prefix={home}=cargo",
            root().display()
        );
        let mut environment = vec![
            ("RUSTFLAGS".to_owned(), flags),
            ("SOURCE_DATE_EPOCH".to_owned(), self.time.to_string()),
        ];
        if let Some(linker) = self.linker(target) {
            let name = target.to_uppercase().replace('-', "_");
            environment.push((format!("CARGO_TARGET_{name}_LINKER"), linker.clone()));
            if target.ends_with("-gnu") {
                environment.push((format!("CC_{}", target.replace('-', "_")), linker));
            }
        }
        Build {
            profile: self.profile.clone(),
            target: Some(target.to_owned()),
            folder: Some(self.work.join("build")),
            environment,
        }
    }

    /// Builds for one target and packs it. `runs`: the command for this machine.
    fn make(&self, target: &str, runs: &Path) -> Result<()> {
        if linker(target) == Some(Some(ZIG)) {
            self.write_zig_script(target)?;
        }
        let build = self.build(target);
        let installed = self.work.join(target);
        let _ = fs::remove_dir_all(&installed);
        let etw = build.etw()?;
        install::install_command(&etw, runs, &installed)?;
        let components = components::linked(target)?;
        let doc = installed.join("share/doc/openetw");
        fs::create_dir_all(&doc)?;
        for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            fs::copy(root().join(file), doc.join(file))?;
        }
        fs::write(doc.join("third-party-licences.txt"), components::licence_texts(&components)?)?;
        let has_library = target.ends_with("-gnu");
        if has_library {
            install::install_library(&build, Path::new("/usr"), &installed)?;
        }

        let short = target.replace("-unknown", "");
        let debug = self.work.join(format!("{target}.debug"));
        let _ = fs::remove_dir_all(&debug);
        let mut programs = vec!["bin/etw".to_owned()];
        if has_library {
            programs.push(format!("lib/libetw.so.{}", install::compatible()));
        }
        for program in &programs {
            split_debug(&installed.join(program), &debug.join(program))?;
        }
        if has_library {
            run_command(objcopy()?.arg("--strip-debug").arg(installed.join("lib/libetw.a")))?;
            self.check_static_program(target, &installed)?;
        }
        packages::archive(&debug, &format!("openetw-{VERSION}-{short}-debug"), self)?;
        packages::archive(&installed, &format!("openetw-{VERSION}-{short}"), self)?;
        let list = components::cyclonedx(&components, VERSION, self.time)?;
        fs::write(self.out.join(format!("openetw-{VERSION}-{short}.cdx.json")), list)?;
        if has_library {
            self.pack(target, &installed)?;
        }
        Ok(())
    }

    /// Checks by how much `libetw.a` makes a C program with a provider larger.
    fn check_static_program(&self, target: &str, installed: &Path) -> Result<()> {
        let compiler = self.linker(target).unwrap_or_else(|| "cc".to_owned());
        let size_of = |name: &str, source: &str, library: &[&Path]| -> Result<u64> {
            let (file, program) = (self.work.join(format!("{name}.c")), self.work.join(name));
            fs::write(&file, source)?;
            let mut command = Command::new(&compiler);
            command.args(["-O2", "-s", "-o"]).arg(&program).arg(&file);
            command.arg("-I").arg(installed.join("include")).args(library);
            run_command(command.args(install::STATIC_FLAGS))?;
            Ok(fs::metadata(&program)?.len())
        };
        let library = installed.join("lib/libetw.a");
        let empty = size_of("empty", "int main(void) { return 0; }\n", &[])?;
        let growth = size_of("provider", install::PROVIDER, &[&library])?.saturating_sub(empty);
        println!("{target}: a static C program with a provider is {} KiB larger", growth / 1024);
        if self.profile == "release" && growth > STATIC_LIMIT {
            return Err(format!(
                "libetw.a adds {growth} bytes to a C program, more than {STATIC_LIMIT}"
            )
            .into());
        }
        Ok(())
    }

    fn pack(&self, target: &str, installed: &Path) -> Result<()> {
        let (debian, redhat) = match target.starts_with("x86_64") {
            true => ("amd64", "x86_64"),
            false => ("arm64", "aarch64"),
        };
        for package in packages::packages() {
            if has("dpkg-deb") {
                packages::deb(&package, installed, debian, self)?;
            } else {
                println!("skipped: no Debian package without dpkg-deb");
            }
            if has("rpmbuild") {
                packages::rpm(&package, installed, redhat, self)?;
            } else {
                println!("skipped: no RPM package without rpmbuild");
            }
        }
        Ok(())
    }

    /// Recipes and checksums, which name what has been made.
    fn finish(&self) -> Result<()> {
        packages::recipe("Containerfile", "Containerfile", self)?;
        packages::recipe("openetw.rb", "openetw.rb", self)?;
        packages::recipe("install.sh", "install.sh", self)?;
        let mut sums = String::new();
        for name in names(&self.out)? {
            writeln!(sums, "{}  {name}", self.checksum(&self.out.join(&name))?)?;
        }
        fs::write(self.out.join("SHA256SUMS"), sums)?;
        Ok(())
    }
}

/// A compiler for every target, which needs a script for each.
const ZIG: &str = "zig";

/// The linker of a target: `None` if there is none, `Some(None)` for the usual one.
fn linker(target: &str) -> Option<Option<&'static str>> {
    let own = std::env::consts::ARCH;
    match target {
        _ if target.starts_with(own) => Some(None),
        // The standard library brings the C library and its start files.
        _ if target.ends_with("-musl") => Some(Some("rust-lld")),
        "aarch64-unknown-linux-gnu" if has("aarch64-linux-gnu-gcc") => {
            Some(Some("aarch64-linux-gnu-gcc"))
        }
        "x86_64-unknown-linux-gnu" if has("x86_64-linux-gnu-gcc") => {
            Some(Some("x86_64-linux-gnu-gcc"))
        }
        _ if target.ends_with("-gnu") && has("zig") => Some(Some(ZIG)),
        _ => None,
    }
}

/// Whether the target can be built here; otherwise says why not.
fn can_build(target: &str) -> Result<bool> {
    let output =
        Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output()?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let reason = match (folder.is_dir(), linker(target)) {
        (false, _) => format!("no standard library; rustup target add {target}"),
        (true, None) => {
            "no linker for it; a gcc for it or zig (pip install ziglang) is one".to_owned()
        }
        (true, Some(_)) => return Ok(true),
    };
    println!("skipped: {target}: {reason}");
    Ok(false)
}

/// LLVM's objcopy of the toolchain, which knows all processors.
fn objcopy() -> Result<Command> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output()?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let program = folder.parent().ok_or("no toolchain")?.join("bin/rust-objcopy");
    Ok(Command::new(if program.exists() { program } else { PathBuf::from("objcopy") }))
}

/// Moves the debug information of a program into a file beside, which the program names.
fn split_debug(program: &Path, debug: &Path) -> Result<()> {
    let name = format!("{}.debug", debug.display());
    let debug = Path::new(&name);
    fs::create_dir_all(debug.parent().ok_or("a file without a folder")?)?;
    run_command(objcopy()?.arg("--only-keep-debug").arg(program).arg(debug))?;
    run_command(objcopy()?.arg("--strip-all").arg(program))?;
    run_command(objcopy()?.arg(format!("--add-gnu-debuglink={name}")).arg(program))
}

/// The names of the files in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// A time as RFC 3339 has it.
fn iso_time(seconds: u64) -> Result<String> {
    let time = etw_types::FileTime(i64::try_from(seconds)? * 10_000_000 + 116_444_736_000_000_000);
    Ok(time.to_string().replace(".0000000Z", "Z"))
}

/// Makes a release.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut targets: Vec<String> = arguments.targets.clone();
    if targets.is_empty() {
        for target in TARGETS {
            if can_build(target)? {
                targets.push(target.to_owned());
            }
        }
    }
    let make = |out: &Path| -> Result<()> {
        let release = Release::new(out, &arguments.profile)?;
        let own = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let runs = release.build(&own).etw()?;
        for target in &targets {
            release.make(target, &runs)?;
            println!("made: {target}");
        }
        release.finish()
    };
    make(&arguments.out)?;
    if arguments.twice {
        let second = PathBuf::from(format!("{}-again", arguments.out.display()));
        make(&second)?;
        let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS"));
        if sums(&arguments.out)? != sums(&second)? {
            run_command(
                Command::new("diff")
                    .arg(arguments.out.join("SHA256SUMS"))
                    .arg(second.join("SHA256SUMS")),
            )?;
        }
        println!("equal: the second making has the same checksums");
    }
    println!("{} files in {}", names(&arguments.out)?.len(), arguments.out.display());
    Ok(())
}
