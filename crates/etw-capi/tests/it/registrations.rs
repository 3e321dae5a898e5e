//! Registrations from C, and what they follow: traits, callbacks, gates, forks, names and filters.

use std::path::Path;
use std::process::Command;

use etw_etl::read::{Records, TraceFile};
use etw_types::{ExtType, Guid};
use etwd::{Host, HostOptions};

use crate::support::*;

const PLAIN: Guid = Guid::from_u128(0x5b4b4b4b_1111_2222_0102_030405060720);
const OURS: Guid = Guid::from_u128(0x5b4b4b4b_1111_2222_0102_030405060721);

/// An event of a file.
#[derive(Debug)]
struct Event {
    id: u16,
    name: String,
    process: u32,
    traits: Option<Vec<u8>>,
}

fn events(file: &Path, provider: Guid) -> Vec<Event> {
    let mut records = Records::new(vec![TraceFile::open(file).unwrap()]);
    let mut found = Vec::new();
    while let Some(record) = records.next() {
        if record.provider != Some(provider) {
            continue;
        }
        let item = |kind| record.extended.find(kind).map(<[u8]>::to_vec);
        let metadata = item(ExtType::EVENT_SCHEMA_TL).unwrap_or_default();
        let name = etw_tracelogging::event_name(&metadata).unwrap_or_default();
        found.push(Event {
            id: record.descriptor.id,
            name: String::from_utf8(name.to_vec()).unwrap(),
            process: record.process_id.unwrap(),
            traits: item(ExtType::PROV_TRAITS),
        });
    }
    found
}

/// Runs a part of `registrations.c` with every compiler, and `check` on the folder of its files.
fn run_part(part: &str, has_host: bool, check: impl Fn(&Folder, Compiler)) {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        // A sanitizer's own locks are not made for a fork beside other threads.
        if part == "busy-parent" && compiler.1.iter().any(|flag| flag.contains("sanitize")) {
            continue;
        }
        let folder = Folder::new(&format!("registrations-{part}-{number}"));
        let Some(program) = compile(&folder, "registrations.c", compiler) else { continue };
        let directory = folder.0.join("run");
        let host = has_host.then(|| Host::start(HostOptions::new(&directory)).unwrap());
        let mut command = Command::new(program);
        command.arg(part).env("FOLDER", &folder.0).env("ETW_RUNTIME_DIR", &directory);
        let output = command.env_remove("ETW_DAEMON").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{part} {compiler:?}: {said}");
        drop(host);
        check(&folder, compiler);
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// OV-15: a registration under a host whose sessions have the provider calls its callback once, with what all sessions ask for. Traits
/// that are set later do not call it, and each later change calls it once.
#[test]
fn a_callback_is_called_once_for_each_change() {
    run_part("callbacks", true, |_, _| ());
}

/// TC-1: events of the callback of a registration, and of other threads while it runs, have the traits of the provider.
#[test]
fn no_event_is_without_the_traits_of_its_provider() {
    run_part("traits", false, |folder, compiler| {
        let events = events(&folder.0.join("traits.etl"), OURS);
        let count = |name| events.iter().filter(|event| event.name == name).count();
        assert_eq!(count("InCallback"), 100, "{compiler:?}");
        assert!(count("OtherThread") > 0, "{compiler:?}");
        let wanted = etw_tracelogging::provider_traits("Test.Registrations", None).unwrap();
        for event in events {
            assert_eq!(event.traits.as_deref(), Some(&wanted[..]), "{compiler:?} {}", event.name);
        }
    });
}

/// A provider that is registered twice keeps its first registration, and a name of a session is in use once.
#[test]
fn a_second_registration_and_a_second_session_of_a_name_are_refused() {
    run_part("twice", false, |_, _| ());
}

/// A child is not in its parent's private sessions: its gates are closed. It may have sessions of its own.
#[test]
fn the_gate_of_a_child_is_what_its_own_private_sessions_ask_for() {
    run_part("private-child", false, |folder, compiler| {
        let parent = events(&folder.0.join("parent.etl"), OURS);
        let child = events(&folder.0.join("child.etl"), OURS);
        let names =
            |events: &[Event]| events.iter().map(|event| event.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&parent), ["Parent", "Parent"], "{compiler:?}");
        assert_eq!(names(&child), ["Child"], "{compiler:?}");
        assert_ne!(child[0].process, parent[0].process);
    });
}

/// A child is in the global sessions of its parent's providers, from its first event on.
#[test]
fn the_gate_of_a_child_stays_open_for_global_sessions() {
    run_part("global-child", true, |folder, compiler| {
        let events = events(&folder.0.join("global.etl"), OURS);
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["Parent", "Child", "Child", "Child", "Global", "Both"], "{compiler:?}");
        assert_ne!(events[0].process, events[1].process);
        assert_ne!(events[1].process, events[4].process);
        let own = self::events(&folder.0.join("own.etl"), OURS);
        let names: Vec<&str> = own.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["Both", "Own"], "{compiler:?}");
    });
}

/// Locks and callbacks of the parent's threads are none of the child's.
#[test]
fn a_child_of_a_busy_parent_does_not_wait_for_its_threads() {
    run_part("busy-parent", false, |_, _| ());
}

/// The filter of `EventWriteEx` excludes the sessions whose bits callbacks get, whatever hosts the program is connected to.
#[test]
fn a_filter_excludes_the_sessions_of_its_bits() {
    run_part("filters", true, |folder, compiler| {
        let ids = |name: &str| -> Vec<u16> {
            let events = events(&folder.0.join(name), PLAIN);
            events.iter().map(|event| event.id).collect()
        };
        assert_eq!(ids("public.etl"), [1, 2, 3, 4, 10], "{compiler:?}");
        assert_eq!(ids("private-0.etl"), [0, 2, 3], "{compiler:?}");
        assert_eq!(ids("private-1.etl"), [0, 1, 3, 10], "{compiler:?}");
        assert_eq!(ids("private-2.etl"), [0u16; 0], "{compiler:?}");
    });
}
