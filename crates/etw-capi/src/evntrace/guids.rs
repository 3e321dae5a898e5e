//! `EnumerateTraceGuids` and `EnumerateTraceGuidsEx`: the registered and the enabled providers.

use std::collections::BTreeSet;

use etw_api::{Guid, Status};
use etw_session::EnableInfo;
use etw_wire::host_client::Client;
use etw_wire::requests::{ProviderStatus, Request, Response, SessionStatus};

use super::{host, sessions};
use crate::abi::{RawGuid, guarded, store};
use crate::status::{ERROR_INSUFFICIENT_BUFFER, ERROR_WMI_GUID_NOT_FOUND};

const GUID_LIST: u32 = 0;
const GUID_INFO: u32 = 1;
const GUIDS_OF_PROCESS: u32 = 2;
const GROUP_LIST: u32 = 12;
/// `MaxTraceSetInfoClass`
pub const CLASS_COUNT: u32 = 28;

/// `TRACE_PROVIDER_FLAG_PRE_ENABLE`: a session enables the provider, and no program has registered it yet.
const PRE_ENABLE: u32 = 2;
const INSTANCE_SIZE: u32 = 16;
const ENABLEMENT_SIZE: u32 = 32;

/// `TRACE_GUID_PROPERTIES`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawGuidProperties {
    guid: RawGuid,
    guid_type: u32,
    logger_id: u32,
    level: u32,
    flags: u32,
    is_enabled: u8,
}

const _: () = assert!(size_of::<RawGuidProperties>() == 36);

/// # Safety
/// ARRAY `array`, `count`, and OUT for each; OUT `found`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnumerateTraceGuids(
    array: *const *mut RawGuidProperties,
    count: u32,
    found: *mut u32,
) -> u32 {
    guarded(|| {
        if array.is_null() || found.is_null() || count == 0 {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let (providers, enablements) = match providers() {
            Ok(known) => known,
            Err(status) => return status,
        };
        for (number, provider) in providers.iter().take(count as usize).enumerate() {
            // SAFETY: ARRAY.
            let to = unsafe { array.add(number).read_unaligned() };
            if to.is_null() {
                return Status::ERROR_INVALID_PARAMETER;
            }
            let enablement = enablements.iter().find(|row| row.provider == provider.id);
            let wanted = enablement.map(|row| &row.info.wanted);
            let properties = RawGuidProperties {
                guid: RawGuid::from_guid(&provider.id),
                guid_type: 0,
                logger_id: enablement.map_or(0, |row| row.logger_id),
                level: wanted.map_or(0, |wanted| u32::from(wanted.level.0)),
                flags: wanted.map_or(0, |wanted| wanted.any.0 as u32),
                is_enabled: u8::from(enablement.is_some()),
            };
            // SAFETY: OUT.
            unsafe { store(to, properties) };
        }
        // SAFETY: OUT.
        unsafe { store(found, providers.len() as u32) };
        if providers.len() > count as usize {
            return Status::ERROR_MORE_DATA;
        }
        Status::ERROR_SUCCESS
    })
}

/// # Safety
/// BYTES `given`, `given_size`; OUT `out`, `out_size`; OUT `needed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnumerateTraceGuidsEx(
    class: u32,
    given: *const u8,
    given_size: u32,
    out: *mut u8,
    out_size: u32,
    needed: *mut u32,
) -> u32 {
    guarded(|| {
        let wrong_in = given.is_null() != (given_size == 0);
        let wrong_out = out.is_null() && out_size > 0;
        if class >= CLASS_COUNT || needed.is_null() || wrong_in || wrong_out {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let answer = match class {
            GUID_LIST => providers().map(|known| guids(known.0.iter().map(|row| row.id))),
            GUIDS_OF_PROCESS => providers().map(|known| {
                let own = std::process::id();
                guids(known.0.iter().filter(|row| row.pids.contains(&own)).map(|row| row.id))
            }),
            GROUP_LIST => providers().map(|known| {
                let groups: BTreeSet<Guid> = known.0.iter().filter_map(|row| row.group).collect();
                guids(groups.into_iter())
            }),
            GUID_INFO if given_size as usize != size_of::<RawGuid>() => {
                Err(Status::ERROR_INVALID_PARAMETER)
            }
            GUID_INFO => {
                // SAFETY: ONE.
                let id = unsafe { given.cast::<RawGuid>().read_unaligned() }.guid();
                providers().and_then(|known| info(&id, &known))
            }
            _ => Err(Status::ERROR_NOT_SUPPORTED),
        };
        let bytes = match answer {
            Ok(bytes) => bytes,
            Err(status) => return status,
        };
        // SAFETY: OUT.
        unsafe { store(needed, bytes.len() as u32) };
        if bytes.len() > out_size as usize {
            return ERROR_INSUFFICIENT_BUFFER;
        }
        if !bytes.is_empty() {
            // SAFETY: OUT: the size has been compared.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out, bytes.len()) };
        }
        Status::ERROR_SUCCESS
    })
}

/// One session's enablement of one provider.
struct Enablement {
    provider: Guid,
    logger_id: u32,
    info: EnableInfo,
}

type Known = (Vec<ProviderStatus>, Vec<Enablement>);

/// The providers and enablements that the daemon knows; none without a daemon.
fn providers() -> Result<Known, Status> {
    let client = match host::connect() {
        Ok(client) => client,
        Err(Status::ERROR_WMI_INSTANCE_NOT_FOUND) => return Ok(Known::default()),
        Err(status) => return Err(status),
    };
    let Response::Providers { providers } = host::ask(&client, &Request::Providers)? else {
        return Err(Status::ERROR_NO_SYSTEM_RESOURCES);
    };
    Ok((providers, enablements(&client)?))
}

fn enablements(client: &Client) -> Result<Vec<Enablement>, Status> {
    let of = |session: SessionStatus| {
        let logger_id = session.id;
        session.enabled.into_iter().filter_map(move |(id, info)| {
            Some(Enablement { provider: id.parse().ok()?, logger_id, info })
        })
    };
    Ok(sessions::list(client)?.into_iter().flat_map(of).collect())
}

fn guids(ids: impl Iterator<Item = Guid>) -> Vec<u8> {
    // On little-endian machines, GUIDs have the same bytes in memory and on disk.
    ids.flat_map(|id| id.0).collect()
}

/// The halves of a value in memory order.
fn halves(value: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = value.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// `TRACE_GUID_INFO`, and for each process a `TRACE_PROVIDER_INSTANCE_INFO` with a `TRACE_ENABLE_INFO` for each session.
fn info(id: &Guid, (providers, enablements): &Known) -> Result<Vec<u8>, Status> {
    let provider = providers.iter().find(|row| row.id == *id).ok_or(ERROR_WMI_GUID_NOT_FOUND)?;
    let of_it: Vec<&Enablement> = enablements.iter().filter(|row| row.provider == *id).collect();
    let instances: Vec<(u32, u32)> = match &provider.pids[..] {
        [] => vec![(0, PRE_ENABLE)],
        pids => pids.iter().map(|pid| (*pid, 0)).collect(),
    };
    let mut bytes = Vec::new();
    let mut put =
        |values: &[u32]| bytes.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
    put(&[instances.len() as u32, 0]);
    for (number, (pid, flags)) in instances.iter().enumerate() {
        let size = INSTANCE_SIZE + ENABLEMENT_SIZE * of_it.len() as u32;
        let next = if number + 1 < instances.len() { size } else { 0 };
        put(&[next, of_it.len() as u32, *pid, *flags]);
        for row in &of_it {
            let wanted = &row.info.wanted;
            let number = (row.logger_id as u16).to_ne_bytes();
            let level = u32::from_ne_bytes([wanted.level.0, 0, number[0], number[1]]);
            put(&[1, level, row.info.properties.0, 0]);
            put(&halves(wanted.any.0));
            put(&halves(wanted.all.0));
        }
    }
    Ok(bytes)
}
