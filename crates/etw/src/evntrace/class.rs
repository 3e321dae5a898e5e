//! Event classes: registered GUIDs, and instances of them.

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use etw_types::{Guid, Status};

#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
use crate::fork;
use crate::lock::ForkLock;

/// The number of event classes that a process can have registered at a time.
pub const MAX_CLASSES: usize = 4096;

/// A registered event class: the number of its entry in the low bits, and above them how often that entry was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClassHandle(pub u32);

const CLASS_BITS: u32 = 13;
const _: () = assert!(MAX_CLASSES < 1 << CLASS_BITS);

/// The entry of a class: read without a lock, changed under the lock of `FREE_CLASSES`.
struct Class {
    /// Odd while the entry is used.
    sequence: AtomicU32,
    guid: [AtomicU64; 2],
    /// The number of the last instance.
    instances: AtomicU32,
}

static CLASSES: [Class; MAX_CLASSES] = [const {
    Class {
        sequence: AtomicU32::new(0),
        guid: [const { AtomicU64::new(0) }; 2],
        instances: AtomicU32::new(0),
    }
}; MAX_CLASSES];

/// Entries that were used before, and how many were ever used.
type Free = (Vec<usize>, usize);
static FREE_CLASSES: ForkLock<Free> = ForkLock::new((Vec::new(), 0));

fn free() -> MutexGuard<'static, Free> {
    #[cfg(any(target_os = "linux", all(unix, feature = "session")))]
    fork::hold(fork::Place::Classes, &FREE_CLASSES);
    FREE_CLASSES.lock()
}

fn handle_of(index: usize, sequence: u32) -> ClassHandle {
    ClassHandle((index as u32 + 1) | sequence << CLASS_BITS)
}

fn class_of(handle: ClassHandle) -> Option<&'static Class> {
    let index = (handle.0 & ((1 << CLASS_BITS) - 1)).checked_sub(1)? as usize;
    let class = CLASSES.get(index)?;
    let sequence = class.sequence.load(Ordering::Acquire);
    (sequence & 1 == 1 && handle_of(index, sequence) == handle).then_some(class)
}

/// The GUID of a class. Async-signal-safe.
pub(super) fn guid_of(handle: ClassHandle) -> Option<Guid> {
    let class = class_of(handle)?;
    let mut guid = [0; 16];
    for (half, bytes) in class.guid.iter().zip(guid.chunks_mut(8)) {
        bytes.copy_from_slice(&half.load(Ordering::Relaxed).to_le_bytes());
    }
    // Pairs with the fence of `register`: a GUID of a later registration is visible together with its sequence number.
    fence(Ordering::Acquire);
    class_of(handle).map(|_| Guid(guid))
}

/// Keeps event classes registered, for [instances](super::trace_event_instance); dropping it unregisters them.
#[doc(alias = "TRACE_GUID_REGISTRATION")]
#[derive(Debug, Default)]
pub struct TraceClasses(Vec<ClassHandle>);

impl TraceClasses {
    /// Registers classes by their GUIDs; [`handles`](Self::handles) are in the same order.
    ///
    /// # Errors
    /// `ERROR_NO_SYSTEM_RESOURCES` for more than 4096 in a process.
    pub fn register(guids: &[Guid]) -> Result<TraceClasses, Status> {
        let mut free = self::free();
        if guids.len() > free.0.len() + (MAX_CLASSES - free.1) {
            return Err(Status::ERROR_NO_SYSTEM_RESOURCES);
        }
        let mut handles = Vec::with_capacity(guids.len());
        for guid in guids {
            let index = free.0.pop().unwrap_or_else(|| {
                free.1 += 1;
                free.1 - 1
            });
            let class = &CLASSES[index];
            // Pairs with the fence of `guid_of`: a thread that reads part of this GUID sees that the entry was released.
            fence(Ordering::Release);
            for (half, bytes) in class.guid.iter().zip([0, 8]) {
                let bytes = etw_types::le::u64(&guid.0, bytes).unwrap_or_default();
                half.store(bytes, Ordering::Relaxed);
            }
            class.instances.store(0, Ordering::Relaxed);
            let sequence = class.sequence.fetch_add(1, Ordering::Release) + 1;
            handles.push(handle_of(index, sequence));
        }
        Ok(TraceClasses(handles))
    }

    /// The handles.
    pub fn handles(&self) -> &[ClassHandle] {
        &self.0
    }
}

impl Drop for TraceClasses {
    fn drop(&mut self) {
        let mut free = self::free();
        for handle in &self.0 {
            let index = (handle.0 & ((1 << CLASS_BITS) - 1)) as usize - 1;
            CLASSES[index].sequence.fetch_add(1, Ordering::AcqRel);
            free.0.push(index);
        }
    }
}

/// A number for a transaction of a class: never 0, and different from the last four billion.
///
/// # Errors
/// `ERROR_INVALID_PARAMETER` if the handle names no class.
#[doc(alias = "CreateTraceInstanceId")]
pub fn create_trace_instance_id(class: ClassHandle) -> Result<u32, Status> {
    let class = class_of(class).ok_or(Status::ERROR_INVALID_PARAMETER)?;
    loop {
        let instance = class.instances.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if instance != 0 {
            return Ok(instance);
        }
    }
}
