//! Comparison with an earlier manifest, and warnings beyond mc's.

use etw_mc::{Manifest, review};

const GOOD: &str = include_str!("all_types.man");

/// A change that breaks the earlier manifest, and what the first difference says; the line is that of the change, or of the provider.
const BREAKS: &[(&str, &str, &str)] = &[
    (
        "<data name=\"i32\" inType=\"win:Int32\"/>",
        "<data name=\"i32\" inType=\"win:Int64\"/>",
        "the fields of event 1 version 0 changed; keep them and add version 1",
    ),
    (
        "<data name=\"x\" inType=\"win:Int32\"/>",
        "<data name=\"z\" inType=\"win:Int32\"/>",
        "the fields of event 3 version 0 changed",
    ),
    ("<event value=\"2\" ", "<event value=\"22\" ", "event 2 version 0 is missing"),
    (
        "level=\"win:Warning\"",
        "level=\"win:Error\"",
        "level, task, opcode, channel or keywords of event 2",
    ),
    ("symbol=\"Lengths\"", "symbol=\"Length\"", "the symbol of event 2 version 0 changed"),
    (
        "name=\"Even\" mask=\"0x2\"",
        "name=\"Even\" mask=\"0x4\"",
        "keyword `Even` was 0x2 and is now 0x4",
    ),
    (
        "<task name=\"Work\" value=\"7\"",
        "<task name=\"Work\" value=\"8\"",
        "task `Work` was 0x7 and is now 0x8",
    ),
    (
        "<opcode name=\"Half\" value=\"40\"",
        "<opcode name=\"Half\" value=\"41\"",
        "opcode `Half` was 0x28 and is now 0x29",
    ),
    (
        "chid=\"ADM\" type",
        "chid=\"ADM\" value=\"20\" type",
        "channel `OpenEtw-All/Admin` was 0x10 and is now 0x14",
    ),
    ("<map value=\"2\"", "<map value=\"3\"", "value 0x2 of map `Colour` is missing"),
    ("symbol=\"_RED\"", "symbol=\"_ROUGE\"", "value 0x1 of map `Colour` is missing"),
    ("template=\"lengths\"", "template=\"arrays\"", "the fields of event 2 version 0 changed"),
    ("symbol=\"ALL_TYPES\"", "symbol=\"SOME\"", "the provider's symbol was `ALL_TYPES`"),
    ("guid=\"{0a0b0c0d", "guid=\"{1a0b0c0d", "provider `OpenEtw-All.Types`"),
];

#[test]
fn what_breaks_the_earlier_manifest_is_reported() {
    let good = Manifest::parse(GOOD.as_bytes()).unwrap();
    assert_eq!(review::compare(&good, &good), []);
    for (from, to, expected) in BREAKS {
        assert!(GOOD.contains(from), "{from}");
        let changed = Manifest::parse(GOOD.replacen(from, to, 1).as_bytes()).unwrap();
        let found = review::compare(&good, &changed);
        let first = found.first().unwrap_or_else(|| panic!("nothing for {to}"));
        assert!(first.message.contains(expected), "{first} for {to}");
    }
}

#[test]
fn a_new_event_and_a_new_version_break_nothing() {
    let good = Manifest::parse(GOOD.as_bytes()).unwrap();
    let event = "<event value=\"4\" symbol=\"Empty\"";
    let more = format!(
        "<event value=\"1\" version=\"1\" symbol=\"Scalars_V1\" level=\"win:Error\" template=\"arrays\"/>\n{event}"
    );
    let text = GOOD.replacen(event, &more, 1);
    let changed = Manifest::parse(text.as_bytes()).unwrap();
    assert_eq!(review::compare(&good, &changed), []);
    // The linter finds that the new version does not begin with the fields of the old one, and that it has no keyword.
    let warnings: Vec<String> =
        review::lint(&changed).iter().map(|warning| warning.to_string()).collect();
    let line = text.lines().position(|line| line.contains("Scalars_V1")).unwrap() + 1;
    let starts = |end: &str| {
        let start = format!("{line}:11: warning: {end}");
        assert!(warnings.iter().any(|warning| warning.starts_with(&start)), "{warnings:#?}");
    };
    starts("version 1 of event 1 does not begin with the fields of version 0");
    starts("event 1 has no keyword");
    assert!(warnings.iter().any(|warning| warning.contains("event 5 has no symbol")));
}
