//! `tracelog`'s display of sessions and providers.

use super::super::kernel::is_kernel_provider;
use super::super::{Controller, enabled, mode_names, shown_file};
use crate::format::safe;
use crate::live::provider::add_installed;
use crate::output::Failure;
use etw_host::SessionClock;
use etw_system::flags::{Flag, Masks};
use etw_types::Guid;
use etw_types::LogFileMode;
use etw_wire::requests::SessionStatus;
use std::fmt::Write;

/// The status of an operation, then the session.
pub fn succeeded(status: &SessionStatus, with_providers: bool) -> String {
    format!(
        "Operation Status:       0L      The operation completed successfully.\n\n{}",
        properties(status, with_providers)
    )
}

/// The fields of tracelog's display, in its order, that sessions have here.
pub fn properties(status: &SessionStatus, with_providers: bool) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let line = format!("{:<24}{}", format!("{name}:"), safe(&value));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let count = |value: u64| value.to_string();
    row("Logger Name", status.name.clone());
    row("Logger Id", format!("{:#x}", status.id));
    row("Guid", status.guid.to_string());
    row("Buffer Size", format!("{} Kb", status.buffer_size >> 10));
    row("Maximum Buffers", status.buffers.to_string());
    row("Minimum Buffers", status.buffers.to_string());
    row("Number of Buffers", status.buffers.to_string());
    row("Free Buffers", status.free_buffers.to_string());
    row("Buffers Written", count(status.buffers_written));
    row("Events Lost", count(status.lost));
    row("Log Buffers Lost", count(status.buffers_lost));
    row("Real Time Buffers Lost", count(status.real_time_buffers_lost));
    row("Real Time Consumers", status.consumers.to_string());
    row(
        "ClockType",
        match status.clock {
            SessionClock::System => "SystemTime",
            SessionClock::Cycles => "CPUCycle",
            _ => "PerfCounter",
        }
        .to_owned(),
    );
    let (file_mode, others) = mode_names(status.mode);
    let is_buffering = status.mode.contains(LogFileMode::BUFFERING);
    let modes: Vec<&str> = others.into_iter().chain([file_mode]).collect();
    row(if is_buffering { "Mode" } else { "Log Mode" }, modes.join("  "));
    row(
        "Maximum File Size",
        match status.max_size {
            0 => "not set".to_owned(),
            size if size % (1 << 20) == 0 => format!("{} Mb", size >> 20),
            size => format!("{} Kb", size >> 10),
        },
    );
    row(
        "Buffer Flush Timer",
        match status.flush_timer_ms {
            0 => "not set".to_owned(),
            ms if ms % 1000 == 0 => format!("{} secs", ms / 1000),
            ms => format!("{ms} ms"),
        },
    );
    if let Some(system) = &status.system {
        row("Enabled tracing", flag_names(&Masks(system.masks)).join(" "));
    }
    row("Log Filename", shown_file(status));
    if with_providers {
        // tracelog's form is not documented; this one is ours.
        row("Enabled Providers", status.enabled.len().to_string());
        for (id, info) in enabled(status) {
            let wanted = &info.wanted;
            // The kernel's keywords are its flags.
            let system = status.system.as_ref().filter(|_| is_kernel_provider(&id.to_string()));
            let any =
                system.map_or(wanted.any.0, |system| u64::from(Masks(system.masks).enable_flags()));
            let _ = writeln!(
                text,
                "    {id}  Level {}  MatchAnyKeyword {any:#x}  MatchAllKeyword {:#x}  EnableProperty {:#x}",
                wanted.level.0, wanted.all.0, info.properties.0
            );
        }
    }
    text
}

/// The kernel's flags as tracelog names them; those that have no name there as xperf does.
fn flag_names(masks: &Masks) -> Vec<&'static str> {
    let known = [
        (Flag::PROCESS, "Process"),
        (Flag::THREAD, "Thread"),
        (Flag::IMAGE, "ImageLoad"),
        (Flag::DISK, "Disk"),
        (Flag::FILE_NAME, "File"),
        (Flag::ALL_FAULTS, "PageFaults"),
        (Flag::HARD_FAULTS, "HardFaults"),
        (Flag::NETWORK, "Network"),
    ];
    let set = Flag::ALL.iter().filter(|flag| masks.has(**flag));
    let named = set.map(|flag| {
        let name = known.iter().find(|(of, _)| of == flag).map(|(_, name)| *name);
        name.unwrap_or(flag.xperf)
    });
    named.collect()
}

/// A line for each session that has enabled a registered or installed provider, and one for a provider without a session.
pub fn registered_providers() -> Result<String, Failure> {
    let mut text = "##     Guid                     Enabled  LoggerId Level Flags\n".to_owned();
    let _ = writeln!(text, "{:-<60}", "");
    let (mut sessions, mut providers) = (Vec::new(), Vec::new());
    if let Some(controller) = Controller::if_there()? {
        sessions = controller.sessions()?;
        providers = controller.providers()?;
        providers.retain(|provider| !provider.pids.is_empty());
    }
    add_installed(&mut providers);
    for provider in providers {
        let before = text.len();
        for status in &sessions {
            let of = |id: &Guid| *id == provider.id || Some(*id) == provider.group;
            for (_, info) in enabled(status).filter(|(id, _)| of(id)) {
                let (wanted, is) = (&info.wanted, "TRUE");
                let _ = writeln!(
                    text,
                    "{}     {is:>5}  {:<4} {:<4} {:#x}",
                    provider.id, status.id, wanted.level.0, wanted.any.0
                );
            }
        }
        if text.len() == before {
            let _ = writeln!(text, "{}     FALSE  0    0    0", provider.id);
        }
    }
    Ok(text)
}
