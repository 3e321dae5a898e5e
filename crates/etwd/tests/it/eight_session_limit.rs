//! OV-12: a provider has at most eight sessions, of all hosts together, and the ninth session's controller gets a warning.

use etw_session::{Enablement, LogMode, SessionConfig};
use etw_types::{Keyword, Level};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use etw_ring::prefix::Prefix;
use etw_ring::{Control, Memory, PoolOptions, Writer};
use etw_wire::Channel;
use etw_wire::message::{FromHost, FromProgram, Role};
use etw_wire::requests::{Request, Response, SessionStatus};
use etw_wire::runtime_directory::RECORD_VARIABLE;

use crate::daemon::Daemon;
use crate::interrupted_requests::Mined;
use crate::rig::*;

const NO_SYSTEM_RESOURCES: u32 = 1450;

fn request(rig: &Rig, name: &str) -> Request {
    Request::start(SessionConfig {
        name: name.to_owned(),
        file: Some(rig.file(&format!("{name}.etl"))),
        enable: vec![Enablement::new(provider(), all())],
        ..SessionConfig::default()
    })
}

fn enable(session: &str, timeout_ms: u32) -> Request {
    Request::Enable {
        session: session.to_owned(),
        provider: provider().into(),
        info: all(),
        timeout_ms,
    }
}

/// A program in a role, with two hosts.
fn program_of(rig: &Rig, other: &Rig, role: &str, arguments: &[u64]) -> Program {
    Program::start(rig.command(role, arguments).env(RECORD_VARIABLE, other.runtime()))
}

#[track_caller]
fn has_refused(status: &SessionStatus, process: u32) {
    assert_eq!(status.refused, 1, "{status:?}");
    let [refusal] = &status.refusals[..] else { panic!("{status:?}") };
    assert_eq!((refusal.pid, refusal.provider), (process, provider()), "{refusal:?}");
    assert_eq!(refusal.status, NO_SYSTEM_RESOURCES);
    let message = format!("process {process}: provider {} has eight sessions already", provider());
    assert_eq!(refusal.message, message);
}

/// A running program refuses the ninth session of any host. The controller that starts, enables, queries or stops it gets a
/// warning. The eight others continue, and when one of them ends, another session can enable the provider.
#[test]
fn a_ninth_session_of_two_hosts_gets_a_warning() {
    let (rig, other) = (Rig::new(), Rig::new());
    let mut program = program_of(&rig, &other, "endless", &[500]);
    program.expect("ready");
    for number in 0..8 {
        let status = rig.session(request(&rig, &format!("session{number}")));
        assert_eq!((status.refused, status.error), (0, None));
    }
    for round in 0..2 {
        let status = other.session(request(&other, "ninth"));
        has_refused(&status, program.id());
        assert_eq!(status.error.as_ref(), Some(&status.refusals[0].message));
        has_refused(&other.query("ninth"), program.id());
        let warnings = other.done(enable("ninth", 5000));
        assert_eq!(warnings, [status.refusals[0].message.clone()], "{round}");
        // The status of each session has the details; a list has the count.
        let Response::Sessions { sessions } = other.ask(Request::List) else { panic!() };
        assert_eq!((sessions[0].refused, sessions[0].refusals.len()), (1, 0));
        let status = other.stop("ninth");
        has_refused(&status, program.id());
        assert_eq!((status.attempted, status.stored, status.lost), (0, 0, 0));
        assert_eq!(events(&other.file("ninth.etl")).len(), 0);
    }
    let status = rig.stop("session3");
    assert!(status.stored > 0 && status.refused == 0, "{status:?}");
    let status = other.session(request(&other, "ninth"));
    assert_eq!((status.refused, status.error), (0, None));
    other.wait_until(|other| other.query("ninth").stored > 100);
    program.kill();
    let status = other.stop("ninth");
    assert_eq!((status.refused, status.lost), (0, 0), "{status:?}");
    for number in [0, 1, 2, 4, 5, 6, 7] {
        let status = rig.stop(&format!("session{number}"));
        assert!(status.stored > 100, "{status:?}");
        assert_eq!((status.refused, status.lost), (0, 0), "{status:?}");
    }
}

/// In a program that starts later and ends at once, eight sessions have all events, and the status of the ninth says so at its
/// end.
#[test]
fn a_ninth_session_gets_a_warning_at_its_end_if_the_program_starts_later() {
    let (rig, other) = (Rig::new(), Rig::new());
    for round in 0..5 {
        let names: Vec<_> = (0..8).map(|number| format!("session{round}-{number}")).collect();
        for name in &names {
            rig.session(request(&rig, name));
        }
        assert_eq!(other.session(request(&other, "ninth")).refused, 0);
        let program = program_of(&rig, &other, "count", &[100, 0]);
        let process = program.id();
        program.end();
        let mut all: Vec<_> = names.iter().map(|name| rig.stop(name)).collect();
        all.push(other.stop("ninth"));
        let (without, with): (Vec<_>, Vec<_>) = all.iter().partition(|status| status.refused > 0);
        assert_eq!((without.len(), with.len()), (1, 8), "{all:?}");
        has_refused(without[0], process);
        assert_eq!((without[0].stored, without[0].lost), (0, 0), "{:?}", without[0]);
        assert!(with.iter().all(|status| (status.stored, status.lost) == (100, 0)), "{with:?}");
    }
}

/// If a host has one more session than a program has slots, and the program starts later, the status of that session says so at
/// its end.
#[test]
fn a_ninth_session_of_one_host_gets_a_warning_at_its_end() {
    let rig = Rig::new();
    let other = etw::Guid::from_name("OpenEtw.Other");
    for number in 0..9 {
        let id = if number < 8 { provider() } else { other };
        let start =
            SessionConfig { enable: vec![Enablement::new(id, all())], ..SessionConfig::default() };
        rig.start_with(&format!("session{number}"), start);
    }
    let mut program = rig.program("listen", &[]);
    while program.line().unwrap() != "ready" {}
    let status = rig.query("session8");
    let [refusal] = &status.refusals[..] else { panic!("{status:?}") };
    let message = format!("process {} has eight sessions of this host already", program.id());
    assert_eq!((refusal.provider, &refusal.message), (other, &message));
    assert_eq!((refusal.status, status.refused), (NO_SYSTEM_RESOURCES, 1));
    program.kill();
    assert_eq!(rig.stop("session8").refused, 1);
    assert!((0..8).all(|number| rig.stop(&format!("session{number}")).refused == 0));
}

/// A simulated program whose answers the test decides.
struct Fake {
    channel: Channel,
    writer: Writer,
}

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Set { token: u32, number: u32, slot: u8 },
    Clear { number: u32, slot: u8 },
}

impl Fake {
    /// Registers its providers, numbered from 1; a session has enabled the first one.
    fn new(rig: &Rig, providers: &[etw::Guid]) -> Fake {
        let (channel, mut given) = crate::hostile_input::hello(rig, Role::Program);
        for (number, id) in (1..).zip(providers) {
            let register = FromProgram::Register { number, id: *id, traits: b"" };
            channel.send(&register.to_bytes(), &[]).unwrap();
        }
        let said = channel.receive_within(LIMIT).unwrap();
        assert_eq!(FromHost::read(&said.bytes), Some(FromHost::NeedPool));
        let options = PoolOptions { chunk_size: 256 << 10, prefault: 0 };
        let mut memory = Memory::shared(options.memory_size()).unwrap();
        let fd: OwnedFd = memory.take_fd().unwrap();
        let control = Memory::map(given.remove(0), 0, Control::SIZE, false);
        let writer = Writer::new(memory, Arc::new(control.unwrap()), options, 3).unwrap();
        channel.send(&FromProgram::Pool.to_bytes(), &[fd.as_fd()]).unwrap();
        Fake { channel, writer }
    }

    #[track_caller]
    fn told(&self) -> Told {
        loop {
            let said = self.channel.receive_within(LIMIT).unwrap();
            match FromHost::read(&said.bytes).expect("the connection has ended") {
                FromHost::Set { token, number, slot, .. } => {
                    return Told::Set { token, number, slot };
                }
                FromHost::Clear { token, number, slot, .. } => {
                    self.answer(token, 0);
                    return Told::Clear { number, slot };
                }
                _ => {}
            }
        }
    }

    /// The next change that the host sends, with its number.
    #[track_caller]
    fn set(&self, of: u32) -> (u32, u8) {
        match self.told() {
            Told::Set { token, number, slot } if number == of => (token, slot),
            other => panic!("{other:?}"),
        }
    }

    /// Writes an event of its first provider.
    fn write(&self, slot: u8) {
        let descriptor = Some(etw_types::EventDescriptor::default());
        let prefix = Prefix { descriptor, ..Prefix::default() };
        let request = etw_ring::Request {
            sessions: 1 << slot,
            kind: prefix.kind(),
            registration: 1,
            metadata_size: prefix.size() as u16,
            payload_size: prefix.size() as u32,
            event_size: 80,
            ..etw_ring::Request::default()
        };
        self.writer.write(&request, |payload| prefix.put(|bytes| payload.put(bytes))).unwrap();
    }

    fn answer(&self, token: u32, status: u32) {
        self.channel.send(&FromProgram::Done { token, status }.to_bytes(), &[]).unwrap();
    }
}

fn quiet(rig: &Rig, name: &str, providers: &[etw::Guid]) {
    let enable = providers.iter().map(|id| Enablement::new(*id, all())).collect();
    rig.start_with(
        name,
        SessionConfig { enable, mode: LogMode::Buffering, ..SessionConfig::default() },
    );
}

/// P4: a session that has nothing in a program, or nothing any more, gives its slot back, so that eight others find theirs. A
/// refusal of a change that was not sent, or was answered before, has no effect.
#[test]
fn a_refused_session_takes_no_slot() {
    for had_another in [false, true] {
        let rig = Rig::new();
        let other = etw::Guid::from_name("OpenEtw.Other");
        let both = [provider(), other];
        quiet(&rig, "first", if had_another { &both } else { &both[..1] });
        let fake = Fake::new(&rig, &both);
        let (first, slot) = fake.set(1);
        if had_another {
            let (second, same) = fake.set(2);
            assert_eq!(slot, same);
            fake.answer(first, NO_SYSTEM_RESOURCES);
            fake.answer(second, 0);
            rig.wait_until(|rig| rig.query("first").refused == 1);
            rig.done(Request::Disable { session: "first".to_owned(), provider: other.into() });
            assert_eq!(fake.told(), Told::Clear { number: 2, slot });
        } else {
            fake.answer(first, NO_SYSTEM_RESOURCES);
        }
        rig.wait_until(|rig| rig.query("first").refused == 1);
        let lies = [(first, 1450), (first, 5), (0, 1450), (first + 99, 1450), (u32::MAX - 1, 5)];
        lies.iter().for_each(|(token, status)| fake.answer(*token, *status));
        std::thread::scope(|scope| {
            let mut slots = Vec::new();
            for number in 0..8 {
                // The host itself allows eight sessions of one provider.
                let id = if number < 7 { provider() } else { other };
                let start = SessionConfig {
                    name: format!("session{number}"),
                    mode: LogMode::Buffering,
                    enable: vec![Enablement::new(id, all())],
                    ..SessionConfig::default()
                };
                let start = Request::start(start);
                let asked = scope.spawn(|| rig.session(start));
                let (token, slot) = fake.set(if number < 7 { 1 } else { 2 });
                fake.answer(token, 0);
                // One answer too many.
                fake.answer(token, 0);
                slots.push(slot);
                let status = asked.join().unwrap();
                assert_eq!((status.refused, status.error), (0, None), "{number}");
            }
            slots.sort_unstable();
            assert_eq!(slots, [0, 1, 2, 3, 4, 5, 6, 7]);
        });
        assert_eq!(rig.query("first").refused, 1);
        assert_eq!(rig.stop("first").refused, 1);
        assert!((0..8).all(|number| rig.stop(&format!("session{number}")).refused == 0));
    }
}

/// A session of which a program refuses one of two providers has a slot as long as it has the other one, or gets the first one
/// later.
#[test]
fn a_session_that_is_refused_in_part_keeps_its_slot() {
    let rig = Rig::new();
    let other = etw::Guid::from_name("OpenEtw.Other");
    let disable = |provider: etw::Guid| Request::Disable {
        session: "part".to_owned(),
        provider: provider.into(),
    };
    quiet(&rig, "part", &[provider(), other]);
    let fake = Fake::new(&rig, &[provider(), other]);
    let ((first, slot), (second, same)) = (fake.set(1), fake.set(2));
    assert_eq!(slot, same);
    fake.answer(first, NO_SYSTEM_RESOURCES);
    fake.answer(second, 0);
    rig.wait_until(|rig| rig.query("part").refused == 1);
    // Refused again: the session still has the other provider.
    let again = std::thread::scope(|scope| {
        let asked = scope.spawn(|| rig.done(enable("part", 10_000)));
        let (token, same) = fake.set(1);
        assert_eq!(slot, same);
        fake.answer(token, NO_SYSTEM_RESOURCES);
        asked.join().unwrap()
    });
    assert_eq!(again.len(), 1, "{again:?}");
    // Requests go to programs in which the session has the provider.
    let state = |provider| Request::CaptureState {
        session: "part".to_owned(),
        provider,
        level: Level(1),
        any: Keyword(0),
        all: Keyword(0),
    };
    let asked = rig.done(state(provider()));
    assert!(asked.len() == 1 && asked[0].starts_with("no program"), "{asked:?}");
    // Accepted this time.
    let taken = std::thread::scope(|scope| {
        let asked = scope.spawn(|| rig.done(enable("part", 10_000)));
        let (token, same) = fake.set(1);
        assert_eq!(slot, same);
        fake.answer(token, 0);
        asked.join().unwrap()
    });
    assert!(taken.is_empty(), "{taken:?}");
    rig.done(disable(other));
    assert_eq!(fake.told(), Told::Clear { number: 2, slot });
    // The slot is still used by the first provider.
    rig.done(enable("part", 0));
    let (token, same) = fake.set(1);
    assert_eq!(slot, same);
    fake.answer(token, 0);
    rig.done(disable(provider()));
    assert_eq!(fake.told(), Told::Clear { number: 1, slot });
    // A late refusal has no effect, whichever session has the slot by then.
    rig.done(enable("part", 0));
    let (late, slot) = fake.set(1);
    rig.done(disable(provider()));
    assert_eq!(fake.told(), Told::Clear { number: 1, slot });
    let enable_other = |lie: u32| {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                rig.done(Request::Enable {
                    session: "part".to_owned(),
                    provider: other.into(),
                    info: all(),
                    timeout_ms: 10_000,
                })
            });
            let (token, same) = fake.set(2);
            assert_eq!(slot, same);
            fake.answer(lie, NO_SYSTEM_RESOURCES + 1);
            fake.answer(token, 0);
            assert_eq!(asked.join().unwrap(), [""; 0]);
        });
        assert_eq!(rig.query("part").refused, 1);
    };
    enable_other(late);
    // Nor on a session that has the other provider.
    rig.done(enable("part", 0));
    let (late, same) = fake.set(1);
    assert_eq!(slot, same);
    rig.done(disable(provider()));
    assert_eq!(fake.told(), Told::Clear { number: 1, slot });
    enable_other(late);
    let status = rig.stop("part");
    assert_eq!(status.refused, 1, "{status:?}");
}

/// Events that a program wrote before it refused the session's last provider are stored.
#[test]
fn events_before_a_refusal_are_stored() {
    let mined = Mined::new("batch sealed");
    let rig = &mined.daemon.rig;
    let both = [provider(), etw::Guid::from_name("OpenEtw.Other")];
    let enable = both.map(|id| Enablement::new(id, all())).to_vec();
    mined.daemon.start("part", SessionConfig { enable, ..SessionConfig::default() });
    let fake = Fake::new(rig, &both);
    let ((first, slot), (second, _)) = (fake.set(1), fake.set(2));
    fake.answer(first, 0);
    fake.write(slot);
    let query = || mined.daemon.ask(&Request::Query { session: "part".to_owned() });
    rig.wait_until(|_| matches!(query(), Response::Session(status) if status.stored == 1));
    let held = mined.hold();
    // A round begins.
    fake.write(slot);
    held.wait(rig);
    (0..200).for_each(|_| fake.write(slot));
    fake.channel.send(&FromProgram::Unregister { number: 1 }.to_bytes(), &[]).unwrap();
    fake.answer(second, NO_SYSTEM_RESOURCES);
    // The worker has the messages when it continues.
    std::thread::sleep(std::time::Duration::from_millis(100));
    drop(held);
    rig.wait_until(|_| matches!(query(), Response::Session(status) if status.refused == 1));
    let status = mined.daemon.stop("part");
    assert_eq!((status.stored, status.lost), (202, 0), "{status:?}");
    drop(fake);
    mined.end();
}

/// Stopping a session waits for the answers that are on their way, and reports them.
#[test]
fn an_answer_on_its_way_is_reported_at_the_end() {
    let rig = Rig::new();
    quiet(&rig, "keeps", &[provider()]);
    let fake = Fake::new(&rig, &[provider()]);
    let (token, _) = fake.set(1);
    fake.answer(token, 0);
    for round in 0..20 {
        let name = format!("ends{round}");
        quiet(&rig, &name, &[etw::Guid::from_u128(1)]);
        rig.done(enable(&name, 0));
        let (token, _) = fake.set(1);
        fake.answer(token, NO_SYSTEM_RESOURCES);
        assert_eq!(rig.stop(&name).refused, 1, "{round}");
    }
}

/// P3: the next worker reports a refusal, also after the program has ended, and once.
#[test]
fn the_next_worker_reports_a_refusal() {
    for is_gone in [false, true] {
        let daemon = Daemon::new();
        daemon.start("asks", SessionConfig::default());
        let fake = Fake::new(&daemon.rig, &[provider()]);
        let (token, _) = fake.set(1);
        fake.answer(token, NO_SYSTEM_RESOURCES);
        let query = || match daemon.ask(&Request::Query { session: "asks".to_owned() }) {
            Response::Session(status) => *status,
            other => panic!("{other:?}"),
        };
        daemon.rig.wait_until(|_| query().refused == 1);
        if is_gone {
            drop(fake);
            daemon.kill_worker();
        } else {
            daemon.kill_worker();
            // The program registers again, and receives the change again.
            let register = FromProgram::Register { number: 1, id: provider(), traits: b"" };
            fake.channel.send(&register.to_bytes(), &[]).unwrap();
            let (token, _) = fake.set(1);
            fake.answer(token, NO_SYSTEM_RESOURCES);
        }
        has_refused(&query(), std::process::id());
        has_refused(&daemon.stop("asks"), std::process::id());
        daemon.end();
    }
}
