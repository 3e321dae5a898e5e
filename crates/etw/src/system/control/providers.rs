//! The providers of the system: those with a registered manifest, and those that programs have registered now.

use std::collections::BTreeMap;

use etw_types::{Guid, Status, le};
use etw_wire::requests::ProviderStatus;

use super::api::{self, GuidQuery};

/// The bytes of an answer in words.
fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Names of the providers that have a registered manifest or MOF class.
///
/// # Errors
/// The system's status.
pub fn registered_names() -> Result<BTreeMap<Guid, String>, Status> {
    let bytes = bytes(&api::enumerate_providers()?);
    let count = le::u32(&bytes, 0).unwrap_or(0) as usize;
    let provider = |number: usize| {
        let offset = 8 + 24 * number;
        let name = le::u32(&bytes, offset + 20)? as usize;
        let units = bytes.get(name..)?.chunks_exact(2);
        let units = units.map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
        Some((Guid::read(&bytes, offset)?, String::from_utf16_lossy(&units)))
    };
    Ok((0..count).map_while(provider).collect())
}

/// All providers. `sessions`: the names of running sessions by number. Without the functions that list them there are none.
pub fn all(sessions: &BTreeMap<u16, String>) -> Vec<ProviderStatus> {
    let mut providers: BTreeMap<Guid, ProviderStatus> = BTreeMap::new();
    for (id, name) in registered_names().unwrap_or_default() {
        providers.insert(id, ProviderStatus { id, name, ..ProviderStatus::default() });
    }
    let Ok((words, size)) = api::enumerate_guids(GuidQuery::List, None) else {
        return providers.into_values().collect();
    };
    let list = bytes(&words);
    for offset in (0..size.min(list.len())).step_by(16) {
        let Some(id) = Guid::read(&list, offset) else { break };
        let new = ProviderStatus { id, ..ProviderStatus::default() };
        let status = providers.entry(id).or_insert(new);
        // A registration may have ended meanwhile.
        if let Ok((words, size)) = api::enumerate_guids(GuidQuery::Info, Some(&id)) {
            let bytes = bytes(&words);
            add_registrations(status, &bytes[..size.min(bytes.len())], sessions);
        }
    }
    providers.into_values().collect()
}

/// Adds the processes and sessions of `TRACE_GUID_INFO`.
fn add_registrations(status: &mut ProviderStatus, info: &[u8], names: &BTreeMap<u16, String>) {
    let count = le::u32(info, 0).unwrap_or(0);
    let mut offset = 8;
    for _ in 0..count {
        let field = |at: usize| le::u32(info, offset + at);
        let (Some(next), Some(enabled), Some(process)) = (field(0), field(4), field(8)) else {
            return;
        };
        if !status.pids.contains(&process) {
            status.pids.push(process);
        }
        for number in 0..enabled as usize {
            let at = offset + 16 + 32 * number;
            let (Some(is_enabled), Some(logger)) = (le::u32(info, at), le::u16(info, at + 6))
            else {
                return;
            };
            let name = names.get(&logger).cloned().unwrap_or_else(|| format!("session {logger}"));
            if is_enabled != 0 && !status.sessions.contains(&name) {
                status.sessions.push(name);
            }
        }
        if next == 0 {
            return;
        }
        offset += next as usize;
    }
}
