//! Archives, Debian and RPM packages of a folder that has what is installed. The same files give the same bytes.

use super::Release;
use crate::install::{VERSION, compatible};
use crate::{Result, root};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HOMEPAGE: &str = env!("CARGO_PKG_REPOSITORY");

/// Runs a command; its output is shown if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&text)).into())
}

/// Whether a program is there.
pub fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// An archive of a folder, below a folder of the archive's name.
pub fn archive(folder: &Path, name: &str, release: &Release) -> Result<PathBuf> {
    let file = release.out.join(format!("{name}.tar.gz"));
    let tar = file.with_extension("");
    run(Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"])
        .arg(format!("--mtime=@{}", release.time))
        .arg(format!("--transform=s,^\\.,{name},"))
        .arg("-cf")
        .arg(&tar)
        .arg("-C")
        .arg(folder)
        .arg("."))?;
    run(Command::new("gzip").args(["-n", "-9", "-f"]).arg(&tar))?;
    Ok(file)
}

/// A package: a name, what it is, and the parts of what is installed that it has.
pub struct Package {
    name: String,
    summary: &'static str,
    needs: String,
    parts: &'static [&'static str],
    has_service: bool,
}

/// The package of the command, and the folder of documents where everything is installed.
const COMMAND: &str = "openetw";

/// The command with the service, and the library for C and C++.
pub fn packages() -> [Package; 2] {
    [
        Package {
            name: COMMAND.to_owned(),
            summary: "Event Tracing for Windows on Linux: record, decode and control",
            needs: "libc6".to_owned(),
            parts: &[
                "bin",
                "share/man/man1",
                "share/bash-completion",
                "share/zsh",
                "share/fish",
                "share/doc",
            ],
            has_service: true,
        },
        Package {
            name: "libetw-dev".to_owned(),
            summary: "Event Tracing for Windows in C and C++ programs",
            needs: "libc6".to_owned(),
            parts: &["include", "lib", "share/man/man3", "share/doc"],
            has_service: false,
        },
    ]
}

/// The files of a package below a folder of its own, as on the machine where it is installed.
fn stage(package: &Package, installed: &Path, to: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(to);
    for part in package.parts {
        let target = to.join("usr").join(part);
        fs::create_dir_all(target.parent().ok_or("a part without a folder")?)?;
        run(Command::new("cp").arg("-a").arg(installed.join(part)).arg(&target))?;
    }
    // Two packages may not have the same file: each has its documents in a folder of its own name.
    let doc = to.join("usr/share/doc");
    if package.name != COMMAND {
        fs::rename(doc.join(COMMAND), doc.join(&package.name))?;
    }
    if package.has_service {
        let home = root().join("crates/etwd/packaging");
        for (file, place) in [
            ("etwd.service", "usr/lib/systemd/system"),
            ("etwd.socket", "usr/lib/systemd/system"),
            ("sysusers.conf", "usr/lib/sysusers.d"),
            ("tmpfiles.conf", "usr/lib/tmpfiles.d"),
        ] {
            let name = match file.strip_suffix(".conf") {
                Some(_) => "openetw.conf",
                None => file,
            };
            fs::create_dir_all(to.join(place))?;
            fs::copy(home.join(file), to.join(place).join(name))?;
        }
    }
    run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(to))
}

/// Debian's package.
pub fn deb(
    package: &Package,
    installed: &Path,
    architecture: &str,
    release: &Release,
) -> Result<PathBuf> {
    let folder = release.work.join(&package.name);
    stage(package, installed, &folder)?;
    let control = folder.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let Package { name, summary, needs, .. } = package;
    let text = format!(
        "Package: {name}\nVersion: {VERSION}\nArchitecture: {architecture}\nDepends: {needs}\n\
         Maintainer: openetw developers <{HOMEPAGE}>\nSection: devel\nPriority: optional\n\
         Homepage: {HOMEPAGE}\nDescription: {summary}\n"
    );
    fs::write(control.join("control"), text)?;
    if package.has_service {
        for script in ["postinst", "prerm", "postrm"] {
            let to = control.join(script);
            fs::copy(root().join("packaging/debian").join(script), &to)?;
            run(Command::new("chmod").arg("755").arg(&to))?;
        }
    }
    let file = release.out.join(format!("{name}_{VERSION}_{architecture}.deb"));
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", release.compression, "--build"])
        .arg(&folder)
        .arg(&file)
        .env("SOURCE_DATE_EPOCH", release.time.to_string()))?;
    Ok(file)
}

/// The RPM package.
pub fn rpm(
    package: &Package,
    installed: &Path,
    architecture: &str,
    release: &Release,
) -> Result<PathBuf> {
    let folder = release.work.join(format!("{}.rpm", package.name));
    stage(package, installed, &folder)?;
    let mut files = String::new();
    list_files(&folder, &folder, &mut files)?;
    let scripts = match package.has_service {
        true => fs::read_to_string(root().join("packaging/rpm/scripts"))?,
        false => String::new(),
    };
    let name = package
        .name
        .strip_suffix("-dev")
        .map_or_else(|| package.name.clone(), |name| format!("{name}-devel"));
    let spec = format!(
        "Name: {name}\nVersion: {VERSION}\nRelease: 1\nSummary: {}\nLicense: MIT OR Apache-2.0\nURL: {HOMEPAGE}\n\
         AutoReqProv: no\n\n%description\n{}.\n\n{scripts}\n%files\n{files}",
        package.summary, package.summary
    );
    let spec_file = release.work.join(format!("{name}.spec"));
    fs::write(&spec_file, spec)?;
    let top = release.work.join("rpmbuild");
    run(Command::new("rpmbuild")
        .args(["-bb", "--target", architecture])
        .arg("--buildroot")
        .arg(&folder)
        .args(["--define", &format!("_topdir {}", top.display())])
        .args(["--define", "_build_id_links none", "--define", "__os_install_post %{nil}"])
        .args([
            "--define",
            "use_source_date_epoch_as_buildtime 1",
            "--define",
            "_buildhost openetw",
        ])
        .args(["--define", "clamp_mtime_to_source_date_epoch 1", "--noclean"])
        .arg(&spec_file)
        .env("SOURCE_DATE_EPOCH", release.time.to_string()))?;
    let file_name = format!("{name}-{VERSION}-1.{architecture}.rpm");
    let file = release.out.join(&file_name);
    fs::copy(top.join("RPMS").join(architecture).join(&file_name), &file)?;
    Ok(file)
}

fn list_files(folder: &Path, top: &Path, out: &mut String) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        match entry.file_type()?.is_dir() {
            true => list_files(&entry.path(), top, out)?,
            false => writeln!(out, "\"/{}\"", entry.path().strip_prefix(top)?.display())?,
        }
    }
    Ok(())
}

/// A recipe with the release's version and checksums: `@version@`, `@soversion@`, and `@sha256:FILE@` of a published file.
pub fn recipe(template: &str, to: &str, release: &Release) -> Result<()> {
    let text = fs::read_to_string(root().join("packaging").join(template))?;
    let text = text.replace("@version@", VERSION).replace("@soversion@", &compatible());
    let mut out = String::new();
    let mut rest = &text[..];
    while let Some((before, behind)) = rest.split_once("@sha256:") {
        let (name, behind) = behind.split_once('@').ok_or("a checksum without an end")?;
        let known = release.checksum(&release.out.join(name));
        write!(out, "{before}{}", known.unwrap_or_else(|_| "0".repeat(64)))?;
        rest = behind;
    }
    fs::write(release.out.join(to), out + rest)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install;

    fn files(folder: &Path) -> String {
        let mut out = String::new();
        list_files(folder, folder, &mut out).unwrap();
        out
    }

    fn release(folder: &Path) -> Release {
        let (out, work) = (folder.join("out"), folder.join("work"));
        fs::create_dir_all(&out).unwrap();
        fs::create_dir_all(&work).unwrap();
        Release { out, work, time: 1_700_000_000, compression: "-Zgzip", profile: String::new() }
    }

    /// Debian's packages are installed into a folder, used there and removed; made again, they are the same.
    #[test]
    fn the_debian_packages_are_installed_used_and_removed() {
        if !has("dpkg-deb") || !has("dpkg") {
            eprintln!("skipped: dpkg is not installed");
            return;
        }
        let folder = root().join("target/install/debian");
        let _ = fs::remove_dir_all(&folder);
        let release = release(&folder);
        let installed = folder.join("installed");
        let etw = crate::etw_command("dev").unwrap();
        install::install_command(&etw, &etw, &installed).unwrap();
        fs::create_dir_all(installed.join("share/doc/openetw")).unwrap();
        fs::write(installed.join("share/doc/openetw/README.md"), "read").unwrap();
        super::super::split_debug(&installed.join("bin/etw"), &folder.join("debug")).unwrap();
        // The library's files take long to build; their contents do not matter here.
        for file in ["include/evntprov.h", "lib/libetw.a", "share/man/man3/etw.3"] {
            let file = installed.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "library").unwrap();
        }

        let packed = packages().map(|package| {
            let file = deb(&package, &installed, "amd64", &release).unwrap();
            let first = fs::read(&file).unwrap();
            let file = deb(&package, &installed, "amd64", &release).unwrap();
            assert!(fs::read(&file).unwrap() == first, "two makings differ");
            file
        });

        let system = folder.join("system");
        fs::create_dir_all(system.join("var/lib/dpkg/updates")).unwrap();
        fs::create_dir_all(system.join("var/lib/dpkg/info")).unwrap();
        fs::create_dir_all(system.join("etc")).unwrap();
        fs::write(system.join("var/lib/dpkg/status"), "").unwrap();
        let before = files(&system);
        let dpkg = |argument: &str, packages: [&Path; 2]| {
            run(Command::new("dpkg")
                .args(["--force-depends", "--force-not-root", "--force-script-chrootless"])
                .arg(format!("--instdir={}", system.display()))
                .arg(format!("--admindir={}", system.join("var/lib/dpkg").display()))
                .args(["--log=/dev/null"])
                .arg(argument)
                .args(packages))
        };
        dpkg("--install", packed.each_ref().map(|file| &**file)).unwrap();
        assert!(system.join("usr/include/evntprov.h").exists());
        assert!(system.join("usr/share/doc/libetw-dev/README.md").exists());
        assert!(system.join("usr/lib/systemd/system/etwd.socket").exists());
        assert!(system.join("usr/share/man/man1/etw-record.1").exists());
        let etw = system.join("usr/bin/etw");
        let trace = folder.join("a.etl");
        run(Command::new(&etw)
            .args(["record", "-p", "*Shop", "-o"])
            .arg(&trace)
            .args(["--", "true"]))
        .unwrap();
        run(Command::new(&etw).arg("check").arg(&trace)).unwrap();
        dpkg("--purge", [COMMAND, "libetw-dev"].map(Path::new)).unwrap();
        let own = |list: &str| -> Vec<String> {
            // The group stays, as Debian has it.
            let stays = |line: &&str| line.contains("/var/lib/dpkg/") || line.contains("/etc/");
            list.lines().filter(|line| !stays(line)).map(str::to_owned).collect()
        };
        assert_eq!(own(&files(&system)), own(&before));
    }
}
