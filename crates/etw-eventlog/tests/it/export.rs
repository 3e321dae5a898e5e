//! Events of traces as records of event logs: each value keeps its type and its place.

use etw_decode::{Catalog, Decoder};
use etw_etl::read::Records;
use etw_eventlog::trace::open;
use etw_eventlog::trace_copy::TraceCopy;
use etw_evtx::fields::FieldContent;
use etw_evtx::value::{Scalar, ValueType};
use etw_evtx::{Log, Record};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder, provider_traits};
use etw_types::{EventRecord, ExtType, ExtendedItemsBuf, FileTime, Guid, HeaderType};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

const PROVIDER: &str = "OpenEtw.Test";

fn manifest() -> String {
    let guid = Guid::from_name(PROVIDER);
    format!(
        "<m><provider name='{PROVIDER}' guid='{{{guid}}}'><templates>\
         <template tid='Codes'>\
         <data name='Nt' inType='win:UInt32' outType='win:NTSTATUS'/>\
         <data name='Win32' inType='win:UInt32' outType='win:Win32Error'/>\
         <data name='Com' inType='win:UInt32' outType='win:HResult'/>\
         <data name='Signed' inType='win:Int32' outType='win:HResult'/>\
         </template>\
         <template tid='Blobs'>\
         <data name='Before' inType='win:UInt8'/>\
         <data name='Blob' inType='win:Binary' length='2' count='3'/>\
         <data name='Words' inType='win:UInt16' count='2'/>\
         <data name='Texts' inType='win:UnicodeString' count='2'/>\
         </template></templates>\
         <events><event value='1' version='0' symbol='Codes' template='Codes'/>\
         <event value='2' version='0' symbol='Blobs' template='Blobs'/></events></provider></m>"
    )
}

fn event(id: u16, payload: &[u8]) -> EventRecord<'_> {
    let mut event = EventRecord::new(HeaderType::Event64, payload);
    event.provider = Some(Guid::from_name(PROVIDER));
    event.descriptor.id = id;
    event
}

/// The file of a log with these events.
fn log(name: &str, events: &[EventRecord<'_>]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("export_{name}.evtx"));
    let _ = fs::remove_file(&path);
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let mut catalog = Catalog::default();
    catalog.add_manifest(manifest().as_bytes()).unwrap();
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let mut copy = TraceCopy::new(file).unwrap();
    for (event, number) in events.iter().zip(1..) {
        copy.push(event, &decoder.decode(event), FileTime(133_000_000_000_000_000 + number))
            .unwrap();
    }
    assert_eq!(copy.cut(), 0);
    copy.close().unwrap();
    path
}

/// The findings of `of` in each record.
fn each<R>(path: &PathBuf, of: impl Fn(&Record<'_>) -> R) -> Vec<R> {
    let log = Log::open(path).unwrap();
    let mut records = log.records();
    let mut all = Vec::new();
    while let Some(record) = records.next().unwrap() {
        all.push(of(&record));
    }
    assert_eq!(records.damage(), []);
    all
}

fn xml(path: &PathBuf) -> Vec<String> {
    each(path, |record| record.to_xml().unwrap())
}

#[test]
fn each_event_without_a_schema_has_its_own_reason() {
    let manifest_missing = event(77, &[1, 2]);
    let mut unknown = event(5, &[3]);
    unknown.provider = Some(Guid::from_name("OpenEtw.Unknown"));
    // Its first field needs four bytes.
    let short = event(1, &[9]);
    let path = log("reasons", &[manifest_missing, unknown, short, manifest_missing]);
    let texts = xml(&path);
    let reason = |text: &str| {
        let (_, rest) = text.split_once("<DataItemName>").unwrap();
        rest.split_once("</DataItemName>").unwrap().0.to_owned()
    };
    let reasons: Vec<String> = texts.iter().map(|text| reason(text)).collect();
    assert!(reasons[0].contains("no event of this id"), "{reasons:?}");
    assert!(reasons[1].contains("manifest") && reasons[1] != reasons[0], "{reasons:?}");
    assert!(reasons[2].contains("does not fit the schema"), "{reasons:?}");
    assert_eq!(reasons[3], reasons[0]);
    for (text, payload) in texts.iter().zip(["0102", "03", "09", "0102"]) {
        assert!(text.contains(&format!("<EventPayload>{payload}</EventPayload>")), "{text}");
        assert!(text.contains("<ErrorCode>15003</ErrorCode>"), "{text}");
    }
}

#[test]
fn status_codes_keep_the_sign_of_their_type() {
    let codes = [0xc000_0142_u32, 0x8000_0005, 0x8007_0005, 0x8007_0005];
    let payload: Vec<u8> = codes.into_iter().flat_map(u32::to_le_bytes).collect();
    let path = log("codes", &[event(1, &payload)]);
    let values = each(&path, |record| {
        let fields = record.fields().unwrap();
        let value = |content: &FieldContent<'_>| match content {
            FieldContent::Value(value) => match value.scalar().unwrap() {
                Scalar::Unsigned(number) => (value.value_type, i64::try_from(number).unwrap()),
                Scalar::Signed(number) => (value.value_type, number),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        fields.iter().map(|field| value(&field.content)).collect::<Vec<_>>()
    });
    let unsigned = |number: u32| (ValueType::UINT32, i64::from(number));
    let expected = [
        unsigned(codes[0]),
        unsigned(codes[1]),
        unsigned(codes[2]),
        (ValueType::INT32, i64::from(codes[3] as i32)),
    ];
    assert_eq!(values, [expected]);
}

#[test]
fn binary_values_of_an_array_stay_apart() {
    let mut payload = vec![7, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32, 1, 0, 2, 0];
    payload.extend("ab\0c\0".encode_utf16().flat_map(u16::to_le_bytes));
    let path = log("blobs", &[event(2, &payload)]);
    let expected = "<EventData><Data Name='Before'>7</Data>\
                    <Data Name='Blob'>1112</Data><Data Name='Blob'>2122</Data>\
                    <Data Name='Blob'>3132</Data>\
                    <Data Name='Words'>1</Data><Data Name='Words'>2</Data>\
                    <Data Name='Texts'>ab</Data><Data Name='Texts'>c</Data></EventData>";
    let text = &xml(&path)[0];
    assert!(text.contains(expected), "{text}");
}

/// The metadata of an event with a number, or with texts that may have NULs.
fn metadata(name: &str, counted: bool) -> Vec<u8> {
    let metadata = MetadataBuilder::new(name, 0);
    let plain = OutType::NULL;
    match counted {
        false => metadata.field("Number", InType::UINT8, plain, Count::Scalar, 0),
        true => metadata.field("Texts", InType::COUNTEDSTRING, plain, Count::Fixed(2), 0),
    }
    .finish()
    .unwrap()
}

#[test]
fn names_of_tracelogging_events_are_kept() {
    let traits = provider_traits("OpenEtw.Names", None).unwrap();
    let blobs = [metadata("Opened", false), metadata("Closed", false), metadata("Texts", true)];
    let items: Vec<ExtendedItemsBuf> = blobs
        .iter()
        .map(|blob| {
            let items = [(ExtType::PROV_TRAITS, &traits[..]), (ExtType::EVENT_SCHEMA_TL, blob)];
            ExtendedItemsBuf::from_items(&items).unwrap()
        })
        .collect();
    let texts = PayloadBuilder::new()
        .counted_utf16("a\0b".encode_utf16())
        .counted_utf16("c".encode_utf16())
        .finish()
        .unwrap();
    let events: Vec<EventRecord<'_>> = [&[1][..], &[2], &texts]
        .iter()
        .zip(&items)
        .map(|(payload, items)| {
            let mut event = event(0, payload);
            event.descriptor.channel.0 = 11;
            event.extended = items.as_items();
            event
        })
        .collect();
    let path = log("names", &events);
    let texts = xml(&path);
    for (text, data) in texts.iter().zip([
        "<EventData Name='Opened'><Data Name='Number'>1</Data></EventData>",
        "<EventData Name='Closed'><Data Name='Number'>2</Data></EventData>",
    ]) {
        assert!(text.contains(data), "{text}");
    }
    // A NUL does not split a text of an array.
    assert_eq!(texts[2].matches("<Data Name='Texts'>").count(), 2, "{}", texts[2]);
    assert_eq!(each(&path, |record| record.data_name())[1].as_deref(), Some("Closed"));
    // A reader of traces finds the names, and a log that is made of that trace has them again.
    let trace = open(&path).unwrap();
    let mut records = Records::new(vec![trace]);
    let mut decoder = Decoder::new();
    let mut names = Vec::new();
    while let Some(event) = records.next() {
        let decoded = decoder.decode(&event);
        names.push(decoded.event_name().unwrap_or_default().to_owned());
    }
    assert_eq!(names, ["Opened", "Closed", "Texts"]);
}

/// An event with more fields than a record has room for is stored with its payload.
#[test]
fn fields_beyond_the_limit_do_not_vanish() {
    let many = MetadataBuilder::new("Many", 0)
        .structure("Item", 1, Count::Fixed(5000), 0)
        .field("Byte", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    let items = ExtendedItemsBuf::from_items(&[(ExtType::EVENT_SCHEMA_TL, &many[..])]).unwrap();
    let payload = vec![0xab; 5000];
    let mut one = event(0, &payload);
    one.extended = items.as_items();
    let text = &xml(&log("many", &[one]))[0];
    assert!(text.contains("<DataItemName>too many fields for a record</DataItemName>"), "{text}");
    assert!(text.contains(&"AB".repeat(5000)), "{text}");
}
