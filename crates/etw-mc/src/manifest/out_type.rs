//! The out-types that fields of an in-type may have.

use etw_tracelogging::tdh::{InType, OutType};

/// Whether a manifest may give a field of this in-type this out-type.
pub fn is_allowed(in_type: InType, out_type: OutType) -> bool {
    matches!(out_type, OutType::NULL | OutType::NOPRINT) || of(in_type).contains(&out_type)
}

/// The out-types of an in-type, the default first.
pub fn of(in_type: InType) -> &'static [OutType] {
    match in_type {
        InType::UNICODESTRING | InType::MANIFEST_COUNTEDSTRING => {
            &[OutType::STRING, OutType::XML, OutType::JSON]
        }
        InType::ANSISTRING | InType::MANIFEST_COUNTEDANSISTRING => {
            &[OutType::STRING, OutType::XML, OutType::JSON, OutType::UTF8]
        }
        InType::INT8 => &[OutType::BYTE, OutType::STRING],
        InType::UINT8 => {
            &[OutType::UNSIGNEDBYTE, OutType::HEXINT8, OutType::STRING, OutType::BOOLEAN]
        }
        InType::INT16 => &[OutType::SHORT],
        InType::UINT16 => {
            &[OutType::UNSIGNEDSHORT, OutType::PORT, OutType::HEXINT16, OutType::STRING]
        }
        InType::INT32 => &[OutType::INT, OutType::HRESULT],
        InType::UINT32 => &[
            OutType::UNSIGNEDINT,
            OutType::PID,
            OutType::TID,
            OutType::IPV4,
            OutType::ETWTIME,
            OutType::ERRORCODE,
            OutType::WIN32ERROR,
            OutType::NTSTATUS,
            OutType::HEXINT32,
            OutType::CODE_POINTER,
        ],
        InType::INT64 => &[OutType::LONG],
        InType::UINT64 => {
            &[OutType::UNSIGNEDLONG, OutType::ETWTIME, OutType::HEXINT64, OutType::CODE_POINTER]
        }
        InType::FLOAT => &[OutType::FLOAT],
        InType::DOUBLE => &[OutType::DOUBLE],
        InType::BOOLEAN => &[OutType::BOOLEAN],
        InType::BINARY | InType::MANIFEST_COUNTEDBINARY => &[
            OutType::HEXBINARY,
            OutType::IPV6,
            OutType::SOCKETADDRESS,
            OutType::PKCS7_WITH_TYPE_INFO,
        ],
        InType::GUID => &[OutType::GUID],
        InType::POINTER => {
            &[OutType::HEXINT64, OutType::CODE_POINTER, OutType::LONG, OutType::UNSIGNEDLONG]
        }
        InType::FILETIME | InType::SYSTEMTIME => {
            &[OutType::DATETIME, OutType::CULTURE_INSENSITIVE_DATETIME, OutType::DATETIME_UTC]
        }
        InType::SID => &[OutType::STRING],
        InType::HEXINT32 => &[
            OutType::HEXINT32,
            OutType::ERRORCODE,
            OutType::WIN32ERROR,
            OutType::NTSTATUS,
            OutType::CODE_POINTER,
        ],
        InType::HEXINT64 => &[OutType::HEXINT64, OutType::CODE_POINTER],
        _ => &[],
    }
}
