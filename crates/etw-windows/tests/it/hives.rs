//! The hive reader beside another implementation, on damaged hives, and on hostile ones.

use crate::tree::{PUBLISHERS, software, software_of};
use etw_windows::hive::{Hive, HiveState, Key};
use regf::transaction_log::{DirtyPageReference, DirtyVector, LogEntry};
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

/// Sets the sequence numbers of a hive or log, and the sum that guards them.
fn set_head(head: &mut [u8], first: u32, second: u32) {
    head[4..8].copy_from_slice(&first.to_le_bytes());
    head[8..12].copy_from_slice(&second.to_le_bytes());
    let numbers =
        head[..0x1fc].chunks_exact(4).map(|number| u32::from_le_bytes(number.try_into().unwrap()));
    let sum = numbers.fold(0, |sum, number| sum ^ number);
    head[0x1fc..0x200].copy_from_slice(&sum.to_le_bytes());
}

/// The first sector of a log of the hive.
fn log_head(hive: &[u8], kind: u32, sequence: u32) -> Vec<u8> {
    let mut head = hive[..512].to_vec();
    head[0x1c..0x20].copy_from_slice(&kind.to_le_bytes());
    head[0x2c..0x30].copy_from_slice(&1u32.to_le_bytes());
    set_head(&mut head, sequence, sequence);
    head
}

/// A change that gives the hive the bins of another one from `start` to `end`.
fn change(sequence: u32, bins: &[u8], start: usize, end: usize) -> Vec<u8> {
    let page = bins[start..end].to_vec();
    let size = (40 + 8 + page.len()).next_multiple_of(512) as u32;
    let entry = LogEntry {
        signature: *b"HvLE",
        size,
        flags: 0,
        sequence_number: sequence,
        hive_bins_data_size: bins.len() as u32,
        dirty_pages_count: 1,
        hash1: 0,
        hash2: 0,
        page_references: vec![DirtyPageReference { offset: start as u32, size: page.len() as u32 }],
        dirty_pages: vec![page],
    };
    let mut bytes = Vec::new();
    entry.write(&mut bytes).unwrap();
    bytes
}

/// A hive of an older state that was not closed, and the newer one.
fn dirty() -> (Vec<u8>, Vec<u8>) {
    let mut old = software_of(&PUBLISHERS[..2]);
    let mut new = software();
    assert!(new.len() >= old.len());
    // One root for both, as changes of a hive keep it.
    assert_eq!(old[0x24..0x28], new[0x24..0x28]);
    set_head(&mut old, 8, 7);
    set_head(&mut new, 9, 9);
    (old, new)
}

fn publishers(hive: &Hive) -> usize {
    let key = hive.key(r"Microsoft\Windows\CurrentVersion\WINEVT\Publishers").unwrap().unwrap();
    key.subkeys().unwrap().filter(Result::is_ok).count()
}

#[test]
fn a_hive_that_was_not_closed_is_read_with_the_changes_of_both_logs() {
    let (old, new) = dirty();
    let bins = &new[0x1000..];
    let middle = bins.len() / 2 / 512 * 512;
    // An entry of an earlier round lies behind the newer one.
    let second =
        [log_head(&old, 6, 8), change(8, bins, middle, bins.len()), change(3, bins, 0, 512)]
            .concat();
    let first = [
        log_head(&old, 6, 6),
        change(6, &vec![0xff; bins.len()], 0, 512),
        change(7, bins, 0, middle),
    ]
    .concat();
    let without = Hive::from_bytes(old.clone()).unwrap();
    assert_eq!((without.state(), publishers(&without)), (HiveState::Outdated, 2));
    for logs in [[first.clone(), second.clone()], [second.clone(), first.clone()]] {
        let hive = Hive::from_bytes_with_logs(old.clone(), &logs).unwrap();
        assert_eq!((hive.state(), publishers(&hive)), (HiveState::Recovered(2), 6));
    }
    // A closed hive has nothing to gain from its logs.
    let closed = Hive::from_bytes_with_logs(new.clone(), &[first.clone(), second.clone()]).unwrap();
    assert_eq!((closed.state(), publishers(&closed)), (HiveState::Clean, 6));
    // A damaged change, and all behind it, count for nothing.
    let mut damaged = first;
    *damaged.last_mut().unwrap() ^= 1;
    let hive = Hive::from_bytes_with_logs(old, &[damaged]).unwrap();
    assert_eq!((hive.state(), publishers(&hive)), (HiveState::Outdated, 2));
}

#[test]
fn the_log_of_windows_7_is_applied_if_it_is_of_the_hives_last_change() {
    let (mut old, new) = dirty();
    let bins = &new[0x1000..];
    let mut vector = DirtyVector::new(bins.len() as u32);
    (0..bins.len() / 512).for_each(|page| vector.set_page_dirty(page));
    let mut log = log_head(&new, 1, 9);
    let mut dirty = Vec::new();
    vector.write(&mut dirty).unwrap();
    dirty.resize(dirty.len().next_multiple_of(512), 0);
    log.extend(dirty);
    log.extend(bins);
    old[0xc..0x14].copy_from_slice(&new[0xc..0x14]);
    set_head(&mut old, 8, 7);
    let hive = Hive::from_bytes_with_logs(old.clone(), &[log.clone()]).unwrap();
    assert_eq!((hive.state(), publishers(&hive)), (HiveState::Recovered(1), 6));
    old[0xc] ^= 1;
    set_head(&mut old, 8, 7);
    let hive = Hive::from_bytes_with_logs(old, &[log]).unwrap();
    assert_eq!((hive.state(), publishers(&hive)), (HiveState::Outdated, 2));
}

#[test]
fn hostile_logs_are_bounded() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/hive_log");
    let stored: PathBuf = corpus.join("two_logs");
    if std::env::var_os("ETW_BLESS").is_some() && !stored.exists() {
        let (old, new) = dirty();
        let bins = &new[0x1000..];
        let first = [log_head(&old, 6, 7), change(7, bins, 0, 2048)].concat();
        let second = [log_head(&old, 6, 8), change(8, bins, 2048, bins.len())].concat();
        let sizes = [old.len() as u32, first.len() as u32].map(u32::to_le_bytes).concat();
        std::fs::create_dir_all(&corpus).unwrap();
        std::fs::write(&stored, [sizes, old, first, second].concat()).unwrap();
    }
    let seed = std::fs::read(&stored).unwrap();
    replay::replay("hive_log", &[("two_logs", seed)], 400, targets::hive_log);
}
