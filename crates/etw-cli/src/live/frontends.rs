//! `tracelog`, `logman`, `xperf` and `wpr`: the everyday forms of Windows' controller commands. Forms and displays are those of
//! Microsoft's documentation.
//!
//! A command parses all of its words before it asks a host: a command with a word that is not supported changes nothing.

mod kernel;
#[cfg(test)]
mod kernel_forms;
pub mod logman;
mod setup;
pub mod tracelog;
pub mod wpr;
pub mod xperf;

use self::kernel::Kernel;
use super::host::{self, HostChoice, ask, ask_session};
use super::options::resolve;
use super::session;
use super::wanted::Named;
use crate::frontends::answer::usage;
use crate::output::{Failure, Outcome};
use crate::schemas;
use etw_decode::Catalog;
use etw_host::{EnableInfo, SessionConfig};
use etw_system::system_providers;
use etw_types::{Guid, Keyword, Level, LevelKeyword, LogFileMode, Status};
use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{ProviderStatus, Request, Response, SessionStatus, Update};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Why what only Windows' kernel has is rejected.
const KERNEL: &str = "only the kernel of Windows has this";

/// A session's name, unless Windows reserves it for the start of its kernel.
fn session_name(command: &str, name: &str) -> Result<String, Failure> {
    const RESERVED: [&str; 2] = ["Circular Kernel Context Logger", "GlobalLogger"];
    match RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
        true => Err(usage(format!("{command}: {name}: {KERNEL}"))),
        false => Ok(name.to_owned()),
    }
}

/// A provider, by GUID or name, and what is enabled of it.
#[derive(Clone, Debug, PartialEq)]
struct Enablement {
    provider: Named,
    info: EnableInfo,
}

impl Enablement {
    fn new(provider: Named, level: Level, any: Keyword) -> Enablement {
        let wanted = LevelKeyword::new(level, any);
        Enablement { provider, info: EnableInfo { wanted, ..EnableInfo::default() } }
    }

    fn parse(text: &str, level: Level, any: Keyword) -> Result<Enablement, Failure> {
        let provider = text.parse().map_err(|error| usage(format!("{text:?}: {error}")))?;
        Ok(Enablement::new(provider, level, any))
    }
}

/// Makes Windows' message about a session that does not exist, from its name and a hint.
type Missing = fn(&str, &str) -> Failure;

/// A connection to the host of the user's sessions. Without a host there is no session.
struct Controller {
    client: Client,
}

impl Controller {
    /// `None` if there is no host; an error if there is one that does not answer.
    fn if_there() -> Result<Option<Controller>, Failure> {
        match Client::connect(&HostChoice::default().directory()) {
            Ok(client) => Ok(Some(Controller { client })),
            Err(ClientError::NoHost(_)) => Ok(None),
            Err(error) => Err(host::failure(error)),
        }
    }

    /// Starts a host if there is none.
    fn connect_or_start() -> Result<Controller, Failure> {
        Ok(Controller { client: HostChoice::default().connect_or_start()? })
    }

    fn resolve(&self, named: &Named) -> Result<Guid, Failure> {
        resolve(named, Some(&self.client))
    }

    /// Starts a session with its providers: all or nothing.
    fn start(
        &self,
        mut config: SessionConfig,
        enablements: Vec<Enablement>,
    ) -> Result<SessionStatus, Failure> {
        for enablement in enablements {
            let provider = self.resolve(&enablement.provider)?;
            config.enable.push(etw_host::Enablement::new(provider, enablement.info));
        }
        let status = ask_session(&self.client, &Request::start(config))?;
        if let Some(warning) = &status.error {
            eprintln!("etw: warning: {warning}");
        }
        Ok(status)
    }

    /// Connects in order to act on a session; if there is no host, there is no such session.
    fn connect_to(name: &str, missing: Missing) -> Result<Controller, Failure> {
        let Some(controller) = Controller::if_there()? else {
            return Err(missing(name, "no host of sessions is running, and so no session"));
        };
        match controller.client.ask(&Request::Query { session: name.to_owned() }) {
            Err(ClientError::Refused { status, .. })
                if Status(status) == Status::ERROR_WMI_INSTANCE_NOT_FOUND =>
            {
                Err(missing(name, "etw session list shows the running ones"))
            }
            Err(error) => Err(host::failure(error)),
            Ok(_) => Ok(controller),
        }
    }

    fn query(&self, name: &str) -> Result<SessionStatus, Failure> {
        ask_session(&self.client, &Request::Query { session: name.to_owned() })
    }

    /// Stops a session and reports its losses.
    fn stop(&self, name: &str) -> Result<(SessionStatus, Outcome), Failure> {
        let status = ask_session(&self.client, &Request::Stop { session: name.to_owned() })?;
        let outcome = report_end(name, &status)?;
        Ok((status, outcome))
    }

    /// Stops a session whose file is removed next: reports its losses without the file.
    fn stop_temporary(&self, name: &str) -> Result<Outcome, Failure> {
        let status = ask_session(&self.client, &Request::Stop { session: name.to_owned() })?;
        report_end(name, &SessionStatus { file: None, ..status })
    }

    /// Stops a session whose memory was written to a file, and reports what was lost. The end may tell of losses that are not in the file.
    /// `told`: those that are.
    fn stop_written(&self, name: &str, told: u64) -> Result<Outcome, Failure> {
        let status = ask_session(&self.client, &Request::Stop { session: name.to_owned() })?;
        let outcome = session::outcome(&status)?;
        let lost = status.lost.saturating_sub(told);
        if lost > 0 {
            eprintln!(
                "etw: {name}: {} LOST in addition to those that the trace tells: the host learned of them when the session ended",
                crate::output::counted(lost, "event")
            );
        }
        Ok(outcome)
    }

    fn flush(&self, name: &str) -> Result<(), Failure> {
        ask(&self.client, &Request::Flush { session: name.to_owned() }).map(drop)
    }

    /// Writes what a session in memory holds.
    fn snapshot(&self, name: &str, file: &Path) -> Result<(), Failure> {
        let file = super::options::absolute(file)?;
        ask(&self.client, &Request::Snapshot { session: name.to_owned(), file }).map(drop)
    }

    /// Changes a session. The host would ignore a number of buffers below the present one: it is an error here.
    fn update(&self, command: &str, name: &str, update: Update) -> Result<(), Failure> {
        if update == Update::default() {
            return Ok(());
        }
        if let Some(buffers) = update.buffers {
            let now = self.query(name)?.buffers;
            if buffers < now {
                return Err(usage(format!(
                    "{command}: session {name} has {now} buffers, and {buffers} were asked for: a running session \
                     can get more buffers, not fewer"
                )));
            }
        }
        ask(&self.client, &Request::Update { session: name.to_owned(), update }).map(drop)
    }

    /// Changes the kernel's events of a session, if any were given. The recording ends with its rundown, and a new one begins.
    fn change_kernel(&self, command: &str, name: &str, kernel: Kernel) -> Result<(), Failure> {
        if kernel.is_empty() {
            return Ok(());
        }
        let Some(now) = self.query(name)?.system else {
            let what = format!("{command}: session {name} records no events of the kernel");
            return Err(usage(what));
        };
        let system = kernel.changed(command, now)?;
        ask(&self.client, &Request::System { session: name.to_owned(), system }).map(drop)
    }

    fn enable(&self, name: &str, enablement: &Enablement, timeout_ms: u32) -> Result<(), Failure> {
        let provider = self.resolve(&enablement.provider)?.into();
        let (session, info) = (name.to_owned(), enablement.info.clone());
        ask(&self.client, &Request::Enable { session, provider, info, timeout_ms }).map(drop)
    }

    fn disable(&self, name: &str, provider: &Named) -> Result<(), Failure> {
        let provider = self.resolve(provider)?.into();
        ask(&self.client, &Request::Disable { session: name.to_owned(), provider }).map(drop)
    }

    fn capture(&self, name: &str, provider: Guid, of: &LevelKeyword) -> Result<(), Failure> {
        let request = Request::CaptureState {
            session: name.to_owned(),
            provider,
            level: of.level,
            any: of.any,
            all: of.all,
        };
        ask(&self.client, &request).map(drop)
    }

    fn providers(&self) -> Result<Vec<ProviderStatus>, Failure> {
        match ask(&self.client, &Request::Providers)? {
            Response::Providers { providers } => Ok(providers),
            _ => Ok(Vec::new()),
        }
    }

    fn sessions(&self) -> Result<Vec<SessionStatus>, Failure> {
        match ask(&self.client, &Request::List)? {
            Response::Sessions { sessions } => Ok(sessions),
            _ => Ok(Vec::new()),
        }
    }
}

/// Reports the losses of a session that has ended.
fn report_end(name: &str, status: &SessionStatus) -> Result<Outcome, Failure> {
    let outcome = session::outcome(status)?;
    if outcome != Outcome::Done {
        eprint!("etw: {name}: {}", session::summary(status));
    }
    Ok(outcome)
}

/// All sessions; none if there is no host.
fn all_sessions() -> Result<Vec<SessionStatus>, Failure> {
    Controller::if_there()?.map_or(Ok(Vec::new()), |controller| controller.sessions())
}

/// A session's enablements by provider.
fn enabled(status: &SessionStatus) -> impl Iterator<Item = (Guid, &EnableInfo)> {
    status.enabled.iter().filter_map(|(id, info)| Some((id.parse().ok()?, info)))
}

/// Names of providers: those that programs registered, then those of the user's schemas.
struct ProviderNames {
    registered: BTreeMap<Guid, String>,
    own: Arc<Catalog>,
}

impl ProviderNames {
    fn of(providers: Vec<ProviderStatus>) -> ProviderNames {
        let named = providers.into_iter().filter(|provider| !provider.name.is_empty());
        let registered = named.map(|provider| (provider.id, provider.name)).collect();
        ProviderNames { registered, own: schemas::own() }
    }

    fn get(&self, id: &Guid) -> Option<&str> {
        let registered = || self.registered.get(id).map(String::as_str);
        let of_system = system_providers::name_of(id);
        of_system.or_else(registered).or_else(|| self.own.provider_name(id))
    }
}

/// A GUID as Windows' commands print it.
fn braced(id: &Guid) -> String {
    format!("{{{}}}", id.to_string().to_ascii_uppercase())
}

/// Names of a session's log mode bits: how its file is written, and the others.
fn mode_names(mode: LogFileMode) -> (&'static str, Vec<&'static str>) {
    let file = [
        (LogFileMode::CIRCULAR, "Circular"),
        (LogFileMode::NEWFILE, "Newfile"),
        (LogFileMode::APPEND, "Append"),
        (LogFileMode::BUFFERING, "Buffering"),
    ];
    let others = [
        (LogFileMode::REAL_TIME, "RealTime"),
        (LogFileMode::PREALLOCATE, "Preallocate"),
        (LogFileMode::COMPRESSED, "Compressed"),
        (LogFileMode::INDEPENDENT_SESSION, "Independent"),
        (LogFileMode::NO_PER_PROCESSOR_BUFFERING, "LowCapacity"),
    ];
    let is_set = |(flag, _): &&(LogFileMode, &str)| mode.contains(*flag);
    // As on Windows, a session without a file has a file mode, too.
    let file = file.iter().find(is_set).map_or("Sequential", |(_, name)| name);
    (file, others.iter().filter(is_set).map(|(_, name)| *name).collect())
}

/// The path of a session's file, or an empty text.
fn shown_file(status: &SessionStatus) -> String {
    status.file.as_ref().map_or(String::new(), |file| file.display().to_string())
}

fn worse(one: Outcome, other: Outcome) -> Outcome {
    if one == Outcome::Done { other } else { one }
}
