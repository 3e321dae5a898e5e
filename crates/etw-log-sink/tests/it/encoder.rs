//! The encoder's cache does not change its output.

use etw::EventDescriptor;
use etw_log_sink::encode::{Encoder, MAX_SIZE};
use etw_log_sink::{LogLevel, Pair, Value};

fn encoded(
    encoder: &mut Encoder,
    sites: &mut usize,
    level: u32,
    message: &[u8],
    pairs: &[Pair<'_>],
) -> (Vec<u8>, Vec<u8>) {
    encoder.begin(LogLevel(level), false);
    encoder.message().extend_from_slice(message);
    let descriptor = EventDescriptor::default();
    let (shape, payload) = encoder.finish(&descriptor, Some(b"a file.c"), None, 7, pairs);
    *sites += usize::from(shape.is_ok());
    (shape.map_or_else(<[u8]>::to_vec, |site| site.metadata().to_vec()), payload.to_vec())
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
        let message = if next(4) == 0 { &long[..] } else { b"hello" };
        let level = [1, 5][next(2)];
        let known = encoded(&mut used, &mut sites, level, message, &pairs);
        let new = encoded(&mut Encoder::new(), &mut 0, level, message, &pairs);
        assert!(known == new, "{n}: {pairs:?}");
    }
    // Another test may hold the lock of the shapes for a moment.
    assert!(sites > 15_000, "{sites}");
}
