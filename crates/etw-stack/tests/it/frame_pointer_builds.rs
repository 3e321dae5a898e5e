//! The other tests again, in binaries built with and without frame pointers.

use std::path::Path;
use std::process::Command;

const INNER: &str = "ETW_STACK_INNER";

/// Was this binary built by [`built`]? Then it is optimised.
pub fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

/// Runs this binary's tests, built optimised and with or without frame pointers.
fn built(frame_pointers: &str) {
    if is_inner() {
        return;
    }
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("frame-pointers-{frame_pointers}"));
    let out = Command::new(env!("CARGO"))
        .args(["test", "--offline", "-p", "etw-stack", "--lib", "--test", "it", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", format!("-Cforce-frame-pointers={frame_pointers}"))
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "2")
        .env(INNER, "1")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{}\n{}", text(&out.stdout), text(&out.stderr));
}

#[test]
fn with_and_without_frame_pointers() {
    built("yes");
    built("no");
}
