//! Status codes that only controllers, consumers and decoders return.

use etw_api::Status;

pub const ERROR_INVALID_DATA: Status = Status(13);
pub const ERROR_HANDLE_EOF: Status = Status(38);
pub const ERROR_INSUFFICIENT_BUFFER: Status = Status(122);
/// The flags of a classic event are invalid.
pub const ERROR_INVALID_FLAG_NUMBER: Status = Status(186);
pub const ERROR_NOT_FOUND: Status = Status(1168);
pub const ERROR_CANCELLED: Status = Status(1223);
/// The file is not a trace (a guess: the documentation names no status).
pub const ERROR_FILE_CORRUPT: Status = Status(1392);
pub const ERROR_XML_PARSE_ERROR: Status = Status(1465);
pub const ERROR_INVALID_TIME: Status = Status(1901);
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub const ERROR_WMI_GUID_NOT_FOUND: Status = Status(4200);
pub const ERROR_WMI_ALREADY_ENABLED: Status = Status(4206);
pub const ERROR_CTX_CLOSE_PENDING: Status = Status(7007);
pub const ERROR_EVT_INVALID_EVENT_DATA: Status = Status(15005);
