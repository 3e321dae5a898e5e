//! Round trips, streams of every form, and hostile streams beside a decoder that follows the specification.

use super::encoder::{MATCH_MAX, NICE_LENGTH, SHORT, WIDE, common_length};
use super::*;
use etw_types::BufferHeader;
use std::time::{Duration, Instant};

/// xorshift64*, so that a failure can be run again from its seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize) % bound
    }

    fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

/// Which of the length forms to use; `compress` only makes the shortest that fits.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Shortest,
    Word16,
    Word32,
}

/// Writes a stream item by item, right or wrong.
struct Stream {
    bytes: Vec<u8>,
    flags_at: usize,
    flag_count: u32,
    half_at: Option<usize>,
}

impl Stream {
    fn new() -> Self {
        Self { bytes: vec![0xff; 4], flags_at: 0, flag_count: 0, half_at: None }
    }

    fn flag(&mut self, bit: u32) {
        if bit == 0 {
            // Flag words begin as all ones. Bit 31 is in the last of the four bytes.
            let bit = 31 - self.flag_count;
            self.bytes[self.flags_at + bit as usize / 8] &= !(1 << (bit % 8));
        }
        self.flag_count += 1;
    }

    fn before_item(&mut self) {
        if self.flag_count == 32 {
            self.flag_count = 0;
            self.flags_at = self.bytes.len();
            self.bytes.extend([0xff; 4]);
        }
    }

    fn literal(&mut self, byte: u8) {
        self.before_item();
        self.flag(0);
        self.bytes.push(byte);
    }

    fn half(&mut self, value: u8) {
        match self.half_at.take() {
            Some(at) => self.bytes[at] |= value << 4,
            None => {
                self.half_at = Some(self.bytes.len());
                self.bytes.push(value);
            }
        }
    }

    fn copy(&mut self, distance: usize, length: u64, form: Form) {
        self.before_item();
        self.flag(1);
        let stored = length - 3;
        let len = if form == Form::Shortest { stored.min(7) } else { 7 };
        self.bytes.extend((((distance - 1) << 3) as u16 | len as u16).to_le_bytes());
        if len < 7 {
            return;
        }
        if form == Form::Shortest && stored < 7 + 15 {
            return self.half(stored as u8 - 7);
        }
        self.half(15);
        if form == Form::Shortest && stored < 7 + 15 + 255 {
            return self.bytes.push((stored - 7 - 15) as u8);
        }
        self.bytes.push(255);
        if form != Form::Word32 && stored <= 0xffff {
            return self.bytes.extend((stored as u16).to_le_bytes());
        }
        self.bytes.extend([0, 0]);
        self.bytes.extend((stored as u32).to_le_bytes());
    }
}

/// The pseudocode of MS-XCA 2.4.4, a byte at a time, stopping where `decompress` promises to.
fn decompress_slowly(input: &[u8], wanted: usize) -> (Vec<u8>, Result<usize, LzxpressError>) {
    fn number(input: &[u8], pos: &mut usize, bytes: usize) -> Option<u64> {
        let mut value = 0;
        for shift in 0..bytes {
            value |= u64::from(*input.get(*pos + shift)?) << (8 * shift);
        }
        *pos += bytes;
        Some(value)
    }

    fn item(
        input: &[u8],
        pos: &mut usize,
        is_match: bool,
        half_at: &mut usize,
        output: &mut Vec<u8>,
        wanted: usize,
    ) -> Result<(), LzxpressErrorKind> {
        let truncated = LzxpressErrorKind::Truncated;
        if !is_match {
            output.push(number(input, pos, 1).ok_or(truncated)? as u8);
            return Ok(());
        }
        let word = number(input, pos, 2).ok_or(truncated)?;
        let mut length = word % 8;
        let distance = word / 8 + 1;
        if length == 7 {
            if *half_at == 0 {
                *half_at = *pos;
                length = number(input, pos, 1).ok_or(truncated)? % 16;
            } else {
                length = u64::from(input[*half_at] / 16);
                *half_at = 0;
            }
            if length == 15 {
                length = number(input, pos, 1).ok_or(truncated)?;
                if length == 255 {
                    length = number(input, pos, 2).ok_or(truncated)?;
                    if length == 0 {
                        length = number(input, pos, 4).ok_or(truncated)?;
                    }
                    if length < 15 + 7 {
                        return Err(LzxpressErrorKind::BadLength { length: length as u32 });
                    }
                    length -= 15 + 7;
                }
                length += 15;
            }
            length += 7;
        }
        length += 3;
        if distance > output.len() as u64 {
            return Err(LzxpressErrorKind::BadOffset { distance: distance as u32 });
        }
        for _ in 0..length {
            if output.len() == wanted {
                break;
            }
            output.push(output[output.len() - distance as usize]);
        }
        Ok(())
    }

    let (mut pos, mut half_at, mut flags, mut flag_count) = (0, 0, 0, 0);
    let mut output = Vec::new();
    while output.len() < wanted {
        let start = pos;
        let result = if flag_count == 0 {
            flag_count = 32;
            number(input, &mut pos, 4).map(|word| flags = word).ok_or(LzxpressErrorKind::Truncated)
        } else {
            flag_count -= 1;
            let is_match = flags >> flag_count & 1 == 1;
            item(input, &mut pos, is_match, &mut half_at, &mut output, wanted)
        };
        if let Err(kind) = result {
            let output_len = output.len();
            return (output, Err(LzxpressError { input_offset: start, output_len, kind }));
        }
    }
    (output, Ok(pos))
}

/// Decodes both ways into `wanted` bytes, and checks that they agree. Returns the good bytes.
#[track_caller]
fn check(input: &[u8], wanted: usize, seed: u64) -> (Vec<u8>, Result<usize, LzxpressError>) {
    let mut output = vec![0xa5; wanted];
    let result = decompress(input, &mut output);
    let (slow_output, slow_result) = decompress_slowly(input, wanted);
    assert_eq!(result, slow_result, "seed {seed}");
    if let Err(error) = result {
        output.truncate(error.output_len);
    }
    assert!(output == slow_output, "seed {seed}");
    (output, result)
}

/// The streams of both levels have the same plain bytes. Returns that of [`Level::Small`].
#[track_caller]
fn round_trip(plain: &[u8]) -> Vec<u8> {
    round_trip_at(Level::Fast, plain);
    round_trip_at(Level::Small, plain)
}

#[track_caller]
fn round_trip_at(level: Level, plain: &[u8]) -> Vec<u8> {
    let mut stream = b"kept".to_vec();
    compress(plain, &mut stream, level);
    let stream = stream.strip_prefix(b"kept").expect("compress appends").to_vec();
    assert!(stream.len() <= plain.len() + plain.len() / 8 + 4);
    let mut output = vec![0xa5; plain.len()];
    let consumed = decompress(&stream, &mut output).expect("own stream");
    assert!(output == plain);
    assert!(stream.len() - consumed <= 4, "at most an empty flag word is left");
    if plain.len() < 1000 {
        assert!(decompress_slowly(&stream, plain.len()).0 == plain);
    }
    stream
}

/// Something like trace records: lengths, counters, zeros, repeated names.
fn records(random: &mut Random, size: usize) -> Vec<u8> {
    let names: Vec<Vec<u8>> = (1..12).map(|n| random.bytes(n * 3)).collect();
    let mut bytes = Vec::new();
    while bytes.len() < size {
        bytes.extend((bytes.len() as u32).to_le_bytes());
        bytes.extend(&names[random.below(names.len())]);
        bytes.resize(bytes.len() + random.below(40), 0);
        for _ in 0..random.below(4) {
            bytes.push(random.byte());
        }
    }
    bytes.truncate(size);
    bytes
}

/// A valid stream with items of every kind, and how many bytes it decodes to.
fn random_stream(random: &mut Random, items: usize) -> (Vec<u8>, usize) {
    let mut stream = Stream::new();
    let mut size = 0;
    for _ in 0..items {
        if size == 0 || random.below(2) == 0 {
            let most = [4, 4, 4, 4, 4, 4, 4, 70][random.below(8)];
            for _ in 0..1 + random.below(most) {
                stream.literal(random.byte());
                size += 1;
            }
        }
        let reach = if random.below(2) == 0 { 20 } else { WINDOW };
        let distance = 1 + random.below(size.min(reach));
        let form = [Form::Shortest, Form::Shortest, Form::Shortest, Form::Word16, Form::Word32]
            [random.below(5)];
        let least = if form == Form::Shortest { 3 } else { 25 };
        let spread = [10, 10, 30, 300][random.below(4)];
        let length = least + random.below(spread);
        stream.copy(distance, length as u64, form);
        size += length;
    }
    (stream.bytes, size)
}

#[test]
fn known_streams_decode_to_known_bytes() {
    // By hand from MS-XCA 2.3.4: x, 14 more, y, 14 more; the halves 4 and 4 share a byte.
    let shared = [255, 255, 255, 0x5f, b'x', 7, 0, 0x44, b'y', 7, 0];
    assert_eq!(check(&shared, 30, 0), ([[b'x'; 15], [b'y'; 15]].concat(), Ok(11)));
    let mut stream = Vec::new();
    compress(&[[b'x'; 15], [b'y'; 15]].concat(), &mut stream, Level::Small);
    assert_eq!(stream, shared);
    // Literals alone fill a flag word, so an empty one follows, which a decoder may leave.
    let plain: Vec<u8> = (0..32).collect();
    let stream = round_trip(&plain);
    assert_eq!(stream, [&[0; 4][..], &plain, &[0xff; 4]].concat());
    assert_eq!(check(&stream, 32, 0), (plain, Ok(36)));
}

#[test]
fn compressed_bytes_decompress_to_the_input() {
    let mut random = Random::new(1);
    assert_eq!(round_trip(&[]), [0xff; 4]);
    assert_eq!(round_trip(&[7]), [0xff, 0xff, 0xff, 0x7f, 7]);
    for size in 0..200 {
        round_trip(&vec![size as u8; size]);
        let noise = random.bytes(size);
        round_trip(&noise);
        round_trip(&records(&mut random, size));
    }
    round_trip(&random.bytes(100_000));
    assert!(round_trip(&records(&mut random, 300_000)).len() < 200_000);
    // One match with a 16-bit length.
    assert_eq!(round_trip(&[0x55; 0x1_0000]).len(), 4 + 1 + 2 + 1 + 1 + 2);
    // Repeats at the edge of the window and just beyond, with places that wrap at 2^16.
    for distance in [WINDOW - 1, WINDOW, WINDOW + 1] {
        let noise = random.bytes(distance);
        let stream = round_trip(&noise.repeat(12));
        assert_eq!(stream.len() < distance * 2, distance <= WINDOW, "{distance}");
    }
}

#[test]
fn round_trip_of_every_length_and_small_distance() {
    for distance in 1..40 {
        let noise = Random::new(distance as u64).bytes(distance);
        for length in (0..80).chain([276, 277, 278, 279, 280, 281, 300, 65_537, 65_538, 65_539]) {
            let mut plain: Vec<u8> =
                noise.iter().copied().cycle().take(distance + length).collect();
            plain.extend(b"the end");
            round_trip(&plain);
            if distance > 3 && length > 80 {
                break;
            }
        }
    }
}

#[test]
fn every_length_form_decodes() {
    let forms = [(Form::Shortest, 3), (Form::Word16, 25), (Form::Word32, 25)];
    for (form, least) in forms {
        for length in (least..700).chain([65_537, 65_538, 65_539, 65_540, 200_000]) {
            for distance in [1, 2, 3, 7, 8, 9, 15, 16, 17, 40] {
                let mut stream = Stream::new();
                (0..40).for_each(|byte| stream.literal(byte));
                stream.copy(distance, length, form);
                stream.copy(5, 12, Form::Shortest);
                (0..100).for_each(|byte| stream.literal(byte));
                let size = 40 + length as usize + 12 + 100;
                if length < 700 && distance != 3 && length % 16 > 1 {
                    continue;
                }
                let (_, result) = check(&stream.bytes, size, length);
                assert_eq!(result, Ok(stream.bytes.len()));
            }
        }
    }
    // The longest there is: cut at the end of the output, on 32-bit systems too.
    let mut stream = Stream::new();
    stream.literal(9);
    stream.copy(1, u64::from(u32::MAX) + 3, Form::Word32);
    assert_eq!(check(&stream.bytes, 1000, 0), (vec![9; 1000], Ok(stream.bytes.len())));
}

#[test]
fn compress_takes_bounded_time() {
    let size = 16 << 20;
    let zeros = vec![0; size];
    // Chains of places that agree for just less than a nice match, then differ.
    let mut random = Random::new(3);
    let mut near_misses = Vec::new();
    while near_misses.len() < size / 4 {
        near_misses.extend([0; NICE_LENGTH - 1]);
        near_misses.push(random.byte());
    }
    let start = Instant::now();
    assert!(round_trip(&zeros).len() < 4096);
    round_trip(&near_misses);
    // A few hundred milliseconds where optimised; what is to be caught takes hours.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn a_stream_truncated_anywhere_is_an_error_or_a_prefix() {
    let mut random = Random::new(4);
    let (stream, size) = random_stream(&mut random, 120);
    let mut plain = vec![0; size];
    let consumed = decompress(&stream, &mut plain).expect("valid");
    for end in 0..=stream.len() {
        let (prefix, result) = check(&stream[..end], size, end as u64);
        assert!(plain.starts_with(&prefix));
        match result {
            Ok(at) => assert_eq!((at, prefix.len()), (consumed, size)),
            Err(error) => {
                assert_eq!(error.kind, LzxpressErrorKind::Truncated);
                assert!(end < consumed && error.input_offset <= end);
            }
        }
    }
}

#[test]
fn any_shorter_output_is_a_prefix() {
    let (stream, size) = random_stream(&mut Random::new(5), 60);
    let (plain, _) = check(&stream, size, 0);
    for wanted in 0..size {
        let (prefix, result) = check(&stream, wanted, wanted as u64);
        assert!(result.is_ok() && plain[..wanted] == prefix);
    }
}

#[test]
fn malicious_distance_before_the_start() {
    for literals in [0, 1, 100, 5000] {
        for room in [0, 3, 500] {
            let mut stream = Stream::new();
            (0..literals).for_each(|n| stream.literal(n as u8));
            stream.before_item();
            let input_offset = stream.bytes.len();
            stream.copy(literals + 1, 3, Form::Shortest);
            stream.bytes.extend(vec![0; room]);
            let distance = literals as u32 + 1;
            let kind = LzxpressErrorKind::BadOffset { distance };
            let (_, result) = check(&stream.bytes, literals + 3 + room, 0);
            assert_eq!(result, Err(LzxpressError { input_offset, output_len: literals, kind }));
        }
    }
}

#[test]
fn malicious_length_below_its_form() {
    for stored in 0..30_u32 {
        for (form, room) in
            [Form::Word16, Form::Word32].map(|form| [(form, 0), (form, 500)]).concat()
        {
            let mut stream = Stream::new();
            stream.literal(1);
            // 16-bit 0 is not a length but says that a 32-bit one follows; here that is `room`.
            stream.copy(1, u64::from(stored) + 3, form);
            stream.bytes.extend(vec![0; room]);
            let (_, result) = check(&stream.bytes, 1000, u64::from(stored));
            let bad = LzxpressErrorKind::BadLength { length: stored };
            let truncated = stored == 0 && form == Form::Word16 && room == 0;
            if stored < LONG_LENGTH_MIN && !truncated {
                assert_eq!(result.map_err(|error| error.kind), Err(bad), "{stored}");
            } else {
                assert!(result.is_err_and(|error| error.kind != bad), "{stored}");
            }
        }
    }
}

/// There is nothing unsafe here, so reading or writing outside of the slices would panic.
#[test]
fn malicious_streams_decode_as_the_slow_decoder_does() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..100_000 {
        let random = &mut Random::new(seed);
        let items = 1 + random.below(30);
        let (mut stream, mut size) = random_stream(random, items);
        match seed % 4 {
            // As made, with room for more or less than it holds.
            0 => size = (size + random.below(40)).saturating_sub(random.below(40)),
            // A few bytes or bits changed.
            1 => {
                for _ in 0..1 + random.below(4) {
                    let at = random.below(stream.len());
                    stream[at] = match random.below(3) {
                        0 => random.byte(),
                        1 => stream[at] ^ 1 << random.below(8),
                        _ => [0, 0xff][random.below(2)],
                    };
                }
            }
            // Cut, and continued with something else.
            2 => {
                stream.truncate(random.below(stream.len()));
                let tail = random.below(200);
                stream.extend(random.bytes(tail));
            }
            // Noise, with a start that makes some distances good.
            _ => {
                let count = random.below(300);
                stream = random.bytes(count);
                let zeros = random.below(5) * 36;
                stream.splice(0..0, vec![0; zeros]);
                size = random.below(1500);
            }
        }
        let (_, result) = check(&stream, size.min(4000), seed);
        *if result.is_ok() { &mut good } else { &mut bad } += 1;
    }
    assert!(good > 20_000 && bad > 20_000, "{good} good, {bad} bad");
}

#[test]
fn buffers_of_windows_are_decompressed() {
    const PATH: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/corpus/etl/net452-x64-compressed.etl"
    );
    let Ok(file) = std::fs::read(PATH) else {
        println!("skipped: corpus absent");
        return;
    };
    let (mut buffers, mut left_over) = (0, 0);
    let mut rest = &file[..];
    while let Some(header) = rest.first_chunk() {
        let header = BufferHeader::read(header);
        let (buffer, tail) = rest.split_at(header.buffer_size as usize);
        rest = tail;
        if !header.is_compressed() {
            continue;
        }
        let stream = &buffer[BufferHeader::SIZE..];
        let mut plain = vec![0; header.offset as usize - BufferHeader::SIZE];
        let consumed = decompress(stream, &mut plain).expect("a real buffer");
        match &stream[consumed..] {
            [] => {}
            unread => {
                assert_eq!(unread, [0xff; 4]);
                left_over += 1;
            }
        }
        // Each of them takes long where not optimised.
        if buffers % 16 == 0 {
            assert!(check(stream, plain.len(), 0).0 == plain);
            assert!(round_trip(&plain).len() < stream.len(), "smaller than Windows made it");
        }
        buffers += 1;
    }
    assert_eq!((buffers, left_over), (359, 11));
}

#[test]
fn errors_name_the_offset() {
    let error = decompress(&[0xff, 0xff, 0xff, 0x7f, 1, 8, 0], &mut [0; 9]).unwrap_err();
    let text = "match reaches 2 bytes back, before the start at compressed byte 5, after 1 bytes of output";
    assert_eq!(error.to_string(), text);
    let error = decompress(&[0; 3], &mut [0; 9]).unwrap_err();
    let text = "compressed data ends at compressed byte 0, after 0 bytes of output";
    assert_eq!(error.to_string(), text);
}

/// The length of a match is the same by words, by more bytes at once and byte by byte, wherever it ends and however near the input's end is.
#[test]
fn a_match_has_the_length_that_its_bytes_have() {
    let longest = SHORT + 3 * WIDE;
    for distance in [1, 3, 8, 100] {
        for equal in 0..longest {
            for behind in [0, 1, 7, 8, WIDE, 2 * WIDE] {
                let mut input = vec![7; distance + equal + behind];
                if let Some(different) = input.get_mut(distance + equal) {
                    *different = 8;
                }
                for known in [0, 3, 8].into_iter().filter(|known| *known <= equal) {
                    let found = common_length(&input, distance, distance, known);
                    assert_eq!(found, equal, "distance {distance}, {behind} behind, {known} known");
                }
            }
        }
    }
    let input = vec![7; MATCH_MAX + 100];
    assert_eq!(common_length(&input, 10, 10, 8), MATCH_MAX);
}
