//! The encoder's cache does not change its output.

use etw::Channel;
use etw_log_sink::encode::{Encoder, MAX_SIZE, Message, Parts, Properties};
use etw_log_sink::{LogContext, LogLevel, Pair, Value};

/// Metadata and payload of an event.
struct Encoded {
    has_site: bool,
    metadata: Vec<u8>,
    payload: Vec<u8>,
}

fn encoded<P: Properties + ?Sized>(
    encoder: &mut Encoder,
    level: u32,
    message: &[u8],
    pairs: &P,
) -> Encoded {
    let parts = Parts {
        level: LogLevel(level),
        file: &b"a file.c"[..],
        func: &b""[..],
        line: 7,
        properties: pairs,
    };
    let mut memory = [message, &[0; 24]].concat();
    let message = Message { memory: &mut memory, size: message.len(), is_text: false };
    encoder.encode(message, Channel(0), &parts, |shape, payload| Encoded {
        has_site: shape.is_ok(),
        metadata: shape.map_or_else(<[u8]>::to_vec, |site| site.metadata().to_vec()),
        payload: payload.to_vec(),
    })
}

#[test]
fn a_shape_that_is_known_is_encoded_as_one_that_is_new() {
    let names = ["", "a", "b", "a\0\u{7}b", "a name of twenty bytes", "a name of twenty pages"];
    let values = [
        Value::from(1i32),
        Value::from(2u64),
        Value::from("text"),
        Value::from(""),
        Value::Wide(vec![0x41, 0x3b1, 0, 5].into()),
        Value::Struct(1),
        Value::Struct(0),
        Value::Struct(0x80),
        Value::Unknown,
    ];
    let (mut used, mut sites) = (Encoder::new(), 0);
    let mut seed = 1u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    let long = vec![b'm'; MAX_SIZE - 60];
    for n in 0..20_000 {
        let pairs: Vec<Pair<'_>> = (0..next(3))
            .map(|_| Pair { value: values[next(9)].clone(), ..Pair::new(names[next(6)], 0i32) })
            .collect();
        let message = [&long[..], b"hello", b"hel\0o", b"hello"][next(4)];
        let level = [1, 5][next(2)];
        let known = encoded(&mut used, level, message, &pairs[..]);
        sites += usize::from(known.has_site);
        let new = encoded(&mut Encoder::new(), level, message, &pairs[..]);
        // Another test may hold the lock of the shapes for a moment, so that one of them has no site.
        let is_same = known.metadata == new.metadata && known.payload == new.payload;
        assert!(is_same, "{n}: {pairs:?}");
    }
    // Another test may hold the lock of the shapes for a moment.
    assert!(sites > 15_000, "{sites}");
}

/// From its second event on, a context has its values ready. Its events stay as they are, whatever other shapes come between.
#[test]
fn a_context_that_is_logged_again_gives_the_same_events() {
    let text = |text: &'static str| Pair::new("path", text);
    let contexts = [
        vec![Pair::structure("request", 2), Pair::new("id", 77u32), text("/a")],
        // The same names, and a value of another kind: its shape takes the place of the first.
        vec![Pair::structure("request", 2), Pair::new("id", 77i32), text("/a")],
        // The same shape with other values.
        vec![Pair::structure("request", 2), Pair::new("id", 5u32), text("")],
        // A value that has to be cut, and one that no event can have.
        vec![Pair::structure("request", 2), Pair::new("id", 6u32), text("cut\0here")],
        vec![Pair { value: Value::Unknown, ..text("") }],
        vec![],
        vec![Pair::new("n", 1i32); 65],
    ];
    let flat: Vec<LogContext<'_>> = contexts.iter().map(|c| LogContext::from_pairs(c)).collect();
    let mut used = Encoder::new();
    for turn in 0..5 {
        for (context, pairs) in flat.iter().zip(&contexts) {
            // The next context begins with the level of this one's last event, so that it finds the same shape first.
            for level in [1, 5, 5, 1, 1] {
                let again = encoded(&mut used, level, b"hello", context);
                let new = encoded(&mut Encoder::new(), level, b"hello", &pairs[..]);
                assert_eq!(again.metadata, new.metadata, "{turn} {level} {context:?}");
                assert_eq!(again.payload, new.payload, "{turn} {level} {context:?}");
                assert_eq!(*context, context.clone());
            }
        }
    }
}
