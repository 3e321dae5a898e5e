//! The bodies of the fuzz targets for a Windows in a folder; the stable tests of `etw-windows` replay them.

use etw_windows::hive::{Hive, Key};

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
