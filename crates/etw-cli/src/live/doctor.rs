//! `etw doctor`: every link between a program's events and a session, with what is right and how to fix the rest.

use super::host::HostChoice;
use crate::format::safe;
use crate::output::{Failure, Outcome, print_paged};
use crate::terminal::has_colours;
use clap::Args;
use etw_wire::Channel;
use etw_wire::host_client::{Client, ClientError, OTHER_VERSION};
use etw_wire::requests::{ProviderStatus, Request, Response, SessionStatus};
use etw_wire::runtime_directory as dir;
use etw_wire::user_namespace::UserNamespace;
use std::fmt::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

mod control_group;
mod host_processes;
mod machine;
mod process;
mod sessions;
mod system_events;

use control_group::ControlGroup;
use host_processes::HostProcesses;
use machine::{FileSystem, Machine, check_left_memory, check_limits, check_manifests};
use process::{check_process, check_running_process};
use sessions::{
    OtherHost, check_all_providers, check_process_providers, check_provider, check_session,
};

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
    /// Print JSON: an array of findings
    #[arg(long)]
    json: bool,
}

/// The findings, in the order of the chain.
#[derive(Default)]
pub struct Report {
    text: String,
    wrong: u32,
    /// The same for programs.
    rows: Vec<serde_json::Value>,
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
        let fix = fix.to_string();
        let _ = writeln!(self.text, "{:27}fix: {}", "", safe(&fix));
        if let Some(row) = self.rows.last_mut() {
            row["fix"] = fix.into();
        }
    }

    fn row(&mut self, verdict: &str, link: &str, what: impl std::fmt::Display) {
        let what = what.to_string();
        // Writing to a String cannot fail. Names come from programs.
        let _ = writeln!(self.text, "{verdict:<6} {link:<19} {}", safe(&what));
        let verdict = verdict.to_lowercase();
        self.rows.push(serde_json::json!({"verdict": verdict, "link": link, "what": what}));
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
                OtherHost::of(&directory).check(&mut report, name);
            }
            (None, None) => check_all_providers(&mut report, &providers, &sessions),
        }
        for status in &sessions {
            check_session(&mut report, status);
        }
    }
    let machine = Machine::read();
    machine.check(&mut report);
    check_limits(&mut report);
    ControlGroup::of("self").check(&mut report, "this shell");
    check_manifests(&mut report);
    check_left_memory(&mut report);
    if arguments.system {
        let host = host_process(&directory).or_else(|| holder_of_lock(&directory));
        system_events::check(&mut report, client.as_ref(), host);
    }
    let verdict = match report.wrong {
        0 => "nothing is wrong\n".to_owned(),
        1 => "1 thing is wrong\n".to_owned(),
        count => format!("{count} things are wrong\n"),
    };
    match arguments.json {
        true => print_paged(&format!("{}\n", serde_json::Value::from(report.rows)))?,
        false => print_paged(&coloured(report.text + &verdict))?,
    };
    Ok(if report.wrong == 0 { Outcome::Done } else { Outcome::Damaged })
}

/// Colours the verdicts on a terminal.
fn coloured(text: String) -> String {
    if !has_colours() {
        return text;
    }
    let line = |line: &str| match line.split_once(' ') {
        Some(("WRONG", rest)) => format!("\x1b[31mWRONG\x1b[0m {rest}\n"),
        Some(("note", rest)) => format!("\x1b[33mnote\x1b[0m {rest}\n"),
        Some(("ok", rest)) => format!("\x1b[32mok\x1b[0m {rest}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
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
        if named.is_relative() {
            let what = format!(
                "{} is not an absolute path: programs that start in another folder use another directory",
                named.display()
            );
            let absolute = std::path::absolute(&named).unwrap_or(named);
            report.wrong(LINK, what, format!("set {}={}", dir::VARIABLE, absolute.display()));
        }
    }
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(path);
            if !dir::Directory::is_writable(parent) {
                let what = format!("{shown} does not exist, and you cannot create it");
                let fix = format!(
                    "make {} a directory that you may write to, or set {} to another one",
                    parent.display(),
                    dir::VARIABLE
                );
                return report.wrong(LINK, what, fix);
            }
            return report.note(LINK, format!("{shown} does not exist; the first host creates it"));
        }
        Err(error) => {
            let fix = format!("make {shown} readable, or set {} to another one", dir::VARIABLE);
            return report.wrong(LINK, format!("{shown}: {error}"), fix);
        }
    };
    let mode = metadata.mode() & 0o7777;
    let file_system = FileSystem::of(path);
    if !metadata.is_dir() {
        let what = format!("{shown} is not a directory (a link is not followed)");
        report.wrong(LINK, what, format!("remove {shown}; the next host creates it"));
    } else if metadata.uid() != user() && metadata.uid() != 0 {
        match dir::Directory::open(path) {
            // In a user namespace.
            Ok(_) => report.ok(
                LINK,
                format!("{shown}, of a user outside of this user namespace, mode {mode:04o}"),
            ),
            Err(error) if UserNamespace::current().is_unmapped(metadata.uid()) => {
                report.wrong(LINK, error, "etw record -- COMMAND hosts its session inside");
            }
            Err(_) => {
                let what =
                    format!("{shown} belongs to user {}, not to you or root", metadata.uid());
                let fix = format!("set {} to a directory of your own (mode 0700)", dir::VARIABLE);
                report.wrong(LINK, what, fix);
            }
        }
    } else if mode & 0o022 != 0 {
        let what =
            format!("{shown} has mode {mode:04o}: others may write to it, so nobody uses it");
        report.wrong(LINK, what, format!("chmod go-w {shown}"));
    } else if metadata.uid() == user() && file_system.is_some_and(|it| it.is_read_only) {
        let what = format!(
            "{shown} is on a file system that is mounted read-only: your host cannot create its socket in it"
        );
        let fix = format!(
            "mount it for writing (mount -o remount,rw), or set {} to another directory",
            dir::VARIABLE
        );
        report.wrong(LINK, what, fix);
    } else if metadata.uid() == user() && !dir::Directory::is_writable(path) {
        let what = format!("{shown} has mode {mode:04o}: your host cannot create its socket in it");
        report.wrong(LINK, what, format!("chmod u+rwx {shown}"));
    } else if file_system.is_some_and(|it| it.is_full()) {
        let what =
            format!("the file system of {shown} is full: a host cannot create its files there");
        report.wrong(
            LINK,
            what,
            format!("free some space, or set {} to another directory", dir::VARIABLE),
        );
    } else {
        report.ok(LINK, format!("{shown}, user {}, mode {mode:04o}", metadata.uid()));
    }
}

/// The process that holds the lock of a runtime directory: its host, whether or not it listens.
fn holder_of_lock(directory: &Path) -> Option<u32> {
    use std::os::fd::AsRawFd;
    let lock = std::fs::File::open(directory.join("lock")).ok()?;
    // SAFETY: an open descriptor and numbers. If nobody held the lock, it ends with the descriptor.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return None;
    }
    let inode = format!(":{}", lock.metadata().ok()?.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 31936 fe:00:10011218 0 EOF
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1) == Some(&"FLOCK") && words.get(5)?.ends_with(&inode);
        is_it.then(|| words[4].parse().ok()).flatten()
    })
}

/// Checks the files by which programs find a host that runs.
fn check_files_of_host(report: &mut Report, path: &Path) {
    if !path.join("word").exists() {
        let what = format!(
            "{}/word was removed: programs that wait for a host do not notice the next one",
            path.display()
        );
        let fix = "end this host when its sessions have ended; the next one creates it; then restart programs that are not recorded";
        report.wrong("runtime directory", what, fix);
    }
}

/// The failures of the host of a directory, or of the last one there.
fn failures(path: &Path) -> Vec<String> {
    dir::Directory::open(path).map_or(Vec::new(), |directory| directory.failures())
}

/// Reports sessions that ended with an error, of this host or the last one.
fn check_ended_sessions(report: &mut Report, path: &Path) {
    for failure in failures(path) {
        let fix = "its file has what was stored until then; remove the cause and start the session again. The next host forgets this";
        report.wrong("session", failure, fix);
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
            check_ended_sessions(report, path);
            check_files_of_host(report, path);
            if let Some(host) = host_process(path) {
                check_running_process(report, LINK, host);
                ControlGroup::of(&host.to_string()).check(report, "the host");
            }
            return Some(client);
        }
        Err(ClientError::NoHost(_)) if holder_of_lock(path).is_some() => {
            let holder = holder_of_lock(path).unwrap_or_default();
            let what = format!(
                "process {holder} hosts sessions in {shown}, but its socket was removed or replaced: nobody finds it"
            );
            let fix = format!(
                "kill {holder}: it stores its sessions and ends, and the next host creates the socket"
            );
            report.wrong(LINK, what, fix);
        }
        Err(ClientError::NoHost(_)) if path.join("socket").is_dir() => {
            let what = format!("{shown}/socket is a directory: no host can create its socket");
            report.wrong(LINK, what, format!("rm -r {shown}/socket"));
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
            check_ended_sessions(report, path);
            if let Err(error) = etwd::check_sessions_file(system_host || user() == 0) {
                let fix = "correct the file; etw daemon --help lists its keys";
                report.wrong("sessions.json", format!("a daemon cannot start: {error}"), fix);
            }
        }
        Err(ClientError::Refused { status: OTHER_VERSION, message }) => {
            let fix = "end that host when its sessions have ended (for the machine's: systemctl restart etwd); \
                       the next one is of this version";
            report.wrong("version", format!("{shown}: {message}"), fix);
        }
        Err(ClientError::Refused { message, .. }) => {
            report.wrong("rights", message, "join the group that it names, or use your own host");
        }
        Err(ClientError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
            let fix = format!("find out what listens there: ss -xlp | grep {shown}");
            report.wrong(LINK, format!("{shown}: something listens, but {error}"), fix);
        }
        Err(ClientError::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
            let processes = HostProcesses::of(path);
            let (state, fix) = processes.advice(&failures(path));
            let what = format!("{shown}: a host listens, and does not answer: {state}");
            report.wrong(LINK, what, fix);
            if let Some(keeper) = processes.keeper() {
                ControlGroup::of(&keeper.to_string()).check(report, "the host");
            }
        }
        Err(error) => {
            let socket = std::fs::metadata(path.join("socket"));
            let (what, fix) = match socket {
                Ok(socket) if !is_permitted(&socket) => {
                    let (user, mode) = (socket.uid(), socket.mode() & 0o7777);
                    let what = format!(
                        "you may not connect to {shown}/socket, of user {user} with mode {mode:04o}"
                    );
                    (
                        what,
                        format!(
                            "chmod 0666 {shown}/socket: the host itself decides who may control it"
                        ),
                    )
                }
                Ok(_) if is_refused(&error) => (
                    format!("{shown}: {error}, although owner and mode permit it"),
                    "a security module (SELinux, AppArmor) or a seccomp filter may forbid it: dmesg and \
                     ausearch -m avc show its refusals"
                        .to_owned(),
                ),
                _ => {
                    (format!("{shown}: {error}"), "check the directory's owner and mode".to_owned())
                }
            };
            report.wrong(LINK, what, fix);
        }
    }
    None
}

/// Whether the system refused a connection.
fn is_refused(error: &ClientError) -> bool {
    matches!(error, ClientError::Io(error) if error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Whether this user may connect to a socket.
fn is_permitted(socket: &std::fs::Metadata) -> bool {
    let mode = socket.mode();
    match user() {
        0 => true,
        user if user == socket.uid() => mode & 0o200 != 0,
        // The groups of this user do not matter: hosts admit everybody.
        _ => mode & 0o002 != 0,
    }
}

/// The process that listens in a runtime directory.
fn host_process(directory: &Path) -> Option<u32> {
    let channel = Channel::connect(&directory.join("socket")).ok()?;
    Some(channel.peer().ok()?.pid).filter(|pid| *pid != 0)
}
