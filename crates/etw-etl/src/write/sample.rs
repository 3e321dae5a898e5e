//! A small valid trace with every header type that can be written.

use super::FileBuilder;
use etw_types::{
    CpuTimes, EventRecord, ExtType, ExtendedItems, ExtendedItemsBuf, Guid, HeaderType, Hook, Level,
    MessageFlags, Opcode,
};

/// One record of every header type that [`encode`](super::encode) writes, times 10, 20, 30, … after the start on two
/// CPUs.
pub fn trace() -> Vec<u8> {
    builder().finish()
}

/// The builder behind [`trace`], to go on with.
pub fn builder() -> FileBuilder {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    for (number, header) in HEADERS.into_iter().enumerate() {
        with_record(header, |record| {
            record.order_time = start + 10 * (number as i64 + 1);
            // Every one of them is far smaller than a record may be.
            let _ = file.push(number as u16 % 2, record);
        });
    }
    file
}

/// Every header type with a size of its own.
pub const HEADERS: [HeaderType; 15] = [
    HeaderType::System32,
    HeaderType::System64,
    HeaderType::Compact32,
    HeaderType::Compact64,
    HeaderType::PerfInfo32,
    HeaderType::PerfInfo64,
    HeaderType::Full32,
    HeaderType::Full64,
    HeaderType::Instance32,
    HeaderType::Instance64,
    HeaderType::Event32,
    HeaderType::Event64,
    HeaderType::Message,
    HeaderType::Error,
    HeaderType::Wnode,
];

/// Gives a record of the type with every field that the type can store set to something of its own.
pub fn with_record<R>(header: HeaderType, then: impl FnOnce(&mut EventRecord<'_>) -> R) -> R {
    let payload: Vec<u8> = (1..=21).collect();
    let counters: Vec<u8> = (0..24).map(|byte| byte ^ 0x5a).collect();
    let instance: Vec<u8> = (0x40..0x58).collect();
    let related = Guid::from_u128(0x77);
    let stack: Vec<u8> = [0u64, 0x7ff6_0000_1000, 0x7ff6_0000_2000]
        .iter()
        .flat_map(|frame| frame.to_le_bytes())
        .collect();
    let items = ExtendedItemsBuf::from_items(&[
        (ExtType::RELATED_ACTIVITYID, &related.0),
        (ExtType::STACK_TRACE64, &stack),
        (ExtType::SID, &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]),
    ])
    .unwrap_or_default();
    let mut record = EventRecord::new(header, &payload);
    record.provider = Some(Guid::from_u128(0x1122_3344));
    (record.process_id, record.thread_id) = (Some(100), Some(200));
    record.cpu_times = Some(CpuTimes { kernel: 3, user: 4 });
    record.descriptor.version = 2;
    record.descriptor.opcode = Opcode(36);
    if header.is_kernel() {
        record.hook = Some(Hook(0x0524));
        record.extended = ExtendedItems::counters(true, &counters);
    } else if header.is_classic() {
        record.descriptor.level = Level(3);
        if matches!(header, HeaderType::Instance32 | HeaderType::Instance64) {
            record.extended = ExtendedItems::instance(&instance);
        }
    } else if header.is_event() {
        record.descriptor.id = 7;
        record.descriptor.task = 8;
        record.descriptor.level = Level(4);
        record.descriptor.keyword.0 = 0x8000_0000_0000_0001;
        record.descriptor.channel.0 = 16;
        record.activity_id = Guid::from_u128(0x99);
        record.extended = items.as_items();
    } else if header == HeaderType::Message {
        record.descriptor.id = 11;
        record.message_flags = MessageFlags(0xab);
        record.sequence = Some(12);
    }
    then(&mut record)
}
