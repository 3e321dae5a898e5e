//! Manifests that the compiler rejects: each with its position and reason.

use etw_mc::{Manifest, Severity};

const GOOD: &str = include_str!("all_types.man");

/// A change of the good manifest, and what the first error says; its line is the line of the change.
const CASES: &[(&str, &str, &str)] = &[
    ("<event value=\"2\" ", "<event value=\"1\" ", "two events have value 1 and version 0"),
    (
        "<event value=\"2\" ",
        "<event value=\"65536\" ",
        "`value` is `65536`: expected a number from 0 to 65535",
    ),
    ("symbol=\"Lengths\"", "symbol=\"Scalars\"", "two events have symbol `Scalars`"),
    ("template=\"lengths\"", "template=\"length\"", "template `length` is not defined"),
    ("level=\"win:Warning\"", "level=\"win:Warn\"", "level `win:Warn` is not defined"),
    ("opcode=\"Half\"", "opcode=\"Quarter\"", "opcode `Quarter` is not defined"),
    ("task=\"Work\"", "task=\"Play\"", "task `Play` is not defined"),
    ("keywords=\"Odd Even\"", "keywords=\"Odd Event\"", "keyword `Event` is not defined"),
    ("channel=\"SYS\"", "channel=\"SYSTEM\"", "channel `SYSTEM` is not defined"),
    (
        "level=\"win:Error\" message=\"$(string.empty)\"/>\n          <event value=\"5\"",
        "level=\"win:Verbose\" message=\"$(string.empty)\"/>\n          <event value=\"5\"",
        "an event of an Admin channel needs level",
    ),
    ("name=\"Even\" mask=\"0x2\"", "name=\"Even\" mask=\"0x3\"", "`mask` is not one bit"),
    ("name=\"Even\" mask=\"0x2\"", "name=\"Odd\" mask=\"0x2\"", "keyword `Odd` is defined twice"),
    (
        "length=\"n\" count=\"m\"",
        "length=\"nn\" count=\"m\"",
        "no field of that name stands before this one",
    ),
    ("inType=\"win:Binary\" length=\"m\"", "inType=\"win:Binary\"", "has no `length`"),
    (
        "inType=\"win:Double\"",
        "inType=\"win:Triple\"",
        "`inType` is `win:Triple`, which is not a known type",
    ),
    ("inType=\"win:Double\"", "inType=\"win:Double\" map=\"Colour\"", "field `d` has a map"),
    ("map=\"Colour\"", "map=\"Color\"", "map `Color` is not defined"),
    ("<map value=\"0x1\"", "<map value=\"0x3\"", "expected one bit"),
    (
        "$(string.red)\" symbol=\"_RED\"",
        "$(string.green)\" symbol=\"_RED\"",
        "string `green` is not defined for culture en-US",
    ),
    ("guid=\"{0a0b0c0d-0102", "guid=\"{0a0b0c0d+0102", "which is not a GUID"),
    ("type=\"Admin\"", "type=\"Administrative\"", "expected Admin, Operational, Analytic or Debug"),
    (
        "<opcode name=\"Half\" value=\"40\"/>",
        "<opcode name=\"Half\" value=\"9\"/>",
        "expected a number from 10 to 239",
    ),
    ("<task name=\"Work\" value=\"7\"", "<task name=\"Work\"", "`task` has no `value`"),
];

#[test]
fn each_mistake_is_reported_at_its_line() {
    assert!(Manifest::parse(GOOD.as_bytes()).is_ok());
    for (from, to, expected) in CASES {
        assert!(GOOD.contains(from), "{from}");
        let at = GOOD.find(from).unwrap();
        let first = GOOD[..at].lines().count();
        let changed = GOOD.replacen(from, to, 1);
        let problems = Manifest::parse(changed.as_bytes()).expect_err(expected);
        let error = problems.iter().find(|one| one.severity == Severity::Error).unwrap();
        assert!(error.message.contains(expected), "{to}: {error}");
        // Elements may begin a line above the changed attribute, and name an element below it.
        assert!(
            (first as i64 - i64::from(error.line)).abs() <= 8,
            "{to}: {error}, changed at {first}"
        );
    }
}

#[test]
fn broken_xml_and_other_encodings_are_reported_or_read() {
    for wrong in [&b""[..], b"<", b"\xff\xfe<\0", b"\xc3\x28", b"<instrumentationManifest>"] {
        assert!(Manifest::parse(wrong).is_err());
    }
    let utf16: Vec<u8> =
        [0xfeff].into_iter().chain(GOOD.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let with_mark = [&b"\xef\xbb\xbf"[..], GOOD.as_bytes()].concat();
    let plain = Manifest::parse(GOOD.as_bytes()).unwrap();
    assert_eq!(Manifest::parse(&with_mark).unwrap(), plain);
    assert_eq!(Manifest::parse(&utf16).unwrap(), plain);
}
