//! Mistakes of C programs, and calls at their limits.

use std::process::Command;

use etw_etl::read::{Records, TraceFile};
use etw_types::{ExtType, Guid};

use crate::support::*;

const LIBRARIES: [Compiler; 2] = [
    Compiler("gcc", &["-std=c11", "-shared", "-fPIC", "-DNAME=\"One\""]),
    Compiler("gcc", &["-std=c11", "-shared", "-fPIC", "-DNAME=\"Other name\""]),
];

/// WF-2, OV-15: stale handles, callbacks within callbacks, NULL, sizes and counts at their limits, every level and keyword, threads that
/// end while a session stops, and libraries that are unloaded: the documented statuses, and no event is lost, doubled or mixed up.
#[test]
fn misuse_and_limits_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("misuse-{number}"));
        let libraries = [0, 1].map(|n| Folder::new(&format!("misuse-{number}-library-{n}")));
        let made = [0, 1].map(|n| compile_shared(&libraries[n], "library.c", LIBRARIES[n]));
        let [Some(one), Some(other)] = made else { continue };
        // The libraries and the program share one library of events.
        let Some(program) = compile_shared(&folder, "misuse.c", compiler) else { continue };
        let mut command = Command::new(program);
        let output = command.args([one, other]).env("FOLDER", &folder.0).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        let file = TraceFile::open(folder.0.join("libraries.etl")).unwrap();
        let provider = Guid::from_u128(0x5b4b4b4b_1111_2222_0102_030405060732);
        let mut records = Records::new(vec![file]);
        let mut found = Vec::new();
        while let Some(record) = records.next() {
            if record.provider == Some(provider) {
                let metadata = record.extended.find(ExtType::EVENT_SCHEMA_TL).unwrap();
                let name = etw_tracelogging::event_name(metadata).unwrap().to_vec();
                let number = i32::from_le_bytes(record.payload.try_into().unwrap());
                found.push((number, String::from_utf8(name).unwrap()));
            }
        }
        let name = |number| if number % 2 == 0 { "One" } else { "Other name" };
        let wanted: Vec<_> = (0..20).map(|number| (number, name(number).to_owned())).collect();
        assert_eq!(found, wanted, "{compiler:?}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}
