//! The peer beside `etw dump`: babeltrace2 on a trace as LTTng-UST writes it, and the same events in a trace of ours.
//!
//! This module writes the trace, so no session has to run: CTF 1.8 with LTTng's packet header, packet context, compact
//! event header and process ids, and events of an integer and a string of 32 characters.

use crate::Result;
use etw_etl::write::FileBuilder;
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder, provider_traits};
use etw_types::{EventRecord, ExtType, ExtendedItemsBuf, Guid, HeaderType};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const MAGIC: u32 = 0xc1fc_1fc1;
const PACKET_SIZE: usize = 1 << 18;
const CPUS: u32 = 4;
const TEXT: &[u8; 32] = b"an order of thirty-two character";
const PROVIDER: Guid = Guid::from_u128(0x4b6f_2f1c_5a0d_4c57_9a50_1d0a_6d27_9b10);

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace {
    major = 1; minor = 8; byte_order = le;
    packet.header := struct { uint32_t magic; uint32_t stream_id; };
};
env { domain = "ust"; tracer_name = "lttng-ust"; tracer_major = 2; tracer_minor = 13; };
clock { name = "monotonic"; freq = 1000000000; offset = 1767323045000000000; };
typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := uint27_clock_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := uint64_clock_t;
stream {
    id = 0;
    packet.context := struct {
        uint64_clock_t timestamp_begin; uint64_clock_t timestamp_end;
        uint64_t content_size; uint64_t packet_size; uint64_t events_discarded; uint32_t cpu_id;
    };
    event.header := struct {
        enum : integer { size = 5; align = 1; signed = false; } { compact = 0 ... 30, extended = 31 } id;
        variant <id> {
            struct { uint27_clock_t timestamp; } compact;
            struct { uint32_t id; uint64_clock_t timestamp; } extended;
        } v;
    };
    event.context := struct { int32_t _vpid; int32_t _vtid; };
};
event { name = "shop:order"; id = 0; stream_id = 0; fields := struct { int32_t _number; string _text; }; };
"#;

/// Returns whether babeltrace2 can be run.
pub fn is_installed() -> bool {
    let command = Command::new("babeltrace2").arg("--version").stdout(Stdio::null()).status();
    command.is_ok_and(|status| status.success())
}

/// Writes a trace of at least `events` events into a folder and returns their number.
pub fn make(folder: &Path, events: u64) -> Result<u64> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("metadata"), METADATA)?;
    let each = events.div_ceil(u64::from(CPUS));
    for cpu in 0..CPUS {
        let mut out = BufWriter::new(File::create(folder.join(format!("channel0_{cpu}")))?);
        let mut number = 0;
        while number < each {
            out.write_all(&packet(cpu, &mut number, each))?;
        }
        out.flush()?;
    }
    Ok(each * u64::from(CPUS))
}

/// A packet with as many events as fit, from `number` on.
fn packet(cpu: u32, number: &mut u64, end: u64) -> Vec<u8> {
    // Each CPU has an event every microsecond, 200 ns after its neighbour.
    let time = |number: u64| number * 1000 + u64::from(cpu) * 200;
    let first = *number;
    let mut events = Vec::with_capacity(PACKET_SIZE);
    while *number < end && events.len() < PACKET_SIZE - 128 {
        let header = (time(*number) as u32) << 5;
        events.extend(header.to_le_bytes());
        events.extend(4321u32.to_le_bytes());
        events.extend((5000 + cpu).to_le_bytes());
        events.extend((*number as u32).to_le_bytes());
        events.extend(TEXT.iter().chain(&[0]));
        *number += 1;
    }
    let size = 8 + 5 * 8 + 4 + events.len();
    let mut packet = Vec::with_capacity(size);
    packet.extend(MAGIC.to_le_bytes());
    packet.extend(0u32.to_le_bytes());
    let bits = size as u64 * 8;
    for word in [time(first), time(*number - 1), bits, bits, 0] {
        packet.extend(word.to_le_bytes());
    }
    packet.extend(cpu.to_le_bytes());
    packet.extend(events);
    packet
}

/// Writes the same events into a trace of ours.
pub fn make_ours(path: &Path, events: u64) -> Result<()> {
    let metadata = MetadataBuilder::new("order", 0)
        .field("number", InType::INT32, OutType::NULL, Count::Scalar, 0)
        .field("text", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
        .finish()?;
    let mut items = ExtendedItemsBuf::new();
    items.push(ExtType::PROV_TRAITS, &provider_traits("shop", None)?)?;
    items.push(ExtType::EVENT_SCHEMA_TL, &metadata)?;
    let mut file = FileBuilder::new();
    file.header.logfile.number_of_processors = CPUS;
    for number in 0..events {
        let cpu = number as u32 % CPUS;
        let own = number / u64::from(CPUS);
        let payload = PayloadBuilder::new().u32(own as u32).counted_ansi(TEXT).finish()?;
        let mut record = EventRecord::new(HeaderType::Event64, &payload);
        record.provider = Some(PROVIDER);
        (record.process_id, record.thread_id) = (Some(4321), Some(5000 + cpu));
        record.extended = items.as_items();
        // In units of 100 ns, of which the clock of the file is.
        record.order_time = file.header.start_raw + own as i64 * 10 + i64::from(cpu) * 2;
        file.push(cpu as u16, &record)?;
    }
    Ok(std::fs::write(path, file.finish())?)
}

/// Events that babeltrace2 finds in the trace.
pub fn count(folder: &Path) -> Result<u64> {
    let output = Command::new("babeltrace2").arg(folder).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(output.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64)
}

/// Seconds to print the trace as text to /dev/null.
pub fn text(folder: &Path) -> Result<f64> {
    let start = Instant::now();
    let mut command = Command::new("babeltrace2");
    let status = command.arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("babeltrace2: {status}").into());
    }
    Ok(start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_its_size_in_bits() {
        let mut number = 0;
        let first = packet(1, &mut number, 10_000);
        assert!(first.len() <= PACKET_SIZE && number > 1_000);
        assert_eq!(first[24..32], (first.len() as u64 * 8).to_le_bytes());
        assert_eq!((first.len() - 52) as u64, number * 49);
    }
}
