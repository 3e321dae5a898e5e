//! Reading: records in time order, decoded fields, and compressed buffers.

use std::error::Error;
use std::hint::black_box;

use etw_decode::Decoder;
use etw_etl::lzxpress::{self, compress};
use etw_etl::read::{Records, TraceFile};
use etw_etl::relog::{Relog, RelogOptions};
use etw_etl::write::FileBuilder;
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder, provider_traits};
use etw_types::{EventRecord, ExtType, ExtendedItemsBuf, FileTime, Guid, HeaderType, Hook, Level};

use crate::callgrind::measure;

const PROVIDER: Guid = Guid::from_u128(0x5b1c7e0a_3d52_4f6b_9a77_1f0e8d2c4b61);
const RECORDS: u32 = 10_000;
const CPUS: u32 = 4;
/// Fields in each decoded event.
const FIELDS: u32 = 8;

/// Metadata and payload of one event.
pub struct Body {
    pub metadata: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Body {
    /// A request of a web server.
    pub fn request(name: &str, number: u32) -> Result<Body, Box<dyn Error>> {
        let metadata = MetadataBuilder::new(name, 0)
            .field("Path", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
            .field("Client", InType::UINT32, OutType::IPV4, Count::Scalar, 0)
            .field("Status", InType::UINT16, OutType::NULL, Count::Scalar, 0)
            .field("Milliseconds", InType::DOUBLE, OutType::NULL, Count::Scalar, 0)
            .field("Agent", InType::UNICODESTRING, OutType::NULL, Count::Scalar, 0)
            .finish()?;
        let payload = PayloadBuilder::new()
            .counted_ansi(format!("/order/{}", number % 1000).as_bytes())
            .u32(u32::from_le_bytes([192, 0, 2, number as u8]))
            .u16(if number.is_multiple_of(10) { 404 } else { 200 })
            .f64(0.25 + f64::from(number % 500))
            .utf16_z("Mozilla/5.0 \"quoted\"".encode_utf16())
            .finish()?;
        Ok(Body { metadata, payload })
    }

    /// An event with fields of one kind.
    fn of(in_type: InType, out_type: OutType, value: &[u8]) -> Result<Body, Box<dyn Error>> {
        let mut metadata = MetadataBuilder::new("Fields", 0);
        for name in &["a", "b", "c", "d", "e", "f", "g", "h"][..FIELDS as usize] {
            metadata = metadata.field(*name, in_type, out_type, Count::Scalar, 0);
        }
        Ok(Body { metadata: metadata.finish()?, payload: value.repeat(FIELDS as usize) })
    }

    pub fn items(&self) -> Result<ExtendedItemsBuf, Box<dyn Error>> {
        let mut items = ExtendedItemsBuf::new();
        items.push(ExtType::PROV_TRAITS, &provider_traits("OpenEtw.Budgets", None)?)?;
        items.push(ExtType::EVENT_SCHEMA_TL, &self.metadata)?;
        Ok(items)
    }
}

pub fn record<'a>(payload: &'a [u8], items: &'a ExtendedItemsBuf) -> EventRecord<'a> {
    let mut record = EventRecord::new(HeaderType::Event64, payload);
    record.provider = Some(PROVIDER);
    record.descriptor.level = Level::INFO;
    (record.process_id, record.thread_id) = (Some(4000), Some(4002));
    record.extended = items.as_items();
    record
}

/// A trace of requests on four processors.
pub fn trace(records: u32, compressed: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut file = FileBuilder::new();
    file.compressed = compressed;
    put_requests(&mut file, records, CPUS)?;
    Ok(file.finish())
}

/// Adds requests on so many processors.
pub fn put_requests(file: &mut FileBuilder, records: u32, cpus: u32) -> Result<(), Box<dyn Error>> {
    file.header.logfile.number_of_processors = cpus;
    for number in 0..records {
        let body = Body::request("Request", number)?;
        let items = body.items()?;
        let mut record = record(&body.payload, &items);
        record.order_time = file.header.start_raw + 100 + i64::from(number) * 37;
        // Runs of a few records of one processor, as traces have them.
        file.push((number / 3 % cpus) as u16, &record)?;
    }
    Ok(())
}

fn push_kernel(
    file: &mut FileBuilder,
    (cpu, time): (u32, i64),
    hook: u16,
    payload: &[u8],
) -> Result<(), Box<dyn Error>> {
    let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
    record.hook = Some(Hook(hook));
    record.descriptor.version = if hook == 0x0503 { 3 } else { 2 };
    record.order_time = time;
    Ok(file.push(cpu as u16, &record)?)
}

/// A trace of a system: threads, then switches, samples with stacks, and page faults, which belong to the threads that ran; every other record is
/// a request.
pub fn system_trace(records: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    const THREADS: u32 = 64;
    let mut file = FileBuilder::new();
    file.header.logfile.number_of_processors = CPUS;
    let start = file.header.start_raw;
    let process_of = |thread: u32| 1000 + thread / 4;
    for thread in 1..=THREADS {
        let ids = [process_of(thread), thread].map(u32::to_le_bytes).concat();
        let at = (0, start + i64::from(thread));
        push_kernel(&mut file, at, 0x0503, &[&ids[..], &[0; 64]].concat())?;
    }
    let body = Body::request("Request", 1)?;
    let items = body.items()?;
    let mut ran = [0; CPUS as usize];
    for number in 0..records / 2 {
        let time = start + 1000 + i64::from(number) * 37;
        let cpu = number / 4 % CPUS;
        let thread = 1 + number / 4 % THREADS;
        let ids = |first: u32, second: u32| [first, second].map(u32::to_le_bytes).concat();
        let (hook, payload) = match number % 4 {
            0 => {
                let old = std::mem::replace(&mut ran[cpu as usize], thread);
                (0x0524, [&ids(thread, old)[..], &[0; 16]].concat())
            }
            1 => (0x0f2e, [&[8; 8], &ids(thread, 0)[..]].concat()),
            2 => {
                let of_sample = (time - 37).to_le_bytes();
                (0x1820, [&of_sample, &ids(process_of(thread), thread)[..], &[9; 80]].concat())
            }
            _ => (0x020b, vec![7; 16]),
        };
        push_kernel(&mut file, (cpu, time), hook, &payload)?;
        let mut request = record(&body.payload, &items);
        request.order_time = time + 1;
        file.push(cpu as u16, &request)?;
    }
    Ok(file.finish())
}

fn read(name: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let mut records = Records::new(vec![TraceFile::from_bytes("x.etl", bytes.to_vec())?]);
    // In place, as the commands read.
    let mut read_next = || {
        let stored = records.next_stored().map(|stored| _ = black_box(stored.record(&mut None)));
        u32::from(stored.is_some())
    };
    for _ in 0..100 {
        read_next();
    }
    let mut left = RECORDS - 1000;
    measure(name, left, |count| {
        for _ in 0..count {
            left -= read_next();
        }
    });
    if left == 0 { Ok(()) } else { Err(format!("{left} records are missing").into()) }
}

fn decode(name: &str, body: &Body) -> Result<(), Box<dyn Error>> {
    let items = body.items()?;
    let record = record(&body.payload, &items);
    let mut decoder = Decoder::new();
    let mut walk = |count: u32| {
        let decodes = |_: &u32| {
            let record = black_box(&record);
            decoder.decode(record).visit(record, &mut ()).is_ok_and(|has_schema| has_schema)
        };
        (0..count).filter(decodes).count()
    };
    walk(10);
    let mut walked = 0;
    measure(name, 1000 * FIELDS, |fields| walked = walk(fields / FIELDS));
    if walked == 1000 { Ok(()) } else { Err(format!("{name}: {walked} events decoded").into()) }
}

pub fn run() -> Result<(), Box<dyn Error>> {
    let plain = trace(RECORDS, false)?;
    read("merged record / record", &plain)?;
    read("merged record, compressed / record", &trace(RECORDS, true)?)?;

    let time = FileTime(134_117_966_450_000_000).0.to_le_bytes();
    let guid = PROVIDER.0;
    for (name, in_type, out_type, value) in [
        ("decoded i32 / field", InType::INT32, OutType::NULL, &[1, 2, 3, 4][..]),
        ("decoded u64 / field", InType::UINT64, OutType::NULL, &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("decoded double / field", InType::DOUBLE, OutType::NULL, &[0, 0, 0, 0, 0, 0, 8, 64]),
        ("decoded bool / field", InType::BOOL32, OutType::NULL, &[1, 0, 0, 0]),
        ("decoded GUID / field", InType::GUID, OutType::NULL, &guid),
        ("decoded FILETIME / field", InType::FILETIME, OutType::NULL, &time),
        (
            "decoded UTF-8 text / field",
            InType::COUNTEDANSISTRING,
            OutType::UTF8,
            b"\x0a\x00/order/123",
        ),
        (
            "decoded UTF-16 text / field",
            InType::UNICODESTRING,
            OutType::NULL,
            b"o\0r\0d\0e\0r\0s\0\0\0",
        ),
        ("decoded binary / field", InType::BINARY, OutType::NULL, b"\x04\0\x01\x02\x03\x04"),
        ("decoded IPv4 address / field", InType::UINT32, OutType::IPV4, &[192, 0, 2, 1]),
    ] {
        decode(name, &Body::of(in_type, out_type, value)?)?;
    }

    let buffer = plain.get(0x10000..0x20000).ok_or("a trace without a second buffer")?;
    let mut out = Vec::new();
    compress(buffer, &mut out, lzxpress::Level::default());
    measure("compressed byte / byte", 0x10000, |_| {
        out.clear();
        compress(black_box(buffer), &mut out, lzxpress::Level::default());
    });
    for (name, compressed) in
        [("rewritten record / record", false), ("rewritten record, compressed / record", true)]
    {
        let mut options = RelogOptions::default();
        options.compressed = compressed;
        let file = TraceFile::from_bytes("x.etl", plain.clone())?;
        let mut relog = Relog::new(vec![file], options)?;
        let mut result = Ok(());
        measure(name, RECORDS, |_| result = relog.run(std::io::empty(), |_| ()).map(|_| ()));
        result?;
    }
    Ok(())
}
