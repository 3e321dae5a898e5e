//! `TRACE_HEADER_TYPE`: which header a record was stored with.

use std::fmt;

macro_rules! header_types {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// The kind of record header that an event was stored with. Bitness is the record's own, not the file's.
        #[doc(alias = "TRACE_HEADER_TYPE")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum HeaderType {
            $(#[doc = $text] $name,)*
        }

        impl HeaderType {
            /// The name that tools print: `SYSTEM32`, `EVENT64`, …
            pub const fn name(self) -> &'static str {
                match self {
                    $(HeaderType::$name => $text,)*
                }
            }

            /// Microsoft's number of the type; byte 2 of a stored record, except of MESSAGE and WNODE.
            #[inline]
            pub const fn number(self) -> u8 {
                match self {
                    $(HeaderType::$name => $number,)*
                }
            }

            /// The type with this number.
            #[inline]
            pub const fn from_number(number: u8) -> Option<HeaderType> {
                match number {
                    $($number => Some(HeaderType::$name),)*
                    _ => None,
                }
            }
        }
    };
}

header_types! {
    System32 = 0x01, "SYSTEM32";
    System64 = 0x02, "SYSTEM64";
    Compact32 = 0x03, "COMPACT32";
    Compact64 = 0x04, "COMPACT64";
    Full32 = 0x0a, "FULL32";
    Full64 = 0x14, "FULL64";
    Instance32 = 0x0b, "INSTANCE32";
    Instance64 = 0x15, "INSTANCE64";
    Timed = 0x0c, "TIMED";
    Error = 0x0d, "ERROR";
    Wnode = 0x0e, "WNODE";
    Message = 0x0f, "MESSAGE";
    PerfInfo32 = 0x10, "PERFINFO32";
    PerfInfo64 = 0x11, "PERFINFO64";
    Event32 = 0x12, "EVENT32";
    Event64 = 0x13, "EVENT64";
}

impl HeaderType {
    /// Byte 3 of a stored record whose byte 2 is its type: `TRACE_HEADER_FLAG` and `TRACE_HEADER_EVENT_TRACE`.
    pub const MARKER: u8 = 0xc0;

    /// Byte 3 of a stored MESSAGE: `TRACE_HEADER_FLAG` and `TRACE_MESSAGE`.
    pub const MESSAGE_MARKER: u8 = 0x90;

    /// Bytes of the header before optional parts (counters, extended items, parts of a message) and payload.
    ///
    /// Source: Microsoft's published headers and documents, Chappell's studies. INSTANCE headers before Windows Server
    /// 2003 have 56 bytes.
    #[inline]
    pub const fn header_size(self) -> usize {
        use HeaderType::*;
        match self {
            Message => 0x08,
            PerfInfo32 | PerfInfo64 => 0x10,
            Compact32 | Compact64 => 0x18,
            System32 | System64 => 0x20,
            Full32 | Full64 | Wnode | Timed => 0x30,
            Instance32 | Instance64 => 0x48,
            Event32 | Event64 | Error => crate::EventHeader::SIZE,
        }
    }

    /// 4 or 8 if the header says how wide the payload's pointers are.
    #[inline]
    pub const fn pointer_size(self) -> Option<u8> {
        use HeaderType::*;
        match self {
            System32 | Compact32 | Full32 | Instance32 | PerfInfo32 | Event32 => Some(4),
            System64 | Compact64 | Full64 | Instance64 | PerfInfo64 | Event64 => Some(8),
            Timed | Error | Wnode | Message => None,
        }
    }

    /// A kernel record: it carries a [`Hook`](crate::Hook), its class is that of the hook's group.
    #[inline]
    pub const fn is_kernel(self) -> bool {
        use HeaderType::*;
        matches!(self, System32 | System64 | Compact32 | Compact64 | PerfInfo32 | PerfInfo64)
    }

    /// A record of `TraceEvent` or `TraceEventInstance`, named by class GUID, type and version.
    #[inline]
    pub const fn is_classic(self) -> bool {
        use HeaderType::*;
        matches!(self, Full32 | Full64 | Instance32 | Instance64)
    }

    /// A record of `EventWrite`, named by provider, id and version.
    #[inline]
    pub const fn is_event(self) -> bool {
        matches!(self, HeaderType::Event32 | HeaderType::Event64)
    }
}

impl fmt::Display for HeaderType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
