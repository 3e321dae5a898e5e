//! The system's classes and call stacks that a session has for itself, and those that it has for each system provider.

use etw_session::SystemConfig;
use etw_types::Guid;
use serde::{Deserialize, Serialize};

/// Words of group masks, and kernel events with call stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Classes {
    pub masks: [u32; 8],
    pub stacks: Vec<u16>,
}

impl Classes {
    fn add(&mut self, other: &Classes) {
        self.masks.iter_mut().zip(other.masks).for_each(|(mask, more)| *mask |= more);
        for hook in &other.stacks {
            if !self.stacks.contains(hook) {
                self.stacks.push(*hook);
            }
        }
    }

    fn retain(&mut self, other: &Classes) {
        self.masks.iter_mut().zip(other.masks).for_each(|(mask, left)| *mask &= left);
        self.stacks.retain(|hook| other.stacks.contains(hook));
    }

    fn remove(&mut self, other: &Classes) {
        self.masks.iter_mut().zip(other.masks).for_each(|(mask, gone)| *mask &= !gone);
        self.stacks.retain(|hook| !other.stacks.contains(hook));
    }
}

/// The classes and call stacks that a session records of the system: the union of its own classes and those of the system providers that it enables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SystemClasses {
    own: Classes,
    providers: Vec<(Guid, Classes)>,
}

impl SystemClasses {
    /// Everything that the session records.
    pub fn all(&self) -> Classes {
        let mut all = self.own.clone();
        all.add(&self.of_providers());
        all
    }

    fn of_providers(&self) -> Classes {
        let mut all = Classes::default();
        self.providers.iter().for_each(|(_, classes)| all.add(classes));
        all
    }

    /// Puts all classes and stacks into a configuration.
    pub fn put_into(&self, system: &mut SystemConfig) {
        Classes { masks: system.masks, stacks: system.stacks } = self.all();
    }

    /// From now on the session records what `system` names, whoever asked for it. What only a provider had stays the provider's, so that
    /// it ends with its enablement.
    pub fn set_all(&mut self, system: &SystemConfig) {
        let wanted = Classes { masks: system.masks, stacks: system.stacks.clone() };
        let mut others = self.of_providers();
        others.remove(&self.own);
        self.own = wanted.clone();
        self.own.remove(&others);
        self.providers.iter_mut().for_each(|(_, classes)| classes.retain(&wanted));
    }

    /// The session's own words of group masks.
    pub fn own_masks(&mut self) -> &mut [u32; 8] {
        &mut self.own.masks
    }

    /// Enables a system provider, or replaces its enablement.
    pub fn enable(&mut self, provider: Guid, classes: Classes) {
        self.disable(&provider);
        self.providers.push((provider, classes));
    }

    /// Disables a system provider; `false`: it was not enabled.
    pub fn disable(&mut self, provider: &Guid) -> bool {
        let before = self.providers.len();
        self.providers.retain(|(id, _)| id != provider);
        self.providers.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(mask: u32, stacks: &[u16]) -> Classes {
        Classes { masks: [mask, 0, 0, 0, 0, 0, 0, 0], stacks: stacks.to_vec() }
    }

    fn config(mask: u32, stacks: &[u16]) -> SystemConfig {
        let Classes { masks, stacks } = classes(mask, stacks);
        SystemConfig { masks, stacks, ..SystemConfig::default() }
    }

    /// Regression: an enablement added to those before, and call stacks stayed for ever.
    #[test]
    fn enablements_of_a_system_provider_replace_each_other() {
        let [one, other] = [1, 2].map(Guid::from_u128);
        let mut all = SystemClasses::default();
        all.set_all(&config(0x1, &[7]));
        all.enable(one, classes(0x12, &[8]));
        all.enable(other, classes(0x3, &[7, 9]));
        assert_eq!(all.all(), classes(0x13, &[7, 8, 9]));
        all.enable(one, classes(0x20, &[]));
        assert_eq!(all.all(), classes(0x23, &[7, 9]));
        assert!(all.disable(&other) && !all.disable(&other));
        assert_eq!(all.all(), classes(0x21, &[7]));
        assert!(all.disable(&one));
        assert_eq!(all.all(), classes(0x1, &[7]));
    }

    #[test]
    fn what_only_a_provider_had_ends_with_it_also_if_everything_was_set_since() {
        let one = Guid::from_u128(1);
        let mut all = SystemClasses::default();
        all.set_all(&config(0x1, &[7]));
        all.enable(one, classes(0x7, &[7, 8]));
        all.set_all(&config(0xb, &[8, 9]));
        assert_eq!(all.all(), classes(0xb, &[9, 8]));
        let kept = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<SystemClasses>(&kept).unwrap(), all);
        all.disable(&one);
        assert_eq!(all.all(), classes(0x9, &[9]));
    }
}
