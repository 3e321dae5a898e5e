//! Fuzz targets of `etw-mc`.

use etw_decode::Catalog;
use etw_decode::pack::{Pack, PackBuilder};
use etw_mc::message_text::{self, MessageText};
use etw_mc::messages::{self, MessageIds};
use etw_mc::{Manifest, Severity, elf, header, review, rust, wevt};

/// A manifest: rejected with an error, or compiled into every output.
pub fn mc_manifest(data: &[u8]) {
    match Manifest::parse(data) {
        Ok(manifest) => {
            let ids = MessageIds::new(&manifest);
            let _ = messages::table(&ids, manifest.cultures.first());
            let _ = header::write(&manifest, &header::Options::default());
            let _ = rust::write(&manifest, &rust::Options::default());
            let _ = review::lint(&manifest);
            assert!(review::compare(&manifest, &manifest).is_empty());
            let object = elf::write(&manifest, elf::Machine::X86_64);
            let mut catalog = Catalog::default();
            let _ = catalog.add_manifest(&object);
            for version in [wevt::Version::V3, wevt::Version::V5] {
                let resource = wevt::write(&manifest, version);
                let size = u32::from_le_bytes([resource[4], resource[5], resource[6], resource[7]]);
                assert_eq!(size as usize + 2, resource.len());
            }
        }
        Err(problems) => {
            assert!(problems.iter().any(|one| one.severity == Severity::Error));
        }
    }
}

/// A program that carries schemas: read into a catalog and a pack, or rejected.
pub fn carried_schemas(data: &[u8]) {
    let mut catalog = Catalog::default();
    let added = catalog.add_manifest(data);
    let mut builder = PackBuilder::default();
    if data.starts_with(b"\x7fELF") {
        assert_eq!(builder.add("program", data).is_ok(), added.is_ok());
        let pack = Pack::open(builder.finish().into()).unwrap();
        let _ = pack.contents().count();
    }
}

/// A message text file: rejected with an error, or compiled into a header, a script and tables.
pub fn mc_message_text(data: &[u8]) {
    match MessageText::parse(data) {
        Ok(messages) => {
            let options = message_text::Options::default();
            let header = messages.header(&options);
            assert!(header.is_empty() || header.ends_with("\r\n"));
            for language in messages.languages() {
                assert!(messages.table(language, &options).len() > 4);
            }
            let _ = messages.script(|language| language.file.clone());
        }
        Err(problems) => {
            assert!(problems.iter().any(|one| one.severity == Severity::Error));
        }
    }
}
