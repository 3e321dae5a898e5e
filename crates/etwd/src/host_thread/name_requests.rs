//! Providers that sessions enable by name: programs may register them later, under any GUID, and manifests may name them later.

use etw_ring::RawClock;
use etw_session::EnableInfo;
use etw_types::{Guid, Status};
use etw_wire::requests::RefusalStatus;

use super::HostThread;
use super::enablements::may_record;
use super::requests::MAX_SESSIONS_OF_PROVIDER;
use crate::asker::Connection;
use crate::name_request::NameRequest;
use crate::program::Program;

impl HostThread {
    /// Keeps a session's enablement by name, and returns all GUIDs that the name stands for now.
    pub(super) fn set_name(&mut self, slot: usize, name: &str, info: &EnableInfo) -> Vec<Guid> {
        let in_manifests = self.registered_names.of_names(&[name.to_owned()]).concat();
        let programs: Vec<&Program> =
            self.programs.values().filter(|program| !program.has_ended).collect();
        let Some(global) = self.global(slot) else { return Vec::new() };
        let before = global.names.iter().find(|request| request.is_for(name));
        let mut request = NameRequest {
            name: name.to_owned(),
            info: info.clone(),
            ids: before.map_or(vec![Guid::from_name(name)], |before| before.ids.clone()),
        };
        for program in programs.iter().filter(|program| may_record(global, program)) {
            for registered in program.providers.values() {
                if request.lacks(registered) {
                    request.ids.push(registered.provider.id);
                }
            }
        }
        for id in in_manifests {
            if request.lacks_id(&id) {
                request.ids.push(id);
            }
        }
        let ids = request.ids.clone();
        if let Some(global) = self.global_mut(slot) {
            global.names.retain(|request| !request.is_for(name));
            global.names.push(request);
        }
        ids
    }

    /// Removes a session's enablement by name, and returns the GUIDs that it stood for. A name that was not enabled stands for
    /// its hash.
    pub(super) fn remove_name(&mut self, slot: usize, name: &str) -> Vec<Guid> {
        let request = self.global_mut(slot).and_then(|global| {
            let index = global.names.iter().position(|request| request.is_for(name))?;
            Some(global.names.swap_remove(index))
        });
        request.map_or(vec![Guid::from_name(name)], |request| request.ids)
    }

    /// Enables a new registration in all sessions that asked for its name.
    pub(super) fn enable_by_name(&mut self, connection: Connection, number: u32) {
        let Some(program) = self.programs.get(&connection) else { return };
        let Some(registered) = program.providers.get(&number) else { return };
        if registered.name.is_empty() {
            return;
        }
        let id = registered.provider.id;
        let mut asking = Vec::new();
        for (slot, hosted, _) in self.engine.sessions() {
            let lacking = |request: &&NameRequest| request.lacks(registered);
            if may_record(&hosted.host, program)
                && let Some(request) = hosted.host.names.iter().find(lacking)
            {
                asking.push((slot, request.name.clone(), request.info.clone()));
            }
        }
        let process = program.peer.pid;
        for (slot, name, info) in asking {
            self.add_to_request(slot, &name, info, id, process);
        }
    }

    /// Enables the providers for which sessions asked by name, and which a manifest names that was registered since.
    pub(super) fn consult_manifests(&mut self) {
        let mut names: Vec<String> = self
            .engine
            .sessions()
            .flat_map(|(_, hosted, _)| hosted.host.names.iter().map(|request| request.name.clone()))
            .collect();
        names.sort();
        names.dedup();
        if names.is_empty() {
            return;
        }
        let ids = self.registered_names.of_names(&names);
        let known: Vec<(String, Guid)> = names
            .into_iter()
            .zip(ids)
            .flat_map(|(name, ids)| ids.into_iter().map(move |id| (name.clone(), id)))
            .collect();
        let mut asking = Vec::new();
        for (slot, hosted, _) in self.engine.sessions() {
            for (name, id) in &known {
                let lacking =
                    |request: &&NameRequest| request.name == *name && request.lacks_id(id);
                if let Some(request) = hosted.host.names.iter().find(lacking) {
                    asking.push((slot, name.clone(), request.info.clone(), *id));
                }
            }
        }
        for (slot, name, info, id) in asking {
            self.add_to_request(slot, &name, info, id, 0);
            // No controller waits for the programs that have registered it.
            let _ = self.send_to_all(slot, &id);
        }
    }

    /// Enables one more provider of a name in a session. `process`: the program that registered it; 0: a manifest names it.
    fn add_to_request(
        &mut self,
        slot: usize,
        name: &str,
        info: EnableInfo,
        id: Guid,
        process: u32,
    ) {
        let Some(global) = self.global_mut(slot) else { return };
        let request = global.names.iter_mut().find(|request| request.name == name);
        request.into_iter().for_each(|request| request.ids.push(id));
        let sessions = self.engine.sessions().filter(|(.., s)| s.enabled(&id).is_some());
        let is_full = sessions.count() >= MAX_SESSIONS_OF_PROVIDER;
        if self.has_by_group(slot, &id) {
            // Earlier events are judged by the enablement of their time.
            self.drain_all();
        }
        let Some((hosted, session)) = self.engine.session_mut(slot) else { return };
        if session.enabled(&id).is_some() {
            // The session enabled it by its GUID, which takes precedence.
        } else if is_full {
            let message = match process {
                0 => format!("provider {name} ({id}) is enabled in eight sessions already"),
                _ => format!(
                    "process {process}: provider {name} ({id}) is enabled in eight sessions already"
                ),
            };
            let status = Status::ERROR_NO_SYSTEM_RESOURCES.0;
            hosted.host.refusals.add(RefusalStatus { pid: process, provider: id, status, message });
        } else {
            session.enable(id, info);
            hosted.host.since.insert(id, RawClock::Monotonic.now());
        }
        self.keep_session(slot);
        self.engine.publish_admission(slot);
    }
}
