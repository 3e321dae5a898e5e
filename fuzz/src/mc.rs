//! Fuzz targets of `etw-mc`.

use etw_mc::messages::{self, MessageIds};
use etw_mc::{Manifest, Severity, header, wevt};

/// A manifest: rejected with an error, or compiled into every output.
pub fn mc_manifest(data: &[u8]) {
    match Manifest::parse(data) {
        Ok(manifest) => {
            let ids = MessageIds::new(&manifest);
            let _ = messages::table(&ids, manifest.cultures.first());
            let _ = header::write(&manifest, &header::Options::default());
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
