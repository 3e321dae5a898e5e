//! System providers in sessions: enabling one records its classes of events, as `--system` does.

use etw_session::{
    EnableInfo, EnableProperties, Enablement, ProviderKey, SessionConfig, SystemConfig,
};
use etw_system::SAMPLE_INTERVAL;
use etw_system::flags::{Flag, FlagError, Masks, Parsed};
use etw_system::stack_names::STACK_NAMES;
use etw_system::system_providers::{flags_of, is_system_provider, named};
use etw_types::{Guid, SYSTEM_TRACE, Status};
use etw_wire::requests::Response;

use super::HostThread;
use crate::rights::refused;
use crate::system_classes::{Classes, SystemClasses};

/// The classes of the system that a new session records.
pub(super) struct TakenClasses {
    pub classes: SystemClasses,
    /// Sentences on those that are left out.
    pub notes: Vec<String>,
}

impl HostThread {
    /// Enables a system provider in a session, or disables it (without `info`). `None`: the provider is another one.
    pub(super) fn change_system_provider(
        &mut self,
        slot: usize,
        provider: &ProviderKey,
        info: Option<&EnableInfo>,
    ) -> Option<Response> {
        let provider = system_provider(provider)?;
        let Some((now, mut classes)) = self.system_of(slot) else {
            return Some(records_none(&provider));
        };
        let mut note = None;
        match info.map(|info| classes_of(&provider, info)) {
            Some(Ok((of_provider, left_out))) => {
                classes.enable(provider, of_provider);
                note = left_out;
            }
            Some(Err(no)) => return Some(no),
            None if !classes.disable(&provider) => {
                note = Some(format!(
                    "provider {provider} is not enabled in the session, which records what it was started with"
                ));
            }
            None => {}
        }
        let mut changed = self.change_system(slot, now, classes);
        if let Response::Done { warnings } = &mut changed {
            warnings.extend(note);
        }
        Some(changed)
    }

    /// Replaces the flags with which a session was started. Classes that `EnableFlags` has no bits for stay, unless no flag is set.
    pub(super) fn change_enable_flags(&mut self, slot: usize, flags: u32) -> Response {
        let Some((now, mut classes)) = self.system_of(slot) else {
            let what = "the session records no events of the system, and so it has no EnableFlags";
            return refused(Status::ERROR_NOT_SUPPORTED, what);
        };
        let mut asked = Parsed::of_enable_flags(flags);
        if asked.is_all_dropped() {
            let what = FlagError::NotOnLinux(asked.dropped);
            return refused(Status::ERROR_NOT_SUPPORTED, what.to_string());
        }
        let own = classes.own_masks();
        for flag in Flag::ALL.iter().filter(|flag| flags != 0 && flag.enable == 0) {
            if Masks(*own).has(*flag) {
                asked.masks.set(*flag);
            }
        }
        *own = asked.masks.0;
        let mut changed = self.change_system(slot, now, classes);
        if let Response::Done { warnings } = &mut changed {
            warnings.extend(asked.note());
        }
        changed
    }

    /// Everything that a session records of the system, if a system provider has state there that can be logged. `None`: the provider is another one.
    pub(super) fn state_of_system(
        &self,
        slot: usize,
        provider: &Guid,
    ) -> Option<Result<(SystemConfig, SystemClasses), Response>> {
        let of_provider = flags_of(provider, 0)?.masks;
        let Some((now, classes)) = self.system_of(slot) else {
            return Some(Err(records_none(provider)));
        };
        let masks = Masks(now.masks);
        let is_recorded = |flag: &&Flag| match flag.is_of_configuration() {
            true => masks.has_configuration(**flag),
            false => masks.has(**flag),
        };
        let mut flags = Flag::ALL.iter().filter(|flag| of_provider.has(**flag));
        let what = match (of_provider == Masks::default(), flags.any(|flag| is_recorded(&flag))) {
            (_, true) => return Some(Ok((now, classes))),
            (true, _) => format!(
                "provider {provider}: openetw records none of its events on Linux, and so it has no state"
            ),
            _ => format!(
                "provider {provider}: the session records none of its events; enable it first"
            ),
        };
        Some(Err(refused(Status::ERROR_NOT_SUPPORTED, what)))
    }

    /// Everything that a session records of the system, and who asked for it.
    pub(super) fn system_of(&self, slot: usize) -> Option<(SystemConfig, SystemClasses)> {
        let global = self.global(slot)?;
        Some((global.config.system.clone()?, global.system_classes.clone()))
    }
}

fn records_none(provider: &Guid) -> Response {
    let what = format!(
        "provider {provider} has events of the system, and the session records none; start it with --system or with this provider"
    );
    refused(Status::ERROR_NOT_SUPPORTED, what)
}

/// Makes system providers among those that a session enables classes of its system events. Returns what is left out, in sentences.
///
/// # Errors
/// [`Response::Error`]: none of a provider's events is recorded on Linux, or it cannot be enabled in this way.
pub fn take_system_providers(config: &mut SessionConfig) -> Result<Vec<String>, Response> {
    take_classes(config).map(|taken| taken.notes)
}

/// [`take_system_providers`], with the classes of each.
pub(super) fn take_classes(config: &mut SessionConfig) -> Result<TakenClasses, Response> {
    let mut taken = TakenClasses { classes: SystemClasses::default(), notes: Vec::new() };
    let id_of = |enablement: &Enablement| system_provider(&enablement.provider);
    if config.system.is_none() && config.enable.iter().all(|one| id_of(one).is_none()) {
        return Ok(taken);
    }
    let mut system = config.system.clone().unwrap_or_else(|| {
        let mut masks = Masks::default();
        // Without names of processes and images nothing else can be read.
        [Flag::PROCESS, Flag::THREAD, Flag::IMAGE].into_iter().for_each(|flag| masks.set(flag));
        let sample_interval = SAMPLE_INTERVAL;
        SystemConfig {
            masks: masks.0,
            sample_interval,
            adds_lives: true,
            ..SystemConfig::default()
        }
    });
    taken.classes.set_all(&system);
    for enablement in &config.enable {
        if let Some(provider) = id_of(enablement) {
            let (classes, note) = classes_of(&provider, &enablement.info)?;
            let mut lives = [Flag::PROCESS, Flag::THREAD, Flag::IMAGE].iter();
            system.adds_lives &= !lives.any(|flag| Masks(classes.masks).has(*flag));
            taken.classes.enable(provider, classes);
            taken.notes.extend(note);
        }
    }
    config.enable.retain(|enablement| id_of(enablement).is_none());
    taken.classes.put_into(&mut system);
    config.system = Some(system);
    Ok(taken)
}

/// The GUID of a system provider.
fn system_provider(provider: &ProviderKey) -> Option<Guid> {
    match provider {
        ProviderKey::Id(id) => is_system_provider(id).then_some(*id),
        ProviderKey::Name(name) => named(name),
    }
}

/// The classes of a system provider that is enabled, and a note on those that are left out. System events have no levels.
fn classes_of(provider: &Guid, info: &EnableInfo) -> Result<(Classes, Option<String>), Response> {
    let keywords = info.wanted.any.0;
    if *provider == SYSTEM_TRACE && keywords == 0 {
        let what = format!(
            "provider {provider} is the whole kernel: give its classes as keywords (bits of EnableFlags, such as 0x11), or with --system"
        );
        return Err(refused(Status::ERROR_INVALID_PARAMETER, what));
    }
    if info.filters.is_some() || info.wanted.all.0 != 0 {
        let what =
            format!("provider {provider} has events of the system, which have no filters here");
        return Err(refused(Status::ERROR_NOT_SUPPORTED, what));
    }
    let asked = flags_of(provider, keywords).unwrap_or_default();
    if asked.masks == Masks::default() {
        let what = format!(
            "provider {provider} with keywords {keywords:#x}: openetw records none of these events on Linux; --system names those that it records"
        );
        return Err(refused(Status::ERROR_NOT_SUPPORTED, what));
    }
    let has_stacks = info.properties.contains(EnableProperties::STACK_TRACE);
    let rows = STACK_NAMES.iter().filter(|row| has_stacks && asked.masks.has(row.class));
    let stacks = rows.map(|row| row.hook).collect();
    let note = asked.note().map(|note| format!("provider {provider}: {note}"));
    Ok((Classes { masks: asked.masks.0, stacks }, note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::{Keyword, Level, LevelKeyword};

    fn enablement(provider: &ProviderKey, any: u64, properties: EnableProperties) -> Enablement {
        let wanted = LevelKeyword::new(Level(5), Keyword(any));
        Enablement::new(
            provider.clone(),
            EnableInfo { wanted, properties, ..EnableInfo::default() },
        )
    }

    /// OV-24: a session that starts with system providers records their classes, beside other providers.
    #[test]
    fn system_providers_of_a_new_session_are_classes_of_the_system() {
        let scheduler = ProviderKey::Id(Guid::from_u128(0x599a2a76_4d91_4910_9ac7_7d33f2e97a6c));
        let registry = ProviderKey::Id(Guid::from_u128(0x16156bd9_fab4_4cfa_a232_89d1099058e3));
        let other = ProviderKey::Id(Guid::from_u128(1));
        let kernel = ProviderKey::Name("Windows Kernel Trace".to_owned());
        let none = EnableProperties::default();
        let taken = |enable: Vec<Enablement>| {
            let mut config = SessionConfig { enable, ..SessionConfig::default() };
            take_system_providers(&mut config).map(|notes| (config, notes))
        };
        let config = taken(vec![
            enablement(&scheduler, 0x200, EnableProperties::STACK_TRACE),
            enablement(&other, 0, none),
            enablement(&kernel, 0x1_0000, none),
        ]);
        let (config, notes) = config.unwrap();
        assert_eq!(notes, [""; 0]);
        assert_eq!(config.enable, [enablement(&other, 0, none)]);
        let system = config.system.unwrap();
        assert_eq!(Masks(system.masks).names(), ["process", "thread", "img", "cswitch", "net"]);
        assert_eq!((system.stacks, system.sample_interval), (vec![0x0524], SAMPLE_INTERVAL));
        // Lives that nobody asked for are no reason to start a session.
        assert!(system.adds_lives);
        let process = ProviderKey::Name("SystemProcessProviderGuid".to_owned());
        let (asked, _) = taken(vec![enablement(&process, 1, none)]).unwrap();
        assert!(!asked.system.unwrap().adds_lives);
        let (config, _) = taken(vec![enablement(&other, 0, none)]).unwrap();
        assert_eq!((config.enable.len(), config.system), (1, None));
        for (provider, any) in [(&registry, 0), (&scheduler, 0x1), (&kernel, 0)] {
            assert!(taken(vec![enablement(provider, any, none)]).is_err(), "{provider} {any}");
        }
    }
}
