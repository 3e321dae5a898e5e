//! The reasons why a session cannot append to a file.

use std::fmt;

use etw_types::ClockType;

/// Why a session cannot append to a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppendError {
    /// The file cannot be read as a trace.
    Unreadable(etw_etl::Error),
    /// The file has no header.
    NoHeader,
    /// The file's buffers have another size.
    BufferSize {
        /// Bytes in the file.
        file: u32,
        /// Bytes in the session.
        session: u32,
    },
    /// The file's clock is not system time, or the session's is not.
    Clock {
        /// The clock of the file.
        file: ClockType,
        /// The clock of the session.
        session: ClockType,
    },
    /// The file was recorded on a machine with another number of processors or another pointer size.
    Machine,
    /// The file ends in the middle of a buffer.
    Length {
        /// Bytes of the file.
        length: u64,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot append: ")?;
        match self {
            AppendError::Unreadable(error) => error.fmt(f),
            AppendError::NoHeader => f.write_str("the file has no header"),
            AppendError::BufferSize { file, session } => {
                write!(f, "the file's buffers have {file} bytes, the session's {session}")
            }
            AppendError::Clock { file, session } => {
                let [file, session] = [file, session].map(|clock| clock.name().unwrap_or("unknown"));
                write!(
                    f,
                    "both the file and the session must use system time; the clock of the file is {file}, that of the session {session}"
                )
            }
            AppendError::Machine => f.write_str(
                "the file is of a machine with another number of processors or another pointer size",
            ),
            AppendError::Length { length } => {
                write!(f, "the file ends in the middle of a buffer, at {length} bytes; run `etw repair`")
            }
        }
    }
}

impl std::error::Error for AppendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AppendError::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_have_their_names() {
        let error = AppendError::Clock { file: ClockType::QPC, session: ClockType::SYSTEM };
        let text = error.to_string();
        let expected = "the clock of the file is qpc, that of the session system";
        assert!(text.ends_with(expected), "{text}");
    }
}
