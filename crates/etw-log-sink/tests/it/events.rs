//! The events, byte for byte.
use crate::support::*;
use etw::Level;
use etw_log_sink::*;

fn record_of<'a>(
    level: u32,
    context: Option<&'a LogContext<'a>>,
    message: std::fmt::Arguments<'a>,
) -> LogRecord<'a> {
    LogRecord { level: LogLevel(level), context, file: "a.rs", func: "f", line: -7, message }
}

/// A table of cases: SRS_LOG_SINK_ETW_01_010, SRS_LOG_SINK_ETW_01_012, SRS_LOG_SINK_ETW_01_013, SRS_LOG_SINK_ETW_01_014,
/// SRS_LOG_SINK_ETW_01_015, SRS_LOG_SINK_ETW_01_016, SRS_LOG_SINK_ETW_01_017, SRS_LOG_SINK_ETW_01_018,
/// SRS_LOG_SINK_ETW_01_019, SRS_LOG_SINK_ETW_01_020, SRS_LOG_SINK_ETW_01_021, SRS_LOG_SINK_ETW_01_022,
/// SRS_LOG_SINK_ETW_01_023, SRS_LOG_SINK_ETW_01_024, SRS_LOG_SINK_ETW_01_029: names and levels.
#[test]
fn names_and_levels() {
    let seen = record(1, |sink| {
        for level in [0, 1, 2, 3, 4, 5, u32::MAX] {
            sink.log(&record_of(level, None, format_args!("x")));
        }
    });
    let found: Vec<_> = seen.iter().map(|e| (e.event.as_str(), e.level)).collect();
    let expected = [
        ("LogCritical", 1),
        ("LogError", 2),
        ("LogWarning", 3),
        ("LogInfo", 4),
        ("LogVerbose", 5),
        ("Unknown", 0),
        ("Unknown", 0),
    ];
    assert_eq!(found, expected);
    for (event, (name, _)) in seen.iter().zip(expected) {
        assert_eq!(event.metadata, metadata(name, b""));
    }
    // Level 0 passes whatever is enabled.
    let seen = record_at(2, Level::CRITICAL, |sink| {
        for level in [0, 1, 4, 9] {
            sink.log(&record_of(level, None, format_args!("x")));
        }
    });
    assert_eq!(seen.iter().map(|e| e.level).collect::<Vec<_>>(), [1, 0]);
}

/// SRS_LOG_SINK_ETW_01_028, SRS_LOG_SINK_ETW_01_030, SRS_LOG_SINK_ETW_01_031, SRS_LOG_SINK_ETW_01_041: the descriptor, and the
/// provider's traits.
#[test]
fn events_have_the_descriptor_and_traits_of_the_specification() {
    let seen = record(3, |sink| sink.log(&record_of(1, None, format_args!("x"))));
    let event = &seen[0];
    assert_eq!((event.channel, event.opcode, event.keyword, event.id), (11, 0, 0, 0));
    assert_eq!(event.traits, b"\x0b\0Test.Log\0");
}

/// OV-22: a sink with a channel gives it to all its events; another sink of the same thread keeps its own.
#[test]
fn a_sink_with_a_channel_names_it_in_each_event() {
    let channels = |number, channel: Option<u8>| {
        let seen = record(number, |sink| {
            if let Some(channel) = channel {
                sink.set_channel(etw::Channel(channel));
            }
            for level in [1, 1, 3] {
                sink.log(&record_of(level, None, format_args!("x")));
            }
        });
        seen.iter().map(|event| event.channel).collect::<Vec<_>>()
    };
    assert_eq!(channels(0x70, Some(16)), [16; 3]);
    assert_eq!(channels(0x71, None), [11; 3]);
    assert_eq!(channels(0x72, Some(17)), [17; 3]);
}

/// A table of cases: SRS_LOG_SINK_ETW_01_025, SRS_LOG_SINK_ETW_01_032, SRS_LOG_SINK_ETW_01_033, SRS_LOG_SINK_ETW_01_034,
/// SRS_LOG_SINK_ETW_01_035, SRS_LOG_SINK_ETW_01_036, SRS_LOG_SINK_ETW_01_037, SRS_LOG_SINK_ETW_01_038,
/// SRS_LOG_SINK_ETW_01_039, SRS_LOG_SINK_ETW_01_040, SRS_LOG_SINK_ETW_01_058, SRS_LOG_SINK_ETW_01_059,
/// SRS_LOG_SINK_ETW_01_060: without a context only content, file, func and line.
#[test]
fn the_common_fields() {
    let seen = record(4, |sink| {
        sink.log(&record_of(1, None, format_args!("{} and {:?}", 42, "text")));
        sink.log(&record_of(1, None, format_args!("")));
        sink.log(&record_of(1, None, format_args!("a\0b")));
    });
    // LogError: 36 bytes of name and fields, and four more.
    assert_eq!(seen[0].metadata[..4], [40, 0, 0x80, 0]);
    assert_eq!(
        seen[0].metadata,
        *b"\x28\0\x80\0LogError\0content\0\x02file\0\x02func\0\x02line\0\x07"
    );
    assert_eq!(seen[0].payload, *b"42 and \"text\"\0a.rs\0f\0\xf9\xff\xff\xff");
    assert_eq!(seen[1].payload, *b"\0a.rs\0f\0\xf9\xff\xff\xff");
    assert_eq!(seen[2].payload, *b"a b\0a.rs\0f\0\xf9\xff\xff\xff");
    let fields: Vec<_> = seen[0].fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(
        fields,
        [("content", "42 and \"text\""), ("file", "a.rs"), ("func", "f"), ("line", "-7")]
    );
}

/// SRS_LOG_SINK_ETW_01_026, SRS_LOG_SINK_ETW_01_027, SRS_LOG_SINK_ETW_01_042: the size is that of the whole blob, which is all
/// that is written of the self-described event.
#[test]
fn sizes_are_those_of_the_blob() {
    let context = LogContext::new("c").with("n", 1i32);
    let seen = record(5, |sink| {
        for level in 0..6 {
            sink.log(&record_of(level, Some(&context), format_args!("x")));
        }
    });
    assert_eq!(seen.len(), 6);
    for event in seen {
        let told = u16::from_le_bytes([event.metadata[0], event.metadata[1]]);
        assert_eq!(usize::from(told), event.metadata.len());
    }
}

/// A table of cases: SRS_LOG_SINK_ETW_01_053, SRS_LOG_SINK_ETW_01_054, SRS_LOG_SINK_ETW_01_055, SRS_LOG_SINK_ETW_01_061,
/// SRS_LOG_SINK_ETW_01_063, SRS_LOG_SINK_ETW_01_064, SRS_LOG_SINK_ETW_01_065, SRS_LOG_SINK_ETW_01_066,
/// SRS_LOG_SINK_ETW_01_067, SRS_LOG_SINK_ETW_01_068, SRS_LOG_SINK_ETW_01_069, SRS_LOG_SINK_ETW_01_070,
/// SRS_LOG_SINK_ETW_01_071, SRS_LOG_SINK_ETW_01_072, SRS_LOG_SINK_ETW_01_073, SRS_LOG_SINK_ETW_01_074,
/// SRS_LOG_SINK_ETW_01_075, SRS_LOG_SINK_ETW_01_076, SRS_LOG_SINK_ETW_01_077, SRS_LOG_SINK_ETW_01_078,
/// SRS_LOG_SINK_ETW_01_079, SRS_LOG_SINK_ETW_01_080: each type of property, in metadata and payload.
#[test]
fn every_property_type() {
    let wide: Vec<u16> = "ü😀".encode_utf16().collect();
    let cases: Vec<(Value<'_>, u8, Vec<u8>)> = vec![
        ("text".into(), 2, b"text\0".to_vec()),
        ("".into(), 2, b"\0".to_vec()),
        ((-2i64).into(), 9, (-2i64).to_le_bytes().to_vec()),
        (u64::MAX.into(), 10, vec![0xff; 8]),
        ((-3i32).into(), 7, (-3i32).to_le_bytes().to_vec()),
        (4_000_000_000u32.into(), 8, 4_000_000_000u32.to_le_bytes().to_vec()),
        ((-4i16).into(), 5, (-4i16).to_le_bytes().to_vec()),
        (60_000u16.into(), 6, 60_000u16.to_le_bytes().to_vec()),
        ((-5i8).into(), 3, vec![0xfb]),
        (200u8.into(), 4, vec![200]),
        (true.into(), 13, vec![1, 0, 0, 0]),
        (false.into(), 13, vec![0; 4]),
        (Value::Wide(wide.into()), 1, vec![0xfc, 0, 0x3d, 0xd8, 0, 0xde, 0, 0]),
    ];
    let seen = record(6, |sink| {
        for (value, _, _) in &cases {
            let context = LogContext::new("").with("p", value.clone());
            sink.log(&record_of(3, Some(&context), format_args!("x")));
        }
    });
    assert_eq!(seen.len(), cases.len());
    for (event, (value, in_type, bytes)) in seen.iter().zip(&cases) {
        let properties = [&b"\0\x98\x01p\0"[..], &[*in_type]].concat();
        assert_eq!(event.metadata, metadata("LogInfo", &properties), "{value:?}");
        let payload = [&b"x\0a.rs\0f\0\xf9\xff\xff\xff"[..], bytes].concat();
        assert_eq!(event.payload, payload, "{value:?}");
    }
}

/// SRS_LOG_SINK_ETW_01_048, SRS_LOG_SINK_ETW_01_056, SRS_LOG_SINK_ETW_01_057, SRS_LOG_SINK_ETW_01_062: contexts are structures, the
/// parent's first; structures have no data of their own.
#[test]
fn nested_contexts_are_structures_with_the_parent_first() {
    let outer = LogContext::new("outer").with("a", 1u8);
    let inner = LogContext::with_parent("inner", &outer).with("b", 2u8).with("c", "z");
    let empty = LogContext::new("empty");
    let seen = record(7, |sink| {
        sink.log(&record_of(3, Some(&inner), format_args!("x")));
        sink.log(&record_of(3, Some(&empty), format_args!("x")));
        sink.log(&record_of(3, Some(&LogContext::from_pairs(&[])), format_args!("x")));
    });
    let properties = b"inner\0\x98\x03outer\0\x98\x01a\0\x04b\0\x04c\0\x02";
    assert_eq!(seen[0].metadata, metadata("LogInfo", properties));
    assert_eq!(seen[0].payload, *b"x\0a.rs\0f\0\xf9\xff\xff\xff\x01\x02z\0");
    let names: Vec<_> = seen[0].fields[4..].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["inner", "outer", "a", "", "b", "c", ""]);
    assert_eq!(seen[1].metadata, metadata("LogInfo", b"empty\0\x98\0"));
    assert_eq!(seen[2].metadata, metadata("LogInfo", b""));
}

/// SRS_LOG_SINK_ETW_01_049, SRS_LOG_SINK_ETW_01_050, SRS_LOG_SINK_ETW_01_081, SRS_LOG_SINK_ETW_01_082: 64 properties go, their
/// structure among them; 65 or an unknown type leave all of them out, and the event goes.
#[test]
fn too_many_properties_and_unknown_ones() {
    let of =
        |count: usize| (0..count).fold(LogContext::new("s"), |context, _| context.with("n", 7u8));
    let (fits, too_many) = (of(63), of(64));
    assert_eq!((fits.pairs().len(), too_many.pairs().len()), (64, 65));
    let pairs = [Pair::structure("s", 2), Pair::new("n", 7u8), Pair::new("x", Value::Unknown)];
    let unknown = LogContext::from_pairs(&pairs);
    let seen = record(8, |sink| {
        for context in [&fits, &too_many, &unknown] {
            sink.log(&record_of(3, Some(context), format_args!("x")));
        }
    });
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0].payload.len(), seen[1].payload.len() + 63);
    for event in &seen[1..] {
        assert_eq!(event.metadata, metadata("LogInfo", b""));
        assert_eq!(event.payload, *b"x\0a.rs\0f\0\xf9\xff\xff\xff");
    }
}

/// A table of cases: SRS_LOG_SINK_ETW_01_043, SRS_LOG_SINK_ETW_01_044, SRS_LOG_SINK_ETW_01_045, SRS_LOG_SINK_ETW_01_046,
/// SRS_LOG_SINK_ETW_01_047, SRS_LOG_SINK_ETW_01_051, SRS_LOG_SINK_ETW_01_052, SRS_LOG_SINK_ETW_01_085: exactly 4096 bytes of
/// names, types and message keep the properties, one more drops them; a message that is too long by itself is cut.
#[test]
fn the_limit_of_4096() {
    // A structure `s` takes 2 + 2 bytes, its property `n` 2 + 1.
    let context = LogContext::new("s").with("n", 7u8);
    for (number, (level, base)) in
        [(0, 39), (1, 36), (2, 38), (3, 35), (4, 38), (9, 35)].into_iter().enumerate()
    {
        let longest = 4096 - base - 7 - 1;
        let seen = record(20 + number as u128, |sink| {
            for size in [longest, longest + 1, 4096 - base - 1, 4096 - base, 70_000] {
                let text = "m".repeat(size);
                sink.log(&record_of(level, Some(&context), format_args!("{text}")));
            }
        });
        let has_properties: Vec<bool> = seen.iter().map(|e| e.payload.ends_with(b"\x07")).collect();
        assert_eq!(has_properties, [true, false, false, false, false], "level {level}");
        let sizes: Vec<usize> =
            seen.iter().map(|e| e.payload.iter().position(|byte| *byte == 0).unwrap()).collect();
        let most = 4096 - base - 1;
        assert_eq!(sizes, [longest, longest + 1, most, most, most], "level {level}");
    }
    // A character is not cut in the middle.
    let seen = record(30, |sink| {
        let text = "ü".repeat(4000);
        sink.log(&record_of(3, None, format_args!("{text}")));
    });
    let end = seen[0].payload.iter().position(|byte| *byte == 0).unwrap();
    assert_eq!(std::str::from_utf8(&seen[0].payload[..end]).unwrap().len(), 4060);
}

/// Values have no limit of the sink's, only ETW's: what is beyond is refused and told (SRS_LOG_SINK_ETW_01_086 in `registration`).
#[test]
fn long_values_go_through() {
    let text = "v".repeat(5000);
    let context = LogContext::new("s").with("t", &text);
    let seen = record(31, |sink| sink.log(&record_of(3, Some(&context), format_args!("x"))));
    assert!(seen[0].payload.ends_with(format!("{text}\0").as_bytes()));
}

/// The macros: where they stand, and what is not evaluated while nobody listens.
#[test]
fn macros_evaluate_nothing_for_a_disabled_sink() {
    let sink = EtwSink::new();
    sink.set_provider(etw::Guid::from_u128(0x106_0040), "Test.Log");
    let evaluated = || -> i32 { panic!("nobody listens") };
    logger_log!(sink, LogLevel::ERROR, None, "{}", evaluated());
    logger_log_ex!(sink, LogLevel::ERROR, { "n" = evaluated() }, "x");
    let outer = LogContext::new("outer").with("a", 1u8);
    let line = line!() + 2;
    let seen = record(41, |sink| {
        logger_log!(sink, LogLevel::ERROR, Some(&outer), "{} {}", 1, "b");
        logger_log_ex!(sink, LogLevel::INFO, { "n" = 5i32, "t" = "text" }, "{}", 2);
        logger_log_ex!(sink, LogLevel::INFO, { "n" = 5i32 });
        logger_log_ex!(sink, LogLevel::INFO, {}, "plain");
    });
    assert_eq!(seen.len(), 4);
    let value = |event: &Seen, name: &str| {
        event.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()).unwrap()
    };
    assert_eq!(value(&seen[0], "content"), "1 b");
    assert!(value(&seen[0], "file").ends_with("events.rs"));
    assert!(value(&seen[0], "func").contains("events::macros"), "{:?}", seen[0]);
    assert_eq!(value(&seen[0], "line"), line.to_string());
    assert_eq!(seen[1].metadata, metadata("LogInfo", b"\0\x98\x02n\0\x07t\0\x02"));
    assert_eq!((value(&seen[1], "content"), value(&seen[2], "content")), ("2".into(), "".into()));
    assert_eq!(seen[3].metadata, metadata("LogInfo", b""));
}

/// A value that logs while it is shown gets its event, and so does what it is part of.
#[test]
fn logging_within_logging() {
    struct Nested(&'static EtwSink);
    impl std::fmt::Display for Nested {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.log(&record_of(3, None, format_args!("inner")));
            f.write_str("outer")
        }
    }
    let seen = record(42, |sink| sink.log(&record_of(3, None, format_args!("{}", Nested(sink)))));
    let contents: Vec<_> = seen.iter().map(|e| e.fields[0].1.as_str()).collect();
    assert_eq!(contents, ["inner", "outer"]);
}

/// A value that panics while it is shown loses its own event alone, and no text stays for later ones.
#[test]
fn a_panic_within_logging() {
    struct Panics;
    impl std::fmt::Display for Panics {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("as the test wants")
        }
    }
    let seen = record(43, |sink| {
        for message in [
            format_args!("before"),
            format_args!("half {Panics}"),
            format_args!("after"),
            format_args!("again"),
        ] {
            let log = std::panic::AssertUnwindSafe(|| sink.log(&record_of(3, None, message)));
            let _ = std::panic::catch_unwind(log);
        }
    });
    let contents: Vec<_> = seen.iter().map(|e| e.fields[0].1.as_str()).collect();
    assert_eq!(contents, ["before", "after", "again"]);
}
