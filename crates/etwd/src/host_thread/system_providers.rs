//! System providers in sessions: enabling one records its classes of events, as `--system` does.

use etw_session::{EnableInfo, EnableProperties, ProviderKey, SessionConfig, SystemConfig};
use etw_system::SAMPLE_INTERVAL;
use etw_system::flags::{Flag, Masks, Parsed};
use etw_system::stack_names::STACK_NAMES;
use etw_system::system_providers::{flags_of, is_system_provider, named};
use etw_types::{Guid, SYSTEM_TRACE, Status};
use etw_wire::requests::Response;

use super::HostThread;
use crate::rights::refused;

impl HostThread {
    /// Enables a system provider in a session, or disables it (without `info`). `None`: the provider is another one.
    pub(super) fn change_system_provider(
        &mut self,
        slot: usize,
        provider: &ProviderKey,
        info: Option<&EnableInfo>,
    ) -> Option<Response> {
        let provider = system_provider(provider)?;
        let Some(now) = self.global(slot).and_then(|global| global.config.system.clone()) else {
            let what = format!(
                "provider {provider} has events of the system, and the session records none; start it with --system or with this provider"
            );
            return Some(refused(Status::ERROR_NOT_SUPPORTED, what));
        };
        let changed = match info {
            Some(info) => with_provider(now, &provider, info),
            None => Ok(without_provider(now, &provider)),
        };
        Some(changed.map_or_else(|no| no, |system| self.change_system(slot, system)))
    }
}

/// Makes system providers among those that a session enables classes of its system events.
///
/// # Errors
/// [`Response::Error`]: none of a provider's events is recorded on Linux, or it cannot be enabled in this way.
pub fn take_system_providers(config: &mut SessionConfig) -> Result<(), Response> {
    let is_system = |enablement: &etw_session::Enablement| system_provider(&enablement.provider);
    if config.enable.iter().all(|enablement| is_system(enablement).is_none()) {
        return Ok(());
    }
    let mut system = config.system.clone().unwrap_or_else(|| {
        let mut masks = Masks::default();
        // Without names of processes and images nothing else can be read.
        [Flag::PROCESS, Flag::THREAD, Flag::IMAGE].into_iter().for_each(|flag| masks.set(flag));
        let sample_interval = SAMPLE_INTERVAL;
        SystemConfig { masks: masks.0, sample_interval, ..SystemConfig::default() }
    });
    for enablement in &config.enable {
        if let Some(provider) = is_system(enablement) {
            system = with_provider(system, &provider, &enablement.info)?;
        }
    }
    config.enable.retain(|enablement| is_system(enablement).is_none());
    config.system = Some(system);
    Ok(())
}

/// The GUID of a system provider.
fn system_provider(provider: &ProviderKey) -> Option<Guid> {
    match provider {
        ProviderKey::Id(id) => is_system_provider(id).then_some(*id),
        ProviderKey::Name(name) => named(name),
    }
}

/// The classes of a session, and those of a system provider that is enabled. System events have no levels.
fn with_provider(
    mut system: SystemConfig,
    provider: &Guid,
    info: &EnableInfo,
) -> Result<SystemConfig, Response> {
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
    let asked = Parsed::of_masks(flags_of(provider, keywords).unwrap_or_default()).masks;
    if asked == Masks::default() {
        let what = format!(
            "provider {provider} with keywords {keywords:#x}: openetw records none of these events on Linux; --system names those that it records"
        );
        return Err(refused(Status::ERROR_NOT_SUPPORTED, what));
    }
    system.masks.iter_mut().zip(asked.0).for_each(|(mask, more)| *mask |= more);
    if info.properties.contains(EnableProperties::STACK_TRACE) {
        for row in STACK_NAMES.iter().filter(|row| asked.has(row.class)) {
            if !system.stacks.contains(&row.hook) {
                system.stacks.push(row.hook);
            }
        }
    }
    Ok(system)
}

/// The classes of a session without those of a system provider.
fn without_provider(mut system: SystemConfig, provider: &Guid) -> SystemConfig {
    let removed = Parsed::of_masks(flags_of(provider, 0).unwrap_or_default()).masks;
    system.masks.iter_mut().zip(removed.0).for_each(|(mask, flags)| *mask &= !flags);
    system
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_session::Enablement;
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
            take_system_providers(&mut config).map(|()| config)
        };
        let config = taken(vec![
            enablement(&scheduler, 0x200, EnableProperties::STACK_TRACE),
            enablement(&other, 0, none),
            enablement(&kernel, 0x1_0000, none),
        ]);
        let config = config.unwrap();
        assert_eq!(config.enable, [enablement(&other, 0, none)]);
        let system = config.system.unwrap();
        assert_eq!(Masks(system.masks).names(), ["process", "thread", "img", "cswitch", "net"]);
        assert_eq!((system.stacks, system.sample_interval), (vec![0x0524], SAMPLE_INTERVAL));
        let config = taken(vec![enablement(&other, 0, none)]).unwrap();
        assert_eq!((config.enable.len(), config.system), (1, None));
        for (provider, any) in [(&registry, 0), (&scheduler, 0x1), (&kernel, 0)] {
            assert!(taken(vec![enablement(provider, any, none)]).is_err(), "{provider} {any}");
        }
    }
}
