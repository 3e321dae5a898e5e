//! `ReportEvent`, in the three encodings.

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use etw_api::{Report, ReportType, Status};

use crate::abi::{array, bytes, text_of, utf16_of, utf32_of};
use crate::last_error::SetLastError;
use crate::winevt::with_source;

/// Strings of one report, as on Windows.
const MAX_STRINGS: u16 = 256;

/// The parts of a report that have no text.
struct Parts {
    kind: u16,
    category: u16,
    id: u32,
    user: *const u8,
    data_size: u32,
    data: *const u8,
}

/// The bytes of a SID; nothing for NULL, `None` for an invalid one.
///
/// # Safety
/// BYTES `sid`, as many as the SID says that it has: NULL, or 8 bytes and 4 for each of its parts, whose number is the second byte.
unsafe fn sid_of<'a>(sid: *const u8) -> Option<&'a [u8]> {
    if sid.is_null() {
        return Some(&[]);
    }
    // SAFETY: BYTES.
    let head = unsafe { bytes(sid, 8) }?;
    let (revision, count) = (head[0], usize::from(head[1]));
    if revision != 1 || count > 15 {
        return None;
    }
    // SAFETY: BYTES.
    unsafe { bytes(sid, 8 + 4 * count) }
}

/// Reports an event; FALSE, with the thread's last error, if it was not kept.
///
/// # Safety
/// HANDLE `source`; the clauses of [`sid_of`] for `parts.user`; BYTES `parts.data`, `parts.data_size`.
unsafe fn report(source: *mut c_void, parts: &Parts, strings: Option<Vec<String>>) -> i32 {
    let reported = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the clauses of this function.
        let (user, data) =
            unsafe { (sid_of(parts.user), bytes(parts.data, parts.data_size as usize)) };
        let (Some(user), Some(data), Some(strings)) = (user, data, strings) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
        let kind = ReportType(parts.kind);
        let (category, id) = (parts.category, parts.id);
        let report = Report { kind, category, id, user, strings: &strings, data };
        with_source(source, |source| source.report(&report))
    }));
    let status = reported.unwrap_or(Status::ERROR_NOT_ENOUGH_MEMORY);
    if !status.is_success() {
        SetLastError(status.0);
    }
    i32::from(status.is_success())
}

/// The strings of a report; `None` if one of them is NULL, or there are too many.
///
/// # Safety
/// ARRAY `strings`, `count`; the clauses of `read` for each of them.
unsafe fn strings_of<T>(
    strings: *const *const T,
    count: u16,
    read: impl Fn(*const T) -> Option<String>,
) -> Option<Vec<String>> {
    if count > MAX_STRINGS || (count > 0 && strings.is_null()) {
        return None;
    }
    // SAFETY: ARRAY.
    unsafe { array(strings, count.into()) }.map(read).collect()
}

/// Reports an event.
///
/// # Safety
/// HANDLE `source`; ARRAY `strings`, `count`; TEXT for each string; BYTES `data`, `size`; BYTES `user`, as many as the SID says that
/// it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ReportEventA(
    source: *mut c_void,
    kind: u16,
    category: u16,
    id: u32,
    user: *const c_void,
    count: u16,
    size: u32,
    strings: *const *const c_char,
    data: *const c_void,
) -> i32 {
    let parts = Parts { kind, category, id, user: user.cast(), data_size: size, data: data.cast() };
    // SAFETY: the clauses of this function.
    unsafe {
        let strings = strings_of(strings, count, |string| {
            text_of(string).map(|text| String::from_utf8_lossy(text).into_owned())
        });
        report(source, &parts, strings)
    }
}

/// As [`ReportEventA`], in UTF-16.
///
/// # Safety
/// As [`ReportEventA`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ReportEventW(
    source: *mut c_void,
    kind: u16,
    category: u16,
    id: u32,
    user: *const c_void,
    count: u16,
    size: u32,
    strings: *const *const u16,
    data: *const c_void,
) -> i32 {
    let parts = Parts { kind, category, id, user: user.cast(), data_size: size, data: data.cast() };
    // SAFETY: the clauses of this function.
    unsafe {
        let strings = strings_of(strings, count, |string| utf16_of(string));
        report(source, &parts, strings)
    }
}

/// As [`ReportEventA`], in UTF-32.
///
/// # Safety
/// As [`ReportEventA`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_report_event_wide(
    source: *mut c_void,
    kind: u16,
    category: u16,
    id: u32,
    user: *const c_void,
    count: u16,
    size: u32,
    strings: *const *const u32,
    data: *const c_void,
) -> i32 {
    let parts = Parts { kind, category, id, user: user.cast(), data_size: size, data: data.cast() };
    // SAFETY: the clauses of this function.
    unsafe {
        let strings = strings_of(strings, count, |string| utf32_of(string));
        report(source, &parts, strings)
    }
}
