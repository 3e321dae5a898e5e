//! The sessions of a command's profiles.

use super::super::Enablement;
use super::super::kernel::Kernel;
use super::super::setup::Setup;
use super::{Command, PREFIX, keywords, profiles, status};
use crate::format::safe;
use crate::frontends::answer::usage;
use crate::output::Failure;
use etw_host::{EnableProperties, Filters, IdFilter, SessionConfig};
use etw_system::recording_profile::{
    BufferCount, Buffers, EventCollector, EventIds, EventProvider, RecordingProfile,
};
use etw_types::Level;
use std::path::{Path, PathBuf};

/// The collector of the system's events.
const SYSTEM: &str = "WPR System Collector";
/// KB of a buffer, where a profile does not say.
const BUFFER_KB: u32 = 1024;
/// KB of the buffers of a session whose profile asks for a part of the machine's memory. A session's buffers are all there from its start.
const MOST_KB: u64 = 512 << 10;

/// The buffers of a session: the largest of its collectors'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sizes {
    kb: u32,
    /// `None`: the default.
    count: Option<u32>,
}

impl Sizes {
    /// Those of a collector on a machine with this memory; `true`: the number of buffers was cut.
    fn of(buffers: Buffers, memory_kb: u64) -> (Sizes, bool) {
        let kb = buffers.size_kb.unwrap_or(BUFFER_KB);
        let (count, is_cut) = match buffers.count {
            None => (None, false),
            Some(BufferCount::Number(count)) => (Some(count), false),
            Some(BufferCount::PercentOfMemory(percent)) => {
                let asked = memory_kb / 100 * u64::from(percent);
                let count = asked.min(MOST_KB) / u64::from(kb.max(1));
                (Some(count.max(2) as u32), asked > MOST_KB)
            }
        };
        (Sizes { kb, count }, is_cut)
    }

    fn largest(self, other: Sizes) -> Sizes {
        Sizes { kb: self.kb.max(other.kb), count: self.count.max(other.count) }
    }
}

/// KB of the machine's memory; 0: not known.
fn memory_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A session of events of programs.
#[derive(Debug, Default)]
struct EventSession {
    /// The collector's name.
    name: String,
    sizes: Sizes,
    providers: Vec<Enablement>,
}

/// The events that the profiles of a command record together.
#[derive(Debug, Default)]
pub struct Recording {
    pub kernel: Kernel,
    /// The buffers of the system's session, if there is one.
    system: Option<Sizes>,
    events: Vec<EventSession>,
    /// The profiles' names.
    pub profiles: Vec<String>,
}

impl Recording {
    /// The recording of a command's profiles.
    pub fn of(command: &Command) -> Result<Recording, Failure> {
        let mut recording = Recording::default();
        for word in &command.profiles {
            let profile = profiles::find(word, command.is_file_mode)?;
            note_left_out(&profile);
            if profile.system.is_none()
                && profile.collectors.iter().all(|one| one.providers.is_empty())
            {
                return Err(usage(format!(
                    "wpr: the profile {word} records nothing that exists on Linux"
                )));
            }
            recording.add(&profile)?;
            recording.profiles.push(status::profile_name(&profile));
        }
        Ok(recording)
    }

    fn add(&mut self, profile: &RecordingProfile) -> Result<(), Failure> {
        if let Some(system) = &profile.system {
            keywords::add(&mut self.kernel, system)?;
            let sizes = sizes(SYSTEM, system.buffers);
            self.system = Some(self.system.unwrap_or(sizes).largest(sizes));
        }
        for collector in profile.collectors.iter().filter(|one| !one.providers.is_empty()) {
            self.add_collector(collector)?;
        }
        Ok(())
    }

    /// Collectors of one name are one session, also in several profiles.
    fn add_collector(&mut self, collector: &EventCollector) -> Result<(), Failure> {
        let sizes = sizes(&collector.name, collector.buffers);
        let is_same = |one: &EventSession| one.name.eq_ignore_ascii_case(&collector.name);
        let at = self.events.iter().position(is_same).unwrap_or_else(|| {
            let name = collector.name.clone();
            self.events.push(EventSession { name, sizes, providers: Vec::new() });
            self.events.len() - 1
        });
        let session = &mut self.events[at];
        session.sizes = session.sizes.largest(sizes);
        for one in &collector.providers {
            session.providers.push(enablement(one)?);
        }
        Ok(())
    }

    /// The sessions with their providers. `folder`: that of their files; without one, they record into memory.
    pub fn sessions(
        self,
        folder: Option<&Path>,
    ) -> Result<Vec<(SessionConfig, Vec<Enablement>)>, Failure> {
        let config = |name: &str, sizes: Sizes, file: String, system| {
            let mut setup = Setup::default();
            setup.config.system = system;
            setup.file = folder.map(|folder| folder.join(file));
            setup.buffering = folder.is_none();
            setup.buffer_kb = Some(sizes.kb.into());
            setup.max_buffers = sizes.count;
            setup.finish("wpr", format!("{PREFIX}{name}"), PathBuf::new)
        };
        let mut all = Vec::new();
        if let Some(sizes) = self.system
            && let Some(system) = self.kernel.config("wpr", &[])?
        {
            all.push((config(SYSTEM, sizes, "system.etl".to_owned(), Some(system))?, Vec::new()));
        }
        for (number, session) in self.events.into_iter().enumerate() {
            let file = format!("events-{number}.etl");
            all.push((config(&session.name, session.sizes, file, None)?, session.providers));
        }
        Ok(all)
    }
}

/// The buffers of a collector, with a note if they are fewer than the profile asks for.
fn sizes(name: &str, buffers: Buffers) -> Sizes {
    let (sizes, is_cut) = Sizes::of(buffers, memory_kb());
    if is_cut {
        eprintln!(
            "etw: note: {}: {} buffers of {} KB, because a part of the machine's memory is at most {} MB here",
            safe(name),
            sizes.count.unwrap_or(0),
            sizes.kb,
            MOST_KB >> 10
        );
    }
    sizes
}

fn enablement(one: &EventProvider) -> Result<Enablement, Failure> {
    let level = if one.level == Level(0) { Level(u8::MAX) } else { one.level };
    let mut enablement = Enablement::parse(&one.name, level, one.keywords)?;
    let properties = [
        (one.has_stacks, EnableProperties::STACK_TRACE),
        (one.has_sid, EnableProperties::SID),
        (one.has_ts_id, EnableProperties::TS_ID),
    ];
    let set = properties.iter().filter(|(is_set, _)| *is_set);
    enablement.info.properties = EnableProperties(set.fold(0, |all, (_, bit)| all | bit.0));
    let ids = |of: &EventIds| IdFilter { include: of.are_included, ids: of.ids.clone() };
    let mut filters = Filters {
        executables: one.executables.clone(),
        event_ids: one.events.as_ref().map(ids),
        ..Filters::default()
    };
    match one.has_stacks {
        true => filters.stacks.event_ids = one.stack_events.as_ref().map(ids),
        false if one.stack_events.is_some() => eprintln!(
            "etw: note: {}: its StackFilters have no effect without Stack=\"true\"",
            safe(&one.name)
        ),
        false => {}
    }
    filters.check().map_err(|error| usage(format!("wpr: {}: {error}", one.name)))?;
    if filters != Filters::default() {
        enablement.info.filters = Some(Box::new(filters));
    }
    Ok(enablement)
}

/// Prints which parts of a profile have no effect.
fn note_left_out(profile: &RecordingProfile) {
    if profile.left_out.is_empty() {
        return;
    }
    let parts: Vec<_> = profile.left_out.iter().map(|one| safe(one)).collect();
    eprintln!(
        "etw: note: profile {}: {}: left out, because openetw has nothing of the kind",
        safe(&status::profile_name(profile)),
        parts.join(", ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-24: a percentage of memory has a bound, and two collectors of one name have the buffers of the larger.
    #[test]
    fn buffers_are_a_number_or_a_part_of_memory() {
        let of = |size_kb, count| Sizes::of(Buffers { size_kb, count }, 8 << 20);
        let percent = |percent| Some(BufferCount::PercentOfMemory(percent));
        let sizes = |kb, count| Sizes { kb, count: Some(count) };
        assert_eq!(of(Some(64), Some(BufferCount::Number(9))), (sizes(64, 9), false));
        assert_eq!(of(None, None), (Sizes { kb: 1024, count: None }, false));
        assert_eq!(of(Some(1024), percent(3)), (sizes(1024, 245), false));
        assert_eq!(of(Some(1024), percent(50)), (sizes(1024, 512), true));
        assert_eq!(of(Some(0), percent(1)).0.count, Some(83_886));
        let unknown = Buffers { size_kb: None, count: percent(3) };
        assert_eq!(Sizes::of(unknown, 0), (sizes(1024, 2), false));
        assert_eq!(sizes(64, 9).largest(sizes(32, 16)), sizes(64, 16));
    }
}
