//! Filters on the fields of events.
use crate::support::*;
use etw_session::*;
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder};
use etw_types::{ExtType, ExtendedItemsBuf, Guid};

const ID: Guid = Guid::from_u128(0x0102_0304);

/// An event with a field of each kind, a struct with a member of the same name, and an array.
fn metadata() -> Vec<u8> {
    let field = |builder: MetadataBuilder, name: &str, in_type, count| {
        builder.field(name, in_type, OutType::NULL, count, 0)
    };
    let scalar = Count::Scalar;
    let builder = MetadataBuilder::new("Sold", 0);
    let builder = field(builder, "price", InType::INT32, scalar);
    let builder = field(builder, "size", InType::UINT64, scalar);
    let builder = field(builder, "ratio", InType::DOUBLE, scalar);
    let builder = field(builder, "ok", InType::BOOL32, scalar);
    let builder = field(builder, "id", InType::GUID, scalar);
    let builder = field(builder, "name", InType::UNICODESTRING, scalar);
    let builder = field(builder, "parts", InType::UINT16, Count::Variable);
    let builder = builder.structure("to", 2, scalar, 0);
    let builder = field(builder, "price", InType::INT8, scalar);
    let builder = field(builder, "town", InType::COUNTEDANSISTRING, scalar);
    field(builder, "raw", InType::BINARY, scalar).finish().unwrap()
}

fn payload() -> Vec<u8> {
    PayloadBuilder::new()
        .i32(-5)
        .u64(u64::MAX)
        .f64(0.5)
        .bool32(true)
        .guid(ID)
        .utf16_z("Äpfel".encode_utf16())
        .count(3)
        .u16(3)
        .u16(4)
        .u16(500)
        .i8(-1)
        .counted_ansi(b"Graz")
        .binary(b"price")
        .finish()
        .unwrap()
}

fn chain(metadata: &[u8]) -> Vec<u8> {
    ExtendedItemsBuf::from_items(&[(ExtType::EVENT_SCHEMA_TL, metadata)]).unwrap().into_bytes()
}

fn passes(filters: Vec<PayloadFilter>, event: &Event<'_>) -> bool {
    let filters = Filters { payload: filters, ..Filters::default() };
    filters.check().unwrap();
    let mut session = with(&live(), 4);
    let filters = Some(Box::new(filters));
    session.enable(PROVIDER, EnableInfo { filters, ..EnableInfo::default() });
    session.wants(event)
}

fn sold(conditions: Vec<Condition>, any: bool) -> PayloadFilter {
    PayloadFilter {
        of: EventKey::Name("Sold".into()),
        conditions,
        any,
        match_all: false,
        metadata: None,
    }
}

fn one(field: &str, op: PayloadOp, values: &[&str]) -> Condition {
    Condition::new(field, op, values).unwrap()
}

/// OV-17: every operator on every kind of field.
#[test]
fn each_operator_compares_each_type_of_field() {
    use PayloadOp::*;
    let (chain, payload) = (chain(&metadata()), payload());
    let event = Event { chain: &chain, payload: &payload, provider: PROVIDER, ..Event::default() };
    let rows: &[(&str, PayloadOp, &[&str], bool)] = &[
        ("price", Eq, &["-5"], true),
        ("price", Eq, &["5"], false),
        ("price", Ne, &["-5"], false),
        ("price", Ne, &["7"], true),
        ("price", Le, &["-5"], true),
        ("price", Lt, &["-5"], false),
        ("price", Lt, &["-4.5"], true),
        ("price", Gt, &["-6"], true),
        ("price", Ge, &["-4"], false),
        ("price", Between, &["-5", "-5"], true),
        ("price", Between, &["-4", "9"], false),
        ("price", NotBetween, &["-4", "9"], true),
        ("price", Modulo, &["5"], true),
        ("price", Modulo, &["2"], false),
        ("price", Contains, &["5"], false),
        ("size", Eq, &["0xffffffffffffffff"], true),
        ("size", Gt, &["18446744073709551614"], true),
        ("ratio", Eq, &["0.5"], true),
        ("ratio", Gt, &["0"], true),
        ("ratio", Modulo, &["1"], false),
        ("ok", Eq, &["true"], true),
        ("ok", Eq, &["1"], true),
        ("ok", Ne, &["false"], true),
        ("id", Is, &["{00000000-0000-0000-0000-000001020304}"], true),
        ("id", IsNot, &["00000000-0000-0000-0000-000001020305"], true),
        ("id", Gt, &["1"], false),
        ("name", Is, &["äPFEL"], true),
        ("name", Eq, &["äPFEL"], false),
        ("name", Eq, &["Äpfel"], true),
        ("name", IsNot, &["Birnen"], true),
        ("name", Contains, &["PFE"], true),
        ("name", DoesntContain, &["pfe"], false),
        ("name", DoesntContain, &["x"], true),
        // One value of an array, or none.
        ("parts", Eq, &["500"], true),
        ("parts", Ne, &["500"], false),
        ("parts", NotBetween, &["5", "6"], true),
        ("to.price", Eq, &["-1"], true),
        ("to.town", Is, &["graz"], true),
        ("town", Is, &["graz"], false),
        ("to", Eq, &["1"], false),
        ("to.price.x", Eq, &["-1"], false),
        ("raw", Contains, &["price"], false),
        // An absent field fulfils no condition, not even a negated one.
        ("missing", Ne, &["1"], false),
    ];
    for (field, op, values, expected) in rows {
        let found = passes(vec![sold(vec![one(field, *op, values)], false)], &event);
        assert_eq!(found, *expected, "{field} {op:?} {values:?}");
    }
}

/// A single compares as it is shown, an integer is not rounded, and texts compare without case in all scripts.
#[test]
fn values_at_the_edge_of_a_type_compare_exactly() {
    use PayloadOp::*;
    let field = |builder: MetadataBuilder, name: &str, in_type| {
        builder.field(name, in_type, OutType::NULL, Count::Scalar, 0)
    };
    let builder = field(MetadataBuilder::new("Sold", 0), "size", InType::UINT64);
    let builder = field(builder, "tenth", InType::FLOAT);
    let builder = field(builder, "large", InType::FLOAT);
    let metadata = field(builder, "name", InType::UNICODESTRING).finish().unwrap();
    let payload = PayloadBuilder::new()
        .u64(u64::MAX)
        .f32(0.1)
        .f32(123_456_790.0)
        .utf16_z("ΣΑΣΑ Straße".encode_utf16())
        .finish()
        .unwrap();
    let chain = chain(&metadata);
    let event = Event { chain: &chain, payload: &payload, provider: PROVIDER, ..Event::default() };
    let rows: &[(&str, PayloadOp, &[&str], bool)] = &[
        ("size", Eq, &["18446744073709551615"], true),
        ("size", Eq, &["18446744073709551616"], false),
        ("size", Ne, &["18446744073709551616"], true),
        ("size", Lt, &["18446744073709551616"], true),
        ("size", Ge, &["0x10000000000000000"], false),
        ("size", Gt, &["-18446744073709551616"], true),
        ("tenth", Eq, &["0.1"], true),
        ("tenth", Le, &["0.1"], true),
        ("tenth", Gt, &["0.1"], false),
        ("tenth", Between, &["0.1", "0.1"], true),
        ("tenth", Lt, &["1e300"], true),
        ("tenth", Gt, &["1e-300"], true),
        ("large", Eq, &["123456790"], true),
        ("large", Lt, &["1e300"], true),
        ("name", Contains, &["σας"], true),
        ("name", Contains, &["STRAẞE"], true),
        ("name", Is, &["σασα STRAẞE"], true),
        ("name", Contains, &["strasse"], false),
    ];
    for (field, op, values, expected) in rows {
        let found = passes(vec![sold(vec![one(field, *op, values)], false)], &event);
        assert_eq!(found, *expected, "{field} {op:?} {values:?}");
    }
}

/// OV-17: all conditions or one, filters for other events, events of manifests.
#[test]
fn which_events_and_how_many_conditions() {
    let (chain, payload) = (chain(&metadata()), payload());
    let event = Event { chain: &chain, payload: &payload, provider: PROVIDER, ..Event::default() };
    let yes = one("price", PayloadOp::Eq, &["-5"]);
    let no = one("price", PayloadOp::Eq, &["6"]);
    assert!(!passes(vec![sold(vec![yes.clone(), no.clone()], false)], &event));
    assert!(passes(vec![sold(vec![yes.clone(), no.clone()], true)], &event));
    assert!(passes(vec![sold(vec![no.clone()], false), sold(vec![yes.clone()], false)], &event));
    let all = |condition: &Condition| PayloadFilter {
        match_all: true,
        ..sold(vec![condition.clone()], false)
    };
    assert!(!passes(vec![all(&no), all(&yes)], &event), "both have to hold");
    assert!(passes(vec![all(&yes), all(&yes)], &event));
    assert!(
        !passes(vec![all(&yes), sold(vec![no.clone()], false)], &event),
        "and one of the others"
    );
    assert!(!passes(vec![all(&no), sold(vec![yes.clone()], false)], &event));
    let other =
        PayloadFilter { of: EventKey::Name("Bought".into()), ..sold(vec![no.clone()], false) };
    assert!(passes(vec![other], &event), "a filter for another event");
    let by_id = |id, version, condition: &Condition| PayloadFilter {
        of: EventKey::Id { id, version },
        conditions: vec![condition.clone()],
        any: false,
        match_all: false,
        metadata: Some(metadata()),
    };
    assert!(passes(vec![by_id(0, None, &no)], &event), "ids do not name TraceLogging's events");
    let mut manifest = Event { chain: &[], ..event };
    manifest.descriptor.id = 7;
    manifest.descriptor.version = 2;
    assert!(passes(vec![by_id(7, None, &yes)], &manifest));
    assert!(!passes(vec![by_id(7, Some(2), &no)], &manifest));
    assert!(passes(vec![by_id(7, Some(1), &no)], &manifest));
    let blind = PayloadFilter { metadata: None, ..by_id(7, None, &yes) };
    assert!(!passes(vec![blind], &manifest), "a payload that nobody can read");
}

/// Whatever the bytes are, what lies before the damage is found, and the time is bounded. P5
#[test]
fn fields_in_front_of_damage_are_compared() {
    let (metadata, payload) = (metadata(), payload());
    let is_raw_there = |metadata: &[u8], payload: &[u8], field: &str| {
        let chain = chain(metadata);
        let event = Event { chain: &chain, payload, provider: PROVIDER, ..Event::default() };
        passes(vec![sold(vec![one(field, PayloadOp::Ge, &["-99"])], false)], &event)
    };
    for cut in 0..payload.len() {
        let first = is_raw_there(&metadata, &payload[..cut], "price");
        assert_eq!(first, cut >= 4, "{cut}");
        assert_eq!(is_raw_there(&metadata, &payload[..cut], "to.price"), cut >= 61, "{cut}");
    }
    for at in 0..metadata.len() {
        let mut broken = metadata.clone();
        broken[at] ^= 0xff;
        is_raw_there(&broken, &payload, "to.price");
    }
    // Arrays of arrays of nothing: 65535 times 65535 times 65535 values.
    let mut bomb = b"\0\0\0Sold\0".to_vec();
    for _ in 0..3 {
        bomb.extend(b"s\0");
        bomb.extend([24 | 0x80 | 0x20, 127, 0xff, 0xff]);
    }
    for _ in 0..400 {
        bomb.extend([b'n', 0, 0x20, 0xff, 0xff]);
    }
    let size = bomb.len() as u16;
    bomb[..2].copy_from_slice(&size.to_le_bytes());
    let begun = std::time::Instant::now();
    assert!(!is_raw_there(&bomb, &[0; 100], "s.s.s.n"));
    assert!(begun.elapsed() < std::time::Duration::from_secs(60));
}

/// OV-17: ETW's limits, and conditions that cannot be.
#[test]
fn filters_beyond_the_limits_of_etw_are_rejected() {
    let condition = one("price", PayloadOp::Eq, &["1"]);
    let of = |count: usize| {
        let payload = vec![sold(vec![condition.clone(); count], false)];
        Filters { payload, ..Filters::default() }.check()
    };
    assert_eq!((of(1), of(8)), (Ok(()), Ok(())));
    assert_eq!((of(0), of(9)), (Err(FilterError::Payload(0)), Err(FilterError::Payload(0))));
    use PayloadOp::*;
    for (op, values) in [
        (Eq, &[][..]),
        (Eq, &["1", "2"]),
        (Between, &["1"]),
        (Lt, &["many"]),
        (Modulo, &["0"]),
        (Modulo, &["1.5"]),
    ] {
        assert_eq!(
            Condition::new("f", op, values),
            Err(FilterError::Condition("f".into())),
            "{op:?} {values:?}"
        );
    }
}
