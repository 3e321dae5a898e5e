//! The name of this computer, and whether a name is one of its names. Logs of other computers are not reached.

/// The computer's name; empty if the system gives none.
pub(crate) fn computer_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    match name.is_empty() {
        true => std::env::var("COMPUTERNAME").unwrap_or_default(),
        false => name.to_owned(),
    }
}

/// Whether a name means this computer: nothing, `.`, `localhost`, a loopback address, or the computer's name with or without its domain,
/// each in any case and also behind `\\`.
pub fn is_this_computer(name: &str) -> bool {
    let name = name.trim_start_matches('\\');
    let is = |own: &str| name.eq_ignore_ascii_case(own);
    let own = computer_name();
    ["", ".", "localhost", "127.0.0.1", "::1", &own].into_iter().any(is)
        || own.split('.').next().is_some_and(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_computer_are_known_and_no_others() {
        let own = computer_name();
        for name in ["", ".", r"\\.", "LocalHost", "127.0.0.1", "::1", &own, &format!(r"\\{own}")] {
            assert!(is_this_computer(name), "{name:?}");
        }
        for name in ["IDontExist", "192.0.2.1", "localhost.example", "..", &format!("{own}x")] {
            assert!(!is_this_computer(name), "{name:?}");
        }
    }
}
