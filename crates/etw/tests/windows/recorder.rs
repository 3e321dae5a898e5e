//! A recorder in place of the system's functions.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use etw::Guid;

pub mod sessions;

/// One `EventWriteTransfer`, `EventWriteEx` or `EtwEventWriteFull`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub function: &'static str,
    /// The provider of the handle.
    pub provider: Guid,
    pub descriptor: [u8; 16],
    pub activity: Option<Guid>,
    pub related: Option<Guid>,
    /// `EventWriteEx`'s filter and flags, or the property.
    pub options: (u64, u32),
    /// Bytes of all data descriptors of type 2, 1 and 0.
    pub traits: Vec<u8>,
    pub metadata: Vec<u8>,
    pub payload: Vec<u8>,
    /// The bytes of a descriptor of type 3.
    pub time: Vec<u8>,
}

type Callback =
    unsafe extern "system" fn(*const Guid, u32, u8, u64, u64, *const FilterData, *mut c_void);

#[repr(C)]
pub struct FilterData {
    pub address: u64,
    pub size: u32,
    pub kind: u32,
}

#[repr(C)]
struct Piece {
    address: u64,
    size: u32,
    kind: u32,
}

struct Registration {
    handle: u64,
    provider: Guid,
    callback: Option<Callback>,
    context: usize,
    traits: Vec<u8>,
}

#[derive(Default)]
struct State {
    registrations: Vec<Registration>,
    last_handle: u64,
    written: Vec<Written>,
    texts: Vec<(u8, u64, String)>,
    classic: Vec<Vec<u8>>,
    messages: Vec<(u32, Guid, u16, Vec<u8>)>,
    unregistered: Vec<Guid>,
    /// Enable providers within their registration: level, any, all.
    enable_at_once: Option<(u8, u64, u64)>,
    lacks_optional: bool,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// Writes are counted and not kept.
static ONLY_COUNTS: AtomicBool = AtomicBool::new(false);
/// The system's function.
static ORIGINAL_GET_PROC_ADDRESS: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);
static TESTS: Mutex<()> = Mutex::new(());

thread_local! {
    static ACTIVITY: Cell<Guid> = const { Cell::new(Guid::ZERO) };
}

fn with<R>(f: impl FnOnce(&mut State) -> R) -> R {
    f(STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(State::default))
}

/// The recorder, for one test at a time.
pub struct Recorder(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Recorder {
    pub fn start() -> Recorder {
        let guard = TESTS.lock().unwrap_or_else(PoisonError::into_inner);
        static ONCE: Once = Once::new();
        // SAFETY: the program's own image.
        ONCE.call_once(|| unsafe { patch_imports(GetModuleHandleA(std::ptr::null()).cast()) });
        with(|state| {
            state.written.clear();
            state.texts.clear();
            state.classic.clear();
            state.messages.clear();
            state.unregistered.clear();
            state.enable_at_once = None;
        });
        sessions::clear();
        ACTIVITY.set(Guid::ZERO);
        Recorder(guard)
    }

    /// Enables providers while they register.
    pub fn enable_at_once(&self, level: u8, any: u64, all: u64) {
        with(|state| state.enable_at_once = Some((level, any, all)));
    }

    /// Counts the writes within `f`, in place of keeping them.
    pub fn count(&self, f: impl FnOnce()) -> u64 {
        COUNT.store(0, Ordering::Relaxed);
        ONLY_COUNTS.store(true, Ordering::Relaxed);
        f();
        ONLY_COUNTS.store(false, Ordering::Relaxed);
        COUNT.load(Ordering::Relaxed)
    }

    /// The system lacks what old versions lack. Only before the first use of these functions.
    #[allow(dead_code, reason = "only the other test program calls it")]
    pub fn lack_optional_functions(&self) {
        with(|state| state.lacks_optional = true);
    }

    /// Calls the callbacks of a provider, as the system does for a session.
    pub fn notify(
        &self,
        provider: Guid,
        code: u32,
        (level, any, all): (u8, u64, u64),
        filter: &[u8],
    ) {
        let callbacks: Vec<(Callback, usize)> = with(|state| {
            let of = state.registrations.iter().filter(|it| it.provider == provider);
            of.filter_map(|it| Some((it.callback?, it.context))).collect()
        });
        assert!(!callbacks.is_empty(), "{provider} has no callback");
        let data = FilterData {
            address: filter.as_ptr().expose_provenance() as u64,
            size: filter.len() as u32,
            kind: 0x8000_0000,
        };
        let data = if filter.is_empty() { std::ptr::null() } else { &raw const data };
        let source = Guid::from_u128(0x5e55);
        for (callback, context) in callbacks {
            let context = std::ptr::with_exposed_provenance_mut(context);
            // SAFETY: arguments as the system passes them.
            unsafe { callback(&source, code, level, any, all, data, context) };
        }
    }

    pub fn enable(&self, provider: Guid, level: u8, any: u64, all: u64) {
        self.notify(provider, 1, (level, any, all), &[]);
    }

    pub fn disable(&self, provider: Guid) {
        self.notify(provider, 0, (0, 0, 0), &[]);
    }

    pub fn take_written(&self) -> Vec<Written> {
        with(|state| std::mem::take(&mut state.written))
    }

    pub fn take_texts(&self) -> Vec<(u8, u64, String)> {
        with(|state| std::mem::take(&mut state.texts))
    }

    pub fn take_classic(&self) -> Vec<Vec<u8>> {
        with(|state| std::mem::take(&mut state.classic))
    }

    pub fn take_messages(&self) -> Vec<(u32, Guid, u16, Vec<u8>)> {
        with(|state| std::mem::take(&mut state.messages))
    }

    pub fn take_unregistered(&self) -> Vec<Guid> {
        with(|state| std::mem::take(&mut state.unregistered))
    }

    pub fn traits_of(&self, provider: Guid) -> Option<Vec<u8>> {
        with(|state| {
            let of = state.registrations.iter().find(|it| it.provider == provider);
            of.map(|it| it.traits.clone())
        })
    }

    pub fn activity(&self) -> Guid {
        ACTIVITY.get()
    }
}

unsafe extern "system" fn event_register(
    provider: *const Guid,
    callback: Option<Callback>,
    context: *mut c_void,
    handle: *mut u64,
) -> u32 {
    // SAFETY: the caller passes a GUID and a place for the handle.
    let (id, enable) = unsafe {
        let id = provider.read_unaligned();
        let (number, enable) = with(|state| {
            state.last_handle += 0x100;
            let context = context.expose_provenance();
            let traits = Vec::new();
            let handle = state.last_handle;
            state.registrations.push(Registration {
                handle,
                provider: id,
                callback,
                context,
                traits,
            });
            (handle, state.enable_at_once)
        });
        handle.write_unaligned(number);
        (id, enable)
    };
    if let (Some((level, any, all)), Some(callback)) = (enable, callback) {
        // SAFETY: arguments as the system passes them.
        unsafe { callback(&id, 1, level, any, all, std::ptr::null(), context) };
    }
    0
}

unsafe extern "system" fn event_unregister(handle: u64) -> u32 {
    with(|state| {
        let index = state.registrations.iter().position(|it| it.handle == handle);
        let Some(index) = index else { return 6 };
        let registration = state.registrations.swap_remove(index);
        state.unregistered.push(registration.provider);
        0
    })
}

unsafe extern "system" fn event_set_information(
    handle: u64,
    class: u32,
    data: *const u8,
    size: u32,
) -> u32 {
    // SAFETY: the caller passes `size` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(data, size as usize) };
    with(|state| {
        let registration = state.registrations.iter_mut().find(|it| it.handle == handle);
        match (registration, class) {
            (Some(registration), 2) => registration.traits = bytes.to_vec(),
            (Some(_), _) => return 50,
            (None, _) => return 6,
        }
        0
    })
}

/// # Safety
/// Null or readable ids, and `count` pieces.
unsafe fn record(
    function: &'static str,
    options: (u64, u32),
    handle: u64,
    descriptor: *const [u8; 16],
    ids: [*const Guid; 2],
    pieces: (u32, *const Piece),
) -> u32 {
    // SAFETY: the caller promises it.
    let (descriptor, [activity, related], pieces) = unsafe {
        let ids = ids.map(|id| (!id.is_null()).then(|| id.read_unaligned()));
        let pieces = match pieces.0 {
            0 => &[],
            count => std::slice::from_raw_parts(pieces.1, count as usize),
        };
        (descriptor.read_unaligned(), ids, pieces)
    };
    // As the system does.
    let current = Some(ACTIVITY.get()).filter(|id| *id != Guid::ZERO);
    let activity = activity.or(current);
    let mut written =
        Written { function, descriptor, activity, related, options, ..Written::default() };
    for piece in pieces {
        let start: *const u8 = std::ptr::with_exposed_provenance(piece.address as usize);
        let bytes = match piece.size {
            0 => &[],
            // SAFETY: the caller's data descriptors name readable memory until the call returns.
            size => unsafe { std::slice::from_raw_parts(start, size as usize) },
        };
        match piece.kind & 0xff {
            0 => written.payload.extend(bytes),
            1 => written.metadata.extend(bytes),
            2 => written.traits.extend(bytes),
            3 => written.time.extend(bytes),
            _ => return 87,
        }
    }
    with(|state| {
        let Some(it) = state.registrations.iter().find(|it| it.handle == handle) else { return 6 };
        written.provider = it.provider;
        state.written.push(written);
        0
    })
}

unsafe extern "system" fn event_write_transfer(
    handle: u64,
    descriptor: *const [u8; 16],
    activity: *const Guid,
    related: *const Guid,
    count: u32,
    data: *const Piece,
) -> u32 {
    if ONLY_COUNTS.load(Ordering::Relaxed) {
        // One thread writes; a locked instruction would cost as much as a third of a write.
        COUNT.store(COUNT.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        return 0;
    }
    // SAFETY: the arguments of the call.
    unsafe { record("transfer", (0, 0), handle, descriptor, [activity, related], (count, data)) }
}

unsafe extern "system" fn event_write_ex(
    handle: u64,
    descriptor: *const [u8; 16],
    filter: u64,
    flags: u32,
    activity: *const Guid,
    related: *const Guid,
    count: u32,
    data: *const Piece,
) -> u32 {
    // SAFETY: the arguments of the call.
    unsafe { record("ex", (filter, flags), handle, descriptor, [activity, related], (count, data)) }
}

unsafe extern "system" fn etw_event_write_full(
    handle: u64,
    descriptor: *const [u8; 16],
    property: u16,
    activity: *const Guid,
    related: *const Guid,
    count: u32,
    data: *const Piece,
) -> u32 {
    let options = (0, property.into());
    // SAFETY: the arguments of the call.
    unsafe { record("full", options, handle, descriptor, [activity, related], (count, data)) }
}

unsafe extern "system" fn event_write_string(
    handle: u64,
    level: u8,
    keyword: u64,
    text: *const u16,
) -> u32 {
    let mut units = Vec::new();
    // SAFETY: a text that ends with a zero unit.
    unsafe {
        while text.add(units.len()).read_unaligned() != 0 {
            units.push(text.add(units.len()).read_unaligned());
        }
    }
    with(|state| {
        assert!(state.registrations.iter().any(|it| it.handle == handle));
        state.texts.push((level, keyword, String::from_utf16_lossy(&units)));
        0
    })
}

unsafe extern "system" fn event_activity_id_control(code: u32, id: *mut Guid) -> u32 {
    let old = ACTIVITY.get();
    // SAFETY: the caller passes an id.
    unsafe {
        match code {
            1 => id.write_unaligned(old),
            2 => ACTIVITY.set(id.read_unaligned()),
            4 => {
                ACTIVITY.set(id.read_unaligned());
                id.write_unaligned(old);
            }
            _ => return 87,
        }
    }
    0
}

/// The session of every classic provider.
const LOGGER: u64 = 0x0102_0000_0000_0007;

type ControlCallback = unsafe extern "system" fn(u32, *mut c_void, *mut u32, *mut c_void) -> u32;

unsafe extern "system" fn register_trace_guids(
    callback: Option<ControlCallback>,
    context: *mut c_void,
    control: *const Guid,
    _count: u32,
    _classes: *mut c_void,
    _image: *const u16,
    _resource: *const u16,
    handle: *mut u64,
) -> u32 {
    // SAFETY: as for `event_register`. No filter is passed, so the callback's type need not be known.
    unsafe { event_register(control, None, context, handle) };
    if let (Some(callback), Some(_)) = (callback, with(|state| state.enable_at_once)) {
        // SAFETY: arguments as the system passes them; the buffer is opaque.
        unsafe { callback(4, context, &mut 0, std::ptr::null_mut()) };
    }
    0
}

unsafe extern "system" fn get_trace_logger_handle(_buffer: *mut c_void) -> u64 {
    LOGGER
}

unsafe extern "system" fn get_trace_enable_level(_logger: u64) -> u8 {
    with(|state| state.enable_at_once).map_or(0, |(level, ..)| level)
}

unsafe extern "system" fn get_trace_enable_flags(_logger: u64) -> u32 {
    with(|state| state.enable_at_once).map_or(0, |(_, any, _)| any as u32)
}

unsafe extern "system" fn trace_event(logger: u64, header: *mut c_void) -> u32 {
    assert_eq!(logger, LOGGER);
    // SAFETY: the header's first word is the size of header and payload.
    let bytes = unsafe {
        let size = header.cast::<u16>().read_unaligned();
        std::slice::from_raw_parts(header.cast::<u8>(), size.into()).to_vec()
    };
    with(|state| state.classic.push(bytes));
    0
}

unsafe extern "system" fn trace_message_va(
    logger: u64,
    flags: u32,
    id: *const Guid,
    number: u16,
    mut arguments: *const usize,
) -> u32 {
    assert_eq!(logger, LOGGER);
    let mut payload = Vec::new();
    // SAFETY: pairs of address and size, up to a null address.
    let id = unsafe {
        while *arguments != 0 {
            let start: *const u8 = std::ptr::with_exposed_provenance(*arguments);
            payload.extend(std::slice::from_raw_parts(start, *arguments.add(1)));
            arguments = arguments.add(2);
        }
        id.read_unaligned()
    };
    with(|state| state.messages.push((flags, id, number, payload)));
    0
}

unsafe extern "system" fn get_proc_address(module: *mut c_void, name: *const c_char) -> usize {
    // SAFETY: a name that ends with NUL; ordinals are not asked for here.
    let name = unsafe { CStr::from_ptr(name) };
    let is_optional = [c"EventSetInformation", c"EventWriteEx", c"EtwEventWriteFull"]
        .contains(&name)
        || sessions::OPTIONAL.contains(&name);
    match replacement(name) {
        Some(_) if is_optional && with(|state| state.lacks_optional) => 0,
        Some(address) => address,
        None => {
            type Original = unsafe extern "system" fn(*mut c_void, *const c_char) -> usize;
            let original: *const () = std::ptr::with_exposed_provenance(
                ORIGINAL_GET_PROC_ADDRESS.load(Ordering::Acquire),
            );
            // SAFETY: the original function, which `patch_imports` has replaced.
            unsafe { std::mem::transmute::<*const (), Original>(original)(module, name.as_ptr()) }
        }
    }
}

/// The recorder's function of a name.
fn replacement(name: &CStr) -> Option<usize> {
    let address: *const () = match name.to_str().ok()? {
        "EventRegister" => event_register as *const (),
        "EventUnregister" | "UnregisterTraceGuids" => event_unregister as *const (),
        "EventSetInformation" => event_set_information as *const (),
        "EventWriteTransfer" => event_write_transfer as *const (),
        "EventWriteEx" => event_write_ex as *const (),
        "EtwEventWriteFull" => etw_event_write_full as *const (),
        "EventWriteString" => event_write_string as *const (),
        "EventActivityIdControl" => event_activity_id_control as *const (),
        "RegisterTraceGuidsW" => register_trace_guids as *const (),
        "GetTraceLoggerHandle" => get_trace_logger_handle as *const (),
        "GetTraceEnableLevel" => get_trace_enable_level as *const (),
        "GetTraceEnableFlags" => get_trace_enable_flags as *const (),
        "TraceEvent" => trace_event as *const (),
        "TraceMessageVa" => trace_message_va as *const (),
        other => return sessions::replacement(other),
    };
    Some(address.expose_provenance())
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetModuleHandleA(name: *const c_char) -> *mut c_void;
    // Imported for its entry in the table of imports.
    pub fn GetProcAddress(module: *mut c_void, name: *const c_char) -> usize;
    fn VirtualProtect(address: *mut c_void, size: usize, protect: u32, old: *mut u32) -> i32;
}

/// Replaces the system's functions in the import table of a loaded program or library.
///
/// # Safety
/// The start of an image that stays loaded while its functions are called.
pub unsafe fn patch_imports(base: *mut u8) {
    let own = replacement as fn(&CStr) -> Option<usize>;
    let patched = std::cell::Cell::new(0);
    // SAFETY: the caller promises an image, whose headers the loader has checked. Offsets are those of 64-bit images.
    unsafe {
        let u32_at = |at: *const u8| at.cast::<u32>().read_unaligned() as usize;
        let nt = base.add(u32_at(base.add(0x3c)));
        let mut import = base.add(u32_at(nt.add(0x90)));
        while u32_at(import.add(12)) != 0 {
            let (mut names, mut addresses) = (
                base.add(u32_at(import)).cast::<u64>(),
                base.add(u32_at(import.add(16))).cast::<usize>(),
            );
            while *names != 0 {
                let is_ordinal = *names >> 63 != 0;
                if !is_ordinal {
                    let name = CStr::from_ptr(base.add(*names as usize + 2).cast());
                    let to = match name {
                        name if name == c"GetProcAddress" => {
                            let own = (get_proc_address as *const ()).expose_provenance();
                            if *addresses != own {
                                ORIGINAL_GET_PROC_ADDRESS.store(*addresses, Ordering::Release);
                            }
                            Some((get_proc_address as *const ()).expose_provenance())
                        }
                        name => own(name),
                    };
                    if let Some(to) = to {
                        const READ_WRITE: u32 = 4;
                        let mut old = 0;
                        assert!(VirtualProtect(addresses.cast(), 8, READ_WRITE, &mut old) != 0);
                        addresses.write(to);
                        patched.set(patched.get() + 1);
                    }
                }
                names = names.add(1);
                addresses = addresses.add(1);
            }
            import = import.add(20);
        }
    }
    assert!(patched.get() >= 8, "only {} imports were found", patched.get());
}
