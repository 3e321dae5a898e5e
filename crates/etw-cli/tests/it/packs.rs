//! Packs of several builds of Windows: the build of the trace decides between them.

use crate::fixture::{TempFile, every_header, json_lines, stdout};
use etw_decode::pack::{PackBuilder, WindowsVersion};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The build in the header of the fixture.
const BUILD: u32 = 19041;

/// A folder with two packs that describe the same manifest event and the same WPP message, each in its words. The pack of another build
/// comes first by its name.
struct Packs {
    folder: PathBuf,
    trace: TempFile,
}

impl Packs {
    fn new(name: &str) -> Packs {
        let folder = std::env::temp_dir().join(format!("etw-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let trace = TempFile::new(&every_header());
        let first = |header: &str| -> Value {
            let condition = format!("header == {header}");
            let words = ["dump", "--format", "json", "--where", &condition];
            json_lines(&stdout(&words, &[trace.path()], 0)).remove(0)
        };
        let (event, message) = (first("EVENT64"), first("MESSAGE"));
        for (file, build, word) in [("a.etwpack", 7601, "Other"), ("b.etwpack", BUILD, "Same")] {
            let mut builder = PackBuilder::default();
            let manifest = format!(
                "<m><provider name='Maker' guid='{{{}}}'><events><event value='{}' version='{}' symbol='{word}'/></events></provider></m>",
                event["provider"].as_str().unwrap(),
                event["id"],
                event["version"]
            );
            builder.add("maker.man", manifest.as_bytes()).unwrap();
            let formats = format!(
                "{} Driver // SRC=a.c\n#typev a_c1 {} \"%0said {word}\" // FUNC=f\n{{\n}}\n",
                message["provider"].as_str().unwrap(),
                message["id"]
            );
            builder.add("driver.tmf", formats.as_bytes()).unwrap();
            builder.set_windows(&WindowsVersion { build, ..WindowsVersion::default() });
            std::fs::write(folder.join(file), builder.finish()).unwrap();
        }
        Packs { folder, trace }
    }

    /// Standard output of a successful command; `registered`: the packs are the user's own.
    fn run(&self, words: &[&str], file: &Path, registered: bool) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
        command.args(words).arg(file).env("XDG_DATA_HOME", self.folder.join("none"));
        match registered {
            true => command.env("ETW_PACKS", &self.folder),
            false => command.env_remove("ETW_PACKS"),
        };
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Packs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn each_command_prefers_the_pack_of_the_traces_build() {
    let packs = Packs::new("packs-of-builds");
    let (a, b) = (packs.folder.join("a.etwpack"), packs.folder.join("b.etwpack"));
    let named = ["--pack", a.to_str().unwrap(), "--pack", b.to_str().unwrap()];
    let new = packs.folder.join("new.etl");
    for (more, registered) in [(&[][..], true), (&named[..], false)] {
        let run =
            |words: &[&str], file: &Path| packs.run(&[words, more].concat(), file, registered);
        let select = ["--where", "event == Same"];
        let trace = packs.trace.path();
        let shown = run(&[&["dump"][..], &select].concat(), trace);
        assert!(shown.contains("Maker") && shown.contains("Same"), "{shown}");
        let written = new.to_str().unwrap();
        run(&[&["relog", "--force", "-o", written][..], &select].concat(), trace);
        let kept = run(&["dump", "--where", "header == EVENT64"], &new);
        assert!(kept.contains("Same"), "relog keeps the event: {kept}");
        run(&["relog", "--force", "--with-schemas", "-o", written], trace);
        let alone = packs.run(&[&["dump"][..], &select].concat(), &new, false);
        assert!(alone.contains("Same"), "relog writes the schema of the build: {alone}");
        let stat = run(&["stat"], &new);
        let schemas = stat.lines().find(|line| line.contains("EventMetadata"));
        assert!(schemas.is_some_and(|line| !line.contains("rest")), "{stat}");
        let by = run(&["stat", "--by", "event"], trace);
        assert!(by.contains("Same") && !by.contains("Other"), "{by}");
    }
    let formatted = packs.run(&["tracefmt", "-displayonly"], packs.trace.path(), true);
    assert!(formatted.contains("said Same") && !formatted.contains("said Other"), "{formatted}");
}

/// A pipe in a folder of manifests, which a reader would wait for.
#[cfg(unix)]
#[test]
fn a_pipe_in_a_folder_of_sources_is_left_out() {
    let folder = std::env::temp_dir().join(format!("etw-pipe-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("sources")).unwrap();
    let manifest = "<m><provider name='Maker' guid='{11111111-2222-3333-4444-555555555555}'><events><event value='7'/></events></provider></m>";
    std::fs::write(folder.join("sources/maker.man"), manifest).unwrap();
    let made = Command::new("mkfifo").arg(folder.join("sources/pipe.dll")).status().unwrap();
    assert!(made.success());
    let output = Command::new(env!("CARGO_BIN_EXE_etw"))
        .args(["pack", "create", "-o"])
        .args([folder.join("out.etwpack"), folder.join("sources")])
        .output()
        .unwrap();
    // Folders of packs and of formats.
    for name in ["sources/pipe.etwpack", "sources/pipe.tmf"] {
        let made = Command::new("mkfifo").arg(folder.join(name)).status().unwrap();
        assert!(made.success());
    }
    let trace = TempFile::new(&every_header());
    let dumped = Command::new(env!("CARGO_BIN_EXE_etw"))
        .args(["dump", "--limit", "1", "--tmf"])
        .args([&folder.join("sources"), trace.path()])
        .env("ETW_PACKS", folder.join("sources"))
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("pipe.dll: not a regular file"), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 source\n"), "{output:?}");
}

/// Texts of a library that has nothing else, and of a `.mui` whose name and folder have letters of another case.
#[test]
fn texts_of_other_files_are_those_of_a_library_without_any() {
    let folder = std::env::temp_dir().join(format!("etw-texts-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("beside/en-us")).unwrap();
    let library = include_bytes!("../../../../fuzz/corpus/pe/library");
    // The numbers of the two kinds of resources stand in the root of the tree.
    let without_texts = {
        let mut bytes = library.to_vec();
        assert_eq!(bytes[0x418], 11);
        bytes[0x418] = 10;
        bytes
    };
    let texts_alone = {
        let name: Vec<u8> = "WEVT".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let at = library.windows(8).position(|bytes| bytes == name).unwrap();
        let mut bytes = library.to_vec();
        bytes[at] = b'X';
        bytes
    };
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let lone = write("lone.dll", &without_texts);
    let texts = write("texts.dll", &texts_alone);
    let beside = write("beside/Maker.DLL", &without_texts);
    write("beside/en-us/maker.dll.MUI", &texts_alone);
    let messages = |sources: &[&PathBuf]| -> (String, Vec<Value>) {
        let pack = folder.join("out.etwpack");
        let mut create = Command::new(env!("CARGO_BIN_EXE_etw"));
        create.args(["pack", "create", "--force", "-o"]).arg(&pack).args(sources);
        let output = create.output().unwrap();
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{notes}");
        let shown = json_lines(&stdout(&["pack", "show", "--json"], &[&pack], 0));
        let events = shown[0]["events"].as_array().unwrap();
        (notes, events.iter().map(|event| event["message"].clone()).collect())
    };
    let none = messages(&[&lone]);
    let whole = messages(&[&write("whole.dll", library)]);
    let with_library = messages(&[&lone, &texts]);
    let with_mui = messages(&[&beside]);
    let trace = TempFile::new(&every_header());
    let notes_of_dump = |manifests: &[&PathBuf]| {
        let mut dump = Command::new(env!("CARGO_BIN_EXE_etw"));
        dump.arg("dump").arg(trace.path());
        for manifest in manifests {
            dump.arg("--manifest").arg(manifest);
        }
        let output = dump.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let (lone_notes, notes) = (notes_of_dump(&[&lone]), notes_of_dump(&[&texts, &lone]));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(none.1.iter().all(Value::is_null) && none.0.contains("no text"), "{none:?}");
    assert!(whole.1.iter().any(Value::is_string), "{whole:?}");
    assert_eq!(with_library, whole);
    assert_eq!(with_mui, whole);
    assert!(lone_notes.contains("no text") && notes.is_empty(), "{lone_notes:?} {notes:?}");
}
