//! The system's functions and structures.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use etw_ring::Piece;
use etw_types::raw::RawFilterDescriptor;
use etw_types::{EventDescriptor, Guid, Status};

/// `PENABLECALLBACK`: source, control code, level, any, all, filter, context.
pub(super) type EnableCallback = unsafe extern "system" fn(
    *const Guid,
    u32,
    u8,
    u64,
    u64,
    *const RawFilterDescriptor,
    *mut c_void,
);

/// `WMIDPREQUEST`: request code, context, size of the buffer, buffer with a `WNODE_HEADER`.
pub(super) type ControlCallback =
    unsafe extern "system" fn(u32, *mut c_void, *mut u32, *mut c_void) -> u32;

/// `EVENT_DESCRIPTOR`.
pub(super) type Descriptor = [u8; 16];

/// The bytes of `EVENT_DESCRIPTOR`.
pub(super) fn descriptor(descriptor: &EventDescriptor) -> Descriptor {
    crate::write::descriptor_bytes(descriptor)
}

#[link(name = "advapi32")]
unsafe extern "system" {
    pub(super) fn EventRegister(
        provider: *const Guid,
        callback: Option<EnableCallback>,
        context: *mut c_void,
        handle: *mut u64,
    ) -> u32;
    pub(super) fn EventUnregister(handle: u64) -> u32;
    pub(super) fn EventWriteTransfer(
        handle: u64,
        descriptor: *const Descriptor,
        activity: *const Guid,
        related: *const Guid,
        count: u32,
        data: *const Piece,
    ) -> u32;
    fn EventWriteString(handle: u64, level: u8, keyword: u64, text: *const u16) -> u32;
    fn EventActivityIdControl(code: u32, id: *mut Guid) -> u32;
    pub(super) fn RegisterTraceGuidsW(
        callback: Option<ControlCallback>,
        context: *mut c_void,
        control: *const Guid,
        count: u32,
        classes: *mut c_void,
        image_path: *const u16,
        resource_name: *const u16,
        handle: *mut u64,
    ) -> u32;
    pub(super) fn UnregisterTraceGuids(handle: u64) -> u32;
    pub(super) fn GetTraceLoggerHandle(buffer: *mut c_void) -> u64;
    pub(super) fn GetTraceEnableLevel(logger: u64) -> u8;
    pub(super) fn GetTraceEnableFlags(logger: u64) -> u32;
    pub(super) fn TraceEvent(logger: u64, header: *mut c_void) -> u32;
    pub(super) fn TraceMessageVa(
        logger: u64,
        flags: u32,
        id: *const Guid,
        number: u16,
        arguments: *const usize,
    ) -> u32;
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetModuleHandleA(name: *const c_char) -> *mut c_void;
    fn LoadLibraryExA(name: *const c_char, file: *mut c_void, flags: u32) -> *mut c_void;
    fn GetProcAddress(module: *mut c_void, name: *const c_char) -> Option<Function>;
}

/// A function of unknown type.
pub(super) type Function = unsafe extern "system" fn() -> isize;

/// A function that old versions of the system lack.
pub(super) struct Optional {
    module: &'static CStr,
    name: &'static CStr,
    /// The module may not be loaded yet.
    must_load: bool,
    address: OnceLock<Option<Function>>,
}

impl Optional {
    /// A function of a module that every process with this code has loaded.
    pub const fn new(module: &'static CStr, name: &'static CStr) -> Optional {
        Optional { module, name, must_load: false, address: OnceLock::new() }
    }

    /// A function of a library of the system that is loaded when the function is first needed, and then stays.
    #[cfg(any(feature = "session", feature = "control"))]
    pub const fn in_library(module: &'static CStr, name: &'static CStr) -> Optional {
        Optional { module, name, must_load: true, address: OnceLock::new() }
    }

    pub fn get(&self) -> Option<Function> {
        /// Not the program's folder, where a foreign library of that name could be.
        const LOAD_LIBRARY_SEARCH_SYSTEM32: u32 = 0x800;
        // SAFETY: names that end with NUL; a module that stays loaded.
        *self.address.get_or_init(|| unsafe {
            let name = self.module.as_ptr();
            let module = match self.must_load {
                true => LoadLibraryExA(name, std::ptr::null_mut(), LOAD_LIBRARY_SEARCH_SYSTEM32),
                false => GetModuleHandleA(name),
            };
            if module.is_null() { None } else { GetProcAddress(module, self.name.as_ptr()) }
        })
    }
}

/// Since Windows 8.
static EVENT_SET_INFORMATION: Optional = Optional::new(c"advapi32.dll", c"EventSetInformation");
/// Since Windows 7.
static EVENT_WRITE_EX: Optional = Optional::new(c"advapi32.dll", c"EventWriteEx");
/// Undocumented export of the system library: the one call that takes an `EventProperty`.
static EVENT_WRITE_FULL: Optional = Optional::new(c"ntdll.dll", c"EtwEventWriteFull");

/// `EventSetInformation` with `EventProviderSetTraits`. `ERROR_NOT_SUPPORTED` where the system lacks it.
pub(super) fn set_traits(handle: u64, traits: &[u8]) -> Status {
    const SET_TRAITS: u32 = 2;
    type SetInformation = unsafe extern "system" fn(u64, u32, *const c_void, u32) -> u32;
    let Some(function) = EVENT_SET_INFORMATION.get() else { return Status::ERROR_NOT_SUPPORTED };
    // SAFETY: the signature of `evntprov.h`; the system copies the traits.
    unsafe {
        let function = std::mem::transmute::<Function, SetInformation>(function);
        Status(function(handle, SET_TRAITS, traits.as_ptr().cast(), traits.len() as u32))
    }
}

/// The arguments that all writes share.
pub(super) struct Write<'a> {
    pub handle: u64,
    pub descriptor: &'a Descriptor,
    pub activity: *const Guid,
    pub related: *const Guid,
    pub data: &'a [Piece],
}

impl Write<'_> {
    /// `EventWriteTransfer`.
    #[inline(always)]
    pub fn transfer(&self) -> Status {
        // SAFETY: null or readable ids, and pieces whose bytes live through the call.
        Status(unsafe {
            EventWriteTransfer(
                self.handle,
                self.descriptor,
                self.activity,
                self.related,
                self.data.len() as u32,
                self.data.as_ptr(),
            )
        })
    }

    /// `EventWriteEx`; without it, [`transfer`](Self::transfer) if no session is excluded.
    pub fn with_flags(&self, exclude: u64, flags: u32) -> Status {
        type WriteEx = unsafe extern "system" fn(
            u64,
            *const Descriptor,
            u64,
            u32,
            *const Guid,
            *const Guid,
            u32,
            *const Piece,
        ) -> u32;
        let Some(function) = EVENT_WRITE_EX.get() else {
            return if exclude == 0 { self.transfer() } else { Status::ERROR_NOT_SUPPORTED };
        };
        // SAFETY: the signature of `evntprov.h`; arguments as in `transfer`.
        unsafe {
            let function = std::mem::transmute::<Function, WriteEx>(function);
            Status(function(
                self.handle,
                self.descriptor,
                exclude,
                flags,
                self.activity,
                self.related,
                self.data.len() as u32,
                self.data.as_ptr(),
            ))
        }
    }

    /// `EtwEventWriteFull`. Without it the event is written without the property.
    pub fn with_property(&self, property: u16) -> Status {
        type WriteFull = unsafe extern "system" fn(
            u64,
            *const Descriptor,
            u16,
            *const Guid,
            *const Guid,
            u32,
            *const Piece,
        ) -> u32;
        let Some(function) = EVENT_WRITE_FULL.get() else { return self.transfer() };
        // SAFETY: the parameters of the kernel's function of that name; a guess for the export; arguments as in `transfer`.
        unsafe {
            let function = std::mem::transmute::<Function, WriteFull>(function);
            Status(function(
                self.handle,
                self.descriptor,
                property,
                self.activity,
                self.related,
                self.data.len() as u32,
                self.data.as_ptr(),
            ))
        }
    }
}

/// `EventWriteString`. `text` ends with a zero unit.
pub(super) fn write_string(handle: u64, level: u8, keyword: u64, text: &[u16]) -> Status {
    debug_assert_eq!(text.last(), Some(&0));
    // SAFETY: a text that ends with a zero unit.
    Status(unsafe { EventWriteString(handle, level, keyword, text.as_ptr()) })
}

thread_local! {
    /// The thread's activity id, where the system keeps none.
    static OWN_ACTIVITY: Cell<Guid> = const { Cell::new(Guid::ZERO) };
}

const GET_ID: u32 = 1;
const SET_ID: u32 = 2;
const GET_SET_ID: u32 = 4;

/// Whether the system keeps the activity ids of threads. Wine's function does nothing and reports success.
fn system_keeps_ids() -> bool {
    static KEEPS: OnceLock<bool> = OnceLock::new();
    *KEEPS.get_or_init(|| {
        let probe = Guid::from_u128(0x6f70_656e_6574_7720_6163_7469_7669_7479);
        let (mut previous, mut seen) = (probe, Guid::ZERO);
        // SAFETY: the system reads and writes ids.
        unsafe {
            EventActivityIdControl(GET_SET_ID, &mut previous);
            EventActivityIdControl(GET_ID, &mut seen);
            if seen == probe {
                EventActivityIdControl(SET_ID, &mut previous);
            }
        }
        seen == probe
    })
}

/// The thread's activity id.
pub(crate) fn activity_id() -> Guid {
    if !system_keeps_ids() {
        return OWN_ACTIVITY.get();
    }
    let mut id = Guid::ZERO;
    // SAFETY: the system writes the id.
    unsafe { EventActivityIdControl(GET_ID, &mut id) };
    id
}

/// Sets the thread's activity id; the previous one.
pub(crate) fn set_activity_id(mut id: Guid) -> Guid {
    if !system_keeps_ids() {
        return OWN_ACTIVITY.replace(id);
    }
    // SAFETY: the system reads the id and writes the previous one.
    unsafe { EventActivityIdControl(GET_SET_ID, &mut id) };
    id
}

/// Structures have the layout of the Windows headers.
const _: () = {
    assert!(size_of::<Piece>() == 16 && size_of::<RawFilterDescriptor>() == 16);
    assert!(size_of::<Guid>() == 16 && size_of::<Descriptor>() == 16);
};
