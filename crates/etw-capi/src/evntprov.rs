//! `evntprov.h`.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use etw_api::evntprov::{
    self, EventDataDescriptor, MAX_DATA_DESCRIPTORS, RegHandle, event_register,
};
use etw_api::{EnableChange, EventDescriptor, Guid, Status};

use crate::abi::{RawData, RawDescriptor, RawGuid, guarded};
use crate::write::{EventWrite, EventWriteTransfer};

/// `PENABLECALLBACK`.
type RawCallback = unsafe extern "C" fn(
    source: *const RawGuid,
    control: u32,
    level: u8,
    any: u64,
    all: u64,
    filter: *const RawFilter,
    context: *mut c_void,
);

/// `EVENT_FILTER_DESCRIPTOR`.
#[repr(C)]
pub struct RawFilter {
    address: u64,
    size: u32,
    kind: u32,
}

/// `EVENT_FILTER_TYPE_SCHEMATIZED`
const SCHEMATIZED: u32 = 0x8000_0000;

static REGISTERED: AtomicUsize = AtomicUsize::new(0);

/// Is a provider registered by this library's calls?
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub fn has_registered() -> bool {
    REGISTERED.load(Ordering::Relaxed) > 0
}

/// The context that a program gave: handed back to it and never looked at.
struct Context(*mut c_void);

// SAFETY: the pointer is not followed here; the program, as on Windows, is told by another thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventRegister(
    provider: *const RawGuid,
    callback: Option<RawCallback>,
    context: *mut c_void,
    handle: *mut u64,
) -> u32 {
    guarded(|| {
        if provider.is_null() || handle.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let context = Context(context);
        let callback = callback.map(|callback| {
            let told = move |change: &EnableChange<'_>| {
                let source = RawGuid::from_guid(&change.source);
                let data = change.filter_data;
                let filter = RawFilter {
                    address: data.as_ptr().addr() as u64,
                    size: data.len() as u32,
                    kind: SCHEMATIZED,
                };
                let filter: *const RawFilter =
                    if data.is_empty() { std::ptr::null() } else { &raw const filter };
                // SAFETY: the program's own function, with arguments that live as long as the call.
                unsafe {
                    callback(
                        &raw const source,
                        change.control as u32,
                        change.level,
                        change.any,
                        change.all,
                        filter,
                        context.get(),
                    );
                }
            };
            let told: Arc<etw_api::EnableCallback> = Arc::new(told);
            told
        });
        // SAFETY: the caller's promise.
        let id = unsafe { provider.read_unaligned() }.guid();
        match event_register(&id, callback) {
            Ok(registered) => {
                REGISTERED.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the caller's promise.
                unsafe { handle.write_unaligned(registered.0) };
                Status::ERROR_SUCCESS
            }
            Err(status) => status,
        }
    })
}

/// Unregisters.
#[unsafe(no_mangle)]
pub extern "C" fn EventUnregister(handle: u64) -> u32 {
    guarded(|| {
        let status = evntprov::event_unregister(RegHandle(handle));
        if status == Status::ERROR_SUCCESS {
            REGISTERED.fetch_sub(1, Ordering::Relaxed);
        }
        status
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventSetInformation(
    handle: u64,
    class: u32,
    data: *const c_void,
    size: u32,
) -> u32 {
    guarded(|| {
        if data.is_null() && size != 0 {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data.addr() as u64, size) };
        evntprov::event_set_information(RegHandle(handle), class, data)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventEnabled(handle: u64, descriptor: *const RawDescriptor) -> u8 {
    // SAFETY: the caller's promise.
    let descriptor = unsafe { descriptor_of(descriptor) };
    let is_wanted = |descriptor| evntprov::event_enabled(RegHandle(handle), &descriptor);
    u8::from(descriptor.is_some_and(is_wanted))
}

/// Does a session want events of this level and keyword?
#[unsafe(no_mangle)]
pub extern "C" fn EventProviderEnabled(handle: u64, level: u8, keyword: u64) -> u8 {
    u8::from(evntprov::event_provider_enabled(RegHandle(handle), level, keyword))
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWriteEx(
    handle: u64,
    descriptor: *const RawDescriptor,
    filter: u64,
    flags: u32,
    activity: *const RawGuid,
    related: *const RawGuid,
    count: u32,
    data: *const RawData,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let (activity, related) = (guid_of(activity), guid_of(related));
        write((handle, descriptor, count, data), |d, data| {
            let ids = (activity.as_ref(), related.as_ref());
            evntprov::event_write_ex(d.0, d.1, filter, flags, ids.0, ids.1, data)
        })
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EtwEventWriteFull(
    handle: u64,
    descriptor: *const RawDescriptor,
    property: u16,
    activity: *const RawGuid,
    related: *const RawGuid,
    count: u32,
    data: *const RawData,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let (activity, related) = (guid_of(activity), guid_of(related));
        write((handle, descriptor, count, data), |d, data| {
            let ids = (activity.as_ref(), related.as_ref());
            evntprov::etw_event_write_full(d.0, d.1, property, ids.0, ids.1, data)
        })
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWriteString(
    handle: u64,
    level: u8,
    keyword: u64,
    text: *const u16,
) -> u32 {
    guarded(|| {
        if text.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise: units up to a zero one.
        let units = unsafe {
            let length = (0..).take_while(|n| text.add(*n).read_unaligned() != 0).count();
            (0..length).map(|n| text.add(n).read_unaligned()).collect::<Vec<u16>>()
        };
        evntprov::event_write_units(RegHandle(handle), level, keyword, &units)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventActivityIdControl(code: u32, id: *mut RawGuid) -> u32 {
    guarded(|| {
        if id.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let mut guid = unsafe { id.read_unaligned() }.guid();
        let status = etw_api::event_activity_id_control(code, &mut guid);
        if status.is_success() {
            // SAFETY: the caller's promise.
            unsafe { id.write_unaligned(RawGuid::from_guid(&guid)) };
        }
        status
    })
}

/// Without a security service there is nothing to look up or to change.
#[unsafe(no_mangle)]
pub extern "C" fn EventAccessControl(
    _guid: *const RawGuid,
    _operation: u32,
    _sid: *const c_void,
    _rights: u32,
    _allow: u8,
) -> u32 {
    Status::ERROR_NOT_SUPPORTED.0
}

/// As [`EventAccessControl`].
#[unsafe(no_mangle)]
pub extern "C" fn EventAccessQuery(
    _guid: *const RawGuid,
    _buffer: *mut c_void,
    _size: *mut u32,
) -> u32 {
    Status::ERROR_NOT_SUPPORTED.0
}

/// As [`EventAccessControl`].
#[unsafe(no_mangle)]
pub extern "C" fn EventAccessRemove(_guid: *const RawGuid) -> u32 {
    Status::ERROR_NOT_SUPPORTED.0
}

/// # Safety
/// NULL, or a descriptor.
unsafe fn descriptor_of(descriptor: *const RawDescriptor) -> Option<EventDescriptor> {
    // SAFETY: the caller's promise.
    (!descriptor.is_null()).then(|| unsafe { descriptor.read_unaligned() }.descriptor())
}

/// # Safety
/// NULL, or a GUID.
pub unsafe fn guid_of(guid: *const RawGuid) -> Option<Guid> {
    // SAFETY: the caller's promise.
    (!guid.is_null()).then(|| unsafe { guid.read_unaligned() }.guid())
}

/// # Safety
/// So many bytes are there and stay unchanged for `'a`.
unsafe fn bytes<'a>(address: u64, size: u32) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    let start = std::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, size as usize) }
}

/// The pieces as slices, on the stack, for one of the write calls.
///
/// # Safety
/// The descriptor is NULL or one; so many pieces are there, each leading to its bytes.
#[inline]
unsafe fn write(
    (handle, descriptor, count, data): (u64, *const RawDescriptor, u32, *const RawData),
    call: impl FnOnce((RegHandle, Option<&EventDescriptor>), &[EventDataDescriptor<'_>]) -> Status,
) -> u32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let descriptor = unsafe { descriptor_of(descriptor) };
        let handle = RegHandle(handle);
        let Some(event) = &descriptor else { return call((handle, None), &[]) };
        if !evntprov::event_enabled(handle, event) {
            // Nothing is looked at; the call tells a handle that is none.
            return call((handle, Some(event)), &[]);
        }
        let count = count as usize;
        if count > MAX_DATA_DESCRIPTORS || (data.is_null() && count > 0) {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let mut pieces = [MaybeUninit::<EventDataDescriptor<'_>>::uninit(); MAX_DATA_DESCRIPTORS];
        for (n, piece) in pieces[..count].iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let raw = data.add(n).read_unaligned();
                let bytes = bytes(raw.address, raw.size);
                piece.write(EventDataDescriptor::of_kind(bytes, raw.kind));
            }
        }
        // SAFETY: so many have just been written.
        let pieces = unsafe { pieces[..count].assume_init_ref() };
        call((handle, Some(event)), pieces)
    })
}

macro_rules! etw_names {
    ($($name:ident = $of:ident($($argument:ident: $type:ty),*);)*) => {$(
        /// The name in `ntdll`.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            #[allow(unused_unsafe)]
            // SAFETY: the caller's promise.
            unsafe { $of($($argument),*) }
        }
    )*};
}

etw_names! {
    EtwEventRegister = EventRegister(provider: *const RawGuid, callback: Option<RawCallback>, context: *mut c_void, handle: *mut u64);
    EtwEventUnregister = EventUnregister(handle: u64);
    EtwEventSetInformation = EventSetInformation(handle: u64, class: u32, data: *const c_void, size: u32);
    EtwEventWrite = EventWrite(handle: u64, descriptor: *const RawDescriptor, count: u32, data: *const RawData);
    EtwEventWriteTransfer = EventWriteTransfer(handle: u64, descriptor: *const RawDescriptor, activity: *const RawGuid, related: *const RawGuid, count: u32, data: *const RawData);
    EtwEventWriteEx = EventWriteEx(handle: u64, descriptor: *const RawDescriptor, filter: u64, flags: u32, activity: *const RawGuid, related: *const RawGuid, count: u32, data: *const RawData);
    EtwEventWriteString = EventWriteString(handle: u64, level: u8, keyword: u64, text: *const u16);
    EtwEventActivityIdControl = EventActivityIdControl(code: u32, id: *mut RawGuid);
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EtwEventEnabled(handle: u64, descriptor: *const RawDescriptor) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { EventEnabled(handle, descriptor) }
}

/// The name in `ntdll`.
#[unsafe(no_mangle)]
pub extern "C" fn EtwEventProviderEnabled(handle: u64, level: u8, keyword: u64) -> u8 {
    EventProviderEnabled(handle, level, keyword)
}

/// `EventWriteString` of UTF-32, as `wchar_t` has it outside of Windows. What is no scalar value becomes U+FFFD.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_event_write_wide(
    handle: u64,
    level: u8,
    keyword: u64,
    text: *const u32,
) -> u32 {
    guarded(|| {
        if text.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise: units up to a zero one.
        let text: String = unsafe {
            let length = (0..).take_while(|n| text.add(*n).read_unaligned() != 0).count();
            (0..length)
                .map(|n| text.add(n).read_unaligned())
                .map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        };
        evntprov::event_write_string(RegHandle(handle), level, keyword, &text)
    })
}
