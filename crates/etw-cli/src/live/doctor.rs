//! `etw doctor`: every link between a program's events and a session, with what is right and how to fix the rest.

use super::diagnosis::{level_name, shown_name};
use super::host::HostChoice;
use super::options::Named;
use crate::format::safe;
use crate::output::{Failure, Outcome};
use crate::where_filter::closest;
use clap::Args;
use etw_types::Guid;
use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{ProviderStatus, Request, Response, SessionStatus};
use etw_wire::runtime_directory as dir;
use std::fmt::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Arguments {
    /// A provider (GUID, registered name, or *Name), or the id of a process
    #[arg(value_name = "PROVIDER|PID")]
    subject: Option<String>,
    /// Check what recording the system's own events needs, too
    #[arg(long)]
    system: bool,
    /// Check the machine's host instead of your own
    #[arg(long)]
    system_host: bool,
}

/// The findings, in the order of the chain.
#[derive(Default)]
struct Report {
    text: String,
    wrong: u32,
}

impl Report {
    fn ok(&mut self, link: &str, what: impl std::fmt::Display) {
        self.row("ok", link, what);
    }

    fn note(&mut self, link: &str, what: impl std::fmt::Display) {
        self.row("note", link, what);
    }

    /// `fix`: what to do.
    fn wrong(&mut self, link: &str, what: impl std::fmt::Display, fix: impl std::fmt::Display) {
        self.wrong += 1;
        self.row("WRONG", link, what);
        let _ = writeln!(self.text, "{:27}fix: {}", "", safe(&fix.to_string()));
    }

    fn row(&mut self, verdict: &str, link: &str, what: impl std::fmt::Display) {
        // Writing to a String cannot fail. Names come from programs.
        let _ = writeln!(self.text, "{verdict:<6} {link:<19} {}", safe(&what.to_string()));
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let host = HostChoice { system_host: arguments.system_host };
    let mut report = Report::default();
    let directory = host.directory();
    check_directory(&mut report, &directory);
    let client = check_host(&mut report, &directory, arguments.system_host);
    let subject = arguments.subject.as_deref();
    let pid = subject.and_then(|text| text.parse::<u32>().ok());
    if let Some(pid) = pid {
        check_process(&mut report, pid, &directory);
    }
    if let Some(client) = &client {
        let (providers, recent, sessions) = ask_all(client)?;
        match (pid, subject) {
            (Some(pid), _) => check_process_providers(&mut report, pid, &providers, &sessions),
            (None, Some(name)) => {
                check_provider(&mut report, name, &providers, &recent, &sessions)?;
            }
            (None, None) => check_all_providers(&mut report, &providers, &sessions),
        }
        for status in &sessions {
            check_session(&mut report, status);
        }
    }
    check_machine(&mut report);
    check_shared_memory(&mut report);
    if arguments.system {
        check_system_events(&mut report);
    }
    let verdict = match report.wrong {
        0 => "nothing is wrong\n".to_owned(),
        1 => "1 thing is wrong\n".to_owned(),
        count => format!("{count} things are wrong\n"),
    };
    crate::frontends::print(&(report.text + &verdict))?;
    Ok(if report.wrong == 0 { Outcome::Done } else { Outcome::Damaged })
}

type Answers = (Vec<ProviderStatus>, Vec<ProviderStatus>, Vec<SessionStatus>);

fn ask_all(client: &Client) -> Result<Answers, Failure> {
    let ask = |request: &Request| client.ask(request).map_err(super::host::failure);
    let providers = match ask(&Request::Providers)? {
        Response::Providers { providers } => providers,
        _ => Vec::new(),
    };
    // A host of an earlier version does not have it.
    let recent = match client.ask(&Request::RecentProviders) {
        Ok(Response::Providers { providers }) => providers,
        _ => Vec::new(),
    };
    let Response::Sessions { sessions } = ask(&Request::List)? else {
        return Ok((providers, recent, Vec::new()));
    };
    // A query has more than a list.
    let query = |status: SessionStatus| match client
        .ask(&Request::Query { session: status.name.clone() })
    {
        Ok(Response::Session(status)) => *status,
        _ => status,
    };
    Ok((providers, recent, sessions.into_iter().map(query).collect()))
}

fn user() -> u32 {
    // SAFETY: takes nothing and gives a number.
    unsafe { libc::geteuid() }
}

fn check_directory(report: &mut Report, path: &Path) {
    const LINK: &str = "runtime directory";
    let shown = path.display();
    if let Some(named) = dir::variable(dir::VARIABLE) {
        let what =
            format!("{} is set to {}; programs need the same", dir::VARIABLE, named.display());
        report.note(LINK, what);
    }
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return report.note(LINK, format!("{shown} does not exist; the first host creates it"));
        }
        Err(error) => {
            let fix = format!("make {shown} readable, or set {} to another one", dir::VARIABLE);
            return report.wrong(LINK, format!("{shown}: {error}"), fix);
        }
    };
    let mode = metadata.mode() & 0o7777;
    if !metadata.is_dir() {
        let what = format!("{shown} is not a directory (a link is not followed)");
        report.wrong(LINK, what, format!("remove {shown}; the next host creates it"));
    } else if metadata.uid() != user() && metadata.uid() != 0 {
        let what = format!("{shown} belongs to user {}, not to you or root", metadata.uid());
        let fix = format!("set {} to a directory of your own (mode 0700)", dir::VARIABLE);
        report.wrong(LINK, what, fix);
    } else if mode & 0o022 != 0 {
        let what =
            format!("{shown} has mode {mode:04o}: others may write to it, so nobody uses it");
        report.wrong(LINK, what, format!("chmod go-w {shown}"));
    } else {
        report.ok(LINK, format!("{shown}, user {}, mode {mode:04o}", metadata.uid()));
    }
}

/// Connects to the host.
fn check_host(report: &mut Report, path: &Path, system_host: bool) -> Option<Client> {
    const LINK: &str = "host";
    let shown = path.display();
    match Client::connect(path) {
        Ok(client) => {
            let what = format!("one listens in {shown}, and you may control it");
            report.ok(LINK, what);
            return Some(client);
        }
        Err(ClientError::NoHost(_)) => {
            let is_left = std::fs::symlink_metadata(path.join("socket"))
                .is_ok_and(|socket| socket.file_type().is_socket());
            let left = if is_left { " (the socket is of one that has ended)" } else { "" };
            let fix = match system_host {
                true => "systemctl start etwd, or run etw daemon as root",
                false => {
                    "etw session start, etw record and etw tail start one; etw daemon runs one"
                }
            };
            report.wrong(LINK, format!("no host of sessions runs in {shown}{left}"), fix);
        }
        Err(ClientError::Refused { message, .. }) => {
            report.wrong("rights", message, "join the group that it names, or use your own host");
        }
        Err(error) => {
            report.wrong(LINK, format!("{shown}: {error}"), "check the directory's owner and mode");
        }
    }
    None
}

/// Values of variables in a process's environment when it started.
fn environment(pid: u32) -> Option<Vec<(String, String)>> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let each = bytes.split(|byte| *byte == 0).filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    Some(each.collect())
}

fn check_process(report: &mut Report, pid: u32, directory: &Path) {
    const LINK: &str = "process";
    let Ok(metadata) = std::fs::metadata(format!("/proc/{pid}")) else {
        return report.wrong(LINK, format!("there is no process {pid}"), "ps lists processes");
    };
    if metadata.uid() != user() && metadata.uid() != 0 && directory != Path::new(dir::SYSTEM) {
        let what = format!(
            "process {pid} belongs to user {}, whose programs use another host",
            metadata.uid()
        );
        let fix = "record it as that user, or with the machine's host (--system-host)";
        report.wrong(LINK, what, fix);
    }
    for (namespace, what) in [("mnt", "files"), ("pid", "processes"), ("user", "users")] {
        let of = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/{namespace}")).ok();
        let (theirs, ours) = (of(&pid.to_string()), of("self"));
        if theirs.is_some() && theirs != ours {
            let what = format!("process {pid} runs in a container: it has {what} of its own");
            let fix =
                "mount the host's runtime directory into the container, or run etw record in it";
            report.wrong("container", what, fix);
            break;
        }
    }
    let Some(environment) = environment(pid) else {
        return report.note(LINK, format!("the environment of process {pid} cannot be read"));
    };
    let value =
        |name: &str| environment.iter().find(|(n, _)| n == name).map(|(_, v)| PathBuf::from(v));
    match (value(dir::RECORD_VARIABLE), value(dir::VARIABLE)) {
        (Some(record), _) => {
            report.note(
                LINK,
                format!("etw record started process {pid} with a host in {}", record.display()),
            );
        }
        (None, Some(named)) if named != directory => {
            let what = format!(
                "{} of process {pid} is {}, not {}",
                dir::VARIABLE,
                named.display(),
                directory.display()
            );
            let fix = format!("start the program with {}={}", dir::VARIABLE, directory.display());
            report.wrong(LINK, what, fix);
        }
        (None, None) if dir::variable(dir::VARIABLE).is_some() => {
            let what = format!("process {pid} was started without {}", dir::VARIABLE);
            let fix = format!("start the program with {}={}", dir::VARIABLE, directory.display());
            report.wrong(LINK, what, fix);
        }
        _ => report.ok(LINK, format!("process {pid} looks for the same host")),
    }
}

fn check_process_providers(
    report: &mut Report,
    pid: u32,
    providers: &[ProviderStatus],
    sessions: &[SessionStatus],
) {
    let of_process: Vec<_> = providers.iter().filter(|known| known.pids.contains(&pid)).collect();
    if of_process.is_empty() {
        let what = format!("process {pid} has registered no provider with this host");
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

fn check_all_providers(
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
        if !known.sessions.is_empty() && !is_group && !is_other {
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
    for status in sessions.iter().filter(|status| status.enabled.is_empty()) {
        let fix = format!("etw session enable {} -p PROVIDER", status.name);
        report.wrong("enablement", format!("session {} has no provider enabled", status.name), fix);
    }
}

fn check_provider(
    report: &mut Report,
    text: &str,
    providers: &[ProviderStatus],
    recent: &[ProviderStatus],
    sessions: &[SessionStatus],
) -> Result<(), Failure> {
    const LINK: &str = "registration";
    let named: Named =
        text.parse().map_err(|error| Failure::Usage(format!("doctor {text:?}: {error}")))?;
    let name = text.strip_prefix('*').unwrap_or(text);
    let is = |known: &&ProviderStatus| match &named {
        Named::Id(id) => known.id == *id || known.group == Some(*id),
        Named::Name(name) => known.name.eq_ignore_ascii_case(name),
    };
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
    if let Some(known) = providers.iter().chain(recent).find(|k| same_name(k) && !is(k)) {
        let what =
            format!("{name} is registered as {}, which is not the GUID of that name", known.id);
        report.wrong(LINK, what, format!("enable it as -p {}", known.id));
    } else if let Some(known) = recent.iter().find(is) {
        let pid = known.pids.first().copied().unwrap_or(0);
        let what = format!("process {pid} had registered {name}, and has ended or unregistered it");
        report.wrong(LINK, what, "keep the registration as long as the program runs");
    } else {
        let names = providers.iter().chain(recent).map(|known| known.name.as_str());
        let near = closest(name, names.filter(|name| !name.is_empty()));
        let fix = match near {
            Some(near) => format!("did you mean {near}?"),
            None => "start the program; etw provider list shows what is registered, etw doctor PID checks a program".to_owned(),
        };
        report.wrong(LINK, format!("no program has registered {name} with this host"), fix);
    }
    let id = match named {
        Named::Id(id) => id,
        Named::Name(name) => Guid::from_name(&name),
    };
    check_enablement(
        report,
        &ProviderStatus { id, name: name.to_owned(), ..ProviderStatus::default() },
        sessions,
    );
    Ok(())
}

/// The sessions that have a provider enabled, and what limits its events.
fn check_enablement(report: &mut Report, known: &ProviderStatus, sessions: &[SessionStatus]) {
    const LINK: &str = "enablement";
    let name = shown_name(known);
    let mut is_enabled = false;
    for status in sessions {
        for (id, info) in &status.enabled {
            let id = id.parse::<Guid>().ok();
            if id != Some(known.id) && (id.is_none() || id != known.group) {
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
            if (1..5).contains(&wanted.level.0) || wanted.any.0 != 0 || wanted.all.0 != 0 {
                let what = format!(
                    "events of session {} are limited; PROVIDER:255 enables all levels and keywords",
                    status.name
                );
                report.note(LINK, what);
            }
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

fn check_session(report: &mut Report, status: &SessionStatus) {
    let name = &status.name;
    if let Some(error) = &status.error {
        let fix = "free space or make the folder writable; etw session update SESSION -o FILE continues in another file";
        report.wrong("session", format!("{name}: {error}"), fix);
    } else if status.state == "file-full" {
        let fix = "stop it, or continue with etw session update SESSION -o FILE; --mode circular never fills";
        report.wrong("session", format!("{name}: its file has its maximum size"), fix);
    } else {
        let what = format!(
            "{name} is {}, {} events stored, {} filtered",
            status.state, status.stored, status.filtered
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
        let what = format!("{name}: {} events lost: {}", loss.count, loss.cause);
        report.wrong("losses", what, super::session::remedy(loss.cause.name()));
    }
    for refusal in &status.refusals {
        let fix = "stop one of the sessions that enable it";
        report.wrong("enablement", format!("{name}: {}", refusal.message), fix);
    }
    if let Some(folder) = status.file.as_deref().and_then(Path::parent)
        && let Some(free) = free_bytes(folder)
        && free < 64 << 20
    {
        let what = format!("{name}: {} has {} MiB left", folder.display(), free >> 20);
        report.wrong("disk", what, "free some space, or record to another file system");
    }
}

/// Bytes that a user may still write to a file system.
fn free_bytes(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: a path that ends with zero, and room for the answer.
    let stat = unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &raw mut stat) == 0).then_some(stat)?
    };
    Some((stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64))
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

fn check_machine(report: &mut Report) {
    let clock = first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match clock.as_deref() {
        Some(name @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            report.ok("clock", format!("{name}, read without a system call"));
        }
        Some(name) => {
            report.note("clock", format!("{name}: each event's timestamp costs a system call"))
        }
        None => report.note("clock", "the kernel does not name its clock source"),
    }
    if let Some(version) = first_line("/proc/sys/kernel/osrelease") {
        report.ok("kernel", version);
    }
    // SAFETY: system calls that take numbers and change nothing.
    let (membarrier, memory) = unsafe {
        let memory = libc::syscall(libc::SYS_memfd_create, c"etw-doctor".as_ptr(), 3u32);
        if memory >= 0 {
            libc::close(memory as i32);
        }
        (libc::syscall(libc::SYS_membarrier, 0, 0, 0), memory)
    };
    match membarrier {
        commands if commands > 0 => report.ok("kernel", "membarrier"),
        _ => report.note("kernel", "no membarrier: each write costs a fence"),
    }
    match memory >= 0 {
        true => report.ok("kernel", "memory files with seals"),
        false => report.wrong(
            "kernel",
            "memfd_create is not allowed, so programs can have no pool",
            "allow memfd_create in the seccomp profile of the container",
        ),
    }
}

fn check_shared_memory(report: &mut Report) {
    const FOLDER: &str = "/dev/shm";
    match free_bytes(Path::new(FOLDER)) {
        Some(free) if free < 32 << 20 => {
            let what = format!("{FOLDER} has {} MiB left; private sessions need 16", free >> 20);
            report.wrong("shared memory", what, "remove what is not needed there, or enlarge it");
        }
        Some(free) => report.ok("shared memory", format!("{FOLDER} has {} MiB left", free >> 20)),
        None => report.note("shared memory", format!("there is no {FOLDER}")),
    }
    for entry in std::fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix("openetw-").filter(|rest| rest.ends_with(".part"))
        else {
            continue;
        };
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.uid() != user() {
            continue;
        }
        let pid = rest.split('-').next().unwrap_or_default();
        let size = metadata.blocks() * 512 / 1024;
        match Path::new(&format!("/proc/{pid}")).exists() {
            true => report.ok("shared memory", format!("{name}: {size} KiB of process {pid}")),
            false => {
                let what = format!(
                    "{name}: {size} KiB of process {pid}, which has ended; etw repair TRACE completes its trace; if \
                     that is gone, rm {FOLDER}/{name}"
                );
                report.note("shared memory", what);
            }
        }
    }
}

fn check_system_events(report: &mut Report) {
    const LINK: &str = "system events";
    let paranoid = first_line("/proc/sys/kernel/perf_event_paranoid")
        .and_then(|text| text.parse::<i32>().ok());
    match paranoid {
        Some(level) if level <= 1 || user() == 0 => {
            report.ok(LINK, format!("perf_event_paranoid is {level}"));
        }
        Some(level) => report.wrong(
            LINK,
            format!("perf_event_paranoid is {level}: only root may read the kernel's events"),
            "run as root, or sysctl kernel.perf_event_paranoid=1",
        ),
        None => report.wrong(
            LINK,
            "the kernel has no perf events",
            "use a kernel with CONFIG_PERF_EVENTS",
        ),
    }
    let folders = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    match folders.iter().find(|folder| Path::new(folder).join("events").is_dir()) {
        Some(folder) => report.ok(LINK, format!("tracepoints in {folder}")),
        None => report.wrong(
            LINK,
            "no tracepoints can be read in /sys/kernel/tracing",
            "mount -t tracefs tracefs /sys/kernel/tracing, and run as root",
        ),
    }
}
