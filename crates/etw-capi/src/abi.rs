//! The boundary to C: layouts of structures, and reads and writes through a caller's pointers.
//!
//! # What a C caller promises
//!
//! Every `unsafe` function of this crate that C calls, and every helper below, names its clauses. A clause covers the
//! pointers that its structure contains, each by its own type.
//!
//! | clause | pointer | the caller promises | helper |
//! |---|---|---|---|
//! | **ONE** | `const T *` | NULL where the function allows it, or the address of one initialised `T`, at any alignment | [`read`], [`guid_of`], [`descriptor_of`] |
//! | **ARRAY** | `const T *` and a count | as ONE, for that many consecutive `T`; NULL if the count is 0 | [`array`] |
//! | **TEXT** | `const char *`, `const WCHAR *`, `const wchar_t *` | NULL where the function allows it, or units up to and including a zero unit, at any alignment | [`text_of`], [`utf16_of`], [`utf32_of`] |
//! | **BYTES** | `const void *` and a size | that many initialised bytes; NULL if the size is 0 | [`bytes`] |
//! | **OUT** | `T *` | NULL where the function allows it, or writable memory for one `T` (for the given number of `T` or bytes, if there is one), at any alignment | [`store`] |
//! | **SIZED** | `void *` and `ULONG *` | the `ULONG` is OUT and holds the size of the writable memory at the pointer; NULL if it holds 0 | [`put_bytes`] |
//! | **HANDLE** | `void *`, an opaque type | NULL, or the result of the function that makes such handles, not closed yet; no other thread closes it during the call | |
//! | **CALLBACK** | a function and its context | the function may be called by any thread with that context, until the call that unregisters it returns; this library does not read the context | [`CallbackContext`] |
//! | **BEGUN** | the result of a function that begins an event, and its size | the caller fills that many bytes at the result at once, and then calls the function that commits, with the same size, on the same thread | |
//! | **CODE** | `va_list`, variadic arguments, c-logging's functions | they have the types that the format or the header names; c-logging's functions may be called by the logging thread | |
//!
//! Lifetime: from the start of the call until it returns, unless the clause says otherwise. Aliasing: during that time no thread writes what
//! ONE, ARRAY, TEXT and BYTES describe, and no other thread reads or writes what OUT and SIZED describe. Two parameters may overlap only if
//! both are read.

use std::ffi::{CStr, c_char, c_void};

use etw_api::{EventDescriptor, Guid, Status};
pub use etw_types::raw::{RawDescriptor, RawFilterDescriptor, RawGuid};

use crate::status::ERROR_INSUFFICIENT_BUFFER;

/// `EVENT_DATA_DESCRIPTOR`, 16 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawData {
    pub address: u64,
    pub size: u32,
    pub kind: u8,
    pub reserved: [u8; 3],
}

/// The context that a program registers with a callback. The library passes it to the callback and never reads through it.
pub struct CallbackContext(pub *mut c_void);

// SAFETY: the library does not read through the pointer; clause CALLBACK lets any thread pass it to the callback.
unsafe impl Send for CallbackContext {}
// SAFETY: a shared reference gives only a copy of the pointer, which the library does not read through.
unsafe impl Sync for CallbackContext {}

impl CallbackContext {
    pub fn get(&self) -> *mut c_void {
        self.0
    }
}

/// The value at `at`; `None` for NULL.
///
/// # Safety
/// ONE `at`.
#[inline(always)]
pub unsafe fn read<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: ONE.
    (!at.is_null()).then(|| unsafe { at.read_unaligned() })
}

/// The GUID at `at`; `None` for NULL.
///
/// # Safety
/// ONE `at`.
#[inline(always)]
pub unsafe fn guid_of(at: *const RawGuid) -> Option<Guid> {
    // SAFETY: ONE.
    unsafe { read(at) }.map(RawGuid::guid)
}

/// The event descriptor at `at`; `None` for NULL.
///
/// # Safety
/// ONE `at`.
#[inline(always)]
pub unsafe fn descriptor_of(at: *const RawDescriptor) -> Option<EventDescriptor> {
    // SAFETY: ONE.
    unsafe { read(at) }.map(RawDescriptor::descriptor)
}

/// Copies of `count` values, one after another. Nothing for NULL.
///
/// # Safety
/// ARRAY `at`, `count`, until the iterator is dropped.
pub unsafe fn array<T: Copy>(at: *const T, count: u32) -> impl Iterator<Item = T> {
    let count = if at.is_null() { 0 } else { count as usize };
    // SAFETY: ARRAY.
    (0..count).map(move |number| unsafe { at.add(number).read_unaligned() })
}

/// The bytes at `at`; `None` for NULL and a size above 0.
///
/// # Safety
/// BYTES `at`, `size`, for as long as `'a`.
#[inline(always)]
pub unsafe fn bytes<'a>(at: *const u8, size: usize) -> Option<&'a [u8]> {
    match size {
        0 => Some(&[]),
        _ if at.is_null() => None,
        // SAFETY: BYTES.
        _ => Some(unsafe { std::slice::from_raw_parts(at, size) }),
    }
}

/// A pointer from a member that C declares as a 64-bit integer.
pub fn pointer<T>(address: u64) -> *const T {
    std::ptr::with_exposed_provenance(address as usize)
}

/// The bytes of a text in front of its NUL; `None` for NULL.
///
/// # Safety
/// TEXT `text`, for as long as `'a`.
#[inline(always)]
pub unsafe fn text_of<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: TEXT.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The units of a text in front of its zero unit; `None` for NULL.
///
/// # Safety
/// TEXT `text`.
unsafe fn units_of<T: Copy + Default + PartialEq>(text: *const T) -> Option<Vec<T>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: TEXT: `take_while` stops at the zero unit, so no read is behind it.
    let units = (0..).map(|number| unsafe { text.add(number).read_unaligned() });
    Some(units.take_while(|unit| *unit != T::default()).collect())
}

/// The UTF-16 units of a text in front of its zero unit; `None` for NULL.
///
/// # Safety
/// TEXT `text`.
pub unsafe fn utf16_units_of(text: *const u16) -> Option<Vec<u16>> {
    // SAFETY: TEXT.
    unsafe { units_of(text) }
}

/// A text in UTF-16; `None` for NULL. Unpaired surrogates become U+FFFD.
///
/// # Safety
/// TEXT `text`.
pub unsafe fn utf16_of(text: *const u16) -> Option<String> {
    // SAFETY: TEXT.
    unsafe { units_of(text) }.map(|units| String::from_utf16_lossy(&units))
}

/// A text in UTF-32, the encoding of `wchar_t` outside Windows; `None` for NULL. Units that are not scalar values become U+FFFD.
///
/// # Safety
/// TEXT `text`.
pub unsafe fn utf32_of(text: *const u32) -> Option<String> {
    // SAFETY: TEXT.
    let units = unsafe { units_of(text) }?;
    let character = |unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(units.into_iter().map(character).collect())
}

/// Writes a result.
///
/// # Safety
/// OUT `to`, and not NULL.
#[inline(always)]
pub unsafe fn store<T>(to: *mut T, value: T) {
    // SAFETY: OUT.
    unsafe { to.write_unaligned(value) };
}

/// Copies `bytes` to the caller's buffer and their size to `size`.
///
/// # Errors
/// 122: the buffer is too small; `size` then holds the size that it needs.
///
/// # Safety
/// SIZED `buffer`, `size`; `size` is not NULL.
pub unsafe fn put_bytes(bytes: &[u8], buffer: *mut u8, size: *mut u32) -> Status {
    let Ok(needed) = u32::try_from(bytes.len()) else { return Status::ERROR_NOT_ENOUGH_MEMORY };
    // SAFETY: SIZED.
    unsafe {
        let capacity = size.read_unaligned();
        size.write_unaligned(needed);
        if buffer.is_null() || capacity < needed {
            return ERROR_INSUFFICIENT_BUFFER;
        }
        buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    Status::ERROR_SUCCESS
}

/// Calls `call` and stops a Rust panic, which must not unwind through C.
pub fn guarded(call: impl FnOnce() -> Status) -> u32 {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    // The panic hook has printed the panic.
    result.unwrap_or(Status::ERROR_NOT_ENOUGH_MEMORY).0
}

const _: () = {
    assert!(size_of::<RawDescriptor>() == 16 && size_of::<RawData>() == 16);
};
