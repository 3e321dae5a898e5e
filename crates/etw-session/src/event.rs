//! An event on its way into a session, and its on-disk form.

use etw_types::{
    Classic, EventDescriptor, EventHeader, ExtType, ExtendedItems, ExtendedItemsBuf, Guid,
};

/// ETW's limit for a whole event: its size is a u16.
pub const MAX_EVENT_SIZE: usize = 65535;
/// One event as a host hands it over.
///
/// On disk it becomes an EVENT record: an [`EventHeader`], extended items, the payload, zeros up to a multiple of eight.
///
/// A classic event becomes a FULL, INSTANCE or MESSAGE record instead, without activity and extended items.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    /// Session clock.
    pub time: i64,
    /// The raw clock's time, for sessions on cycles; `None` where the writer has set the time.
    pub raw: Option<i64>,
    /// The CPU whose stream it belongs to.
    pub cpu: u16,
    /// The process id in the host's namespace.
    pub process_id: u32,
    /// The thread id in the host's namespace.
    pub thread_id: u32,
    /// Its provider.
    pub provider: Guid,
    /// The provider's group; zero without one.
    pub group: Guid,
    /// Id, version, channel, level, opcode, task, keyword.
    pub descriptor: EventDescriptor,
    /// `EVENT_HEADER.Flags`; `EXTENDED_INFO` is set here.
    pub flags: u16,
    /// `EVENT_HEADER.EventProperty`.
    pub property: u16,
    /// Written with the in-private flag: sessions may exclude it.
    pub in_private: bool,
    /// Zero without one.
    pub activity_id: Guid,
    /// Extended items in on-disk form, each a multiple of eight long, linked among themselves.
    pub chain: &'a [u8],
    /// The user data.
    pub payload: &'a [u8],
    /// The call stack as an item in on-disk form, without linkage, for sessions that want it; empty without one.
    pub stack: &'a [u8],
    /// Facts about the process that sessions can add to the event.
    pub process: Option<&'a ProcessFacts>,
    /// The header of a classic event, in place of `descriptor`, flags, ids and items. The provider tests level and keywords itself, and a
    /// session that enabled it records every event.
    pub classic: Option<&'a Classic>,
}

/// Extended items that a session asks for and a host knows of a process, in on-disk form without linkage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The user's SID, whole items: see [`ProcessFacts::new`].
    pub(crate) sid: Vec<u8>,
    pub(crate) terminal_session: Vec<u8>,
    pub(crate) start_key: Vec<u8>,
    /// The program's file name, for filters by executable.
    pub executable: String,
}

impl ProcessFacts {
    /// SID bytes, terminal session, start key, name of the executable.
    pub fn new(
        sid: &[u8],
        terminal_session: u32,
        start_key: u64,
        executable: &str,
    ) -> ProcessFacts {
        ProcessFacts {
            sid: item(ExtType::SID, sid),
            terminal_session: item(ExtType::TS_ID, &terminal_session.to_le_bytes()),
            start_key: item(ExtType::PROCESS_START_KEY, &start_key.to_le_bytes()),
            executable: executable.to_owned(),
        }
    }
}

/// Writes a call stack as an item in its stored form, in place of what `out` held: match id 0 (the stack is whole), then
/// the addresses, innermost first.
///
/// `addresses`: eight bytes each, at most 192.
pub fn stack_item(addresses: &[u8], out: &mut ExtendedItemsBuf) {
    out.clear();
    // So few addresses always fit.
    let _ = out.push_parts(ExtType::STACK_TRACE64, &[&[0; 8], addresses]);
}

fn item(ext_type: ExtType, data: &[u8]) -> Vec<u8> {
    // A SID has at most 68 bytes.
    let data = &data[..data.len().min(1024)];
    ExtendedItemsBuf::from_items(&[(ext_type, data)])
        .map_or(Vec::new(), ExtendedItemsBuf::into_bytes)
}

impl<'a> Event<'a> {
    /// Bytes on disk, without padding, with `extra` items of the session's.
    #[inline]
    pub fn size(&self, extra: &[&[u8]]) -> usize {
        if let Some(classic) = self.classic {
            etw_types::cold_path();
            return classic.size() + self.payload.len();
        }
        let extra: usize = extra.iter().map(|item| item.len()).sum();
        EventHeader::SIZE + self.chain.len() + extra + self.payload.len()
    }

    /// The name of a TraceLogging event, from its metadata item.
    pub fn tracelogging_name(&self) -> Option<&'a [u8]> {
        etw_tracelogging::event_name(self.metadata()?)
    }

    /// Its TraceLogging metadata.
    pub(crate) fn metadata(&self) -> Option<&'a [u8]> {
        let mut items = ExtendedItems::unlinked(self.chain);
        Some(items.find(|item| item.ext_type == ExtType::EVENT_SCHEMA_TL)?.data)
    }
}
