//! Metadata and numbers from a seed.

use etw_tracelogging::{Count, InType, MetadataBuilder, OutType};

/// SplitMix64: small, and every seed is good.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn bytes(&mut self, size: usize) -> Vec<u8> {
        (0..size).map(|_| self.next() as u8).collect()
    }

    fn name(&mut self) -> Vec<u8> {
        let size = self.below(12);
        (0..size).map(|_| self.next() as u8 | 1).collect()
    }

    /// A tag: 0 in half of all calls, else with an encoding of one to four bytes.
    pub fn tag(&mut self) -> u32 {
        let mask = [0x0fe0_0000, 0x0fff_c000, 0x0fff_ff80, 0x0fff_ffff, 0, 0, 0, 0][self.below(8)];
        self.next() as u32 & mask
    }

    fn count(&mut self) -> Count {
        match self.below(4) {
            0 => Count::Fixed(self.next() as u16),
            1 => Count::Variable,
            _ => Count::Scalar,
        }
    }
}

/// A field as the builder takes it; what a reader should find.
#[derive(Debug)]
pub enum Part {
    Field { name: Vec<u8>, in_type: InType, out_type: OutType, count: Count, tag: u32 },
    Struct { name: Vec<u8>, field_count: u8, count: Count, tag: u32 },
    Custom { name: Vec<u8>, protocol: u8, schema: Vec<u8>, tag: u32 },
}

#[derive(Debug)]
pub struct Event {
    pub name: Vec<u8>,
    pub tag: u32,
    pub parts: Vec<Part>,
}

impl Event {
    pub fn random(random: &mut Random) -> Event {
        let (name, tag) = (random.name(), random.tag());
        let count = random.below(12);
        let mut parts: Vec<Part> = (0..count).map(|_| Part::random(random)).collect();
        let mut missing = 0;
        for part in &parts {
            missing = usize::saturating_sub(missing, 1) + part.member_count();
        }
        parts.extend((0..missing).map(|_| Part::random_field(random)));
        Event { name, tag, parts }
    }

    pub fn encode(&self) -> Vec<u8> {
        let builder = MetadataBuilder::new(&self.name, self.tag);
        self.parts.iter().fold(builder, |builder, part| part.append(builder)).finish().unwrap()
    }
}

impl Part {
    fn random(random: &mut Random) -> Part {
        match random.below(6) {
            0 => {
                let most = if random.below(8) == 0 { 127 } else { 3 };
                Part::Struct {
                    name: random.name(),
                    field_count: 1 + random.below(most) as u8,
                    count: random.count(),
                    tag: random.tag(),
                }
            }
            1 => {
                let schema_size = random.below(20);
                Part::Custom {
                    name: random.name(),
                    protocol: random.below(32) as u8,
                    schema: random.bytes(schema_size),
                    tag: random.tag(),
                }
            }
            _ => Part::random_field(random),
        }
    }

    fn random_field(random: &mut Random) -> Part {
        // Null, pointer and struct left out; binary has no arrays.
        let in_type = loop {
            match InType(1 + random.below(25) as u8) {
                InType::POINTER | InType::STRUCT => {}
                in_type => break in_type,
            }
        };
        let out_type = OutType(random.below(128) as u8 * random.below(2) as u8);
        let count = if in_type == InType::BINARY { Count::Scalar } else { random.count() };
        Part::Field { name: random.name(), in_type, out_type, count, tag: random.tag() }
    }

    fn member_count(&self) -> usize {
        match self {
            Part::Struct { field_count, .. } => usize::from(*field_count),
            _ => 0,
        }
    }

    fn append(&self, builder: MetadataBuilder) -> MetadataBuilder {
        match self {
            Part::Field { name, in_type, out_type, count, tag } => {
                builder.field(name, *in_type, *out_type, *count, *tag)
            }
            Part::Struct { name, field_count, count, tag } => {
                builder.structure(name, *field_count, *count, *tag)
            }
            Part::Custom { name, protocol, schema, tag } => {
                builder.custom(name, *protocol, schema, *tag)
            }
        }
    }
}
