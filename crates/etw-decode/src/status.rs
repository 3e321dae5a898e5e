//! Names of status codes.

use etw_tracelogging::StatusKind;
use std::collections::HashMap;
use std::sync::LazyLock;

type Names = HashMap<(StatusKind, u32), &'static str, foldhash::fast::RandomState>;

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let mut names = Names::default();
    let mut kind = StatusKind::NtStatus;
    for line in include_str!("status.txt").lines() {
        match line {
            "[ntstatus]" => kind = StatusKind::NtStatus,
            "[hresult]" => kind = StatusKind::HResult,
            "[win32]" => kind = StatusKind::Win32,
            _ => {
                let radix = if kind == StatusKind::Win32 { 10 } else { 16 };
                if let Some((code, name)) = line.split_once(' ') {
                    if let Ok(code) = u32::from_str_radix(code, radix) {
                        names.insert((kind, code), name);
                    }
                }
            }
        }
    }
    names
});

/// The name of a code, as in Microsoft's headers.
pub fn status_name(kind: StatusKind, code: u32) -> Option<&'static str> {
    let known = NAMES.get(&(kind, code)).copied();
    known.or_else(|| match kind {
        // HRESULT_FROM_WIN32
        StatusKind::HResult if code >> 16 == 0x8007 => {
            status_name(StatusKind::Win32, code & 0xffff)
        }
        StatusKind::HResult if code >> 28 == 0xd => {
            status_name(StatusKind::NtStatus, code & !0x1000_0000)
        }
        _ => None,
    })
}

/// `0xc0000022(STATUS_ACCESS_DENIED)`, `5(ERROR_ACCESS_DENIED)`; the number alone where it has no name.
pub fn status_text(kind: StatusKind, code: u32) -> String {
    let number = match kind {
        StatusKind::Win32 => code.to_string(),
        _ => format!("{code:#010x}"),
    };
    match status_name(kind, code) {
        Some(name) => format!("{number}({name})"),
        None => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_shown_with_their_names() {
        for (kind, code, text) in [
            (StatusKind::NtStatus, 0xc000_0022, "0xc0000022(STATUS_ACCESS_DENIED)"),
            (StatusKind::NtStatus, 0, "0x00000000(STATUS_SUCCESS)"),
            (StatusKind::HResult, 0x8000_4005, "0x80004005(E_FAIL)"),
            (StatusKind::HResult, 0x8007_0002, "0x80070002(ERROR_FILE_NOT_FOUND)"),
            (StatusKind::Win32, 5, "5(ERROR_ACCESS_DENIED)"),
            (StatusKind::Win32, 193, "193(ERROR_BAD_EXE_FORMAT)"),
            (StatusKind::Win32, 4_000_000_000, "4000000000"),
        ] {
            assert_eq!(status_text(kind, code), text);
        }
    }
}
