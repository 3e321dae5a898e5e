//! TDH's in- and out-types, and what they come to: how a value lies in the payload and what it is shown as.

use crate::status::StatusKind;
use etw_tracelogging as tl;

/// How a value is stored (`TDH_INTYPE_*`).
#[doc(alias = "TDH_IN_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InType(pub u16);

/// How a value is meant (`TDH_OUTTYPE_*`).
#[doc(alias = "TDH_OUT_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutType(pub u16);

macro_rules! consts {
    ($name:ident { $($constant:ident = $value:expr;)* }) => {
        #[allow(missing_docs)]
        impl $name {
            $(pub const $constant: $name = $name($value);)*
        }
    };
}

consts! { InType {
    NULL = 0; UNICODESTRING = 1; ANSISTRING = 2; INT8 = 3; UINT8 = 4; INT16 = 5; UINT16 = 6; INT32 = 7; UINT32 = 8;
    INT64 = 9; UINT64 = 10; FLOAT = 11; DOUBLE = 12; BOOLEAN = 13; BINARY = 14; GUID = 15; POINTER = 16;
    FILETIME = 17; SYSTEMTIME = 18; SID = 19; HEXINT32 = 20; HEXINT64 = 21; MANIFEST_COUNTEDSTRING = 22;
    MANIFEST_COUNTEDANSISTRING = 23; MANIFEST_COUNTEDBINARY = 25; COUNTEDSTRING = 300; COUNTEDANSISTRING = 301;
    REVERSEDCOUNTEDSTRING = 302; REVERSEDCOUNTEDANSISTRING = 303; NONNULLTERMINATEDSTRING = 304;
    NONNULLTERMINATEDANSISTRING = 305; UNICODECHAR = 306; ANSICHAR = 307; SIZET = 308; HEXDUMP = 309; WBEMSID = 310;
} }

consts! { OutType {
    NULL = 0; STRING = 1; DATETIME = 2; BYTE = 3; UNSIGNEDBYTE = 4; SHORT = 5; UNSIGNEDSHORT = 6; INT = 7;
    UNSIGNEDINT = 8; LONG = 9; UNSIGNEDLONG = 10; FLOAT = 11; DOUBLE = 12; BOOLEAN = 13; GUID = 14; HEXBINARY = 15;
    HEXINT8 = 16; HEXINT16 = 17; HEXINT32 = 18; HEXINT64 = 19; PID = 20; TID = 21; PORT = 22; IPV4 = 23; IPV6 = 24;
    SOCKETADDRESS = 25; CIMDATETIME = 26; ETWTIME = 27; XML = 28; ERRORCODE = 29; WIN32ERROR = 30; NTSTATUS = 31;
    HRESULT = 32; CULTURE_INSENSITIVE_DATETIME = 33; JSON = 34; UTF8 = 35; PKCS7_WITH_TYPE_INFO = 36;
    CODE_POINTER = 37; DATETIME_UTC = 38; REDUCEDSTRING = 300; NOPRINT = 301;
} }

/// How a value lies in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Wire {
    /// No bytes.
    Nothing,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// 4 or 8 bytes.
    Pointer,
    Guid,
    FileTime,
    SystemTime,
    /// 8 + 4 · count bytes.
    Sid,
    /// Two pointers and a SID, or a zero `u32`.
    WbemSid,
    /// UTF-16 to its NUL, or of a length in characters.
    Utf16,
    /// 8-bit text to its NUL, or of a length in bytes.
    Ansi,
    /// Of a length in bytes.
    Binary,
    /// `u16` byte count, UTF-16.
    CountedUtf16,
    /// `u16` byte count, 8-bit text.
    CountedAnsi,
    /// `u16` byte count, bytes.
    CountedBinary,
    /// Big-endian `u16` byte count, UTF-16.
    ReverseCountedUtf16,
    /// Big-endian `u16` byte count, 8-bit text.
    ReverseCountedAnsi,
    /// UTF-16 to the end of the payload.
    RestUtf16,
    /// 8-bit text to the end of the payload.
    RestAnsi,
    /// `u32` byte count, bytes.
    HexDump,
}

/// What a value is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// As its wire form says: number, text, GUID, time, bytes.
    Plain,
    /// `0x…`
    Hex,
    /// true or false
    Boolean,
    /// A character.
    Character,
    /// A big-endian port number.
    Port,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A socket address.
    SocketAddress,
    /// A FILETIME.
    FileTime,
    /// Signed, whatever the wire form.
    Signed,
    /// Unsigned, whatever the wire form.
    Unsigned,
    /// 8-bit text that is UTF-8.
    Utf8,
    /// A status code: its number, and to people its name.
    Status(StatusKind),
}

impl InType {
    /// How it lies in the payload; `None` for numbers that no source names.
    pub fn wire(self) -> Option<Wire> {
        Some(match self.0 {
            0 => Wire::Nothing,
            1 => Wire::Utf16,
            2 => Wire::Ansi,
            3 => Wire::I8,
            4 | 307 => Wire::U8,
            5 => Wire::I16,
            6 | 306 => Wire::U16,
            7 | 13 => Wire::I32,
            8 | 20 => Wire::U32,
            9 => Wire::I64,
            10 | 21 => Wire::U64,
            11 => Wire::F32,
            12 => Wire::F64,
            14 => Wire::Binary,
            15 => Wire::Guid,
            16 | 308 => Wire::Pointer,
            17 => Wire::FileTime,
            18 => Wire::SystemTime,
            19 => Wire::Sid,
            22 | 300 => Wire::CountedUtf16,
            23 | 301 => Wire::CountedAnsi,
            25 => Wire::CountedBinary,
            302 => Wire::ReverseCountedUtf16,
            303 => Wire::ReverseCountedAnsi,
            304 => Wire::RestUtf16,
            305 => Wire::RestAnsi,
            309 => Wire::HexDump,
            310 => Wire::WbemSid,
            _ => return None,
        })
    }

    /// What it is shown as with an out-type; a pair that is not legal is shown as the in-type's default.
    pub fn show(self, out: OutType) -> Show {
        let default = match self {
            InType::BOOLEAN => Show::Boolean,
            InType::POINTER | InType::HEXINT32 | InType::HEXINT64 | InType::SIZET => Show::Hex,
            InType::UNICODECHAR | InType::ANSICHAR => Show::Character,
            _ => Show::Plain,
        };
        let Some(wire) = self.wire() else { return default };
        // Nothing but hex goes with these, and nothing but true and false with BOOLEAN.
        if matches!(default, Show::Hex | Show::Boolean | Show::Character) {
            return default;
        }
        let integer = matches!(
            wire,
            Wire::I8
                | Wire::U8
                | Wire::I16
                | Wire::U16
                | Wire::I32
                | Wire::U32
                | Wire::I64
                | Wire::U64
        );
        let narrow = matches!(wire, Wire::I8 | Wire::U8 | Wire::I16 | Wire::U16);
        let narrow_text = matches!(
            wire,
            Wire::Ansi | Wire::CountedAnsi | Wire::ReverseCountedAnsi | Wire::RestAnsi
        );
        let bytes = matches!(wire, Wire::Binary | Wire::CountedBinary);
        let wide = matches!(wire, Wire::I64 | Wire::U64);
        let is_code = matches!(wire, Wire::I32 | Wire::U32);
        match out {
            OutType::HEXINT8
            | OutType::HEXINT16
            | OutType::HEXINT32
            | OutType::HEXINT64
            | OutType::ERRORCODE
            | OutType::CODE_POINTER
                if integer =>
            {
                Show::Hex
            }
            OutType::NTSTATUS if is_code => Show::Status(StatusKind::NtStatus),
            OutType::HRESULT if is_code => Show::Status(StatusKind::HResult),
            OutType::WIN32ERROR if is_code => Show::Status(StatusKind::Win32),
            OutType::BOOLEAN if integer => Show::Boolean,
            OutType::STRING if narrow => Show::Character,
            OutType::PORT if matches!(wire, Wire::U16 | Wire::I16) => Show::Port,
            OutType::IPV4 if matches!(wire, Wire::U32 | Wire::I32) => Show::Ipv4,
            OutType::IPV6 if bytes => Show::Ipv6,
            OutType::SOCKETADDRESS if bytes => Show::SocketAddress,
            OutType::DATETIME | OutType::CULTURE_INSENSITIVE_DATETIME | OutType::DATETIME_UTC
                if wide =>
            {
                Show::FileTime
            }
            // XML and JSON in 8-bit text are UTF-8 by definition.
            OutType::UTF8 | OutType::XML | OutType::JSON if narrow_text => Show::Utf8,
            _ => default,
        }
    }

    /// Bytes of a value whose size does not depend on the payload.
    pub fn fixed_size(self, pointer_size: u8) -> Option<usize> {
        self.wire()?.fixed_size(pointer_size)
    }
}

impl Wire {
    /// Bytes of a value whose size does not depend on the payload.
    pub fn fixed_size(self, pointer_size: u8) -> Option<usize> {
        Some(match self {
            Wire::Nothing => 0,
            Wire::I8 | Wire::U8 => 1,
            Wire::I16 | Wire::U16 => 2,
            Wire::I32 | Wire::U32 | Wire::F32 => 4,
            Wire::I64 | Wire::U64 | Wire::F64 | Wire::FileTime => 8,
            Wire::Pointer => usize::from(pointer_size),
            Wire::Guid | Wire::SystemTime => 16,
            _ => return None,
        })
    }
}

impl InType {
    /// What a value is meant as where nothing else is said.
    pub fn default_out(self) -> OutType {
        match self.0 {
            1 | 2 | 19 | 22 | 23 | 300..=307 | 310 => OutType::STRING,
            3 => OutType::BYTE,
            4 => OutType::UNSIGNEDBYTE,
            5 => OutType::SHORT,
            6 => OutType::UNSIGNEDSHORT,
            7 => OutType::INT,
            8 => OutType::UNSIGNEDINT,
            9 => OutType::LONG,
            10 => OutType::UNSIGNEDLONG,
            11 => OutType::FLOAT,
            12 => OutType::DOUBLE,
            13 => OutType::BOOLEAN,
            14 | 25 | 309 => OutType::HEXBINARY,
            15 => OutType::GUID,
            16 | 21 | 308 => OutType::HEXINT64,
            17 | 18 => OutType::DATETIME,
            20 => OutType::HEXINT32,
            _ => OutType::NULL,
        }
    }
}

/// Types that come to the same wire form and are shown the same, for schemas that are not told in TDH's.
pub(crate) fn tdh_types(wire: Wire, show: Show) -> (InType, OutType) {
    let in_type = match wire {
        Wire::Nothing => InType::NULL,
        Wire::I8 if show == Show::Unsigned => InType::UINT8,
        Wire::U8 if show == Show::Signed => InType::INT8,
        Wire::I16 if show == Show::Unsigned => InType::UINT16,
        Wire::U16 if show == Show::Signed => InType::INT16,
        Wire::I32 if show == Show::Unsigned => InType::UINT32,
        Wire::U32 if show == Show::Signed => InType::INT32,
        Wire::I64 if show == Show::Unsigned => InType::UINT64,
        Wire::U64 if show == Show::Signed => InType::INT64,
        Wire::I8 => InType::INT8,
        Wire::U8 => InType::UINT8,
        Wire::I16 => InType::INT16,
        Wire::U16 => InType::UINT16,
        Wire::I32 => InType::INT32,
        Wire::U32 => InType::UINT32,
        Wire::I64 => InType::INT64,
        Wire::U64 => InType::UINT64,
        Wire::F32 => InType::FLOAT,
        Wire::F64 => InType::DOUBLE,
        Wire::Pointer => InType::POINTER,
        Wire::Guid => InType::GUID,
        Wire::FileTime => InType::FILETIME,
        Wire::SystemTime => InType::SYSTEMTIME,
        Wire::Sid => InType::SID,
        Wire::WbemSid => InType::WBEMSID,
        Wire::Utf16 => InType::UNICODESTRING,
        Wire::Ansi => InType::ANSISTRING,
        Wire::Binary => InType::BINARY,
        Wire::CountedUtf16 => InType::COUNTEDSTRING,
        Wire::CountedAnsi => InType::COUNTEDANSISTRING,
        Wire::CountedBinary => InType::MANIFEST_COUNTEDBINARY,
        Wire::ReverseCountedUtf16 => InType::REVERSEDCOUNTEDSTRING,
        Wire::ReverseCountedAnsi => InType::REVERSEDCOUNTEDANSISTRING,
        Wire::RestUtf16 => InType::NONNULLTERMINATEDSTRING,
        Wire::RestAnsi => InType::NONNULLTERMINATEDANSISTRING,
        Wire::HexDump => InType::HEXDUMP,
    };
    let out = match (show, wire) {
        (Show::Hex, Wire::I8 | Wire::U8) => OutType::HEXINT8,
        (Show::Hex, Wire::I16 | Wire::U16) => OutType::HEXINT16,
        (Show::Hex, Wire::I32 | Wire::U32) => OutType::HEXINT32,
        (Show::Hex, _) => OutType::HEXINT64,
        (Show::Boolean, _) => OutType::BOOLEAN,
        (Show::Character, _) => OutType::STRING,
        (Show::Port, _) => OutType::PORT,
        (Show::Ipv4, _) => OutType::IPV4,
        (Show::Ipv6, _) => OutType::IPV6,
        (Show::SocketAddress, _) => OutType::SOCKETADDRESS,
        (Show::FileTime, _) => OutType::DATETIME,
        (Show::Utf8, _) => OutType::UTF8,
        (Show::Status(StatusKind::NtStatus), _) => OutType::NTSTATUS,
        (Show::Status(StatusKind::HResult), _) => OutType::HRESULT,
        (Show::Status(_), _) => OutType::WIN32ERROR,
        (Show::Plain | Show::Signed | Show::Unsigned, _) => in_type.default_out(),
    };
    (in_type, out)
}

/// The types of a TraceLogging field: TDH's, wire form, what it is shown as, and whether it asks to be hidden.
///
/// `None` for in-types that cannot be decoded (Pointer is reserved, Struct has no value).
pub(crate) fn tracelogging(
    in_type: tl::InType,
    out: tl::OutType,
) -> Option<((InType, OutType), Wire, Show, bool)> {
    if matches!(in_type, tl::InType::POINTER | tl::InType::STRUCT) {
        return None;
    }
    // Below 32 TraceLogging numbers its in-types as TDH does; Binary carries its length before it.
    let number = InType(u16::from(in_type.0));
    let wire = match number {
        InType::BINARY => Wire::CountedBinary,
        other => other.wire()?,
    };
    let sized_hex = match wire {
        Wire::I8 | Wire::U8 => OutType::HEXINT8,
        Wire::I16 | Wire::U16 => OutType::HEXINT16,
        Wire::I32 | Wire::U32 => OutType::HEXINT32,
        _ => OutType::HEXINT64,
    };
    let out = match out.0 {
        1 => return Some(((number, OutType::NOPRINT), wire, number.show(OutType::NULL), true)),
        2 => OutType::STRING,
        3 => OutType::BOOLEAN,
        4 => sized_hex,
        5 => OutType::PID,
        6 => OutType::TID,
        7 => OutType::PORT,
        8 => OutType::IPV4,
        9 => OutType::IPV6,
        10 => OutType::SOCKETADDRESS,
        11 => OutType::XML,
        12 | 34 => OutType::JSON,
        13 => OutType::WIN32ERROR,
        14 => OutType::NTSTATUS,
        15 => OutType::HRESULT,
        16 => OutType::DATETIME,
        17 => return Some((tdh_types(wire, Show::Signed), wire, Show::Signed, false)),
        18 => return Some((tdh_types(wire, Show::Unsigned), wire, Show::Unsigned, false)),
        33 => OutType::CULTURE_INSENSITIVE_DATETIME,
        35 => OutType::UTF8,
        36 => OutType::PKCS7_WITH_TYPE_INFO,
        37 => OutType::CODE_POINTER,
        38 => OutType::DATETIME_UTC,
        _ => number.default_out(),
    };
    Some(((number, out), wire, number.show(out), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_to_what_they_stand_for() {
        for number in (0..=25).chain(300..=310) {
            let Some(wire) = InType(number).wire() else { continue };
            for out in (0..=38).map(OutType) {
                let show = InType(number).show(out);
                let (in_type, out) = tdh_types(wire, show);
                assert_eq!((in_type.wire(), in_type.show(out)), (Some(wire), show), "{number}");
                // The other way round, a default changes nothing.
                let default = InType(number).default_out();
                assert_eq!(InType(number).show(default), InType(number).show(OutType::NULL));
            }
        }
    }

    #[test]
    fn illegal_pairs_fall_back_to_the_in_type() {
        assert_eq!(InType::UINT16.show(OutType::PORT), Show::Port);
        assert_eq!(InType::UINT32.show(OutType::PORT), Show::Plain);
        assert_eq!(InType::UINT16.show(OutType::STRING), Show::Character);
        assert_eq!(InType::UINT32.show(OutType::STRING), Show::Plain);
        assert_eq!(InType::POINTER.show(OutType::NULL), Show::Hex);
        assert_eq!(InType::HEXINT32.show(OutType::NTSTATUS), Show::Hex);
        assert_eq!(InType::HEXINT32.show(OutType::BOOLEAN), Show::Hex);
        assert_eq!(InType::HEXINT64.show(OutType::DATETIME), Show::Hex);
        assert_eq!(InType::BOOLEAN.show(OutType::HEXINT32), Show::Boolean);
        assert_eq!(InType::UNICODECHAR.show(OutType::PORT), Show::Character);
        assert_eq!(InType::BINARY.show(OutType::IPV6), Show::Ipv6);
        assert_eq!(InType(299).wire(), None);
    }
}
