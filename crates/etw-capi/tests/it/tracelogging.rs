//! `TraceLoggingProvider.h` from C and C++.

use std::process::Command;

use etw_etl::read::{Records, TraceFile};
use etw_types::Guid;

use crate::support::*;

/// An event of a C program, decoded.
pub struct Event {
    name: String,
    metadata: Vec<u8>,
    payload: Vec<u8>,
    level: u8,
    opcode: u8,
    keyword: u64,
    pub ids: (Guid, Option<Guid>),
    traits: Vec<u8>,
    pub fields: String,
}

struct Text(String);

impl etw_decode::Visitor for Text {
    fn value(&mut self, field: &etw_decode::Field, value: etw_decode::Value<'_>) {
        let mut text = Vec::new();
        value.write_text(&mut text, &etw_decode::Style::default());
        self.0 += &format!("{}={} ", field.name, String::from_utf8_lossy(&text));
    }
    fn begin_array(&mut self, field: &etw_decode::Field, count: usize) {
        self.0 += &format!("{}[{count}] ", field.name);
    }
    fn end_array(&mut self, _: &etw_decode::Field) {}
    fn begin_struct(&mut self, field: &etw_decode::Field) {
        self.0 += &format!("{}{{ ", field.name);
    }
    fn end_struct(&mut self, _: &etw_decode::Field) {
        self.0 += "} ";
    }
}

/// The events of a program, without those of its session.
pub fn read(out: &std::path::Path) -> Vec<Event> {
    let mut records = Records::new(vec![TraceFile::open(out).unwrap()]);
    let mut decoder = etw_decode::Decoder::new();
    let mut events = Vec::new();
    while let Some(record) = records.next() {
        let item = |wanted: u16| {
            let mut items = record.extended.into_iter();
            items.find(|i| i.ext_type.0 == wanted).map(|i| i.data.to_vec()).unwrap_or_default()
        };
        if record.hook.is_some() || item(12).starts_with(b"\x11\0OpenEtw.Session") {
            continue;
        }
        let decoded = decoder.decode(&record);
        let mut text = Text(String::new());
        decoded.visit(&record, &mut text).unwrap();
        let d = &record.descriptor;
        assert_eq!((d.id, d.channel.0), (0, 11));
        events.push(Event {
            name: decoded.event_name().unwrap().to_owned(),
            metadata: item(11),
            payload: record.payload.to_vec(),
            level: d.level.0,
            opcode: d.opcode.0,
            keyword: d.keyword.0,
            ids: (record.activity_id, record.related_activity_id()),
            traits: item(12),
            fields: text.0,
        });
    }
    events.retain(|event| !event.traits.windows(15).any(|name| name == b"OpenEtw.Session"));
    events
}

/// TC-1, TC-2, TC-6, OV-14: TraceLogging from C and C++, with every compiler: bytes, values, options, custom fields of 5 to 8 parameters,
/// nothing evaluated while nobody listens.
#[test]
fn tracelogging_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("tracelogging-{number}"));
        let Some(program) = compile(&folder, "tracelogging.c", compiler) else { continue };
        let out = folder.0.join("tracelogging.etl");
        let output = Command::new(program).env("TRACELOGGING_OUT", &out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        check(read(&out), compiler);
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

fn check(events: Vec<Event>, compiler: Compiler) {
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    let mut expected = vec![
        "Nothing", "Options", "Numbers", "Others", "Texts", "Arrays", "Structs", "Custom",
        "Packed", "Ids", "Ex", "InIf", "Further", "Storage",
    ];
    let is_cpp = compiler.0.ends_with("++");
    if is_cpp {
        expected.extend(["Wide", "Values"]);
    }
    assert_eq!(names, expected, "{compiler:?}");
    let of = |name: &str| events.iter().find(|event| event.name == name).unwrap();

    let nothing = of("Nothing");
    assert_eq!(nothing.metadata, b"\x0b\0\0Nothing\0");
    assert_eq!((nothing.level, nothing.opcode, nothing.keyword), (4, 0, 0));
    assert_eq!(nothing.traits, b"\x0c\0Test.Shop\0");
    let options = of("Options");
    assert_eq!((options.level, options.opcode, options.keyword), (2, 3, 0x11));
    assert_eq!(options.metadata, b"\x0f\0\x80\x80\xa4\xb4\0Options\0");

    let numbers = of("Numbers");
    assert_eq!(
        numbers.fields,
        "-1=-1 i16=-2 i32=-3 i64=-4 u8=200 u16=60000 u32=4000000000 u64=18446744073709551615 \
         f32=1.5 f64=2.5 b32=true b8=true h8=0xab h16=0x1234 h32=0xdeadbeef h64=0x1 x=5 "
    );
    let tagged = b"i64\0\x89\x80\x89\x8d\x8a\x67u8\0\x04u16\0\x06";
    assert!(numbers.metadata.windows(tagged.len()).any(|part| part == tagged));
    assert_eq!(
        of("Others").fields,
        "c8=c c16=ü guid=00000007-0000-0000-0000-000000000000 p=0x0 code=0x0 \
         ft=2020-02-14T08:30:24.8155908Z ftu=2020-02-14T08:30:24.8155908Z \
         st=2026-11-21T01:02:03.0040000Z pid=1 tid=2 port=80 ip4=127.0.0.1 ip6=2001:db8:: win=5(ERROR_ACCESS_DENIED) \
         nt=0xc0000005(STATUS_ACCESS_VIOLATION) hr=0x80070005(E_ACCESSDENIED) sid=S-1-5-18 bin=aabb binx=aabb "
    );
    assert_eq!(of("Texts").fields, "s=abc null= u=grüße w=wü l=x😀 cs=abc cu=ab cw=a as=hi us=hi ");
    let arrays = of("Arrays");
    assert_eq!(arrays.metadata, b"\x1e\0\0Arrays\0v\0\x45f\0\x25\x03\0h\0\xa4\x04\x02\0none\0\x44");
    assert_eq!(arrays.payload, b"\x02\0\x01\0\xfe\xff\x01\0\xfe\xff\x03\0\xaa\xbb\0\0");
    let structs = of("Structs");
    assert_eq!(
        structs.metadata,
        b"\x24\0\0Structs\0outer\0\x98\x03a\0\x07inner\0\x98\x01b\0\x07c\0\x07"
    );
    assert_eq!(structs.fields, "outer{ a=1 inner{ b=2 } c=3 } ");

    let custom = of("Custom");
    let fields = [
        &b"data\0\x65\x03\0\0\x01\x02"[..],
        b"c6\0\x65\x03\0\0\x01\x02",
        b"c7\0\x7f\x01\0\xff",
        b"c8\0\xe4\x80\x80\x80\x80\x04\x02\0\x01\x02",
    ]
    .concat();
    assert_eq!(custom.metadata[10..], fields, "{:x?}", custom.metadata);
    assert_eq!(custom.payload, b"\x02\0\xaa\xbb\x02\0\xaa\xbb\x01\0\xaa\x02\0\xaa\xbb");
    assert_eq!(of("Packed").fields, "i16=-17494 h=0xaa sa[2] sa{ e=7 } sa{ e=8 } ");

    let (activity, related) = (Guid::from_u128(7 << 96), Guid::from_u128(9 << 96));
    assert_eq!(of("Ids").ids, (activity, Some(related)));
    assert_eq!(of("Ex").ids, (activity, None));
    let grouped = etw_tracelogging::provider_traits(
        "Test.Grouped",
        Some("f73b8292-f610-4fa7-ba62-708353d162c4".parse().unwrap()),
    );
    assert_eq!(of("InIf").traits, grouped.unwrap());
    assert_eq!((of("InIf").level, of("InIf").fields.as_str()), (5, "n=1 "));
    assert_eq!(
        of("Further").fields,
        "ip6=[2001:db8::]:443 ip4=127.0.0.1:80 none= once=once s16=sü c16=ab cl=a😀b s32=😀 c32=ab empty= hi=0xffffffffffffffff hu=0x1 \
         ha[2] ha=0x10 ha=0x11 hf[2] hf=0x10 hf=0x11 bb=6869 bx=6869 p=170 pf=f "
    );
    if is_cpp {
        let wide = format!("w=wü c=A p=0x0 l={} ", "x".repeat(400));
        assert_eq!(of("Wide").fields, wide);
        assert_eq!(
            of("Values").fields,
            "x=5 d=2.5 b=true s=text w=wide g=00000007-0000-0000-0000-000000000000 u=1 "
        );
    }
}

/// TC-1, TC-6: unknown protocols, reserved protocols by number, schemas of another size than given, integers instead of texts and arrays,
/// names of events that are no literals, names with a NUL, and descriptions that are not constant do not compile.
#[test]
fn mistakes_do_not_compile() {
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("mistakes-{number}"));
        let is_cpp = compiler.0.ends_with("++");
        for (mistake, expected) in [
            (0, ""),
            (1, "protocols are 5 to 31"),
            (2, "protocols are 5 to 31"),
            (3, "cbSchema"),
            (4, "1 to 127 fields"),
            (5, if is_cpp { "error:" } else { "the text has to be one of char" }),
            (6, "the name of an event has to be a string literal"),
            (7, if is_cpp { "error:" } else { "the text has to be one of WCHAR" }),
            (8, if is_cpp { "error:" } else { "the elements of the array" }),
            (9, "error:"),
            (10, "error:"),
            (11, "error:"),
            (12, "error:"),
            (13, "error:"),
            (14, "error:"),
            (15, "a name must not contain a NUL"),
            (16, "a name must not contain a NUL"),
            (17, "a name must not contain a NUL"),
            (18, "a name must not contain a NUL"),
            (19, "the level, the opcode and the channel of an event are 0 to 255"),
            (20, "error:"),
            (21, "error:"),
            (22, "error:"),
            (23, "error:"),
            (24, "error:"),
            (25, "error:"),
            (26, "the level, the opcode and the channel of an event are 0 to 255"),
        ] {
            let Some(said) = try_compile(&folder, "tracelogging_errors.c", compiler, mistake)
            else {
                continue;
            };
            assert_eq!(said.is_empty(), expected.is_empty(), "{compiler:?} {mistake}: {said}");
            assert!(said.contains(expected), "{compiler:?} {mistake}: {said}");
        }
    }
}

/// TC-1: TraceLoggingActivity.h: ids, levels and keywords of starts and ends, what belongs to what, and ends by destructors.
#[test]
fn activities_from_cpp() {
    let mut ran = 0;
    for (number, compiler) in
        [Compiler("g++", &["-std=c++17"]), Compiler("clang++", &["-std=c++17"])]
            .into_iter()
            .enumerate()
    {
        let folder = Folder::new(&format!("activities-{number}"));
        let Some(program) = compile(&folder, "activities.cpp", compiler) else { continue };
        let out = folder.0.join("activities.etl");
        let output = Command::new(program).arg(&out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?} {output:?}: {said}");
        let events = read(&out);
        let found: Vec<(&str, u8, u8, u64)> = events
            .iter()
            .map(|event| (event.name.as_str(), event.level, event.opcode, event.keyword))
            .collect();
        let stopped = ("ActivityStoppedAutomatically", 5, 2, 0x20);
        let function_stopped = ("ActivityStoppedAutomatically", 5, 2, 0);
        let expected = [
            ("Parent", 3, 1, 0x10),
            ("Child", 5, 1, 0x20),
            ("Tagged", 4, 0, 0x40),
            ("Parent", 3, 2, 0x10),
            stopped,
            ("Outer", 5, 1, 0),
            ("Inner", 5, 1, 0),
            ("InInner", 5, 0, 0),
            ("Inner", 5, 2, 0),
            ("InOuter", 5, 0, 0),
            ("Outer", 5, 2, 0),
            ("InNone", 5, 0, 0),
            ("Set", 5, 0, 0),
            ("function_of_program", 5, 1, 0),
            ("InFunction", 5, 0, 0),
            function_stopped,
        ];
        assert_eq!(found, expected, "{compiler:?}");
        let ids: Vec<(Guid, Option<Guid>)> = events.iter().map(|event| event.ids).collect();
        let (parent, child, outer, inner) = (ids[0].0, ids[1].0, ids[5].0, ids[6].0);
        let function = ids[13].0;
        assert_eq!(events[13].fields, "n=7 ");
        let none = Guid::ZERO;
        let mut different = vec![none, parent, child, outer, inner, function];
        different.sort_by_key(|id| format!("{id}"));
        different.dedup();
        assert_eq!(different.len(), 6);
        let expected = [
            (parent, None),
            (child, Some(parent)),
            (child, None),
            (parent, None),
            (child, None),
            (outer, None),
            (inner, Some(outer)),
            (inner, None),
            (inner, None),
            (outer, None),
            (outer, None),
            (none, None),
            (inner, None),
            (function, None),
            (function, None),
            (function, None),
        ];
        assert_eq!(ids, expected, "{compiler:?}");
        ran += 1;
    }
    assert!(ran > 0, "no C++ compiler is installed");
}
