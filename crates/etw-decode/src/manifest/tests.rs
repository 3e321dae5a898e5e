//! Manifests, sloppy ones and damaged ones.

use super::*;
use crate::field::{Count, Kind, Length};

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
    assert_eq!(provider.keywords, [(0x10, "Disk".to_owned())]);
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

#[test]
fn encodings() {
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
