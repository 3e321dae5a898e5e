//! Blobs that no honest writer makes: read to an error or an end, without a panic.

use etw_tracelogging::{EventMetadata, InType, ProviderTraits};

use crate::random::{Event, Random};

/// Reads everything there is; the count of fields or traits is bounded by the bytes.
fn exhaust(blob: &[u8], seed: u64) {
    if let Ok(metadata) = EventMetadata::parse(blob) {
        assert!(metadata.tag() < 1 << 28, "seed {seed}");
        assert!(metadata.fields().take(blob.len()).count() < blob.len(), "seed {seed}");
        for error in metadata.fields().filter_map(Result::err) {
            assert!(error.offset <= blob.len() && !error.to_string().is_empty(), "seed {seed}");
        }
    }
    if let Ok(traits) = ProviderTraits::parse(blob) {
        assert!(traits.traits().take(blob.len()).count() < blob.len(), "seed {seed}");
        let _ = (traits.group(), traits.decode_guid());
    }
    for number in 0..32 {
        if let Some((value, rest)) = InType(number).split(blob) {
            assert!(value.len() + rest.len() <= blob.len(), "seed {seed}");
        }
    }
}

fn set_size(blob: &mut [u8], size: usize) {
    blob[..2].copy_from_slice(&(size as u16).to_le_bytes());
}

#[test]
fn malicious_random_blobs() {
    for seed in 0..50_000 {
        let mut random = Random(seed);
        let size = 4 + random.below(60);
        let mut blob = random.bytes(size);
        if random.below(8) != 0 {
            set_size(&mut blob, size);
        }
        if random.below(2) == 0 {
            // Random bytes alone seldom end a name.
            for byte in &mut blob[2..] {
                if random.below(4) == 0 {
                    *byte = 0;
                }
            }
        }
        exhaust(&blob, seed);
    }
}

#[test]
fn malicious_mutated_blobs() {
    for seed in 0..50_000 {
        let mut random = Random(seed);
        let mut blob = Event::random(&mut Random(seed % 500)).encode();
        for _ in 0..1 + random.below(4) {
            let at = random.below(blob.len());
            match random.below(4) {
                0 => blob[at] = random.next() as u8,
                1 => blob[at] ^= 1 << random.below(8),
                2 => blob.truncate(4.max(at)),
                _ => blob.insert(at, random.next() as u8),
            }
        }
        if random.below(4) != 0 {
            let size = blob.len();
            set_size(&mut blob, size);
        }
        exhaust(&blob, seed);
    }
}

#[test]
fn malicious_cut_at_every_byte() {
    for seed in 0..50 {
        let blob = Event::random(&mut Random(seed)).encode();
        for size in 0..blob.len() {
            assert!(EventMetadata::parse(&blob[..size]).is_err(), "seed {seed}");
            let mut cut = blob[..size].to_vec();
            if size >= 2 {
                set_size(&mut cut, size);
                exhaust(&cut, seed);
            }
        }
    }
}

#[test]
fn malicious_largest_blobs() {
    for filler in [0, 0x01, 0x60, 0x80, 0xff] {
        let mut blob = vec![filler; 65535];
        set_size(&mut blob, 65535);
        exhaust(&blob, u64::from(filler));
    }
}
