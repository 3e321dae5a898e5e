//! Classic events on disk.
//!
//! ```text
//! FULL      00 u16 size   02 u8 14 (0A of 32 bits)   03 u8 C0   04 u8 type   05 u8 level   06 u16 version
//!           08 u32 thread   0C u32 process   10 i64 time   18 GUID class   28 u32 u32 times of the thread, 0   30 payload
//! INSTANCE  as FULL with 15 (0B), then 30 u32 instance   34 u32 its parent   38 GUID of the parent's class   48 payload
//! SYSTEM    00 u16 version   02 u8 02   03 u8 C0   04 u16 size   06 u16 hook   08 u32 thread   0C u32 process
//!           10 i64 time   18 u32 u32 times of the thread, 0   20 payload
//! PERFINFO  00 u16 version   02 u8 11   03 u8 C0   04 u16 size   06 u16 hook   08 i64 time   10 payload
//! MESSAGE   00 u16 size   02 u8 0   03 u8 90   04 u16 number   06 u16 flags   08, each if its flag is set:
//!           u32 sequence number, u32 component id or GUID, i64 time, u32 thread and u32 process; payload
//! ```
//!
//! Source: the documentation of `EVENT_TRACE_HEADER` and `EVENT_INSTANCE_GUID_HEADER`; MESSAGE as published decoders read it.

use etw_types::{Classic, ClassicHeader, Guid, HeaderType, KernelClass, MessageFlags, MessageId};

use crate::copy::copy;
use crate::event::Event;

const TRACE_HEADER: u8 = 0xc0;
const MESSAGE: u8 = 0x90;

/// The offset of a message's sequence number.
pub(crate) const SEQUENCE: std::ops::Range<usize> = 8..12;

/// True if the session numbers the message.
pub(crate) fn is_numbered(classic: &Classic) -> bool {
    match &classic.header {
        ClassicHeader::Message { flags, .. } => flags.contains(MessageFlags::SEQUENCE),
        _ => false,
    }
}

/// Writes the event to the front of `out`, which has at least its size rounded up to eight bytes. A sequence number stays 0.
#[inline(never)]
pub(crate) fn encode(event: &Event<'_>, time: i64, classic: &Classic, out: &mut [u8]) {
    if let ClassicHeader::System(class) | ClassicHeader::PerfInfo(class) = &classic.header {
        let has_ids = matches!(classic.header, ClassicHeader::System(_));
        let ids = KernelIds { thread: event.thread_id, process: event.process_id };
        return encode_kernel(class, has_ids.then_some(ids), time, event.payload, out);
    }
    let size = event.size(&[]);
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    let (thread, process) = (event.thread_id.to_le_bytes(), event.process_id.to_le_bytes());
    let instance = match &classic.header {
        ClassicHeader::Trace(class) => Some((class, None)),
        ClassicHeader::Instance { class, instance, parent_instance, parent } => {
            Some((class, Some((instance, parent_instance, parent))))
        }
        _ => None,
    };
    put(&(size as u16).to_le_bytes());
    if let Some((class, instance)) = instance {
        let kind = match (instance.is_some(), classic.is_32_bit) {
            (false, false) => 0x14,
            (false, true) => 0x0a,
            (true, false) => 0x15,
            (true, true) => 0x0b,
        };
        put(&[kind, TRACE_HEADER, class.kind, class.level.0]);
        put(&class.version.to_le_bytes());
        put(&thread);
        put(&process);
        put(&time.to_le_bytes());
        put(&class.guid.0);
        put(&[0; 8]);
        if let Some((instance, parent_instance, parent)) = instance {
            put(&instance.to_le_bytes());
            put(&parent_instance.to_le_bytes());
            put(&parent.0);
        }
    } else if let ClassicHeader::Message { flags, id, number } = &classic.header {
        let id_flag = match id {
            MessageId::None => MessageFlags(0),
            MessageId::Guid(_) => MessageFlags::GUID,
            MessageId::Component(_) => MessageFlags::COMPONENT_ID,
        };
        let width =
            if classic.is_32_bit { MessageFlags::POINTER32 } else { MessageFlags::POINTER64 };
        put(&[0, MESSAGE]);
        put(&number.to_le_bytes());
        put(&(flags.0 | id_flag.0 | width.0).to_le_bytes());
        if flags.contains(MessageFlags::SEQUENCE) {
            put(&[0; 4]);
        }
        match id {
            MessageId::None => {}
            MessageId::Guid(Guid(guid)) => put(guid),
            MessageId::Component(component) => put(&component.to_le_bytes()),
        }
        if flags.contains(MessageFlags::TIMESTAMP) {
            put(&time.to_le_bytes());
        }
        if flags.contains(MessageFlags::SYSTEM_INFO) {
            put(&thread);
            put(&process);
        }
    }
    put(event.payload);
    out[at..size.next_multiple_of(8)].fill(0);
}

/// The ids in the header of a kernel event.
#[derive(Clone, Copy)]
pub(crate) struct KernelIds {
    pub thread: u32,
    pub process: u32,
}

/// Writes a kernel event; `ids`: it is a SYSTEM record. Its parts have fixed places, which the loop of a busy host fills with few
/// instructions.
#[inline(always)]
pub(crate) fn encode_kernel(
    class: &KernelClass,
    ids: Option<KernelIds>,
    time: i64,
    fields: &[u8],
    out: &mut [u8],
) {
    let header = if ids.is_some() { HeaderType::System64 } else { HeaderType::PerfInfo64 };
    let start = header.header_size();
    let size = start + fields.len();
    let Some((head, payload)) = out.split_at_mut_checked(start) else { return };
    // The padding is in the last word, which is written before the payload.
    if let Some(last) = payload.last_chunk_mut::<8>() {
        *last = [0; 8];
    }
    if let Some(payload) = payload.get_mut(..fields.len()) {
        copy(payload, fields);
    }
    let first = u64::from(class.version)
        | u64::from(u16::from_le_bytes([header.number(), TRACE_HEADER])) << 16
        | (size as u64) << 32
        | u64::from(class.hook.0) << 48;
    let words = match ids {
        Some(KernelIds { thread, process }) => {
            [first, u64::from(thread) | u64::from(process) << 32, time as u64, 0]
        }
        None => [first, time as u64, 0, 0],
    };
    for (to, word) in head.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}
