//! Large manifests.

use etw_mc::messages::{self, MessageIds};
use etw_mc::{Manifest, header, wevt};

use crate::large_manifest::large;

/// All outputs of 5,000 events. `cargo test --release` shows the time that a reader of this test wants to know.
#[test]
fn five_thousand_events_are_compiled() {
    let text = large(5000);
    let start = std::time::Instant::now();
    let manifest = Manifest::parse(text.as_bytes()).unwrap();
    let header = header::write(&manifest, &header::Options::default());
    let resource = wevt::write(&manifest, wevt::Version::V5);
    let table = messages::table(&MessageIds::new(&manifest), manifest.cultures.first());
    eprintln!("{:?}", start.elapsed());
    assert!(header.contains("#define EventWriteEvent5000(Count5000, Text)"));
    assert!(resource.len() > 1 << 20 && table.len() > 1 << 17);
}
