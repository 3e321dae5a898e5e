//! Which events of the system can be recorded: by the host that runs the sessions, and by this shell.

use super::Report;
use etw_wire::host_client::Client;
use etw_wire::requests::{Request, Response, SystemClassStatus};

const LINK: &str = "system events";

/// Rows for the host's sessions; without a host, for the one that this shell would start. `host`: a process that hosts sessions.
pub fn check(report: &mut Report, client: Option<&Client>, host: Option<u32>) {
    let own = etwd::system_events();
    let process = host.map_or(String::new(), |id| format!(" (process {id})"));
    let Some(client) = client else {
        if host.is_some() {
            let what = format!(
                "the rows are about hosts that this shell starts: the one that runs{process} cannot be asked"
            );
            report.note(LINK, what);
        }
        return put_rows(report, &own);
    };
    let why = match client.ask(&Request::SystemEvents) {
        Ok(Response::SystemEvents { classes }) => {
            let what = format!("the rows are about the host{process}, which runs the sessions");
            report.ok(LINK, what);
            put_rows(report, &classes);
            return put_differences(report, &classes, &own);
        }
        Ok(_) => "it answers something else".to_owned(),
        Err(error) => error.to_string(),
    };
    let what = format!(
        "the rows are about hosts that this shell starts: the one that runs{process} does not say what it can record ({why})"
    );
    report.note(LINK, what);
    put_rows(report, &own);
}

/// A row for each class of the system's events: its mechanism, or what is missing.
fn put_rows(report: &mut Report, classes: &[SystemClassStatus]) {
    for SystemClassStatus { class, mechanism, missing, remedy } in classes {
        let link = format!("system {class}");
        match (mechanism, missing) {
            (Some(mechanism), None) => report.ok(&link, mechanism),
            (Some(mechanism), Some(missing)) => {
                report.note(&link, format!("{mechanism}; {missing}"));
            }
            (None, missing) => {
                let missing = missing.as_deref().unwrap_or_default();
                report.wrong(&link, format!("cannot be recorded: {missing}"), remedy);
            }
        }
    }
}

/// The mechanism, without remarks on it.
fn mechanism(class: &SystemClassStatus) -> &str {
    let mechanism = class.mechanism.as_deref().unwrap_or("cannot be recorded");
    mechanism.split_once(';').map_or(mechanism, |(mechanism, _)| mechanism)
}

/// Says what this shell has another mechanism for, or none: `etw record -- COMMAND` hosts its session itself.
fn put_differences(report: &mut Report, host: &[SystemClassStatus], own: &[SystemClassStatus]) {
    let is_same = |one: &SystemClassStatus| {
        let of_host = host.iter().find(|other| other.class == one.class);
        of_host.is_some_and(|other| mechanism(other) == mechanism(one))
    };
    let mut differing: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in own.iter().filter(|one| !is_same(one)) {
        match differing.iter_mut().find(|(known, _)| *known == mechanism(one)) {
            Some((_, classes)) => classes.push(&one.class),
            None => differing.push((mechanism(one), vec![&one.class])),
        }
    }
    if !differing.is_empty() {
        let row = |(mechanism, classes): &(&str, Vec<&str>)| {
            format!("{mechanism} ({})", classes.join(", "))
        };
        let what = format!(
            "this shell has other rights than the host, for etw record -- COMMAND and for hosts that it starts: {}",
            differing.iter().map(row).collect::<Vec<_>>().join("; ")
        );
        report.note(LINK, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(class: &str, mechanism: Option<&str>, missing: Option<&str>) -> SystemClassStatus {
        SystemClassStatus {
            class: class.to_owned(),
            mechanism: mechanism.map(str::to_owned),
            missing: missing.map(str::to_owned),
            remedy: "mount it".to_owned(),
        }
    }

    #[test]
    fn each_class_of_system_events_has_a_row() {
        for (class, is_wrong, expected) in [
            (row("disk", Some("perf"), None), false, "ok     system disk         perf"),
            (row("disk", Some("perf"), Some("only some")), false, "note   system disk"),
            (row("disk", None, Some("no tracefs")), true, "cannot be recorded: no tracefs"),
        ] {
            let mut report = Report::default();
            put_rows(&mut report, &[class]);
            assert!(report.text.contains(expected), "{}", report.text);
            assert_eq!(report.wrong, u32::from(is_wrong), "{}", report.text);
            assert_eq!(report.text.contains("fix: mount it"), is_wrong, "{}", report.text);
        }
    }

    #[test]
    fn what_only_the_host_or_only_this_shell_can_record_is_named() {
        let host = [row("profile", Some("all"), None), row("disk", Some("all"), None)];
        let mut report = Report::default();
        put_differences(&mut report, &host, &host);
        assert!(report.text.is_empty(), "{}", report.text);
        let own =
            [row("profile", Some("own; but not all"), Some("x")), row("disk", None, Some("y"))];
        put_differences(&mut report, &host, &own);
        let expected = "it starts: own (profile); cannot be recorded (disk)\n";
        assert!(report.text.ends_with(expected), "{}", report.text);
        assert_eq!(report.wrong, 0);
    }
}
