//! Rust from manifests. That it compiles, and writes what C does, is a test of `etw-capi`.

use etw_mc::{Build, BuildError, Manifest, rust};

#[test]
fn functions_have_the_types_of_the_fields() {
    let manifest = Manifest::parse(include_bytes!("all_types.man")).unwrap();
    let text = rust::write(&manifest, &rust::Options::default());
    for expected in [
        "pub mod all_types {",
        "pub fn scalars(text: &(impl __etw::rt::Wide + ?Sized), ansi: &(impl AsRef<[u8]> + ?Sized), i8: i8, u8: u8, i16: i16, u16: Colour, ",
        // The counts of slices are no parameters.
        "pub fn arrays(fixed: &[u32; 4], given: &[u64], pointers: &[usize; 2], guids: &[__etw::Guid], ",
        "points: &[ArraysPoints], one: &ArraysOne) -> __etw::Status {",
        "pub fn event_5_2() -> __etw::Status {",
        "pub enum Colour {",
        "pub struct Flags(pub u32);",
        "        pub bytes: &'a [u8],",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("silent"), "an event that is not logged has no function");
}

#[test]
fn a_build_script_gets_a_file_or_the_errors() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("mc-build");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("shop.man");
    std::fs::write(&path, include_bytes!("all_types.man")).unwrap();
    let out = Build::new(&path).folder(&folder).run().unwrap();
    assert_eq!(out, folder.join("shop.rs"));
    let good = std::fs::read(&out).unwrap();
    let bad = include_str!("all_types.man").replace("value=\"2\" symbol", "value=\"1\" symbol");
    std::fs::write(&path, bad).unwrap();
    let error = Build::new(&path).folder(&folder).run().unwrap_err();
    assert!(
        matches!(&error, BuildError::Manifest { diagnostics, .. } if diagnostics[0].severity == etw_mc::Severity::Error)
    );
    assert!(error.to_string().contains("two events have value 1 and version 0"), "{error}");
    assert_eq!(std::fs::read(&out).unwrap(), good, "the file of the earlier build stays");
}
