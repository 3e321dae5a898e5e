//! The crates that are in what is published: as CycloneDX list of components, and with the texts of their licences.

use crate::{Result, cargo, root};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One crate.
pub struct Component {
    pub name: String,
    pub version: String,
    /// The SPDX expression of its manifest.
    pub licence: String,
    /// SHA-256 of its package in the registry; none of our own crates has one.
    pub checksum: Option<String>,
    folder: PathBuf,
}

/// The crates that the command and the library link for a target, by name and version.
pub fn linked(target: &str) -> Result<Vec<Component>> {
    let output = Command::new(cargo())
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();

    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let is_linked =
            |need: &&Value| list(&need["dep_kinds"]).iter().any(|kind| kind["kind"] == Value::Null);
        let linked = list(&node["deps"]);
        let linked = linked.iter().filter(is_linked).map(|need| text(&need["pkg"])).collect();
        needs.insert(text(&node["id"]), linked);
    }
    let packages = list(&metadata["packages"]);
    let is_ours = |package: &&Value| package["name"] == "etw-cli" || package["name"] == "etw-capi";
    let mut open: Vec<String> =
        packages.iter().filter(is_ours).map(|package| text(&package["id"])).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if reached.insert(id.clone()) {
            open.extend(needs.get(&id).into_iter().flatten().cloned());
        }
    }

    let checksums = checksums(&fs::read_to_string(root().join("Cargo.lock"))?);
    let mut components: Vec<Component> = packages
        .iter()
        .filter(|package| reached.contains(&text(&package["id"])))
        .map(|package| {
            let (name, version) = (text(&package["name"]), text(&package["version"]));
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            Component {
                checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
                licence: text(&package["license"]),
                folder: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
                name,
                version,
            }
        })
        .collect();
    components.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(components)
}

/// The checksums of Cargo.lock by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim_start_matches([' ', '=']).trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (value("name"), value("version"), value("checksum"))
        {
            found.insert((name, version), checksum);
        }
    }
    found
}

/// The list of components in CycloneDX 1.5, as JSON. `time`: seconds since 1970.
pub fn cyclonedx(components: &[Component], version: &str, time: u64) -> Result<String> {
    let listed: Vec<Value> = components
        .iter()
        .map(|component| {
            let Component { name, version, licence, checksum, .. } = component;
            let mut listed = json!({
                "type": "library",
                "bom-ref": format!("{name}@{version}"),
                "name": name,
                "version": version,
                "licenses": [{ "expression": licence }],
            });
            if let Some(checksum) = checksum {
                listed["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
                listed["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
            }
            listed
        })
        .collect();
    let time = super::iso_time(time)?;
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": { "type": "application", "bom-ref": "openetw", "name": "openetw", "version": version },
        },
        "components": listed,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// The texts of the components' licences, each once, with the names of those that have it.
pub fn licence_texts(components: &[Component]) -> Result<String> {
    let mut out = String::from("Crates in openetw and their licences\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for component in components {
        let name = format!("{} {}", component.name, component.version);
        writeln!(out, "{name}: {}", component.licence)?;
        let mut files: Vec<PathBuf> =
            fs::read_dir(&component.folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        for file in files.iter().filter(|file| is_licence(file) && file.is_file()) {
            let text = String::from_utf8_lossy(&fs::read(file)?).replace("\r\n", "\n");
            texts.entry(text.trim().to_owned()).or_default().push(name.clone());
        }
    }
    for (text, names) in texts {
        write!(out, "\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "))?;
    }
    Ok(out)
}

fn is_licence(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().to_uppercase());
    let starts = |name: &String| {
        ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|word| name.starts_with(word))
    };
    name.as_ref().is_some_and(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_have_checksums_and_licences() {
        let components = linked("x86_64-unknown-linux-gnu").unwrap();
        let of = |name: &str| components.iter().find(|one| one.name == name).unwrap();
        assert!(of("etw-cli").checksum.is_none());
        assert_eq!(of("clap").checksum.as_ref().unwrap().len(), 64);
        assert!(components.iter().all(|one| !one.licence.is_empty()));
        assert!(components.iter().all(|one| one.name != "windows-sys"), "of another system");
        let document: Value =
            serde_json::from_str(&cyclonedx(&components, "0.1.0", 86_400).unwrap()).unwrap();
        assert_eq!(document["components"].as_array().unwrap().len(), components.len());
        assert_eq!(document["metadata"]["timestamp"], "1970-01-02T00:00:00Z");
        let texts = licence_texts(&components).unwrap();
        assert!(texts.contains("clap 4.") && texts.contains("Apache License"));
    }
}
