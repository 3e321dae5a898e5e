//! Why a session has no events: what its enablements asked for, and what programs registered.

use crate::format::safe;
use crate::where_filter::closest;
use etw_host::EnableInfo;
use etw_types::{Guid, Level};
use etw_wire::requests::{ProviderStatus, SessionStatus};

/// Names of enabled providers, where the command line has them: `Name`, or `*Name` for a name's GUID.
pub type AskedNames = [(Guid, String)];

/// Reasons for a session without events, one for each enablement.
pub fn reasons(
    status: &SessionStatus,
    recent: &[ProviderStatus],
    asked: &AskedNames,
    host: &str,
) -> Vec<String> {
    if status.enabled.is_empty() {
        let name = safe(&status.name);
        return vec![format!(
            "session {name} has no provider enabled; etw session enable {name} -p PROVIDER enables one"
        )];
    }
    let is_registered = |id: &Guid| recent.iter().any(|known| known.id == *id);
    let each = status.enabled.iter().filter_map(|(id, info)| {
        let id: Guid = id.parse().ok()?;
        // A name whose provider has another GUID than the name's hash.
        if status.names.values().any(|of| of.len() > 1 && of[0] == id) && !is_registered(&id) {
            return None;
        }
        let by_name = status.names.iter().find(|(_, of)| of.first() == Some(&id));
        let name = asked.iter().find(|(asked, _)| *asked == id).map(|(_, name)| name.as_str());
        let name = name.or(by_name.map(|(name, _)| name.as_str()));
        Some(reason(&id, name, info, status, recent, host))
    });
    each.collect()
}

fn reason(
    id: &Guid,
    asked: Option<&str>,
    info: &EnableInfo,
    status: &SessionStatus,
    recent: &[ProviderStatus],
    host: &str,
) -> String {
    let registered = recent.iter().find(|known| known.id == *id || known.group == Some(*id));
    match registered {
        Some(known) => selected_nothing(known, info, status),
        None => never_registered(id, asked, recent, host),
    }
}

/// The provider is there, and none of its events was wanted.
fn selected_nothing(known: &ProviderStatus, info: &EnableInfo, status: &SessionStatus) -> String {
    let (wanted, name) = (&info.wanted, shown_name(known));
    let who = match known.pids.first() {
        Some(pid) => format!("process {pid} registered {name}"),
        None => format!("{name} is registered"),
    };
    if status.filtered > 0 {
        let count = status.filtered;
        return format!(
            "{who}, but the session's filters rejected all of its {count} events; start it with other filters"
        );
    }
    let mut limits = vec![format!("level {}", level_name(wanted.level.0))];
    if wanted.any.0 != 0 {
        limits.push(format!("any keyword of {:#x}", wanted.any.0));
    }
    if wanted.all.0 != 0 {
        limits.push(format!("all keywords of {:#x}", wanted.all.0));
    }
    if info.filters.is_some() {
        limits.push("the session's filters".to_owned());
    }
    format!(
        "{who}, but wrote no event within {}; if it wrote others, enable it as PROVIDER:255, which is everything",
        limits.join(", ")
    )
}

/// No program has registered the provider: the names that some have registered.
fn never_registered(
    id: &Guid,
    asked: Option<&str>,
    recent: &[ProviderStatus],
    host: &str,
) -> String {
    let what = match asked {
        Some(name) => format!("provider {} ({id})", safe(name)),
        None => format!("provider {id}"),
    };
    let start = format!("no program registered {what} with {host}");
    let process = |known: &ProviderStatus| match known.pids.first() {
        Some(pid) => format!("process {pid}"),
        None => "a program".to_owned(),
    };
    if let Some(asked) = asked {
        let name = asked.strip_prefix('*').unwrap_or(asked);
        let star = &asked[..asked.len() - name.len()];
        let same_name = recent.iter().find(|known| known.name.eq_ignore_ascii_case(name));
        // A session that asks for a name has its provider whatever the GUID: it was there before.
        if let Some(known) = same_name.filter(|_| star.is_empty()) {
            return format!(
                "no program had {} registered while the session ran; {} did before, with {host}",
                shown_name(known),
                process(known)
            );
        }
        // The name is right and the GUID is not its hash.
        if let Some(known) = same_name {
            return format!(
                "{start}, but {} registered {} as {}, which is not the GUID of that name; enable it with -p {}",
                process(known),
                shown_name(known),
                known.id,
                known.id
            );
        }
        let names = recent.iter().map(|known| known.name.as_str()).filter(|name| !name.is_empty());
        let near = closest(name, names);
        if let Some(known) = near.and_then(|near| recent.iter().find(|known| known.name == near)) {
            return format!(
                "{start}, but {} registered {}; did you mean -p '{star}{}'?",
                process(known),
                shown_name(known),
                safe(&known.name)
            );
        }
    }
    if recent.is_empty() {
        return format!(
            "{start}, nor any other provider; etw doctor PID says what keeps a program from it"
        );
    }
    let some: Vec<String> =
        recent.iter().take(4).map(|k| format!("{} ({})", shown_name(k), process(k))).collect();
    let more = if recent.len() > some.len() { ", …" } else { "" };
    format!("{start}; registered were {}{more}", some.join(", "))
}

/// A provider's name, or its GUID.
pub fn shown_name(known: &ProviderStatus) -> String {
    match known.name.is_empty() {
        true => known.id.to_string(),
        false => safe(&known.name).into_owned(),
    }
}

/// A level with its name.
pub fn level_name(level: u8) -> String {
    match Level(level).name() {
        Some(name) => format!("{level} ({name})"),
        None if level == 0 => "0 (every level)".to_owned(),
        None => level.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, id: Guid) -> ProviderStatus {
        ProviderStatus { id, name: name.to_owned(), pids: vec![7], ..ProviderStatus::default() }
    }

    #[test]
    fn each_enablement_without_events_has_a_reason() {
        let id = Guid::from_name("Ticker");
        let mut status = SessionStatus::default();
        status.enabled.insert(id.to_string(), EnableInfo::default());
        let asked = [(id, "*Ticker".to_owned())];
        let of = |recent: &[ProviderStatus]| reasons(&status, recent, &asked, "the host").remove(0);
        assert!(of(&[]).contains("nor any other provider"));
        let text = of(&[known("Tickr", Guid::from_u128(1))]);
        assert!(text.contains("process 7 registered Tickr; did you mean"), "{text}");
        let text = of(&[known("ticker", Guid::from_u128(1))]);
        assert!(text.contains("not the GUID of that name"), "{text}");
        let by_name = [(id, "Ticker".to_owned())];
        let recent = [known("ticker", Guid::from_u128(1))];
        let text = reasons(&status, &recent, &by_name, "the host").remove(0);
        assert!(text.starts_with("no program had ticker registered while the session"), "{text}");
        assert!(!text.contains("GUID"), "{text}");
        let text = of(&[known("Other", Guid::from_u128(1))]);
        assert!(text.contains("registered were Other (process 7)"), "{text}");
        let text = of(&[known("Ticker", id)]);
        assert!(text.contains("wrote no event within level 0"), "{text}");
        let filtered = SessionStatus { filtered: 3, ..status.clone() };
        let text = reasons(&filtered, &[known("Ticker", id)], &asked, "h").remove(0);
        assert!(text.contains("rejected all of its 3 events"), "{text}");
        let text = reasons(&SessionStatus::default(), &[], &[], "h").remove(0);
        assert!(text.contains("no provider enabled"), "{text}");
    }
}
