//! An event belongs to the side of a change on which it was written, also if the host drains it on the other side.

use std::io::{Read as _, Write};
use std::process::Stdio;
use std::time::Duration;

use etw::{Controller, LiveItem, LiveStream};
use etw_session::{EnableInfo, Enablement, SessionConfig};
use etw_types::{Keyword, Level, LevelKeyword};
use etw_wire::host_client::Client;
use etw_wire::requests::{Request, Response, Update};

use crate::interrupted_requests::{Held, Mined};
use crate::program_roles::GROUPED;
use crate::rig::*;

/// A program that writes as many events as the test says.
pub struct Told(Program);

impl Told {
    pub fn new(rig: &Rig, role: &str) -> Told {
        let mut program = Program::start(rig.command(role, &[]).stdin(Stdio::piped()));
        program.expect("ready");
        Told(program)
    }

    pub fn write(&mut self, count: u32) {
        let mut input = self.0.child.stdin.as_ref().unwrap();
        input.write_all(format!("{count}\n").as_bytes()).unwrap();
        self.0.expect("done");
    }
}

/// Holds the worker at the end of a round, which an event of the program begins.
fn hold_in_round<'m>(mined: &'m Mined, program: &mut Told) -> Held<'m> {
    let held = mined.hold();
    // A program that a busy host has not answered in time records nothing until it does.
    mined.daemon.rig.wait_until(|_| {
        program.write(1);
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            held.is_there()
        })
    });
    held
}

/// Sends a request while the worker is held at the end of a round in which it has drained nothing of what `write` writes.
fn ask_behind(mined: &Mined, program: &mut Told, request: &Request, write: impl FnOnce(&mut Told)) {
    std::thread::scope(|scope| {
        let held = hold_in_round(mined, program);
        write(program);
        let client = Client::connect(&mined.daemon.rig.runtime()).unwrap();
        let asked = scope.spawn(move || client.ask(request));
        // The worker has the request when it continues.
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
        assert!(matches!(asked.join().unwrap(), Ok(Response::Done { .. })));
    });
}

/// Sends a request, and does something while the worker is held on its way.
fn ask_held(mined: &Mined, request: &Request, meanwhile: impl FnOnce()) {
    std::thread::scope(|scope| {
        let held = mined.hold();
        let client = Client::connect(&mined.daemon.rig.runtime()).unwrap();
        let asked = scope.spawn(move || client.ask(request));
        held.wait(&mined.daemon.rig);
        meanwhile();
        drop(held);
        assert!(matches!(asked.join().unwrap(), Ok(Response::Done { .. })));
    });
}

/// OV-5: events that come while the next file is made are in that file, however many there are: an earlier event of another CPU is
/// never in a later file.
#[test]
fn events_that_come_while_a_file_is_made_are_in_it() {
    let mined = Mined::new("file made");
    let rig = &mined.daemon.rig;
    let config = SessionConfig { buffer_size: 4096, buffer_count: 512, ..SessionConfig::default() };
    let first = mined.daemon.start("parted", config);
    let mut program = Told::new(rig, "told");
    program.write(10);
    let second = rig.file("second.etl");
    let update = Update { file: Some(second.clone()), ..Update::default() };
    let request = Request::Update { session: "parted".to_owned(), update };
    // Ten buffers.
    ask_held(&mined, &request, || program.write(200));
    let status = mined.daemon.stop("parted");
    assert_eq!((status.stored, status.lost), (210, 0), "{status:?}");
    assert_eq!((events(&first).len(), events(&second).len()), (10, 200));
    mined.end();
}

/// OV-12: an event that was written after a provider was disabled, and before its program knew, is not the session's, and not lost.
#[test]
fn events_behind_a_disabled_provider_are_not_lost() {
    let mined = Mined::new("enablement kept");
    mined.daemon.start("disabled", SessionConfig::default());
    let rig = &mined.daemon.rig;
    let mut program = Told::new(rig, "told");
    program.write(10);
    let request = Request::Disable { session: "disabled".to_owned(), provider: provider().into() };
    ask_held(&mined, &request, || program.write(200));
    let status = mined.daemon.stop("disabled");
    assert_eq!((status.stored, status.lost), (10, 0), "{status:?}");
    mined.end();
}

/// OV-12: events that a session had by their provider's group are stored, although it then enables the provider itself with less.
#[test]
fn events_before_an_enablement_that_takes_precedence_are_stored() {
    let mined = Mined::new("batch sealed");
    let group = GROUPED.group().unwrap();
    let enable = vec![Enablement::new(group, all())];
    mined.daemon.start("grouped", SessionConfig { enable, ..SessionConfig::default() });
    let mut program = Told::new(&mined.daemon.rig, "told grouped");
    let info =
        EnableInfo { wanted: LevelKeyword::new(Level(1), Keyword(0)), ..EnableInfo::default() };
    let request = Request::Enable {
        session: "grouped".to_owned(),
        provider: GROUPED.id().into(),
        info,
        timeout_ms: 10_000,
    };
    ask_behind(&mined, &mut program, &request, |program| program.write(200));
    // The program knows.
    program.write(5);
    let status = mined.daemon.stop("grouped");
    assert_eq!((status.stored, status.lost), (201, 0), "{status:?}");
    mined.end();
}

/// OV-5: readers of a session that is to be no real-time session any more receive what was written before.
#[test]
fn readers_receive_what_was_written_before_their_streams_end() {
    let mined = Mined::new("batch sealed");
    let start = SessionConfig { real_time: true, ..SessionConfig::default() };
    mined.daemon.start("live", start);
    let mut program = Told::new(&mined.daemon.rig, "told");
    let controller = Controller::connect_to(mined.daemon.rig.runtime()).unwrap();
    let mut stream = LiveStream::open(&controller, "live").unwrap();
    let update = Update { real_time: Some(false), ..Update::default() };
    let request = Request::Update { session: "live".to_owned(), update };
    ask_behind(&mined, &mut program, &request, |program| program.write(200));
    let mut read = 0;
    while let Some(item) = stream.next().unwrap() {
        read +=
            usize::from(matches!(item, LiveItem::Record(of) if of.provider == Some(provider())));
    }
    assert_eq!(read, 201);
    mined.end();
}

/// P2: a program that starts while the host is long at work on something else waits for its answer, and loses no event.
#[test]
fn a_program_that_starts_while_the_host_is_at_work_is_recorded_from_its_first_event_on() {
    let mined = Mined::new("batch sealed");
    mined.daemon.start("busy", SessionConfig::default());
    let mut first = Told::new(&mined.daemon.rig, "told");
    let held = hold_in_round(&mined, &mut first);
    let second = Program::start(mined.daemon.rig.command("told", &[]).stdin(Stdio::piped()));
    // Longer than a program waits for a host that does nothing.
    std::thread::sleep(Duration::from_secs(1));
    drop(held);
    let mut second = Told(second);
    second.0.expect("ready");
    second.write(5);
    let status = mined.daemon.stop("busy");
    assert_eq!((status.stored, status.lost), (6, 0), "{status:?}");
    mined.end();
}

/// P8: a host that does not come back from its work delays a program once, however many providers it registers.
#[test]
fn a_host_that_stays_at_work_delays_a_program_once() {
    let mined = Mined::new("batch sealed");
    mined.daemon.start("busy", SessionConfig::default());
    let mut first = Told::new(&mined.daemon.rig, "told");
    let mut command = mined.daemon.rig.command("again", &[]);
    command.env("ETW_DIAGNOSE", "1").stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut second = Told(Program::start(&mut command));
    second.0.expect("ready");
    let held = hold_in_round(&mined, &mut first);
    second.write(3);
    drop(held);
    let Told(mut second) = second;
    drop(second.child.stdin.take());
    let mut report = String::new();
    second.child.stderr.take().unwrap().read_to_string(&mut report).unwrap();
    let waits = report.split("has not answered within ").skip(1);
    let waits: Vec<f64> =
        waits.map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(waits.len(), 3, "{report}");
    assert_eq!(waits.iter().filter(|wait| **wait >= 5.0).count(), 1, "{report}");
    mined.end();
}
