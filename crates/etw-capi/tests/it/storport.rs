//! StorPort's events from C.

use std::process::Command;

use etw_etl::read::{Records, TraceFile};
use etw_types::Guid;

use crate::support::*;

/// SP-1, SP-2, SP-3, SP-4: StorPort's functions as C symbols, with every compiler.
#[test]
fn storport_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("storport-{number}"));
        let Some(program) = compile(&folder, "storport.c", compiler) else { continue };
        let out = folder.0.join("storport.etl");
        let output = Command::new(program).env("STORPORT_OUT", &out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        let provider: Guid = "c4636a1e-7986-4646-bf10-7bc3b4a76e8e".parse().unwrap();
        let mut records = Records::new(vec![TraceFile::open(&out).unwrap()]);
        let mut found = Vec::new();
        while let Some(record) = records.next() {
            if record.provider == Some(provider) {
                let d = &record.descriptor;
                found.push((d.id, d.level.0, d.opcode.0, d.keyword.0 & 0xffff));
            }
        }
        let expected = [
            (571, 2, 9, 1),
            (566, 2, 9, 1),
            (253, 4, 0, 0),
            (251, 4, 0, 0),
            (258, 4, 0, 0),
            (534, 2, 0, 0),
        ];
        assert_eq!(found, expected, "{compiler:?}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}
