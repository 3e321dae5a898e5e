//! Call stacks of other processes' events.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use etw_etl::read::{Records, TraceFile};
use etw_session::{
    EnableInfo, EnableProperties, Enablement, Filters, LogMode, NameFilter, SessionConfig,
    StackFilter,
};
use etw_types::{LevelKeyword, LoadedModule};
use etw_wire::requests::Request;

use crate::daemon::Daemon;
use crate::rig::*;

fn with_stacks(stacks: StackFilter) -> EnableInfo {
    EnableInfo {
        properties: EnableProperties::STACK_TRACE,
        filters: Some(Box::new(Filters { stacks, ..Filters::default() })),
        ..all()
    }
}

fn start(info: EnableInfo, more: SessionConfig) -> SessionConfig {
    SessionConfig { enable: vec![Enablement::new(provider(), info)], ..more }
}

/// Process and stack of each event of the tests' provider, and the modules in the trace.
type Found = (Vec<(u32, Vec<u64>)>, HashMap<u32, Vec<LoadedModule>>);

fn found(path: &Path) -> Found {
    let (records, found) = so_far(path);
    assert!(records.damage().is_empty(), "{:?}", records.damage().kept());
    assert_eq!(records.out_of_order(0), 0);
    found
}

fn so_far(path: &Path) -> (Records, Found) {
    let mut records = Records::new(vec![TraceFile::open(path).unwrap()]);
    let (mut events, mut modules) = (Vec::new(), HashMap::<u32, Vec<LoadedModule>>::new());
    while let Some(record) = records.next() {
        if let Some(found) = etw_host::report::read_module(&record) {
            let (process, module) = (found.process_id, found.module);
            modules.entry(process).or_default().push(module);
        } else if record.provider == Some(provider()) {
            events.push((record.process_id.unwrap(), record.stack().collect()));
        }
    }
    (records, (events, modules))
}

/// Checks that every address of every stack is in a module of the trace, and that the program's own code is among them.
#[track_caller]
fn all_is_named((events, modules): &Found) {
    let this = std::env::current_exe().unwrap();
    for (process, stack) in events {
        assert!(stack.len() > 3, "{stack:x?}");
        let paths: Vec<&str> = stack
            .iter()
            .map(|address| {
                let is_it = |m: &&LoadedModule| (m.base..m.base + m.size).contains(address);
                let module = modules.get(process).and_then(|modules| modules.iter().find(is_it));
                &*module.unwrap_or_else(|| panic!("{address:x} of {process}: {modules:?}")).path
            })
            .collect();
        assert!(paths.contains(&this.to_str().unwrap()), "{paths:?}");
    }
}

/// OV-7, OV-17: programs that run already and programs that end at once have stacks; also filtered by name; another session
/// without stacks has none.
#[test]
fn events_of_programs_have_stacks() {
    let rig = Rig::new();
    let running = rig.program("count", &[u64::MAX, 300]);
    let name = |include| StackFilter {
        event_names: Some(NameFilter {
            of: LevelKeyword::ALL,
            include,
            names: vec!["Counted".to_owned()],
        }),
        ..StackFilter::default()
    };
    let with = rig.start_with("with", start(with_stacks(name(true)), SessionConfig::default()));
    let without =
        rig.start_with("without", start(with_stacks(name(false)), SessionConfig::default()));
    let plain = rig.start("plain");
    rig.wait_until(|rig| rig.query("with").stored > 100);
    let id = running.id();
    running.kill();
    let short: Vec<u32> = (0..20)
        .map(|_| {
            let program = rig.program("count", &[3, 0]);
            let id = program.id();
            program.end();
            id
        })
        .collect();
    // The last program's messages may not have been processed yet.
    for session in ["with", "without", "plain"] {
        let status = rig.stop(session);
        // The write that was in flight when the program was killed.
        assert!(status.lost <= 1 && status.without_stack == 0, "{status:?}");
    }
    let with = found(&with);
    all_is_named(&with);
    let of = |process: u32| with.0.iter().filter(|(p, _)| *p == process).count();
    assert!(of(id) > 100 && short.iter().all(|id| of(*id) == 3));
    for other in [without, plain] {
        let (events, _) = found(&other);
        assert!(events.len() > 100 && events.iter().all(|(_, stack)| stack.is_empty()));
    }
}

/// OV-7: modules that a program loads later are in the trace, too; a circular file has all that are needed at its end.
#[test]
fn modules_that_are_loaded_later_are_in_the_trace() {
    let rig = Rig::new();
    let round = SessionConfig {
        mode: LogMode::Circular { max_size: 64 << 10 },
        buffer_size: 4096,
        buffer_count: 64,
        ..SessionConfig::default()
    };
    let circular = rig.start_with("round", start(with_stacks(StackFilter::default()), round));
    let file = rig
        .start_with("file", start(with_stacks(StackFilter::default()), SessionConfig::default()));
    let mut program = rig.program("load", &[]);
    let Some(loaded) = program.line() else { panic!("ended") };
    // The program looks for new modules once a second.
    rig.wait_until(|rig| {
        rig.done(Request::Flush { session: "file".to_owned() });
        let (_, (_, modules)) = so_far(&file);
        modules.values().flatten().any(|module| module.path.ends_with(&loaded))
    });
    program.kill();
    rig.stop("file");
    rig.stop("round");
    let found = found(&circular);
    assert!(!found.0.is_empty());
    all_is_named(&found);
}

/// P3: after the worker is killed, the next one continues stacks and modules.
#[test]
fn stacks_outlive_the_worker() {
    let daemon = Daemon::new();
    let small =
        SessionConfig { flush_timer: Some(Duration::from_millis(5)), ..SessionConfig::default() };
    let file = daemon.start("kept", start(with_stacks(StackFilter::default()), small));
    let program = daemon.rig.program("count", &[u64::MAX, 300]);
    std::thread::sleep(Duration::from_millis(30));
    daemon.kill_worker();
    // A program that the first worker never knew.
    let mut more = daemon.rig.program("wait", &[]);
    while more.line().is_some() {}
    program.kill();
    let status = daemon.stop("kept");
    assert!(status.lost <= 1 && status.without_stack == 0, "{status:?}");
    let found = found(&file);
    all_is_named(&found);
    assert!(found.0.iter().any(|(process, _)| *process == more.id()));
    daemon.end();
}
