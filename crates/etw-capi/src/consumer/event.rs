//! A record as a C program sees it: `EVENT_RECORD` or `EVENT_TRACE`, and the memory that these point to.

use std::ffi::c_void;

use etw_types::{EventFlags, EventRecord, ExtType, ExtendedItem, HeaderType, MessageFlags, le};

use crate::abi::{RawDescriptor, RawGuid};
use etw_types::raw::{RawBufferContext, RawItem, RawRecord, RawTrace, RawTraceHeader};

/// The record that a callback sees. Payload and items are copies, aligned to eight bytes, which the program may change. Zeros follow
/// them, for programs that treat a payload as text.
#[derive(Default)]
pub struct Event {
    /// Payload, then the data of the items; each at a multiple of eight bytes.
    arena: Vec<u64>,
    items: Vec<RawItem>,
    data_size: u16,
}

/// Facts that all events of a trace share.
pub struct Facts {
    /// `EVENT_TRACE_LOGFILE.Context`
    pub context: *mut c_void,
    pub logger_id: u16,
    pub is_private: bool,
}

impl Event {
    /// Copies the memory that the callback gets pointers to.
    pub fn fill(&mut self, record: &EventRecord<'_>) {
        self.arena.clear();
        self.items.clear();
        // A record has at most 64 KiB.
        let payload = &record.payload[..record.payload.len().min(usize::from(u16::MAX))];
        self.data_size = payload.len() as u16;
        self.append(payload);
        for item in record.extended {
            // Their addresses are known once all are added.
            let at = self.arena.len() as u64;
            let size = item.data.len() as u16;
            self.items.push(RawItem {
                reserved: 0,
                kind: item.ext_type.0,
                linkage: 1,
                size,
                address: at,
            });
            self.append(item.data);
        }
        for item in &mut self.items {
            item.address = self.arena[item.address as usize..].as_ptr().addr() as u64;
        }
        if let Some(last) = self.items.last_mut() {
            last.linkage = 0;
        }
    }

    /// At least eight zero bytes follow it.
    fn append(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        self.arena.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.arena.extend([u64::from_ne_bytes(last), 0]);
    }

    /// As `EVENT_RECORD`, with pointers into `self`.
    pub fn record(&mut self, record: &EventRecord<'_>, time: i64, facts: &Facts) -> RawRecord {
        let d = &record.descriptor;
        let times = record.cpu_times.unwrap_or_default();
        RawRecord {
            header: etw_types::raw::RawHeader {
                size: stored_size(record).min(usize::from(u16::MAX)) as u16,
                header_type: u16::from(record.header.number()),
                flags: flags(record, facts.is_private),
                property: record.property.0,
                // As Windows does for records without ids.
                thread_id: record.thread_id.unwrap_or(u32::MAX),
                process_id: record.process_id.unwrap_or(u32::MAX),
                time,
                provider: RawGuid::from_guid(&record.provider.unwrap_or_default()),
                descriptor: RawDescriptor {
                    id: d.id,
                    version: d.version,
                    channel: d.channel.0,
                    level: d.level.0,
                    opcode: d.opcode.0,
                    task: d.task,
                    keyword: d.keyword.0,
                },
                kernel_time: times.kernel,
                user_time: times.user,
                activity: RawGuid::from_guid(&record.activity_id),
            },
            buffer: RawBufferContext { cpu: record.cpu, logger_id: facts.logger_id },
            item_count: self.items.len() as u16,
            data_size: self.data_size,
            items: if self.items.is_empty() { std::ptr::null() } else { self.items.as_mut_ptr() },
            data: if self.data_size == 0 {
                std::ptr::null()
            } else {
                self.arena.as_mut_ptr().cast()
            },
            context: facts.context,
        }
    }

    /// As `EVENT_TRACE`, with pointers into `self`.
    pub fn trace(&mut self, record: &EventRecord<'_>, time: i64, facts: &Facts) -> RawTrace {
        let d = &record.descriptor;
        let times = record.cpu_times.unwrap_or_default();
        let instance = record.extended.find(ExtType::INSTANCE_INFO).unwrap_or_default();
        let parent = etw_types::Guid::read(instance, 8).unwrap_or_default();
        RawTrace {
            header: RawTraceHeader {
                size: stored_size(record).min(usize::from(u16::MAX)) as u16,
                header_type: record.header.number(),
                marker: HeaderType::MARKER,
                kind: d.opcode.0,
                level: d.level.0,
                version: u16::from(d.version),
                thread_id: record.thread_id.unwrap_or(u32::MAX),
                process_id: record.process_id.unwrap_or(u32::MAX),
                time,
                guid: RawGuid::from_guid(&record.provider.unwrap_or_default()),
                kernel_time: times.kernel,
                user_time: times.user,
            },
            instance: le::u32(instance, 0).unwrap_or(0),
            parent_instance: le::u32(instance, 4).unwrap_or(0),
            parent: RawGuid::from_guid(&parent),
            data: if self.data_size == 0 {
                std::ptr::null()
            } else {
                self.arena.as_mut_ptr().cast()
            },
            data_size: u32::from(self.data_size),
            buffer: RawBufferContext { cpu: record.cpu, logger_id: facts.logger_id },
        }
    }
}

fn flags(record: &EventRecord<'_>, is_private: bool) -> u16 {
    let mut flags = record.flags.0 & !EventFlags::EXTENDED_INFO.0;
    let mut set = |is: bool, flag: EventFlags| flags |= if is { flag.0 } else { 0 };
    set(!record.extended.is_empty(), EventFlags::EXTENDED_INFO);
    set(is_private, EventFlags::PRIVATE_SESSION);
    set(record.header == HeaderType::Message, EventFlags::TRACE_MESSAGE);
    set(record.header.is_classic() || record.header.is_kernel(), EventFlags::CLASSIC_HEADER);
    set(record.cpu_times.is_none(), EventFlags::NO_CPUTIME);
    // Not stored, since programs print the payload of an event with this flag as text.
    set(etw_decode::is_string_event(record), EventFlags::STRING_ONLY);
    let is_narrow = record.pointer_size == 4;
    set(is_narrow, EventFlags::HEADER_32_BIT);
    set(!is_narrow, EventFlags::HEADER_64_BIT);
    set(true, EventFlags::PROCESSOR_INDEX);
    flags
}

/// Size of a record in its buffer.
pub fn stored_size(record: &EventRecord<'_>) -> usize {
    let items = || -> usize {
        record.extended.into_iter().map(|item| ExtendedItem::stored_size(item.data.len())).sum()
    };
    let bare = || -> usize { record.extended.into_iter().map(|item| item.data.len()).sum() };
    let part = |flag: MessageFlags, size| {
        if record.message_flags.contains(flag) { size } else { 0 }
    };
    let parts = match record.header {
        HeaderType::Event32 | HeaderType::Event64 | HeaderType::Error => items(),
        HeaderType::Message => {
            let id = if record.message_flags.contains(MessageFlags::COMPONENT_ID) {
                4
            } else {
                part(MessageFlags::GUID, 16)
            };
            let time = if record.message_flags.contains(MessageFlags::TIMESTAMP) {
                8
            } else {
                part(MessageFlags::PERFORMANCE_TIMESTAMP, 8)
            };
            part(MessageFlags::SEQUENCE, 4) + id + time + part(MessageFlags::SYSTEM_INFO, 8)
        }
        _ => bare(),
    };
    // An INSTANCE header is that of FULL and the item, whose size depends on the file's version.
    let is_instance = matches!(record.header, HeaderType::Instance32 | HeaderType::Instance64);
    let header = if is_instance { HeaderType::Full64 } else { record.header };
    header.header_size() + parts + record.payload.len()
}
