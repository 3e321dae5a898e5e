//! A whole Windows as one pack.

use crate::hive_writer::HiveWriter;
use crate::pe::{AMD64, MESSAGES, MOF_DATA, TEMPLATES};
use crate::tree::{Folder, binary_mof, german, maker, messages, program, write_windows};
use etw_decode::Catalog;
use etw_decode::pack::{Pack, PackBuilder, ProgramSources, ProviderContents, WindowsVersion};
use etw_windows::{Gathered, InstallationError, Options, Skipped, gather};
use std::sync::Arc;

fn options(language: Option<&str>, threads: usize) -> Options {
    let mut options = Options::default();
    options.language = language.map(|tag| tag.parse().unwrap());
    options.threads = threads;
    options
}

fn contents(gathered: &Gathered) -> Vec<ProviderContents> {
    Pack::open(gathered.builder.finish().into()).unwrap().contents().collect()
}

fn of<'c>(contents: &'c [ProviderContents], provider: &str) -> &'c ProviderContents {
    let found = contents.iter().find(|one| one.provider.as_deref() == Some(provider));
    found.unwrap_or_else(|| panic!("{provider} is not in {contents:?}"))
}

/// The message of event 7.
fn message(contents: &[ProviderContents]) -> String {
    let event = of(contents, "Maker").events.iter().find(|event| event.id == Some(7)).unwrap();
    event.schema.message.as_ref().unwrap().template().to_string()
}

#[test]
fn a_windows_folder_becomes_a_pack_with_texts_of_the_wanted_language() {
    let folder = Folder::new("whole");
    write_windows(&folder);
    let mut steps = Vec::new();
    let gathered = gather(&folder.0, &options(None, 2), |step| steps.push(step)).unwrap();
    assert_eq!((gathered.registered, gathered.described), (6, 1));
    assert_eq!(gathered.version.to_string(), "Windows 10 Pro 10.0.19045.3803");
    let last = steps.last().unwrap();
    assert_eq!((last.done, last.total, gathered.programs), (6, 6, 6));
    let found = contents(&gathered);
    assert_eq!(message(&found), "%1 said %2");
    let tool = of(&found, "Tool.Provider");
    assert_eq!(tool.events[0].schema.fields[0].name, "Size");
    assert_eq!(tool.source, "tool.exe");
    assert!(found.iter().any(|one| one.source == "tool.mof" && one.events.len() == 1));
    // The same files give the same pack, whatever the number of threads; the Windows folder itself is as good as its volume.
    let again = gather(&folder.0, &options(None, 4), |_| {}).unwrap();
    assert_eq!(gathered.builder.finish(), again.builder.finish());
    let inside = gather(&folder.0.join("Windows"), &options(None, 1), |_| {}).unwrap();
    assert_eq!(inside.described, 1);
    let in_german = gather(&folder.0, &options(Some("de-DE"), 1), |_| {}).unwrap();
    assert_eq!(message(&contents(&in_german)), "%1 sagte %2");
    // A language that is not there: English.
    let other = gather(&folder.0, &options(Some("fr-FR"), 1), |_| {}).unwrap();
    assert_eq!(message(&contents(&other)), "%1 said %2");
}

#[test]
fn providers_and_files_that_are_left_out_are_named_with_the_reason() {
    let folder = Folder::new("skipped");
    write_windows(&folder);
    let gathered = gather(&folder.0, &Options::default(), |_| {}).unwrap();
    let why = |what: &str| {
        let found = gathered.skipped.iter().find(|skipped| skipped.what.ends_with(what));
        let Skipped { why, .. } = found.unwrap_or_else(|| panic!("{what}: {:?}", gathered.skipped));
        why.as_str()
    };
    assert_eq!(why("No-File"), "the registry names no file with its manifest");
    assert_eq!(why("Gone"), r"C:\Windows\System32\gone.dll: not there");
    assert_eq!(why("Far"), r"D:\far.dll: outside of this folder");
    let other = why("Other");
    assert!(other.ends_with("OTHER.dll: no compiled manifest in it"), "{other}");
    assert!(why("Stranger").ends_with("its compiled manifest does not have this provider"));
    assert_eq!(why("text.dll"), "not a program or library");
    assert!(why("cut.dll").starts_with("neither a manifest nor a PE file"));
    assert_eq!(gathered.skipped.len(), 7, "{:?}", gathered.skipped);
}

#[test]
fn a_folder_without_windows_is_an_error_that_says_what_to_name() {
    let folder = Folder::new("none");
    let error = gather(&folder.0, &Options::default(), |_| {}).unwrap_err();
    assert!(matches!(error, InstallationError::NotWindows(_)));
    assert!(error.to_string().contains("name the root of a volume"), "{error}");
    folder.write("WINNT/system32/CONFIG/software", b"no hive");
    let error = gather(&folder.0, &Options::default(), |_| {}).unwrap_err();
    assert!(error.to_string().ends_with("not a registry hive"), "{error}");
}

/// A program with both: message tables in two languages, for 32 and 64 bits and ARM64.
#[test]
fn a_program_with_several_languages_gives_the_wanted_one() {
    let (resource, english) = maker();
    let german = german();
    for machine in [crate::pe::I386, AMD64, crate::pe::ARM64] {
        let resources = [
            (MESSAGES, 0x407, &german[..]),
            (MESSAGES, 0x409, &english),
            (TEMPLATES, 0, &resource),
        ];
        let file = program(machine, &crate::tree::metadata(), &resources);
        for (language, text) in [("de-AT", "%1 said %2"), ("de-DE", "%1 sagte %2")] {
            let language = language.parse().unwrap();
            let program = ProgramSources::read(&file, &[], Some(&language)).unwrap();
            assert!(program.has_manifest() && program.providers().count() == 2);
            let mut builder = PackBuilder::default();
            builder.add_program("both.exe", program);
            let pack = Pack::open(builder.finish().into()).unwrap();
            assert_eq!(message(&pack.contents().collect::<Vec<_>>()), text);
        }
    }
}

/// Two builds of one provider, whose schemas fit the same payload: the build of the trace decides.
#[test]
fn the_pack_of_a_traces_build_comes_first() {
    let pack = |build: u32, text: &str| {
        let (resource, _) = maker();
        let table = messages(&["Maker", "Work", "Do", "three", text]);
        let file = program(AMD64, &[], &[(MESSAGES, 0x409, &table), (TEMPLATES, 0, &resource)]);
        let mut builder = PackBuilder::default();
        builder.add("maker.dll", &file).unwrap();
        builder.set_windows(&WindowsVersion { build, ..WindowsVersion::default() });
        Arc::new(Pack::open(builder.finish().into()).unwrap())
    };
    let mut catalog = Catalog::default();
    for (build, text) in [(10240, "old"), (19045, "middle"), (26100, "new")] {
        catalog.add_pack(pack(build, text));
    }
    let guid = crate::tree::MAKER.parse().unwrap();
    for (build, text) in [(19045, "middle"), (26200, "new"), (7601, "old"), (19041, "middle")] {
        catalog.prefer_build(build);
        let event = catalog.event(guid, 7, 2).unwrap();
        assert_eq!(event.message.as_ref().unwrap().template(), text, "build {build}");
    }
}

/// A driver describes classic events by binary MOF in a resource.
#[test]
fn binary_mof_of_a_driver_is_in_the_pack() {
    let folder = Folder::new("mof");
    write_windows(&folder);
    let driver = program(AMD64, &[], &[(MOF_DATA, 0, &binary_mof())]);
    folder.write("Windows/System32/drivers/job.sys", &driver);
    let gathered = gather(&folder.0, &options(None, 2), |_| {}).unwrap();
    let found = contents(&gathered);
    let job = found.iter().find(|one| one.source == "job.sys").unwrap();
    let names: Vec<_> = job.events.iter().map(|event| event.schema.names.event.clone()).collect();
    assert_eq!(names, [Some("Job/Begin".to_owned()), Some("Job/End".to_owned())]);
    assert_eq!(job.events[0].schema.fields[1].name, "Name");
    // The resource as a file.
    let mut builder = PackBuilder::default();
    builder.add("job.bmf", &binary_mof()).unwrap();
    let pack = Pack::open(builder.finish().into()).unwrap();
    assert_eq!(pack.contents().map(|one| one.events.len()).sum::<usize>(), 2);
}

/// Pipes in place of files, which a reader would wait for: they are left out.
#[cfg(unix)]
#[test]
fn malicious_pipes_in_place_of_files_are_left_out() {
    let folder = Folder::new("pipes");
    write_windows(&folder);
    let hive = folder.0.join("Windows/System32/config/SOFTWARE");
    let mut bytes = std::fs::read(&hive).unwrap();
    // Not closed, so that its logs are asked for.
    bytes[4] ^= 1;
    std::fs::write(hive, bytes).unwrap();
    let pipes = ["pipe.dll", "pipe.exe", "config/SOFTWARE.LOG1", "wbem/pipe.mof"];
    for name in pipes {
        let path = folder.0.join("Windows/System32").join(name);
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }
    let gathered = gather(&folder.0, &options(None, 1), |_| {}).unwrap();
    assert_eq!(gathered.described, 1);
    let left_out = gathered.skipped.iter().filter(|skipped| skipped.what.contains("pipe."));
    assert_eq!(left_out.count(), 3, "{:?}", gathered.skipped);
}

/// As many publishers as no Windows has, with a library each.
#[test]
fn two_thousand_publishers_become_one_pack_and_each_that_is_left_out_is_named() {
    const COUNT: usize = 2000;
    let folder = Folder::new("many");
    let names: Vec<[String; 3]> = (0..COUNT)
        .map(|number| {
            [
                format!("{{{number:08x}-2222-3333-4444-555555555555}}"),
                format!("Maker-{number}"),
                format!(r"%SystemRoot%\System32\maker{number}.dll"),
            ]
        })
        .collect();
    let mut hive = HiveWriter::new();
    let mut keys = Vec::new();
    for [guid, name, file] in &names {
        let values = [hive.text("", name), hive.text("ResourceFileName", file)];
        keys.push(hive.key(guid, &[], &values));
    }
    folder.write("Windows/System32/config/SOFTWARE", &hive.software(&keys));
    let (resource, english) = maker();
    // The provider's GUID is the first of the list behind the head.
    let place = 16;
    assert_eq!(resource[place..place + 4], 0x1111_1111u32.to_le_bytes());
    let texts = program(AMD64, &[], &[(MESSAGES, 0x409, &english)]);
    for number in 0..COUNT {
        let mut resource = resource.clone();
        let first = number as u32;
        resource[place..place + 4].copy_from_slice(&first.to_le_bytes());
        let library = match number % 100 {
            // A library that is damaged, one of another provider, one that is not there.
            7 => b"MZ".to_vec(),
            8 => program(AMD64, &[], &[(TEMPLATES, 0x409, &maker().0)]),
            9 => continue,
            _ => program(AMD64, &[], &[(TEMPLATES, 0x409, &resource)]),
        };
        folder.write(&format!("Windows/System32/maker{number}.dll"), &library);
        folder.write(&format!("Windows/System32/en-US/maker{number}.dll.mui"), &texts);
    }
    let mut steps = 0;
    let gathered = gather(&folder.0, &options(None, 2), |_| steps += 1).unwrap();
    assert_eq!((gathered.registered, gathered.described), (COUNT, COUNT - 60));
    assert_eq!((gathered.programs, steps), (COUNT - 20, COUNT - 20));
    assert_eq!(gathered.skipped.len(), 60);
    let why = |number: usize| {
        let name = format!("Maker-{number}");
        let found = gathered.skipped.iter().find(|skipped| skipped.what == name);
        found.map_or("", |skipped| skipped.why.as_str())
    };
    assert!(why(1907).contains("neither a manifest nor a PE file"), "{}", why(1907));
    assert!(why(1908).ends_with("its compiled manifest does not have this provider"));
    assert!(why(1909).ends_with("not there"));
    let pack = Pack::open(gathered.builder.finish().into()).unwrap();
    let mut catalog = Catalog::default();
    catalog.add_pack(Arc::new(pack));
    for number in [0, 1234, COUNT - 1] {
        let event = catalog.event(names[number][0].parse().unwrap(), 7, 2).unwrap();
        assert_eq!(event.message.as_ref().unwrap().template(), "%1 said %2");
    }
}
