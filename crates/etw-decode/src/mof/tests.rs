//! Classes in, schemas out; damaged texts.

use super::*;
use crate::{Catalog, Decoder, Source, Style};
use etw_types::{EventRecord, HeaderType};
use std::sync::Arc;

const MOF: &str = r#"
#pragma namespace("\\\\.\\root\\wmi")
/* a provider */
[Dynamic, Description("x; }") : amended toinstance, Guid("{11111111-2222-3333-4444-555555555555}"), locale("MS\\0x409")]
class Maker : EventTrace { [Description("levels"), ValueDescriptions{"a","b"} : amended, ValueMap{"0x1"}] uint32 Flags; };
[Guid("{aaaaaaaa-2222-3333-4444-555555555555}"), EventVersion(2), DisplayName("Job") : amended]
class Job : Maker { };
[EventType{10, 11}, EventTypeName{"Begin", "End"}]
class Job_Type : Job
{
   [WmiDataId(2), read, Format("w"), StringTermination("NullTerminated")] string Name;
   [WmiDataId(1), Pointer] uint32 Address;
   [WmiDataId(3), Values{"No", "Yes"}, ValueType("index")] uint32 Answer;
   [WmiDataId(4), Format("x")] uint32 Mask;
   [WmiDataId(5), extension("IPAddr")] object Where;
   [WmiDataId(6), read] uint8 Count;
   [WmiDataId(7), WmiSizeIs("Count")] uint16 List[];
   [WmiDataId(8), MAX(3)] char16 Text[3];
};
[EventType(1)] class Alone { [WmiDataId(1)] uint8 X; };
"#;

#[test]
fn a_class_is_compiled_to_events_of_its_types() {
    let Parsed { value: events, warnings } = parse(MOF.as_bytes());
    assert_eq!(events.len(), 2, "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("Alone")), "{warnings:?}");
    let mut catalog = Catalog::default();
    catalog.add_mof(MOF.as_bytes());
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let payload = [
        &0x1234u32.to_le_bytes()[..],
        b"h\0i\0\0\0",
        &1u32.to_le_bytes(),
        &0xffu32.to_le_bytes(),
        &[10, 0, 0, 1, 2],
        &7u16.to_le_bytes(),
        &8u16.to_le_bytes(),
        b"a\0b\0\0\0",
    ]
    .concat();
    let mut record = EventRecord::new(HeaderType::Full32, &payload);
    record.provider = "aaaaaaaa-2222-3333-4444-555555555555".parse().ok();
    record.pointer_size = 4;
    record.descriptor.opcode.0 = 11;
    record.descriptor.version = 2;
    let decoded = decoder.decode(&record);
    assert_eq!(decoded.source(), Some(Source::Mof), "{:?}", decoded.reason());
    assert_eq!(decoded.event_name(), Some("Job/End"));
    let fields = decoded.fields_text(&record, &Style::default()).unwrap();
    let texts: Vec<_> = fields.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["0x1234", "hi", "Yes", "0xff", "10.0.0.1", "2", "[7, 8]", "ab"]);
}

/// Texts of a `ValueMap` that are no numbers, bits that no integer has, and arrays whose size is that of a property that is not there.
#[test]
fn what_a_class_does_not_say_is_not_guessed() {
    let of = |property: &str| {
        let text = format!(
            "[Guid(\"{{aaaaaaaa-2222-3333-4444-555555555555}}\"), EventVersion(2)] class Job : EventTrace {{ }};
             [EventType(1)] class Job_Type : Job {{ [WmiDataId(1), {property}] uint32 X; }};"
        );
        let mut parsed = parse(text.as_bytes());
        (parsed.value.pop(), parsed.warnings)
    };
    let names = |property: &str| {
        let (event, warnings) = of(property);
        let map = event.unwrap().schema.fields[0].map.clone();
        (map.map_or(Vec::new(), |map| map.entries.clone()), warnings)
    };
    let one = vec![(1, "one".to_owned())];
    let values = "Values{\"odd\", \"one\", \"low\", \"least\"}";
    let numbers = "ValueMap{\"..\", \"1\", \"-1\", \"--9223372036854775808\"}";
    assert_eq!(names(&format!("{values}, {numbers}")).0, one);
    let bits = "BitValues{\"one\", \"far\", \"low\"}, BitMap{\"0\", \"64\", \"-1\"}";
    assert_eq!(names(bits).0, one);
    let (event, warnings) = of("WmiSizeIs(\"Nothing\")");
    assert!(event.is_none() && warnings[0].contains("Job_Type.X"), "{warnings:?}");
}

#[test]
fn damaged_text_gives_warnings_and_ends() {
    for end in 0..MOF.len() {
        parse(&MOF.as_bytes()[..end]);
        parse(&MOF.as_bytes()[end..]);
    }
    let loops = "[EventType(1)] class A : B {}; class B : A {};";
    assert!(parse(loops.as_bytes()).value.is_empty());
    parse("[".repeat(100_000).as_bytes());
    parse("class A { [x{{{{".repeat(1000).as_bytes());
}
