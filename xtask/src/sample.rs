//! The trace of the README: a small web shop, with one record of every kind that readers have to handle.

use crate::Result;
use etw_etl::write::{FileBuilder, encode};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder, provider_traits};
use etw_types::{
    EVENT_METADATA, EventRecord, ExtType, ExtendedItemsBuf, FileTime, Guid, HeaderType, Hook,
    Level, MessageFlags, Opcode,
};

const SHOP: Guid = Guid::from_u128(0x5b1c7e0a_3d52_4f6b_9a77_1f0e8d2c4b60);
const GROUP: Guid = Guid::from_u128(0x0d9f1c44_6a1b_4e0e_8c55_b7a2d0e4f311);
const STORAGE: Guid = Guid::from_u128(0x91f0c3d2_7e44_4c0b_a6d5_2e8b7f1a9c03);
const WPP: Guid = Guid::from_u128(0x2818ef08_6a54_396f_2244_5a6ea4a98cf0);

/// Builds the trace; its bytes are the same every time.
pub fn trace() -> Result<Vec<u8>> {
    let mut file = FileBuilder::new();
    file.header.logfile.buffer_size = 0x2000;
    file.header.logfile.logger_name = "WebShop".into();
    file.header.logfile.log_file_name = r"C:\traces\webshop.etl".into();
    file.header.logfile.number_of_processors = 4;
    file.header.logfile.events_lost = 2;
    push_header_group(&mut file)?;
    push_schema_records(&mut file)?;
    for order in 0..4 {
        push_order(&mut file, order)?;
    }
    push_undecoded(&mut file)?;
    Ok(file.finish())
}

/// Microseconds after the start.
fn at(file: &FileBuilder, microseconds: i64) -> i64 {
    file.header.start_raw + microseconds * 10
}

fn push_header_group(file: &mut FileBuilder) -> Result<()> {
    let mut masks = [0u32; 9];
    masks[0] = 0x0001_270f;
    masks[8] = 0x46;
    let extension: Vec<u8> = masks.iter().flat_map(|mask| mask.to_le_bytes()).collect();
    for (kind, payload) in [(0x05, &extension[..]), (0x42, b"19041.1.amd64fre.vb_release\0")] {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(kind));
        record.descriptor.version = 2;
        record.order_time = file.header.start_raw;
        let mut bytes = Vec::new();
        encode(&record, &mut bytes)?;
        file.header_records.push(bytes);
    }
    push_partition_info(file)
}

/// A host's own partition: all zero.
fn push_partition_info(file: &mut FileBuilder) -> Result<()> {
    let mut record = EventRecord::new(HeaderType::System64, &[0; 0x30]);
    record.hook = Some(Hook(0x50));
    record.descriptor.version = 2;
    (record.process_id, record.thread_id) = (Some(4), Some(8));
    record.order_time = file.header.start_raw;
    let mut bytes = Vec::new();
    encode(&record, &mut bytes)?;
    file.header_records.push(bytes);
    Ok(())
}

/// A manifest event's TRACE_EVENT_INFO and its value map, as merging adds them to a trace.
fn push_schema_records(file: &mut FileBuilder) -> Result<()> {
    for (kind, payload) in [(33, disk_state_map()), (32, disk_slow_info())] {
        let mut record = EventRecord::new(HeaderType::Full64, &payload);
        record.provider = Some(EVENT_METADATA);
        record.descriptor.opcode = Opcode(kind);
        (record.process_id, record.thread_id) = (Some(4), Some(8));
        record.order_time = at(file, 1);
        file.push(0, &record)?;
    }
    let mut payload = 3u32.to_le_bytes().to_vec();
    payload.extend(1_250_000u64.to_le_bytes());
    payload.extend(2u32.to_le_bytes());
    let mut record = EventRecord::new(HeaderType::Event64, &payload);
    record.provider = Some(STORAGE);
    record.descriptor.id = 17;
    record.descriptor.level = Level::WARNING;
    record.descriptor.keyword.0 = 0x8000_0000_0000_0010;
    (record.process_id, record.thread_id) = (Some(4), Some(96));
    record.order_time = at(file, 2_750);
    file.push(3, &record)?;
    Ok(())
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn disk_state_map() -> Vec<u8> {
    let names = ["DiskState", "Healthy ", "Degraded "];
    let mut strings = Vec::new();
    let offsets: Vec<u32> = names
        .iter()
        .map(|name| {
            let offset = 16 + 2 * 8 + strings.len() as u32;
            strings.extend(wide(name));
            offset
        })
        .collect();
    let mut payload = STORAGE.0.to_vec();
    for word in [offsets[0], 1, 2, 0, offsets[1], 1, offsets[2], 2] {
        payload.extend(word.to_le_bytes());
    }
    payload.extend(strings);
    payload
}

fn disk_slow_info() -> Vec<u8> {
    const PROPERTIES: usize = 3;
    let mut info = vec![0; 0x70 + PROPERTIES * 24];
    let text = |info: &mut Vec<u8>, slot: usize, text: &str| {
        let offset = info.len() as u32;
        info.extend(wide(text));
        info[slot..slot + 4].copy_from_slice(&offset.to_le_bytes());
    };
    info[0..16].copy_from_slice(&STORAGE.0);
    info[0x20..0x22].copy_from_slice(&17u16.to_le_bytes());
    for slot in [0x64, 0x68] {
        info[slot..slot + 4].copy_from_slice(&(PROPERTIES as u32).to_le_bytes());
    }
    text(&mut info, 0x34, "Contoso-Storage");
    text(&mut info, 0x38, "Warning ");
    text(&mut info, 0x44, "Disk ");
    text(&mut info, 0x48, "Slow ");
    text(&mut info, 0x4c, "Disk %1 answered after %2 ns and is now %3. ");
    for (number, (name, in_type, out_type, size)) in
        [("Disk", 8u16, 8u16, 4u16), ("Latency", 10, 10, 8), ("State", 8, 8, 4)].iter().enumerate()
    {
        let start = 0x70 + number * 24;
        text(&mut info, start + 4, name);
        info[start + 8..start + 10].copy_from_slice(&in_type.to_le_bytes());
        info[start + 10..start + 12].copy_from_slice(&out_type.to_le_bytes());
        info[start + 16..start + 18].copy_from_slice(&1u16.to_le_bytes());
        info[start + 18..start + 20].copy_from_slice(&size.to_le_bytes());
    }
    text(&mut info, 0x70 + 2 * 24 + 12, "DiskState");
    info
}

struct Shop<'f> {
    file: &'f mut FileBuilder,
    cpu: u16,
    order: u32,
    activity: Guid,
}

/// The header fields in which the shop's events differ.
struct Head {
    /// After the start.
    microseconds: i64,
    level: Level,
    opcode: Opcode,
    related: Option<Guid>,
}

impl Shop<'_> {
    /// A TraceLogging event of the order's activity.
    fn event(
        &mut self,
        head: Head,
        metadata: MetadataBuilder,
        payload: PayloadBuilder,
    ) -> Result<()> {
        let metadata = metadata.finish()?;
        let payload = payload.finish()?;
        let traits = provider_traits("Contoso.WebShop", Some(GROUP))?;
        let related = head.related.map(|id| id.0);
        let mut items: Vec<(ExtType, &[u8])> = Vec::new();
        if let Some(related) = &related {
            items.push((ExtType::RELATED_ACTIVITYID, related));
        }
        items.push((ExtType::PROV_TRAITS, &traits));
        items.push((ExtType::EVENT_SCHEMA_TL, &metadata));
        let items = ExtendedItemsBuf::from_items(&items)?;
        let mut record = EventRecord::new(HeaderType::Event64, &payload);
        record.extended = items.as_items();
        record.provider = Some(SHOP);
        record.descriptor.channel.0 = 11;
        record.descriptor.level = head.level;
        record.descriptor.opcode = head.opcode;
        record.descriptor.keyword.0 = 0x1;
        record.activity_id = self.activity;
        (record.process_id, record.thread_id) = (Some(4321), Some(5000 + self.order));
        record.cpu_times = Some(etw_types::CpuTimes { kernel: 1, user: 2 });
        record.order_time = at(self.file, head.microseconds);
        self.file.push(self.cpu, &record)?;
        Ok(())
    }
}

/// One order from request to answer: start, cart, payment or failure, stop.
fn push_order(file: &mut FileBuilder, order: u32) -> Result<()> {
    let activity = Guid::from_u128(0x1000_0000_0000_0000_0000_0000_0000_0000 + u128::from(order));
    let start = 100 + i64::from(order) * 700;
    let mut shop = Shop { file, cpu: (order % 4) as u16, order, activity };
    let root = Guid::from_u128(0xf00d);
    shop.event(
        Head {
            microseconds: start,
            level: Level::INFO,
            opcode: Opcode::START,
            related: Some(root),
        },
        MetadataBuilder::new("Request", 0)
            .field("Path", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
            .field("Client", InType::UINT32, OutType::IPV4, Count::Scalar, 0)
            .field("Port", InType::UINT16, OutType::PORT, Count::Scalar, 0),
        PayloadBuilder::new()
            .counted_ansi(format!("/order/{order}").as_bytes())
            .u32(u32::from_le_bytes([192, 0, 2, 10 + order as u8]))
            .u16((50_000 + order as u16).swap_bytes()),
    )?;
    shop.event(
        Head {
            microseconds: start + 120,
            level: Level::VERBOSE,
            opcode: Opcode::INFO,
            related: None,
        },
        cart_metadata(),
        cart_payload(order),
    )?;
    if order == 2 {
        shop.event(
            Head {
                microseconds: start + 400,
                level: Level::ERROR,
                opcode: Opcode::INFO,
                related: None,
            },
            MetadataBuilder::new("PaymentFailed", 0)
                .field("Reason", InType::UNICODESTRING, OutType::NULL, Count::Scalar, 0)
                .field("Error", InType::HEXINT32, OutType::HRESULT, Count::Scalar, 0)
                .field("User", InType::SID, OutType::NULL, Count::Scalar, 0),
            PayloadBuilder::new()
                .utf16_z("card “expired”".encode_utf16())
                .u32(0x8007_0005)
                .sid(&[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0]),
        )?;
    } else {
        let session_start = shop.file.header.logfile.start_time;
        let paid_at = FileTime(session_start.0 + (start + 300) * 10);
        shop.event(
            Head {
                microseconds: start + 300,
                level: Level::INFO,
                opcode: Opcode::INFO,
                related: None,
            },
            MetadataBuilder::new("Paid", 0)
                .field("Amount", InType::DOUBLE, OutType::NULL, Count::Scalar, 0)
                .field("At", InType::FILETIME, OutType::DATETIME_UTC, Count::Scalar, 0)
                .custom("Receipt", 5, &[1, 0], 0),
            PayloadBuilder::new().f64(19.5 + f64::from(order)).filetime(paid_at).binary(&[
                0xa1,
                0x62,
                0x69,
                0x64,
                order as u8,
            ]),
        )?;
    }
    shop.event(
        Head { microseconds: start + 500, level: Level::INFO, opcode: Opcode::STOP, related: None },
        MetadataBuilder::new("Request", 0)
            .field("Status", InType::UINT16, OutType::NULL, Count::Scalar, 0)
            .field("Cached", InType::UINT8, OutType::BOOLEAN, Count::Scalar, 0),
        PayloadBuilder::new().u16(if order == 2 { 402 } else { 200 }).u8(u8::from(order == 3)),
    )
}

/// A struct, an array of structs and an array of numbers.
fn cart_metadata() -> MetadataBuilder {
    MetadataBuilder::new("Cart", 0x0020_0000)
        .structure("Customer", 2, Count::Scalar, 0)
        .field("Id", InType::GUID, OutType::NULL, Count::Scalar, 0)
        .field("Name", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
        .structure("Items", 2, Count::Variable, 0)
        .field("Sku", InType::HEXINT32, OutType::NULL, Count::Scalar, 0)
        .field("Price", InType::FLOAT, OutType::NULL, Count::Scalar, 0)
        .field("Shelves", InType::UINT8, OutType::NULL, Count::Fixed(3), 0)
}

fn cart_payload(order: u32) -> PayloadBuilder {
    let names = ["Ada", "Grace", "Zoë", "Linus"];
    let mut payload = PayloadBuilder::new()
        .guid(Guid::from_u128(0xc0ffee00 + u128::from(order)))
        .counted_ansi(names[order as usize % names.len()].as_bytes())
        .count(2);
    for item in 0..2 {
        payload = payload.u32(0xa100 + order * 16 + item).f32(4.25 * (item + 1) as f32);
    }
    payload.u8(1).u8(2).u8(order as u8)
}

/// A record of the kernel, and a message whose format the trace does not carry.
fn push_undecoded(file: &mut FileBuilder) -> Result<()> {
    let wide =
        |text: &str| text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let payload = [
        &0xffff_8a0c_1020_3040u64.to_le_bytes()[..],
        &4321u32.to_le_bytes(),
        &96u32.to_le_bytes(),
        &1u32.to_le_bytes(),
        &259u32.to_le_bytes(),
        &0x1b27_4000u64.to_le_bytes(),
        &0u32.to_le_bytes(),
        // A pointer and attributes, then S-1-5-18.
        &[0x80; 16],
        &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0],
        b"webshop.exe\0",
        &wide("webshop.exe --port 80"),
        &wide(""),
        &wide(""),
    ]
    .concat();
    let mut process = EventRecord::new(HeaderType::System64, &payload);
    process.hook = Some(Hook(0x0301));
    process.descriptor.version = 4;
    (process.process_id, process.thread_id) = (Some(4), Some(96));
    process.order_time = at(file, 50);
    file.push(1, &process)?;
    let mut message = EventRecord::new(HeaderType::Message, &[7, 0, 0, 0]);
    message.provider = Some(WPP);
    message.descriptor.id = 43;
    message.message_flags = MessageFlags(0xab);
    message.sequence = Some(1);
    (message.process_id, message.thread_id) = (Some(4), Some(244));
    message.order_time = at(file, 2_900);
    file.push(2, &message)?;
    Ok(())
}
