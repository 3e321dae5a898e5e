//! Manifests with what Microsoft's `mc` made of them.

use std::fs;
use std::path::PathBuf;

use etw_mc::Manifest;
use etw_mc::messages::{self, MessageIds};
use etw_mc::wevt::{self, Version};

/// The folder of manifests; `None` (with a message) where it is absent.
pub fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/mc");
    if !folder.is_dir() {
        eprintln!("skipped: no {}", folder.display());
        return None;
    }
    Some(folder)
}

/// Reads a manifest of the corpus.
pub fn manifest(path: &std::path::Path) -> Manifest {
    Manifest::parse(&fs::read(path).unwrap()).unwrap_or_else(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}:\n{}", path.display(), errors.join("\n"))
    })
}

pub fn names() -> Vec<String> {
    ["Empty", "EventAttributes", "ImportChannels", "TaskOpcodes", "wpf-etw"]
        .map(String::from)
        .into()
}

/// The first difference of two byte strings, with some bytes around it.
fn difference(ours: &[u8], theirs: &[u8]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let at =
        ours.iter().zip(theirs).position(|(a, b)| a != b).unwrap_or(ours.len().min(theirs.len()));
    let part = |bytes: &[u8]| {
        let from = at.saturating_sub(16).min(bytes.len());
        format!("{:02x?}", &bytes[from..(at + 16).min(bytes.len())])
    };
    Some(format!(
        "at {at:#x} of {} and {} bytes\n  ours   {}\n  theirs {}",
        ours.len(),
        theirs.len(),
        part(ours),
        part(theirs)
    ))
}

#[test]
fn resources_are_those_of_mc_to_the_byte() {
    let Some(folder) = folder() else { return };
    let mut compared = 0;
    for name in names() {
        let manifest = manifest(&folder.join(format!("{name}.man")));
        for (suffix, version) in [("v3", Version::V3), ("v5", Version::V5)] {
            let Ok(theirs) = fs::read(folder.join(format!("{name}.wevt.{suffix}.bin"))) else {
                continue;
            };
            if let Some(difference) = difference(&wevt::write(&manifest, version), &theirs) {
                panic!("{name} {suffix}: {difference}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 9);
}

#[test]
fn message_tables_are_those_of_mc_to_the_byte() {
    let Some(folder) = folder() else { return };
    let mut compared = 0;
    for name in names() {
        let manifest = manifest(&folder.join(format!("{name}.man")));
        let Ok(theirs) = fs::read(folder.join(format!("{name}.msg.bin"))) else { continue };
        let ids = MessageIds::new(&manifest);
        if let Some(difference) =
            difference(&messages::table(&ids, manifest.cultures.first()), &theirs)
        {
            panic!("{name}: {difference}");
        }
        compared += 1;
    }
    assert_eq!(compared, 4);
}
