//! Win32 status codes.

use std::fmt;

/// A Win32 status code, as ETW's functions return it.
///
/// Not `#[must_use]`: that an event was not taken is counted where it was lost, and most programs do not ask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($value);)*

            /// The symbol of `winerror.h`, for the codes that ETW uses.
            pub const fn name(self) -> Option<&'static str> {
                Some(match self.0 {
                    $($value => stringify!($name),)*
                    _ => return None,
                })
            }
        }
    };
}

statuses! {
    /// 0: done; of a write: taken, or nobody wanted it.
    ERROR_SUCCESS = 0;
    /// 1
    ERROR_INVALID_FUNCTION = 1;
    /// 2
    ERROR_FILE_NOT_FOUND = 2;
    /// 3
    ERROR_PATH_NOT_FOUND = 3;
    /// 5
    ERROR_ACCESS_DENIED = 5;
    /// 6: a registration or session that is not there any more.
    ERROR_INVALID_HANDLE = 6;
    /// 8: no room for the event in a session; it is lost.
    ERROR_NOT_ENOUGH_MEMORY = 8;
    /// 24: a structure's size field is wrong.
    ERROR_BAD_LENGTH = 24;
    /// 29: a file could not be written.
    ERROR_WRITE_FAULT = 29;
    /// 50
    ERROR_NOT_SUPPORTED = 50;
    /// 87
    ERROR_INVALID_PARAMETER = 87;
    /// 112
    ERROR_DISK_FULL = 112;
    /// 161
    ERROR_BAD_PATHNAME = 161;
    /// 183: a session of that name is there.
    ERROR_ALREADY_EXISTS = 183;
    /// 234: the event is larger than a session's buffer.
    ERROR_MORE_DATA = 234;
    /// 534: the event is larger than 64 KiB.
    ERROR_ARITHMETIC_OVERFLOW = 534;
    /// 1450: a limit of ETW is reached.
    ERROR_NO_SYSTEM_RESOURCES = 1450;
    /// 1460
    ERROR_TIMEOUT = 1460;
    /// 4201: no session of that name.
    ERROR_WMI_INSTANCE_NOT_FOUND = 4201;
}

impl Status {
    /// Whether it is `ERROR_SUCCESS`.
    #[inline]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// `Err` for everything but success.
    ///
    /// # Errors
    /// Itself.
    #[inline]
    pub const fn ok(self) -> Result<(), Status> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Status {}
