//! Manifests, sloppy ones and damaged ones.

use super::*;
use crate::field::{Count, Kind, Length};
use crate::provider::KeywordName;
use etw_tracelogging::Wire;
use etw_types::Keyword;

const SMALL: &str = r#"<?xml version="1.0"?>
<m:instrumentationManifest xmlns:m="http://schemas.microsoft.com/win/2004/08/events">
 <instrumentation><events>
  <provider name="Maker-Product" guid="{11111111-2222-3333-4444-555555555555}" symbol="P">
   <channels><importChannel chid="C1" name="Application"/></channels>
   <tasks><task name="Job" value="3" message="$(string.job)"><opcodes><opcode name="Own" value="11"/></opcodes></task></tasks>
   <opcodes><opcode name="Own" value="12" message="the provider's"/></opcodes>
   <keywords><keyword name="Disk" mask="0x10" message="$(string.gone)"/></keywords>
   <maps><valueMap name="V"><map value="1" message="$(string.one)"/><map value="x" message="?"/></valueMap>
    <bitMap name="B"><map value="0x2" message="two "/></bitMap></maps>
   <templates>
    <template tid="T"><data name="n" inType="win:UInt16"/><data name="text" inType="win:UnicodeString" length="n"/>
     <struct name="s" count="n"><data name="m" inType="win:UInt8" map="V"/><data name="b" inType="win:Binary" length="m"/></struct>
     <data name="flags" inType="win:UInt32" outType="win:HexInt32" map="B"/></template>
    <template tid="Bad"><data name="x" inType="win:Strange"/></template>
   </templates>
   <events>
    <event value="7" version="2" template="T" task="Job" opcode="Own" level="win:Error" channel="C1" keywords="Disk win:WDIDiag"
      message="$(string.text)" symbol="SYM"/>
    <event value="7" version="2"/><event value="8" template="Bad"/><event value="9" symbol="Nine"/><event/>
   </events>
  </provider>
 </events></instrumentation>
 <localization>
  <resources culture="de-DE"><stringTable><string id="job" value="Arbeit"/><string id="one" value="eins"/></stringTable></resources>
  <resources culture="en-US"><stringTable><string id="job" value="Work"/><string id="text" value="%1 of %2 &amp; %3"/></stringTable></resources>
 </localization>
</m:instrumentationManifest>"#;

#[test]
fn mistakes_in_a_manifest_cost_no_more_than_themselves() {
    let manifest = parse(SMALL.as_bytes()).unwrap();
    let [provider] = &manifest.providers[..] else { panic!() };
    assert_eq!((provider.name.as_str(), provider.events.len()), ("Maker-Product", 3));
    let disk = KeywordName { mask: Keyword(0x10), name: "Disk".to_owned() };
    assert_eq!(provider.keywords, [disk]);
    let schema = &provider.events[&(7, 2)];
    let names = &schema.names;
    assert_eq!(names.event.as_deref(), Some("Work/Own"));
    assert_eq!(names.level.as_deref(), Some("Error"));
    assert_eq!(names.channel.as_deref(), Some("Application"));
    assert_eq!(names.keywords, ["Disk", "win:WDIDiag"]);
    assert_eq!(schema.top_level, 4);
    let fields: Vec<_> = schema.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(fields, ["n", "text", "s", "flags", "m", "b"]);
    assert_eq!(schema.fields[1].length, Length::Field(0));
    assert_eq!(schema.fields[2].kind, Kind::Struct { first: 4, count: 2 });
    assert_eq!(schema.fields[2].count, Count::Field(0));
    assert_eq!(schema.fields[5].length, Length::Field(4));
    assert_eq!(schema.fields[4].map.as_ref().unwrap().name_of(1).unwrap(), "eins");
    assert_eq!(schema.fields[3].map.as_ref().unwrap().name_of(2).unwrap(), "two");
    let message = schema.message.as_ref().unwrap();
    assert_eq!(message.format(|n| Some(n.to_string())), "0 of 1 & 2");
    assert_eq!(schema.language.as_deref(), Some("en-US"));
    let german = SMALL.replace("culture=\"en-US\"", "culture=\"de-AT\"");
    let german = parse(german.as_bytes()).unwrap();
    let language = |id| german.providers[0].events[&id].language.as_deref();
    assert_eq!((language((7, 2)), language((9, 0))), (Some("de-AT"), Some("de-DE")));
    assert_eq!(provider.events[&(9, 0)].names.event.as_deref(), Some("Nine"));
    let cut = &provider.events[&(8, 0)];
    assert_eq!(cut.fields.len(), 0);
    assert!(cut.incomplete.as_ref().unwrap().contains("Strange"));
    let descriptor = schema.descriptor.unwrap();
    assert_eq!((descriptor.level.0, descriptor.opcode.0, descriptor.task), (2, 11, 3));
    assert_eq!((descriptor.channel.0, descriptor.keyword.0), (9, 0x8004_0000_0000_0010));
    for what in ["Strange", "again", "\"Bad\"", "without a value"] {
        assert!(manifest.warnings.iter().any(|warning| warning.contains(what)), "{what}");
    }
}

/// Fields behind an unknown element of a template have no known place.
#[test]
fn an_unknown_element_costs_the_fields_behind_it_and_a_warning_names_it() {
    let text = r#"<m><provider name="Maker" guid="{11111111-2222-3333-4444-555555555555}"><templates>
        <template tid="T"><data name="a" inType="win:UInt32"/><dat name="b" inType="win:UInt8"/>
        <data name="c" inType="win:UInt32"/><UserData><X/></UserData></template>
        <template tid="U"><data name="a" inType="win:UInt32"/><UserData><X/></UserData></template></templates>
        <events><event value="1" template="T"/><event value="2" template="U"/></events></provider></m>"#;
    let manifest = parse(text.as_bytes()).unwrap();
    let events = &manifest.providers[0].events;
    assert_eq!((events[&(1, 0)].fields.len(), events[&(2, 0)].fields.len()), (1, 1));
    let expected = "Maker: template \"T\" is cut behind 1 fields: the element \"dat\" is not known";
    assert_eq!(manifest.warnings, [expected]);
}

/// As PerfView regenerates a manifest: a struct of an array has the in-type whose number is that of its first member.
#[test]
fn a_struct_that_lost_its_members_is_not_read_as_texts() {
    let text = r#"<m><provider name="Maker" guid="{11111111-2222-3333-4444-555555555555}" source="Xml"><templates>
        <template tid="T"><data name="Count" inType="win:UInt32"/>
        <data name="Commit" inType="win:AnsiString" count="Count"/></template>
        <template tid="U"><data name="a" inType="win:CountedUtf16String"/><data name="b" inType="win:25"/></template></templates>
        <events><event value="1" template="T"/><event value="2" template="U"/></events></provider></m>"#;
    let mut catalog = crate::Catalog::default();
    let warnings = catalog.add_manifest(text.as_bytes()).unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].contains("\"Commit\" may be a struct"),
        "{warnings:?}"
    );
    let mut decoder = crate::Decoder::new();
    decoder.set_catalog(std::sync::Arc::new(catalog));
    let mut shown = |id: u16, payload: &[u8]| {
        let mut record = etw_types::EventRecord::new(etw_types::HeaderType::Event64, payload);
        record.provider = "11111111-2222-3333-4444-555555555555".parse().ok();
        record.descriptor.id = id;
        let decoded = decoder.decode(&record);
        let fields = decoded.fields_text(&record, &crate::Style::default()).unwrap();
        let visited = decoded.visit_part(&record, &mut ()).unwrap();
        let reason = visited.reason.map(|reason| reason.to_string());
        (fields.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), visited.rest.len(), reason)
    };
    // Two structs of a number and a pointer; then two texts, which are what the manifest says.
    let structs = [&2u32.to_le_bytes()[..], &[7; 24]].concat();
    let (fields, rest, reason) = shown(1, &structs);
    assert_eq!((&fields[..], rest), (&["2".to_owned()][..], 24));
    assert!(reason.unwrap().contains("\"Commit\""));
    let (fields, rest, _) = shown(1, b"\x02\0\0\0one\0two\0");
    assert!(fields[1].contains("one") && fields[1].contains("two") && rest == 0, "{fields:?}");
    let (fields, rest, _) = shown(2, &[4, 0, b'h', 0, b'i', 0, 2, 0, 9, 8]);
    assert_eq!((&*fields[0], rest), ("hi", 0));
}

#[test]
fn a_hexadecimal_status_has_the_name_of_its_code() {
    let text = r#"<m><provider name="Maker" guid="{11111111-2222-3333-4444-555555555555}"><templates>
        <template tid="T"><data name="n" inType="win:HexInt32" outType="win:NTSTATUS"/>
        <data name="w" inType="win:HexInt32" outType="win:Win32Error"/>
        <data name="h" inType="win:HexInt32" outType="win:HResult"/>
        <data name="x" inType="win:HexInt32"/></template></templates>
        <events><event value="1" template="T" message="%1 %2"/></events></provider></m>"#;
    let mut catalog = crate::Catalog::default();
    assert_eq!(catalog.add_manifest(text.as_bytes()).unwrap(), [""; 0]);
    let mut decoder = crate::Decoder::new();
    decoder.set_catalog(std::sync::Arc::new(catalog));
    let payload = [0xc000_0022u32, 5, 0x8000_4005, 5].map(u32::to_le_bytes).concat();
    let mut record = etw_types::EventRecord::new(etw_types::HeaderType::Event64, &payload);
    record.provider = "11111111-2222-3333-4444-555555555555".parse().ok();
    record.descriptor.id = 1;
    let decoded = decoder.decode(&record);
    let fields = decoded.fields_text(&record, &crate::Style::default()).unwrap();
    let texts: Vec<_> = fields.iter().map(|(_, text)| text.as_str()).collect();
    let wanted =
        ["0xc0000022(STATUS_ACCESS_DENIED)", "5(ERROR_ACCESS_DENIED)", "0x80004005(E_FAIL)", "0x5"];
    assert_eq!(texts, wanted);
    let message = decoded.message(&record, &crate::Style::default()).unwrap();
    assert_eq!(message, "0xc0000022(STATUS_ACCESS_DENIED) 5(ERROR_ACCESS_DENIED)");
}

/// Ids of a classic event source, as WEPExplorer and PerfView list them.
#[test]
fn an_id_with_a_severity_is_that_of_its_lower_word() {
    let text = r#"<m><provider name="Maker" guid="{11111111-2222-3333-4444-555555555555}"><events>
        <event value="1073742896" message="low"/></events></provider></m>"#;
    let manifest = parse(text.as_bytes()).unwrap();
    assert!(manifest.providers[0].events.contains_key(&(1072, 0)) && manifest.warnings.is_empty());
}

#[test]
fn manifests_are_read_in_every_encoding() {
    let wide = |mark: &[u8], to_bytes: fn(u16) -> [u8; 2]| {
        [mark, &SMALL.encode_utf16().flat_map(to_bytes).collect::<Vec<_>>()].concat()
    };
    let expected = parse(SMALL.as_bytes()).unwrap().providers[0].events.len();
    for bytes in [
        wide(&[0xff, 0xfe], u16::to_le_bytes),
        wide(&[0xfe, 0xff], u16::to_be_bytes),
        wide(&[], u16::to_le_bytes),
        [&[0xef, 0xbb, 0xbf], SMALL.as_bytes()].concat(),
    ] {
        assert_eq!(parse(&bytes).unwrap().providers[0].events.len(), expected);
    }
}

/// Cut anywhere, it is read as far as it goes, or refused with a reason.
#[test]
fn cut_manifests_give_an_error_or_what_is_left() {
    for end in 0..SMALL.len() {
        match parse(&SMALL.as_bytes()[..end]) {
            Ok(manifest) => assert!(!manifest.providers.is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert_eq!(parse(b"<a><b></a>").unwrap_err(), ManifestError::NoProvider);
    // Deeper than any stack.
    let deep = "<provider>".repeat(500_000);
    assert!(parse(deep.as_bytes()).is_err());
}

/// A template that many events share is not copied without end.
#[test]
fn malicious_templates_are_bounded() {
    let data = "<data name='x' inType='win:UInt8'/>".repeat(10_000);
    let events: String =
        (0..20_000).map(|n| format!("<event value='{n}' template='t'/>")).collect();
    let text = format!(
        "<m><provider name='p' guid='{{11111111-2222-3333-4444-555555555555}}'><templates><template tid='t'>{data}</template></templates>\
         <events>{events}</events></provider></m>"
    );
    let manifest = parse_within(text.as_bytes(), 8 << 20).unwrap();
    assert!((1..20).contains(&manifest.providers[0].events.len()));
    assert!(manifest.size < 16 << 20 && !manifest.warnings.is_empty());
}

/// Two events of a provider, as WEPExplorer writes them.
pub(crate) const WEP: &str = r#"<Providers><Provider><Name>Maker &amp; Sons</Name>
 <Metadata><Guid>{11111111-2222-3333-4444-555555555555}</Guid>
  <Channels><Channel><Message></Message><Path>Maker/Debug</Path><Index>1</Index><Id>17</Id></Channel>
   <Channel><Message/><Path>Maker/Analytic</Path><Index>0</Index><Id>16</Id></Channel></Channels>
  <Levels><Level><Message>Information</Message><Name>win:Informational</Name><Value>4</Value></Level></Levels>
  <Tasks><Task><Message></Message><Name>None</Name><Value>0</Value></Task>
   <Task><Message>Work</Message><Name>JOB</Name><Value>10</Value></Task></Tasks>
  <Opcodes><Opcode><Message>Sent.</Message><Name>A</Name><Value>11</Value><Task>0</Task></Opcode>
   <Opcode><Message>Sent.</Message><Name>B</Name><Value>12</Value><Task>10</Task></Opcode></Opcodes>
  <Keywords><Keyword><Message>Slow disk</Message><Name>SLOW</Name><Value>16</Value></Keyword>
   <Keyword><Message></Message><Name>Slow</Name><Value>281474976710656</Value></Keyword></Keywords></Metadata>
 <EventMetadata>
  <Event><Id>10</Id><Version>1</Version><Channel>Maker/Debug</Channel><Level>Information</Level><Task>Work</Task>
   <Opcode>Sent.</Opcode><Keyword>Slow disk Slow</Keyword><Message><![CDATA[
%2 bytes of %1 & more]]></Message><Template><![CDATA[
<template xmlns="http://schemas.microsoft.com/win/2004/08/events">
 <data name="size" inType="win:UInt32" outType="xs:unsignedInt"/><data name="kind" inType="win:UInt8" map="Kinds"/>
 <data name="name" inType="win:UnicodeString" length="size"/>
 <struct name="s" count="2"><data name="m" inType="win:Port"/><data name="n" inType="win:UInt16"/></struct></template>]]></Template></Event>
  <Event><Id>11</Id><Version>0</Version><Channel>Maker/Analytic</Channel><Level>Other</Level><Task></Task><Opcode>Sent.</Opcode>
   <Template><![CDATA[<template><data name="a" inType="win:UInt8"/><data]]></Template></Event>
  <Event><Id>many</Id></Event>
 </EventMetadata></Provider></Providers>"#;

/// `outType` names do not matter here; `win:Port` is no in-type, so the struct and what follows are left out.
#[test]
fn a_wepexplorer_file_gives_the_events_of_its_provider() {
    let manifest = parse(WEP.as_bytes()).unwrap();
    let [provider] = &manifest.providers[..] else { panic!() };
    assert_eq!((provider.name.as_str(), provider.events.len()), ("Maker & Sons", 2));
    assert_eq!(provider.guid, "11111111-2222-3333-4444-555555555555".parse().unwrap());
    let keyword = |mask, name: &str| KeywordName { mask: Keyword(mask), name: name.to_owned() };
    assert_eq!(provider.keywords, [keyword(0x10, "Slow disk"), keyword(1 << 48, "Slow")]);
    assert_eq!(provider.channels[1].name, "Maker/Debug");
    let schema = &provider.events[&(10, 1)];
    assert_eq!(schema.names.event.as_deref(), Some("Work/Sent."));
    assert_eq!(schema.names.level.as_deref(), Some("Information"));
    assert_eq!(schema.names.keywords, ["Slow disk", "Slow"]);
    let descriptor = schema.descriptor.unwrap();
    assert_eq!((descriptor.opcode.0, descriptor.task, descriptor.channel.0), (12, 10, 17));
    // The channel with index 1 has bit 62.
    assert_eq!(descriptor.keyword.0, 1 << 62 | 1 << 48 | 0x10);
    assert_eq!(schema.message.as_ref().unwrap().template(), "%2 bytes of %1 & more");
    let fields: Vec<_> = schema.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(fields, ["size", "kind", "name"]);
    assert_eq!(schema.fields[2].length, Length::Field(0));
    assert!(schema.incomplete.as_deref().unwrap().contains("win:Port"), "{:?}", schema.incomplete);
    let other = &provider.events[&(11, 0)];
    assert_eq!(other.descriptor.unwrap().opcode.0, 11, "the provider's own opcode");
    assert_eq!(other.fields.len(), 1);
    let warned = |text: &str| manifest.warnings.iter().any(|warning| warning.contains(text));
    assert!(warned("1 fields have maps"), "{:?}", manifest.warnings);
    assert!(warned("the template of event 11 version 0 is cut"), "{:?}", manifest.warnings);
    let other = WEP.replace("[<template><data", "[<other><data");
    let manifest = parse(other.as_bytes()).unwrap();
    assert_eq!(manifest.providers[0].events[&(10, 1)].fields.len(), 3);
    let warned = |text: &str| manifest.warnings.iter().any(|warning| warning.contains(text));
    let left_out = "the template of event 11 version 0 is left out";
    assert!(warned(left_out), "{:?}", manifest.warnings);
}

/// A public collection's file, where it is found beside the project.
#[test]
fn a_public_wepexplorer_file_decodes() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/corpus/wep/Microsoft-Windows-Kernel-Network.excerpt.xml"
    );
    let Ok(text) = std::fs::read(path) else {
        eprintln!("skipped: {path} is not there");
        return;
    };
    let manifest = parse(&text).unwrap();
    assert_eq!(manifest.warnings, [""; 0]);
    let events = &manifest.providers[0].events;
    assert_eq!(events.len(), 2);
    let sent = &events[&(10, 0)];
    assert_eq!(sent.names.event.as_deref(), Some("KERNEL_NETWORK_TASK_TCPIP/Data sent."));
    let fields = [
        "PID", "size", "daddr", "saddr", "dport", "sport", "startime", "endtime", "seqnum",
        "connid",
    ];
    assert_eq!(sent.fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(), fields);
    assert_eq!(
        events[&(17, 0)].names.keywords,
        ["KERNEL_NETWORK_KEYWORD_IPV4", "KERNEL_NETWORK_KEYWORD_IPV6"]
    );
}

/// As `mc` compiles them: `binary` without a type, a length of zero, and `binary` in a struct.
#[test]
fn fields_that_a_manifest_leaves_open_have_the_types_that_mc_gives_them() {
    let text = r#"<m><provider name="Maker" guid="{11111111-2222-3333-4444-555555555555}"><templates>
        <template tid="T"><data name="n" inType="win:UInt8"/><binary name="b" length="n"/>
        <data name="t" inType="win:UnicodeString" length="0"/>
        <struct name="s"><data name="m" inType="win:UInt8"/><binary name="c" length="2"/></struct></template>
        <template tid="U"><data name="n" inType="win:UInt8"/>
        <struct name="s"><data name="m" inType="win:UInt8"/><dat name="c"/></struct></template></templates>
        <events><event value="1" template="T"/><event value="2" template="U"/></events></provider></m>"#;
    let manifest = parse(text.as_bytes()).unwrap();
    let events = &manifest.providers[0].events;
    let fields = &events[&(1, 0)].fields;
    let wire = |index: usize| match &fields[index].kind {
        Kind::Scalar { wire, .. } => *wire,
        other => panic!("{other:?}"),
    };
    assert_eq!((fields.len(), wire(1), fields[1].length), (6, Wire::Binary, Length::Field(0)));
    assert_eq!((wire(2), fields[2].length), (Wire::Utf16, Length::Own));
    assert_eq!((wire(5), fields[5].length), (Wire::Binary, Length::Fixed(2)));
    assert_eq!((events[&(1, 0)].incomplete.as_deref(), events[&(2, 0)].fields.len()), (None, 1));
    assert!(events[&(2, 0)].incomplete.as_ref().unwrap().contains("\"dat\" in a struct"));
}

#[test]
fn a_binary_without_a_length_gets_a_warning() {
    let warnings = |fields: &str| {
        let text = format!(
            "<m><provider name='Maker' guid='{{11111111-2222-3333-4444-555555555555}}'><templates><template tid='T'>{fields}</template></templates></provider></m>"
        );
        parse(text.as_bytes()).unwrap().warnings
    };
    let warned =
        warnings("<data name='b' inType='win:Binary'/><data name='n' inType='win:UInt8'/>");
    assert!(warned[0].contains("\"T\": the binary field \"b\" has no length"), "{warned:?}");
    for whole in [
        "<data name='b' inType='win:Binary' length='4'/>",
        "<data name='b' inType='win:Binary' outType='win:IPv6'/><data name='n' inType='win:UInt8'/>",
        "<data name='n' inType='win:UInt8'/><data name='b' inType='win:Binary' outType='win:SocketAddress'/>",
    ] {
        assert_eq!(warnings(whole), [""; 0]);
    }
}
