//! P4: any bytes on the socket and in a pool: the host continues, and other programs' events are intact.

use etw_session::{Enablement, LogMode, SessionConfig};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use etw_types::LevelKeyword;
use etw_wire::Channel;
use etw_wire::message::{FromHost, FromProgram, Role, VERSION};
use etw_wire::runtime_directory::Directory;

use crate::daemon::Daemon;
use crate::rig::*;

pub fn connect(rig: &Rig) -> Channel {
    Directory::open(&rig.runtime()).unwrap().connect().unwrap()
}

pub fn hello(rig: &Rig, role: Role) -> (Channel, Vec<OwnedFd>) {
    let channel = connect(rig);
    let hello = FromProgram::Hello { version: VERSION, role: role as u8 };
    channel.send(&hello.to_bytes(), &[]).unwrap();
    let received = channel.receive().unwrap();
    (channel, received.descriptors)
}

/// Whether the host has ended the connection.
pub fn is_out(channel: &Channel) -> bool {
    loop {
        match channel.receive_within(LIMIT) {
            Ok(received) if received.bytes.is_empty() => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::TimedOut,
        }
    }
}

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// A client that connects and sends any bytes.
pub fn babble(rig: &Rig, random: &mut Random, round: u64) {
    let channel = match round % 3 {
        0 => connect(rig),
        1 => hello(rig, Role::Program).0,
        _ => hello(rig, Role::Controller).0,
    };
    for _ in 0..random.next(5) {
        let size = 1 + random.next(if round.is_multiple_of(7) { 100_000 } else { 60 }) as usize;
        let mut bytes: Vec<u8> = (0..size).map(|_| random.next(256) as u8).collect();
        if random.next(2) == 0 {
            // A kind of message that exists.
            bytes[0] = 1 + random.next(6) as u8;
        }
        let dead = std::fs::File::open("/dev/null").unwrap();
        let descriptors = vec![dead.as_fd(); random.next(4) as usize];
        // The host may have ended the connection.
        let _ = channel.send(&bytes, &descriptors);
    }
}

#[test]
fn any_bytes_on_the_socket_affect_no_other_program() {
    let rig = Rig::new();
    let file = rig.start("any");
    let program = rig.program("count", &[3000, 100]);
    let mut random = Random(3);
    for round in 0..300 {
        babble(&rig, &mut random, round);
    }
    program.end();
    let status = rig.stop("any");
    assert_eq!((status.stored, status.lost), (3000, 0), "{status:?}");
    assert_eq!(contiguous(&events(&file)).values().sum::<u64>(), 3000);
}

#[test]
fn an_invalid_message_ends_the_connection() {
    let rig = Rig::new();
    let channel = connect(&rig);
    channel.send(&FromProgram::Hello { version: 99, role: 1 }.to_bytes(), &[]).unwrap();
    let answer = channel.receive().unwrap();
    assert_eq!(FromHost::read(&answer.bytes), Some(FromHost::Refused { status: 50 }));
    assert!(is_out(&channel));
    let (channel, _) = hello(&rig, Role::Program);
    channel.send(&[200, 1, 2], &[]).unwrap();
    assert!(is_out(&channel));
    // A pool that was not requested; a number that is assigned twice; too many registrations.
    let (channel, _) = hello(&rig, Role::Program);
    channel.send(&FromProgram::Pool.to_bytes(), &[]).unwrap();
    assert!(is_out(&channel));
    let (channel, _) = hello(&rig, Role::Program);
    let register = |number, traits| {
        let message = FromProgram::Register { number, id: provider(), traits };
        channel.send(&message.to_bytes(), &[])
    };
    register(1, b"").unwrap();
    let _ = register(1, b"\x06\0Doc\0");
    assert!(is_out(&channel));
    let (channel, _) = hello(&rig, Role::Program);
    for number in 1..=2100 {
        let message = FromProgram::Register { number, id: provider(), traits: b"" };
        if channel.send(&message.to_bytes(), &[]).is_err() {
            break;
        }
        let _ = channel.receive_within(Duration::from_millis(200));
    }
    assert!(is_out(&channel));
}

/// The log has a limited number of lines about the programs of one user, and says when it leaves further ones out. Lines about
/// other users' programs are not affected.
#[test]
fn log_lines_are_limited_by_user() {
    // SAFETY: takes nothing and returns a number.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let rig = Rig::without_host();
    let said = rig.file("said");
    let mut command = rig.command("keeper", &[]);
    command.stderr(std::fs::File::create(&said).unwrap());
    let daemon = Daemon { keeper: Program::start(&mut command), rig };
    daemon.ask(&etw_wire::requests::Request::List);
    let rig = &daemon.rig;
    let open = |path: &std::path::Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    };
    let sent = |count| {
        for _ in 0..count {
            let (channel, _) = hello(rig, Role::Program);
            channel.send(&[200], &[]).unwrap();
            assert!(is_out(&channel));
        }
    };
    let (channel, _) = hello(rig, Role::Program);
    channel.send(&vec![2; etw_wire::MAX_MESSAGE + 1], &[]).unwrap();
    assert!(is_out(&channel));
    sent(150);
    open(&rig.directory, 0o755);
    open(&rig.runtime(), 0o755);
    open(&rig.runtime().join("socket"), 0o666);
    let directory = rig.runtime();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the system call itself, which changes this thread alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, -1, 5170, -1) }, 0);
            let channel = etw_wire::Channel::connect(&directory.join("socket")).unwrap();
            let hello = FromProgram::Hello { version: VERSION, role: Role::Program as u8 };
            channel.send(&hello.to_bytes(), &[]).unwrap();
            channel.receive().unwrap();
            channel.send(&[200], &[]).unwrap();
            assert!(is_out(&channel));
        });
    });
    let said = std::fs::read_to_string(&said).unwrap();
    let count = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count("of user 0: message 200"), count("of user 0: message 0")), (99, 1), "{said}");
    assert_eq!(count("user 0: further lines about this user"), 1, "{said}");
    assert_eq!(count("of user 5170: message 200"), 1, "{said}");
}

/// A program that is asked for its pool sends something else.
#[test]
fn invalid_pools_are_rejected() {
    let rig = Rig::new();
    let file = rig.start("pools");
    let memfd = |size: u64, seals: Option<i32>| -> OwnedFd {
        use std::os::fd::{AsRawFd, FromRawFd};
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a C string and flags; the new descriptor is owned at once.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), flags)) };
        // SAFETY: plain numbers.
        unsafe {
            assert_eq!(libc::ftruncate(fd.as_raw_fd(), size as libc::off_t), 0);
            if let Some(seals) = seals {
                assert_eq!(libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals), 0);
            }
        }
        fd
    };
    let all = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    let pipe = std::io::pipe().unwrap();
    let cases: Vec<(&str, Vec<OwnedFd>)> = vec![
        ("nothing", vec![]),
        ("two", vec![memfd(8 << 20, Some(all)), memfd(8 << 20, Some(all))]),
        ("unsealed", vec![memfd(8 << 20, None)]),
        ("can shrink", vec![memfd(8 << 20, Some(libc::F_SEAL_GROW | libc::F_SEAL_SEAL))]),
        ("empty", vec![memfd(0, Some(all))]),
        ("small", vec![memfd(4096, Some(all))]),
        ("zeros", vec![memfd(8 << 20, Some(all))]),
        ("sparse and huge", vec![memfd(1 << 40, Some(all))]),
        ("a file", vec![std::fs::File::open("/proc/self/exe").unwrap().into()]),
        ("a device", vec![std::fs::File::open("/dev/zero").unwrap().into()]),
        ("a pipe", vec![pipe.0.into()]),
    ];
    for (name, descriptors) in cases {
        let (channel, _) = hello(&rig, Role::Program);
        let register = FromProgram::Register { number: 1, id: provider(), traits: b"" };
        channel.send(&register.to_bytes(), &[]).unwrap();
        let asked = channel.receive().unwrap();
        assert_eq!(FromHost::read(&asked.bytes), Some(FromHost::NeedPool));
        let borrowed: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
        channel.send(&FromProgram::Pool.to_bytes(), &borrowed).unwrap();
        assert!(is_out(&channel), "{name}");
    }
    rig.program("count", &[100, 0]).end();
    assert_eq!(rig.stop("pools").stored, 100);
    assert_eq!(events(&file).len(), 100);
}

/// A program that writes over its own pool while the host drains it.
pub fn scribble(rig: &Rig, random: &mut Random, round: u8) {
    use etw_ring::{Memory, PoolOptions, Request, Writer};
    let (channel, descriptors) = hello(rig, Role::Program);
    let [control, bell] = <[OwnedFd; 2]>::try_from(descriptors).unwrap();
    // The descriptors that programs receive cannot be written through.
    for (host, size) in [(&control, etw_ring::Control::SIZE), (&bell, etw_ring::Bell::SIZE)] {
        let copy = host.try_clone().unwrap();
        assert!(Memory::map(copy, 0, size, true).is_err());
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::from(host.try_clone().unwrap());
        assert!(file.write_at(&[1], 0).is_err());
    }
    let control = Memory::map_file(control.as_fd(), 0, etw_ring::Control::SIZE, false).unwrap();
    let register = FromProgram::Register { number: 1, id: provider(), traits: b"" };
    channel.send(&register.to_bytes(), &[]).unwrap();
    channel.receive().unwrap();
    let options = PoolOptions { chunk_size: 256 << 10, prefault: 0 };
    let mut memory = Memory::shared(options.memory_size()).unwrap();
    let fd = memory.take_fd().unwrap();
    let pool = std::fs::File::from(fd.try_clone().unwrap());
    // Attachments choose thread-local state, so each round has a thread of its own.
    // The program's own writer may panic over the scribbled memory.
    let _ = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let control = std::sync::Arc::new(control);
                let writer = Writer::new(memory, control, options, 3).unwrap();
                channel.send(&FromProgram::Pool.to_bytes(), &[fd.as_fd()]).unwrap();
                std::thread::sleep(Duration::from_millis(2));
                let request = Request {
                    sessions: 0xff,
                    registration: 1,
                    payload_size: 64,
                    event_size: 144,
                    ..Request::default()
                };
                for _ in 0..200 {
                    let _ = writer.write(&request, |payload| payload.put(&[round; 64]));
                    let mut bytes = [0; 32];
                    bytes.iter_mut().for_each(|byte| *byte = random.next(256) as u8);
                    use std::os::unix::fs::FileExt;
                    let within = if random.next(2) == 0 {
                        // The parts of the tables that are in use.
                        [0x20, 0x140, 0x2000, 0x6000, 0x8_6000, 0xc_6000, 0x66_0000]
                            [random.next(7) as usize]
                            + random.next(512)
                    } else {
                        random.next(0x68_0000)
                    };
                    pool.write_all_at(&bytes[..1 + random.next(32) as usize], within).unwrap();
                }
                if round.is_multiple_of(4) {
                    use std::os::fd::AsRawFd;
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    // SAFETY: the arguments are numbers; the descriptor is open.
                    unsafe { libc::fallocate(pool.as_raw_fd(), mode, 0, 8 << 20) };
                    std::thread::sleep(Duration::from_millis(5));
                }
            })
            .join()
    });
}

/// A program scribbles over all of its pool while an honest program is recorded in the same session.
#[test]
fn a_program_that_scribbles_over_its_pool_affects_no_other() {
    let rig = Rig::new();
    let file = rig.start("scribbled");
    let honest = rig.program("threads", &[2, 20_000]);
    let id = honest.id();
    let mut random = Random(11);
    for round in 0..20 {
        scribble(&rig, &mut random, round);
    }
    honest.end();
    let status = rig.stop("scribbled");
    // The hostile programs' events may be anything; the honest program's are complete and unchanged.
    let file = etw_etl::read::TraceFile::open(&file).unwrap();
    let mut records = etw_etl::read::Records::new(vec![file]);
    let mut next = [0u64; 2];
    while let Some(record) = records.next() {
        if record.process_id == Some(id) && record.provider == Some(provider()) {
            let number =
                |at: usize| u64::from_le_bytes(record.payload[at..at + 8].try_into().unwrap());
            let next = &mut next[number(0) as usize];
            assert_eq!(number(8), *next);
            *next += 1;
        }
    }
    assert_eq!(next, [20_000; 2]);
    assert!(records.damage().is_empty());
    assert_eq!(records.out_of_order(0), 0);
    assert_eq!(status.attempted, status.stored + status.filtered + status.lost, "{status:?}");
}

/// Entries for the keeper may be longer than a message: a program's traits, a session's filters. The keeper holds them, and the
/// next worker restores them.
#[test]
fn entries_longer_than_a_message_are_kept() {
    use etw_session::{EnableInfo, Filters, NameFilter};
    use etw_wire::requests::{Request, Response};
    let daemon = Daemon::new();
    // As JSON they have some 200 KB.
    let (channel, _) = {
        daemon.ask(&Request::List);
        hello(&daemon.rig, Role::Program)
    };
    let traits = vec![0xff; 60_000];
    let register = FromProgram::Register { number: 1, id: provider(), traits: &traits };
    channel.send(&register.to_bytes(), &[]).unwrap();
    let of = LevelKeyword::ALL;
    let name =
        |number: u32| NameFilter { of, include: false, names: vec![format!("{number:4000}")] };
    let filtered = |number| {
        let filters = Filters { event_names: Some(name(number)), ..Filters::default() };
        let info = EnableInfo { filters: Some(Box::new(filters)), ..all() };
        Enablement::new(etw::Guid::from_u128(u128::from(number) + 1), info)
    };
    let mut enable: Vec<_> = (0..28).map(filtered).collect();
    enable.push(Enablement::new(provider(), all()));
    let file = daemon.rig.file("long.etl");
    let start = SessionConfig {
        name: "long".to_owned(),
        file: Some(file.clone()),
        enable: enable.clone(),
        ..SessionConfig::default()
    };
    assert!(matches!(daemon.ask(&Request::start(start)), Response::Session(_)));
    let start = SessionConfig {
        name: "more".to_owned(),
        mode: LogMode::Buffering,
        enable,
        ..SessionConfig::default()
    };
    assert!(matches!(daemon.ask(&Request::start(start)), Response::Session(_)));
    for _ in 0..2 {
        daemon.kill_worker();
        daemon.rig.program("wait", &[]).end();
        // A response is one message, too: filters that do not fit are left out.
        let Response::Sessions { sessions } = daemon.ask(&Request::List) else { panic!() };
        assert_eq!(sessions.len(), 2);
        assert!(sessions.iter().all(|session| session.enabled.is_empty()));
        let Response::Session(status) = daemon.ask(&Request::Query { session: "long".to_owned() })
        else {
            panic!()
        };
        assert_eq!(status.enabled.len(), 29);
    }
    assert_eq!(daemon.stop("long").stored, 4);
    assert_eq!(events(&file).len(), 4);
    drop(channel);
    daemon.end();
}

/// The keeper holds descriptors of every program, and the next worker receives all of them: both raise their limit.
#[test]
fn the_limit_of_descriptors_is_raised_for_many_programs() {
    use etw_session::SessionConfig;
    let daemon = Daemon::with(Rig::without_host(), &[64]);
    let file = daemon.start("many", SessionConfig::default());
    let programs: Vec<_> = (0..60).map(|_| hello(&daemon.rig, Role::Program)).collect();
    for _ in 0..2 {
        daemon.kill_worker();
        daemon.rig.program("wait", &[]).end();
    }
    for (channel, _) in &programs {
        // The next worker has restored the programs: their connections are open.
        let said = channel.receive_within(LIMIT).unwrap();
        assert_eq!(FromHost::read(&said.bytes), Some(FromHost::Again));
    }
    assert_eq!(daemon.stop("many").stored, 4);
    assert_eq!(events(&file).len(), 4);
    drop(programs);
    daemon.end();
}

/// OV-3: the host's own user and root may control it. Others get a message that says what to do.
#[test]
fn only_root_and_the_hosts_user_may_control() {
    // SAFETY: takes nothing and returns a number.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let rig = Rig::new();
    let file = rig.start_with("rights", Default::default());
    let secure =
        rig.start_with("secure", etw_session::SessionConfig { secure: true, ..Default::default() });
    // A user without rights registers and is recorded …
    Program::start(&mut rig.command_as(65534, 65534, "count", &[10, 0])).end();
    rig.program("count", &[5, 0]).end();
    assert_eq!(rig.stop("rights").stored, 15);
    assert_eq!(events(&file).len(), 15);
    // … but not in a secure session, and may not control the host.
    assert_eq!(rig.stop("secure").stored, 5);
    assert_eq!(events(&secure).len(), 5);
    let refused = std::thread::spawn({
        let runtime = rig.runtime();
        move || {
            // SAFETY: the system call changes this thread alone, unlike the library's function.
            unsafe { assert_eq!(libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534), 0) };
            etw_wire::host_client::Client::connect(&runtime).unwrap_err()
        }
    });
    let refused = refused.join().unwrap();
    assert_eq!(refused.status(), 5, "{refused}");
    assert!(refused.to_string().contains("usermod"), "{refused}");
}

/// A program writes events with times of tomorrow, and ends: nothing of it is left.
#[test]
fn events_of_tomorrow_keep_no_program_alive() {
    use etw_ring::{Memory, PoolOptions, Request, Writer};
    let rig = Rig::new();
    let file = rig.start("tomorrow");
    let (channel, descriptors) = hello(&rig, Role::Program);
    let [control, _bell] = <[OwnedFd; 2]>::try_from(descriptors).unwrap();
    let control = Memory::map_file(control.as_fd(), 0, etw_ring::Control::SIZE, false).unwrap();
    let register = FromProgram::Register { number: 1, id: provider(), traits: b"" };
    channel.send(&register.to_bytes(), &[]).unwrap();
    channel.receive().unwrap();
    let options = PoolOptions { chunk_size: 256 << 10, prefault: 0 };
    let mut memory = Memory::shared(options.memory_size()).unwrap();
    let fd = memory.take_fd().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = Writer::new(memory, std::sync::Arc::new(control), options, 4).unwrap();
            channel.send(&FromProgram::Pool.to_bytes(), &[fd.as_fd()]).unwrap();
            // Its session's name.
            while !matches!(
                FromHost::read(&channel.receive().unwrap().bytes),
                Some(FromHost::Set { .. })
            ) {}
            let request = Request {
                sessions: 1,
                registration: 1,
                payload_size: 16,
                event_size: 96,
                ..Request::default()
            };
            let mut reserved = writer.reserve_here(&request).unwrap();
            reserved.stamp(writer.now() + (1 << 50), 0);
            reserved.put(&[0; 16]);
            reserved.commit().unwrap();
        });
    });
    drop(channel);
    rig.program("count", &[10, 0]).end();
    rig.wait_until(|rig| {
        let providers = rig.ask(etw_wire::requests::Request::Providers);
        let etw_wire::requests::Response::Providers { providers } = providers else { panic!() };
        providers.iter().all(|provider| provider.pids.is_empty())
    });
    let status = rig.stop("tomorrow");
    assert_eq!(status.stored, 10, "{status:?}");
    assert_eq!(events(&file).len(), 10);
}
