//! `TdhCreatePayloadFilter`, `TdhAggregatePayloadFilters`: conditions on the fields of manifest events, for `EnableTraceEx2`.
//!
//! A payload filter is a number that this module looks up, not an address. The memory at the address in a filter descriptor is
//!
//! ```text
//! 0  "ETWFILT\x01"   8  u64 number, from 1
//! ```

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use etw_api::{Guid, Status};
use etw_decode::PayloadLayout;
use etw_session::{Condition, EventKey, PayloadFilter, PayloadOp};

use crate::abi::{
    RawDescriptor, RawFilterDescriptor, RawGuid, descriptor_of, guarded, guid_of, read, store,
    utf16_of,
};
use crate::loaded;
use crate::status::ERROR_NOT_FOUND;

/// `EVENT_FILTER_TYPE_PAYLOAD`
const PAYLOAD: u32 = 0x8000_0100;
/// `MAX_PAYLOAD_PREDICATES`
const MOST_PREDICATES: u32 = 8;
/// Filters in one descriptor.
const MOST_FILTERS: u32 = 64;
/// `MAX_EVENT_FILTER_PAYLOAD_SIZE`: the limit for the conditions of all filters together with the metadata of their events.
const LARGEST: usize = 4096;
/// The limit for the name of a field and for a value, in units.
const LONGEST_TEXT: usize = 256;
const MAGIC: [u8; 8] = *b"ETWFILT\x01";

/// `PAYLOAD_FILTER_PREDICATE`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawPredicate {
    field: *const u16,
    op: u16,
    value: *const u16,
}

#[derive(Default)]
struct Filters {
    last: u64,
    single: HashMap<u64, Single>,
    /// Filters that one descriptor combines, with the bytes to which the descriptor points.
    together: HashMap<u64, (Box<[u8; 16]>, Vec<PayloadFilter>)>,
}

struct Single {
    provider: Guid,
    filter: PayloadFilter,
    /// The approximate size in bytes, for the limit of a descriptor.
    size: usize,
}

static FILTERS: Mutex<Option<Filters>> = Mutex::new(None);

fn with<T>(call: impl FnOnce(&mut Filters) -> T) -> T {
    call(FILTERS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

fn key(filter: *mut c_void) -> u64 {
    filter.addr() as u64
}

/// # Safety
/// ONE `provider`; ONE `descriptor`; ARRAY `predicates`, `count`, and TEXT for their texts; OUT `filter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhCreatePayloadFilter(
    provider: *const RawGuid,
    descriptor: *const RawDescriptor,
    any: u8,
    count: u32,
    predicates: *const RawPredicate,
    filter: *mut *mut c_void,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let (Some(provider), Some(event)) =
            (unsafe { (guid_of(provider), descriptor_of(descriptor)) })
        else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        if predicates.is_null() || filter.is_null() || !(1..=MOST_PREDICATES).contains(&count) {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let (_, catalog) = loaded::catalog();
        let Some(schema) = catalog.event(provider, event.id, event.version) else {
            return ERROR_NOT_FOUND;
        };
        let layout = PayloadLayout::of(schema);
        let known = layout.fields().to_vec();
        let Some(metadata) = layout.metadata() else { return Status::ERROR_NOT_SUPPORTED };
        let mut conditions = Vec::new();
        let mut size = metadata.len();
        for number in 0..count as usize {
            // SAFETY: ARRAY, and TEXT for both texts.
            let (name, op, value) = unsafe {
                let raw = predicates.add(number).read_unaligned();
                (utf16_of(raw.field), raw.op, utf16_of(raw.value))
            };
            let (Some(name), Some(op), Some(value)) = (name, operator(op), value) else {
                return Status::ERROR_INVALID_PARAMETER;
            };
            if name.len() > LONGEST_TEXT || value.len() > LONGEST_TEXT {
                return Status::ERROR_INVALID_PARAMETER;
            }
            if !known.contains(&name) {
                let is_field = schema.fields.iter().any(|field| field.name == name);
                // The offset of the field depends on a length that the metadata cannot express.
                return if is_field { Status::ERROR_NOT_SUPPORTED } else { ERROR_NOT_FOUND };
            }
            size += name.len() + value.len();
            let values: Vec<&str> = match op {
                PayloadOp::Between | PayloadOp::NotBetween => {
                    value.split(',').map(str::trim).collect()
                }
                _ => vec![value.as_str()],
            };
            match Condition::new(&name, op, &values) {
                Ok(condition) => conditions.push(condition),
                Err(_) => return Status::ERROR_INVALID_PARAMETER,
            }
        }
        let made = PayloadFilter {
            of: EventKey::Id { id: event.id, version: Some(event.version) },
            conditions,
            any: any != 0,
            match_all: false,
            metadata: Some(metadata),
        };
        let number = with(|filters| {
            filters.last += 1;
            filters.single.insert(filters.last, Single { provider, filter: made, size });
            filters.last
        });
        // SAFETY: OUT.
        unsafe { store(filter, std::ptr::without_provenance_mut(number as usize)) };
        Status::ERROR_SUCCESS
    })
}

/// # Safety
/// ONE `filter`; OUT `filter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhDeletePayloadFilter(filter: *mut *mut c_void) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let Some(number) = (unsafe { read(filter) }).map(key) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        if with(|filters| filters.single.remove(&number)).is_none() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: OUT.
        unsafe { store(filter, std::ptr::null_mut()) };
        Status::ERROR_SUCCESS
    })
}

/// # Safety
/// ARRAY `filters`, `count`; ARRAY `match_all`, `count`; OUT `descriptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhAggregatePayloadFilters(
    count: u32,
    filters: *const *mut c_void,
    match_all: *const u8,
    descriptor: *mut RawFilterDescriptor,
) -> u32 {
    guarded(|| {
        if filters.is_null() || descriptor.is_null() || !(1..=MOST_FILTERS).contains(&count) {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: ARRAY, for both arrays.
        let given: Vec<(u64, bool)> = unsafe {
            let flag = |n: usize| !match_all.is_null() && match_all.add(n).read() != 0;
            (0..count as usize).map(|n| (key(filters.add(n).read_unaligned()), flag(n))).collect()
        };
        let made = with(|filters| {
            let (mut provider, mut size) = (None, 0);
            let mut together = Vec::new();
            for (number, match_all) in given {
                let Single { provider: of, filter, size: more } = filters.single.get(&number)?;
                size += more;
                if *provider.get_or_insert(*of) != *of || size > LARGEST {
                    return None;
                }
                together.push(PayloadFilter { match_all, ..filter.clone() });
            }
            filters.last += 1;
            let mut bytes = Box::new([0; 16]);
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[8..].copy_from_slice(&filters.last.to_le_bytes());
            let address = bytes.as_ptr().expose_provenance() as u64;
            filters.together.insert(filters.last, (bytes, together));
            Some(RawFilterDescriptor { address, size: 16, kind: PAYLOAD })
        });
        let Some(made) = made else { return Status::ERROR_INVALID_PARAMETER };
        // SAFETY: OUT.
        unsafe { store(descriptor, made) };
        Status::ERROR_SUCCESS
    })
}

/// # Safety
/// OUT `descriptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhCleanupPayloadEventFilterDescriptor(
    descriptor: *mut RawFilterDescriptor,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let Some(given) = (unsafe { read(descriptor) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        // The address is compared and not followed.
        let is_removed = with(|filters| {
            let before = filters.together.len();
            filters.together.retain(|_, (bytes, _)| bytes.as_ptr().addr() as u64 != given.address);
            filters.together.len() < before
        });
        if given.kind != PAYLOAD || !is_removed {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let nothing = RawFilterDescriptor { address: 0, size: 0, kind: 0 };
        // SAFETY: OUT.
        unsafe { store(descriptor, nothing) };
        Status::ERROR_SUCCESS
    })
}

/// The filters that a descriptor combines, by the bytes at its address.
pub fn of_descriptor(bytes: &[u8]) -> Option<Vec<PayloadFilter>> {
    let number = bytes.strip_prefix(&MAGIC)?.try_into().ok().map(u64::from_le_bytes)?;
    with(|filters| filters.together.get(&number).map(|(_, together)| together.clone()))
}

fn operator(number: u16) -> Option<PayloadOp> {
    use PayloadOp::*;
    let all =
        [Eq, Ne, Le, Gt, Lt, Ge, Between, NotBetween, Modulo, Contains, DoesntContain, Is, IsNot];
    all.into_iter().find(|op| *op as u16 == number)
}
