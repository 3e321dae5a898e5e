//! Links of the chain that belong to sessions: registrations, enablements, filters, buffers, losses.

use super::Report;
use super::machine::FileSystem;
use super::process::{contains_library, has_filter_of_calls, is_listener_off};
use crate::live::diagnosis::{level_name, shown_name};
use crate::live::host::{HostChoice, ask};
use crate::live::session::remedy;
use crate::live::wanted::Named;
use crate::output::{Failure, counted};
use crate::stat::losses::Origin;
use crate::where_filter::closest;
use etw_host::{EnableInfo, SystemConfig};
use etw_system::flags::Masks;
use etw_system::system_providers::{self, flags_of};
use etw_types::{Guid, LogFileMode, SYSTEM_TRACE};
use etw_wire::host_client::Client;
use etw_wire::requests::{ProviderStatus, Request, Response, SessionStatus};
use etw_wire::runtime_directory as dir;
use std::path::Path;

/// The host's own session, which records the kept logs.
const KEPT_LOGS: &str = "EventLog";

pub fn check_process_providers(
    report: &mut Report,
    pid: u32,
    providers: &[ProviderStatus],
    sessions: &[SessionStatus],
) {
    let of_process: Vec<_> = providers.iter().filter(|known| known.pids.contains(&pid)).collect();
    if of_process.is_empty() {
        let what = format!("process {pid} has registered no provider with this host");
        if is_listener_off(pid) {
            let fix = "start the session first, or the program without ETW_LISTENER=off: it looks for a host only when it registers";
            return report.wrong("registration", what, fix);
        }
        if contains_library(pid) == Some(false) {
            let what =
                format!("{what}, and contains none: neither libetw nor the crate openetw is in it");
            let fix = "check the process id (a shell or an interpreter may have started the program), or instrument the program and build it again";
            return report.wrong("registration", what, fix);
        }
        if has_filter_of_calls(pid) {
            let what = format!("{what}, and runs under a seccomp filter");
            let fix = "permit sockets of AF_UNIX, sendmsg, recvmsg, memfd_create, mmap and futex in the seccomp profile";
            return report.wrong("registration", what, fix);
        }
        let fix = "register the provider when the program starts (PROVIDER.register(), EventRegister), and keep the registration";
        return report.wrong("registration", what, fix);
    }
    for known in of_process {
        report.ok(
            "registration",
            format!("process {pid} has registered {} ({})", shown_name(known), known.id),
        );
        check_enablement(report, known, sessions);
    }
}

pub fn check_all_providers(
    report: &mut Report,
    providers: &[ProviderStatus],
    sessions: &[SessionStatus],
) {
    let live: Vec<_> = providers.iter().filter(|known| !known.pids.is_empty()).collect();
    match live.is_empty() {
        true => report.note("registration", "no program has a provider registered now"),
        false => {
            let names: Vec<String> = live.iter().take(8).map(|known| shown_name(known)).collect();
            report.ok("registration", format!("{} providers: {}", live.len(), names.join(", ")));
        }
    }
    // Enabled, and registered by nobody.
    for known in providers.iter().filter(|known| known.pids.is_empty()) {
        let is_group = providers.iter().any(|other| other.group == Some(known.id));
        // A name whose provider has another GUID than the name's hash.
        let is_other = sessions.iter().any(|status| {
            status.names.values().any(|of| of.len() > 1 && of.first() == Some(&known.id))
        });
        // The host records its kept logs itself, whether or not programs report to them.
        let is_for_logs = known.sessions.iter().all(|session| session == KEPT_LOGS);
        if known.id == SYSTEM_TRACE {
            let what =
                format!("the system's own events are recorded by {}", known.sessions.join(", "));
            report.ok("enablement", what);
        } else if !known.sessions.is_empty() && !is_group && !is_other && !is_for_logs {
            let what = format!(
                "{} is enabled by {}, and no program has it registered",
                shown_name(known),
                known.sessions.join(", ")
            );
            report.wrong(
                "enablement",
                what,
                "start the program, or compare with etw provider list",
            );
        }
    }
    let is_unused = |status: &&SessionStatus| status.enabled.is_empty() && status.name != KEPT_LOGS;
    for status in sessions.iter().filter(is_unused) {
        let fix = format!("etw session enable {} -p PROVIDER", status.name);
        report.wrong("enablement", format!("session {} has no provider enabled", status.name), fix);
    }
}

pub fn check_provider(
    report: &mut Report,
    text: &str,
    providers: &[ProviderStatus],
    recent: &[ProviderStatus],
    sessions: &[SessionStatus],
) -> Result<(), Failure> {
    const LINK: &str = "registration";
    let named: Named =
        text.parse().map_err(|error| Failure::Usage(format!("doctor {text:?}: {error}")))?;
    if let Named::Id(id) = named
        && let Some(of_provider) = flags_of(&id, 0)
    {
        check_system_provider(report, text, &of_provider.masks, sessions);
        return Ok(());
    }
    let name = text.strip_prefix('*').unwrap_or(text);
    let is = |known: &&ProviderStatus| named.is(known);
    if let Some(known) = providers.iter().find(|known| !known.pids.is_empty() && is(known)) {
        let pids: Vec<String> = known.pids.iter().map(u32::to_string).collect();
        let what = format!("{} ({}), by process {}", shown_name(known), known.id, pids.join(", "));
        report.ok(LINK, what);
        if !known.name.is_empty() && known.id != Guid::from_name(&known.name) {
            let what = format!(
                "its GUID is not that of its name: enable it as {}, not as *{}",
                known.id, known.name
            );
            report.note(LINK, what);
        }
        check_enablement(report, known, sessions);
        return Ok(());
    }
    let same_name = |known: &&ProviderStatus| known.name.eq_ignore_ascii_case(name);
    let mut enabled_as = match &named {
        Named::Id(id) => *id,
        Named::Name(name) => Guid::from_name(name),
    };
    if let Some(known) = providers.iter().chain(recent).find(|k| same_name(k) && !is(k)) {
        let what =
            format!("{name} is registered as {}, which is not the GUID of that name", known.id);
        report.wrong(LINK, what, format!("enable it as -p {}", known.id));
        enabled_as = known.id;
    } else if let Some(known) = recent.iter().find(is) {
        let pid = known.pids.first().copied().unwrap_or(0);
        let what = format!("process {pid} had registered {name}, and has ended or unregistered it");
        report.wrong(LINK, what, "keep the registration as long as the program runs");
        enabled_as = known.id;
    } else {
        let registered = providers.iter().filter(|known| !known.pids.is_empty()).chain(recent);
        let names = registered.map(|known| known.name.as_str());
        let names = names.chain(system_providers::names().map(|name| name as &str));
        let near = closest(name, names.filter(|other| !other.is_empty() && *other != name));
        let fix = match near {
            Some(near) => format!("did you mean {near}?"),
            None => "start the program; etw provider list shows what is registered, etw doctor PID checks a program".to_owned(),
        };
        report.wrong(LINK, format!("no program has registered {name} with this host"), fix);
    }
    let known =
        ProviderStatus { id: enabled_as, name: name.to_owned(), ..ProviderStatus::default() };
    check_enablement(report, &known, sessions);
    Ok(())
}

/// The host that the checked one is not: the machine's, or the user's own.
pub struct OtherHost {
    client: Option<Client>,
    command: &'static str,
}

impl OtherHost {
    /// The other host than that of `checked`.
    pub fn of(checked: &Path) -> OtherHost {
        let machine = Path::new(dir::SYSTEM);
        let (other, command) = match checked == machine {
            true => (HostChoice { system_host: false }.directory(), "etw doctor"),
            false => (machine.to_owned(), "etw doctor --system-host"),
        };
        let client = if other == checked { None } else { Client::connect(&other).ok() };
        OtherHost { client, command }
    }

    /// Notes the sessions of the other host that enable a provider.
    pub fn check(&self, report: &mut Report, name: &str) {
        let Some(client) = &self.client else { return };
        let Ok(Response::Providers { providers }) = ask(client, &Request::Providers) else {
            return;
        };
        let Ok(named) = name.parse::<Named>() else { return };
        for known in providers.iter().filter(|known| named.is(known) && !known.sessions.is_empty())
        {
            let sessions = known.sessions.join(", ");
            let command = self.command;
            let what =
                format!("another host has it enabled, for {sessions}: {command} checks that one");
            report.note("enablement", what);
        }
    }
}

/// The sessions that record classes of a system provider.
fn check_system_provider(
    report: &mut Report,
    name: &str,
    classes: &Masks,
    sessions: &[SessionStatus],
) {
    report.ok("registration", format!("{name} needs none: the host has the system's events"));
    const LINK: &str = "enablement";
    let is_recorded = |system: &SystemConfig| {
        let recorded = system.masks.iter().zip(classes.0);
        recorded.into_iter().any(|(mask, of_provider)| mask & of_provider != 0)
    };
    let mut recording =
        sessions.iter().filter(|status| status.system.as_ref().is_some_and(is_recorded)).peekable();
    if recording.peek().is_none() {
        let fix = match *classes == Masks::default() {
            true => "use another one: openetw records none of its events on Linux".to_owned(),
            false => format!("etw session start NAME -o FILE -p {name}"),
        };
        report.wrong(LINK, format!("no session records events of {name}"), fix);
    }
    for status in recording {
        report.ok(LINK, format!("session {} records its events", status.name));
    }
}

/// The sessions that have a provider enabled, and what limits its events.
fn check_enablement(report: &mut Report, known: &ProviderStatus, sessions: &[SessionStatus]) {
    const LINK: &str = "enablement";
    let name = shown_name(known);
    let mut is_enabled = false;
    for status in sessions {
        for (id, info) in &status.enabled {
            let Ok(id) = id.parse::<Guid>() else { continue };
            // A session that asks for the name, which its provider had registered with another GUID than the name's hash.
            let by_name = status.names.iter().any(|(name, of)| {
                of.first() == Some(&id) && name.eq_ignore_ascii_case(&known.name)
            });
            let is_hash_of_other = by_name && status.enabled.contains_key(&known.id.to_string());
            if id != known.id && Some(id) != known.group && (!by_name || is_hash_of_other) {
                continue;
            }
            is_enabled = true;
            let wanted = &info.wanted;
            let masks = format!("keywords any {:#x} all {:#x}", wanted.any.0, wanted.all.0);
            let what = format!(
                "session {} enables {name} up to level {}, {masks}",
                status.name,
                level_name(wanted.level.0)
            );
            report.ok(LINK, what);
            check_limits(report, status, info, &name);
            if let Some(filters) = &info.filters {
                let shown = serde_json::to_string(filters).unwrap_or_default();
                report.note("filters", format!("session {}: {shown}", status.name));
                let pids = &filters.process_ids;
                if !pids.is_empty()
                    && !known.pids.iter().any(|pid| pids.contains(pid))
                    && !known.pids.is_empty()
                {
                    let what = format!(
                        "session {} wants events of processes {pids:?} only, and {name} is in {:?}",
                        status.name, known.pids
                    );
                    report.wrong(
                        "filters",
                        what,
                        format!("etw session enable {} -p PROVIDER without --pid", status.name),
                    );
                }
            }
        }
    }
    if !is_enabled {
        let fix =
            format!("etw session enable SESSION -p {}, or etw tail -p {}", known.id, known.id);
        report.wrong(LINK, format!("no session has enabled {name}"), fix);
    }
}

/// Level, keywords and filters that keep a registered provider's events out of a session.
fn check_limits(report: &mut Report, status: &SessionStatus, info: &EnableInfo, name: &str) {
    let (wanted, session) = (&info.wanted, &status.name);
    let has_limits = (1..5).contains(&wanted.level.0) || wanted.any.0 != 0 || wanted.all.0 != 0;
    let fix =
        format!("etw session enable {session} -p PROVIDER:255 enables all levels and keywords");
    let has_events = status.stored > 0 || status.overwritten > 0;
    if status.filtered > 0 && !has_events {
        let what = format!(
            "the filters of session {session} rejected all of its {} events",
            status.filtered
        );
        report.wrong(
            "filters",
            what,
            format!("etw session enable {session} -p PROVIDER without filters"),
        );
    } else if has_limits && !has_events {
        let what = format!(
            "session {session} has no event: level or keywords of {name} may let none pass"
        );
        report.wrong("level, keywords", what, fix);
    } else if wanted.ignore_keyword_0 && !has_events {
        let what = format!("session {session} has no event, and ignores those without a keyword");
        let fix = format!("etw session enable {session} -p PROVIDER without --ignore-keyword-0");
        report.wrong("level, keywords", what, fix);
    } else if has_limits {
        report.note("level, keywords", format!("events of session {session} are limited; {fix}"));
    }
}

impl Named {
    /// Whether it names this provider, or its group.
    fn is(&self, known: &ProviderStatus) -> bool {
        match self {
            Named::Id(id) => known.id == *id || known.group == Some(*id),
            Named::Name(name) => known.name.eq_ignore_ascii_case(name),
        }
    }
}

pub fn check_session(report: &mut Report, status: &SessionStatus) {
    let name = &status.name;
    if let Some(error) = &status.error {
        let fix = "free space or make the folder writable; etw session update SESSION -o FILE continues in another file";
        report.wrong("session", format!("{name}: {error}"), fix);
    } else if status.state.starts_with("file-full") {
        let fix = "stop it, or continue with etw session update SESSION -o FILE; --mode circular never fills";
        report.wrong("session", format!("{name}: its file has its maximum size"), fix);
    } else {
        let what = format!(
            "{name} is {}, {} stored, {} filtered",
            status.state,
            counted(status.stored, "event"),
            status.filtered
        );
        report.ok("session", what);
    }
    if status.free_buffers == 0 {
        let what = format!("{name}: none of its {} buffers is free", status.buffers);
        report.wrong(
            "buffers",
            what,
            format!("etw session update {name} --buffers {}", status.buffers * 2),
        );
    }
    for loss in &status.losses {
        let what = format!("{name}: {} lost: {}", counted(loss.count, "event"), Origin::from(loss));
        report.wrong("losses", what, remedy(loss.cause.name(), status));
    }
    if status.real_time_buffers_lost > 0 {
        let lost = counted(status.real_time_buffers_lost, "buffer");
        let what = format!("{name}: {lost} did not reach a slow consumer");
        let fix = "let it read fewer events (etw tail -p with a level, keywords or filters), or record to a file";
        report.wrong("consumers", what, fix);
    }
    if status.mode.contains(LogFileMode::SECURE) {
        let what = format!(
            "{name} is secure: it has only events of root's programs and of user {}'s",
            status.owner
        );
        report.note("session", what);
    }
    for refusal in &status.refusals {
        let fix = "stop one of the sessions that enable it";
        report.wrong("enablement", format!("{name}: {}", refusal.message), fix);
    }
    if let Some(folder) = status.file.as_deref().and_then(Path::parent)
        && let Some(file_system) = FileSystem::of(folder)
    {
        check_disk(report, name, &folder.display().to_string(), file_system);
    }
}

/// Checks the file system of a session's file.
fn check_disk(report: &mut Report, session: &str, folder: &str, file_system: FileSystem) {
    const LINK: &str = "disk";
    if file_system.is_read_only {
        let what = format!("{session}: the file system of {folder} is mounted read-only");
        report.wrong(LINK, what, "mount it for writing, or record to another file system");
    } else if file_system.free < 64 << 20 {
        let what = format!("{session}: {folder} has {} MiB left", file_system.free >> 20);
        report.wrong(LINK, what, "free some space, or record to another file system");
    } else if file_system.has_no_inodes {
        let what = format!(
            "{session}: the file system of {folder} takes no other file (no inode is free)"
        );
        report.wrong(
            LINK,
            what,
            "remove files that are not needed, or record to another file system",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_host::{Cause, Loss};
    use etw_types::{Keyword, Level};

    fn session(of: SessionStatus) -> SessionStatus {
        SessionStatus {
            name: "s".to_owned(),
            state: match of.state.is_empty() {
                true => "running".to_owned(),
                false => of.state.clone(),
            },
            buffers: 4,
            free_buffers: of.free_buffers,
            ..of
        }
    }

    /// Its name's hash is another GUID, with which neither an enablement nor an advice helps.
    #[test]
    fn a_provider_with_a_guid_of_its_own_is_enabled_by_that_or_by_name() {
        let (id, hash) = (Guid::from_u128(5), Guid::from_name("Own.Guid"));
        let name = "Own.Guid".to_owned();
        let recent =
            [ProviderStatus { id, name: name.clone(), pids: vec![7], ..ProviderStatus::default() }];
        let check = |text: &str, sessions: &[SessionStatus]| {
            let mut report = Report::default();
            assert!(check_provider(&mut report, text, &[], &recent, sessions).is_ok());
            report.text
        };
        let text = check("Own.Guid", &[]);
        assert!(text.contains(&format!("-p {id}")) && !text.contains(&hash.to_string()), "{text}");
        let text = check("*Own.Guid", &[]);
        assert!(text.contains(&format!("-p {id}")), "{text}");
        assert!(!text.contains(&format!("-p {hash}")), "{text}");
        let mut by_name = session(SessionStatus::default());
        by_name.enabled.insert(hash.to_string(), etw_host::EnableInfo::default());
        by_name.names.insert(name, vec![hash]);
        let text = check("Own.Guid", &[by_name]);
        assert!(text.contains("session s enables Own.Guid up to level"), "{text}");
    }

    fn checked(status: SessionStatus) -> Report {
        let mut report = Report::default();
        check_session(&mut report, &session(status));
        report
    }

    #[test]
    fn full_buffers_losses_and_errors_are_found() {
        let sound = SessionStatus { free_buffers: 3, ..SessionStatus::default() };
        assert_eq!(checked(sound.clone()).wrong, 0);
        let full = checked(SessionStatus { free_buffers: 0, ..sound.clone() });
        assert!(full.text.contains("none of its 4 buffers is free"), "{}", full.text);
        assert!(full.text.contains("fix: etw session update s --buffers 8"), "{}", full.text);
        let loss = Loss { cause: Cause::SessionFull, provider: None, process_id: None, count: 7 };
        let lossy = checked(SessionStatus { losses: vec![loss], ..sound.clone() });
        assert!(lossy.text.contains("s: 7 events lost: session full"), "{}", lossy.text);
        assert!(lossy.text.contains("fix: more or larger buffers help"), "{}", lossy.text);
        let loss = Loss { cause: Cause::Kernel, ..loss };
        let dropped = checked(SessionStatus { losses: vec![loss], ..sound.clone() });
        assert!(dropped.text.contains("record fewer classes (--system)"), "{}", dropped.text);
        let failing = SessionStatus { error: Some("disk full".to_owned()), ..sound };
        assert!(checked(failing).text.contains("WRONG  session             s: disk full"));
    }

    #[test]
    fn a_disk_that_takes_no_file_is_found() {
        let sound = FileSystem { free: 1 << 30, has_no_inodes: false, is_read_only: false };
        let check = |file_system| {
            let mut report = Report::default();
            check_disk(&mut report, "s", "/data", file_system);
            report
        };
        assert_eq!(check(sound).wrong, 0);
        for (file_system, expected) in [
            (FileSystem { free: 1 << 20, ..sound }, "s: /data has 1 MiB left"),
            (FileSystem { has_no_inodes: true, ..sound }, "no inode is free"),
            (FileSystem { is_read_only: true, ..sound }, "is mounted read-only"),
        ] {
            let report = check(file_system);
            assert!(report.text.contains(expected) && report.wrong == 1, "{}", report.text);
        }
    }

    #[test]
    fn kept_logs_without_programs_are_right() {
        let provider = |sessions: &[&str]| ProviderStatus {
            sessions: sessions.iter().map(|name| (*name).to_owned()).collect(),
            ..ProviderStatus::default()
        };
        let wrong = |sessions: &[&str]| {
            let mut report = Report::default();
            check_all_providers(&mut report, &[provider(sessions)], &[]);
            report.wrong
        };
        assert_eq!((wrong(&["EventLog"]), wrong(&["s", "EventLog"]), wrong(&["s"])), (0, 1, 1));
    }

    #[test]
    fn a_full_file_is_found_whether_or_not_other_sessions_lose_events() {
        for state in ["file-full", "file-full: other sessions lose events, too"] {
            let status = SessionStatus {
                free_buffers: 3,
                state: state.to_owned(),
                ..SessionStatus::default()
            };
            let report = checked(status);
            assert!(report.text.contains("its file has its maximum size"), "{}", report.text);
        }
    }

    #[test]
    fn limits_that_let_no_event_pass_are_found() {
        let check = |status: SessionStatus, change: fn(&mut EnableInfo)| {
            let mut info = EnableInfo::default();
            info.wanted.level = Level(5);
            change(&mut info);
            let mut report = Report::default();
            check_limits(&mut report, &session(status), &info, "Ticker");
            report
        };
        let empty = SessionStatus::default;
        assert_eq!(check(empty(), |_| {}).wrong, 0);
        let report = check(empty(), |info| info.wanted.level = Level(2));
        assert!(report.text.contains("level or keywords of Ticker may let none pass"));
        assert!(report.text.contains("fix: etw session enable s -p PROVIDER:255"));
        assert_eq!(check(empty(), |info| info.wanted.all = Keyword(0x8000)).wrong, 1);
        let report = check(empty(), |info| info.wanted.ignore_keyword_0 = true);
        assert!(report.text.contains("ignores those without a keyword"), "{}", report.text);
        let filtered = SessionStatus { filtered: 9, ..empty() };
        let report = check(filtered, |_| {});
        assert!(report.text.contains("rejected all of its 9 events"), "{}", report.text);
        let some = SessionStatus { stored: 1, ..empty() };
        let report = check(some, |info| info.wanted.level = Level(2));
        assert!(report.wrong == 0 && report.text.starts_with("note"), "{}", report.text);
    }
}
