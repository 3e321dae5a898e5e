//! A small Windows: a registry, a library with a compiled manifest in two languages, a program with TraceLogging metadata, a MOF file.

use crate::pe::{self, AMD64, ARM64, I386, MESSAGES, TEMPLATES, library};
use regf::{DataType, HiveBuilder};
use std::path::PathBuf;

/// A folder that is removed in the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("etw-windows-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The provider of the compiled manifest that the decoder's tests make.
pub const MAKER: &str = "{11111111-2222-3333-4444-555555555555}";

/// Its resource and its message table.
pub fn maker() -> (Vec<u8>, Vec<u8>) {
    let seed = corpus("wevt/whole");
    let resource = sized_part(&seed);
    let messages = sized_part(&seed[2 + resource.len()..]);
    (resource, messages)
}

/// Binary MOF, compressed: the class of the decoder's tests.
pub fn binary_mof() -> Vec<u8> {
    sized_part(&corpus("mof/compressed"))
}

/// An input of the fuzz corpus.
fn corpus(name: &str) -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/").to_owned() + name)
        .unwrap()
}

/// The bytes behind their size.
fn sized_part(bytes: &[u8]) -> Vec<u8> {
    let size = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    bytes[2..2 + size].to_vec()
}

/// A table of messages from 100 on.
pub fn messages(texts: &[&str]) -> Vec<u8> {
    let mut table = Vec::new();
    for number in [1, 100, 99 + texts.len() as u32, 16] {
        table.extend(number.to_le_bytes());
    }
    for text in texts {
        let bytes: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        table.extend((bytes.len() as u16 + 4).to_le_bytes());
        table.extend([1, 0]);
        table.extend(bytes);
    }
    table
}

pub fn german() -> Vec<u8> {
    messages(&["Maker-Produkt", "Arbeit", "Tu", "drei", "%1 sagte %2"])
}

/// The metadata that compilers put into a program with one provider and one event.
pub fn metadata() -> Vec<u8> {
    use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, provider_traits};
    let event = MetadataBuilder::new("Started", 0)
        .field("Size", InType::UINT32, OutType::HEX, Count::Scalar, 0)
        .finish()
        .unwrap();
    [
        &b"ETW0\x10\0\0\x01\x86\x0e\x04\x88\x2b\x05\x8a\xbb\x04"[..],
        &[7; 16],
        &provider_traits("Tool.Provider", None).unwrap(),
        &[6, 11, 4, 0],
        &0x10u64.to_le_bytes(),
        &event,
        &[1],
    ]
    .concat()
}

fn text(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// GUID, name, resource file, message file.
pub type Publisher<'t> = (&'t str, &'t str, Option<&'t str>, Option<&'t str>);

pub const PUBLISHERS: [Publisher<'static>; 6] = [
    (
        MAKER,
        "Maker",
        Some(r"%SystemRoot%\system32\Maker.dll"),
        Some(r"%windir%\System32\MakerText.dll"),
    ),
    ("{22222222-0000-0000-0000-000000000000}", "No-File", None, Some("x.dll")),
    ("{33333333-0000-0000-0000-000000000000}", "Gone", Some(r"C:\Windows\System32\gone.dll"), None),
    ("{44444444-0000-0000-0000-000000000000}", "Far", Some(r"D:\far.dll"), None),
    (
        "{55555555-0000-0000-0000-000000000000}",
        "Other",
        Some(r"%ProgramFiles%\Tool\..\Tool\other.dll"),
        None,
    ),
    (
        "{66666666-0000-0000-0000-000000000000}",
        "Stranger",
        Some(r"\SystemRoot\System32\maker.dll"),
        None,
    ),
];

/// The SOFTWARE hive.
pub fn software() -> Vec<u8> {
    software_of(&PUBLISHERS)
}

/// A SOFTWARE hive with some publishers.
pub fn software_of(list: &[Publisher<'_>]) -> Vec<u8> {
    let mut hive = HiveBuilder::new_with_name("SOFTWARE").unwrap();
    let root = hive.root_offset();
    let mut path = |from: u32, names: &[&str]| {
        names.iter().fold(from, |key, name| hive.add_key(key, name).unwrap())
    };
    let microsoft = path(root, &["Microsoft"]);
    let version = path(microsoft, &["Windows NT", "CurrentVersion"]);
    let current = path(microsoft, &["Windows", "CurrentVersion"]);
    let publishers = path(current, &["WINEVT", "Publishers"]);
    let mut keys = Vec::new();
    for (guid, ..) in list {
        keys.push(path(publishers, &[*guid]));
    }
    let mut set = |key: u32, name: &str, kind: DataType, data: &[u8]| {
        hive.add_value(key, name, kind, data).unwrap();
    };
    set(version, "CurrentBuildNumber", DataType::String, &text("19045"));
    set(version, "CurrentMajorVersionNumber", DataType::Dword, &10u32.to_le_bytes());
    set(version, "CurrentMinorVersionNumber", DataType::Dword, &0u32.to_le_bytes());
    set(version, "UBR", DataType::Dword, &3803u32.to_le_bytes());
    set(version, "ProductName", DataType::String, &text("Windows 10 Pro"));
    set(version, "SystemRoot", DataType::String, &text(r"C:\WINDOWS"));
    set(current, "ProgramFilesDir", DataType::String, &text(r"C:\Program Files"));
    for (key, (_, name, resource, message)) in keys.into_iter().zip(list) {
        set(key, "", DataType::String, &text(name));
        if let Some(file) = resource {
            set(key, "ResourceFileName", DataType::ExpandString, &text(file));
        }
        if let Some(file) = message {
            set(key, "MessageFileName", DataType::ExpandString, &text(file));
        }
        set(key, "Enabled", DataType::Dword, &1u32.to_le_bytes());
    }
    hive.to_bytes().unwrap()
}

/// Writes the Windows into a folder.
pub fn write_windows(folder: &Folder) {
    let (resource, english) = maker();
    folder.write("Windows/System32/config/SOFTWARE", &software());
    // A library of resources alone, whose texts are beside it; names differ in case from the registry's.
    let library_file = library(ARM64, &[], &[(TEMPLATES, 0x409, &resource)]);
    folder.write("Windows/System32/MAKER.DLL", &library_file);
    let mui = |language: u32, table: &[u8]| library(AMD64, &[], &[(MESSAGES, language, table)]);
    folder.write("Windows/System32/en-US/maker.dll.mui", &mui(0x409, &english));
    folder.write("Windows/System32/de-DE/Maker.dll.mui", &mui(0x407, &german()));
    folder.write("Windows/System32/tool.exe", &library(I386, &metadata(), &[]));
    folder.write("Windows/System32/drivers/plain.sys", &library(AMD64, &[], &[]));
    folder.write("Windows/System32/cut.dll", b"MZ");
    folder.write("Windows/System32/text.dll", b"not a program");
    folder.write("Windows/System32/wbem/tool.mof", MOF.as_bytes());
    folder.write("Windows/System32/wbem/other.mof", b"class Other { };");
    folder.write("Program Files/Tool/OTHER.dll", &library(AMD64, &[], &[]));
}

const MOF: &str = r#"[Guid("{00000000-0000-0000-0000-000000000009}"), EventVersion(2)] class Tool : EventTrace {};
[EventType(1), EventTypeName("Run")] class Tool_Run : Tool { [WmiDataId(1)] uint32 Count; };"#;

pub use pe::library as program;
