//! `-status`, and the profiles that run: no session knows them, so `-start` leaves their names beside the host.

use super::super::{
    Controller, ProviderNames, all_sessions, braced, enabled, mode_names, shown_file,
};
use super::{PREFIX, running};
use crate::format::safe;
use crate::frontends::answer::print;
use crate::live::host::HostChoice;
use crate::output::{Failure, Outcome};
use etw_system::flags::Masks;
use etw_system::recording_profile::RecordingProfile;
use etw_types::{Guid, SYSTEM_TRACE};
use etw_wire::requests::SessionStatus;
use std::fmt::Write;
use std::path::PathBuf;

/// The parts of `-status` that words ask for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    pub profiles: bool,
    pub details: bool,
}

/// The name of a profile, as `-profiles` lists it.
pub fn profile_name(profile: &RecordingProfile) -> String {
    format!("{}.{}", profile.name, profile.level)
}

/// A line with the GUIDs of the recording's sessions, then one for each profile.
fn file() -> PathBuf {
    HostChoice::default().directory().join("wpr-profiles")
}

/// Remembers the profiles of the sessions that have started. If that is not possible, `-status` says that it does not know them.
pub fn remember(sessions: &[Guid], profiles: &[String]) {
    let ids: Vec<String> = sessions.iter().map(Guid::to_string).collect();
    let lines: Vec<String> = [ids.join(" ")].into_iter().chain(profiles.iter().cloned()).collect();
    let _ = std::fs::write(file(), lines.join("\n"));
}

/// The recording has ended. A file that remains is of no other recording, which has other GUIDs.
pub fn forget() {
    let _ = std::fs::remove_file(file());
}

/// The profiles that these sessions record.
fn profiles_of(sessions: &[SessionStatus]) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(file()).ok()?;
    let mut lines = text.lines();
    let ids: Vec<Guid> = lines.next()?.split(' ').filter_map(|id| id.parse().ok()).collect();
    let is_same = sessions.iter().all(|session| ids.contains(&session.guid));
    is_same.then(|| lines.map(str::to_owned).collect())
}

pub fn show(shown: Shown) -> Result<Outcome, Failure> {
    let sessions = running(all_sessions()?);
    if sessions.is_empty() {
        return print("WPR is not recording\n");
    }
    let mut text = "WPR recording is in progress...\n".to_owned();
    if shown.profiles {
        text += "\nProfiles\n";
        match profiles_of(&sessions) {
            Some(names) => names.iter().for_each(|name| text += &format!("  {}\n", safe(name))),
            None => text += "  not known: something else than wpr -start began this recording\n",
        }
    }
    let controller = Controller::if_there()?.filter(|_| shown.details);
    let providers = controller.map_or(Ok(Vec::new()), |controller| controller.providers())?;
    let names = ProviderNames::of(providers);
    for session in &sessions {
        text += &collector(session);
        if shown.details {
            text += &details(session, &names);
        }
    }
    print(&text)
}

/// A session, and what is wrong with it.
fn collector(session: &SessionStatus) -> String {
    let name = session.name.strip_prefix(PREFIX).unwrap_or_default();
    let mode = if session.file.is_some() { "File" } else { "Memory" };
    let mut text = format!(
        "\n{}\n  Logging mode   : {mode} ({})\n  Events lost    : {}\n",
        safe(name),
        mode_names(session.mode).0,
        session.lost
    );
    // Writing to a String cannot fail.
    if session.state != "running" {
        let _ = writeln!(text, "  State          : {}", safe(&session.state));
    }
    if let Some(error) = session.error.as_ref().filter(|error| !session.state.contains(*error)) {
        let _ = writeln!(text, "  Error          : {}", safe(error));
    }
    if session.file.is_some() {
        let _ = writeln!(text, "  File           : {}", safe(&shown_file(session)));
    }
    text
}

fn details(session: &SessionStatus, names: &ProviderNames) -> String {
    let mut text = format!(
        "  Buffers        : {} of {} KB, {} free, {} written, {} lost\n",
        session.buffers,
        session.buffer_size >> 10,
        session.free_buffers,
        session.buffers_written,
        session.buffers_lost
    );
    // Writing to a String cannot fail.
    if let Some(system) = &session.system {
        let _ = writeln!(text, "  System events  : {}", Masks(system.masks).names().join(", "));
    }
    for (id, info) in enabled(session).filter(|(id, _)| *id != SYSTEM_TRACE) {
        let guid = braced(&id);
        let (name, wanted) = (names.get(&id).unwrap_or(&guid), &info.wanted);
        let _ = writeln!(
            text,
            "  Provider       : {}, level {}, keywords {:#x}",
            safe(name),
            wanted.level.0,
            wanted.any.0
        );
    }
    text
}
