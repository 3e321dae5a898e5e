//! Records in their on-disk form.

use crate::record::{PEBS_INDEX, WNODE_TRACED_GUID};
use etw_types::{
    CpuTimes, EventFlags, EventRecord, ExtType, ExtendedItemsBuf, Guid, HeaderType, ItemTooLarge,
    MessageFlags,
};
use std::fmt;

/// Why a record cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// Longer than 65,535 bytes, the maximum of its size field.
    TooLarge {
        /// Bytes it would take.
        size: usize,
    },
    /// The buffer has too few free bytes.
    BufferFull {
        /// Bytes it would take.
        size: usize,
        /// Free bytes.
        room: usize,
    },
    /// More than seven performance counters, or an incomplete counter.
    Counters,
    /// This header type cannot be written.
    HeaderType(HeaderType),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::TooLarge { size } => {
                write!(f, "record of {size} bytes: the maximum is 65535")
            }
            EncodeError::BufferFull { size, room } => {
                write!(f, "record of {size} bytes: the buffer has only {room} free")
            }
            EncodeError::Counters => f.write_str("more than seven performance counters"),
            EncodeError::HeaderType(header) => write!(f, "{header} records cannot be written"),
        }
    }
}

impl std::error::Error for EncodeError {}

impl From<ItemTooLarge> for EncodeError {
    fn from(error: ItemTooLarge) -> EncodeError {
        EncodeError::TooLarge { size: error.data_size }
    }
}

/// Appends a record in its on-disk form, unpadded.
///
/// A FULL or INSTANCE record takes type, level and version from its descriptor, a kernel record its hook and version.
///
/// # Errors
/// `TooLarge`; `out` is then as it was.
pub fn encode(record: &EventRecord<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    use HeaderType::*;
    let start = out.len();
    match record.header {
        Event32 | Event64 | Error => event(record, out)?,
        System32 | System64 | Compact32 | Compact64 | PerfInfo32 | PerfInfo64 => {
            kernel(record, out)?
        }
        Full32 | Full64 | Instance32 | Instance64 => classic(record, out),
        Message => message(record, out),
        Wnode => wnode(record, out),
        other => return Err(EncodeError::HeaderType(other)),
    }
    out.extend(record.payload);
    let size = out.len() - start;
    let limit = if record.header == Wnode { u32::MAX as usize >> 1 } else { 0xffff };
    if size > limit {
        out.truncate(start);
        return Err(EncodeError::TooLarge { size });
    }
    if record.header == Wnode {
        out[start..start + 4].copy_from_slice(&(size as u32).to_le_bytes());
    } else {
        let size_at = start + if record.header.is_kernel() { 4 } else { 0 };
        out[size_at..size_at + 2].copy_from_slice(&(size as u16).to_le_bytes());
    }
    Ok(())
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put_ids(head: &mut [u8], record: &EventRecord<'_>) {
    put(head, 0x08, &record.thread_id.unwrap_or(0).to_le_bytes());
    put(head, 0x0c, &record.process_id.unwrap_or(0).to_le_bytes());
    put(head, 0x10, &record.order_time.to_le_bytes());
}

fn put_cpu_times(head: &mut [u8], at: usize, record: &EventRecord<'_>) {
    let CpuTimes { kernel, user } = record.cpu_times.unwrap_or_default();
    put(head, at, &kernel.to_le_bytes());
    put(head, at + 4, &user.to_le_bytes());
}

fn event(record: &EventRecord<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut header = record.event_header();
    let extended = !record.extended.is_empty() && record.header != HeaderType::Error;
    header.flags =
        record.flags.without(EventFlags::EXTENDED_INFO) | EventFlags::EXTENDED_INFO.when(extended);
    let mut items = ExtendedItemsBuf::new();
    if extended {
        for item in record.extended {
            items.push(item.ext_type, item.data)?;
        }
    }
    out.extend(header.to_bytes());
    out.extend(items.as_bytes());
    Ok(())
}

fn kernel(record: &EventRecord<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let size = record.header.header_size();
    let pebs = record.extended.find(ExtType::PEBS_INDEX).unwrap_or_default();
    let counters = record.extended.find(ExtType::PMC_COUNTERS).unwrap_or_default();
    if ![0, 8].contains(&pebs.len()) || counters.len() % 8 != 0 || counters.len() > 7 * 8 {
        return Err(EncodeError::Counters);
    }
    let mut version = u16::from(record.descriptor.version) | (counters.len() as u16 / 8) << 8;
    version |= if pebs.is_empty() { 0 } else { PEBS_INDEX };
    let mut head = [0; HeaderType::System64.header_size()];
    put(&mut head, 0x00, &version.to_le_bytes());
    head[2] = record.header.number();
    head[3] = HeaderType::MARKER;
    put(&mut head, 0x06, &record.hook.map_or(0, |hook| hook.0).to_le_bytes());
    if matches!(record.header, HeaderType::PerfInfo32 | HeaderType::PerfInfo64) {
        put(&mut head, 0x08, &record.order_time.to_le_bytes());
    } else {
        put_ids(&mut head, record);
        put_cpu_times(&mut head, 0x18, record);
    }
    out.extend(&head[..size]);
    out.extend(pebs);
    out.extend(counters);
    Ok(())
}

fn classic(record: &EventRecord<'_>, out: &mut Vec<u8>) {
    let mut head = [0; HeaderType::Instance64.header_size()];
    head[2] = record.header.number();
    head[3] = HeaderType::MARKER;
    head[4] = record.descriptor.opcode.0;
    head[5] = record.descriptor.level.0;
    head[6] = record.descriptor.version;
    put_ids(&mut head, record);
    put(&mut head, 0x18, &record.provider.unwrap_or(Guid::ZERO).0);
    put_cpu_times(&mut head, 0x28, record);
    let instance = record.extended.find(ExtType::INSTANCE_INFO).unwrap_or_default();
    let taken = instance.len().min(0x18);
    put(&mut head, 0x30, &instance[..taken]);
    out.extend(&head[..record.header.header_size()]);
}

fn message(record: &EventRecord<'_>, out: &mut Vec<u8>) {
    let flags = record.message_flags;
    out.extend([0, 0, 0, HeaderType::MESSAGE_MARKER]);
    out.extend(record.descriptor.id.to_le_bytes());
    out.extend(flags.0.to_le_bytes());
    if flags.contains(MessageFlags::SEQUENCE) {
        out.extend(record.sequence.unwrap_or(0).to_le_bytes());
    }
    if flags.contains(MessageFlags::COMPONENT_ID) {
        out.extend(record.component_id.unwrap_or(0).to_le_bytes());
    } else if flags.contains(MessageFlags::GUID) {
        out.extend(record.provider.unwrap_or(Guid::ZERO).0);
    }
    if flags.contains(MessageFlags::TIMESTAMP) {
        out.extend(record.order_time.to_le_bytes());
    } else if flags.contains(MessageFlags::PERFORMANCE_TIMESTAMP) {
        out.extend([0; 8]);
    }
    if flags.contains(MessageFlags::SYSTEM_INFO) {
        out.extend(record.thread_id.unwrap_or(0).to_le_bytes());
        out.extend(record.process_id.unwrap_or(0).to_le_bytes());
    }
}

fn wnode(record: &EventRecord<'_>, out: &mut Vec<u8>) {
    let mut head = [0; HeaderType::Wnode.header_size()];
    put(&mut head, 0x10, &record.order_time.to_le_bytes());
    put(&mut head, 0x18, &record.provider.unwrap_or(Guid::ZERO).0);
    put(&mut head, 0x2c, &WNODE_TRACED_GUID.to_le_bytes());
    out.extend(head);
}
