//! Logs of channels: a host keeps them without a controller.

use std::path::{Path, PathBuf};

use etw_decode::pack::PackBuilder;
use etw_eventlog::channel::Change;
use etw_eventlog::registry::{Registry, Scope};
use etw_evtx::Log;
use etw_evtx::fields::FieldContent;
use etw_evtx::value::Scalar;
use etw_types::Status;
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
        let manifest = format!(
            "<instrumentationManifest xmlns='http://schemas.microsoft.com/win/2004/08/events'>\
             <instrumentation><events><provider name='Shop' symbol='SHOP' guid='{{{SHOP}}}' \
             resourceFileName='x' messageFileName='x'><channels>\
             <channel chid='a' name='Shop/Admin' type='Admin' symbol='A'/>\
             <channel chid='o' name='Shop/Operational' type='Operational' symbol='O'/>\
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
        std::fs::write(self.scope.packs.join("manifest-shop.etwpack"), builder.finish()).unwrap();
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
    assert!(logs.file("Shop%4Debug.etl").exists());
    let names: Vec<String> =
        states(&rig.ask(Request::Logs)).into_iter().map(|state| state.name).collect();
    assert_eq!(names, ["Application", "Shop/Operational", "System"]);
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
