//! `evntprov.h`: providers register, test their enable state and write events.

use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use etw_api::evntprov::{
    self, EventDataDescriptor, MAX_DATA_DESCRIPTORS, NewRegistration, ProgramGate, RegHandle,
    event_register_new,
};
use etw_api::{EnableChange, EventDescriptor, Guid, Keyword, Level, Status};

use crate::abi::{
    CallbackContext, RawData, RawDescriptor, RawFilterDescriptor, RawGuid, bytes, descriptor_of,
    guarded, guid_of, pointer, store, utf16_units_of, utf32_of,
};

/// `PENABLECALLBACK`.
pub(crate) type RawCallback = unsafe extern "C" fn(
    source: *const RawGuid,
    control: u32,
    level: u8,
    any: u64,
    all: u64,
    filter: *const RawFilterDescriptor,
    context: *mut c_void,
);

/// `EVENT_FILTER_TYPE_SCHEMATIZED`
const SCHEMATIZED: u32 = 0x8000_0000;

static REGISTERED: AtomicUsize = AtomicUsize::new(0);

/// Whether a program has registered a provider through this library.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub fn has_registered() -> bool {
    REGISTERED.load(Ordering::Relaxed) > 0
}

/// A C callback as the provider's; `None` for NULL.
///
/// # Safety
/// CALLBACK `callback`, `context`.
unsafe fn enable_callback(
    callback: Option<RawCallback>,
    context: *mut c_void,
) -> Option<Arc<etw_api::EnableCallback>> {
    let callback = callback?;
    let context = CallbackContext(context);
    Some(Arc::new(move |change: &EnableChange<'_>| {
        let source = RawGuid::from_guid(&change.source);
        let data = change.filter_data;
        let filter = RawFilterDescriptor {
            address: data.as_ptr().addr() as u64,
            size: data.len() as u32,
            kind: SCHEMATIZED,
        };
        let filter: *const RawFilterDescriptor =
            if data.is_empty() { std::ptr::null() } else { &raw const filter };
        // SAFETY: CALLBACK; the other arguments live until it returns.
        unsafe {
            callback(
                &raw const source,
                change.control as u32,
                change.level.0,
                change.any.0,
                change.all.0,
                filter,
                context.get(),
            );
        }
    }))
}

/// Registers, and counts the registration. `announce` gets the handle before the callback can be called.
fn register(id: &Guid, new: NewRegistration<'_>, announce: impl FnOnce(RegHandle)) -> Status {
    match event_register_new(id, new, announce) {
        Ok(_) => {
            REGISTERED.fetch_add(1, Ordering::Relaxed);
            Status::ERROR_SUCCESS
        }
        Err(status) => status,
    }
}

/// # Safety
/// ONE `provider`; CALLBACK `callback`, `context`; OUT `handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventRegister(
    provider: *const RawGuid,
    callback: Option<RawCallback>,
    context: *mut c_void,
    handle: *mut u64,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let Some(id) = (unsafe { guid_of(provider) }).filter(|_| !handle.is_null()) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        // SAFETY: CALLBACK.
        let callback = unsafe { enable_callback(callback, context) };
        let new = NewRegistration { callback, ..NewRegistration::default() };
        // SAFETY: OUT.
        register(&id, new, |registered| unsafe { store(handle, registered.0) })
    })
}

/// `etw_tlg_provider`: the state of a provider of `TraceLoggingProvider.h`.
#[repr(C)]
pub struct TraceLoggingProvider {
    gate: ProgramGate,
    handle: AtomicU64,
    id: RawGuid,
    traits: *const u8,
    traits_size: u16,
    callback: Option<RawCallback>,
    context: *mut c_void,
}

const _: () = {
    assert!(size_of::<ProgramGate>() == 24);
    assert!(offset_of!(TraceLoggingProvider, id) == 32);
    assert!(offset_of!(TraceLoggingProvider, traits) == 48);
    assert!(offset_of!(TraceLoggingProvider, context) == 48 + 3 * size_of::<usize>());
};

/// Registers a TraceLogging provider: with its traits at once, so that no event is without them. Returns 183 if it is registered.
///
/// # Safety
/// ONE `provider`, until the call returns that unregisters it; BYTES for its traits; CALLBACK for its callback and context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_register_tracelogging(provider: *const TraceLoggingProvider) -> u32 {
    guarded(|| {
        // SAFETY: ONE: `'static` is longer than the caller promises, but a registration's end closes the gate, and nothing keeps it.
        let provider: Option<&'static TraceLoggingProvider> = unsafe { provider.as_ref() };
        let Some(provider) = provider else { return Status::ERROR_INVALID_PARAMETER };
        let handle = RegHandle(provider.handle.load(Ordering::Relaxed));
        if evntprov::provider_of_handle(handle).is_some() {
            return Status::ERROR_ALREADY_EXISTS;
        }
        // SAFETY: BYTES, CALLBACK.
        let (traits, callback) = unsafe {
            (
                bytes(provider.traits, usize::from(provider.traits_size)),
                enable_callback(provider.callback, provider.context),
            )
        };
        let Some(traits) = traits else { return Status::ERROR_INVALID_PARAMETER };
        let new = NewRegistration { callback, traits, gate: Some(&provider.gate) };
        register(&provider.id.guid(), new, |registered| {
            provider.handle.store(registered.0, Ordering::Release);
        })
    })
}

/// Unregisters a provider.
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
/// BYTES `data`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventSetInformation(
    handle: u64,
    class: u32,
    data: *const c_void,
    size: u32,
) -> u32 {
    guarded(|| {
        // SAFETY: BYTES.
        let Some(data) = (unsafe { bytes(data.cast(), size as usize) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        evntprov::event_set_information(RegHandle(handle), class, data)
    })
}

/// # Safety
/// ONE `descriptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventEnabled(handle: u64, descriptor: *const RawDescriptor) -> u8 {
    // SAFETY: ONE.
    let descriptor = unsafe { descriptor_of(descriptor) };
    let is_wanted = |descriptor| evntprov::event_enabled(RegHandle(handle), &descriptor);
    u8::from(descriptor.is_some_and(is_wanted))
}

/// Whether a session enabled events of this level and keyword.
#[unsafe(no_mangle)]
pub extern "C" fn EventProviderEnabled(handle: u64, level: u8, keyword: u64) -> u8 {
    u8::from(evntprov::event_provider_enabled(RegHandle(handle), Level(level), Keyword(keyword)))
}

/// # Safety
/// ONE `descriptor`; ONE `activity`; ONE `related`; ARRAY `data`, `count`.
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
    // SAFETY: ONE.
    unsafe {
        let (activity, related) = (guid_of(activity), guid_of(related));
        write(Write { handle, descriptor, count, data }, |d, data| {
            let ids = (activity.as_ref(), related.as_ref());
            let options = evntprov::WriteOptions { filter, flags };
            evntprov::event_write_ex(d.0, d.1, options, ids.0, ids.1, data)
        })
    }
}

/// # Safety
/// ONE `descriptor`; ONE `activity`; ONE `related`; ARRAY `data`, `count`.
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
    // SAFETY: ONE.
    unsafe {
        let (activity, related) = (guid_of(activity), guid_of(related));
        write(Write { handle, descriptor, count, data }, |d, data| {
            let ids = (activity.as_ref(), related.as_ref());
            evntprov::etw_event_write_full(d.0, d.1, property, ids.0, ids.1, data)
        })
    }
}

/// # Safety
/// TEXT `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWriteString(
    handle: u64,
    level: u8,
    keyword: u64,
    text: *const u16,
) -> u32 {
    guarded(|| {
        // SAFETY: TEXT.
        let Some(units) = (unsafe { utf16_units_of(text) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        evntprov::event_write_units(RegHandle(handle), Level(level), Keyword(keyword), &units)
    })
}

/// # Safety
/// ONE `id`; OUT `id`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventActivityIdControl(code: u32, id: *mut RawGuid) -> u32 {
    guarded(|| {
        // SAFETY: ONE: `id` is read and written.
        let Some(mut guid) = (unsafe { guid_of(id) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let status = etw_api::event_activity_id_control(code, &mut guid);
        if status.is_success() {
            // SAFETY: OUT; not NULL, since a GUID was read from it.
            unsafe { store(id, RawGuid::from_guid(&guid)) };
        }
        status
    })
}

/// Returns 50: there is no security service whose descriptors could be changed.
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

/// Returns 50, as [`EventAccessControl`] does.
#[unsafe(no_mangle)]
pub extern "C" fn EventAccessQuery(
    _guid: *const RawGuid,
    _buffer: *mut c_void,
    _size: *mut u32,
) -> u32 {
    Status::ERROR_NOT_SUPPORTED.0
}

/// Returns 50, as [`EventAccessControl`] does.
#[unsafe(no_mangle)]
pub extern "C" fn EventAccessRemove(_guid: *const RawGuid) -> u32 {
    Status::ERROR_NOT_SUPPORTED.0
}

/// The arguments that all write functions have.
struct Write {
    handle: u64,
    descriptor: *const RawDescriptor,
    count: u32,
    data: *const RawData,
}

/// Calls a write function with the data descriptors as slices, which lie on the stack.
///
/// # Safety
/// ONE `descriptor`; ARRAY `data`, `count`; BYTES for each element.
#[inline]
unsafe fn write(
    Write { handle, descriptor, count, data }: Write,
    call: impl FnOnce((RegHandle, Option<&EventDescriptor>), &[EventDataDescriptor<'_>]) -> Status,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let descriptor = unsafe { descriptor_of(descriptor) };
        let handle = RegHandle(handle);
        let Some(event) = &descriptor else { return call((handle, None), &[]) };
        if !evntprov::event_enabled(handle, event) {
            // No session enabled the event, so the data is not read; `call` rejects an invalid handle.
            return call((handle, Some(event)), &[]);
        }
        let count = count as usize;
        if count > MAX_DATA_DESCRIPTORS || (data.is_null() && count > 0) {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let mut pieces = [MaybeUninit::<EventDataDescriptor<'_>>::uninit(); MAX_DATA_DESCRIPTORS];
        for (n, piece) in pieces[..count].iter_mut().enumerate() {
            // SAFETY: ARRAY, and BYTES for the element.
            let (raw, bytes) = unsafe {
                let raw = data.add(n).read_unaligned();
                (raw, bytes(pointer(raw.address), raw.size as usize))
            };
            let Some(bytes) = bytes else { return Status::ERROR_INVALID_PARAMETER };
            piece.write(EventDataDescriptor::of_kind(bytes, raw.kind));
        }
        // SAFETY: the loop initialised the first `count` elements.
        let pieces = unsafe { pieces[..count].assume_init_ref() };
        call((handle, Some(event)), pieces)
    })
}

/// `EventWriteString` for UTF-32, the encoding of `wchar_t` outside Windows.
///
/// # Safety
/// TEXT `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_event_write_wide(
    handle: u64,
    level: u8,
    keyword: u64,
    text: *const u32,
) -> u32 {
    guarded(|| {
        // SAFETY: TEXT.
        let Some(text) = (unsafe { utf32_of(text) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        evntprov::event_write_string(RegHandle(handle), Level(level), Keyword(keyword), &text)
    })
}
