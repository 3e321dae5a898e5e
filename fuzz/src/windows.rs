//! The bodies of the fuzz targets for a Windows in a folder; the stable tests of `etw-windows` replay them.

use etw_windows::hive::{Hive, HiveState, Key};

/// A registry hive: keys and values that describe providers, and a walk of all keys.
pub fn hive(data: &[u8]) {
    let Ok(hive) = Hive::from_bytes(data.to_vec()) else { return };
    let publishers = hive.key(r"Microsoft\Windows\CurrentVersion\WINEVT\Publishers");
    if let Ok(Some(key)) = publishers {
        for key in key.subkeys().into_iter().flatten().flatten().take(100) {
            let _ = (key.text(""), key.text("ResourceFileName"), key.value("Enabled"));
        }
    }
    let mut budget = 1000;
    if let Ok(root) = hive.root() {
        walk(&root, 0, &mut budget);
    }
}

fn walk(key: &Key<'_>, depth: usize, budget: &mut usize) {
    for subkey in key.subkeys().into_iter().flatten().flatten() {
        if depth > 20 || *budget == 0 {
            return;
        }
        *budget -= 1;
        assert!(subkey.name().len() < 4096);
        let _ = subkey.value("Name").and_then(|value| value.text());
        walk(&subkey, depth + 1, budget);
    }
}

/// A hive that was not closed, with two logs: sizes of the hive and of the first log, then all three.
pub fn hive_log(data: &[u8]) {
    let Some((sizes, rest)) = data.split_at_checked(8) else { return };
    let size = |at: usize| {
        let bytes = [sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]];
        u32::from_le_bytes(bytes) as usize
    };
    let (hive, logs) = rest.split_at(size(0).min(rest.len()));
    let (first, second) = logs.split_at(size(4).min(logs.len()));
    let logs = [first.to_vec(), second.to_vec()];
    let Ok(hive) = Hive::from_bytes_with_logs(hive.to_vec(), &logs) else { return };
    assert!(hive.state() != HiveState::Recovered(0));
    let mut budget = 1000;
    if let Ok(root) = hive.root() {
        walk(&root, 0, &mut budget);
    }
}
