//! `logman`'s display of sessions.

use super::super::kernel::is_kernel_provider;
use super::super::{ProviderNames, braced, enabled, shown_file};
use crate::format::safe;
use etw_host::SessionClock;
use etw_system::flags::Masks;
use etw_types::LogFileMode;
use etw_wire::requests::SessionStatus;
use std::fmt::Write;
use std::path::Path;

/// A session's state as a title: `Running`, `File full`.
pub fn state(status: &SessionStatus) -> String {
    let mut state = status.state.replace('-', " ");
    if let Some(first) = state.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    state
}

/// The fields of logman's display, in its order. Segments and schedules belong to saved collectors: they are off.
pub fn properties(status: &SessionStatus, names: &ProviderNames) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        // A name may start with an empty line. Writing to a String cannot fail.
        let before = name.len() - name.trim_start().len();
        let value = safe(value);
        let line = format!("{}{:<22}{value}", &name[..before], format!("{}:", &name[before..]));
        let _ = writeln!(text, "{}", line.trim_end_matches(' '));
    };
    let is_set = |flag| if status.mode.contains(flag) { "On" } else { "Off" };
    let root = status.file.as_deref().and_then(Path::parent);
    row("Name", &status.name);
    row("Status", &state(status));
    if let Some(root) = root {
        row("Root Path", &root.to_string_lossy());
    }
    row("Segment", "Off");
    row("Schedules", "Off");
    if status.max_size > 0 {
        row("Segment Max Size", &format!("{} MB", status.max_size.div_ceil(1 << 20)));
    }
    row("\nName", &format!("{0}\\{0}", status.name));
    row("Type", "Trace");
    if status.file.is_some() {
        row("Output Location", &shown_file(status));
    }
    row("Append", is_set(LogFileMode::APPEND));
    row("Circular", is_set(LogFileMode::CIRCULAR));
    row("Overwrite", "Off");
    row("Buffer Size", &(status.buffer_size >> 10).to_string());
    row("Buffers Lost", &(status.buffers_lost + status.real_time_buffers_lost).to_string());
    row("Buffers Written", &status.buffers_written.to_string());
    row("Buffer Flush Timer", &seconds(status.flush_timer_ms));
    row(
        "Clock Type",
        match status.clock {
            SessionClock::System => "System",
            SessionClock::Cycles => "Cycle",
            _ => "Performance",
        },
    );
    let modes = [
        (status.file.is_some(), "File"),
        (status.mode.contains(LogFileMode::REAL_TIME), "Real-time"),
        (status.mode.contains(LogFileMode::BUFFERING), "Buffered"),
    ];
    let modes: Vec<&str> = modes.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    row("File Mode", &modes.join(", "));
    for (id, info) in enabled(status) {
        let level = match info.wanted.level.0 {
            1 => "1 (win:Critical)".to_owned(),
            2 => "2 (win:Error)".to_owned(),
            3 => "3 (win:Warning)".to_owned(),
            4 => "4 (win:Informational)".to_owned(),
            5 => "5 (win:Verbose)".to_owned(),
            level => level.to_string(),
        };
        let guid = braced(&id);
        row("\nProvider", "");
        row("Name", names.get(&id).unwrap_or(&guid));
        row("Provider Guid", &guid);
        row("Level", &level);
        row("KeywordsAll", &format!("{:#x}", info.wanted.all.0));
        match status.system.as_ref().filter(|_| is_kernel_provider(&id.to_string())) {
            Some(system) => {
                let masks = Masks(system.masks);
                let (flags, names) = (masks.enable_flags(), masks.names().join(","));
                row("KeywordsAny", &format!("{flags:#x} ({names})"));
            }
            None => row("KeywordsAny", &format!("{:#x}", info.wanted.any.0)),
        }
        row("Properties", &info.properties.0.to_string());
        row("Filter Type", if info.filters.is_some() { "1" } else { "0" });
    }
    text
}

/// Whole seconds as Windows shows them; others with milliseconds.
fn seconds(ms: u32) -> String {
    match ms % 1000 {
        0 => (ms / 1000).to_string(),
        _ => format!("{}.{:03}", ms / 1000, ms % 1000),
    }
}
