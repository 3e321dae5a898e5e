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

/// Content of a provider, whose mistake is on line 2 of it, and the error.
const LISTS: &[(&str, &str)] = &[
    (
        "<levels><level name=\"a\" value=\"16\"/>\n<level name=\"b\" value=\"16\"/></levels>",
        "two levels have value 16",
    ),
    (
        "<levels><level name=\"a\" value=\"16\" symbol=\"S\"/>\n<level name=\"b\" value=\"17\" symbol=\"S\"/></levels>",
        "two levels have symbol `S`",
    ),
    (
        "<opcodes><opcode name=\"a\" value=\"16\"/>\n<opcode name=\"b\" value=\"16\"/></opcodes>",
        "two opcodes have value 16",
    ),
    (
        "<opcodes><opcode name=\"a\" value=\"16\" symbol=\"S\"/>\n<opcode name=\"b\" value=\"17\" symbol=\"S\"/></opcodes>",
        "two opcodes have symbol `S`",
    ),
    (
        "<keywords><keyword name=\"a\" mask=\"1\"/>\n<keyword name=\"b\" mask=\"0x1\"/></keywords>",
        "two keywords have mask 0x1",
    ),
    (
        "<keywords><keyword name=\"a\" mask=\"1\" symbol=\"S\"/>\n<keyword name=\"b\" mask=\"2\" symbol=\"S\"/></keywords>",
        "two keywords have symbol `S`",
    ),
    (
        "<keywords>\n<keyword name=\"a\" mask=\"1\" symbol=\"1 a\"/></keywords>",
        "`symbol` is `1 a`: expected letters",
    ),
    (
        "<tasks><task name=\"a\" value=\"1\" symbol=\"S\"/>\n<task name=\"b\" value=\"2\" symbol=\"S\"/></tasks>",
        "two tasks have symbol `S`",
    ),
    (
        "<tasks><task name=\"a\" value=\"1\" eventGUID=\"{0a0b0c0d-0102-0304-0506-070809101112}\"/>\n\
      <task name=\"b\" value=\"2\" eventGUID=\"{0A0B0C0D-0102-0304-0506-070809101112}\"/></tasks>",
        "two tasks have eventGUID",
    ),
    (
        "<channels><channel name=\"a\" type=\"Debug\" value=\"20\"/>\n<channel name=\"b\" type=\"Debug\" value=\"20\"/></channels>",
        "two channels have value 20",
    ),
    (
        "<channels><channel name=\"a\" chid=\"x\" type=\"Debug\"/>\n<channel name=\"a\" chid=\"y\" type=\"Debug\"/></channels>",
        "channel `a` is defined twice",
    ),
    (
        "<channels><channel name=\"a\" chid=\"x\" type=\"Debug\"/>\n<channel name=\"b\" chid=\"x\" type=\"Debug\"/></channels>",
        "two channels have chid `x`",
    ),
    (
        "<channels><channel name=\"a\" symbol=\"S\" type=\"Debug\"/>\n<channel name=\"b\" symbol=\"S\" type=\"Debug\"/></channels>",
        "two channels have symbol `S`",
    ),
    (
        "<channels>\n<channel name=\"a|b\" type=\"Debug\"/></channels>",
        "`|` is not allowed in a channel's name",
    ),
    (
        "<channels>\n<channel name=\"a\" type=\"Debug\" enabled=\"maybe\"/></channels>",
        "`enabled` is `maybe`",
    ),
    (
        "<channels>\n<channel name=\"a\" type=\"Debug\" isolation=\"None\"/></channels>",
        "`isolation` is `None`",
    ),
    ("<channels>\n<channel name=\"a\" type=\"Debug\" chid=\"\"/></channels>", "`chid` is empty"),
    (
        "<maps><valueMap name=\"a\" symbol=\"S\"><map value=\"1\" message=\"m\"/></valueMap>\n<valueMap name=\"b\" symbol=\"S\"><map value=\"1\" message=\"m\"/></valueMap></maps>",
        "two valueMaps have symbol `S`",
    ),
    (
        "<maps><valueMap name=\"a\"><map value=\"1\" symbol=\"S\" message=\"m\"/>\n<map value=\"2\" symbol=\"S\" message=\"m\"/></valueMap></maps>",
        "two maps have symbol `S`",
    ),
    (
        "<filters><filter name=\"a\" value=\"1\"/>\n<filter name=\"a\" value=\"2\"/></filters>",
        "filter `a` is defined twice",
    ),
    (
        "<filters><filter name=\"a\" value=\"1\"/>\n<filter name=\"b\" value=\"1\"/></filters>",
        "two filters have value 1 and version 0",
    ),
    (
        "<templates><template tid=\"T\"><data name=\"a\" inType=\"win:Int8\" count=\"2\"/></template></templates><filters>\n<filter name=\"b\" value=\"1\" tid=\"T\"/></filters>",
        "may have no struct, array, map or UserData",
    ),
    (
        "<templates><template tid=\"T\">\n<data name=\"a\" inType=\"win:UnicodeString\" outType=\"xs:int\"/></template></templates>",
        "field `a` of type win:UnicodeString cannot have `outType` xs:int: expected xs:string, win:Xml, win:Json",
    ),
    (
        "<templates><template tid=\"T\">\n<data name=\"a\" inType=\"win:UInt32\" outType=\"win:Port\"/></template></templates>",
        "cannot have `outType` win:Port",
    ),
    ("<events>\n<event value=\"1\" symbol=\"1st\"/></events>", "`symbol` is `1st`"),
    (
        "<events><event value=\"1\"\nsimbol=\"A\"/></events>",
        "`event` has no attribute `simbol`: expected value, version, symbol,",
    ),
    (
        "<events>\n<evnt value=\"1\"/></events>",
        "`evnt` does not belong in `events`: expected event",
    ),
    (
        "<events>\n<t:event xmlns:t=\"urn:t\" value=\"1\"/></events>",
        "its namespace is not that of the manifest",
    ),
    (
        "<channels><channel name=\"a\" type=\"Debug\"><logging>\n<maxSize>big</maxSize></logging></channel></channels>",
        "`maxSize` is `big`: expected a number",
    ),
    (
        "<channels><channel name=\"a\" type=\"Debug\"><logging>\n<retention>never</retention></logging></channel></channels>",
        "`retention` is `never`: expected true or false",
    ),
    (
        "<channels><channel name=\"a\" type=\"Debug\"><publishing>\n<clockType>Sun</clockType></publishing></channel></channels>",
        "`clockType` is `Sun`: expected SystemTime or QPC",
    ),
    ("<maps><valueMap name=\"a\">\n<map value=\"1\"/></valueMap></maps>", "`map` has no `message`"),
    (
        "<templates><template tid=\"T\"><data name=\"a\" inType=\"win:Int8\"/><UserData><R xmlns=\"r\">\n<A>%2</A></R></UserData></template></templates>",
        "%2 names no field; the template has 1",
    ),
    (
        "<levels>\n<level name=\"a\" value=\"16\" message=\"$(mc.NONE)\"/></levels>",
        "no message of `messageTable` has symbol `NONE`",
    ),
];

fn of_content(content: &str, strings: &str) -> String {
    format!(
        "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\" xmlns:win=\"http://manifests.microsoft.com/win/2004/08/windows/events\" \
         xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><instrumentation><events>\
         <provider name=\"P\" guid=\"{{0a0b0c0d-0102-0304-0506-0708090a0b0c}}\" symbol=\"S\">{content}</provider>\
         </events></instrumentation><localization>{strings}</localization></instrumentationManifest>"
    )
}

/// The only error of a manifest.
fn error_of(text: &[u8]) -> etw_mc::Diagnostic {
    let mut problems = Manifest::parse(text).expect_err(&String::from_utf8_lossy(text));
    problems.retain(|one| one.severity == Severity::Error);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0)
}

#[test]
fn elements_of_a_list_differ_in_names_values_and_symbols() {
    for (content, expected) in LISTS {
        let error = error_of(of_content(content, "").as_bytes());
        assert!(error.message.contains(expected), "{content}: {error}");
        assert_eq!((error.severity, error.line, error.column), (Severity::Error, 2, 1), "{error}");
    }
    // Two providers share no name, GUID or symbol; what they contain may have the same symbols.
    let content = "<keywords><keyword name=\"a\" mask=\"1\" symbol=\"A\"/></keywords>";
    let two = |name: &str, symbol: &str| {
        let first = of_content(content, "");
        let end = first.find("</events>").unwrap();
        let guid = "{1a0b0c0d-0102-0304-0506-0708090a0b0c}";
        format!(
            "{}\n<provider name=\"{name}\" guid=\"{guid}\" symbol=\"{symbol}\">{content}</provider>{}",
            &first[..end],
            &first[end..]
        )
    };
    assert_eq!(Manifest::parse(two("Q", "T").as_bytes()).unwrap().providers.len(), 2);
    let error = error_of(two("P", "T").as_bytes());
    assert_eq!(error.to_string(), "2:1: error: provider `P` is defined twice");
    let error = error_of(two("Q", "S").as_bytes());
    assert_eq!(error.to_string(), "2:1: error: two providers have symbol `S`");
}

/// Elements of `UserData` that are nested, with line feeds where the depth is too much.
#[test]
fn malicious_nesting_is_an_error_with_its_place() {
    let nested = |depth: usize| {
        let (open, close) = ("<A>".repeat(depth.min(64)), "</A>".repeat(depth));
        let deeper = "\n<A>".repeat(depth.saturating_sub(64));
        let data = format!("<UserData>{open}{deeper}%1{close}</UserData>");
        let template = format!("<data name=\"a\" inType=\"win:Int8\"/>{data}");
        of_content(&format!("<templates><template tid=\"T\">{template}</template></templates>"), "")
    };
    assert!(Manifest::parse(nested(64).as_bytes()).is_ok());
    // Without a bound, the last one overflows the stack of the test's thread.
    for depth in [65, 200_000] {
        let error = error_of(nested(depth).as_bytes()).to_string();
        let expected = "2:1: error: elements of `UserData` are nested deeper than 64 levels";
        assert_eq!(error, expected);
    }
}

/// The XML reader keeps all namespaces in scope for each element that adds one.
#[test]
fn malicious_namespaces_are_bounded() {
    let open: String = (0..20_000).map(|n| format!("<A xmlns:n{n}=\"u{n}\">\n")).collect();
    let data = format!("<UserData>{open}{}</UserData>", "</A>".repeat(20_000));
    let content = format!("<templates><template tid=\"T\">{data}</template></templates>");
    let error = error_of(of_content(&content, "").as_bytes()).to_string();
    assert!(error.ends_with("the manifest declares more than 8192 namespaces"), "{error}");
}

#[test]
fn a_message_has_at_most_what_a_message_table_holds() {
    let strings = |count: usize| {
        let text = "y".repeat(count);
        format!(
            "<resources culture=\"en-US\"><stringTable>\n<string id=\"m\" value=\"{text}\"/></stringTable></resources>"
        )
    };
    let events = "<events><event value=\"1\" message=\"$(string.m)\"/></events>";
    let most = of_content(events, &strings(32_761));
    let manifest = Manifest::parse(most.as_bytes()).unwrap();
    let ids = etw_mc::messages::MessageIds::new(&manifest);
    let table = etw_mc::messages::table(&ids, manifest.cultures.first());
    assert_eq!(u16::from_le_bytes([table[16], table[17]]), 65_532);
    let error = error_of(of_content(events, &strings(32_762)).as_bytes());
    assert_eq!((error.line, error.column), (2, 1));
    assert!(error.message.contains("string `m` is longer than the 32761 characters"), "{error}");
    let twice = strings(1) + &strings(1);
    let error = error_of(of_content(events, &twice).as_bytes());
    assert!(error.message.contains("culture `en-US` is defined twice"), "{error}");
}

#[test]
fn a_template_has_at_most_99_values() {
    let fields = |count: usize| {
        let fields: String =
            (0..count).map(|n| format!("<data name=\"f{n}\" inType=\"win:Int8\"/>")).collect();
        of_content(&format!("<templates>\n<template tid=\"T\">{fields}</template></templates>"), "")
    };
    assert!(Manifest::parse(fields(99).as_bytes()).is_ok());
    let error = error_of(fields(100).as_bytes());
    assert_eq!((error.line, error.column), (2, 1));
    assert!(error.message.contains("template `T` has 100 values"), "{error}");
}

#[test]
fn errors_of_the_text_are_reported_at_their_position() {
    let latin1 = of_content("\n\n <!-- ", "").into_bytes();
    let at = latin1.windows(5).position(|five| five == b"<!-- ").unwrap() + 5;
    let latin1 = [&latin1[..at], b"\xe9 -->", &latin1[at..]].concat();
    for (text, expected) in [
        (latin1, "3:7: error: a byte that is not UTF-8"),
        (b"<a>\n<b>".to_vec(), "2:4: error: "),
        (b"<a>\n <b></c></a>".to_vec(), "2:5: error: expected 'b' tag, not 'c'"),
        (b"<\0a\0>\0".to_vec(), "1:1: error: the manifest is UTF-16 without a byte order mark"),
        (b"\xff\xfe<\0a".to_vec(), "1:1: error: the manifest is not valid UTF-16"),
        (
            b"<?xml version='1.0' encoding='UTF-16'?><a/>".to_vec(),
            "1:31: error: the manifest declares encoding `UTF-16`, and its bytes are not UTF-16",
        ),
        (
            b"<?xml version=\"1.0\" encoding = \"klingon\"?><a/>".to_vec(),
            "1:33: error: `klingon` is no known encoding",
        ),
        (
            b"<instrumentationManifest xmlns='urn:x'/>".to_vec(),
            "1:1: error: the manifest's namespace is `urn:x`: expected `http://schemas",
        ),
        (b"<instrumentationManifest/>".to_vec(), "1:1: error: the manifest has no namespace"),
        (b"<assembly/>".to_vec(), "1:1: error: the outermost element is not"),
    ] {
        let error = error_of(&text).to_string();
        assert!(error.starts_with(expected) && !error.contains(" at "), "{error}");
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
    let latin1 = GOOD.replace("utf-8", "windows-1252").replace("UTF-8", "windows-1252");
    assert!(latin1.contains("windows-1252") && GOOD.is_ascii());
    let latin1 = latin1.replacen("<!--", "<!-- \u{e9}", 1);
    let latin1: Vec<u8> = latin1.chars().map(|c| c as u8).collect();
    assert_eq!(Manifest::parse(&latin1).unwrap(), plain);
}

/// The warnings of a manifest with this content on its second line, without those of its place.
fn warnings_of(content: &str, strings: &str) -> Vec<String> {
    let manifest = Manifest::parse(of_content(content, strings).as_bytes()).unwrap();
    let all = manifest.warnings.iter().map(ToString::to_string);
    all.filter(|one| !one.contains("`resourceFileName`")).collect()
}

#[test]
fn what_mc_may_accept_is_a_warning() {
    let strings = |culture: &str, text: &str| {
        format!(
            "<resources culture=\"{culture}\"><stringTable><string id=\"m\" value=\"{text}\"/></stringTable></resources>"
        )
    };
    let template = "<templates><template tid=\"T\"><data name=\"a\" inType=\"win:Int8\"/></template></templates>";
    let events = |text: &str| {
        let content = format!(
            "{template}<events>\n<event value=\"7\" template=\"T\" message=\"$(string.m)\"/></events>"
        );
        warnings_of(&content, &strings("en-US", text))
    };
    assert_eq!(
        events("%1 %3"),
        ["2:1: warning: string `m` (en-US) shows %3; event 7 has 1 fields"]
    );
    assert!(events("%1!x! %%3 %% %n 100%").is_empty());

    let symbols = |content: &str| warnings_of(content, "");
    let keyword = "<keywords><keyword name=\"k\" mask=\"4\" symbol=\"A\"/></keywords>";
    assert_eq!(
        symbols(&format!("{keyword}<events>\n<event value=\"1\" symbol=\"A\"/></events>")),
        [
            "2:1: warning: symbol `A` of this event is also that of a keyword: the header does not compile"
        ]
    );
    let level =
        |value| format!("<levels><level name=\"l\" value=\"{value}\" symbol=\"A\"/></levels>");
    let task = "<tasks>\n<task name=\"t\" value=\"16\" symbol=\"A\"/></tasks>";
    assert!(symbols(&(level(16) + task)).is_empty(), "the same macro twice");
    assert_eq!(symbols(&(level(17) + task)).len(), 1);

    assert!(
        warnings_of("", &strings("mi-NZ", ""))[0].contains("culture `mi-NZ` has no number here")
    );
    let error = error_of(of_content("", &strings("../etc", "")).as_bytes());
    assert!(error.message.contains("is not the name of a language"), "{error}");

    let undeclared = of_content("<events>\n<event value=\"1\" level=\"win:Error\"/></events>", "");
    let undeclared = undeclared.replace(" xmlns:win=", " xmlns:wing=");
    let warnings = Manifest::parse(undeclared.as_bytes()).unwrap().warnings;
    assert!(warnings.iter().any(|one| one.message.contains("prefix `win` of `win:Error`")));
    let other = undeclared.replace(" xmlns:wing=", " xmlns:win=\"urn:w\" xmlns:wing=");
    assert!(error_of(other.as_bytes()).message.contains("stands for `urn:w`"));
}

/// More warnings than are kept do not hide an error behind them.
#[test]
fn an_error_behind_many_warnings_is_reported() {
    let warned: String =
        (0..2000).map(|n| format!("<event value=\"{n}\" message=\"text\"/>")).collect();
    let content = format!("<events>{warned}\n<event value=\"1\"/></events>");
    let error = error_of(of_content(&content, "").as_bytes());
    assert_eq!((error.line, error.column), (2, 1), "{error}");
}
