//! `cargo xtask features`: each feature of each crate compiles alone, and each crate without any.

use crate::{Result, cargo, root};
use std::process::{Command, Stdio};

pub fn run() -> Result<()> {
    let mut failed = Vec::new();
    for package in packages()? {
        let mut sets = vec![String::new()];
        sets.extend(package.features);
        for set in sets {
            let name = if set.is_empty() { "no feature" } else { &set };
            println!("{}: {name}", package.name);
            if !compiles(&package.name, &set)? {
                failed.push(format!("{} with {name}", package.name));
            }
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("does not compile: {}", failed.join(", ")).into()),
    }
}

struct Package {
    name: String,
    features: Vec<String>,
}

/// The workspace's crates that have features.
fn packages() -> Result<Vec<Package>> {
    let output = Command::new(cargo())
        .args(["metadata", "--no-deps", "--locked", "--format-version", "1"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let mut packages = Vec::new();
    for package in metadata["packages"].as_array().ok_or("cargo metadata names no packages")? {
        let features = package["features"].as_object().ok_or("a package without features")?;
        let name = package["name"].as_str().ok_or("a package without a name")?;
        if !features.is_empty() {
            let features = features.keys().filter(|name| *name != "default").cloned().collect();
            packages.push(Package { name: name.to_owned(), features });
        }
    }
    Ok(packages)
}

/// Dependencies for tests would bring features of their own, so only the library is checked.
fn compiles(package: &str, features: &str) -> Result<bool> {
    let status = Command::new(cargo())
        .args(["check", "--quiet", "--locked", "--no-default-features", "--package", package])
        .args(["--features", features])
        .env("RUSTFLAGS", "-D warnings")
        .env("CARGO_INCREMENTAL", "0")
        .args(["--target-dir", "target/features"])
        .current_dir(root())
        .status()?;
    Ok(status.success())
}
