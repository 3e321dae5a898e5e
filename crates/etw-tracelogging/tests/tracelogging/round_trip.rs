//! Blobs that are written and read again.

use etw_tracelogging::{
    Count, Custom, EventMetadata, Field, InType, OutType, ProviderTraits, provider_traits,
};
use etw_types::Guid;

use crate::random::{Event, Part, Random};

fn expected(part: &Part) -> Field<'_> {
    let nothing = Field {
        name: &[],
        in_type: InType::NULL,
        out_type: OutType::NULL,
        count: Count::Scalar,
        custom: None,
        struct_field_count: 0,
        tag: 0,
    };
    match part {
        Part::Field { name, in_type, out_type, count, tag } => Field {
            name,
            in_type: *in_type,
            out_type: *out_type,
            count: *count,
            tag: *tag,
            ..nothing
        },
        Part::Struct { name, field_count, count, tag } => Field {
            name,
            in_type: InType::STRUCT,
            struct_field_count: *field_count,
            count: *count,
            tag: *tag,
            ..nothing
        },
        Part::Custom { name, protocol, schema, tag } => Field {
            name,
            in_type: InType::BINARY,
            custom: Some(Custom { protocol: *protocol, schema }),
            tag: *tag,
            ..nothing
        },
    }
}

#[test]
fn random_metadata_is_read_as_written() {
    for seed in 0..2_000 {
        let event = Event::random(&mut Random(seed));
        let blob = event.encode();
        let metadata = EventMetadata::parse(&blob).unwrap();
        assert_eq!((metadata.name(), metadata.tag()), (&event.name[..], event.tag), "seed {seed}");
        assert_eq!(metadata.as_bytes(), blob, "seed {seed}");
        let fields: Vec<_> = metadata.fields().map(Result::unwrap).collect();
        let parts: Vec<_> = event.parts.iter().map(expected).collect();
        assert_eq!(fields, parts, "seed {seed}");
    }
}

#[test]
fn every_tag_of_one_bit_is_read_as_written() {
    for bit in 0..28 {
        let tag = 1 << bit;
        let event = Event { name: vec![], tag, parts: vec![] };
        let blob = event.encode();
        assert_eq!(EventMetadata::parse(&blob).unwrap().tag(), tag);
        assert_eq!(blob.len(), 4 + (27 - bit) / 7, "tag {tag:#x}");
    }
}

#[test]
fn provider_traits_are_read_as_written() {
    for group in [None, Some(Guid::ZERO), Some(Guid([9; 16]))] {
        let blob = provider_traits("straße", group).unwrap();
        let traits = ProviderTraits::parse(&blob).unwrap();
        assert_eq!(traits.name(), "straße".as_bytes());
        assert_eq!((traits.group(), traits.decode_guid()), (group, None));
        assert_eq!(traits.traits().count(), usize::from(group.is_some()));
    }
}
