//! Rules of Microsoft's `mc` that its headers and resources for other manifests show.

use etw_mc::header::{self, Options};
use etw_mc::messages::MessageIds;
use etw_mc::wevt::{self, Version};
use etw_mc::{Manifest, messages};

/// A manifest of one provider: its attributes and its content.
fn manifest(attributes: &str, content: &str) -> Manifest {
    let text = format!(
        "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\" \
         xmlns:win=\"http://manifests.microsoft.com/win/2004/08/windows/events\" xmlns:w=\"http://manifests.microsoft.com/win/2004/08/windows/events\" \
         xmlns:x=\"http://www.w3.org/2001/XMLSchema\"><instrumentation><events>\
         <provider name=\"P\" guid=\"{{0a0b0c0d-0102-0304-0506-0708090a0b0c}}\" symbol=\"S\" {attributes}>{content}</provider>\
         </events></instrumentation><localization><resources culture=\"en-US\"><stringTable>\
         <string id=\"m\" value=\"text\"/></stringTable></resources></localization></instrumentationManifest>"
    );
    Manifest::parse(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

fn header(attributes: &str, content: &str) -> String {
    header::write(&manifest(attributes, content), &Options::default())
}

fn check(text: &str, expected: &[&str]) {
    for line in expected {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn channels_without_a_value_get_those_that_no_other_channel_is_given() {
    let text = header(
        "",
        "<channels><channel name=\"A\" type=\"Debug\" value=\"20\"/><channel name=\"B\" type=\"Debug\"/>\
         <channel name=\"C\" type=\"Debug\" value=\"16\"/><channel name=\"D\" type=\"Debug\"/></channels>",
    );
    check(&text, &["S_CHANNEL_A 0x14\n", "S_CHANNEL_B 0x11\n", "S_CHANNEL_C 0x10\n"]);
    check(&text, &["S_CHANNEL_D 0x12\n"]);
}

#[test]
fn events_name_the_first_channel_of_an_id_or_name() {
    let text = header(
        "",
        "<channels><channel name=\"One\" chid=\"Two\" type=\"Debug\"/><channel name=\"Two\" chid=\"One\" type=\"Debug\"/></channels>\
         <events><event value=\"1\" symbol=\"E1\" channel=\"One\"/><event value=\"2\" symbol=\"E2\" channel=\"Two\"/></events>",
    );
    check(&text, &["E1 = {0x1, 0x0, 0x10,", "E2 = {0x2, 0x0, 0x10,"]);
}

#[test]
fn an_event_without_symbol_of_a_controlled_provider_is_named_by_its_channel_12() {
    let text = header(
        "controlGuid=\"{0a0b0c0d-0102-0304-0506-0708090a0b0d}\"",
        "<events><event value=\"10\"/></events>",
    );
    check(&text, &["S_EVENT_0xa_0_c_0_0_0_0 = {0xa, 0x0, 0xc, 0x0, 0x0, 0x0, 0x0};"]);
}

#[test]
fn events_that_are_not_logged_have_enable_bits() {
    let text = header(
        "",
        "<events><event value=\"1\" symbol=\"A\" level=\"win:Error\"/><event value=\"2\" level=\"win:Warning\" notLogged=\"true\"/>\
         <event value=\"3\" symbol=\"C\" level=\"win:Verbose\"/></events>",
    );
    check(&text, &["PLevels[3] = {2, 3, 5};"]);
    check(&text, &["EventEnabledC() MCGEN_EVENT_BIT_SET(PEnableBits, 2)"]);
}

#[test]
fn a_text_of_length_zero_ends_with_nul() {
    let text = header(
        "",
        "<templates><template tid=\"T\"><data name=\"n\" inType=\"win:UInt8\"/>\
         <data name=\"one\" inType=\"win:UnicodeString\" length=\"0\"/>\
         <data name=\"two\" inType=\"win:AnsiString\" length=\"0\" count=\"2\"/>\
         <data name=\"three\" inType=\"win:UnicodeString\" length=\"2\" count=\"n\"/>\
         <data name=\"four\" inType=\"win:Binary\" length=\"n\" count=\"3\"/></template></templates>\
         <events><event value=\"1\" symbol=\"E\" template=\"T\"/></events>",
    );
    check(&text, &["#define EventWriteE(n, one, two_Len_, two, three, four) "]);
    check(&text, &["McTemplateU0uzSRZ2r0B3r0_etw("]);
}

#[test]
fn fields_of_one_name_in_c_are_different_parameters() {
    let text = header(
        "",
        "<templates><template tid=\"T\"><data name=\"a b\" inType=\"w:Int8\"/><data name=\"a-b\" inType=\"w:Int8\"/>\
         <data name=\"a_b_2\" inType=\"w:Int8\"/><data name=\"pContext\" inType=\"w:Int8\"/></template></templates>\
         <events><event value=\"1\" symbol=\"E\" template=\"T\"/></events>",
    );
    check(&text, &["EventWriteE(a_b, a_b_2, a_b_2_2, pContext_2) "]);
    check(&text, &["EventWriteE_ForContext(pContext, a_b, a_b_2, a_b_2_2, pContext_2) "]);
    let manifest = manifest(
        "",
        "<templates><template tid=\"T\"><data name=\"Activity\" inType=\"w:Int8\"/></template></templates>\
         <events><event value=\"1\" symbol=\"E\" template=\"T\"/></events>",
    );
    let of = |code| header::write(&manifest, &Options { code, ..Options::default() });
    check(&of(header::Code::User), &["EventWriteE(Activity) "]);
    check(&of(header::Code::Kernel), &["EventWriteE(Activity_2, Activity) "]);
}

#[test]
fn a_bit_map_may_name_the_value_zero() {
    let text = header(
        "",
        "<maps><bitMap name=\"B\" symbol=\"B\"><map value=\"0x0\" symbol=\"_NONE\" message=\"$(string.m)\"/>\
         <map value=\"0x80000000\" symbol=\"_TOP\" message=\"$(string.m)\"/></bitMap></maps>",
    );
    check(&text, &["B_NONE = 0,", "B_TOP = -2147483648,", "#ifndef _B_def"]);
}

#[test]
fn any_prefix_may_stand_for_the_namespace_of_predefined_names() {
    let manifest = manifest(
        "",
        "<templates><template tid=\"T\"><data name=\"n\" inType=\"w:UInt8\" outType=\"x:unsignedByte\"/></template></templates>\
         <events><event value=\"1\" symbol=\"E\" level=\"w:Error\" opcode=\"w:Start\" keywords=\"w:ResponseTime\" template=\"T\"/></events>",
    );
    check(
        &header::write(&manifest, &Options::default()),
        &["E = {0x1, 0x0, 0x0, 0x2, 0x1, 0x0, 0x1000000000000};"],
    );
    // The message of a predefined level has the same id in all providers.
    let table = messages::table(&MessageIds::new(&manifest), None);
    let level = 0x5000_0002u32.to_le_bytes();
    assert!(table.windows(4).any(|bytes| bytes == level));
}

/// The offset of a signature in a resource.
fn at(resource: &[u8], signature: &[u8; 4]) -> Option<usize> {
    resource.windows(4).position(|bytes| bytes == signature)
}

fn u32_at(resource: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(resource[at..at + 4].try_into().unwrap())
}

fn text_at(resource: &[u8], at: u32) -> String {
    let at = at as usize;
    let units = resource[at + 4..].chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    char::decode_utf16(units.take_while(|unit| *unit != 0)).map(Result::unwrap).collect()
}

#[test]
fn a_resource_holds_pattern_maps_and_filters_in_the_order_of_the_text() {
    let resource = wevt::write(
        &manifest(
            "",
            "<templates><template tid=\"T\"><data name=\"n\" inType=\"win:UInt8\"/></template></templates>\
             <filters><filter name=\"Late\" value=\"9\" version=\"1\"/><filter name=\"Early\" value=\"3\" tid=\"T\"/></filters>\
             <namedQueries><patternMaps><patternMap name=\"First\" format=\"f\"><map name=\"n1\" value=\"v1\"/></patternMap>\
             <patternMap name=\"Second\" format=\"g\"/></patternMaps></namedQueries>",
        ),
        Version::V5,
    );
    let filters = at(&resource, b"FLTR").unwrap();
    assert_eq!(resource[filters + 16], 9);
    assert_eq!(text_at(&resource, u32_at(&resource, filters + 24)), "Late");
    let template = at(&resource, b"TEMP").unwrap() as u32;
    assert_eq!(u32_at(&resource, filters + 12), template);
    assert_eq!(u32_at(&resource, filters + 44), template);
    let maps = at(&resource, b"QTAB").unwrap();
    assert_eq!(u32_at(&resource, maps + 8), 2);
    let first = u32_at(&resource, maps + 12) as usize;
    assert_eq!(&resource[first..first + 4], b"QUER");
    let texts: Vec<String> = [8, 12, 20, 24]
        .iter()
        .map(|offset| text_at(&resource, u32_at(&resource, first + offset)))
        .collect();
    assert_eq!(texts, ["First", "f", "n1", "v1"]);
    assert!(at(&resource, b"EVNT").is_none(), "a provider without events has no list of them");
    let parsed = etw_decode::wevt::parse(&resource, &Default::default()).unwrap();
    assert_eq!(parsed.providers.len(), 1);
}

#[test]
fn a_count_of_one_and_the_name_of_a_template_are_in_the_resource() {
    let with = |data: &str| {
        let content = format!("<templates><template tid=\"T\" {data}</template></templates>");
        wevt::write(&manifest("", &content), Version::V5)
    };
    let plain = with("><data name=\"n\" inType=\"win:UInt8\"/>");
    let counted = with("><data name=\"n\" inType=\"win:UInt8\" count=\"1\"/>");
    let template = at(&plain, b"TEMP").unwrap();
    let field = u32_at(&plain, template + 16) as usize;
    assert_eq!((u32_at(&plain, field), u32_at(&counted, field)), (0, 8));
    assert_eq!(u32_at(&counted, field + 12), 1);
    // The type in the XML differs, and with it the GUID.
    assert_ne!(plain[template + 24..template + 40], counted[template + 24..template + 40]);
    let named = with("name=\"Shop\"><data name=\"n\" inType=\"win:UInt8\"/>");
    let name: Vec<u8> = "Shop".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(named.windows(name.len()).any(|bytes| bytes == name));
}

#[test]
fn tasks_with_a_guid_of_zeros_have_none() {
    let task = |name: &str, value: u8, guid: &str| {
        format!("<task name=\"{name}\" value=\"{value}\" eventGUID=\"{guid}\"/>")
    };
    let zeros = "{00000000-0000-0000-0000-000000000000}";
    let tasks = task("One", 1, zeros)
        + &task("Two", 2, zeros)
        + &task("Three", 3, "{0a0b0c0d-0102-0304-0506-070809101112}");
    let text = header("", &format!("<tasks>{tasks}</tasks>"));
    assert!(!text.contains("OneId") && !text.contains("TwoId"), "{text}");
    check(&text, &["const GUID ThreeId"]);
}

#[test]
fn a_message_table_gives_messages_their_ids() {
    let text = "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">\
        <instrumentation><events><messageTable><message value=\"0x40000005\" symbol=\"STARTED\" message=\"$(string.m)\"/>\
        <message value=\"9\" mid=\"Unused\" message=\"$(string.n)\"/></messageTable>\
        <provider name=\"P\" guid=\"{0a0b0c0d-0102-0304-0506-0708090a0b0c}\" symbol=\"S\" resourceFileName=\"p\">\
        <events><event value=\"1\" message=\"$(string.m)\"/><event value=\"2\" message=\"$(mc.STARTED)\"/>\
        <event value=\"3\" message=\"$(string.o)\"/></events></provider></events></instrumentation>\
        <localization><resources culture=\"en-US\"><stringTable><string id=\"m\" value=\"M\"/><string id=\"n\" value=\"N\"/>\
        <string id=\"o\" value=\"O\"/></stringTable></resources></localization></instrumentationManifest>";
    let manifest = Manifest::parse(text.as_bytes()).unwrap();
    let ids = MessageIds::new(&manifest);
    let strings: Vec<_> = ids.strings().collect();
    assert_eq!(strings, [("n", 9), ("m", 0x4000_0005), ("o", 0xb000_0003)]);
    let text = header::write(&manifest, &Options::default());
    check(&text, &["#define MSG_m 0x40000005L", "#define STARTED 0x40000005L"]);
    let resource = wevt::write(&manifest, Version::V5);
    let events = at(&resource, b"EVNT").unwrap();
    assert_eq!([0, 48].map(|event| u32_at(&resource, events + 16 + event + 16)), [0x4000_0005; 2]);
}
