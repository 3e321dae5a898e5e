//! Windows: a command that runs while a session of the system records.

use super::super::host::{HostChoice, ask_session};
use super::super::options::{check_config, enablements};
use super::super::signals::Signals;
use super::{Arguments, CommandEnd, RECORDING_FAILED, cannot_be_run};
use crate::output::Failure;
use etw_wire::requests::{Request, StartRequest};
use std::process::Command;

/// Records the enabled providers until the command ends.
///
/// Sessions of Windows do not follow the children of a process, so other programs are recorded as well. Ctrl-C is the command's.
pub fn record_command(
    arguments: &Arguments,
    program: &std::ffi::OsStr,
    words: &[std::ffi::OsString],
    _signals: &Signals,
) -> Result<CommandEnd, Failure> {
    arguments.options.check_output(&arguments.output, arguments.replace)?;
    let client = HostChoice { system_host: arguments.system_host }.connect_or_start()?;
    let name = format!("etw-record-{}", std::process::id());
    let mut config = arguments.options.config(&name, Some(&arguments.output))?;
    let lookup = arguments.schemas.lookup(Some(&client))?;
    config.enable = enablements(&arguments.provider, &arguments.enable, &lookup)?;
    config.system = arguments.system.config()?;
    check_config(&config)?;
    if arguments.enable.exe.is_empty() && arguments.enable.pid.is_empty() {
        eprintln!(
            "etw: note: Windows records these providers in all programs; --exe NAME selects those of a program"
        );
    }
    ask_session(&client, &Request::start(StartRequest { config, leased: true }))?;
    let mut child = match Command::new(program).args(words).spawn() {
        Ok(child) => child,
        Err(error) => {
            // The empty trace is of no use.
            let _ = client.ask(&Request::Stop { session: name });
            let _ = std::fs::remove_file(&arguments.output);
            return Err(cannot_be_run(program, &error));
        }
    };
    let ended = child.wait().map_err(Failure::new)?;
    if !ended.success() {
        let code = ended.code().unwrap_or_default();
        eprintln!("etw: note: {} ended with status {code}", program.to_string_lossy());
    }
    let status = ask_session(&client, &Request::Stop { session: name })?;
    // Exit statuses of Windows have 32 bits.
    let code = ended.code().and_then(|code| u8::try_from(code).ok());
    Ok(CommandEnd { session: status, exit_status: code.unwrap_or(RECORDING_FAILED) })
}
