//! Changes that hosts' sessions ask for: enable, disable, capture state.

#[cfg(feature = "session")]
use etw_types::SchemaRecord;
use etw_types::{Guid, LevelKeyword, Status};

use super::callbacks::{call, enable_state};
use super::filter_data::with_instance;
use super::{Enable, Registry, number_of, with};
use crate::diagnose::report;
use crate::pools::route;
use crate::provider::{ControlCode, EnableChange, Listeners, Provider, ProviderRef};

/// The providers that a request is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Providers {
    /// The one that the host knows by this number.
    #[cfg_attr(not(any(target_os = "linux", windows)), allow(dead_code))]
    Number(u32),
    /// Those of this GUID, and those of this provider group.
    Id(Guid),
}

impl Providers {
    fn find(self, registry: &Registry, attachment: usize) -> Vec<ProviderRef> {
        let matches = |provider: &&ProviderRef| match self {
            Providers::Number(number) => number_of(provider, attachment) == number,
            Providers::Id(id) => provider.id() == id || provider.group() == Some(id),
        };
        registry.providers.iter().filter(matches).cloned().collect()
    }
}

/// Enables the providers for the session in `slot` of a host (`Some`), or disables them. `source`: the session's id, for
/// callbacks. A provider that has unregistered meanwhile refuses nothing.
///
/// # Errors
/// `ERROR_NO_SYSTEM_RESOURCES` if a provider has eight sessions already, of all hosts together. That provider, and those behind
/// it, are unchanged.
pub(crate) fn set(
    attachment: usize,
    slot: u8,
    providers: Providers,
    enable: Option<&Enable>,
    source: Guid,
) -> Result<(), Status> {
    let route = route(attachment, slot);
    let filter_data = enable.map_or(&[][..], |enable| &enable.filter_data);
    let filter_data = &*with_instance(filter_data, attachment, slot);
    let mut changed = Vec::new();
    let result = with(|registry| {
        for provider in providers.find(registry, attachment) {
            let has_changed = match enable {
                Some(it) => provider.want(route, &it.wanted, it.stacks.as_ref(), it.since)?,
                None => provider.clear_slots(route),
            };
            if has_changed {
                report(|| change_report(&provider, enable));
                let number = provider.count_change(filter_data);
                changed.push((provider, Listeners::Of(number)));
            }
        }
        Ok(())
    });
    for (provider, listeners) in changed {
        call(&provider, listeners, |provider| enable_state(provider, source), filter_data);
    }
    result
}

/// The schemas that this program carries of the providers' events.
#[cfg(feature = "session")]
pub(crate) fn schemas_of(attachment: usize, providers: Providers) -> Vec<SchemaRecord> {
    let found = with(|registry| providers.find(registry, attachment));
    found.iter().flat_map(|provider| crate::schemas::of(provider)).collect()
}

/// The report for a changed enablement.
fn change_report(provider: &Provider, enable: Option<&Enable>) -> String {
    let name = match provider.name() {
        "" => provider.id().to_string(),
        name => name.to_owned(),
    };
    match enable {
        Some(Enable { wanted, .. }) => format!(
            "a session enabled {name}: level {}, any keyword {:#x}, all keywords {:#x}",
            wanted.level, wanted.any, wanted.all
        ),
        None => format!("a session disabled {name}"),
    }
}

/// Calls the providers' callbacks with [`ControlCode::CaptureState`] and the level and masks of the request.
pub(crate) fn capture_state(
    attachment: usize,
    providers: Providers,
    wanted: &LevelKeyword,
    source: Guid,
) {
    let change = EnableChange {
        control: ControlCode::CaptureState,
        level: wanted.level,
        any: wanted.any,
        all: wanted.all,
        source,
        filter_data: &[],
    };
    for provider in with(|registry| providers.find(registry, attachment)) {
        call(&provider, Listeners::All, |_| change, &[]);
    }
}
