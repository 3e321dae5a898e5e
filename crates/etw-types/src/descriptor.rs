//! `EventDescriptor` and its parts: level, opcode, keyword, channel.

use std::fmt;

/// Severity of an event: 0 passes every filter, lower is more severe, 1–5 have names.
#[doc(alias = "WINEVENT_LEVEL")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Level(pub u8);

impl Level {
    /// 0: passes every level filter.
    pub const LOG_ALWAYS: Level = Level(0);
    /// 1: abnormal exit or termination.
    pub const CRITICAL: Level = Level(1);
    /// 2: severe errors.
    pub const ERROR: Level = Level(2);
    /// 3: warnings.
    pub const WARNING: Level = Level(3);
    /// 4: non-error events.
    pub const INFO: Level = Level(4);
    /// 5: detailed diagnostics; the default.
    pub const VERBOSE: Level = Level(5);

    /// The name of levels 0–5, as Windows' own manifests spell them without `win:`.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "LogAlways",
            1 => "Critical",
            2 => "Error",
            3 => "Warning",
            4 => "Informational",
            5 => "Verbose",
            _ => return None,
        })
    }
}

/// The number.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Default for Level {
    fn default() -> Level {
        Level::VERBOSE
    }
}

/// The point in an operation that an event marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Opcode(pub u8);

impl Opcode {
    /// 0: no particular point.
    pub const INFO: Opcode = Opcode(0);
    /// 1: an activity starts.
    pub const START: Opcode = Opcode(1);
    /// 2: an activity ends.
    pub const STOP: Opcode = Opcode(2);
    /// 3: rundown of what existed when the trace started.
    pub const DC_START: Opcode = Opcode(3);
    /// 4: rundown of what existed when the trace ended.
    pub const DC_STOP: Opcode = Opcode(4);
    /// 5
    pub const EXTENSION: Opcode = Opcode(5);
    /// 6
    pub const REPLY: Opcode = Opcode(6);
    /// 7
    pub const RESUME: Opcode = Opcode(7);
    /// 8
    pub const SUSPEND: Opcode = Opcode(8);
    /// 9
    pub const SEND: Opcode = Opcode(9);
    /// 240
    pub const RECEIVE: Opcode = Opcode(240);

    /// The name of the predefined opcodes, as manifests spell them without `win:`.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "Info",
            1 => "Start",
            2 => "Stop",
            3 => "DC_Start",
            4 => "DC_Stop",
            5 => "Extension",
            6 => "Reply",
            7 => "Resume",
            8 => "Suspend",
            9 => "Send",
            240 => "Receive",
            _ => return None,
        })
    }
}

/// A 64-bit category mask; the low 48 bits are the provider's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Keyword(pub u64);

impl std::ops::BitOr for Keyword {
    type Output = Keyword;

    fn bitor(self, other: Keyword) -> Keyword {
        Keyword(self.0 | other.0)
    }
}

impl fmt::LowerHex for Keyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl fmt::Debug for Keyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyword({:#018x})", self.0)
    }
}

/// The channel of an event; 0–15 are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Channel(pub u8);

impl Channel {
    /// 0: none.
    pub const NONE: Channel = Channel(0);
    /// 11: the channel that marks TraceLogging events.
    pub const TRACE_LOGGING: Channel = Channel(11);
}

/// The sixteen bytes that name an event of a provider.
///
/// ```text
/// 0  u16 id   2 u8 version   3 u8 channel   4 u8 level   5 u8 opcode   6 u16 task   8 u64 keyword
/// ```
#[doc(alias = "EVENT_DESCRIPTOR")]
// In memory as on disk: the words below are then read as such.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct EventDescriptor {
    /// Unique in the provider together with `version`; 0 for most TraceLogging events.
    pub id: u16,
    /// Version of the event's layout.
    pub version: u8,
    /// The channel.
    pub channel: Channel,
    /// The severity.
    pub level: Level,
    /// The kind of point it marks.
    pub opcode: Opcode,
    /// The provider's own grouping of events.
    pub task: u16,
    /// Category mask.
    pub keyword: Keyword,
}

impl EventDescriptor {
    /// Size on disk.
    pub const SIZE: usize = 16;

    /// Reads the sixteen bytes at `offset`.
    #[inline]
    pub fn read(bytes: &[u8], offset: usize) -> Option<EventDescriptor> {
        let b: &[u8; 16] = bytes.get(offset..offset.checked_add(16)?)?.try_into().ok()?;
        Some(EventDescriptor {
            id: u16::from_le_bytes([b[0], b[1]]),
            version: b[2],
            channel: Channel(b[3]),
            level: Level(b[4]),
            opcode: Opcode(b[5]),
            task: u16::from_le_bytes([b[6], b[7]]),
            keyword: Keyword(u64::from_le_bytes([
                b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15],
            ])),
        })
    }

    /// The sixteen bytes on disk.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 16] {
        let first = u64::from(self.id)
            | u64::from(self.version) << 16
            | u64::from(self.channel.0) << 24
            | u64::from(self.level.0) << 32
            | u64::from(self.opcode.0) << 40
            | u64::from(self.task) << 48;
        (u128::from(first) | u128::from(self.keyword.0) << 64).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_round_trip() {
        let descriptor = EventDescriptor {
            id: 0x0102,
            version: 3,
            channel: Channel(4),
            level: Level(5),
            opcode: Opcode(6),
            task: 0x0708,
            keyword: Keyword(0x1122_3344_5566_7788),
        };
        let bytes = descriptor.to_bytes();
        assert_eq!(bytes, [2, 1, 3, 4, 5, 6, 8, 7, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        assert_eq!(EventDescriptor::read(&bytes, 0), Some(descriptor));
        assert_eq!(EventDescriptor::read(&bytes, 1), None);
    }
}
