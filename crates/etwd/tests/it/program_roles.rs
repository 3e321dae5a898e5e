//! Roles of the tests' programs: `ETW_TEST_ROLE` names the role, `ETW_TEST_ARGS` has its arguments.

use etw_session::{Enablement, SessionConfig};
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::time::Duration;

etw::define_provider!(pub PROVIDER, "OpenEtw.Test");
etw::define_provider!(pub OTHER, "OpenEtw.Other");
etw::define_provider!(
    pub GROUPED,
    "OpenEtw.Grouped",
    group_id("9c9f0a2e-3f2b-5d0c-8f3a-6a1d4d0c7b11")
);

/// Runs a role; without one, as a test of its own, it does nothing.
#[test]
fn run() {
    let Ok(role) = std::env::var("ETW_TEST_ROLE") else { return };
    let arguments: Vec<u64> = std::env::var("ETW_TEST_ARGS")
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(|text| text.parse().unwrap())
        .collect();
    match role.as_str() {
        "count" => count(arguments[0], arguments[1]),
        "paced" => paced(arguments[0]),
        "threads" => threads(arguments[0], arguments[1]),
        "endless" => endless(arguments[0]),
        "told" => told(write),
        "told grouped" => told(write_grouped),
        "stamps" => stamps(arguments[0]),
        "linger" => linger(arguments[0]),
        "listen" => listen(),
        "fork" => fork(arguments[0]),
        "wait" => wait(),
        "closes" => closes(arguments[0]),
        "classic" => classic(arguments[0]),
        "elsewhere" => elsewhere(arguments[0], arguments[1]),
        "again" => again(),
        "crowd" => crowd(arguments[0], arguments[1]),
        "limited" => limited(arguments[0], arguments[1]),
        "storm" => storm(arguments[0], arguments[1]),
        "lease" => lease(),
        "load" => load(),
        "channels" => channels(arguments[0]),
        "reports" => reports(arguments[0]),
        "keeper" => keeper(&arguments),
        "activated" => {
            // SAFETY: no other thread reads the environment yet.
            unsafe {
                std::env::set_var("LISTEN_PID", std::process::id().to_string());
                std::env::set_var("LISTEN_FDS", "1");
            }
            keeper(&arguments)
        }
        "worker" => worker(),
        _ => panic!("no such role"),
    }
    // Without the test harness's end: programs end in many ways.
    std::process::exit(0);
}

pub fn say(text: &str) {
    // Past the test harness, which captures prints.
    let mut out = std::fs::File::from(
        std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().unwrap(),
    );
    out.write_all(text.as_bytes()).unwrap();
}

/// Sleeps until the test ends this process, or longer than any test takes.
fn last() {
    std::thread::sleep(Duration::from_secs(1800));
}

fn write(thread: u64, number: u64) -> etw::Status {
    etw::write_event!(
        PROVIDER,
        "Counted",
        level(Informational),
        keyword(0x10),
        u64("thread", &thread),
        u64("number", &number)
    )
}

fn write_grouped(_: u64, number: u64) -> etw::Status {
    etw::write_event!(GROUPED, "Counted", level(Informational), u64("number", &number))
}

/// Writes so many events and ends.
fn count(events: u64, pause_us: u64) {
    let _registration = PROVIDER.register();
    for number in 0..events {
        write(0, number);
        if pause_us > 0 {
            std::thread::sleep(Duration::from_micros(pause_us));
        }
    }
}

/// Writes so many events, some 50 per millisecond.
fn paced(events: u64) {
    let _registration = PROVIDER.register();
    for number in 0..events {
        write(0, number);
        if number % 100 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Starts so many threads that write so many events each, and repeat refused writes.
fn threads(threads: u64, events: u64) {
    let _registration = PROVIDER.register();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for number in 0..events {
                    while !write(thread, number).is_success() {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
            });
        }
    });
}

/// Writes events until it is killed; after every thousandth it prints the number of accepted ones.
fn endless(pause_us: u64) {
    let _registration = PROVIDER.register();
    say("ready\n");
    for number in 0.. {
        while !write(0, number).is_success() {
            std::thread::sleep(Duration::from_micros(100));
        }
        if number % 1000 == 999 {
            say(&format!("{}\n", number + 1));
        }
        if pause_us > 0 && number % 16 == 0 {
            std::thread::sleep(Duration::from_micros(pause_us));
        }
    }
}

/// For each number on a line of its input, writes so many events and prints `done`.
fn told(write: fn(u64, u64) -> etw::Status) {
    let _registrations = (PROVIDER.register(), GROUPED.register());
    say("ready\n");
    let mut number = 0;
    for line in std::io::stdin().lines() {
        let count: u64 = line.unwrap().parse().unwrap();
        for _ in 0..count {
            write(0, number);
            number += 1;
        }
        say("done\n");
    }
}

/// Registers the provider as often as each line of its input says.
fn again() {
    drop(PROVIDER.register());
    say("ready\n");
    for line in std::io::stdin().lines() {
        for _ in 0..line.unwrap().parse().unwrap() {
            drop(PROVIDER.register());
        }
        say("done\n");
    }
}

/// Writes so many events, numbered by `CLOCK_MONOTONIC` in ns just before each; some at once, some after a while, so that the
/// host falls asleep between them.
fn stamps(events: u64) {
    let _registration = PROVIDER.register();
    for number in 0..events {
        write(0, etw_ring::RawClock::Monotonic.now());
        let pause = [0, 0, 10, 100, 3_000, 30_000, 150_000][number as usize % 7];
        std::thread::sleep(Duration::from_micros(pause));
    }
}

/// Writes so many events, each once whatever the status is, and then nothing for a long time.
fn linger(events: u64) {
    let _registration = PROVIDER.register();
    for number in 0..events {
        write(0, number);
    }
    say("written\n");
    last();
}

/// The provider of the tests' manifest.
pub const SHOP: &str = "e0b2f6f1-2f0a-4d4c-9ab8-0f3d7bb7c001";

/// Writes so many events of the tests' manifest into each of its channels, and waits. Channels 16 to 18 are Admin, Operational and
/// Debug.
fn channels(events: u64) {
    use etw::evntprov::{EventDataDescriptor, event_provider_enabled, event_register, event_write};
    let handle = event_register(&SHOP.parse().unwrap(), None).unwrap();
    // A worker that takes over may answer later than a registration waits.
    while !event_provider_enabled(handle, etw::Level(4), etw::Keyword(0)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    for number in 0..events {
        for channel in 16..=18u8 {
            let descriptor = etw::EventDescriptor {
                id: u16::from(channel),
                channel: etw::Channel(channel),
                level: etw::Level(4),
                ..etw::EventDescriptor::default()
            };
            let (thread, number) = (u64::from(channel).to_le_bytes(), number.to_le_bytes());
            let data = [EventDataDescriptor::new(&thread), EventDataDescriptor::new(&number)];
            while !event_write(handle, Some(&descriptor), &data).is_success() {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
    say("written\n");
    last();
}

/// Reports so many events, and waits.
fn reports(events: u64) {
    let source = etw::EventLogSource::register("Till");
    // A busy host may answer later than a registration waits.
    while !source.is_kept() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = source.report(&etw::Report {
        kind: etw::ReportType::ERROR,
        category: 3,
        id: 0x8000_0007,
        strings: &["one", "", "three"],
        data: &[1, 2, 3],
        ..etw::Report::default()
    });
    say(&format!("{}\n", status.0));
    for number in 0..events {
        let text = number.to_string();
        source.report(&etw::Report { id: 8, strings: &[&text], ..etw::Report::default() });
    }
    say("written\n");
    last();
}

/// The manifests and logs of the tests' host.
pub fn logs() -> Vec<etw_eventlog::registry::Scope> {
    let folder = std::env::var_os("ETW_TEST_LOGS").map(std::path::PathBuf::from);
    let scope = |folder: std::path::PathBuf| etw_eventlog::registry::Scope {
        packs: folder.join("packs"),
        logs: folder.join("logs"),
        is_machine: false,
    };
    folder.map(scope).into_iter().collect()
}

/// Prints every change that its callback receives, and answers requests for its state.
fn listen() {
    let _registration = PROVIDER.register_with(|change| {
        say(&format!(
            "{:?} {} {:#x} {:#x}\n",
            change.control, change.level.0, change.any.0, change.all.0
        ));
        if change.control == etw::ControlCode::CaptureState {
            write(7, 0);
        }
    });
    let _other = OTHER.register();
    say("ready\n");
    last();
}

/// Writes an event, then starts children with an event each.
fn fork(children: u64) {
    let _registration = PROVIDER.register();
    write(0, 0);
    for child in 1..=children {
        // SAFETY: the child writes an event and ends.
        match unsafe { libc::fork() } {
            0 => {
                write(child, u64::from(std::process::id()));
                write(child, u64::from(std::process::id()));
                // SAFETY: ends the child without the parent's handlers.
                unsafe { libc::_exit(0) };
            }
            child => {
                assert!(child > 0);
                let mut status = 0;
                // SAFETY: a child of this process, and an out pointer.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(status, 0);
            }
        }
    }
    write(0, 1);
}

/// Registers before there is a host; writes an event as soon as a session enables the provider.
fn wait() {
    let _registration = PROVIDER.register();
    say("ready\n");
    while !PROVIDER.is_enabled(etw::Level::INFO, etw::Keyword(0x10)) {
        std::thread::sleep(Duration::from_micros(200));
    }
    write(0, 0);
    write(0, 1);
}

/// Closes all descriptors but the standard ones, as programs do that become daemons, and opens so many files instead.
fn closes(files: u64) {
    let _registration = PROVIDER.register();
    // The host has sent its enablements: the connection is at rest.
    std::thread::sleep(Duration::from_millis(100));
    // SAFETY: the arguments are numbers; only the library still uses descriptors of this process, and must survive this.
    assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) }, 0);
    let files: Vec<_> =
        (0..files).map(|_| std::fs::File::open("/dev/null").unwrap().into_raw_fd()).collect();
    say("ready\n");
    while !PROVIDER.is_enabled(etw::Level::INFO, etw::Keyword(0x10)) {
        std::thread::sleep(Duration::from_micros(200));
    }
    write(0, 0);
    write(0, 1);
    let is_null = |file: &i32| {
        let name = std::fs::read_link(format!("/proc/self/fd/{file}"));
        name.is_ok_and(|name| name == std::path::Path::new("/dev/null"))
    };
    assert!(files.iter().all(is_null), "a file of the program has been closed");
}

/// A classic provider: prints what its callback receives, and writes each number until it is accepted. Children write as many.
fn classic(children: u64) {
    use etw::evntrace::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    static LOGGER: AtomicU64 = AtomicU64::new(0);
    let told = |request: &ControlRequest| {
        LOGGER.store(request.logger.0, Ordering::Relaxed);
        say(&format!("{:?} {} {}\n", request.code, request.level.0, request.flags));
        etw::Status::ERROR_SUCCESS
    };
    let callback = std::sync::Arc::new(told);
    register_trace_guids(&crate::classic_providers::CONTROL, TraceClasses::default(), callback)
        .unwrap();
    say("ready\n");
    for number in 0u64.. {
        let write = || loop {
            let class =
                etw::EventClass { guid: crate::classic_providers::CLASS, ..Default::default() };
            let logger = LoggerHandle(LOGGER.load(Ordering::Relaxed));
            if trace_event(logger, class, None, &[&number.to_le_bytes()]).is_success() {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        };
        // SAFETY: the child writes an event and ends.
        match if number < children { unsafe { libc::fork() } } else { -1 } {
            -1 => write(),
            0 => {
                write();
                // SAFETY: ends the child without the parent's handlers.
                unsafe { libc::_exit(0) };
            }
            child => {
                let mut status = 0;
                // SAFETY: a child of this process, and an out pointer.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(status, 0);
            }
        }
        if number % 100 == 99 {
            say(&format!("{}\n", number + 1));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn runtime() -> etwd::HostOptions {
    let directory = std::env::var_os(etw_wire::runtime_directory::VARIABLE).unwrap();
    etwd::HostOptions { logs: logs(), ..etwd::HostOptions::new(directory) }
}

/// The daemon's first process; the second one is this binary again. With a number, it starts with that limit of descriptors.
fn keeper(arguments: &[u64]) {
    if let Some(&most) = arguments.first() {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: pointers to a value of that kind.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
            limit.rlim_cur = most;
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        }
    }
    // SAFETY: no other thread reads the environment yet.
    unsafe { std::env::set_var("ETW_TEST_ROLE", "worker") };
    if let Ok(limit) = std::env::var("ETW_TEST_LIMIT") {
        let (which, size) = limit.split_once(' ').unwrap();
        limit_to(which.parse().unwrap(), size.parse().unwrap());
    }
    if let Some(place) = std::env::var_os("ETW_TEST_SMALL_DISK") {
        say(if small_disk(&place) { "small disk\n" } else { "no small disk\n" });
    }
    let program = std::env::current_exe().unwrap();
    let arguments = ["program_roles::run", "--exact", "--nocapture", "--test-threads=1"];
    etwd::keep(&runtime(), &program, &arguments).unwrap();
}

/// Mounts half a MiB that this process and its children see at that path.
fn small_disk(place: &std::ffi::OsStr) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let place = std::ffi::CString::new(place.as_bytes()).unwrap();
    let (none, flags) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: C strings, and null where nothing is asked.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) == 0
            && libc::mount(
                c"none".as_ptr(),
                place.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                c"size=512k".as_ptr().cast(),
            ) == 0
    }
}

fn limit_to(which: u64, size: u64) {
    let limit = libc::rlimit { rlim_cur: size, rlim_max: size };
    // SAFETY: a pointer to a value of that kind.
    assert_eq!(unsafe { libc::setrlimit(which as _, &raw const limit) }, 0);
}

/// A program at a limit, whose events cannot be written.
fn limited(which: u64, size: u64) {
    let mut size = size;
    if which == u64::from(libc::RLIMIT_AS) {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        size += pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096;
    }
    limit_to(which, size);
    let _registration = PROVIDER.register();
    let taken = (0..100).filter(|number| write(0, *number).is_success()).count();
    let enabled = PROVIDER.is_enabled(etw::Level::INFO, etw::Keyword(0x10));
    // Created by this thread, which blocks no signal.
    let session = etw::Session::builder("limited").memory().pool_size(8 << 20, 8 << 20).start();
    say(&format!("enabled {enabled}, {taken} taken, session {}\n", session.is_ok()));
}

/// Writes so many events from other user, mount, PID and time namespaces; `offset`: of the time, in seconds. Prints the
/// writers' ids.
fn elsewhere(events: u64, offset: u64) {
    // Only a process with one thread can create a user namespace: a child.
    // SAFETY: the children write events and end.
    unsafe {
        let middle = libc::fork();
        if middle == 0 {
            let uid = libc::geteuid();
            let all =
                libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWTIME;
            let put = |name: &str, text: &str| std::fs::write(name, text).is_ok();
            let is_there = libc::unshare(all) == 0
                && put("/proc/self/uid_map", &format!("1000 {uid} 1"))
                && put("/proc/self/timens_offsets", &format!("monotonic {offset} 0"));
            if !is_there {
                say("forbidden\n");
                libc::_exit(0);
            }
            let inner = libc::fork();
            if inner == 0 {
                let none = std::ptr::null();
                let private = libc::MS_REC | libc::MS_PRIVATE;
                libc::mount(none, c"/".as_ptr(), none, private, none.cast());
                count(events, 0);
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(inner, &raw mut status, 0);
            say(&format!("{inner}\n"));
            libc::_exit(status);
        }
        let mut status = 0;
        libc::waitpid(middle, &raw mut status, 0);
        assert_eq!(status, 0);
    }
}

/// Starts children that register all at once, and write so many events each; prints their ids.
fn crowd(children: u64, events: u64) {
    let mut gate = [0; 2];
    let mut started = Vec::new();
    // SAFETY: an array of that kind; the children write events and end.
    unsafe {
        assert_eq!(libc::pipe(gate.as_mut_ptr()), 0);
        for _ in 0..children {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                libc::close(gate[1]);
                // Waits until the parent opens the gate for all.
                libc::read(gate[0], (&raw mut gate).cast(), 1);
                count(events, 0);
                libc::_exit(0);
            }
            started.push(child);
        }
        libc::close(gate[1]);
        for child in started {
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            assert_eq!(status, 0);
            say(&format!("{child}\n"));
        }
    }
}

/// Starts children that write so many events each, all at once; prints how many each has written.
fn storm(children: u64, events: u64) {
    let _registration = PROVIDER.register();
    say("ready\n");
    let mut started = Vec::new();
    for _ in 0..children {
        // SAFETY: the child writes events and ends.
        match unsafe { libc::fork() } {
            0 => {
                for number in 0..events {
                    while !write(1, number).is_success() {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
                // SAFETY: ends the child without the parent's handlers.
                unsafe { libc::_exit(0) };
            }
            child => started.push(child),
        }
        write(0, started.len() as u64 - 1);
    }
    for child in started {
        let mut status = 0;
        // SAFETY: a child of this process, and an out pointer.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        if status == 0 {
            say(&format!("child {child} {events}\n"));
        }
    }
}

/// Writes events without end; after the first ones it loads a library, and prints its path.
fn load() {
    let _registration = PROVIDER.register();
    for number in 0.. {
        write(0, number);
        std::thread::sleep(Duration::from_millis(1));
        if number == 20 {
            let libraries = [c"libresolv.so.2", c"libanl.so.1", c"libutil.so.1", c"libnsl.so.1"];
            // SAFETY: libraries of the system, whose initialisers do nothing.
            let is_loaded = |name: &&&std::ffi::CStr| unsafe {
                !libc::dlopen(name.as_ptr(), libc::RTLD_NOW).is_null()
            };
            let library = libraries.iter().find(is_loaded).expect("one of the system's libraries");
            say(&format!("{}\n", library.to_str().unwrap()));
        }
    }
}

/// Owns a session until it is killed.
fn lease() {
    use etw_wire::requests::{Request, StartRequest};
    let directory =
        std::path::PathBuf::from(std::env::var_os(etw_wire::runtime_directory::VARIABLE).unwrap());
    let start = SessionConfig {
        name: "leased".to_owned(),
        file: Some(directory.with_file_name("leased.etl")),
        independent: true,
        enable: vec![Enablement::new(crate::rig::provider(), crate::rig::all())],
        ..SessionConfig::default()
    };
    let client = etw_wire::host_client::Client::connect(&directory).unwrap();
    client.ask(&Request::start(StartRequest { config: start, leased: true })).unwrap();
    say("ready\n");
    last();
}

fn worker() {
    let keeper = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().unwrap();
    let sessions = std::env::var_os("ETW_TEST_SESSIONS").map(std::path::PathBuf::from);
    let host = etwd::begin_work(runtime(), keeper.into(), sessions.as_deref()).unwrap();
    host.wait();
}
