//! Logs of channels: a host keeps them without a controller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etw_decode::pack::PackBuilder;
use etw_etl::read::{Records, TraceFile};
use etw_eventlog::channel::{Change, Isolation};
use etw_eventlog::registry::{Registry, Scope};
use etw_evtx::Log;
use etw_evtx::fields::FieldContent;
use etw_evtx::value::Scalar;
use etw_types::Status;
use etw_wire::host_client::Client;
use etw_wire::requests::{LogStatus, Request, Response};
use etwd::{Host, HostOptions};

use crate::daemon::Daemon;
use crate::program_roles::SHOP;
use crate::rig::*;

/// A rig with a folder of manifests and logs.
struct Logs {
    scope: Scope,
}

impl Logs {
    /// The folders below a rig's, with the tests' manifest installed.
    fn new(rig: &Rig) -> Logs {
        let folder = rig.file("etw");
        let scope =
            Scope { packs: folder.join("packs"), logs: folder.join("logs"), is_machine: false };
        std::fs::create_dir_all(&scope.packs).unwrap();
        Logs { scope }
    }

    fn install(&self) {
        self.install_in(&self.scope.packs, "Application");
    }

    /// Installs the tests' manifest in a folder; `isolation`: that of its Operational channel.
    fn install_in(&self, packs: &Path, isolation: &str) {
        let manifest = format!(
            "<instrumentationManifest xmlns='http://schemas.microsoft.com/win/2004/08/events'>\
             <instrumentation><events><provider name='Shop' symbol='SHOP' guid='{{{SHOP}}}' \
             resourceFileName='x' messageFileName='x'><channels>\
             <channel chid='a' name='Shop/Admin' type='Admin' symbol='A'/>\
             <channel chid='o' name='Shop/Operational' type='Operational' symbol='O' isolation='{isolation}'/>\
             <channel chid='d' name='Shop/Debug' type='Debug' symbol='D'/></channels>\
             <templates><template tid='t'><data name='thread' inType='win:UInt64'/>\
             <data name='number' inType='win:UInt64'/></template></templates>\
             <events><event value='16' symbol='E16' channel='a' template='t' level='win:Informational'/>\
             <event value='17' symbol='E17' channel='o' template='t' level='win:Informational'/>\
             <event value='18' symbol='E18' channel='d' template='t' level='win:Informational'/></events>\
             </provider></events></instrumentation></instrumentationManifest>"
        );
        let mut builder = PackBuilder::default();
        builder.add("shop.man", manifest.as_bytes()).unwrap();
        std::fs::create_dir_all(packs).unwrap();
        std::fs::write(packs.join("manifest-shop.etwpack"), builder.finish()).unwrap();
    }

    fn set(&self, log: &str, change: Change) {
        let mut registry =
            Registry::of(std::slice::from_ref(&self.scope), &mut |note| panic!("{note}"));
        registry.set(log, &change).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scope.logs.join(name)
    }

    fn begin(&self, rig: &mut Rig) {
        let options =
            HostOptions { logs: vec![self.scope.clone()], ..HostOptions::new(rig.runtime()) };
        rig.host = Some(Host::start(options).unwrap());
    }
}

fn flush() -> Request {
    Request::Flush { session: "EventLog".to_owned() }
}

fn clear(log: &str, backup: Option<PathBuf>) -> Request {
    Request::ClearLog { log: log.to_owned(), backup }
}

/// Ids and numbers of the shop's events in a log; each record is of that log.
#[track_caller]
fn shop_events(path: &Path, channel: &str) -> Vec<(u64, u64)> {
    let log = Log::open(path).unwrap();
    let mut records = log.records();
    let mut events = Vec::new();
    while let Some(record) = records.next().unwrap() {
        assert_eq!(record.system().channel().as_deref(), Some(channel));
        assert_eq!(record.system().record_id(), Some(record.id()));
        let numbers =
            record.fields().unwrap().into_iter().filter_map(|field| match field.content {
                FieldContent::Value(value) => match value.scalar() {
                    Some(Scalar::Unsigned(number)) => Some(number),
                    _ => None,
                },
                _ => None,
            });
        let numbers: Vec<u64> = numbers.collect();
        events.push((record.id(), numbers[1]));
    }
    assert_eq!(records.damage(), []);
    events
}

fn states(response: &Response) -> Vec<LogStatus> {
    match response {
        Response::Logs { logs } => logs.clone(),
        other => panic!("{other:?}"),
    }
}

/// OV-22: the enabled channels of installed manifests are kept in logs from the host's start; each event is in the log of its
/// channel.
#[test]
fn channels_of_installed_manifests_have_logs_without_a_controller() {
    let mut rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.install();
    logs.begin(&mut rig);
    let mut program = rig.program("channels", &[300]);
    program.expect("written");
    rig.done(flush());
    for (name, channel) in
        [("Shop%4Admin.evtx", "Shop/Admin"), ("Shop%4Operational.evtx", "Shop/Operational")]
    {
        let events = shop_events(&logs.file(name), channel);
        assert_eq!(events, (0..300).map(|number| (number + 1, number)).collect::<Vec<_>>());
    }
    assert!(!logs.file("Shop%4Debug.etl").exists());

    // A Debug channel is a trace of its own, on request.
    logs.set("Shop/Debug", Change { is_enabled: Some(true), ..Change::default() });
    logs.set("Shop/Admin", Change { is_enabled: Some(false), ..Change::default() });
    rig.done(Request::RefreshLogs);
    let mut other = rig.program("channels", &[10]);
    other.expect("written");
    rig.done(flush());
    assert_eq!(shop_events(&logs.file("Shop%4Admin.evtx"), "Shop/Admin").len(), 300);
    assert_eq!(shop_events(&logs.file("Shop%4Operational.evtx"), "Shop/Operational").len(), 310);
    rig.done(Request::Flush { session: "Shop/Debug".to_owned() });
    // It has the events of its channel, and of no other one.
    let trace = TraceFile::open(logs.file("Shop%4Debug.etl")).unwrap();
    let mut records = Records::new(vec![trace]);
    let mut ids = Vec::new();
    while let Some(record) = records.next() {
        if record.provider == Some(SHOP.parse().unwrap()) {
            ids.push((record.descriptor.id, record.descriptor.channel.0));
        }
    }
    assert_eq!(ids, [(18, 18); 10]);
    let names: Vec<String> =
        states(&rig.ask(Request::Logs)).into_iter().map(|state| state.name).collect();
    assert_eq!(names, ["Application", "Shop/Operational", "System"]);

    // If its file changes, a new session writes there, and the file before is complete.
    let moved = logs.file("moved.etl");
    logs.set("Shop/Debug", Change { file: Some(moved.clone()), ..Change::default() });
    rig.done(Request::RefreshLogs);
    rig.wait_until(|_| moved.exists());
    let mut third = rig.program("channels", &[5]);
    third.expect("written");
    rig.done(Request::Flush { session: "Shop/Debug".to_owned() });
    assert_eq!(debug_events(&logs.file("Shop%4Debug.etl")), 10);
    assert_eq!(debug_events(&moved), 5);
    // Off and on at once is a new file, too.
    for is_enabled in [false, true] {
        logs.set("Shop/Debug", Change { is_enabled: Some(is_enabled), ..Change::default() });
        rig.done(Request::RefreshLogs);
    }
    rig.wait_until(|_| moved.exists() && debug_events(&moved) == 0);
}

/// OV-22: a log that is cleared, or kept no more, has had the records that were written before. Nobody flushes.
#[test]
fn changes_of_logs_come_behind_earlier_records() {
    let mut rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.install();
    logs.begin(&mut rig);
    rig.program("channels", &[50]).expect("written");
    let backup = rig.file("backup.evtx");
    rig.done(clear("Shop/Admin", Some(backup.clone())));
    assert_eq!(shop_events(&backup, "Shop/Admin").len(), 50);
    rig.program("channels", &[20]).expect("written");
    logs.set("Shop/Admin", Change { is_enabled: Some(false), ..Change::default() });
    rig.done(Request::RefreshLogs);
    rig.done(flush());
    assert_eq!(shop_events(&logs.file("Shop%4Admin.evtx"), "Shop/Admin").len(), 20);
    assert_eq!(shop_events(&logs.file("Shop%4Operational.evtx"), "Shop/Operational").len(), 70);
}

/// OV-22: a host that ends because nobody asks it has stored the last records.
#[test]
fn an_idle_host_stores_the_last_records() {
    let mut rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.install();
    let options = HostOptions {
        logs: vec![logs.scope.clone()],
        idle_exit: Some(Duration::from_millis(100)),
        ..HostOptions::new(rig.runtime())
    };
    rig.host = Some(Host::start(options).unwrap());
    // Until the program has written.
    let controller = Client::connect(&rig.runtime());
    let mut program = rig.program("channels", &[50]);
    if controller.is_ok() {
        program.expect("written");
    }
    drop(controller);
    rig.host.as_ref().unwrap().wait();
    assert_eq!(shop_events(&logs.file("Shop%4Admin.evtx"), "Shop/Admin").len(), 50);
}

/// Events of the shop in a Debug channel's trace; 0: it cannot be read yet.
fn debug_events(path: &Path) -> usize {
    let Ok(trace) = TraceFile::open(path) else { return 0 };
    let mut records = Records::new(vec![trace]);
    let mut count = 0;
    while let Some(record) = records.next() {
        count += usize::from(record.provider == Some(SHOP.parse().unwrap()));
    }
    count
}

/// OV-22: a log moves to a session of its own and back while the host keeps it, and no event is missing.
#[test]
fn the_isolation_of_a_channel_changes_while_the_host_runs() {
    let mut rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.install();
    logs.begin(&mut rig);
    let file = logs.file("Shop%4Operational.evtx");
    let mut written = 0;
    for isolation in [Isolation::Application, Isolation::Custom, Isolation::System] {
        logs.set("Shop/Operational", Change { isolation: Some(isolation), ..Change::default() });
        rig.done(Request::RefreshLogs);
        let mut program = rig.program("channels", &[50]);
        program.expect("written");
        written += 50;
        rig.done(flush());
        if isolation == Isolation::Custom {
            rig.done(Request::Flush { session: "EventLog-Shop/Operational".to_owned() });
        }
        assert_eq!(shop_events(&file, "Shop/Operational").len(), written, "{isolation:?}");
    }
}

/// OV-22: ids of records rise for ever, over a clear with a backup and a restart of the host.
#[test]
fn ids_rise_over_clears_backups_and_restarts() {
    let mut rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.install();
    let file = logs.file("Shop%4Admin.evtx");
    let backup = rig.file("backup.evtx");
    for round in 0..3u64 {
        logs.begin(&mut rig);
        let mut program = rig.program("channels", &[100]);
        program.expect("written");
        rig.done(flush());
        let events = shop_events(&file, "Shop/Admin");
        let ids = round * 100 + 1..=(round + 1) * 100;
        assert_eq!(events.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids.collect::<Vec<_>>());
        rig.done(clear("shop/admin", Some(backup.clone())));
        assert_eq!(shop_events(&backup, "Shop/Admin"), events);
        assert!(!Log::open(&backup).unwrap().is_dirty());
        assert_eq!(shop_events(&file, "Shop/Admin"), []);
        // A backup replaces no file, and the log is then not cleared.
        assert_eq!(
            rig.refused(clear("Shop/Admin", Some(backup.clone()))),
            Status::ERROR_WRITE_FAULT.0
        );
        std::fs::remove_file(&backup).unwrap();
        drop(program);
        rig.host = None;
    }
    logs.begin(&mut rig);
    assert_eq!(rig.refused(clear("Nobody", None)), 15_007);
    assert_eq!(rig.refused(clear("Security", None)), 5);
}

/// OV-22: a program's reports are kept in the Application log, with Windows' classic form, from the first one.
#[test]
fn reports_of_programs_are_kept_without_a_session() {
    let mut rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.begin(&mut rig);
    assert!(!logs.scope.logs.exists());
    let mut program = rig.program("reports", &[50]);
    program.expect("0");
    program.expect("written");
    rig.done(flush());
    let log = Log::open(logs.file("Application.evtx")).unwrap();
    let mut records = log.records();
    let first = records.next().unwrap().unwrap().to_xml().unwrap();
    for part in [
        "<Provider Name='Till'/>",
        "<EventID Qualifiers='32768'>7</EventID>",
        "<Level>2</Level>",
        "<Task>3</Task>",
        "<Keywords>0x80000000000000</Keywords>",
        "<EventRecordID>1</EventRecordID>",
        "<Channel>Application</Channel>",
        "<Data>one</Data>",
        "<Data>three</Data>",
        "<Binary>010203</Binary>",
    ] {
        assert!(first.contains(part), "{part} is not in {first}");
    }
    let mut count = 0;
    while records.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 50);
}

/// OV-22: a user whom the SDDL text does not let write writes nothing; the records count as lost.
#[test]
fn a_program_that_may_not_write_adds_no_record() {
    let mut rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.install();
    let nobody = "D:(A;;0x1;;;WD)(A;;0x2;;;S-1-22-1-4294967294)";
    logs.set("Shop/Admin", Change { access: Some(nobody.to_owned()), ..Change::default() });
    logs.begin(&mut rig);
    let mut program = rig.program("channels", &[20]);
    program.expect("written");
    rig.done(flush());
    assert_eq!(shop_events(&logs.file("Shop%4Admin.evtx"), "Shop/Admin"), []);
    assert_eq!(shop_events(&logs.file("Shop%4Operational.evtx"), "Shop/Operational").len(), 20);
    let states = states(&rig.ask(Request::Logs));
    let admin = states.iter().find(|state| state.name == "Shop/Admin").unwrap();
    assert_eq!((admin.lost, admin.failure.as_deref()), (20, None));
    assert_eq!(rig.refused(clear("Shop/Admin", None)), Status::ERROR_ACCESS_DENIED.0);
}

/// OV-22: a channel with custom isolation has a session to itself, which ends with the channel.
#[test]
fn a_channel_with_custom_isolation_has_a_session_of_its_own() {
    const OWN: &str = "EventLog-Shop/Operational";
    let mut rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.install_in(&logs.scope.packs, "Custom");
    logs.begin(&mut rig);
    rig.program("channels", &[100]).kill_after("written");
    rig.done(flush());
    rig.done(Request::Flush { session: OWN.to_owned() });
    let own = rig.query(OWN);
    assert_eq!((own.stored, own.lost), (100, 0), "{own:?}");
    for (name, channel) in
        [("Shop%4Admin.evtx", "Shop/Admin"), ("Shop%4Operational.evtx", "Shop/Operational")]
    {
        let events = shop_events(&logs.file(name), channel);
        assert_eq!(events, (0..100).map(|number| (number + 1, number)).collect::<Vec<_>>());
    }
    // Requests find the log, whichever session keeps it.
    let names: Vec<String> =
        states(&rig.ask(Request::Logs)).into_iter().map(|state| state.name).collect();
    assert_eq!(names, ["Application", "Shop/Admin", "Shop/Operational", "System"]);
    rig.done(clear("Shop/Operational", None));
    assert_eq!(shop_events(&logs.file("Shop%4Operational.evtx"), "Shop/Operational"), []);
    logs.set("Shop/Operational", Change { is_enabled: Some(false), ..Change::default() });
    rig.done(Request::RefreshLogs);
    rig.wait_until(|rig| {
        let sessions = rig.ask(Request::Query { session: OWN.to_owned() });
        matches!(sessions, Response::Error { .. })
    });
}

/// OV-22: a log on a full disk reports it, counts what it cannot store, claims no record that it lacks, and continues when the disk
/// has space again.
#[test]
fn a_kept_log_on_a_full_disk_reports_and_recovers() {
    let rig = Rig::without_host();
    let place = rig.file("small");
    std::fs::create_dir(&place).unwrap();
    let mut command = rig.command("keeper", &[]);
    command.env("ETW_TEST_SMALL_DISK", &place).env("ETW_TEST_LOGS", &place);
    let mut keeper = Program::start(&mut command);
    if keeper.line().as_deref() != Some("small disk") {
        eprintln!("skipped: only root can mount a small disk to be filled");
        return;
    }
    let daemon = Daemon { rig, keeper };
    daemon.ask(&Request::List);
    // Only the daemon's mount namespace has the disk.
    let worker = daemon.worker().unwrap();
    let seen = PathBuf::from(format!("/proc/{worker}/root{}", place.display()));
    let scope = Scope { packs: seen.join("packs"), logs: seen.join("logs"), is_machine: false };
    let logs = Logs { scope };
    logs.install_in(&logs.scope.packs, "Application");
    std::fs::create_dir_all(&logs.scope.logs).unwrap();
    let off = r#"{"channels": {"Shop/Operational": {"enabled": false}}}"#;
    std::fs::write(logs.file("channels.json"), off).unwrap();
    std::fs::write(seen.join("filler"), vec![1; 128 << 10]).unwrap();
    assert!(matches!(daemon.ask(&Request::RefreshLogs), Response::Done { .. }));
    let state = || {
        let states = states(&daemon.ask(&Request::Logs));
        states.into_iter().find(|state| state.name == "Shop/Admin").unwrap()
    };
    let write = |events| {
        daemon.rig.program("channels", &[events]).kill_after("written");
        assert!(matches!(daemon.ask(&flush()), Response::Done { .. }));
    };
    let mut written = 5000;
    write(written);
    // The last buffer may just have fitted into the newest chunk; one of the next does not.
    daemon.rig.wait_until(|_| {
        write(300);
        written += 300;
        state().failure.is_some_and(|what| what.contains("space"))
    });
    let full = state();
    let file = logs.file("Shop%4Admin.evtx");
    let events = shop_events(&file, "Shop/Admin");
    assert_eq!(events.len() as u64 + full.lost, written, "{full:?}");
    assert!(!events.is_empty() && full.lost > 0, "{full:?}");
    assert_eq!(full.next_id, Some(events.len() as u64 + 1));

    std::fs::remove_file(seen.join("filler")).unwrap();
    write(100);
    let after = state();
    assert_eq!((after.failure.as_deref(), after.lost), (None, full.lost), "{after:?}");
    let all = shop_events(&file, "Shop/Admin");
    assert_eq!(all[..events.len()], events);
    let (next, count) = (events.len() as u64 + 1, all.len() as u64);
    assert_eq!(count, events.len() as u64 + 100);
    let ids: Vec<u64> = all[events.len()..].iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (next..next + 100).collect::<Vec<_>>());
    daemon.end();
}

/// OV-22: three users as processes, with the rights that the log's SDDL text gives each: to write, to read its file, to clear it.
#[test]
fn the_rights_of_three_users_hold_for_their_processes() {
    use std::os::unix::process::CommandExt;
    const WRITER: u32 = 65_531;
    const READER: u32 = 65_532;
    const STRANGER: u32 = 65_533;
    const READING_GROUP: u32 = 65_530;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start programs of other users");
        return;
    }
    let mut rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.install();
    let rights = format!(
        "D:(A;;0x7;;;BA)(A;;0x3;;;S-1-22-1-{WRITER})(A;;0x1;;;S-1-22-1-{READER})\
         (A;;0x1;;;S-1-22-2-{READING_GROUP})"
    );
    logs.set("Shop/Admin", Change { access: Some(rights), ..Change::default() });
    logs.begin(&mut rig);
    let state = |rig: &Rig| {
        let states = states(&rig.ask(Request::Logs));
        states.into_iter().find(|state| state.name == "Shop/Admin").unwrap()
    };
    for user in [WRITER, READER, STRANGER] {
        let mut command = rig.command_as(user, user, "channels", &[10]);
        Program::start(&mut command).kill_after("written");
    }
    rig.done(flush());
    let file = logs.file("Shop%4Admin.evtx");
    assert_eq!(shop_events(&file, "Shop/Admin").len(), 10);
    let kept = state(&rig);
    assert_eq!(kept.lost, 20, "{kept:?}");
    if let Some(failure) = kept.failure {
        assert!(failure.contains("access lists"), "{failure}");
        eprintln!("skipped: {failure}");
        return;
    }
    let can_read = |path: &Path, user, group| {
        let mut command = std::process::Command::new("cat");
        command.arg(path).uid(user).gid(group);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command.status().unwrap().success()
    };
    let check = |path: &Path| {
        assert!(can_read(path, WRITER, WRITER) && can_read(path, READER, READER));
        assert!(can_read(path, STRANGER, READING_GROUP));
        assert!(!can_read(path, STRANGER, STRANGER));
    };
    check(&file);
    let runtime = rig.runtime();
    let refused = std::thread::spawn(move || {
        // SAFETY: the system call changes this thread alone, unlike the library's function.
        unsafe { assert_eq!(libc::syscall(libc::SYS_setresuid, WRITER, WRITER, WRITER), 0) };
        let client = etw_wire::host_client::Client::connect(&runtime);
        client.and_then(|client| client.ask(&clear("Shop/Admin", None))).unwrap_err()
    });
    assert_eq!(refused.join().unwrap().status(), 5);
    // Neither a clear nor a backup gives more users the records.
    let backup = rig.file("backup.evtx");
    rig.done(clear("Shop/Admin", Some(backup.clone())));
    check(&file);
    check(&backup);
}

/// OV-22, P13: committed records survive kills of programs and workers, once each, and ids rise without a gap.
#[test]
fn kept_logs_survive_kills_of_programs_and_workers() {
    const EVENTS: u64 = 3000;
    let kills = std::env::var("ETW_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let rig = Rig::without_host();
    let logs = Logs::new(&rig);
    logs.install();
    // Room for every record: no log wraps.
    let max_size = Some((kills * EVENTS) << 10);
    logs.set("Shop/Admin", Change { max_size, ..Change::default() });
    let mut command = rig.command("keeper", &[]);
    command.env("ETW_TEST_LOGS", rig.file("etw"));
    let keeper = Program::start(&mut command);
    let daemon = Daemon { rig, keeper };
    daemon.rig.wait_until(
        |_| matches!(daemon.ask(&Request::Logs), Response::Logs { logs } if !logs.is_empty()),
    );
    for _ in 0..kills {
        let mut program = daemon.rig.program("channels", &[EVENTS]);
        program.expect("written");
        daemon.kill_worker();
        program.kill();
    }
    assert!(matches!(daemon.ask(&flush()), Response::Done { .. }));
    let file = logs.file("Shop%4Admin.evtx");
    let events = shop_events(&file, "Shop/Admin");
    let ids: Vec<u64> = events.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (1..=kills * EVENTS).collect::<Vec<_>>());
    let mut numbers: Vec<u64> = events.into_iter().map(|(_, number)| number).collect();
    numbers.sort_unstable();
    let expected: Vec<u64> = (0..EVENTS).flat_map(|n| (0..kills).map(move |_| n)).collect();
    assert_eq!(numbers, expected);
    // The keeper dies, too: what is in the log stays.
    let Daemon { rig, keeper } = daemon;
    keeper.kill();
    assert_eq!(shop_events(&file, "Shop/Admin").len() as u64, kills * EVENTS);
    drop(rig);
}
