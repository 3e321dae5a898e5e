//! Files of recording profiles (`.wprp`).

use etw_system::recording_profile::read_profiles;

/// A file: each of its profiles has a name.
pub fn profiles(data: &[u8]) {
    let Ok(profiles) = read_profiles(data) else { return };
    assert!(!profiles.is_empty());
    for one in profiles {
        assert!(!one.name.is_empty());
    }
}
