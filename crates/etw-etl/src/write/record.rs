use crate::record::{MESSAGE_HEADER, PEBS_INDEX, TRACE_HEADER, WNODE_TRACED_GUID};
use etw_types::{EventFlags, EventRecord, ExtType, Guid, HeaderType, MessageFlags};
use std::fmt;

/// A record that has no on-disk form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// Longer than the 65535 bytes that its size field can tell.
    TooLarge {
        /// Bytes it would take.
        size: usize,
    },
    /// The buffer has no room for it.
    BufferFull {
        /// Bytes it would take.
        size: usize,
        /// Bytes that are left.
        room: usize,
    },
    /// More than seven performance counters, or bytes that are no whole counters.
    Counters,
    /// This header type cannot be written.
    HeaderType(HeaderType),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::TooLarge { size } => write!(f, "a record of {size} bytes; 65535 fit"),
            EncodeError::BufferFull { size, room } => {
                write!(f, "a record of {size} bytes where a buffer has room for {room}")
            }
            EncodeError::Counters => f.write_str("more than seven performance counters"),
            EncodeError::HeaderType(header) => write!(f, "{header} records cannot be written"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// The on-disk chain of extended items, for [`ExtendedItems::parse_chain`](etw_types::ExtendedItems::parse_chain).
///
/// # Errors
/// `TooLarge` where an item's length does not fit its field.
pub fn extended_chain(items: &[(ExtType, &[u8])]) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Vec::new();
    for (number, (ext_type, data)) in items.iter().enumerate() {
        let size = (8 + data.len()).next_multiple_of(8);
        let total = u16::try_from(size).map_err(|_| EncodeError::TooLarge { size })?;
        let start = bytes.len();
        bytes.extend(total.to_le_bytes());
        bytes.extend(ext_type.0.to_le_bytes());
        bytes.extend(u16::from(number + 1 < items.len()).to_le_bytes());
        bytes.extend((data.len() as u16).to_le_bytes());
        bytes.extend(*data);
        bytes.resize(start + size, 0);
    }
    Ok(bytes)
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
        Event32 => event(record, 0x12, out),
        Event64 => event(record, 0x13, out),
        Error => event(record, 0x0d, out),
        System32 => kernel(record, 0x01, out)?,
        System64 => kernel(record, 0x02, out)?,
        Compact32 => kernel(record, 0x03, out)?,
        Compact64 => kernel(record, 0x04, out)?,
        PerfInfo32 => kernel(record, 0x10, out)?,
        PerfInfo64 => kernel(record, 0x11, out)?,
        Full32 => classic(record, 0x0a, out),
        Full64 => classic(record, 0x14, out),
        Instance32 => classic(record, 0x0b, out),
        Instance64 => classic(record, 0x15, out),
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
    let (kernel, user) = record.cpu_times.unwrap_or((0, 0));
    put(head, at, &kernel.to_le_bytes());
    put(head, at + 4, &user.to_le_bytes());
}

fn event(record: &EventRecord<'_>, kind: u8, out: &mut Vec<u8>) {
    let mut head = [0; 0x50];
    head[2] = kind;
    head[3] = TRACE_HEADER;
    let extended = !record.extended.is_empty() && record.header != HeaderType::Error;
    let flags = record.flags.0 & !EventFlags::EXTENDED_INFO.0 | u16::from(extended);
    put(&mut head, 0x04, &flags.to_le_bytes());
    put(&mut head, 0x06, &record.property.0.to_le_bytes());
    put_ids(&mut head, record);
    put(&mut head, 0x18, &record.provider.unwrap_or(Guid::ZERO).0);
    put(&mut head, 0x28, &record.descriptor.to_bytes());
    put_cpu_times(&mut head, 0x38, record);
    put(&mut head, 0x40, &record.activity_id.0);
    out.extend(head);
    if extended {
        let items: Vec<_> = record.extended.into_iter().map(|i| (i.ext_type, i.data)).collect();
        // Items of a record that was read fit by construction; the record's own size is checked at the end.
        out.extend(extended_chain(&items).unwrap_or_else(|_| vec![0; 0x10000]));
    }
}

fn kernel(record: &EventRecord<'_>, kind: u8, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let size = match kind {
        0x10 | 0x11 => 0x10,
        0x03 | 0x04 => 0x18,
        _ => 0x20,
    };
    let pebs = record.extended.find(ExtType::PEBS_INDEX).unwrap_or_default();
    let counters = record.extended.find(ExtType::PMC_COUNTERS).unwrap_or_default();
    if ![0, 8].contains(&pebs.len()) || !counters.len().is_multiple_of(8) || counters.len() > 7 * 8
    {
        return Err(EncodeError::Counters);
    }
    let mut version = u16::from(record.descriptor.version) | (counters.len() as u16 / 8) << 8;
    version |= if pebs.is_empty() { 0 } else { PEBS_INDEX };
    let mut head = [0; 0x20];
    put(&mut head, 0x00, &version.to_le_bytes());
    head[2] = kind;
    head[3] = TRACE_HEADER;
    put(&mut head, 0x06, &record.hook.map_or(0, |hook| hook.0).to_le_bytes());
    if size == 0x10 {
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

fn classic(record: &EventRecord<'_>, kind: u8, out: &mut Vec<u8>) {
    let mut head = [0; 0x48];
    head[2] = kind;
    head[3] = TRACE_HEADER;
    head[4] = record.descriptor.opcode.0;
    head[5] = record.descriptor.level.0;
    head[6] = record.descriptor.version;
    put_ids(&mut head, record);
    put(&mut head, 0x18, &record.provider.unwrap_or(Guid::ZERO).0);
    put_cpu_times(&mut head, 0x28, record);
    let instance = record.extended.find(ExtType::INSTANCE_INFO).unwrap_or_default();
    let taken = instance.len().min(0x18);
    put(&mut head, 0x30, &instance[..taken]);
    let full = matches!(kind, 0x0a | 0x14);
    out.extend(&head[..if full { 0x30 } else { 0x48 }]);
}

fn message(record: &EventRecord<'_>, out: &mut Vec<u8>) {
    let flags = record.message_flags;
    out.extend([0, 0, 0, MESSAGE_HEADER]);
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
    let mut head = [0; 0x30];
    put(&mut head, 0x10, &record.order_time.to_le_bytes());
    put(&mut head, 0x18, &record.provider.unwrap_or(Guid::ZERO).0);
    put(&mut head, 0x2c, &WNODE_TRACED_GUID.to_le_bytes());
    out.extend(head);
}
