//! Rootless containers: programs in a user namespace, and a host outside of it.

use crate::controllers::{Place, ROLE};
use crate::fixture::stderr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A user that is not the host's.
const STRANGER: &str = "12345";

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The words in front of a command that run it as another user.
const AS_STRANGER: [&str; 6] =
    ["setpriv", "--reuid", STRANGER, "--regid", STRANGER, "--clear-groups"];

/// The words in front of a command that run it as root of a user namespace. `None`, said aloud: this machine does not permit it.
fn namespace() -> Option<Vec<&'static str>> {
    // Only root can become the stranger; any other user is one already, but so is its host.
    let words = [&AS_STRANGER[..], &["unshare", "-Ur"]].concat();
    let is_permitted = Command::new(words[0])
        .args(&words[1..])
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !is_permitted {
        eprintln!("skipped: this user may not run commands as another one in a user namespace");
    }
    is_permitted.then_some(words)
}

/// A host whose directory everybody may enter.
fn open_place(name: &str) -> Place {
    let place = Place::new(name);
    set_mode(&place.file(""), 0o755);
    set_mode(&place.runtime(), 0o755);
    place
}

fn run(place: &Place, words: &[&str], runtime: &Path, rest: &[&str]) -> Output {
    let mut command = place.command(words[0].as_ref());
    command.args(&words[1..]).args(rest).env("ETW_RUNTIME_DIR", runtime);
    command.env(ROLE, "program-at-once").env("ETW_DIAGNOSE", "1").output().unwrap()
}

const PROGRAM: [&str; 4] = ["controllers::program", "--exact", "--nocapture", "--test-threads=1"];

#[test]
fn a_program_in_a_user_namespace_is_recorded_by_a_host_outside() {
    let Some(words) = namespace() else { return };
    let place = open_place("rootless");
    place.does("session start s -o s.etl -p OpenEtw.Test.Controllers");
    // As the machine's host does.
    set_mode(&place.runtime().join("socket"), 0o666);
    let test = std::env::current_exe().unwrap();
    let program = [&[test.to_str().unwrap()], &PROGRAM[..]].concat();
    let output = run(&place, &words, &place.runtime(), &program);
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("connected to the host"), "{text}");
    assert!(text.contains("a session enabled OpenEtw.Test.Controllers"), "{text}");
    let providers = place.does("provider list");
    assert!(providers.contains("OpenEtw.Test.Controllers"), "{providers}");
    let etw = env!("CARGO_BIN_EXE_etw");
    let output = run(&place, &words, &place.runtime(), &[etw, "doctor"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("of a user outside of this user namespace"), "{text}");
    place.does("session stop s");
}

#[test]
fn a_directory_that_anybody_could_have_made_is_rejected_with_the_reason() {
    let Some(words) = namespace() else { return };
    let place = open_place("rootless-open");
    // Its parent is the temporary folder, in which everybody may create directories.
    let runtime = place.file("");
    let test = std::env::current_exe().unwrap();
    let program = [&[test.to_str().unwrap()], &PROGRAM[..]].concat();
    let text = stderr(&run(&place, &words, &runtime, &program));
    assert!(text.contains("this user namespace does not show the directory's owner"), "{text}");
    let output = run(&place, &words, &runtime, &[env!("CARGO_BIN_EXE_etw"), "doctor"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("WRONG  runtime directory"), "{text}");
    assert!(text.contains("fix: etw record -- COMMAND hosts its session inside"), "{text}");
}

#[test]
fn doctor_finds_a_directory_of_another_user_and_missing_rights() {
    let is_permitted = Command::new(AS_STRANGER[0])
        .args(&AS_STRANGER[1..])
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !is_permitted {
        return eprintln!("skipped: only root may run commands as another user");
    }
    let place = open_place("strangers");
    let etw = env!("CARGO_BIN_EXE_etw");
    place.does("session start s --buffering -p OpenEtw.Test.Controllers");
    set_mode(&place.runtime().join("socket"), 0o666);
    let finds = |output: Output, expected: &str| {
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(expected) && text.contains("fix: "), "{expected}: {text}");
    };
    let output = run(&place, &AS_STRANGER, &place.runtime(), &[etw, "doctor"]);
    finds(output, "WRONG  rights");
    // The stranger's directory is not root's.
    let other = place.file("other");
    std::fs::create_dir(&other).unwrap();
    std::os::unix::fs::chown(&other, Some(12345), Some(12345)).unwrap();
    let output = run(&place, &["env"], &other, &[etw, "doctor"]);
    finds(output, "belongs to user 12345, not to you or root");
    // A directory that does not exist is created by the first host.
    let output = run(&place, &["env"], &place.file("absent"), &[etw, "doctor"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("note   runtime directory") && text.contains("does not exist"), "{text}");
    finds(output, "WRONG  host");
}
