//! The fields of classic events' headers, except process, thread and time.

use crate::{Guid, HeaderType, Hook, Level, MessageFlags};

/// The class of a classic event, and what the event is within it.
#[doc(alias = "EVENT_TRACE_HEADER")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass {
    /// The class GUID: not that of the provider.
    pub guid: Guid,
    /// `Class.Type`: start, end, ….
    pub kind: u8,
    /// `Class.Level`.
    pub level: Level,
    /// `Class.Version`.
    pub version: u16,
}

/// All zero.
impl Default for EventClass {
    fn default() -> EventClass {
        EventClass { guid: Guid::ZERO, kind: 0, level: Level::LOG_ALWAYS, version: 0 }
    }
}

/// The identification of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageId {
    /// Only its number.
    None,
    /// `TRACE_MESSAGE_GUID`
    Guid(Guid),
    /// `TRACE_MESSAGE_COMPONENTID`
    Component(u32),
}

/// The header of a classic event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classic {
    /// The fields of the header.
    pub header: ClassicHeader,
    /// The program has pointers of 32 bits.
    pub is_32_bit: bool,
}

/// The fields of a classic event's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassicHeader {
    /// `TraceEvent`: a FULL record.
    Trace(EventClass),
    /// `TraceEventInstance`: an INSTANCE record.
    Instance {
        /// The class and type, as in other classic events.
        class: EventClass,
        /// The instance id of the event's transaction.
        instance: u32,
        /// The instance id of the parent transaction; 0 without one.
        parent_instance: u32,
        /// The parent's class; zero without one.
        parent: Guid,
    },
    /// `TraceMessage`: a MESSAGE record.
    Message {
        /// Flags of the header fields before the arguments: sequence number, time, system information.
        flags: MessageFlags,
        /// The component or class that the number belongs to.
        id: MessageId,
        /// The number of the message.
        number: u16,
    },
    /// A kernel event with process and thread: a SYSTEM record. Only hosts write it.
    System(KernelClass),
    /// A kernel event without process and thread: a PERFINFO record. Only hosts write it.
    PerfInfo(KernelClass),
}

/// The class and type of a kernel event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClass {
    /// Its group and type.
    pub hook: Hook,
    /// The version of its payload.
    pub version: u8,
}

impl Classic {
    /// Bytes of the header on disk: 0x30, 0x48, 0x20, 0x10, or 8 and the parts of a message.
    pub fn size(&self) -> usize {
        match &self.header {
            ClassicHeader::Trace(_) => 0x30,
            ClassicHeader::Instance { .. } => 0x48,
            ClassicHeader::System(_) => HeaderType::System64.header_size(),
            ClassicHeader::PerfInfo(_) => HeaderType::PerfInfo64.header_size(),
            ClassicHeader::Message { flags, id, .. } => {
                let part = |flag: MessageFlags, size: usize| {
                    if flags.contains(flag) { size } else { 0 }
                };
                let id = match id {
                    MessageId::None => 0,
                    MessageId::Guid(_) => 16,
                    MessageId::Component(_) => 4,
                };
                8 + part(MessageFlags::SEQUENCE, 4)
                    + id
                    + part(MessageFlags::TIMESTAMP, 8)
                    + part(MessageFlags::SYSTEM_INFO, 8)
            }
        }
    }
}
