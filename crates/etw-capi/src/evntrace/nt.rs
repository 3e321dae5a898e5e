//! `NtQuerySystemInformation` and `NtSetSystemInformation`, by which programs for Windows 7 read and set a session's masks of system events.

use std::ffi::c_void;

use etw_api::Status;
use etw_types::le;

use super::system;
use crate::abi::{bytes, guarded, store};

/// `SystemPerformanceTraceInformation`
const TRACE_INFORMATION: u32 = 31;
/// `EventTraceGroupMaskInformation`
const GROUP_MASKS: u32 = 1;
/// Offsets in `EVENT_TRACE_GROUPMASK_INFORMATION`, and its size: a class, the session's handle, eight masks.
const HANDLE: usize = 8;
const MASKS: usize = 16;
const SIZE: usize = 48;

/// `STATUS_NOT_IMPLEMENTED`
const NOT_IMPLEMENTED: u32 = 0xc000_0002;
/// `STATUS_INVALID_INFO_CLASS`
const INVALID_CLASS: u32 = 0xc000_0003;
/// `STATUS_INFO_LENGTH_MISMATCH`
const WRONG_LENGTH: u32 = 0xc000_0004;
/// `STATUS_INVALID_HANDLE`
const INVALID_HANDLE: u32 = 0xc000_0008;
/// `STATUS_NOT_SUPPORTED`
const NOT_SUPPORTED: u32 = 0xc000_00bb;

/// The session's handle of a request for masks.
fn session(class: u32, request: Option<&[u8]>) -> Result<u64, u32> {
    if class != TRACE_INFORMATION {
        return Err(INVALID_CLASS);
    }
    let request = request.filter(|request| request.len() == SIZE).ok_or(WRONG_LENGTH)?;
    match le::u32(request, 0) {
        Some(GROUP_MASKS) => le::u64(request, HANDLE).ok_or(WRONG_LENGTH),
        _ => Err(NOT_IMPLEMENTED),
    }
}

fn nt_status(status: Status) -> u32 {
    match status {
        Status::ERROR_SUCCESS => 0,
        Status::ERROR_NOT_SUPPORTED => NOT_SUPPORTED,
        _ => INVALID_HANDLE,
    }
}

/// Runs a call whose status is an NTSTATUS, behind the guard of those with a Windows status.
fn guarded_nt(call: impl FnOnce() -> Result<(), u32>) -> u32 {
    let mut status = NOT_SUPPORTED;
    guarded(|| {
        status = call().err().unwrap_or(0);
        Status::ERROR_SUCCESS
    });
    status
}

/// Stores the masks of the session that `data` names. Other classes return `STATUS_INVALID_INFO_CLASS`.
///
/// # Safety
/// BYTES `data`, `size`; OUT `data`, OUT `needed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn NtQuerySystemInformation(
    class: u32,
    data: *mut u8,
    size: u32,
    needed: *mut u32,
) -> u32 {
    guarded_nt(|| {
        // SAFETY: BYTES.
        let handle = session(class, unsafe { bytes(data, size as usize) })?;
        let masks = system::masks(handle).map_err(nt_status)?;
        for (mask, at) in masks.into_iter().zip((MASKS..SIZE).step_by(4)) {
            // SAFETY: OUT: `data` has SIZE bytes, as `session` has checked.
            unsafe { store(data.add(at).cast::<u32>(), mask) };
        }
        if !needed.is_null() {
            // SAFETY: OUT.
            unsafe { store(needed, SIZE as u32) };
        }
        Ok(())
    })
}

/// Sets the masks of the session that `data` names, as `TraceSetInformation` does.
///
/// # Safety
/// BYTES `data`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn NtSetSystemInformation(class: u32, data: *const c_void, size: u32) -> u32 {
    guarded_nt(|| {
        // SAFETY: BYTES.
        let data = unsafe { bytes(data.cast(), size as usize) };
        let handle = session(class, data)?;
        let masks = data.and_then(|data| data.get(MASKS..)).ok_or(WRONG_LENGTH)?;
        system::set_masks(handle, masks).map_err(nt_status)
    })
}
