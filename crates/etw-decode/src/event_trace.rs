//! The EventTrace group: the logfile header and the records that sessions add around it.
//!
//! Field names are those of the kernel MOF; layouts as published for evntrace.h and seen in traces, where formats
//! that were never seen stay undecoded.

use crate::field::{Count, Field};
use crate::schema::{Names, Schema};
use etw_tracelogging::{Show, Wire};

/// The name of a type of the group, as `EventTrace/Type`.
pub fn event_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0x00 => "EventTrace/Header",
        0x05 => "EventTrace/Extension",
        0x08 => "EventTrace/RDComplete",
        0x20 => "EventTrace/EndExtension",
        0x30 => "EventTrace/RundownBegin",
        0x31 => "EventTrace/RundownEnd",
        0x40 => "EventTrace/DbgIdRSDS",
        0x41 => "EventTrace/DbgIdNB10",
        0x42 => "EventTrace/BuildInfo",
        0x43 => "EventTrace/ProviderBinaryPath",
        0x50 => "EventTrace/PartitionInfoExtensionV2",
        0x52 => "EventTrace/LastDroppedTimes",
        _ => return None,
    })
}

/// The schema of a type, for a payload of `length` bytes with pointers of `pointer_size`.
pub fn schema(kind: u8, length: usize, pointer_size: u8) -> Option<Schema> {
    let mut fields = match kind {
        0x00 => header(),
        0x05 | 0x20 => group_masks(length),
        0x08 | 0x30 | 0x31 if length == 0 => Vec::new(),
        0x40 => vec![guid("Guid"), plain("Age", Wire::U32), plain("PdbName", Wire::Ansi)],
        0x42 => vec![plain("BuildString", Wire::Ansi)],
        0x43 => vec![
            plain("GuidCount", Wire::U32),
            Field { count: Count::Field(0), ..guid("Guid") },
            plain("BinaryPath", Wire::Utf16),
        ],
        0x50 => partition_info(length),
        0x52 => vec![
            plain("TimeStampCount", Wire::U32),
            plain("Padding", Wire::U32),
            Field { count: Count::Field(0), ..plain("TimeStamp", Wire::U64) },
        ],
        _ => return None,
    };
    // A header of this group may be cut by its writer only at the two names behind it.
    let names = Names {
        provider: Some("MSNT_SystemTrace".into()),
        event: event_name(kind).map(String::from),
        ..Names::default()
    };
    let without_names = if pointer_size == 4 { 0x110 } else { 0x118 };
    if kind == 0x00 && length <= without_names {
        fields.truncate(21);
    }
    let count = fields.len();
    Some(Schema::new(names, fields, count))
}

fn plain(name: &str, wire: Wire) -> Field {
    Field::new(name, wire, Show::Plain)
}

fn hex(name: &str, wire: Wire) -> Field {
    Field::new(name, wire, Show::Hex)
}

fn guid(name: &str) -> Field {
    plain(name, Wire::Guid)
}

fn header() -> Vec<Field> {
    let mut time_zone = plain("TimeZoneInformation", Wire::Binary);
    // TIME_ZONE_INFORMATION and the padding behind it.
    time_zone.length = crate::field::Length::Fixed(0xb0);
    time_zone.no_print = true;
    vec![
        plain("BufferSize", Wire::U32),
        plain("Version", Wire::U32),
        plain("ProviderVersion", Wire::U32),
        plain("NumberOfProcessors", Wire::U32),
        plain("EndTime", Wire::FileTime),
        plain("TimerResolution", Wire::U32),
        plain("MaxFileSize", Wire::U32),
        hex("LogFileMode", Wire::U32),
        plain("BuffersWritten", Wire::U32),
        plain("StartBuffers", Wire::U32),
        plain("PointerSize", Wire::U32),
        plain("EventsLost", Wire::U32),
        plain("CPUSpeed", Wire::U32),
        hex("LoggerName", Wire::Pointer),
        hex("LogFileName", Wire::Pointer),
        time_zone,
        plain("BootTime", Wire::FileTime),
        plain("PerfFreq", Wire::U64),
        plain("StartTime", Wire::FileTime),
        hex("ReservedFlags", Wire::U32),
        plain("BuffersLost", Wire::U32),
        plain("SessionNameString", Wire::Utf16),
        plain("LogFileNameString", Wire::Utf16),
    ]
}

/// Eight masks; the version of kernel events since Vista.
fn group_masks(length: usize) -> Vec<Field> {
    let masks = (1..=8).map(|number| hex(&format!("GroupMask{number}"), Wire::U32));
    let version = (length >= 36).then(|| hex("KernelEventVersion", Wire::U32));
    masks.chain(version).collect()
}

/// 48 bytes with two GUIDs as seen; longer forms of Windows 11 end in two strings (a guess: at the same offsets).
fn partition_info(length: usize) -> Vec<Field> {
    let id = if length > 0x30 { Wire::Utf16 } else { Wire::Guid };
    vec![
        plain("EventVersion", Wire::U16),
        plain("Reserved", Wire::U16),
        plain("PartitionType", Wire::U32),
        plain("QpcOffsetFromRoot", Wire::I64),
        plain("PartitionId", id),
        plain("ParentId", id),
    ]
}
