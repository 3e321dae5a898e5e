//! The hive reader beside another implementation, on damaged hives, and on hostile ones.

use crate::tree::software;
use etw_windows::hive::{Hive, Key};
use std::path::{Path, PathBuf};

#[path = "../../../../fuzz/src/windows.rs"]
mod targets;

#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

/// Paths and values of a key and of all below it, as lines.
fn lines(key: &Key<'_>, path: &str, wanted: &[&str], out: &mut Vec<String>) {
    for name in wanted {
        if let Some(value) = key.value(name) {
            out.push(format!("{path} {name}={} {:?}", value.kind, value.data));
        }
    }
    for subkey in key.subkeys().unwrap() {
        let subkey = subkey.unwrap();
        let path = format!("{path}\\{}", subkey.name());
        out.push(path.clone());
        lines(&subkey, &path, wanted, out);
    }
}

fn other_lines(
    key: &regf::hive::RegistryKey<'_>,
    path: &str,
    wanted: &[&str],
    out: &mut Vec<String>,
) {
    for name in wanted {
        if let Ok(value) = key.value(name) {
            out.push(format!(
                "{path} {name}={} {:?}",
                value.raw_data_type(),
                value.raw_data().unwrap()
            ));
        }
    }
    for subkey in key.subkeys().unwrap() {
        let path = format!("{path}\\{}", subkey.name());
        out.push(path.clone());
        other_lines(&subkey, &path, wanted, out);
    }
}

#[test]
fn keys_and_values_are_those_of_another_implementation() {
    let bytes = software();
    let wanted = ["", "ResourceFileName", "MessageFileName", "Enabled", "UBR", "ProductName"];
    let (mut own, mut others) = (Vec::new(), Vec::new());
    let hive = Hive::from_bytes(bytes.clone()).unwrap();
    lines(&hive.root().unwrap(), "", &wanted, &mut own);
    let other = regf::RegistryHive::from_bytes(bytes).unwrap();
    other_lines(&other.root_key().unwrap(), "", &wanted, &mut others);
    assert!(own.len() > 25, "{own:?}");
    assert_eq!(own, others);
    assert!(hive.is_clean());
}

#[test]
fn a_damaged_key_costs_that_key_and_its_offset_is_named() {
    let mut bytes = software();
    let name = b"{33333333";
    let at = bytes.windows(name.len()).position(|part| part == name).unwrap() - 0x4c;
    assert_eq!(&bytes[at..at + 2], b"nk");
    bytes[at] = b'x';
    let hive = Hive::from_bytes(bytes).unwrap();
    let key = hive.key(r"Microsoft\Windows\CurrentVersion\WINEVT\Publishers").unwrap().unwrap();
    let keys: Vec<_> = key.subkeys().unwrap().collect();
    assert_eq!(keys.iter().filter(|key| key.is_ok()).count(), 5);
    let error = keys.into_iter().find_map(Result::err).unwrap().to_string();
    assert!(error.contains(&format!("{:#x}", at - 4)), "{error}");
}

#[test]
fn hostile_hives_are_bounded() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/hive");
    let stored: PathBuf = corpus.join("software");
    if std::env::var_os("ETW_BLESS").is_some() && !stored.exists() {
        std::fs::create_dir_all(&corpus).unwrap();
        std::fs::write(&stored, software()).unwrap();
    }
    // The writer stamps the time, so the stored hive is the seed.
    let seed = std::fs::read(&stored).unwrap();
    replay::replay("hive", &[("software", seed)], 400, targets::hive);
}

/// Keys that are their own subkeys.
#[test]
fn malicious_circles_end() {
    let mut bytes = software();
    let mut lists = 0;
    for at in (0x1000..bytes.len() - 8).step_by(4) {
        if matches!(&bytes[at..at + 2], b"lf" | b"lh" | b"li") {
            let root = bytes[0x24..0x28].to_vec();
            bytes[at + 4..at + 8].copy_from_slice(&root);
            lists += 1;
        }
    }
    assert!(lists > 3);
    targets::hive(&bytes);
}
